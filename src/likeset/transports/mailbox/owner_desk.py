"""An owner at a mailbox: terms come in, and the node's word on them goes out; letters come in, and answers go out.

Others hear what they would hear by any transport: that this owner takes part, waits for a decision or abstains, and
replies of the protocol. What is refused stands in the node's audit log. The node, with its ledger and its data sets, is
opened when something comes, or when somebody here may have decided, and not before.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

from likeset.errors import HomeRestored, IllegalMessage, LikesetError, TermsExpired
from likeset.homes.home import ABSTAINS, READY, WAITING
from likeset.homes.mail import (
    Identity,
    Invitation,
    SiteRun,
    acknowledging_party,
    check_not_expired,
    most_bytes_to_owner,
    utc_now,
)
from likeset.homes.owner.site import NodeRun, owner_run
from likeset.homes.owner_node import Home, OwnerNode
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.transports.mailbox.desk import TRANSIENT, MailDesk
from likeset.transports.mailbox.memory import Answer, KnownRun
from likeset.transports.mailbox.postman import Arrived
from likeset.transports.stores import Store
from likeset.trust.cards import Pin
from likeset.trust.letters import PostKind, is_acceptance, is_stub

_OWN = ""  # in the place of a party: what this home said itself


@dataclass(eq=False)
class OwnerDesk(MailDesk):
    """An owner at a mailbox.

    Args:
        refused: told what is refused before the home's side of a run has heard of it, in fixed words.
        decided: something that changes whenever somebody may have decided; None where only asking tells.
        ended: called once the terms of a run have ended.
        on_close: called when the desk is closed.
    """

    refused: Callable[[str], None] = field(default=lambda _reason: None, kw_only=True)
    decided: Callable[[], object] = field(default=object, kw_only=True)
    ended: Callable[[], None] = field(default=lambda: None, kw_only=True)
    on_close: Callable[[], None] = field(default=lambda: None, kw_only=True)
    _over: set[bytes] = field(default_factory=set, init=False)

    def close(self) -> None:
        super().close()
        self.on_close()

    def _visit(self) -> None:
        over = {run.terms for run in self.runs.values() if self.clock() >= run.ends}
        if over - self._over:
            self.ended()
            self._over |= over
        peers = [pin for pin in self.identity.pins.all() if pin.state == "pinned" and pin.role != "owner"]
        pins = {pin.card.fingerprint: pin for pin in peers}
        self.take_from(
            [pin.card for pin in peers],
            wanted=lambda card, kind, terms: self._wanted(pins[card.fingerprint], kind, terms),
            take=lambda card, arrived: self._take(pins[card.fingerprint], arrived),
        )
        for run in self.runs.values():
            self._say_standing(run)
        for pin in peers:
            self.postman.look_after(pin.card)

    # What may come.

    def most_letter(self, terms: Terms, party: str) -> int:  # noqa: ARG002 - it is the same for all
        return most_bytes_to_owner(terms)

    def _wanted(self, pin: Pin, kind: PostKind, terms: bytes) -> bool:
        if kind != "letter":
            return True
        if not self._knows(terms):
            return False  # its terms may still come
        return pin.role == "consumer" or CURATOR in self.identity.book.introduced(terms)

    def _knows(self, terms: bytes) -> bool:
        """Whether a run is followed here; one that the letter book knows is, also if the desk forgot it."""
        if terms not in self.runs:
            kept = self.identity.book.run_keys(terms)
            if kept is None or kept.secret is None:
                return False  # not known, or over: nothing in it is answered any more
            self.add_run(Invitation.read(kept.invitation))
        return True

    def _take(self, pin: Pin, arrived: Arrived) -> None:
        try:
            if arrived.post.kind == "terms" and pin.role == "consumer":
                self.postman.take(arrived, "heard" if self._take_terms(pin, arrived) else "refused")
            elif arrived.post.kind == "letter":
                self.postman.take(arrived, "heard" if self._take_letter(pin, arrived) else "refused")
            else:
                self.refused(f"a post that no {pin.role} leaves for an owner")
                self.postman.take(arrived, "refused")
        except TRANSIENT as error:
            self.postman.tally.left += 1
            self.postman.note(f"a post of {pin.card.name} waits: {error}")

    def _take_terms(self, pin: Pin, arrived: Arrived) -> bool:
        try:
            invitation = self.read_terms(arrived, pin.card)
            if self.party(invitation.terms) not in invitation.terms.owners:
                raise IllegalMessage(f"run {invitation.terms.run}: the terms do not name this home as an owner")
            self.add_run(invitation)
        except LikesetError as error:
            self.refused(f"{type(error).__name__}: {error}")
            return False
        return True

    def _take_letter(self, pin: Pin, arrived: Arrived) -> bool:
        run = self.runs[arrived.post.terms]
        data, writer = arrived.post.document, self._writer(pin, run)
        if writer is None:
            self.refused("a letter under terms that name another card for its writer")
            return False
        replies = self.heard(lambda: self._hearing(run).hear(data))
        if isinstance(replies, Exception):
            comes_back = is_stub(data) or is_acceptance(data)
            if not comes_back and self._told(run).word == READY:
                waits = acknowledging_party(self.terms(run))
                self.send(run, waits, "standing", ABSTAINS.encode())  # as by every transport: one word, and no reason
            return False
        self._acknowledge(run)
        self.send_back(run, writer, replies)
        return True

    def _writer(self, pin: Pin, run: KnownRun) -> str | None:
        terms = self.terms(run)
        party = terms.consumer if pin.role == "consumer" else CURATOR
        return party if terms.cards[party] == pin.card.fingerprint else None  # no witness writes to an owner

    def _hearing(self, run: KnownRun) -> SiteRun:
        try:
            check_not_expired(self.terms(run), self.clock())
        except TermsExpired as error:
            self.refused(str(error))
            raise
        side = self.side(run)
        if side is None:
            self.refused("nobody at this site has decided yet")
            raise IllegalMessage("nobody at this site has decided yet")
        return side

    def _acknowledge(self, run: KnownRun) -> None:
        """A letter came: whoever wrote it has what this owner signed."""
        self.remove(run, "acceptance")

    # Whether it takes part.

    def _told(self, run: KnownRun) -> Answer:
        """What the consumer was told last, and what the home looked like then."""
        return self.memory.answer_of(run.terms, _OWN) or Answer("")

    def _say_standing(self, run: KnownRun) -> None:
        """Tell the consumer whether this owner takes part, if that is not what it was told before.

        While a decision is waited for, the node is asked at each look: a commit of another process is in the ledger's
        files before readers see it, so that files tell too early. An owner that abstains is asked again only when
        something changed.
        """
        told, before = self._told(run), self._stamp()
        if told.word == READY or self.clock() >= run.ends or (told.word == ABSTAINS and told.document == before):
            return
        try:
            word, document = self._standing(run)
        except TRANSIENT as error:
            self.postman.note(f"run {self.terms(run).run} waits: {error}")
            return
        if word != told.word and not self._tell(run, word, document):
            return
        # A refusal is itself written down, and is no decision. Who decides while it is asked is heard at the next look.
        self.memory.answer(run.terms, _OWN, Answer(word, self._stamp() if word == ABSTAINS else before))

    def _tell(self, run: KnownRun, word: str, document: bytes) -> bool:
        terms = self.terms(run)
        if word == WAITING:
            how = f"likeset owner review {terms.run}"
            self.postman.note(f"run {terms.run} of {terms.consumer} waits for a decision: {how}")
        kind: PostKind = "acceptance" if word == READY else "standing"
        if not self.send(run, terms.consumer, kind, document, instead=True):
            return False
        self.remove(run, "standing", party=terms.consumer, but=document)
        return True

    def _stamp(self) -> bytes:
        return repr(self.decided()).encode()

    def _standing(self, run: KnownRun) -> tuple[str, bytes]:
        try:
            check_not_expired(self.terms(run), self.clock())
            side = self.side(run)
            if side is None:
                return WAITING, WAITING.encode()
            return READY, side.acceptance()
        except (HomeRestored, *TRANSIENT):
            raise
        except Exception:
            self.forget_side(run)  # somebody may decide otherwise
            return ABSTAINS, ABSTAINS.encode()

    def _is_settled(self, run: KnownRun, /) -> bool:
        # The consumer's receipt in a split run says nothing of the others: their parts lie there until the terms end.
        return super()._is_settled(run) and self.terms(run).split is None


def owner_desk(folder: Path, store: Store, *, clock: Callable[[], datetime] = utc_now) -> OwnerDesk:
    """An owner's desk at one mailbox; an owner with several mailboxes has several desks.

    Args:
        folder: the node's directory.
        store: the mailbox.
        clock: tells the time.

    Raises:
        LikesetError: this is no node, or it has no keys.
    """
    home = Home(folder)
    home.check()
    opened = _NodeOpenedLate(folder, clock)

    def seat(invitation: Invitation, _name: str, _folder: Path) -> NodeRun | None:
        return owner_run(opened.node, invitation)

    return OwnerDesk(
        folder,
        store,
        seat,
        Identity.of(folder, clock=clock),
        clock,
        refused=lambda reason: opened.node.refused(reason),
        decided=lambda: _stamps(home),
        ended=lambda: opened.node.settle_ended(),
        on_close=opened.close,
    )


@dataclass(eq=False)
class _NodeOpenedLate:
    folder: Path
    clock: Callable[[], datetime]

    @cached_property
    def node(self) -> OwnerNode:
        return OwnerNode(self.folder, clock=self.clock)

    def close(self) -> None:
        if "node" in self.__dict__:
            self.node.close()


def _stamps(home: Home) -> tuple[object, ...]:
    """What changes whenever somebody decides, changes the policy, pins a card or adds rows."""
    log = home.ledger.with_name(home.ledger.name + "-wal")
    return tuple(_stamp(path) for path in (home.ledger, log, home.policy, home.cards, home.data))


def _stamp(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
