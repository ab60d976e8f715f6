"""The owner's home: lets a run in, answers within the approval, refuses and logs everything else."""

import base64
import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeVar
from weakref import WeakKeyDictionary

from likeset import documents
from likeset.documents import make_folder
from likeset.errors import (
    BadDocument,
    DecidedMeanwhile,
    IllegalMessage,
    InvalidArgument,
    LedgerUnavailable,
    LedgerUnreadable,
    LikesetError,
    OtherRelation,
    OtherUnit,
)
from likeset.files import PRIVATE_FOLDER, make_home_folder, read_secret, write_secret
from likeset.homes.data import DataSet, OpenedData, Registry
from likeset.homes.home import ABSTAINS, READY, WAITING, Abstains, PartyHome, Standing
from likeset.homes.mail import (
    FROM_OWNER,
    RECEIPT,
    THE_CURATOR,
    TO_OWNER,
    Correspondence,
    HeardLetter,
    Identity,
    Invitation,
    LetterBook,
    Line,
    OwnerRun,
    Receipt,
    Transcript,
    acknowledging_party,
    card_fault,
    carry,
    check_not_expired,
    compare,
    differences,
    file_name,
    most_bytes_to_owner,
    must_know,
    read_receipt,
    receipt_in,
    signer_in_words,
    transcript_of,
    unpinned,
    utc_now,
    write_receipt,
)
from likeset.homes.policy import (
    Accounts,
    History,
    Policy,
    Verdict,
    about_month,
    plainly_against,
    starting_text,
    verdict,
)
from likeset.ledger.budget import Account, Charge, Limit, Tally
from likeset.ledger.ledger import Charged, Entry, Head, Ledger, LedgerState, Request, Transaction, Unfinished
from likeset.privacy.events import Event, NoRelease
from likeset.privacy.guarantee import View
from likeset.protocol.party import ChargeWanted, Draw, Step, last_call
from likeset.protocol.prices import PlannedView, views_of_owners
from likeset.protocol.sealed import Owner
from likeset.protocol.split_run import is_kept_offer, make_owner, shared_replies, slots_in
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Delivery, Message, Offer, OfferShare, decode
from likeset.trust.cards import SECRET_FILE, Card, CardSecret, Pins, PinState, Role
from likeset.trust.letters import SignedTerms, is_acceptance, is_stub


@dataclass(frozen=True, slots=True)
class Home(PartyHome):
    """The directory of a node.

    Args:
        folder: where it is.
    """

    @property
    def usual_name(self) -> str:
        return Policy.load(self.policy).name

    @property
    def policy(self) -> Path:
        return self.folder / "owner.yaml"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.sqlite"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def key_file(self) -> Path:
        return self.folder / "key"

    def check(self, *, argument: str = "--node") -> None:
        """Raise unless this is the directory of a node; ``argument`` is what the user gave it as."""
        if not self.policy.is_file() or not self.key_file.is_file():
            raise InvalidArgument(
                argument,
                str(self.folder),
                "is not the directory of a node; give --node DIR or set LIKESET_NODE (new: `likeset owner init DIR`)",
            )

    def key(self) -> int:
        """The sampling key.

        Raises:
            LedgerUnavailable: other users may read it, or it is damaged.
        """
        return read_secret(self.key_file)


def make_home(folder: Path, *, name: str) -> Home:
    """A new node: a policy that allows nothing yet, a key, a card, an empty ledger, which is its audit log too.

    Raises:
        InvalidArgument: the directory holds something already, or cannot be made.
    """
    home = Home(folder)
    text, card = starting_text(name), CardSecret.generate(name)
    make_home_folder(folder)
    home.data.mkdir(mode=PRIVATE_FOLDER)
    with Ledger(home.ledger) as ledger:
        ledger.messages()  # makes their file
    write_secret(home.key_file, secrets.randbits(256))
    card.write(folder)
    documents.write_text(home.policy, text)
    return home


_PLURALS: dict[Role, str] = {"curator": "curators", "witness": "witnesses"}  # consumers' names are in the terms


@dataclass(frozen=True, slots=True)
class AskingCard:
    """A party of a run whose card must be known here.

    Attributes:
        role: what it is in the run.
        name: on its card; for one that was never pinned, as the terms say, and they give a curator no name.
        fingerprint: of its card.
        state: what became of its card here.
        since: when (UTC); empty if it was never pinned.
        fault: why the run may not go on with it, and what to do; empty if it may.
    """

    role: Role
    name: str
    fingerprint: str
    state: PinState | Literal["not pinned"]
    since: str
    fault: str

    def document(self) -> dict[str, Any]:
        return asdict(self)

    def in_words(self) -> str:
        if self.state == "not pinned":
            return f"card {self.fingerprint}, NOT PINNED: {self.fault}"
        known = f"card {self.fingerprint}, {self.state} since {self.since[:10]}"
        return f"{known}: {self.fault}" if self.fault else known


def asking_cards(policy: Policy, terms: Terms, pins: Pins) -> tuple[AskingCard, ...]:
    """Those of the parties whom an owner must know: the consumer, the curator and, if there is one, the witness.

    Args:
        policy: says which of those that are pinned may take part.
        terms: of the run.
        pins: the cards that are pinned here.
    """
    names = must_know(terms, policy.name)
    return tuple(_asking_card(policy, role, name, terms.cards[name], pins) for role, name in names.items())


def _asking_card(policy: Policy, role: Role, name: str, fingerprint: str, pins: Pins) -> AskingCard:
    pin = pins.by_fingerprint(fingerprint)
    fault = card_fault(role, fingerprint, pins)
    if pin is None:
        return AskingCard(role, name if role == "consumer" else "", fingerprint, "not pinned", "", fault)
    if not fault and role in _PLURALS:
        allowed: tuple[str, ...] = getattr(policy, _PLURALS[role])
        if not any(fnmatchcase(pin.card.name, pattern) for pattern in allowed):
            fault = f"{role} {pin.card.name} is not among the {_PLURALS[role]} that owner.yaml allows"
    return AskingCard(role, pin.card.name, fingerprint, pin.state, pin.at, fault)


def own_card_fault(home: Home, name: str, terms: Terms) -> str:
    """Why a node cannot answer under the card that terms name as its own; empty if it can."""
    if not terms.cards:
        return "the terms name no cards, so nobody can prove who asks; ask the consumer for a signed invitation"
    try:
        own = _own_card(home, _files_of(home))
    except BadDocument as error:
        return f"this node has no card that can be used: {Path(error.document).name}: {error.reason}"
    if terms.cards.get(name) != own.fingerprint:
        return f"the terms name another card than this node's, which is {own.fingerprint}; ask for terms that name it"
    return ""


def _files_of(home: Home) -> tuple[tuple[int, ...], ...]:
    """What changes whenever a file of the node's card is written anew, removed, or opened to others."""
    seen: list[tuple[int, ...]] = []
    for path in (home.card_file, home.folder / SECRET_FILE):
        try:
            status = path.stat()
        except OSError:
            seen.append(())
        else:
            seen.append((status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode))
    return tuple(seen)


@lru_cache(maxsize=16)
def _own_card(home: Home, _files: tuple[tuple[int, ...], ...]) -> Card:
    """The node's card, with its keys: an approval that nothing can be signed under would only look like one.

    Read once while its files stay the same: lists judge many runs. What cannot be used is looked at anew each time.
    """
    return home.card()


BEGIN = "node/begin"
"""The kind of the charge that opens a run at this owner."""


@dataclass(frozen=True, slots=True)
class Spent:
    """One charge.

    Attributes:
        run: that it was for.
        at: when (UTC).
        toward: ``others`` or ``curator``.
        rows: disclosed at most.
        answered: whether an answer was stored for it.
    """

    run: str
    at: str
    toward: str
    rows: int
    answered: bool


@dataclass(frozen=True, slots=True)
class SpentSoFar:
    """Both budgets after a charge.

    Attributes:
        at: when (UTC).
        epsilon: that other owners may have learned by then, at the policy's delta.
        rows: that had left, at most.
        readable: of them that one party may read.
    """

    at: str
    epsilon: float
    rows: int
    readable: int


def set_limits(ledger: Ledger, policy: Policy) -> None:
    """Put the policy's totals into the ledger, which keeps to them whatever anybody else says."""
    ledger.set_limits(_limits(policy))


def accounts_under(ledger: Ledger, policy: Policy, *, path: Path) -> tuple[Account, ...]:
    """What is spent of the policy's totals, whether or not the ledger knows them yet.

    Raises:
        BadDocument: the policy, which stands in ``path``, has another relation than runs were charged under.
    """
    try:
        return ledger.accounts(limits=_limits(policy))
    except OtherRelation as error:
        reason = f"runs were charged under {error.planned}; put that back, or make another node"
        raise BadDocument(str(path), reason, field="total.relation") from error


def _limits(policy: Policy) -> dict[View, Limit]:
    return {
        View.owners(policy.name): policy.limit_toward_others(),
        View.curator(policy.name): policy.limit_of_rows(),
    }


@lru_cache(maxsize=1024)
def costs_of(terms: Terms, name: str) -> tuple[PlannedView, PlannedView, PlannedView]:
    """What a run lets the other owners, the curator and the consumer see of this owner's rows."""
    if name not in terms.owners:
        raise InvalidArgument("terms", terms.run, f"{name} is not among the owners that they invite")
    others, curator, consumer = views_of_owners(terms, owners=(name,))
    return others, curator, consumer


