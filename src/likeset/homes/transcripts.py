"""What passed between the curator and one owner, as each side kept it, and whether the two copies agree.

A transcript names messages by their SHA-256 and says how many rows were in them; it holds no row. It is for the two
sides alone: whoever could guess a message could find it in there.
"""

import hashlib
import json
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from likeset.errors import BadDocument, BadMessage
from likeset.homes.owner import exchanges
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.run_records import Sent
from likeset.protocol.messages import Delivery, Offer, decode

__all__ = [
    "Line",
    "Transcript",
    "compare",
    "kept_lines",
    "line_of",
    "of_node",
    "own_side",
    "read_lines",
    "read_transcript",
    "transcript_in",
]

FromOwner, ToOwner = "from owner", "to owner"
Way = Literal["from owner", "to owner"]
Place = tuple[str, int, str]
"""Way, round and kind of a message."""

_FIELDS = {"way": str, "round": int, "kind": str, "digest": str, "bytes": int, "rows": int}
_KIND, _DIGEST = re.compile(r"[a-z-]{1,40}"), re.compile(r"[0-9a-f]{64}")
_LARGEST = 1 << 53
_WITH_ROWS = (Offer.kind, Delivery.kind)


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
    def place(self) -> Place:
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
    """

    run: str
    terms: str
    owner: str
    lines: tuple[Line, ...]

    @property
    def rows(self) -> int:
        """Rows of the owner in all of them."""
        return sum(line.rows for line in self.lines)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"run": self.run, "terms": self.terms, "owner": self.owner, "lines": [asdict(one) for one in self.lines]}


def line_of(data: bytes, *, owner: str) -> Line:
    """The line of a message."""
    message = decode(data)
    way: Way = "from owner" if message.sender == owner else "to owner"
    rows = len(message.body.rows) if isinstance(message.body, Offer | Delivery) else 0
    return Line(message.round, way, message.body.kind, hashlib.sha256(data).hexdigest(), len(data), rows)


def kept_lines(past: exchanges.Exchange, told: Sent | None, *, owner: str) -> list[Line]:
    """The lines of what an owner heard and answered; none if it is of an older format, and nothing tells more.

    Args:
        past: as the owner kept it.
        told: what its audit log says of it, which is enough for messages of an older format.
        owner: its name.
    """
    try:
        return [line_of(data, owner=owner) for data in (past.heard, *past.replies)]
    except BadMessage:
        if told is None or len(told.replies) != len(past.replies):
            return []
    ways: list[tuple[Way, str]] = [("to owner", told.heard), *(("from owner", kind) for kind in told.replies)]
    return [
        Line(told.round, way, kind, hashlib.sha256(data).hexdigest(), len(data), told.rows if kind in _WITH_ROWS else 0)
        for (way, kind), data in zip(ways, (past.heard, *past.replies), strict=True)
    ]


def of_node(node: OwnerNode, run: str) -> Transcript:
    """The owner's copy, from its outbox; what was purged is missing."""
    return own_side(node, run)[0]


def own_side(node: OwnerNode, run: str) -> tuple[Transcript, frozenset[Place]]:
    """The owner's copy, and the places of messages that its audit log knows and whose bytes it has removed since.

    Replies that were stored and then held back, by a crash or a withdrawal, are not in it: they did not leave.
    """
    record = node.record_of(run)
    lines, digest, stored = list[Line](), record.latest_digest, set[int]()
    for past in exchanges.exchanges(node.ledger, run):
        if not exchanges.is_older(past.heard):
            digest = decode(past.heard).terms
        elif record.decision is not None:
            digest = record.decision.digest  # under others it would not have been answered
        stored.add(past.entry)
        told = record.sent.get(past.entry)
        lines += [one for one in kept_lines(past, told, owner=node.name) if told is not None or one.way == ToOwner]
    purged: set[Place] = set()
    for entry, told in record.sent.items():
        if entry not in stored:
            purged.add((ToOwner, told.round, told.heard))
            purged |= {(FromOwner, told.round, kind) for kind in told.replies}
    return Transcript(run, digest, node.name, tuple(sorted(lines))), frozenset(purged)


