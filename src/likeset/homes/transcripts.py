"""What passed between an owner and who acknowledges its letters, as each side has it, and where two copies differ.

That is the curator, and in a split run the consumer. Copies are made from letter books.

A transcript names letters by their numbers and digests and says how many rows were in them; it holds no row and nothing
else that a letter says. What a letter says may be gone, for the run was settled: that it was written stays known.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from likeset.errors import BadDocument
from likeset.homes.letter_book import LetterBook
from likeset.homes.letter_records import IN, OUT, RECEIPT, KeptLetter
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms

__all__ = [
    "FROM_OWNER",
    "THE_CURATOR",
    "TO_OWNER",
    "Difference",
    "Line",
    "Slot",
    "Transcript",
    "acknowledging_party",
    "compare",
    "differences",
    "other_names",
    "signer_in_words",
    "transcript_in",
    "transcript_of",
]

Way = Literal["from owner", "to owner"]
FROM_OWNER: Final = "from owner"
TO_OWNER: Final = "to owner"
THE_CURATOR: Final = "the curator"
Slot = tuple[str, int]
"""Way and number of a letter; in a run there is one of each."""

_NAMES = ("run", "run_id", "terms", "owner", "owner_card", "curator_card")
_FIELDS = {"way": str, "number": int, "round": int, "kind": str, "digest": str, "bytes": int, "rows": int}
_KIND, _DIGEST = re.compile(r"[a-z-]{1,40}"), re.compile(r"[0-9a-f]{64}")
_LARGEST = 1 << 53


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """One letter.

    Attributes:
        round: of the run.
        way: from the owner to the curator, or to the owner.
        number: of the letter among those of its writer to its reader.
        kind: of the message in it.
        digest: of the letter, in hexadecimal digits.
        bytes: of the letter.
        rows: how many rows of the owner are in it.
    """

    round: int
    way: Way
    number: int
    kind: str
    digest: str
    bytes: int
    rows: int

    @property
    def slot(self) -> Slot:
        """Of the letter in the run; no other may stand there."""
        return self.way, self.number

    def __str__(self) -> str:
        """In words."""
        return f"letter {self.number} {self.way} ({self.kind}, round {self.round})"


@dataclass(frozen=True, slots=True)
class Transcript:
    """All letters between the curator and one owner in one run, as one side kept them; but for receipts.

    Attributes:
        run: its name.
        run_id: its id, in hexadecimal digits.
        terms: digest of its terms.
        owner: whose letters.
        owner_card: fingerprint of its card.
        curator_card: that of whoever acknowledges: the curator's, or in a split run the consumer's.
        lines: in the order of rounds.
    """

    run: str
    run_id: str
    terms: str
    owner: str
    owner_card: str
    curator_card: str
    lines: tuple[Line, ...]

    @property
    def rows(self) -> int:
        """Rows of the owner in all of them."""
        return sum(line.rows for line in self.lines)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        lines = [asdict(line) for line in self.lines]
        return {**{name: getattr(self, name) for name in _NAMES}, "lines": lines}


def acknowledging_party(terms: Terms) -> str:
    """Who signs receipts: the curator, who reads what owners send, or in a split run the consumer, who alone may."""
    return CURATOR if terms.split is None else terms.consumer


def signer_in_words(terms: Terms) -> str:
    """Who signs receipts, in words."""
    return THE_CURATOR if terms.split is None else "the consumer"


def transcript_of(
    book: LetterBook | None, terms: Terms, *, owner: str, kept_by: Literal["owner", "curator", "consumer"]
) -> Transcript:
    """The copy of a run's transcript that is in a letter book.

    Args:
        book: of the owner, or of whoever acknowledges; None where nobody has written a letter yet.
        terms: of the run.
        owner: the owner's name.
        kept_by: whose book it is.
    """
    reader = acknowledging_party(terms)
    peer, from_owner = (reader, OUT) if kept_by == "owner" else (owner, IN)
    letters = [] if book is None else book.letters(bytes.fromhex(terms.digest), peer)
    lines = (_line(letter, FROM_OWNER if letter.way == from_owner else TO_OWNER) for letter in letters)
    ordered = sorted(line for line in lines if line.kind != RECEIPT)  # what acknowledges is not acknowledged
    cards = (terms.cards.get(owner, ""), terms.cards.get(reader, ""))
    return Transcript(terms.run, terms.run_id, terms.digest, owner, *cards, tuple(ordered))


def _line(letter: KeptLetter, way: Way) -> Line:
    round_ = letter.signed_header.header.round
    return Line(round_, way, letter.number, letter.kind, letter.digest.hex(), letter.size, letter.rows)


# Where two copies differ.

_IN_WORDS = {
    "another letter": "the two copies do not say the same of it",
    "never said": "the owner received it; {signer} did not write it",
    "never sent": "{signer} acknowledges it ({rows} rows); the owner did not write it",
    "not acknowledged": "left the owner ({rows} rows); {signer} did not acknowledge it",
    "not received": "{signer} wrote it; it did not come to the owner",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One letter that is not the same in both copies.

    Attributes:
        line: of the letter; the owner's where both have one.
        kind: what differs.
        signer: who acknowledges letters, in words.
    """

    line: Line
    kind: Literal["another letter", "never said", "never sent", "not acknowledged", "not received"]
    signer: str = THE_CURATOR

    @property
    def contradicts(self) -> bool:
        """Whether one of the copies must be wrong; else a letter that was lost explains it."""
        return self.kind in ("another letter", "never said", "never sent")

    def __str__(self) -> str:
        """In words."""
        return f"{self.line}: {_IN_WORDS[self.kind].format(rows=self.line.rows, signer=self.signer)}"


