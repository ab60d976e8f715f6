"""A run at a home: its states, its row in the database, its signed terms, who takes part, how large its letters are."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal

from pydantic import AwareDatetime, ValidationError

from likeset.documents import Document
from likeset.errors import IllegalMessage, InvalidArgument, LikesetError
from likeset.privacy.events import Relation
from likeset.protocol.party import CURATOR
from likeset.protocol.split import most_part_bytes, slots_in
from likeset.protocol.terms import PlannedTerms, Terms, check_between, read_foreign
from likeset.protocol.wire import Delivery, Message, Offer, OfferShare, Summary, Target, TargetShare
from likeset.text import harmless
from likeset.trust.cards import Role
from likeset.trust.letters import PostKind, SignedTerms


class State(StrEnum):
    """Where a run stands at a home."""

    INVITED = "invited"
    """Terms are known. A consumer's own run stays here until enough parties accepted; at an owner, terms that
    owner.yaml refuses, with the reasons."""
    WAITING = "waiting"
    """A person here has to decide."""
    REFUSED = "refused"
    """This home does not take part; a person may decide otherwise before the run begins."""
    ACCEPTED = "accepted"
    """This home signed that it takes part."""
    BEGUN = "begun"
    """The first letter was answered, and charged."""
    STOPPED = "stopped"
    """An owner refused a letter, for the reason that is stored: it answers no further one."""
    ANSWERED = "answered"
    """This home has said everything that it will say."""
    CLOSED = "closed"
    """Done: the consumer has its summary, an owner its receipt, a curator sent its receipts."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


_ENDED_BY_OTHERS = {State.CANCELLED, State.EXPIRED}
_ENDED = _ENDED_BY_OTHERS | {State.FAILED}
MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.INVITED: frozenset({State.WAITING, State.ACCEPTED, State.REFUSED, State.BEGUN, *_ENDED}),
    State.WAITING: frozenset({State.INVITED, State.ACCEPTED, State.REFUSED, *_ENDED_BY_OTHERS}),
    State.REFUSED: frozenset({State.WAITING, State.INVITED, State.ACCEPTED, *_ENDED_BY_OTHERS}),
    State.ACCEPTED: frozenset({State.BEGUN, State.STOPPED, State.INVITED, State.REFUSED, *_ENDED}),
    State.BEGUN: frozenset({State.ANSWERED, State.STOPPED, State.CLOSED, *_ENDED}),
    State.STOPPED: frozenset(_ENDED_BY_OTHERS),
    State.ANSWERED: frozenset({State.CLOSED, *_ENDED}),
    State.CLOSED: frozenset(),
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
    State.FAILED: frozenset(),
}
"""The moves between states; ``Mail.change`` makes them, and nothing else does."""

OVER: Final = frozenset(state for state, moves in MOVES.items() if not moves)
OPEN: Final = frozenset({State.ACCEPTED, State.BEGUN, State.ANSWERED})
"""States in which letters are heard and posted."""
UNDECIDED: Final = frozenset({State.INVITED, State.WAITING, State.REFUSED})
DECIDABLE: Final = UNDECIDED | {State.ACCEPTED}
"""States in which a person may still decide."""


class LetterState(StrEnum):
    """Where a row of ``letters`` stands: its document leaves, or came."""

    READY = "ready"
    """To be posted."""
    CLAIMED = "claimed"
    """May be in the mailbox: it was checked once more, and its file is being written."""
    POSTED = "posted"
    STALE = "stale"
    """Taken back; its file must be removed from the mailbox."""
    REMOVED = "removed"
    WITHHELD = "withheld"
    """A letter that never leaves."""
    HEARD = "heard"
    """Came, or was decided here, and counts."""
    REFUSED = "refused"
    READ = "read"
    """A file without content for this home, remembered while it is there."""


LETTER_MOVES: Final[Mapping[LetterState, frozenset[LetterState]]] = {
    LetterState.READY: frozenset({LetterState.CLAIMED, LetterState.WITHHELD, LetterState.REMOVED}),
    LetterState.CLAIMED: frozenset({LetterState.POSTED, LetterState.STALE, LetterState.REMOVED}),
    # Claimed once more if somebody else removed its file.
    LetterState.POSTED: frozenset({LetterState.CLAIMED, LetterState.STALE}),
    LetterState.STALE: frozenset({LetterState.REMOVED}),
    # Its file was being written while it was taken back.
    LetterState.REMOVED: frozenset({LetterState.STALE}),
    LetterState.WITHHELD: frozenset(),
    # An acceptance by a party that the consumer leaves out.
    LetterState.HEARD: frozenset({LetterState.REFUSED}),
    LetterState.REFUSED: frozenset(),
    LetterState.READ: frozenset(),
}
LEAVING: Final = (LetterState.READY, LetterState.CLAIMED, LetterState.POSTED)
TO_POST: Final = (LetterState.READY, LetterState.CLAIMED)