def compare(owner: Transcript, curator: Transcript, *, purged: Collection[Place] = ()) -> tuple[list[str], list[str]]:
    """Where two copies contradict each other, and what only one of them knows.

    A message that was lost on its way is in its sender's copy alone: that is worth knowing, and no contradiction. One
    that was received and never sent is.

    Args:
        owner: its copy.
        curator: its copy.
        purged: messages that the owner knows of, and cannot compare any more.

    Returns:
        Contradictions, and notes.
    """
    problems = [
        f"{what}: the owner's copy says {mine}, the curator's {theirs}"
        for what, mine, theirs in (
            ("run", owner.run, curator.run),
            ("terms", owner.terms, curator.terms),
            ("owner", owner.owner, curator.owner),
        )
        if mine != theirs
    ]
    if problems:
        return problems, []
    mine, theirs = ({line.place: line for line in one.lines} for one in (owner, curator))
    notes = []
    for place in sorted(mine.keys() | theirs.keys(), key=lambda one: (one[1], one)):
        own, other = mine.get(place), theirs.get(place)
        if own is not None and other is not None:
            if own != other:
                problems.append(f"{own}: the two copies are not of the same message")
        elif own is not None:
            if own.way == "from owner":
                notes.append(f"{own}: left the owner ({own.rows} rows); the curator did not acknowledge it")
            else:
                problems.append(f"{own}: the owner heard it; the curator did not say it")
        elif other is not None:
            if place in purged:
                notes.append(f"{other}: the owner removed its copy of it, so the two cannot be compared")
            elif other.way == "from owner":
                problems.append(f"{other}: the curator acknowledges it ({other.rows} rows); the owner did not send it")
            else:
                notes.append(f"{other}: the curator said it; the owner did not answer it")
    return problems, notes


def read_lines(name: str, found: Any) -> tuple[Line, ...]:
    """Lines of a transcript in a document.

    Raises:
        BadDocument: they are none.
    """
    if not isinstance(found, list):
        raise BadDocument(name, "must be a list", field="lines")
    lines = []
    for number, one in enumerate(found):
        if not isinstance(one, dict) or {key: type(value) for key, value in one.items()} != _FIELDS:
            raise BadDocument(name, f"entry {number} is no line of a transcript", field="lines")
        if one["way"] not in (FromOwner, ToOwner):
            raise BadDocument(name, f"entry {number} goes neither to the owner nor from it", field="lines")
        numbers = [one[field] for field in ("round", "bytes", "rows")]
        if min(numbers) < 0 or max(numbers) > _LARGEST or (one["way"] == ToOwner and one["rows"]):
            raise BadDocument(name, f"entry {number} has numbers that no message has", field="lines")
        if _KIND.fullmatch(one["kind"]) is None or _DIGEST.fullmatch(one["digest"]) is None:
            raise BadDocument(name, f"entry {number} names no kind of message, or no digest", field="lines")
        lines.append(Line(**one))
    if len({line.place for line in lines}) < len(lines):
        raise BadDocument(name, "two messages stand in one place", field="lines")
    return tuple(sorted(lines))


def read_transcript(path: Path) -> Transcript:
    """A copy that ``likeset transcript show --json`` wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadDocument(str(path), "cannot be read as a transcript") from error
    return transcript_in(str(path), found)


def transcript_in(name: str, found: Any) -> Transcript:
    """The transcript in a document.

    Raises:
        BadDocument: there is none.
    """
    if not isinstance(found, dict) or not all(isinstance(found.get(one), str) for one in ("run", "terms", "owner")):
        raise BadDocument(name, "is no transcript: it names no run, terms or owner")
    return Transcript(found["run"], found["terms"], found["owner"], read_lines(name, found.get("lines")))