def accounts_for(ledger: Ledger, terms: Terms, policy: Policy) -> Accounts:
    """Both budgets of a policy before and after a run; one that was charged already is not counted twice."""
    others, curator, _ = costs_of(terms, policy.name)
    charged = _charges(ledger).toward.get(terms.run, set())
    limits = _limits(policy)
    toward_before, toward_after, other_unit = _toward_others(ledger, others, limits, free="others" in charged)
    rows, readable = (0, 0) if "curator" in charged else (curator.rows, curator.readable)
    before, after = _quoted(ledger, curator, limits, rows=rows, readable=readable)
    return Accounts(
        epsilon_spent=toward_before.epsilon or 0.0,
        epsilon_after=toward_after.epsilon or 0.0,
        delta=toward_before.delta or 0.0,
        epsilon_of_run=others.guarantee.epsilon,
        rows_spent=before.rows,
        rows_after=after.rows,
        rows_of_run=curator.rows,
        read_spent=before.readable,
        read_after=after.readable,
        read_of_run=curator.readable,
        charged=terms.run in began(ledger),
        other_unit=other_unit,
    )


def _toward_others(
    ledger: Ledger, planned: PlannedView, limits: Mapping[View, Limit], *, free: bool
) -> tuple[Account, Account, str | None]:
    """The account before and after, and the unit of earlier runs where this run has another one."""
    event, other_unit = NoRelease() if free else planned.event, None
    try:
        before, after = _quoted(ledger, planned, limits, event=event)
    except OtherRelation as error:  # it cannot be charged here, and the policy says why
        other_unit = error.account if isinstance(error, OtherUnit) else None
        before, after = _quoted(ledger, planned, limits, event=NoRelease())
    return before, after, other_unit


def _quoted(
    ledger: Ledger,
    planned: PlannedView,
    limits: Mapping[View, Limit],
    *,
    event: Event | None = None,
    rows: int = 0,
    readable: int | None = None,
) -> tuple[Account, Account]:
    due = event if event is not None else planned.event
    quotes = ledger.quote(Charge(((planned.view, due),), rows, readable), limits=limits)
    return next(pair for pair in quotes if pair[0].view == planned.view)


def began(ledger: Ledger) -> dict[str, datetime]:
    return dict(_charges(ledger).began)


def spent_by_run(ledger: Ledger) -> list[Spent]:
    """Every charge that cost something, oldest first."""
    return _charges(ledger).spent()


def course_of(ledger: Ledger, policy: Policy) -> list[SpentSoFar]:
    """Both budgets after each charge that cost something, oldest first; the last is what is spent now."""
    return _charges(ledger).course(_limits(policy))


class _Charges:
    """What the charges of a ledger were for; each is looked at once, for there may be very many."""

    def __init__(self, state: LedgerState) -> None:
        self.state = state
        self.began: dict[str, datetime] = {}
        self.toward: dict[str, set[str]] = {}
        self._spent: list[tuple[Charged, Spent]] = []
        self._taken = 0
        self._course = _Course({})

    def take_in(self) -> None:
        for charged in self.state.charges[self._taken :]:
            if BEGIN in charged.key or not charged.charge.free:
                self._take(charged)
            self._taken += 1

    def _take(self, charged: Charged) -> None:
        run, _, kind = json.loads(charged.key)
        if kind == BEGIN:
            self.began.setdefault(run, datetime.fromisoformat(charged.at))
        rows = charged.charge.rows
        for view, event in charged.charge.costs:
            if rows or not isinstance(event, NoRelease):
                toward = "others" if view.observer == "owners" else "curator"
                self.toward.setdefault(run, set()).add(toward)
                self._spent.append((charged, Spent(run, charged.at, toward, rows, answered=False)))

    def spent(self) -> list[Spent]:
        """Every charge that cost something, oldest first."""
        return [replace(spent, answered=self._is_answered(charged)) for charged, spent in self._spent]

    def course(self, limits: Mapping[View, Limit]) -> list[SpentSoFar]:
        """Both budgets after each of them; added up once while limits stay the same."""
        if self._course.limits != limits:
            self._course = _Course(limits)
        return self._course.with_charges(self.state.charges)

    def _is_answered(self, charged: Charged) -> bool:
        answer = self.state.requests[charged.key].answer
        return answer is not None and answer.number == charged.entry


class _Course:
    """Sums of charges, each of them kept."""

    def __init__(self, limits: Mapping[View, Limit]) -> None:
        self.limits = limits
        self._tallies = [Tally(view, limit) for view, limit in limits.items()]
        self._views = list(limits)
        self._points: list[SpentSoFar] = []
        self._taken = 0

    def with_charges(self, charges: Sequence[Charged]) -> list[SpentSoFar]:
        for charged in charges[self._taken :]:
            if not charged.charge.free:
                self._add(charged)
        self._taken = len(charges)
        return list(self._points)

    def _add(self, charged: Charged) -> None:
        for view, tally in zip(self._views, self._tallies, strict=True):
            if charged.charge.reaches(view):
                tally.add(charged.charge)
        accounts = [tally.account() for tally in self._tallies]
        epsilon = sum(account.epsilon or 0.0 for account in accounts)
        rows, readable = sum(account.rows for account in accounts), sum(account.readable for account in accounts)
        self._points.append(SpentSoFar(charged.at, epsilon, rows, readable))


_READ: WeakKeyDictionary[Ledger, _Charges] = WeakKeyDictionary()


def _charges(ledger: Ledger) -> _Charges:
    with ledger.reading() as state:  # one thread at a time, also within a decision
        charges = _READ.get(ledger)
        if charges is None or charges.state is not state:  # the first look, or a write was undone
            charges = _READ[ledger] = _Charges(state)
        charges.take_in()
        return charges


BY_SITE = "site"
OTHERS = "others"

_MOST_ALIKE = 20  # of one reason in one run and day
_MOST_OF_RUN = 200  # of an approved run and day
_MOST_REASON = 600
_MOST_NAME = 100
_DAY = len("2026-01-01")


def about_run(run: str) -> str:
    return f"run {run}"


@dataclass
class RefusalCounts:
    """How many refusals of the newest day the log holds, by account and by reason."""

    day: str = ""
    of_account: Counter[str] = field(default_factory=Counter)
    alike: Counter[tuple[str, str]] = field(default_factory=Counter)

    def take(self, run: str, document: dict[str, Any]) -> None:
        if document["at"][:_DAY] > self.day:
            self.day = document["at"][:_DAY]
            self.of_account.clear()
            self.alike.clear()
        self.of_account[document["account"]] += 1
        self.alike[run, document["reason"]] += 1


class Refusals:
    """Writes down what is refused.

    Args:
        log: the audit log.
        counts: what it holds, kept up to date by whoever reads it.
        clock: tells the time.
    """

    def __init__(self, log: Ledger, counts: RefusalCounts, clock: Callable[[], datetime]) -> None:
        self._log = log
        self._counts = counts
        self._clock = clock
        self._day = ""
        self._unwritten: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._last: dict[str, str] = {}

    def write(self, run: str, text: str, *, account: str) -> None:
        """Write a refusal down, or count it; never raises, since that could sound different to the other side.

        Args:
            run: that it is about; empty if that is not known.
            text: the reason.
            account: ``about_run``, ``BY_SITE`` or ``OTHERS``.
        """
        with contextlib.suppress(LikesetError, OSError):
            self._write(run[:_MOST_NAME], text[:_MOST_REASON], account)

    def flush(self) -> None:
        """Write down how many were only counted."""
        with contextlib.suppress(LikesetError, OSError):
            for account in self._unwritten:
                self._tell(account)

    def _write(self, run: str, reason: str, account: str) -> None:
        today = f"{self._clock().astimezone(UTC):%Y-%m-%d}"
        if today != self._day:
            self.flush()
            self._day = today
            self._unwritten.clear()
            self._told.clear()
        fresh = today > self._counts.day
        alike = 0 if fresh else self._counts.alike[run, reason]
        written = 0 if fresh else self._counts.of_account[account]
        most = _MOST_A_DAY if account in (BY_SITE, OTHERS) else _MOST_OF_RUN
        if alike < _MOST_ALIKE and written < most:
            more = {}
            if written == most - 1:
                more = {"more": "the rest of this day is counted only"}
            elif alike == _MOST_ALIKE - 1:
                more = {"more": "further ones of this kind are counted only, for this day"}
            self._log.append("refused", run, {"reason": reason, "account": account, **more})
            return
        self._unwritten[account] += 1
        self._last[account] = reason
        # At every doubling: few entries, and after a crash at most half of the count is missing.
        if self._unwritten[account].bit_count() == 1:
            self._tell(account)

    def _tell(self, account: str) -> None:
        more = self._unwritten[account] - self._told[account]
        if more:
            words = {"account": account, "day": self._day, "count": more, "last_reason": self._last[account]}
            self._log.append("refused-more", "", words)
            self._told[account] += more


UNREADABLE = "cannot be read here"
HEARD = "node/heard-"
"""How the kind of a request begins under which a message is kept with its answer; what follows is the message's."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decided about terms.

    Attributes:
        what: approved or denied.
        digest: of the terms that it is about.
        by: who.
        at: when (UTC).
        reason: for a denial.
        data: for an approval, the data set that may be used.
    """

    what: Literal["approved", "denied"]
    digest: str
    by: str
    at: str
    reason: str = ""
    data: str = ""


