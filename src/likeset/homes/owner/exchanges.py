"""What was heard in a run and what was answered, in the ledger's journal: the literal bytes, in their order.

Each message that an owner hears is kept with its replies before the first of them leaves. So a repeated message gets
the same bytes, and a node that was restarted finds its way back by hearing the same messages again.
"""

import json
import struct
from dataclasses import dataclass, field

from likeset.errors import BadMessage, LedgerUnreadable
from likeset.ledger import Ledger, Request
from likeset.privacy.events import NoRelease
from likeset.privacy.view import View
from likeset.protocol.messages import Delivery, Message, Offer, decode, encode

__all__ = ["Exchange", "exchanges", "is_older", "record", "rows_in"]

_MAGIC = b"LSX1"
_COUNT = struct.Struct("<4sI")
_LENGTH = struct.Struct("<Q")
_HEARD = "heard-"  # no party of a protocol has such a request, whatever its name, which stands before the last /


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message that was heard, and what was answered.

    Attributes:
        entry: the ledger's entry that reserved it.
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


def record(ledger: Ledger, owner: str, message: Message, replies: tuple[Message, ...]) -> tuple[int, tuple[bytes, ...]]:
    """Keep a message with its replies, once; returns the entry, and the replies that were kept first.

    Costs nothing: what leaves was charged when it was drawn.

    Raises:
        DifferentRequest: another message came in its place before, or another process found other replies to it.
        MessagePurged: it was answered, and the answer was removed.
    """
    heard = encode(message)
    request = Request(message.run, message.round, f"node/{_HEARD}{message.body.kind}", content=heard)
    view = View.curator(owner)
    kept = ledger.reserve(view, NoRelease(), request=request, unfinished="resume")
    if kept.answer is None:
        ledger.commit(kept, _packed([heard, *map(encode, replies)]))
        kept = ledger.reserve(view, NoRelease(), request=request)  # another process may have been faster
    assert kept.answer is not None  # noqa: S101 - it was stored just now
    return kept.number, tuple(_unpacked(kept.answer)[1:])


def exchanges(ledger: Ledger, run: str | None = None) -> list[Exchange]:
    """All that was heard and answered (in one run), in order; what was purged is missing."""
    kinds = {entry.number: json.loads(entry.key) for entry in ledger.entries() if entry.kind == "reserve"}
    found = []
    for stored in ledger.messages(run=run):
        kind = kinds[stored.number][2] if stored.number in kinds else ""
        if kind.rpartition("/")[2].startswith(_HEARD):
            heard, *replies = _unpacked(stored.message)
            found.append(Exchange(stored.number, stored.run, stored.at, heard, tuple(replies)))
    return found


def is_older(data: bytes) -> bool:
    """Whether a message that was kept is of a format that is read no longer."""
    try:
        decode(data)
    except BadMessage:
        return True
    return False


def rows_in(replies: tuple[bytes, ...]) -> int:
    """How many rows these messages disclose."""
    bodies = [decode(reply).body for reply in replies]
    return sum(len(body.rows) for body in bodies if isinstance(body, Offer | Delivery))


def _packed(parts: list[bytes]) -> bytes:
    lengths = b"".join(_LENGTH.pack(len(part)) for part in parts)
    return b"".join([_COUNT.pack(_MAGIC, len(parts)), lengths, *parts])


def _unpacked(data: bytes) -> list[bytes]:
    try:
        magic, count = _COUNT.unpack_from(data)
        lengths = [_LENGTH.unpack_from(data, _COUNT.size + place * _LENGTH.size)[0] for place in range(count)]
    except struct.error as error:
        raise LedgerUnreadable("journal: a stored exchange is damaged") from error
    start, parts = _COUNT.size + count * _LENGTH.size, []
    for length in lengths:
        parts.append(data[start : start + length])
        start += length
    if magic != _MAGIC or start != len(data) or not parts:
        raise LedgerUnreadable("journal: a stored exchange is damaged")
    return parts