def other_names(owner: Transcript, curator: Transcript, signer: str = THE_CURATOR) -> list[str]:
    """Where the two copies are not of the same run, terms, owner or cards; then their lines cannot be compared."""
    pairs = ((name, getattr(owner, name), getattr(curator, name)) for name in _NAMES)
    return [
        f"{name}: the owner's copy says {mine}, {signer}'s {theirs}" for name, mine, theirs in pairs if mine != theirs
    ]


def differences(owner: Transcript, curator: Transcript, signer: str = THE_CURATOR) -> Iterator[Difference]:
    """The letters that are not the same in both copies.

    A letter that was lost on its way is in its writer's copy alone: that is worth knowing, and no contradiction. One
    that was received and never written is.
    """
    mine, theirs = ({line.slot: line for line in copy.lines} for copy in (owner, curator))
    lines = (mine.get(slot) or theirs[slot] for slot in mine.keys() | theirs.keys())
    for line in sorted(lines):
        own, other = mine.get(line.slot), theirs.get(line.slot)
        if other is None:
            yield Difference(line, "not acknowledged" if line.way == FROM_OWNER else "never said", signer)
        elif own is None:
            yield Difference(line, "never sent" if line.way == FROM_OWNER else "not received", signer)
        elif own != other:
            yield Difference(line, "another letter", signer)


def compare(owner: Transcript, curator: Transcript, signer: str = THE_CURATOR) -> tuple[list[str], list[str]]:
    """Where two copies contradict each other, and what only one of them knows, in words.

    Args:
        owner: the owner's copy.
        curator: that of who acknowledges.
        signer: what that one is called.
    """
    if problems := other_names(owner, curator, signer):
        return problems, []
    notes: list[str] = []
    for difference in differences(owner, curator, signer):
        (problems if difference.contradicts else notes).append(str(difference))
    return problems, notes


# In receipts.


def transcript_in(name: str, document: Any) -> Transcript:
    """The transcript in a document; ``name`` stands for it in errors.

    Raises:
        BadDocument: there is none.
    """
    if not isinstance(document, dict) or not all(isinstance(document.get(key), str) for key in _NAMES):
        raise BadDocument(name, f"is no transcript: it must name {', '.join(_NAMES[:-1])} and {_NAMES[-1]}")
    lines = _lines(name, document.get("lines"))
    return Transcript(**{key: document[key] for key in _NAMES}, lines=lines)


def _lines(name: str, entries: Any) -> tuple[Line, ...]:
    if not isinstance(entries, list):
        raise BadDocument(name, "must be a list", field="lines")
    lines = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict) or {key: type(value) for key, value in entry.items()} != _FIELDS:
            raise BadDocument(name, f"entry {position} is no line of a transcript", field="lines")
        if entry["way"] not in (FROM_OWNER, TO_OWNER):
            raise BadDocument(name, f"entry {position} goes neither to the owner nor from it", field="lines")
        numbers = [entry[key] for key in ("number", "round", "bytes", "rows")]
        if min(numbers) < 0 or max(numbers) > _LARGEST or (entry["way"] == TO_OWNER and entry["rows"]):
            raise BadDocument(name, f"entry {position} has numbers that no letter has", field="lines")
        if _KIND.fullmatch(entry["kind"]) is None or _DIGEST.fullmatch(entry["digest"]) is None:
            raise BadDocument(name, f"entry {position} names no kind of message, or no digest", field="lines")
        lines.append(Line(**entry))
    if len({line.slot for line in lines}) < len(lines):
        raise BadDocument(name, "two letters have one number", field="lines")
    if lines != sorted(lines):
        raise BadDocument(name, "are not in their order", field="lines")
    return tuple(lines)