@dataclass(frozen=True, slots=True)
class SentReplies:
    """What the audit log says of replies that left.

    Attributes:
        at: when (UTC).
        round: of the run.
        heard: kind of the message that they answer.
        replies: their kinds.
        rows: in all of them.
    """

    at: str
    round: int
    heard: str
    replies: tuple[str, ...]
    rows: int


@dataclass(slots=True)
class RunRecord:
    """One run, by its name.

    Attributes:
        run: its name.
        versions: every version of the terms that came, as it was signed (in base 64), oldest first, by digest; empty
            for one that came before terms were signed.
        invited_at: when each came.
        consumers: who asks by each.
        ends: when each ends, if the log says so; not in logs of before.
        by_steward: digests of those that somebody in this house put here.
        decision: the last one; it is about one version of the terms only.
        withdrawn: by whom and when, if at all.
        reviewed: digest of the terms that somebody looked at last.
        began: whether it was recorded that the run began here.
        smallest_group: of the policy under which it began; None if it did not.
        heard: round and kind of every message that was answered, also with nothing.
        purges: how often messages were removed that may be of this run.
        sent: what was recorded as sent, by the entry of the ledger.
        receipts: digests of the curator's receipts that were kept, oldest first.
    """

    run: str
    versions: dict[str, str] = field(default_factory=dict)
    invited_at: dict[str, str] = field(default_factory=dict)
    consumers: dict[str, str] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    by_steward: set[str] = field(default_factory=set)
    decision: Decision | None = None
    withdrawn: tuple[str, str] | None = None
    reviewed: str = ""
    began: bool = False
    smallest_group: int | None = None
    heard: set[tuple[int, str]] = field(default_factory=set)
    purges: int = 0
    sent: dict[int, SentReplies] = field(default_factory=dict)
    receipts: list[str] = field(default_factory=list)

    @property
    def latest_digest(self) -> str:
        return next(reversed(self.versions))

    @property
    def latest(self) -> Terms:
        return self.version(self.latest_digest)

    def version(self, digest: str) -> Terms:
        return self.invitation(digest).terms

    def invitation(self, digest: str) -> Invitation:
        """The terms of this digest, as the consumer signed them.

        Raises:
            IllegalMessage: they never came, or this likeset refuses to read them.
        """
        if digest not in self.versions:
            raise IllegalMessage(f"run {self.run}: these terms never came here")
        try:
            return _invitation_in(self.versions[digest])
        except LikesetError as error:
            raise IllegalMessage(f"run {self.run}: its terms cannot be read here; deny it, or withdraw") from error

    def readable(self, digest: str) -> Terms | None:
        """The same; None if this likeset refuses to read them: one run must not keep others from theirs."""
        try:
            return self.version(digest)
        except IllegalMessage:
            return None

    def has_ended(self, now: datetime) -> bool:
        """Whether the terms that came last are over; of those that cannot be read here nobody knows."""
        if self.latest_digest in self.ends:  # most lists ask only this, and to read terms takes a while
            return now >= datetime.fromisoformat(self.ends[self.latest_digest])
        terms = self.readable(self.latest_digest)
        return terms is not None and terms.end is not None and now >= terms.end

    @property
    def decision_mark(self) -> str:
        """Stands for the terms and for all that was decided so far: who decides may say what it was that he saw."""
        words = [self.latest_digest, self.decision and self.decision.at, self.decision and self.decision.digest]
        return hashlib.sha256(json.dumps([*words, self.withdrawn]).encode()).hexdigest()[:16]

    @property
    def last_word(self) -> str:
        if self.withdrawn is not None:
            return f"withdrawn by {self.withdrawn[0]} at {self.withdrawn[1][:19]} (UTC)"
        last = self.decision
        return "" if last is None else f"{last.what} by {last.by} at {last.at[:19]} (UTC)"

    def decided(self, digest: str) -> Decision | None:
        return self.decision if self.decision is not None and self.decision.digest == digest else None


@lru_cache(maxsize=4096)
def _invitation_in(text: str) -> Invitation:
    return Invitation.read(base64.b64decode(text))


def _consumer_in(document: dict[str, Any]) -> str:
    if "signed" in document:
        return str(document["consumer"])
    return str(json.loads(document["terms"])["consumer"])  # of a time when terms were not signed


class Runs:
    def __init__(self) -> None:
        self.by_name: dict[str, RunRecord] = {}
        self.refusals = RefusalCounts()
        self.policy = ""
        self.name = ""
        self.last_at = ""

    def take(self, entry: Entry, document: Any) -> None:
        """The next entry of the audit log, and what its body says."""
        self.last_at = max(self.last_at, document["at"])
        if entry.kind == "policy":
            self.policy, self.name = document["digest"], document["name"]
        elif entry.kind == "refused":
            self.refusals.take(entry.key, document)
        elif entry.kind == "purge":
            for record in self.by_name.values():
                record.purges += document["run"] in (None, record.run)
        elif entry.kind == "reserve":
            run, number, kind = json.loads(entry.key)
            if kind.startswith(HEARD) and run in self.by_name:
                self.by_name[run].heard.add((number, kind.removeprefix(HEARD)))
        elif entry.kind == "invited":
            record = self.by_name.setdefault(entry.key, RunRecord(entry.key))
            record.versions[document["digest"]] = document.get("signed", "")  # read when needed: that takes time
            record.invited_at[document["digest"]] = document["at"]
            record.consumers[document["digest"]] = _consumer_in(document)
            if "ends" in document:
                record.ends[document["digest"]] = document["ends"]
            if document.get("by_steward", False):
                record.by_steward.add(document["digest"])
        elif entry.key in self.by_name:
            self._happened(self.by_name[entry.key], entry.kind, document)

    def _happened(self, record: RunRecord, kind: str, document: dict[str, Any]) -> None:
        by, at = document.get("by", ""), document["at"]
        if kind == "approved":
            record.decision = Decision("approved", document["digest"], by, at, data=document["data"])
        elif kind == "denied":
            record.decision = Decision("denied", document["digest"], by, at, reason=document["reason"])
        elif kind == "withdrawn":
            record.withdrawn = (by, at)
        elif kind == "reviewed":
            record.reviewed = document["digest"]
        elif kind == "began":
            record.began, record.smallest_group = True, document["smallest_group"]
        elif kind == "sent":
            record.sent[document["entry"]] = SentReplies(
                at, document["round"], document["heard"], tuple(document["replies"]), document["rows"]
            )
        elif kind == "acknowledged":
            record.receipts = [
                *(digest for digest in record.receipts if digest != document["digest"]),
                document["digest"],
            ]

    def know(self, terms: Terms) -> bool:
        return terms.run in self.by_name and terms.digest in self.by_name[terms.run].versions

    def waiting(self) -> list[RunRecord]:
        """Runs whose latest terms nobody has decided about."""
        return [
            record
            for record in self.by_name.values()
            if record.withdrawn is None and record.decided(record.latest_digest) is None
        ]


def ended_split_runs(runs: Runs, now: datetime) -> list[str]:
    """Names of runs in which rows left as shares, and whose terms are over.

    What was shared (keys, random numbers, salts) is of no use to this owner then, and goes. That it left stays on
    record.
    """
    shared = (record for record in runs.by_name.values() if record.decision is not None and record.sent)
    return [
        record.run
        for record in shared
        if record.decision is not None
        and (terms := record.readable(record.decision.digest)) is not None
        and terms.split is not None
        and terms.end is not None
        and now >= terms.end
    ]


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
        content = self.story + self.message.data + content
        request = Request(self.message.run, self.message.round, kind, content=content)
        unfinished: Unfinished = "resume" if keyed else "refuse"
        charged = self.transaction.reserve(Charge(costs, rows, readable), request=request, unfinished=unfinished)
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
    if len(data) < _HEAD.size:
        raise LedgerUnreadable("journal: a stored exchange is damaged")
    magic, length = _HEAD.unpack_from(data)
    if magic != _MAGIC or len(data) < _HEAD.size + length:
        raise LedgerUnreadable("journal: a stored exchange is damaged")
    return data[_HEAD.size : _HEAD.size + length], data[_HEAD.size + length :]