def in_sql(states: Iterable[StrEnum]) -> str:
    """States as a list for ``state IN``."""
    return f"({', '.join(repr(state.value) for state in states)})"


RECEIPT: Final = "receipt"
"""The kind of a letter that contains only a receipt."""
HAS_BYTES: Final = (
    f"kind <> '{RECEIPT}' AND (data IS NOT NULL OR state IN {in_sql((LetterState.READY, LetterState.POSTED))})"
)
"""Whether a row of ``letters`` has something to forget; an index is made for these very words."""


class Ending(StrEnum):
    DONE = "done"
    CANCELLED = "cancelled"
    """By the consumer; an owner closes its run only if it has offered nothing."""
    WITHDRAWN = "withdrawn"
    """By this owner."""
    DEADLINE_PASSED = "deadline passed"
    """This owner did not answer by the time in the terms."""
    QUORUM_MISSED = "quorum missed"
    TERMS_EXPIRED = "terms expired"
    NOT_CURATED = "not curated"
    """The curator or the witness cannot take part."""
    UNFINISHED = "unfinished"
    """A draw was charged and interrupted; it is not drawn again."""
    NOT_COMPUTED = "not computed"
    """In a split run: the compute parties did not finish together."""
    FAILED = "failed"

    def outcome(self, detail: str = "") -> str:
        """How a run ended, in words."""
        return f"{self}: {detail}" if detail and detail != self else str(self)


CLOSED: Final = {
    Ending.DEADLINE_PASSED: "your deadline passed",
    Ending.WITHDRAWN: "you withdrew",
    Ending.TERMS_EXPIRED: "the terms ended",
    Ending.CANCELLED: "the consumer cancelled before any offer",
}
"""Why a run is closed at an owner that takes no part in it; none of these depends on other owners."""

_MOST_DETAIL = 400


class _EndingNote(Document):
    detail: str
    ended: Ending


class _ProgressNote(Document):
    until: AwareDatetime | None
    waiting_for: tuple[str, ...]


def ending_document(ending: Ending, detail: str = "") -> bytes:
    return json.dumps({"detail": detail, "ended": ending.value}).encode("ascii")


def read_ending(data: bytes) -> tuple[Ending, str] | None:
    try:
        note = _EndingNote.model_validate_json(data)
    except ValidationError:
        return None
    return note.ended, harmless(note.detail, most=_MOST_DETAIL)


_WORD = re.compile(rb"(waiting|abstains|leaves) (0|[1-9][0-9]{0,17})")


def read_word(document: bytes) -> tuple[str, int] | None:
    """A word of participation and its number: ``waiting`` or ``abstains`` before an acceptance, ``leaves`` after it."""
    found = _WORD.fullmatch(document)
    return None if found is None else (found[1].decode("ascii"), int(found[2]))


def progress_document(waiting_for: Iterable[str], until: datetime | None) -> bytes:
    note = {"until": None if until is None else until.isoformat(), "waiting_for": sorted(waiting_for)}
    return json.dumps(note).encode("ascii")


def read_progress(data: bytes) -> tuple[tuple[str, ...], datetime | None] | None:
    try:
        note = _ProgressNote.model_validate_json(data)
    except ValidationError:
        return None
    return note.waiting_for, note.until


# Signed terms.


@dataclass(frozen=True, eq=False)
class Invitation:
    """Terms that a consumer signed."""

    signed: SignedTerms
    terms: Terms

    @staticmethod
    def read(data: bytes) -> "Invitation":
        """Parse and verify signed terms; raises if signature, terms and card do not belong together."""
        signed = SignedTerms.from_bytes(data)
        terms = read_foreign(signed.text)
        check_between(terms)
        if terms.cards[terms.consumer] != signed.card.fingerprint or signed.card.name != terms.consumer:
            raise IllegalMessage(f"run {terms.run}: the terms are signed by another card than the consumer's")
        return Invitation(signed, terms)

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.terms.digest)


_stored = lru_cache(maxsize=256)(Invitation.read)  # of runs that are known here: what a stranger sends is not kept


def duration(time: timedelta) -> str:
    count, unit = (time.days, "day") if time >= timedelta(days=1) else (round(time / timedelta(hours=1)), "hour")
    return f"{count} {unit}{'' if count == 1 else 's'}"


def end_of(terms: Terms) -> datetime:
    if terms.end is None:
        raise InvalidArgument("expires", "none", "terms between organisations must end: their keys are deleted then")
    return terms.end


def last_time(ends: datetime, began: datetime) -> datetime:
    """When a run must be complete, so that everybody hears of it before the terms and the keys end."""
    return ends - min(timedelta(days=1), (ends - began) / 4)


