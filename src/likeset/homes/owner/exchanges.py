"""What was heard in a run and what was answered: the literal bytes, in their order.

Each message that an owner hears is kept with its replies before the first of them leaves. So a repeated message gets
the same bytes, and a node that was restarted finds its way back by hearing the same messages again. How they are kept,
which is in the ledger's journal, is known to ``ExchangeRecord`` and ``exchanges`` alone.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from likeset.errors import LedgerUnreadable
from likeset.homes.owner.run_records import HEARD
from likeset.ledger import Ledger, Request, Transaction
from likeset.privacy.events import Event, NoRelease
from likeset.privacy.guarantee import View
from likeset.protocol.messages import Delivery, Message, Offer, decode
from likeset.protocol.split.shared_replies import is_kept_offer, shared_replies, slots_in
from likeset.protocol.split.split_messages import OfferShare
from likeset.protocol.steps import ChargeWanted, Draw

__all__ = ["Exchange", "ExchangeRecord", "exchanges", "forget_exchanges", "rows_in"]

_MAGIC = b"LSX1"
_HEAD = struct.Struct("<4sQ")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message that was heard, and what was answered.

    Attributes:
        entry: the ledger's entry that reserved it; 0 if there is none: a crash came first, and nothing was sent.
        run: of the run.
        at: when the replies were stored (UTC).
        heard: the message's bytes.
        kept: what was drawn for it: the reply, or in a split run everything that its replies are made of.
    """

    entry: int
    run: str
    at: str
    heard: bytes = field(repr=False)
    kept: bytes = field(repr=False)

    @property
    def replies(self) -> tuple[bytes, ...]:
        """The bytes of each reply."""
        return tuple(reply.data for reply in _shared(self.heard, self.kept)) or ((self.kept,) if self.kept else ())


@dataclass(eq=False)
class ExchangeRecord:
    """A message that was heard becomes one request, and what was answered its record: charged and kept together.

    Args:
        transaction: in which everything is written; replies may leave when it is over.
        owner: the owner's name.
        message: that was heard.
        story: a digest of all that was heard before, which the answer follows from as well: what a crash left is no
            answer to somebody who said something else in between.

    Attributes:
        entry: the ledger's entry that reserved it.
    """

    transaction: Transaction
    owner: str
    message: Message
    story: bytes
    entry: int = field(default=0, init=False)

    def charge(self, wanted: ChargeWanted) -> bytes:
        """Charge for an answer and keep it; returns what was kept first.

        What an owner draws follows from its key, so that it may be drawn before the charge is on the disk; nothing
        leaves before that. The ledger refuses a draw with coins, whose charge must be on the disk first.

        Raises:
            ChargeRefused: it is drawn with coins.
            DifferentRequest: another message came in its place before.
            MessagePurged: it was answered, and the answer was removed.
        """
        return self._kept(
            wanted.costs,
            wanted.draw,
            rows=wanted.rows,
            readable=wanted.readable,
            content=wanted.content,
            keyed=wanted.repeatable,
        )

    def keep(self, replies: tuple[Message, ...]) -> tuple[bytes, ...]:
        """Keep an answer that costs nothing; returns the replies that were kept first.

        Raises:
            DifferentRequest: another message came in its place before.
            MessagePurged: it was answered, and the answer was removed.
        """
        reply = b"".join(reply.data for reply in replies)  # no owner has more than one
        kept = self._kept(((View.curator(self.owner), NoRelease()),), lambda: (reply, None))
        return (kept,) if kept else ()

    def _kept(
        self,
        costs: tuple[tuple[View, Event], ...],
        draw: Draw,
        *,
        rows: int = 0,
        readable: int | None = None,
        content: bytes = b"",
        keyed: bool = True,
    ) -> bytes:
        kind = f"{HEARD}{self.message.body.kind}"
        (view, event), *others = costs
        content = self.story + self.message.data + content
        request = Request(self.message.run, self.message.round, kind, content=content)
        charged = self.transaction.reserve(
            view,
            event,
            request=request,
            rows=rows,
            readable=readable,
            also=others,
            unfinished="resume" if keyed else "refuse",
        )
        self.entry = charged.number
        answer = charged.answer
        if answer is None:
            reply, release = draw()
            answer = self.transaction.commit(charged, _packed(self.message.data, reply), release=release)
        return _unpacked(answer)[1]


def exchanges(ledger: Ledger, run: str | None = None) -> list[Exchange]:
    """All that was heard and answered (in one run), in order; what was purged is missing."""
    messages = [stored for stored in ledger.messages(run=run) if stored.kind.startswith(HEARD)]
    reserved = ledger.reservations((stored.key, stored.fingerprint) for stored in messages)
    heard_and_answered = []
    for stored in messages:
        heard, reply = _unpacked(stored.message)
        entry = reserved.get((stored.key, stored.fingerprint), 0)
        heard_and_answered.append(Exchange(entry, stored.run, stored.at, heard, reply))
    return heard_and_answered


def forget_exchanges(ledger: Ledger, runs: Iterable[str]) -> None:
    """Remove all that was heard and answered in runs; that it was stays on record."""
    for run in runs:
        if ledger.messages(run=run):
            ledger.purge(run=run)


def rows_in(replies: Iterable[Message]) -> int:
    """How many rows these messages disclose, or offer: parts of one offer are the same rows."""
    bodies = [reply.body for reply in replies]
    shared = max((slots_in(body) for body in bodies if isinstance(body, OfferShare)), default=0)
    return shared + sum(len(body.rows) for body in bodies if isinstance(body, Offer | Delivery))


def _shared(heard: bytes, kept: bytes) -> tuple[Message, ...]:
    """The parts of an offer in a split run; none where something else was kept."""
    return shared_replies(decode(heard), kept) if is_kept_offer(kept) else ()


def _packed(heard: bytes, reply: bytes) -> bytes:
    return b"".join([_HEAD.pack(_MAGIC, len(heard)), heard, reply])


def _unpacked(data: bytes) -> tuple[bytes, bytes]:
    """What was heard, and the reply; empty if there was none."""
    if len(data) < _HEAD.size:
        raise LedgerUnreadable("journal: a stored exchange is damaged")
    magic, length = _HEAD.unpack_from(data)
    if magic != _MAGIC or len(data) < _HEAD.size + length:
        raise LedgerUnreadable("journal: a stored exchange is damaged")
    return data[_HEAD.size : _HEAD.size + length], data[_HEAD.size + length :]