class Judge:
    """The policy of a node, and its verdicts.

    Args:
        home: the node's directory.
        ledger: with what is spent, and the audit log in it.
        runs: what that says.
        clock: tells the time.
    """

    def __init__(self, home: Home, *, ledger: Ledger, runs: Runs, clock: Callable[[], datetime]) -> None:
        self.registry = Registry(home.data)
        self.pins = home.pins()
        self._home = home
        self._path = home.policy
        self._ledger = ledger
        self._runs = runs
        self._clock = clock
        self._read: tuple[bytes, Policy] | None = None
        self._counted: tuple[Policy, Head] | None = None
        self.name = runs.name or Policy.load(home.policy).name

    def policy(self) -> Policy:
        """The policy as it stands in its file; nothing is written.

        Raises:
            BadDocument: it cannot be read, or does not fit what this node was before.
        """
        return self.fitting(self._as_written())

    def fitting(self, policy: Policy) -> Policy:
        """A policy that this node may have; raises as ``policy`` if it does not fit what the node was before."""
        for name in (self.name, self._runs.name or self.name):  # another process may have been faster
            if policy.name != name:
                # Budgets are kept by name: under another one they would start anew.
                reason = f"was {name}, and a node keeps its name; put it back, or make another node"
                raise BadDocument(str(self._path), reason, field="name")
        counted = policy, self._ledger.head()
        if self._counted != counted:  # lists judge many runs
            accounts_under(self._ledger, policy, path=self._path)  # raises if they cannot be counted
            self._counted = counted
        return policy

    def _as_written(self) -> Policy:
        """What stands in the file; the same text is parsed once, for lists judge many runs."""
        try:
            text = self._path.read_bytes()
        except OSError:
            return Policy.load(self._path)  # says why it cannot be read
        if self._read is None or self._read[0] != text:
            self._read = text, Policy.load(self._path)
        return self._read[1]

    def policy_in_force(self, *, by: str = "") -> Policy:
        """The same; a change, and who made it, is in the audit log, its totals in the ledger, before this returns."""
        policy = self.policy()
        digest = hashlib.sha256(policy.model_dump_json().encode()).hexdigest()
        if digest != self._runs.policy:
            words = {"digest": digest, "name": policy.name, "policy": policy.model_dump(mode="json")}
            self._ledger.append("policy", "", words | ({"by": by} if by else {}))
        set_limits(self._ledger, policy)
        return policy

    def judge(self, policy: Policy, terms: Terms, *, data: str = "") -> Verdict:
        """Whether a policy allows a run, with every reason against it; nothing is written.

        Args:
            policy: as it is, or as it is in force.
            terms: of the run.
            data: the data set to use; the one that fits if empty.
        """
        if policy.name not in terms.owners:
            return Verdict.of([f"{policy.name} is not among the owners that the terms invite"])
        try:
            accounts = accounts_for(self._ledger, terms, policy)
        except (LikesetError, ArithmeticError, ValueError) as error:  # a stranger's numbers, which may be odd together
            return Verdict.of([f"what it costs cannot be computed ({type(error).__name__})"])
        history = History(began(self._ledger), self._clock())
        reasons = [*self._about_cards(policy, terms), *self._about_data(terms, data)]
        return Verdict.of([*reasons, *verdict(policy, terms, accounts, history).reasons])

    def asking(self, policy: Policy, terms: Terms) -> tuple[AskingCard, ...]:
        return asking_cards(policy, terms, self.pins)

    def check_cards(self, terms: Terms) -> None:
        """Raise unless all cards that a run is under count here, whatever owner.yaml says: also if it has begun.

        Raises:
            IllegalMessage: one of them is not pinned (any more), or the terms name another card than this node's.
        """
        own = own_card_fault(self._home, self.name, terms)
        faults = [*([own] if own else []), *unpinned(terms, self.name, self.pins)]
        if faults:
            raise IllegalMessage(f"run {terms.run}: {'; '.join(faults)}")

    def _about_cards(self, policy: Policy, terms: Terms) -> list[str]:
        faults = (own_card_fault(self._home, self.name, terms), *(card.fault for card in self.asking(policy, terms)))
        return [fault for fault in faults if fault]

    def data_for(self, terms: Terms, *, data: str = "") -> DataSet:
        """The data set that a run uses.

        Raises:
            InvalidArgument: none fits, or the choice is not clear.
        """
        problems = self._about_data(terms, data)
        if problems:
            raise InvalidArgument("data set", data or "none", problems[0])
        return self.registry.get(data) if data else self.registry.for_terms(terms)[0]

    def _about_data(self, terms: Terms, name: str) -> list[str]:
        fitting = [data for data in self.registry.for_terms(terms) if name in ("", data.name)]
        if not fitting:
            which = f"data set {name} does not have" if name else "no registered data set has"
            return [f"{which} the schema of the terms"]
        if len(fitting) > 1:
            names = ", ".join(data.name for data in fitting)
            return [f"several data sets have the schema of the terms ({names}): say which, with --data"]
        return fitting[0].misfits(terms)


@dataclass(frozen=True, eq=False)
class Permits:
    """What a node asks before it answers.

    Args:
        judge: knows the policy and the pinned cards.
        ledger: knows which runs have begun.
        check_running: raises if the node was put back from an old copy.
        clock: tells the time.
    """

    judge: Judge
    ledger: Ledger
    check_running: Callable[[], None]
    clock: Callable[[], datetime]

    def check_not_ended(self, record: RunRecord, terms: Terms) -> None:
        """Raise if nothing may be said under these terms (any more), whatever was decided.

        Raises:
            LikesetError: the run was withdrawn, its terms or its cards count no longer, or the node is an old copy.
        """
        self.check_running()
        if record.withdrawn is not None:
            raise IllegalMessage(f"run {record.run} was withdrawn")
        check_not_expired(terms, self.clock())
        self.judge.check_cards(terms)

    def check_open(self, record: RunRecord, terms: Terms) -> None:
        """Raise unless messages under these terms may be answered."""
        self.check_not_ended(record, terms)
        decision = record.decided(terms.digest)
        if decision is None and record.decision is not None:
            raise IllegalMessage(f"run {record.run}: other terms than these were decided about")
        if decision is None:
            raise IllegalMessage(f"run {record.run}: nobody has approved these terms")
        if decision.what == "denied":
            raise IllegalMessage(f"run {record.run} was denied")

    def check_undecidable(self, record: RunRecord, digest: str, *, seen: str | None = None) -> None:
        """Raise if nobody can decide about these terms any more, or somebody did since they were ``seen``."""
        self.check_seen(record, seen)
        if record.withdrawn is not None:
            raise InvalidArgument("RUN", record.run, "was withdrawn; that stays so")
        if record.decided(digest) is None and self.has_begun(record):
            raise InvalidArgument("RUN", record.run, "has begun under other terms")

    def check_seen(self, record: RunRecord, seen: str | None) -> None:
        """Raise if a run is not as somebody saw it who decides now.

        Raises:
            DecidedMeanwhile: somebody else decided since, or other terms came.
        """
        if seen is not None and seen != record.decision_mark:
            raise DecidedMeanwhile(record.run, record.last_word)

    def has_begun(self, record: RunRecord) -> bool:
        """Whether a run was charged; where a crash came between the charge and the log, the ledger knows."""
        return record.began or record.run in began(self.ledger)

    def permit(self, record: RunRecord, terms: Terms) -> Policy:
        """The policy that a run is under; raises if it may not begin, and did not."""
        policy, decision = self.judge.policy_in_force(), record.decided(terms.digest)
        if terms.run not in began(self.ledger):
            self.check_allowed(policy, terms, data=decision.data if decision else "")
        return policy

    def check_allowed(self, policy: Policy, terms: Terms, *, data: str) -> None:
        """Raise unless a policy allows a run, with every reason against it."""
        verdict = self.judge.judge(policy, terms, data=data)
        if not verdict.accepted:
            raise IllegalMessage("; ".join(verdict.reasons))


_MOST_WAITING = 200  # runs that wait for a decision
_MOST_WAITING_OF_ONE = 20  # of one consumer
_MOST_VERSIONS = 20  # of the terms of one run, from one consumer
_MOST_A_DAY = 500  # versions that come, of all consumers
_MOST_A_DAY_OF_ONE = 50


def check_known_card(data: bytes, pins: Pins) -> None:
    """Raise unless bytes are terms that a card signed which is pinned here as a consumer's; the terms are not read.

    Raises:
        BadDocument: they are no signed terms.
        IllegalMessage: the card does not count here; with its fingerprint, which is all that is kept.
    """
    fault = card_fault("consumer", SignedTerms.from_bytes(data).card.fingerprint, pins)
    if fault:
        raise IllegalMessage(f"an invitation: {fault}")


def entry_words(invitation: Invitation, *, by_steward: bool) -> dict[str, Any]:
    """What the audit log keeps of an invitation: the whole document as it was signed."""
    terms, signed = invitation.terms, base64.b64encode(invitation.to_bytes()).decode("ascii")
    words = {"digest": terms.digest, "consumer": terms.consumer, "card": terms.cards[terms.consumer], "signed": signed}
    words |= {} if terms.end is None else {"ends": terms.end.isoformat()}
    return {**words, "by_steward": True} if by_steward else words


def check_words(policy: Policy, terms: Terms, now: datetime) -> None:
    """Raise if the policy forbids these terms whatever they cost: nothing is computed from them.

    Raises:
        IllegalMessage: it does; with the digest, which is all that is kept of them.
    """
    against = plainly_against(policy, terms, now)
    if against:
        raise IllegalMessage(f"run {terms.run}, terms {terms.digest}: {'; '.join(against)}")


def check_not_begun(runs: Runs, terms: Terms) -> None:
    """Raise if the run has begun under other terms.

    Raises:
        IllegalMessage: it has.
    """
    record = runs.by_name.get(terms.run)
    if record is not None and record.began:
        raise IllegalMessage(
            f"run {terms.run}, terms {terms.digest}: the run is known under other terms, and has begun"
        )


