"""What was heard in a run and what was answered: the literal bytes, in their order, and the owner's transcript of them.

Each message that an owner hears is kept with its replies before the first of them leaves. So a repeated message gets
the same bytes, and a node that was restarted finds its way back by hearing the same messages again. How they are kept,
which is in the ledger's journal, is known to ``record`` and ``exchanges`` alone.
"""

import struct
from dataclasses import dataclass, field

from likeset.errors import LedgerUnreadable
from likeset.homes.owner.run_records import RunRecord
from likeset.homes.transcripts import FROM_OWNER, TO_OWNER, Line, Slot, Transcript, line_of
from likeset.ledger import Ledger, Request, Transaction
from likeset.privacy.events import NoRelease
from likeset.privacy.view import View
from likeset.protocol.messages import Delivery, Message, Offer, decode, encode

__all__ = ["Exchange", "exchanges", "record", "rows_in", "transcript_of"]

_MAGIC = b"LSX1"
_COUNT = struct.Struct("<4sI")
_LENGTH = struct.Struct("<Q")
_HEARD = "heard-"  # no party of a protocol has such a request, whatever its name, which stands before the last /


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message that was heard, and what was answered.

    Attributes:
        entry: the ledger's entry that reserved it; 0 if there is none: a crash came first, and nothing was sent.
        run: of the run.
        at: when the replies were stored (UTC).
        heard: the message's bytes.
        replies: the bytes of each reply.
    """

    entry: int
    run: str
    at: str
    heard: bytes = field(repr=False)
    replies: tuple[bytes, ...] = field(repr=False)


def record(
    transaction: Transaction, owner: str, message: Message, replies: tuple[Message, ...]
) -> tuple[int, tuple[bytes, ...]]:
    """Keep a message with its replies, once; returns the entry, and the replies that were kept first.

    Costs nothing: what leaves was charged when it was drawn. They may leave when the transaction is over.

    Raises:
        DifferentRequest: another message came in its place before, or another process found other replies to it.
        MessagePurged: it was answered, and the answer was removed.
    """
    heard = encode(message)
    request = Request(message.run, message.round, f"node/{_HEARD}{message.body.kind}", content=heard)
    kept = transaction.reserve(View.curator(owner), NoRelease(), request=request, unfinished="resume")
    answer = kept.answer
    if answer is None:
        answer = transaction.commit(kept, _packed([heard, *map(encode, replies)]))
    return kept.number, tuple(_unpacked(answer)[1:])


def exchanges(ledger: Ledger, run: str | None = None) -> list[Exchange]:
    """All that was heard and answered (in one run), in order; what was purged is missing."""
    reserved = {
        (entry.key, entry.document()["fingerprint"]): entry.number
        for entry in ledger.entries()
        if entry.kind == "reserve"
    }
    heard_and_answered = []
    for stored in ledger.messages(run=run):
        if stored.kind.rpartition("/")[2].startswith(_HEARD):
            heard, *replies = _unpacked(stored.message)
            entry = reserved.get((stored.key, stored.fingerprint), 0)
            heard_and_answered.append(Exchange(entry, stored.run, stored.at, heard, tuple(replies)))
    return heard_and_answered


def rows_in(replies: tuple[bytes, ...]) -> int:
    """How many rows these messages disclose."""
    bodies = [decode(reply).body for reply in replies]
    return sum(len(body.rows) for body in bodies if isinstance(body, Offer | Delivery))


def transcript_of(ledger: Ledger, record: RunRecord, *, owner: str) -> Transcript:
    """The owner's copy of a run's transcript.

    Replies that were stored and then held back, by a crash or a withdrawal, are not in it: they did not leave.

    Args:
        ledger: where its exchanges are.
        record: what the audit log says of the run.
        owner: its name.
    """
    lines, terms, entries = list[Line](), record.latest_digest, set[int]()
    for exchange in exchanges(ledger, record.run):
        terms = decode(exchange.heard).terms
        entries.add(exchange.entry)
        left = exchange.replies if exchange.entry in record.sent else ()
        lines += [line_of(data, owner=owner) for data in (exchange.heard, *left)]
    purged = set[Slot]()
    for entry, sent in record.sent.items():
        if entry not in entries:
            purged |= {(TO_OWNER, sent.round, sent.heard), *((FROM_OWNER, sent.round, kind) for kind in sent.replies)}
    return Transcript(record.run, terms, owner, tuple(sorted(lines)), frozenset(purged))


def _packed(parts: list[bytes]) -> bytes:
    lengths = b"".join(_LENGTH.pack(len(part)) for part in parts)
    return b"".join([_COUNT.pack(_MAGIC, len(parts)), lengths, *parts])


def _unpacked(data: bytes) -> list[bytes]:
    try:
        magic, count = _COUNT.unpack_from(data)
        lengths = [_LENGTH.unpack_from(data, _COUNT.size + number * _LENGTH.size)[0] for number in range(count)]
    except struct.error as error:
        raise LedgerUnreadable("journal: a stored exchange is damaged") from error
    start, parts = _COUNT.size + count * _LENGTH.size, []
    for length in lengths:
        parts.append(data[start : start + length])
        start += length
    if magic != _MAGIC or start != len(data) or not parts:
        raise LedgerUnreadable("journal: a stored exchange is damaged")
    return parts
