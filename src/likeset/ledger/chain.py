"""The hash chain: every entry carries the hash of the one before it, so that history cannot change unnoticed.

The chain is unkeyed. Whoever can write the file can also rewrite it from some entry on with hashes that fit;
what he cannot do is arrive at the same head. Keep the head (``Ledger.head``, one line of text) where he
cannot write, and ``verify(head=...)`` shows roll-back, truncation and rewriting: docs/proofs/ledger.md.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from likeset.errors import InvalidArgument

__all__ = ["START", "Entry", "Head", "Problem", "canonical", "check", "link"]

_DOMAIN = b"likeset ledger entry 1\n"
_HASH_BYTES = 32
_TYPES = (int, str, str, str, bytes, bytes)
_DECODER = json.JSONDecoder()


def canonical(document: Any) -> str:
    """The one way in which a document is written, so that equal documents have equal hashes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


class Entry(NamedTuple):
    """One line of the ledger; ``hash`` covers everything else in it.

    A tuple, for a long log is read whole whenever it is opened.
    """

    number: int
    kind: str
    key: str
    body: str
    previous: bytes
    hash: bytes

    def expected_hash(self) -> bytes:
        """The hash that the other columns call for."""
        number, kind, key, body = str(self.number).encode(), self.kind.encode(), self.key.encode(), self.body.encode()
        # Lengths keep the fields apart: moving a byte from one column to the next changes the hash.
        parts = (_DOMAIN, _size(number), number, _size(kind), kind, _size(key), key, _size(body), body, self.previous)
        return hashlib.sha256(b"".join(parts)).digest()

    def document(self) -> Any:
        """The body as plain data.

        Raises:
            ValueError: it is none.
        """
        document, end = _DECODER.raw_decode(self.body)
        if end != len(self.body):
            raise ValueError("something follows the document")
        return document


def _size(field: bytes) -> bytes:
    return len(field).to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry's number and hash: enough to hold the whole history before it to account."""

    number: int
    hash: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """The head that ``str`` wrote."""
        match = re.fullmatch(r"(\d{1,15}):([0-9a-f]{64})", text.strip().lower())
        if match is None:
            raise InvalidArgument(
                "head",
                repr(text[:80]),
                "must be NUMBER:HASH (64 hex digits), as `likeset ledger verify` prints it",
            )
        return cls(int(match[1]), bytes.fromhex(match[2]))

    def __str__(self) -> str:
        return f"{self.number}:{self.hash.hex()}"


START = Head(0, bytes(_HASH_BYTES))
"""The head of a ledger without entries."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not hold: at which entry (0 for the ledger as a whole), and what."""

    number: int
    what: str

    def __str__(self) -> str:
        return f"entry {self.number}: {self.what}" if self.number else self.what


def link(head: Head, *, kind: str, key: str, body: str) -> Entry:
    """The entry that follows ``head``."""
    entry = Entry(head.number + 1, kind, key, body, head.hash, b"")
    return Entry(entry.number, kind, key, body, head.hash, entry.expected_hash())


def check(rows: Iterable[tuple[Any, ...]], after: Head = START) -> Iterator[Entry | Problem]:
    """Each stored row as an entry, or what is wrong with it.

    Args:
        rows: (number, kind, key, body, previous, hash), in the order of their numbers.
        after: the head that the first row must follow.
    """
    number, last = after.number, after.hash
    for row in rows:
        if tuple(map(type, row)) != _TYPES:
            yield Problem(number + 1, "a column holds the wrong type of value")
            return
        entry = Entry._make(row)
        if entry.number != number + 1:
            yield Problem(number + 1, f"is missing or out of order (entry {entry.number} comes instead)")
        elif entry.previous != last:
            yield Problem(entry.number, "does not follow the entry before it")
        elif entry.hash != entry.expected_hash():
            yield Problem(entry.number, "was altered: its content does not match its hash")
        else:
            yield entry
        number, last = entry.number, entry.hash