def role_in(terms: Terms, party: str) -> Role:
    if party == terms.consumer:
        return "consumer"
    if party in terms.owners:
        return "owner"
    return "curator" if party == CURATOR else "witness"


MUST_BE_PINNED: dict[Role, tuple[Role, ...]] = {
    "owner": ("consumer", "curator", "witness"),
    "curator": ("consumer",),
    "witness": ("consumer", "curator"),
    "consumer": (),  # it wrote the terms from its own pins
}


def must_know(terms: Terms, party: str) -> dict[Role, str]:
    """The parties whose cards must be pinned by this party: their names in the terms, by role."""
    names = {role: terms.consumer if role == "consumer" else role for role in MUST_BE_PINNED[role_in(terms, party)]}
    return {role: name for role, name in names.items() if name in terms.cards}


def acknowledging_party(terms: Terms) -> str:
    """The party that signs receipts: the reader of the offers, which is the curator or in a split run the consumer."""
    return CURATOR if terms.split is None else terms.consumer


# Rows of the database.


How = Literal["console", "command", "rules", ""]  # empty: of an older version, which did not record it


@dataclass(frozen=True, slots=True)
class Decided:
    """A row of ``decisions``: what was decided about a run at an owner."""

    number: int
    what: Literal["approved", "denied", "withdrawn"]
    who: str
    how: How
    made: str  # when
    why: str  # of a denial

    def in_words(self) -> str:
        when = self.made[:16].replace("T", " ")
        how = f" ({self.how})" if self.how else ""
        return f"{self.what} by {self.who}{how} at {when} (UTC){f': {self.why}' if self.why else ''}"


