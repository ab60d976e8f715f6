"""What passed between the curator and one owner, as each side keeps it, and where two copies differ.

A transcript names messages by their SHA-256 and says how many rows were in them; it holds no row. It is for the two
sides alone: whoever could guess a message could find it in there.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

from likeset.errors import BadDocument
from likeset.ledger.store import Layout, Store
from likeset.protocol.messages import Delivery, Message, Offer, decode
from likeset.protocol.party import CURATOR

__all__ = [
    "FROM_OWNER",
    "TO_OWNER",
    "CuratorTranscripts",
    "Difference",
    "Line",
    "Slot",
    "Transcript",
    "compare",
    "differences",
    "line_of",
    "other_names",
    "read_transcript",
    "transcript_in",
]

Way = Literal["from owner", "to owner"]
FROM_OWNER: Final = "from owner"
TO_OWNER: Final = "to owner"
Slot = tuple[str, int, str]
"""Way, round and kind of a message; in a run there is one of each."""

_FIELDS = {"way": str, "round": int, "kind": str, "digest": str, "bytes": int, "rows": int}
_KIND, _DIGEST = re.compile(r"[a-z-]{1,40}"), re.compile(r"[0-9a-f]{64}")
_LARGEST = 1 << 53
_LAYOUT = Layout(
    what="transcripts",
    application_id=0x4C_53_54_31,  # "LST1"
    version=1,
    statements=(
        """CREATE TABLE lines (
            terms TEXT, run TEXT NOT NULL, owner TEXT, way TEXT, round INTEGER, kind TEXT,
            digest TEXT NOT NULL, bytes INTEGER NOT NULL, rows INTEGER NOT NULL,
            PRIMARY KEY (terms, owner, way, round, kind)
        ) WITHOUT ROWID""",
    ),
)
_ADD = "INSERT OR IGNORE INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FIND = "SELECT terms, owner, round, way, kind, digest, bytes, rows FROM lines WHERE run = ?"


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """One message.

    Attributes:
        round: of the run.
        way: from the owner to the curator, or to the owner.
        kind: of the message.
        digest: SHA-256 of its bytes.
        bytes: how many there are.
        rows: how many rows of the owner are in it.
    """

    round: int
    way: Way
    kind: str
    digest: str
    bytes: int
    rows: int

    @property
    def slot(self) -> Slot:
        """Of the message in the run; no other may stand there."""
        return self.way, self.round, self.kind

    def __str__(self) -> str:
        """In words."""
        return f"{self.kind} {self.way}, round {self.round}"


@dataclass(frozen=True, slots=True)
class Transcript:
    """All messages between the curator and one owner in one run, as one side kept them.

    Attributes:
        run: its name.
        terms: digest of the terms that hold.
        owner: whose messages.
        lines: in the order of rounds.
        purged: slots of further messages, which this side knows of, and whose bytes it has removed.
    """

    run: str
    terms: str
    owner: str
    lines: tuple[Line, ...]
    purged: frozenset[Slot] = field(default=frozenset(), compare=False)

    @property
    def rows(self) -> int:
        """Rows of the owner in all of them."""
        return sum(line.rows for line in self.lines)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        lines = [asdict(line) for line in self.lines]
        return {"run": self.run, "terms": self.terms, "owner": self.owner, "lines": lines}


def line_of(data: bytes, *, owner: str) -> Line:
    """The line of a message."""
    message = decode(data)
    way: Way = FROM_OWNER if message.sender == owner else TO_OWNER
    rows = len(message.body.rows) if isinstance(message.body, Offer | Delivery) else 0
    return Line(message.round, way, message.body.kind, hashlib.sha256(data).hexdigest(), len(data), rows)


# Where two copies differ.

_IN_WORDS = {
    "another message": "the two copies are not of the same message",
    "never said": "the owner heard it; the curator did not say it",
    "never sent": "the curator acknowledges it ({rows} rows); the owner did not send it",
    "not acknowledged": "left the owner ({rows} rows); the curator did not acknowledge it",
    "not answered": "the curator said it; the owner did not answer it",
    "removed": "the owner removed its copy of it, so the two cannot be compared",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One message that is not the same in both copies.

    Attributes:
        line: of the message; the owner's where both have one.
        kind: what differs.
    """

    line: Line
    kind: Literal["another message", "never said", "never sent", "not acknowledged", "not answered", "removed"]

    @property
    def contradicts(self) -> bool:
        """Whether one of the copies must be wrong; else a message that was lost or removed explains it."""
        return self.kind in ("another message", "never said", "never sent")

    def __str__(self) -> str:
        """In words."""
        return f"{self.line}: {_IN_WORDS[self.kind].format(rows=self.line.rows)}"


