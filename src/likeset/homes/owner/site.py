"""What an owner's NVFlare site names: ``"factory": "likeset.homes.owner.site:owner"``, with its directory."""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from likeset.errors import IllegalMessage
from likeset.homes import owner_node
from likeset.homes.home import ABSTAINS, READY, WAITING
from likeset.homes.mail import RECEIPT, Correspondence, HeardLetter, Invitation, OwnerRun, most_bytes_to_owner
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.party import last_call
from likeset.protocol.wire import Message
from likeset.trust.letters import is_acceptance, is_stub

_nodes: dict[tuple[Path, int], OwnerNode] = {}
_opening = threading.Lock()


@dataclass(eq=False)
class NodeRun(OwnerRun):
    """A run at an owner's node, which decides anew with each letter; what is refused is in its audit log.

    Args:
        node: the node, who answers.
    """

    node: OwnerNode = field(kw_only=True)
    _receipt_came: bool = field(default=False, init=False)  # with the letter that was heard last

    def acceptance(self) -> bytes:
        """What this node signs to take part; whatever was decided since, it signs nothing else.

        Raises:
            LikesetError: it does not take part (any more).
        """
        if self.absent or self.node.standing(self.terms.run, self.terms.digest) != READY:
            raise IllegalMessage(f"run {self.terms.run}: this owner does not take part; its audit log says why")
        return self.node.logging_refusals(self.terms.run, super().acceptance)

    def hear(self, data: bytes) -> tuple[bytes, ...]:
        """The letters that answer a letter; when a receipt for all that left is kept, the run's key goes.

        A letter that was answered before gets the same answer then, too, as long as the terms last: somebody may have
        lost it, and the run be held again.

        Raises:
            LikesetError: it is refused.
        """
        answered = self._answered_before(data)
        if answered is not None:
            return answered
        self._receipt_came = False
        replies = super().hear(data)
        # Also if it is kept already: a crash may have come between that and this.
        if self._receipt_came and self._nothing_can_follow():
            self.letters.settle(resend=True)
        return replies

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        self._receipt_came = heard.message is None
        return super()._replies(heard)

    def _answered_before(self, data: bytes) -> tuple[bytes, ...] | None:
        def look() -> tuple[bytes, ...] | None:
            is_own_paper = is_acceptance(data) or is_stub(data)  # which shows this home what it signed
            before = None if is_own_paper else self.letters.answered_before(data, most_bytes=self.most_bytes)
            if before is None:
                return None
            kind, answers = before
            if kind != RECEIPT:
                self.node.check_open(self.terms)
            return answers

        return self.node.logging_refusals(self.terms.run, look)

    def _nothing_can_follow(self) -> bool:
        """Whether this owner has said all that it will say in the run, and the curator acknowledged its rows."""
        record = self.node.runs.by_name[self.terms.run]
        kept = owner_node.kept_receipt(self.node, self.terms.run)
        over = record.withdrawn is not None or last_call(self.terms) in record.heard
        return over and kept is not None and kept.transcript.rows >= sum(sent.rows for sent in record.sent.values())


def owner(invitation: Invitation, name: str, folder: Path) -> OwnerRun | None:
    """The owner's side of a run; None while somebody here has still to decide.

    Whoever does not take part (any more) in a run that is known here is absent from it: nothing is answered, and a
    receipt for what left before is kept.

    Args:
        invitation: the signed terms.
        name: the site's name, which must be the node's.
        folder: the node's directory.

    Raises:
        LikesetError: this owner does not take part.
    """
    node = _node(folder)
    if node.name != name:
        raise IllegalMessage(f"the node in this directory is {node.name}, not {name}")
    return owner_run(node, invitation)


def owner_run(node: OwnerNode, invitation: Invitation) -> NodeRun | None:
    terms = invitation.terms
    standing = node.take_invitation(invitation.to_bytes())
    if standing == WAITING:
        return None
    if not node.runs.know(terms):
        raise IllegalMessage("this owner does not take part; its audit log says why")

    def keep(data: bytes) -> bool:
        return node.guarded(terms.run, lambda: owner_node.take(node, terms, data)) is True

    kept = node.runs.by_name[terms.run].invitation(terms.digest)  # whose key for the run came first
    letters = node.logging_refusals(terms.run, lambda: Correspondence(node.identity, kept, node.name))
    return NodeRun(
        letters,
        node,
        most_bytes_to_owner(terms),
        refused=lambda reason: node.refused(reason, run=terms.run),
        keep_receipt=keep,
        absent=standing == ABSTAINS,
        node=node,
    )


def refused(folder: Path, reason: str) -> None:
    """Write into the node's audit log what its site refused before it came to the node."""
    _node(folder).refused(reason)


def _node(folder: Path) -> OwnerNode:
    with _opening:
        place = (folder.resolve(), os.getpid())
        if place not in _nodes:
            _nodes[place] = OwnerNode(folder)
        return _nodes[place]