@dataclass(frozen=True, slots=True)
class Run:
    digest: bytes  # of the terms
    party: str  # this home's name in them: a card has one
    name: str  # at this home, where each run has another; in general that of the terms
    role: Role  # of this party
    mailbox: str  # by which its letters travel; empty for a run that was not started
    signed: bytes = field(repr=False)  # the terms as the consumer signed them
    acceptance: bytes = field(repr=False)  # what this home signed to take part
    ends: float  # when the terms end
    at: str  # when the terms came
    state: State  # a key of ``MOVES``
    reason: str = ""  # why it is in this state, in words
    ended: Ending | Literal[""] = ""  # how it ended, or will end when nothing remains to be sent
    progress: str = ""  # of a split computation, in words
    due: float | None = None  # when something must be done although nothing comes
    reviewed: bool = False  # whether a person here reviewed them
    data: str = ""  # the data set of an approval
    smallest_group: int | None = None  # of the policy under which the run began; None before
    decision: Decided | None = None  # the last one; a row of another table

    @property
    def invitation(self) -> Invitation:
        return _stored(self.signed)

    @property
    def terms(self) -> Terms:
        return self.invitation.terms

    @property
    def consumer(self) -> str:
        """The name of the consumer, also of terms that cannot be read here."""
        return SignedTerms.from_bytes(self.signed).card.name

    @property
    def readable(self) -> Terms | None:
        """The terms; None if this version of likeset refuses them: one run must not block the others."""
        try:
            return self.terms
        except LikesetError:
            return None

    @property
    def end(self) -> datetime:
        return datetime.fromtimestamp(self.ends, UTC)

    @property
    def deadline(self) -> datetime:
        """When owners must have answered."""
        terms = self.readable
        return self.end if terms is None or terms.deadline is None else terms.deadline

    @property
    def last_offer(self) -> datetime:
        """The last moment for offers. It follows from the terms alone, so that no owner is charged for a late one."""
        return last_time(self.end, self.deadline) if self.deadline < self.end else self.end

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def ending(self) -> tuple[Ending, str] | None:
        """How the run ended, and more about it; None if it has not."""
        return (Ending(self.ended or Ending.FAILED), self.reason) if self.is_over else None

    @property
    def decided(self) -> Literal["approved", "denied", "withdrawn", ""]:
        return "" if self.decision is None else self.decision.what

    @property
    def has_begun(self) -> bool:
        """Whether this owner was charged."""
        return self.smallest_group is not None

    @property
    def is_stopped(self) -> bool:
        return self.state == State.STOPPED

    @property
    def is_split(self) -> bool:
        return self.terms.split is not None


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A row of ``letters`` without its bytes."""

    id: int
    digest: bytes = field(repr=False)
    peer: str
    way: Literal["in", "out", "own"]
    post: PostKind
    kind: str
    round: int
    number: int | None
    letter: bytes = field(repr=False)
    content: bytes = field(repr=False)
    rows: int
    bytes: int
    at: str
    input: int | None
    answers: int | None
    state: LetterState
    folder: str
    name: str

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.at)

    def is_heard(self, kind: str) -> bool:
        """Whether it is a letter of this kind that came and counts."""
        return (self.way, self.kind, self.state) == ("in", kind, LetterState.HEARD)


def rows_in(messages: Iterable[Message]) -> int:
    """How many rows these messages disclose or offer; the parts of one offer are the same rows."""
    bodies = [message.body for message in messages]
    shared = max((slots_in(body) for body in bodies if isinstance(body, OfferShare)), default=0)
    # Rows without width take no space: a stranger could claim any number of them.
    return shared + sum(len(body.rows) for body in bodies if isinstance(body, Offer | Delivery) and body.rows.size)


# Sizes. A letter is padded so that its length does not tell how many rows were sold.

_SHORT = 1 << 10
_HEAD = 1 << 14
_PER_COLUMN = 1 << 9
_PER_LABEL = 1 << 8
_PER_NUMBER = 8
_PER_OWNER = 1 << 10
_PER_ACCEPTANCE = 1 << 12
_RELEASE_HEAD = 1 << 21
_PER_COORDINATE = 64
_RECEIPT_HEAD, _RECEIPT_PER_ROUND, _LARGEST_RECEIPT = 1 << 14, 1 << 8, 1 << 24
_AROUND = 1 << 14  # bytes of a letter beyond its message: header, signature, seal, padding, an acceptance
LARGEST_LETTER = 1 << 28


def padded_size(terms: PlannedTerms, kind: type[object]) -> int:
    """The multiple to which the body of a letter with a message of this kind is padded, in bytes."""
    width = terms.kernel.columns
    row = 4 * width + terms.record_bytes + _PER_LABEL + 6 * _PER_NUMBER + len(terms.columns)
    table = _HEAD + _PER_COLUMN * len(terms.columns)
    # A declared size is near the true one, which may be the larger of the two.
    target_rows = terms.target_size * (2 if terms.relation is Relation.ADD_OR_REMOVE else 1)
    sizes: dict[type[object], int] = {
        Offer: table + row * terms.rows_per_owner,
        Delivery: table + row + 4 * terms.kernel.dimension,
        Summary: table + row * terms.size + _PER_OWNER * len(terms.owners),
        Target: _HEAD
        + 4 * width * target_rows
        + _PER_NUMBER * terms.kernel.dimension
        + _PER_ACCEPTANCE * len(terms.owners),
        # Parts, votes and envelopes have lengths that the terms fix.
        TargetShare: _HEAD + _PER_NUMBER * width * target_rows + _PER_ACCEPTANCE * (len(terms.owners) + 1),
    }
    return sizes.get(kind, _SHORT)


def check_letter_sizes(terms: PlannedTerms) -> None:
    """Raise if a letter of a run would be larger than any reader takes; called before anything is charged."""
    if terms.split is not None:
        sizes = {"an offer": max(most_part_bytes(terms)), "the target": padded_size(terms, TargetShare)}
    else:
        offer = Delivery if terms.protocol == "interactive" else Offer
        kinds = {"an offer": offer, "the target": Target, "the summary": Summary}
        sizes = {what: padded_size(terms, kind) for what, kind in kinds.items()}
    for what, size in sizes.items():
        if size + _AROUND > LARGEST_LETTER:
            mebibytes = f"{size / 2**20:,.0f} MiB, and a letter has {LARGEST_LETTER / 2**20:,.0f} MiB at most"
            reason = f"{what} may have {mebibytes}; lower size or offer_factor, or take fewer rows of the target"
            raise InvalidArgument("size", f"{terms.size:,}", reason)


def most_bytes_to_owner(terms: Terms) -> int:
    """The size of the largest letter that an owner needs to hear: a release, a yes or no, or a receipt."""
    rounds = terms.size if terms.protocol == "interactive" else 2
    receipt = min(_RECEIPT_HEAD + _RECEIPT_PER_ROUND * rounds, _LARGEST_RECEIPT)
    return max(_RELEASE_HEAD + _PER_COORDINATE * terms.kernel.dimension, receipt) + _AROUND


def most_bytes_from(terms: Terms, party: str) -> int:
    """The size of the largest letter of this party to a party that is no owner."""
    sizes = [most_bytes_to_owner(terms)]
    if party in terms.owners:
        sizes += [padded_size(terms, Offer), padded_size(terms, Delivery)] if terms.split is None else []
        sizes += most_part_bytes(terms) if terms.split is not None else ()
    else:
        sizes += [padded_size(terms, kind) for kind in (Target, TargetShare, Summary)]
        sizes += [sum(most_part_bytes(terms)) * len(terms.owners)] if terms.split is not None else []
    return min(2 * max(sizes), LARGEST_LETTER)  # twice, since padding may take two steps