def other_names(owner: Transcript, curator: Transcript) -> list[str]:
    """Where the two copies are not of the same run, terms or owner; then their lines cannot be compared."""
    named = (
        ("run", owner.run, curator.run),
        ("terms", owner.terms, curator.terms),
        ("owner", owner.owner, curator.owner),
    )
    return [
        f"{what}: the owner's copy says {mine}, the curator's {theirs}"
        for what, mine, theirs in named
        if mine != theirs
    ]


def differences(owner: Transcript, curator: Transcript) -> Iterator[Difference]:
    """The messages that are not the same in both copies.

    A message that was lost on its way is in its sender's copy alone: that is worth knowing, and no contradiction. One
    that was received and never sent is.
    """
    mine, theirs = ({line.slot: line for line in copy.lines} for copy in (owner, curator))
    for slot in sorted(mine.keys() | theirs.keys(), key=lambda slot: (slot[1], slot)):
        own, other = mine.get(slot), theirs.get(slot)
        if own is not None:
            if other is None:
                yield Difference(own, "not acknowledged" if own.way == FROM_OWNER else "never said")
            elif own != other:
                yield Difference(own, "another message")
        elif other is not None:
            if slot in owner.purged:
                yield Difference(other, "removed")
            else:
                yield Difference(other, "never sent" if other.way == FROM_OWNER else "not answered")


def compare(owner: Transcript, curator: Transcript) -> tuple[list[str], list[str]]:
    """Where two copies contradict each other, and what only one of them knows, in words."""
    if problems := other_names(owner, curator):
        return problems, []
    notes: list[str] = []
    for difference in differences(owner, curator):
        (problems if difference.contradicts else notes).append(str(difference))
    return problems, notes


# In files.


def transcript_in(name: str, document: Any) -> Transcript:
    """The transcript in a document; ``name`` stands for it in errors.

    Raises:
        BadDocument: there is none.
    """
    if not isinstance(document, dict) or not all(
        isinstance(document.get(key), str) for key in ("run", "terms", "owner")
    ):
        raise BadDocument(name, "is no transcript: it names no run, terms or owner")
    return Transcript(document["run"], document["terms"], document["owner"], _lines(name, document.get("lines")))


def read_transcript(path: Path) -> Transcript:
    """A copy that ``likeset transcript show --json`` wrote."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadDocument(str(path), "cannot be read as a transcript") from error
    return transcript_in(str(path), document)


def _lines(name: str, entries: Any) -> tuple[Line, ...]:
    if not isinstance(entries, list):
        raise BadDocument(name, "must be a list", field="lines")
    lines = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or {key: type(value) for key, value in entry.items()} != _FIELDS:
            raise BadDocument(name, f"entry {number} is no line of a transcript", field="lines")
        if entry["way"] not in (FROM_OWNER, TO_OWNER):
            raise BadDocument(name, f"entry {number} goes neither to the owner nor from it", field="lines")
        numbers = [entry[key] for key in ("round", "bytes", "rows")]
        if min(numbers) < 0 or max(numbers) > _LARGEST or (entry["way"] == TO_OWNER and entry["rows"]):
            raise BadDocument(name, f"entry {number} has numbers that no message has", field="lines")
        if _KIND.fullmatch(entry["kind"]) is None or _DIGEST.fullmatch(entry["digest"]) is None:
            raise BadDocument(name, f"entry {number} names no kind of message, or no digest", field="lines")
        lines.append(Line(**entry))
    if len({line.slot for line in lines}) < len(lines):
        raise BadDocument(name, "two messages stand in one place", field="lines")
    return tuple(sorted(lines))


class CuratorTranscripts:
    """The curator's copies of all runs in one file; a line is on disk before its message is answered or leaves.

    Args:
        path: the file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._store = Store(path, layout=_LAYOUT)

    def keep(self, messages: Iterable[Message]) -> None:
        """Write messages down, all or none; one that is there already is left as it is."""
        values = []
        for message in messages:
            owner = message.receiver if message.sender == CURATOR else message.sender
            line = line_of(message.data, owner=owner)
            values.append((message.terms, message.run, owner, *line.slot, line.digest, line.bytes, line.rows))
        if values:
            with self._store.writing() as connection:
                connection.executemany(_ADD, values)

    def of_run(self, run: str) -> list[Transcript]:
        """The copies of a run, owner by owner; of several versions of its terms one after the other."""
        copies: dict[tuple[str, str], list[Line]] = {}
        with self._store.reading() as connection:
            for terms, owner, *columns in connection.execute(_FIND, (run,)):
                copies.setdefault((terms, owner), []).append(Line(*columns))
        return [Transcript(run, terms, owner, tuple(sorted(lines))) for (terms, owner), lines in sorted(copies.items())]

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