def check_room(runs: Runs, policy: Policy, terms: Terms, now: datetime) -> None:
    """Raise if these terms came too often, or too many others wait; what the steward put there does not count.

    Raises:
        IllegalMessage: no room is left.
    """
    what, record = f"run {terms.run}, terms {terms.digest}", runs.by_name.get(terms.run)
    if record is not None:
        versions = [who for digest, who in record.consumers.items() if digest not in record.by_steward]
        if versions.count(terms.consumer) >= _MOST_VERSIONS:
            raise IllegalMessage(f"{what}: the terms changed too often")
    else:
        others = [
            other.consumers[other.latest_digest]
            for other in waiting(runs, policy, now)
            if other.latest_digest not in other.by_steward
        ]
        if len(others) >= _MOST_WAITING or others.count(terms.consumer) >= _MOST_WAITING_OF_ONE:
            raise IllegalMessage(f"{what}: the inbox is full")
    today = f"{now.astimezone(UTC):%Y-%m-%d}"
    came = [
        known.consumers[digest]
        for known in runs.by_name.values()
        for digest, at in known.invited_at.items()
        if at.startswith(today) and digest not in known.by_steward
    ]
    if len(came) >= _MOST_A_DAY or came.count(terms.consumer) >= _MOST_A_DAY_OF_ONE:
        raise IllegalMessage(f"{what}: too many terms came today")


def waiting(runs: Runs, policy: Policy, now: datetime) -> list[RunRecord]:
    """Runs that somebody could decide about: not what is forbidden by its words, has ended, or cannot be read."""
    return [
        record
        for record in runs.waiting()
        if (terms := record.readable(record.latest_digest)) is not None and not plainly_against(policy, terms, now)
    ]


Permit = Callable[[RunRecord, Terms], Policy]
"""Asked before a run is opened here; raises if it may not be."""

Stands = Callable[[RunRecord, Terms], None]
"""Asked when a run begins, and before each answer leaves; raises if the decision for it stands no longer."""


@dataclass(eq=False)
class _Active:
    owner: Owner
    sources: ExitStack = field(default_factory=ExitStack)  # closed when the run is let go
    rows: dict[tuple[int, str], int] = field(default_factory=dict)  # that left, by round and kind of what was heard
    story: bytes = b""  # a digest of all that was heard, in order
    purges: int = 0  # that were on record when it was made

    def heard(self, message: Message, rows: int) -> None:
        self.rows[message.round, message.body.kind] = rows
        self.story = hashlib.sha256(self.story + message.data).digest()


