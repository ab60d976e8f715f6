"""Everybody in a run but one owner, who writes letters to that owner's node, and whoever else writes to it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from card_world import give_card, introduce
from node_world import call, logged

from likeset.homes.mail import Correspondence, Identity, Invitation
from likeset.homes.owner_node import NodeRun, OwnerNode, owner_run
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Message, Offer
from likeset.trust.cards import CardSecret
from likeset.trust.letters import letter_in, write_letter

_MOST_BYTES = 1 << 24


def make_home(folder: Path, name: str, run: Terms) -> Identity:
    """A home with the card of a party of a run, who has pinned whom it must."""
    folder.mkdir(parents=True, exist_ok=True)
    give_card(folder, name)
    if name != run.consumer:
        introduce(folder, run)
    return Identity.of(folder)


@dataclass
class Outside:
    """The consumer and the curator of a run, each with a home of its own.

    Attributes:
        place: where their homes are.
        run: the terms.
        owner: to whom they write.
    """

    place: Path
    run: Terms
    owner: str = "a"
    invitation: Invitation = field(init=False)
    consumer: Correspondence = field(init=False)
    curator: Correspondence = field(init=False)

    def __post_init__(self) -> None:
        consumer, curator = (make_home(self.place / name, name, self.run) for name in (self.run.consumer, CURATOR))
        self.invitation = Invitation.sign(self.run, consumer)
        self.consumer = Correspondence(consumer, self.invitation, self.run.consumer)
        self.curator = Correspondence(curator, self.invitation, CURATOR)

    def release(self, acceptance: bytes, message: Message | None = None) -> bytes:
        """The consumer's letter with which the run begins at the owner, who accepted."""
        self.curator.introduce([acceptance])
        accepted = [self.curator.acceptance(), acceptance]
        (letter,) = self.consumer.begin(accepted, lambda: (message or call(self.run, self.owner),))
        return letter

    def ask(self, message: Message) -> bytes:
        """A letter of the curator, to whom the owner was introduced."""
        (letter,) = self.curator.write([message])
        return letter

    def read(self, data: bytes) -> Message:
        """What the curator reads in a letter of the owner."""
        message = self.curator.read(data, most_bytes=_MOST_BYTES).message
        assert message is not None
        return message

    def forged(
        self, node: OwnerNode, writer: CardSecret, message: Message | None = None, *, said: bytes = b"", **changes: Any
    ) -> bytes:
        """A letter of anybody to the owner, sealed to its key for the run, which others may know; it says ``said``."""
        keys = node.book.run_keys(bytes.fromhex(self.run.digest))
        assert keys is not None
        assert keys.secret is not None
        message = message or call(self.run, self.owner)
        options: dict[str, Any] = {
            "recipient": node.identity.secret.card,
            "recipient_key": keys.secret.public,
            "run_id": bytes.fromhex(self.run.run_id),
            "terms": bytes.fromhex(self.run.digest),
            "round": message.round,
            "number": 0,
            "message": said or message.data,
            "enclosures": (self.curator.acceptance(),),
            **changes,
        }
        return write_letter(writer, **options).data

    @staticmethod
    def parts(data: bytes) -> Any:
        """A letter, in its parts."""
        return letter_in(data, most_bytes=_MOST_BYTES)


def seated(node: OwnerNode, outside: Outside, *, by: str = "Ada") -> NodeRun:
    """The node's side of the run, which its steward has approved."""
    run = outside.run
    introduce(node.home.folder, run)
    assert owner_run(node, outside.invitation) is None
    assert node.approve(run.run, run.digest, by=by).accepted
    made = owner_run(node, outside.invitation)
    assert made is not None
    return made


def handles_in(message: Message) -> Any:
    """The handles of the rows in an offer."""
    assert isinstance(message.body, Offer)
    return message.body.handles


def reasons_of_refusals(node: OwnerNode) -> list[str]:
    """Why the node refused what it refused, as its audit log says, in order."""
    return [entry["reason"] for entry in logged(node, "refused")]