class RunAnswers:
    """The runs that this process answers.

    Args:
        home: the node's directory.
        name: the owner's name.
        ledger: where everything is charged, kept and written down.
        clock: tells the time.
    """

    def __init__(self, home: Home, name: str, *, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._home = home
        self._name = name
        self._key = home.key()
        self._registry = Registry(home.data)
        self._ledger = ledger
        self._clock = clock
        self._active: dict[str, _Active] = {}

    def answer(
        self, record: RunRecord, terms: Terms, message: Message, *, permit: Permit, stands: Stands
    ) -> tuple[Message, ...]:
        active = self._active.get(terms.digest)
        if active is not None and (active.owner.failed or active.rows.keys() != record.heard):
            self._let_go(terms)  # also where another process answered since: what follows depends on that
        elif active is not None and active.purges != record.purges:
            self._let_go(terms)  # what was removed is not to be sent from memory
        if terms.digest not in self._active:
            if not record.began:
                Owner.check_opening(terms, self._name, message)  # what begins nothing costs nothing
            self._active[terms.digest] = self._begun(record, terms, permit(record, terms), stands)
        return self._answered(record, self._active[terms.digest], message, stands)

    def _let_go(self, terms: Terms) -> None:
        self._active.pop(terms.digest).sources.close()

    def close(self) -> None:
        with ExitStack() as stack:
            for active in self._active.values():
                stack.push(active.sources)

    def _begun(self, record: RunRecord, terms: Terms, policy: Policy, stands: Stands) -> _Active:
        decision = record.decided(terms.digest)
        assert decision is not None  # noqa: S101 - the node asks only for what is approved
        with ExitStack() as stack:
            data = self._registry.get(decision.data)
            source = stack.enter_context(data.open_source())
            smallest = record.smallest_group or policy.smallest_group
            opened = data.guarded(source, terms, smallest_group=smallest, key=self._key)
            # Without the seed nothing can be answered, so nothing is charged.
            if record.began:
                with self._ledger.deciding() as transaction:
                    self._charge(transaction, terms, data.name, opened.fingerprint)
            else:
                self._begin(record, terms, decision, policy, stands, opened.fingerprint)
            active = self._resumed(record, terms, opened)
            active.sources = stack.pop_all()
        return active

    def _begin(
        self, record: RunRecord, terms: Terms, decision: Decision, policy: Policy, stands: Stands, fingerprint: str
    ) -> None:
        """Charge, and write down that the run began: while nobody can decide otherwise, or begin another run."""
        with self._ledger.deciding() as transaction:
            stands(record, terms)
            if record.decided(terms.digest) != decision:
                raise IllegalMessage(f"run {terms.run}: somebody decided anew while it began")
            starts = began(self._ledger)
            if terms.run not in starts:
                reasons = about_month(policy, terms.run, History(starts, self._clock()))
                if reasons:
                    raise IllegalMessage("; ".join(reasons))
            self._charge(transaction, terms, decision.data, fingerprint)
            if not record.began:
                words = {"digest": terms.digest, "data": decision.data, "smallest_group": policy.smallest_group}
                transaction.append("began", terms.run, words)

    def _charge(self, transaction: Transaction, terms: Terms, data: str, fingerprint: str) -> None:
        """For what others may learn, before anything is answered; a run goes on with the data that it began with."""
        others, _, _ = costs_of(terms, self._name)
        charged = transaction.reserve(
            Charge(((others.view, others.event),)),
            request=Request(terms.run, 0, BEGIN, content=terms.digest.encode()),
            unfinished="resume",  # nothing is drawn here: the charge is for what the curator will draw
        )
        first = charged.answer if charged.answer is not None else transaction.commit(charged, fingerprint.encode())
        if first != fingerprint.encode():
            raise IllegalMessage(
                f"run {terms.run}: data set {data} is not what it was when the run began: its rows, its schema or "
                "smallest_group changed"
            )

    def _resumed(self, record: RunRecord, terms: Terms, opened: OpenedData) -> _Active:
        """The owner of the protocol, where it was before: it hears again what it heard, and nothing is charged anew."""
        party = make_owner(
            terms,
            self._name,
            scan=opened.scan,
            key=self._key,
            declared=opened.declared,
            secret=None if terms.split is None else self._home.card_secret(),
        )
        active = _Active(party, purges=record.purges)
        for past in exchanges(self._ledger, terms.run):
            if not past.entry:
                continue  # a crash came before it was on record: nothing was sent, and it may come again
            heard, kept = decode(past.heard), past.kept
            replies = carry(party.receive(heard), lambda _wanted, kept=kept: kept)  # type: ignore[misc]
            if tuple(reply.data for reply in replies) != past.replies:
                raise IllegalMessage(f"run {terms.run}: its past does not repeat itself; it cannot go on")
            active.heard(heard, rows_in(replies))
        if active.rows.keys() != record.heard:
            raise IllegalMessage(f"run {terms.run}: a part of its past was purged; it cannot go on")
        return active

    def _answered(self, record: RunRecord, active: _Active, message: Message, stands: Stands) -> tuple[Message, ...]:
        """The replies: charged, kept and written down as sent in one write, and only if the decision then stands."""
        terms, slot = active.owner.terms, (message.round, message.body.kind)
        step = active.owner.receive(message)  # reads rows, which may take long: nobody is kept waiting for that
        try:
            with self._ledger.deciding() as transaction:
                stands(record, terms)
                if slot in active.rows:
                    return step.replies  # on record, with what they cost
                if record.heard - active.rows.keys() - {slot}:
                    raise IllegalMessage(f"run {terms.run}: another process answered meanwhile; it may come again")
                replies, rows, as_drawn = self._recorded(transaction, record, active, message, step)
        except BaseException:
            self._let_go(terms)  # it has heard what is not on record
            raise
        active.heard(message, rows)
        if not as_drawn:
            self._let_go(terms)  # it would repeat what it drew, and not what is kept
        return replies

    def _recorded(
        self, transaction: Transaction, record: RunRecord, active: _Active, message: Message, step: Step
    ) -> tuple[tuple[Message, ...], int, bool]:
        """The replies as they are kept, how many rows are in them, and whether the party will say the same again."""
        exchange = ExchangeRecord(transaction, self._name, message, active.story)
        charged, most, as_drawn = step.charge is not None, active.owner.terms.rows_per_owner, True
        replies = carry(step, exchange.charge)
        rows = rows_in(replies)
        if sum(active.rows.values()) + rows > most:
            raise IllegalMessage(f"run {record.run}: more rows would leave than the {most} that the terms allow")
        if not charged:
            kept = exchange.keep(replies)
            if kept != tuple(reply.data for reply in replies):
                as_drawn, replies = False, tuple(map(decode, kept))  # another process was faster
        words = {
            "entry": exchange.entry,
            "round": message.round,
            "heard": message.body.kind,
            "replies": [reply.body.kind for reply in replies],
            "bytes": sum(len(reply.data) for reply in replies),
            "rows": rows,
        }
        if replies and exchange.entry not in record.sent:
            transaction.append("sent", record.run, words)
        return replies, rows, as_drawn


_BY_POLICY = "owner.yaml"

_Answer = TypeVar("_Answer")


class OwnerNode:
    """An owner's side of all its runs, over a directory that several processes may share.

    Args:
        folder: the node's directory.
        clock: tells the time.

    Attributes:
        failed: never: the node makes its parties anew by itself.

    Privacy contract:
        Protects:  the owner's rows, within the limits of ``owner.yaml``.
        Reveals:   to the curator: replies of the protocol in approved runs, and whether it takes part, waits or
                   abstains; to those who read the directory: everything.
        Costs:     what the terms announce, charged to the node's ledger before the first answer of a run.
        Assumes:   the directory and its clock are the owner's own; nothing else answers in its name.
        Basis:     proven, docs/proofs/ledger.md
    """

    failed: ClassVar[bool] = False

    def __init__(self, folder: Path, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.home = Home(folder)
        self.home.check()
        self._clock = clock
        self._lock = threading.RLock()
        self._open = ExitStack()
        self.runs = Runs()
        self.ledger = Ledger(self.home.ledger, clock=clock, reader=self.runs.take)
        self._open.callback(self.ledger.close)
        self._refusals = Refusals(self.ledger, self.runs.refusals, clock)
        self._open.callback(self._refusals.flush)
        try:
            self.ledger.refresh()
            self._judge = Judge(self.home, ledger=self.ledger, runs=self.runs, clock=clock)
            self._permits = Permits(self._judge, self.ledger, self.check_running, clock)
            self.registry = self._judge.registry
            self.name = self.policy.name
            self._answers = RunAnswers(self.home, self.name, ledger=self.ledger, clock=clock)
            self._open.callback(self._answers.close)
        except BaseException:
            self._open.close()
            raise

    @property
    def policy(self) -> Policy:
        return self._judge.policy()

    def put_policy_in_force(self, *, by: str = "") -> Policy:
        """The same; a change is written into the audit log before it counts, with who made it if that is known."""
        return self._judge.policy_in_force(by=by)

    def check_policy(self, policy: Policy) -> None:
        """Raise ``BadDocument`` unless this node may have this policy: its name and its relation stay."""
        self._judge.fitting(policy)

    def now(self) -> datetime:
        return self._clock()

    @cached_property
    def book(self) -> LetterBook:
        """The letters of all runs; keys of those whose terms have ended are gone."""
        book = LetterBook(self.home.book_file, clock=self._clock)
        self._open.callback(book.close)
        book.settle_ended()
        return book

    @cached_property
    def identity(self) -> Identity:
        """Who this node is in letters, and whom it knows.

        Raises:
            BadDocument: it has no keys; others can read them, or they are damaged.
        """
        return Identity(self.home.card_secret(), self._judge.pins, self.book)

    def check_running(self) -> None:
        """Raise if this node was found to be put back from an old copy: then it decides and answers nothing.

        Raises:
            HomeRestored: it was.
        """
        if self.home.book_file.exists():
            self.book.check_running()

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What others may ask.

    def take_invitation(self, data: bytes) -> Standing:
        """Terms of a run that a consumer signed; they wait for a decision, unless the policy decides.

        Of terms that the policy forbids only the digest is kept, and of a card that is not pinned only its fingerprint.
        """

        def take() -> Standing:
            check_known_card(data, self._judge.pins)
            invitation = Invitation.read(data)
            self._take_in(invitation, by_steward=False)
            return self._stand(self.runs.by_name[invitation.terms.run], invitation.terms)

        return self.guarded("", take)

    def add_invitation(self, invitation: Invitation) -> bool:
        """The same for somebody in this house, who sees also what is forbidden, and hears why something is not added.

        Returns:
            Whether these terms were not known before.

        Raises:
            IllegalMessage: they are not for this owner, or the run has begun under other terms.
            HomeRestored: this node was put back from an old copy.
        """
        return self.logging_refusals("", lambda: self._take_in(invitation, by_steward=True))

    def standing(self, run: str, digest: str | None = None) -> Standing:
        """Whether this owner takes part in a run: ready, waiting for a decision, or it abstains.

        Args:
            run: its name.
            digest: of its terms; of those that came last if None.
        """

        def look() -> Standing:
            self.ledger.refresh()
            record = self._known(run)
            return self._stand(record, record.latest if digest is None else record.version(digest))

        return self.guarded(run, look)

    def take(self, message: Message) -> tuple[Message, ...]:
        """The replies to a message, which somebody else has opened and knows the writer of (``homes.owner.site``).

        Raises:
            LikesetError: it is refused; the reason is in the audit log, and for nobody else.
        """

        def answer() -> tuple[Message, ...]:
            self.ledger.refresh()
            record = self._known(message.run)
            terms = record.version(message.terms)
            self._permits.check_open(record, terms)
            permits = self._permits
            return self._answers.answer(record, terms, message, permit=permits.permit, stands=permits.check_open)

        return self.logging_refusals(message.run, answer)

    def check_open(self, terms: Terms) -> None:
        """Raise unless messages under these terms may be answered now.

        Raises:
            LikesetError: they may not.
        """
        self.ledger.refresh()
        self._permits.check_open(self._known(terms.run), terms)

    def logging_refusals(self, run: str, work: Callable[[], _Answer]) -> _Answer:
        """What somebody wants done in a run; where that fails, the audit log says why before the error goes on."""
        with self._lock:
            try:
                return work()
            except Exception as error:
                self._refuse(run, error)
                raise

    def guarded(self, run: str, work: Callable[[], _Answer]) -> _Answer | Abstains:
        """The same for somebody outside, who hears nothing but that this owner abstains."""
        try:
            return self.logging_refusals(run, work)
        except Exception:
            return ABSTAINS

    def refused(self, reason: str, *, run: str = "") -> None:
        """Write down what was refused before it came here: its size, its form, who wrote it.

        Args:
            reason: why.
            run: whose letter it is; empty where that is not known.
        """
        with self._lock, contextlib.suppress(LikesetError, OSError):
            self.ledger.refresh()
            self._refusals.write(run, reason, account=self._account_of(run) if run else BY_SITE)

    # What the owner decides.

    def judge(self, terms: Terms, *, data: str = "") -> Verdict:
        """Whether the policy allows a run, with every reason against it; the same in reviews and when it begins.

        Args:
            terms: of the run.
            data: the data set to use; the one that fits if empty.
        """
        return self._judge.judge(self.policy, terms, data=data)

    def asking(self, terms: Terms) -> tuple[AskingCard, ...]:
        return self._judge.asking(self.policy, terms)

    def record_of(self, run: str) -> RunRecord:
        """What is known of a run.

        Raises:
            InvalidArgument: nobody was invited to a run of that name.
        """
        self.ledger.refresh()
        if run not in self.runs.by_name:
            raise InvalidArgument("RUN", run, "is not known here; see `likeset owner inbox --all`")
        return self.runs.by_name[run]

    def transcript(self, run: str) -> Transcript:
        """What passed between the curator and this node in a run: under the terms that somebody decided about.

        Raises:
            IllegalMessage: these terms cannot be read here.
        """
        record = self.record_of(run)
        terms = record.version(record.decision.digest if record.decision else record.latest_digest)
        book = self.book if self.home.book_file.exists() else None  # to look leaves no file
        return transcript_of(book, terms, owner=self.name, kept_by="owner")

    def waiting(self) -> list[RunRecord]:
        """Runs that wait for a decision: not those whose terms have ended, but those that cannot be read here."""
        self.ledger.refresh()
        return [record for record in self.runs.waiting() if not record.has_ended(self._clock())]

    def note(self, kind: str, run: str, **words: Any) -> None:
        """Write something into the audit log."""
        self.ledger.append(kind, run, words)

    def approve(self, run: str, digest: str, *, by: str, data: str = "", seen: str | None = None) -> Verdict:
        """Approve these very terms, if the policy allows them; others of the same run are approved no longer.

        Args:
            run: its name.
            digest: of the terms that are approved.
            by: who approves.
            data: the data set that may be used; the one that fits if empty.
            seen: ``decision_mark`` of the run as they saw it; whatever it is now if None.

        Raises:
            DecidedMeanwhile: somebody else decided since.
        """
        self.check_running()
        record = self.record_of(run)
        terms = record.version(digest)
        self._permits.check_undecidable(record, digest, seen=seen)
        verdict = self._judge.judge(self.put_policy_in_force(), terms, data=data)
        if verdict.accepted:
            chosen = data or self.registry.for_terms(terms)[0].name
            with self.ledger.deciding() as transaction:
                self._permits.check_undecidable(record, digest, seen=seen)
                transaction.append("approved", run, {"digest": digest, "by": by, "data": chosen})
        return verdict

    def deny(self, run: str, *, by: str, reason: str, seen: str | None = None) -> None:
        """Refuse the terms of a run that came last; ``seen`` as in ``approve``."""
        self.check_running()
        record = self.record_of(run)
        with self.ledger.deciding() as transaction:
            self._permits.check_undecidable(record, record.latest_digest, seen=seen)
            if self._permits.has_begun(record):
                raise InvalidArgument("RUN", run, "has begun; end it with `likeset owner withdraw`")
            transaction.append("denied", run, {"digest": record.latest_digest, "by": by, "reason": reason})

    def withdraw(self, run: str, *, by: str, seen: str | None = None) -> None:
        """From now on no message of this run is answered; what left has left, and stays charged.

        An answer that is being computed meanwhile does not leave: it would have to be written down as sent, and after
        this entry it is not. The run's key stays: a receipt for what left before may still come. ``seen`` as in
        ``approve``.
        """
        self.check_running()
        record = self.record_of(run)
        with self.ledger.deciding() as transaction:
            self._permits.check_seen(record, seen)
            if record.withdrawn is None:
                transaction.append("withdrawn", run, {"by": by})

    def data_for(self, terms: Terms, *, data: str = "") -> DataSet:
        """The data set that a run uses.

        Raises:
            InvalidArgument: none fits, or the choice is not clear.
        """
        return self._judge.data_for(terms, data=data)

    # How a run is let in.

    def _take_in(self, invitation: Invitation, *, by_steward: bool) -> bool:
        """Write terms down that are not known yet; returns whether they were not."""
        self.check_running()
        self.settle_ended()
        terms = invitation.terms
        if self.runs.know(terms):
            return False
        policy = self.put_policy_in_force()
        if self.name not in terms.owners:
            raise IllegalMessage(f"run {terms.run}, terms {terms.digest}: they do not invite {self.name}")
        if not by_steward:
            check_words(policy, terms, self._clock())
        with self.ledger.deciding() as transaction:
            if not self.runs.know(terms):
                check_not_begun(self.runs, terms)
                if not by_steward:
                    check_room(self.runs, policy, terms, self._clock())
                transaction.append("invited", terms.run, entry_words(invitation, by_steward=by_steward))
        return True

    def settle_ended(self) -> None:
        """Forget what runs needed whose terms have ended: keys, and what was shared. A node may be open for months."""
        if self.home.book_file.exists():
            self.book.settle_ended()
        self.ledger.refresh()
        forget_exchanges(self.ledger, ended_split_runs(self.runs, self._clock()))

    def _stand(self, record: RunRecord, terms: Terms) -> Standing:
        decision = record.decided(terms.digest)
        self._permits.check_not_ended(record, terms)
        if decision is not None and decision.what == "denied":
            return ABSTAINS
        if decision is not None and record.began:
            return READY
        policy = self.put_policy_in_force()
        self._permits.check_allowed(policy, terms, data=decision.data if decision else "")
        if decision is None:
            if policy.manual_approval:
                return WAITING
            self.approve(terms.run, terms.digest, by=_BY_POLICY)
        return READY

    def _known(self, run: str) -> RunRecord:
        if run not in self.runs.by_name:
            raise IllegalMessage(f"run {run} is unknown here")
        return self.runs.by_name[run]

    def _refuse(self, run: str, error: Exception) -> None:
        # Texts of errors that are not likeset's may quote rows.
        name = type(error).__name__
        reason = f"{name}: {error}" if isinstance(error, LikesetError) else name
        self._refusals.write(run, reason, account=self._account_of(run))

    def _account_of(self, run: str) -> str:
        record = self.runs.by_name.get(run)
        approved = record is not None and record.decision is not None and record.decision.what == "approved"
        return about_run(run) if approved else OTHERS


_MOST_ASIDE = 8  # of one run; a flood must not fill the disk


def receipt_path(node: OwnerNode, run: str) -> Path:
    return _folder(node) / f"{file_name(run)}.json"


def kept_receipt(node: OwnerNode, run: str) -> Receipt | None:
    """The receipt of a run that acknowledges most; None if there is none.

    Raises:
        BadDocument: its file cannot be read.
    """
    path = receipt_path(node, run)
    return read_receipt(path) if path.exists() else None


# Taking a receipt in.


def take(node: OwnerNode, terms: Terms, data: bytes) -> bool:
    """Look at a receipt that came from the curator; keep it if it is good, and return whether it is the one now kept.

    Reasons are in words that do not vary with what the curator writes: the audit log counts refusals by them.

    Raises:
        IllegalMessage: it is refused.
        LikesetError: it cannot be looked at or kept.
    """
    try:
        receipt = receipt_in("receipt", data)
    except BadDocument:
        _refuse("it is none, or of another version", terms)
    _check_owner(node, receipt, terms)
    signed = receipt.transcript
    if (signed.run, signed.run_id, signed.terms) != (terms.run, terms.run_id, terms.digest):
        _refuse("it is about another run, or other terms", terms)
    return _take(node, receipt, terms)


def _check_owner(node: OwnerNode, receipt: Receipt, terms: Terms) -> None:
    if receipt.transcript.owner != node.name:
        _refuse("it is for another owner", terms)


def _take(node: OwnerNode, receipt: Receipt, terms: Terms) -> bool:
    if fault_under(receipt, terms) is not None:
        _refuse(f"{signer_in_words(terms)}'s card did not sign it as it is", terms)
    run = receipt.transcript.run
    with _alone(node):
        record, before, own = node.record_of(run), kept_receipt(node, run), node.transcript(run)
        if compare(own, receipt.transcript)[0]:
            _set_aside(node, receipt)
            _refuse("it contradicts what this node wrote and received; see receipts/aside", terms)
        if before is not None:
            if not _covers(receipt, before, own):
                _set_aside(node, receipt)
                _refuse("it acknowledges less than one that is kept, or something else; see receipts/aside", terms)
            if _covers(before, receipt, own):
                receipt = before  # nothing new, and the earlier time is the better evidence
            elif _contradictions(own, before.transcript, terms):
                _set_aside(node, before, always=True)  # at most once for each line that this node knows
        if receipt is not before:
            _write(receipt_path(node, run), receipt)
        if receipt.digest != _last_kept(record):
            letters, rows = len(receipt.transcript.lines), receipt.transcript.rows
            node.note("acknowledged", run, digest=receipt.digest, rows=rows, letters=letters)
            return True
        return False


def fault_under(receipt: Receipt, terms: Terms) -> str | None:
    who = acknowledging_party(terms)
    signer, reader = receipt.card.fingerprint, terms.cards.get(who)
    if signer != reader:
        return f"it is signed by the card {signer}, and {signer_in_words(terms)}'s in this run is {reader}"
    return receipt.fault()


def _last_kept(record: RunRecord) -> str:
    """The digest of the receipt that the audit log knows as the last one; empty if it knows none."""
    return record.receipts[-1] if record.receipts else ""


def _covers(receipt: Receipt, other: Receipt, own: Transcript) -> bool:
    return _known_lines(other, own) <= _known_lines(receipt, own)


def _known_lines(receipt: Receipt, own: Transcript) -> set[Line]:
    """What a receipt says about what this node knows; about what never came here, anything could be written."""
    return set(receipt.transcript.lines) & set(own.lines)


def _contradictions(own: Transcript, signed: Transcript, terms: Terms) -> list[str]:
    """What the signer claims to have said and what this node heard otherwise, or under other terms."""
    signer = signer_in_words(terms)
    if own.terms != signed.terms:
        return [f"terms: they are {own.terms} here, and {signer} signed {signed.terms}"]
    return [
        f"{difference.line}: {signer} signed something else than what came"
        for difference in differences(own, signed)
        if difference.kind == "another letter" and difference.line.way == TO_OWNER
    ]


def _refuse(reason: str, terms: Terms) -> NoReturn:
    raise IllegalMessage(f"a receipt of {signer_in_words(terms)} is refused: {reason}")


def _folder(node: OwnerNode) -> Path:
    return node.home.folder / "receipts"


def _aside_folder(node: OwnerNode, run: str) -> Path:
    return _folder(node) / "aside" / file_name(run)


def _aside(node: OwnerNode, run: str) -> tuple[Path, ...]:
    return tuple(sorted(_aside_folder(node, run).glob("*.json")))


def _set_aside(node: OwnerNode, receipt: Receipt, *, always: bool = False) -> None:
    """Signed words of the curator are kept also where they are not believed; each once, and not without end."""
    run = receipt.transcript.run
    known = [read_receipt(path) for path in _aside(node, run)]
    is_new = all(receipt.transcript != other.transcript for other in known)
    if is_new and (always or len(known) < _MOST_ASIDE):
        _write(_aside_folder(node, run) / f"{receipt.digest[:16]}.json", receipt)


def _write(path: Path, receipt: Receipt) -> None:
    make_folder(path.parent)
    write_receipt(path, receipt)


@contextmanager
def _alone(node: OwnerNode) -> Iterator[None]:
    """One process at a time; a lock that ends with the process that holds it."""
    make_folder(_folder(node))
    path = _folder(node) / ".lock"
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
    except (OSError, sqlite3.Error) as error:
        raise LedgerUnavailable(f"{path} cannot be opened; no receipt is kept") from error
    with closing(connection):
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise LedgerUnavailable(f"{path} cannot be locked; no receipt is kept") from error
        yield


# Looking at what is kept.


_Finding = tuple[Literal["problem", "contradiction", "note"], str]


@dataclass(frozen=True, slots=True)
class ReceiptVerdict:
    """What there is to say about the receipt of one run.

    Attributes:
        run: its name.
        receipt: the one that acknowledges most; None if there is none, or it cannot be read.
        findings: in words, by their weight.
        aside: files with what the curator signed, too, and what contradicts the rest.
    """

    run: str
    receipt: Receipt | None
    findings: tuple[_Finding, ...]
    aside: tuple[Path, ...]
    signer: str = THE_CURATOR

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not hold; somebody or something changed what this node kept."""
        return tuple(words for weight, words in self.findings if weight == "problem")

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What the curator signed and what is not so by this node's record, which holds."""
        return tuple(words for weight, words in self.findings if weight == "contradiction")

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(words for weight, words in self.findings if weight == "note")


def check(node: OwnerNode, run: str) -> ReceiptVerdict:
    record, aside = node.record_of(run), _aside(node, run)
    try:
        receipt = kept_receipt(node, run)
    except BadDocument as error:
        return ReceiptVerdict(run, None, (("problem", str(error)),), aside)
    if receipt is None:
        return ReceiptVerdict(run, None, tuple(_about_its_absence(record)), aside)
    try:
        own, terms = node.transcript(run), record.version(receipt.transcript.terms)
    except IllegalMessage as error:
        return ReceiptVerdict(run, receipt, (("note", f"it cannot be compared: {error}"),), aside)
    findings = (
        *_about_signature(receipt, terms),
        *_about_log(receipt, record),
        *_about_lines(own, receipt.transcript, terms),
    )
    return ReceiptVerdict(run, receipt, findings, aside, signer_in_words(terms))


def _about_its_absence(record: RunRecord) -> Iterator[_Finding]:
    if record.receipts:
        yield "problem", "the receipt that was kept is gone"
    elif record.sent:
        yield "note", "letters left, and no receipt came yet"


def _about_signature(receipt: Receipt, terms: Terms) -> Iterator[_Finding]:
    if (fault := fault_under(receipt, terms)) is not None:
        yield "problem", fault


def _about_log(receipt: Receipt, record: RunRecord) -> Iterator[_Finding]:
    if receipt.digest not in record.receipts:
        yield "note", "the audit log does not know this receipt: a crash came first, or somebody put it there"
    elif receipt.digest != _last_kept(record):
        yield "problem", "it is an older receipt than the one that was kept last"


def _about_lines(own: Transcript, signed: Transcript, terms: Terms) -> Iterator[_Finding]:
    """What this node sent was compared when the receipt came; what it heard since then cannot be in it."""
    for words in _contradictions(own, signed, terms):
        yield "contradiction", words
    for difference in differences(own, signed, signer_in_words(terms)) if own.terms == signed.terms else ():
        if difference.kind == "never said":
            yield "note", f"{difference.line}: came after the receipt"
        elif not difference.contradicts:
            yield "note", str(difference)
        elif difference.line.way == FROM_OWNER:
            yield "problem", str(difference)


def check_all(node: OwnerNode) -> list[ReceiptVerdict]:
    """The same for every run that has a receipt, or from which rows left."""
    node.ledger.refresh()
    return [
        check(node, run)
        for run, record in node.runs.by_name.items()
        if record.sent or record.receipts or receipt_path(node, run).exists() or _aside(node, run)
    ]


def acknowledged_letters(node: OwnerNode, run: str) -> frozenset[tuple[int, str]]:
    """Round and kind of what this node wrote in a run and the curator acknowledges; none where its receipt fails."""
    verdict = check(node, run)
    if verdict.receipt is None or verdict.problems:
        return frozenset()
    lines = verdict.receipt.transcript.lines
    return frozenset((line.round, line.kind) for line in lines if line.way == FROM_OWNER)


def in_words(node: OwnerNode, run: str) -> str:
    """Whether the curator acknowledged what left in a run, in a sentence; empty if nothing left."""
    sent = [line for line in node.transcript(run).lines if line.way == FROM_OWNER]
    verdict = check(node, run)
    if not sent and verdict.receipt is None:
        return ""
    if verdict.problems:
        return f"Its receipt does not hold: {verdict.problems[0]}."
    if verdict.receipt is None:
        is_split = (terms := node.runs.by_name[run].readable(node.transcript(run).terms)) is not None and terms.split
        when = "the consumer has taken in your rows" if is_split else "the run ends or is resumed"
        return f"No: no receipt came yet. One comes when {when}."
    missing = set(sent) - set(verdict.receipt.transcript.lines)
    how = "; it also contradicts what came here" if verdict.contradictions else ""
    if missing:
        return f"Not all: {len(missing)} of {len(sent)} letters that left are not in its receipt{how}."
    return f"Yes: {verdict.receipt.transcript.rows:,} rows, on {verdict.receipt.at[:10]}{how}."


_NAME = "owner.yaml"


@dataclass(frozen=True, slots=True)
class WrittenPolicy:
    """What stands in ``owner.yaml`` now.

    Attributes:
        text: the file.
        policy: what it says.
        mark: stands for the text: who changes it may say what it was that he saw.
    """

    text: str
    policy: Policy
    mark: str


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """A text that may become ``owner.yaml``.

    Attributes:
        text: the text.
        policy: what it says.
        changes: what differs from the policy now: field, before, after.
    """

    text: str
    policy: Policy
    changes: tuple[tuple[str, str, str], ...]


def written_policy(node: OwnerNode) -> WrittenPolicy:
    """The policy as it stands in its file; nothing is written.

    Raises:
        BadDocument: it cannot be read, or does not fit what this node was before.
    """
    policy = node.policy
    text = node.home.policy.read_text(encoding="utf-8-sig")
    return WrittenPolicy(text, policy, _mark(text))


def draft_of(node: OwnerNode, text: str) -> PolicyDraft:
    """Check a text that may become the policy; nothing is written.

    Raises:
        BadDocument: with line, field and reason.
    """
    policy = documents.read_text(text, Policy, name=_NAME)
    node.check_policy(policy)
    before, after = _flat(node.policy), _flat(policy)
    changes = tuple((name, before[name], after[name]) for name in after if before[name] != after[name])
    return PolicyDraft(text, policy, changes)


def put(node: OwnerNode, text: str, *, by: str, seen: str | None = None) -> PolicyDraft:
    """Make a text the policy; it counts when this returns.

    Args:
        node: whose policy.
        text: the new ``owner.yaml``.
        by: who changes it.
        seen: ``mark`` of the text as they saw it; whatever it is now if None.

    Raises:
        BadDocument: it cannot be the policy; nothing was written.
        DecidedMeanwhile: somebody else changed it since; nothing was written.
    """
    node.check_running()
    draft = draft_of(node, text)
    with node.ledger.deciding():  # nobody else changes it meanwhile
        if seen is not None and written_policy(node).mark != seen:
            raise DecidedMeanwhile(_NAME, "changed by somebody else")
        documents.write_text(node.home.policy, text)
    node.put_policy_in_force(by=by)
    return draft


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _flat(policy: Policy) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in policy.model_dump(mode="json").items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": _shown(part) for inner, part in value.items()}
        else:
            flat[name] = _shown(value)
    return flat


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(eq=False)
class NodeRun(OwnerRun):
    """A run at an owner's node, which decides anew with each letter; what is refused is in its audit log.

    Args:
        node: the node, who answers.
    """

    node: OwnerNode = field(kw_only=True)
    _receipt_came: bool = field(default=False, init=False)  # with the letter that was heard last

    def acceptance(self) -> bytes:
        """What this node signs to take part; whatever was decided since, it signs nothing else.

        Raises:
            LikesetError: it does not take part (any more).
        """
        if self.absent or self.node.standing(self.terms.run, self.terms.digest) != READY:
            raise IllegalMessage(f"run {self.terms.run}: this owner does not take part; its audit log says why")
        return self.node.logging_refusals(self.terms.run, super().acceptance)

    def hear(self, data: bytes) -> tuple[bytes, ...]:
        """The letters that answer a letter; when a receipt for all that left is kept, the run's key goes.

        A letter that was answered before gets the same answer then, too, as long as the terms last: somebody may have
        lost it, and the run be held again.

        Raises:
            LikesetError: it is refused.
        """
        answered = self._answered_before(data)
        if answered is not None:
            return answered
        self._receipt_came = False
        replies = super().hear(data)
        # Also if it is kept already: a crash may have come between that and this.
        if self._receipt_came and self._nothing_can_follow():
            self.letters.settle(resend=True)
        return replies

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        self._receipt_came = heard.message is None
        return super()._replies(heard)

    def _answered_before(self, data: bytes) -> tuple[bytes, ...] | None:
        def look() -> tuple[bytes, ...] | None:
            is_own_paper = is_acceptance(data) or is_stub(data)  # which shows this home what it signed
            before = None if is_own_paper else self.letters.answered_before(data, most_bytes=self.most_bytes)
            if before is None:
                return None
            kind, answers = before
            if kind != RECEIPT:
                self.node.check_open(self.terms)
            return answers

        return self.node.logging_refusals(self.terms.run, look)

    def _nothing_can_follow(self) -> bool:
        """Whether this owner has said all that it will say in the run, and the curator acknowledged its rows."""
        record = self.node.runs.by_name[self.terms.run]
        kept = kept_receipt(self.node, self.terms.run)
        over = record.withdrawn is not None or last_call(self.terms) in record.heard
        return over and kept is not None and kept.transcript.rows >= sum(sent.rows for sent in record.sent.values())


def owner_run(node: OwnerNode, invitation: Invitation) -> NodeRun | None:
    terms = invitation.terms
    standing = node.take_invitation(invitation.to_bytes())
    if standing == WAITING:
        return None
    if not node.runs.know(terms):
        raise IllegalMessage("this owner does not take part; its audit log says why")

    def keep(data: bytes) -> bool:
        return node.guarded(terms.run, lambda: take(node, terms, data)) is True

    kept = node.runs.by_name[terms.run].invitation(terms.digest)  # whose key for the run came first
    letters = node.logging_refusals(terms.run, lambda: Correspondence(node.identity, kept, node.name))
    return NodeRun(
        letters,
        node,
        most_bytes_to_owner(terms),
        refused=lambda reason: node.refused(reason, run=terms.run),
        keep_receipt=keep,
        absent=standing == ABSTAINS,
        node=node,
    )
