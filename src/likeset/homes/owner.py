"""An owner in runs: its budgets, what its steward decides, and how it answers within an approval."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from likeset import documents
from likeset.errors import (
    BadDocument,
    ChargeRefused,
    DataChanged,
    DecidedMeanwhile,
    IllegalMessage,
    InvalidArgument,
    LikesetError,
    NotReady,
    OtherRelation,
    OtherUnit,
    TermsExpired,
    TryLater,
)
from likeset.homes.data import DataSet, OpenedData, Registry
from likeset.homes.home import POLICY_FILE, SETTINGS_FILE, Home, Pins, reason_for_log
from likeset.homes.mail import Heard, Mail, RoleHandler
from likeset.homes.policy import (
    Accounts,
    Policy,
    Spending,
    Verdict,
    about_month,
    policy_changes,
    verdict,
)
from likeset.homes.runs import (
    CLOSED,
    UNDECIDED,
    Ending,
    How,
    Run,
    State,
    acknowledging_party,
    must_know,
    read_ending,
    rows_in,
)
from likeset.ledger.budget import Account, Charge, Request
from likeset.ledger.ledger import Transaction
from likeset.privacy.events import NoRelease
from likeset.protocol.party import Party, last_call
from likeset.protocol.prices import PlannedView, views_of_owners
from likeset.protocol.sealed import Owner as OwnerParty
from likeset.protocol.sealed import key_in_run
from likeset.protocol.split import OWNERS
from likeset.protocol.terms import Terms, clock_words
from likeset.protocol.wire import Message
from likeset.tables.sources import Source, open_source
from likeset.trust.cards import Card, PinState, Role
from likeset.trust.letters import PostKind

BEGIN = "owner/begin"
"""The kind of the charge that opens a run at this owner."""


@lru_cache(maxsize=256)
def costs_of(terms: Terms, name: str) -> tuple[PlannedView, PlannedView, PlannedView]:
    """What a run lets the other owners, the curator and the consumer see of this owner's rows."""
    others, curator, consumer = views_of_owners(terms, owners=(name,))
    return others, curator, consumer


# Cards of a run.


@dataclass(frozen=True, slots=True)
class AskingCard:
    role: Role  # what it is in the run
    name: str  # on its card; for one that was never pinned, as the terms say, and they give a curator no name
    fingerprint: str  # of its card
    state: PinState | Literal["not pinned"]  # what became of its card here
    since: str  # when (UTC); empty if it was never pinned
    fault: str  # why the run may not go on with it, and what to do; empty if it may
    introduced_by: str = ""
    belongs_to: str = ""  # the consumer, if the curator is its own

    def in_words(self) -> str:
        if self.state == "not pinned":
            return f"card {self.fingerprint}, NOT PINNED: {self.fault}"
        known = f"card {self.fingerprint}, {self.state} since {self.since[:10]}"
        if self.introduced_by:
            known += f", introduced by {self.introduced_by} and NOT CONFIRMED by a call of its own (likeset card pin)"
        if self.belongs_to:
            known += f", belongs to {self.belongs_to}, which therefore reads all rows that you offer"
        return f"{known}: {self.fault}" if self.fault else known


def asking_cards(policy: Policy, name: str, terms: Terms, pins: Pins) -> tuple[AskingCard, ...]:
    # The policy names consumers as the terms do, and the others by their cards.
    patterns = {"curator": policy.curators, "witness": policy.witnesses}
    cards = []
    for role, party in must_know(terms, name).items():
        fingerprint = terms.cards[party]
        pin, fault = pins.by_fingerprint(fingerprint), pins.fault(role, fingerprint)
        if pin is None:
            cards.append(AskingCard(role, party if role == "consumer" else "", fingerprint, "not pinned", "", fault))
            continue
        known = pin.card.name
        if not fault and not any(fnmatchcase(known, pattern) for pattern in patterns.get(role, ("*",))):
            fault = f"{'witnesses' if role == 'witness' else 'curators'}: {known} is not among those in owner.yaml"
        cards.append(AskingCard(role, known, fingerprint, pin.state, pin.at, fault, pin.introduced_by, pin.belongs_to))
    return tuple(cards)


class Owner(RoleHandler):
    """An owner's part in runs, and what its steward decides.

    Privacy contract:
        Protects:  the owner's rows, within the limits of ``owner.yaml``.
        Reveals:   to the curator: replies of the protocol in approved runs, and whether it takes part, waits or
                   abstains; to those who read the directory: everything.
        Costs:     the cost that the terms announce, charged to the home's ledger with the first answer of a run.
        Assumes:   the directory and its clock are the owner's own; nothing else answers in its name.
        Basis:     proven, docs/proofs/ledger.md
    """

    role: ClassVar[Role] = "owner"

    def __init__(self, mail: Mail) -> None:
        super().__init__(mail)
        self.name = self.home.name
        self.ledger = self.home.database
        self.registry = Registry(self.home.folder / "data")
        self._read: tuple[bytes, Policy] | None = None
        self._opened: dict[bytes, tuple[str, str, Policy]] = {}  # by terms: fingerprint and name of the data set
        _ = self.policy  # an unreadable policy is reported when the home is opened

    def close(self) -> None:
        self.mail.close()
        self.home.close()

    def __enter__(self) -> "Owner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now(self) -> datetime:
        return self.home.clock()

    # The policy.

    @property
    def policy(self) -> Policy:
        """The policy in owner.yaml; raises ``BadDocument`` if it cannot be read or does not fit this home's past."""
        return self.fitting(self._as_written())

    def fitting(self, policy: Policy) -> Policy:
        """A policy that this home may have: budgets are kept by name and relation, so these stay."""
        known = self.home.policy_in_log
        if known is not None and known[1] != self.name:
            reason = f"was {known[1]}, and a home keeps its name; restore it, or make another home"
            raise BadDocument(str(self.home.folder / SETTINGS_FILE), reason, field="name")
        self.accounts(policy)
        return policy

    def _as_written(self) -> Policy:
        try:
            text = self.home.policy_file.read_bytes()
        except OSError:
            return Policy.load(self.home.policy_file)  # says why it cannot be read
        if self._read is None or self._read[0] != text:  # lists judge many runs
            self._read = text, Policy.load(self.home.policy_file)
        return self._read[1]

    def put_policy_in_force(self, *, by: str = "") -> Policy:
        """The policy; a change is in the log, and its totals in the ledger, before this returns."""
        policy = self.policy
        digest = hashlib.sha256(policy.model_dump_json().encode()).hexdigest()
        if self.home.policy_in_log != (digest, self.name):
            entry = {"digest": digest, "name": self.name, "policy": policy.model_dump(mode="json")}
            self.home.note("policy", "", **entry, **({"by": by} if by else {}))
        self.ledger.set_limits(policy.limits(self.name))
        return policy

    # Budgets over all runs.

    def accounts(self, policy: Policy) -> tuple[Account, ...]:
        try:
            return self.ledger.accounts(limits=policy.limits(self.name))
        except OtherRelation as error:
            reason = f"runs were charged under {error.planned}; restore that value, or make another home"
            raise BadDocument(str(self.home.policy_file), reason, field="total.relation") from error

    def accounts_for(self, terms: Terms, policy: Policy) -> Accounts:
        """Both budgets of a policy before and after a run; one that was charged already is not counted twice."""
        others, curator, _ = costs_of(terms, self.name)
        run = self.mail.run(bytes.fromhex(terms.digest))
        charged = set() if run is None else {line["toward"] for line in self.spent_by_run(run=run.name)}
        limits, other_unit = policy.limits(self.name), None
        event = NoRelease() if "others" in charged else others.event
        try:
            (toward,) = self.ledger.quote(Charge(((others.view, event),)), limits=limits)
        except OtherRelation as error:  # it cannot be charged here, and the policy says why
            other_unit = error.account if isinstance(error, OtherUnit) else None
            (toward,) = self.ledger.quote(Charge(((others.view, NoRelease()),)), limits=limits)
        rows, readable = (0, 0) if "curator" in charged else (curator.rows, curator.readable)
        ((before, after),) = self.ledger.quote(Charge(((curator.view, curator.event),), rows, readable), limits=limits)
        return Accounts(
            epsilon=Spending(toward[0].epsilon or 0.0, others.guarantee.epsilon, toward[1].epsilon or 0.0),
            rows=Spending(before.rows, curator.rows, after.rows),
            readable=Spending(before.readable, curator.readable, after.readable),
            delta=toward[0].delta or 0.0,
            charged=run is not None and run.has_begun,
            other_unit=other_unit,
        )

    def began(self) -> dict[str, datetime]:
        """When each run began."""
        with self.ledger.reading() as state:
            opening = [charged for charged in state.charges if BEGIN in charged.key]
        return {json.loads(charged.key)[0]: datetime.fromisoformat(charged.at) for charged in opening}

    def spent_by_run(self, *, run: str = "") -> list[dict[str, Any]]:
        """Every charge (of one run) that cost something, oldest first.

        Its run and time, the rows disclosed at most, toward whom (``others`` or ``curator``), and whether it was
        answered.
        """
        with self.ledger.reading() as state:
            return [
                {
                    "run": name,
                    "at": charged.at,
                    "toward": "others" if view.observer == "owners" else "curator",
                    "rows": charged.charge.rows,
                    "answered": state.requests[charged.key].digest is not None,
                }
                for charged in state.charges
                if (name := json.loads(charged.key)[0]) == run or not run
                for view, event in charged.charge.costs
                if charged.charge.rows or not isinstance(event, NoRelease)
            ]

    # Verdicts.

    def judge(self, terms: Terms, *, data: str = "", policy: Policy | None = None) -> Verdict:
        """Whether the policy allows a run, with every reason against it; nothing is written."""
        policy = policy or self.policy
        if self.name not in terms.owners:
            return Verdict((f"{self.name} is not among the owners that the terms invite",))
        try:
            accounts = self.accounts_for(terms, policy)
        except (LikesetError, ArithmeticError, ValueError) as error:  # a stranger's numbers may be odd together
            if isinstance(error, LikesetError) and error.fault == "machine":
                raise
            return Verdict((f"its cost cannot be computed ({type(error).__name__})",))
        reasons = [*self._about_cards(policy, terms), *self._about_data(terms, data)]
        return Verdict((*reasons, *verdict(policy, terms, accounts, began=self.began(), now=self.now()).reasons))

    def asking(self, terms: Terms) -> tuple[AskingCard, ...]:
        return asking_cards(self.policy, self.name, terms, self.home.pins)

    def _about_cards(self, policy: Policy, terms: Terms) -> list[str]:
        own = []
        try:
            if terms.cards.get(self.name) != self.home.card.fingerprint:
                own = [f"the terms name another card than this home's, {self.home.card.fingerprint}; ask for new terms"]
        except BadDocument as error:  # its keys are lost, or others can read them
            own = [str(error)]
        return own + [card.fault for card in asking_cards(policy, self.name, terms, self.home.pins) if card.fault]

    def data_for(self, terms: Terms, *, data: str = "") -> DataSet:
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
            return [f"several data sets have the schema of the terms ({names}): name one with --data"]
        return fitting[0].misfits(terms)

    # Runs. Charges are known by the names that they have here.

    def run(self, name: str) -> Run:
        runs = self.mail.runs(name=name, role="owner")
        if not runs:
            reason = "see `likeset owner inbox --all`, and for refused terms `likeset owner audit list`"
            raise InvalidArgument("RUN", name, f"is not known here; {reason}")
        return runs[0]

    def mark(self, run: Run) -> str:
        """A digest of what was decided; with it, a person's decision refers to the state that was shown."""
        # No other states: the process at the mailbox changes them without a person.
        decision = [run.digest.hex(), 0 if run.decision is None else run.decision.number]
        return hashlib.sha256(json.dumps(decision).encode()).hexdigest()[:16]

    def waiting(self) -> list[Run]:
        """Runs that can still be decided: undecided, not over, and in time."""
        return [run for run in self.open_runs() if not run.decided and not self.closed_because(run)]

    def closed_because(self, run: Run) -> str:
        """Why a run is closed to a decision of this owner, in words that tell nothing about others; empty if not."""
        if run.ending is not None:
            return CLOSED.get(run.ending[0], "it is complete" if run.ending[0] is Ending.DONE else "it ended early")
        is_late = run.state in UNDECIDED and self.now() >= run.deadline
        return CLOSED[Ending.TERMS_EXPIRED if self.now() >= run.end else Ending.DEADLINE_PASSED] if is_late else ""

    def ended_because(self, run: Run) -> str:
        terms = run.readable
        known = {} if terms is None else {role: terms.cards[name] for role, name in must_know(terms, self.name).items()}
        given_up = (role for role, card in known.items() if self.home.pins.is_given_up(card))
        return self.closed_because(run) or next((f"the {role}'s card is no longer pinned" for role in given_up), "")

    # Letting terms in.

    def consider(self, run: Run) -> tuple[State, str]:
        if run.decided == "denied":
            return State.REFUSED, ""
        policy = self.put_policy_in_force()
        judged = self.judge(run.terms, data=run.data, policy=policy)
        if not judged.accepted:
            reasons = "; ".join(judged.reasons)
            if run.reason != reasons[:400]:
                self.home.refused(run.name, reasons)
            return State.INVITED, reasons[:400]
        if not run.decided:
            # What was refused once, or waited for a person, is approved by a person, whatever the rules say now.
            if policy.manual_approval or run.reason or run.state == State.WAITING:
                return State.WAITING, ""
            self.approve(run.name, run.terms.digest, by=POLICY_FILE, how="rules")
        return State.ACCEPTED, ""

    # Decisions.

    def approve(
        self, name: str, digest: str, *, by: str, how: How = "command", data: str = "", seen: str | None = None
    ) -> Verdict:
        """Approve these very terms, if the policy allows them."""
        self.home.check_running()
        run = self.run(name)
        if run.digest.hex() != digest:
            raise IllegalMessage(f"run {name}: these terms never came here")
        self._check_decidable(run, seen)
        judged = self.judge(run.terms, data=data, policy=self.put_policy_in_force())
        if judged.accepted:
            chosen = data or self.registry.for_terms(run.terms)[0].name
            with self.home.deciding() as t:
                run = self.mail.reload(run)
                self._check_decidable(run, seen)
                t.append("approved", name, {"digest": digest, "by": by, "data": chosen})
                self.mail.note_decision(t, run, "approved", by=by, how=how)
                state = State.WAITING if run.state == State.REFUSED else run.state
                self.mail.change(t, run, state=state, reason="", data=chosen)
        return judged

    def deny(self, name: str, *, by: str, reason: str, how: How = "command", seen: str | None = None) -> None:
        """Deny a run; the other side hears only that this owner abstains."""
        self.home.make_room()
        self.home.check_running()
        with self.home.deciding() as t:
            run = self.run(name)
            self._check_decidable(run, seen)
            if run.decided == "approved":  # the consumer may have the acceptance already
                raise InvalidArgument("RUN", name, "was approved; end it with `likeset owner withdraw`")
            t.append("denied", name, {"digest": run.digest.hex(), "by": by, "reason": reason})
            self.mail.note_decision(t, run, "denied", by=by, how=how, why=reason)
            self.mail.change(t, run, state=State.REFUSED, reason="")

    def withdraw(self, name: str, *, by: str, how: How = "command", seen: str | None = None) -> None:
        """Answer no further letter of a run, and post no letter that was not posted; charges stay."""
        self.home.make_room()
        self.home.check_running()
        with self.home.deciding() as t:
            run = self.run(name)
            self._check_seen(run, seen)
            if run.decided == "withdrawn":
                return
            if reason := self.ended_because(run):
                raise InvalidArgument("RUN", name, f"is closed: {reason}; there is nothing to withdraw from")
            t.append("withdrawn", name, {"by": by})
            self.mail.withhold(t, run)
            self.mail.note_decision(t, run, "withdrawn", by=by, how=how)
            self.mail.change(t, run, state=State.CANCELLED, ended=Ending.WITHDRAWN, reason=f"by {by}")
            if run.readable is not None:
                readers = {acknowledging_party(run.terms)} if run.acceptance else set()  # others never hear of it
                for reader in sorted(readers | {run.terms.consumer}):
                    self.mail.write_word(t, run, reader, "abstains")

    def note_review(self, run: Run, *, by: str) -> None:
        with self.home.deciding() as t:
            t.append("reviewed", run.name, {"digest": run.digest.hex(), "by": by})
            self.mail.change(t, run, reviewed=1)

    def _check_decidable(self, run: Run, seen: str | None) -> None:
        self._check_seen(run, seen)
        if reason := self.closed_because(run):
            by_clock = f", {run.deadline:%Y-%m-%d %H:%M} UTC; this machine's clock says {clock_words(self.now())}"
            raise InvalidArgument("RUN", run.name, f"is closed: {reason}{'' if run.is_over else by_clock}")
        if run.is_stopped:
            reason = "did not continue here, which is final: withdraw, and ask the consumer for a new run"
            raise InvalidArgument("RUN", run.name, reason)
        if run.has_begun:
            raise InvalidArgument("RUN", run.name, "has begun; end it with `likeset owner withdraw`")

    def _check_seen(self, run: Run, seen: str | None) -> None:
        if seen is not None and seen != self.mark(run):
            raise DecidedMeanwhile(run.name, "changed" if run.decision is None else run.decision.in_words())

    # Answering.

    def check(self, run: Run) -> None:
        if run.decided != "approved":
            raise IllegalMessage(f"run {run.name}: nobody has approved these terms")
        if self.mail.passed(run.last_offer):
            when = f"{run.last_offer:%Y-%m-%d %H:%M} UTC"
            raise TermsExpired(f"run {run.name}: an offer after {when} comes too late; nothing was charged for it")
        if not run.has_begun:
            if problems := self._about_data(run.terms, run.data):
                raise NotReady(problems[0])
            judged = self.judge(run.terms, data=run.data)
            if not judged.accepted:
                raise ChargeRefused("; ".join(judged.reasons))

    def make(self, run: Run, cards: Mapping[str, Card]) -> tuple[Party, ExitStack]:  # noqa: ARG002 - it knows its peers
        policy = self.put_policy_in_force()
        with ExitStack() as stack:
            data = self.registry.get(run.data)
            _, opened = stack.enter_context(self.opened_data(data, run.terms, policy=policy))
            before = self.fingerprint_of(run.name)
            if before not in (None, opened.fingerprint):
                raise DataChanged(
                    f"run {run.name}: data set {data.name} changed since the run began: its rows, its schema or "
                    "smallest_group"
                )
            self._opened[run.digest] = opened.fingerprint, data.name, policy
            return self.party(run.terms, data, opened), stack.pop_all()

    @contextmanager
    def opened_data(
        self, data: DataSet, terms: Terms, *, policy: Policy | None = None
    ) -> Iterator[tuple[Source, OpenedData]]:
        """A data set and its rows as a run may see them, in groups of the size with which the run began."""
        run = self.mail.run(bytes.fromhex(terms.digest))
        smallest = (None if run is None else run.smallest_group) or (policy or self.policy).smallest_group
        keys = {"key": self.home.sampling_key(), "run_key": self.key_in(terms)}
        with open_source(data.source) as source:
            yield source, data.guarded(source, terms, smallest_group=smallest, **keys)

    def party(self, terms: Terms, data: DataSet, opened: OpenedData) -> OwnerParty:
        key, secret = self.key_in(terms), None if terms.split is None else self.home.secret
        kind = OWNERS[terms.kind]
        return kind(terms, self.name, scan=opened.scan, key=key, declared=data.declared, secret=secret)

    def key_in(self, terms: Terms) -> int:
        """The key of draws and handles, which follow from it and the name in the terms: no two runs share both."""
        run, key = self.mail.run(bytes.fromhex(terms.digest)), self.home.sampling_key()
        return key if run is None or run.name == terms.run else key_in_run(key, run.name, "run")

    def fingerprint_of(self, name: str) -> str | None:
        """The fingerprint of the data set when a run began; None before, and after a purge."""
        stored = [message for message in self.ledger.messages(run=name) if message.kind == BEGIN]
        return stored[-1].message.decode("ascii") if stored else None

    def start(self, t: Transaction, run: Run) -> None:
        """Charge what others may learn in the run as a whole, with the data set it is bound to."""
        fingerprint, data, policy = self._opened[run.digest]
        if run.data != data:
            raise TryLater(f"run {run.name}: another data set was approved while rows were read")
        reasons = about_month(policy, self.began(), self.now())
        if reasons:
            raise ChargeRefused("; ".join(reasons))
        others, _, _ = costs_of(run.terms, self.name)
        request = Request(run.name, 0, BEGIN, content=run.digest)
        # Nothing is drawn here: the charge is for the draws of the curator.
        t.answer(Charge(((others.view, others.event),)), fingerprint.encode("ascii"), None, request=request)
        entry = {"digest": run.digest.hex(), "data": run.data, "smallest_group": policy.smallest_group}
        t.append("began", run.name, entry)
        self.mail.change(t, run, state=State.BEGUN, reason="", smallest_group=policy.smallest_group)

    def after(self, t: Transaction, run: Run, party: Party, heard: Heard | None, replies: Sequence[Message]) -> None:  # noqa: ARG002
        rows = rows_in(replies)
        if rows and self.mail.rows_sent(run) > run.terms.rows_per_owner:
            raise IllegalMessage(
                f"run {run.name}: more rows would leave than the {run.terms.rows_per_owner} of the terms"
            )
        if heard is None or heard.message is None:
            return
        if replies:
            entry = {"heard": heard.kind, "round": heard.message.round, "rows": rows}
            t.append("sent", run.name, {**entry, "replies": [reply.body.kind for reply in replies]})
        if heard.peer.name == run.consumer:
            self.mail.take_back(t, run, "acceptance")  # the writer of this letter has it
        run = self.mail.reload(run)
        is_last = (heard.message.round, heard.kind) == last_call(run.terms)
        if is_last:
            self.mail.change(t, run, state=State.ANSWERED)

    def refuse(self, t: Transaction, run: Run, heard: Heard, error: Exception) -> None:
        if not run.is_over and not heard.is_receipt:
            if run.state in (State.ACCEPTED, State.BEGUN):
                self.mail.change(t, run, state=State.STOPPED, reason=reason_for_log(error)[:400])
            self.mail.write_word(t, run, acknowledging_party(run.terms), "abstains")

    def hear_document(self, t: Transaction, run: Run, peer: str, post: PostKind, document: bytes) -> bool:
        ending = read_ending(document) if (post, peer) == ("ending", run.terms.consumer) else None
        if ending is None or ending[0] is not Ending.CANCELLED:
            return False
        if not any((row.way, row.post) == ("out", "letter") for row in self.mail.letters(run)):
            self.mail.end_in(t, run, State.CANCELLED, Ending.CANCELLED)
        return True

    def due(self, run: Run) -> None:
        if run.state in UNDECIDED:
            if self.mail.passed(run.deadline):
                self.mail.end(run, State.EXPIRED, Ending.DEADLINE_PASSED)
            else:
                self.mail.consider(run)


def open_owner(folder: Path, **options: Any) -> Owner:
    home = Home(folder, **options)
    home.make_room()
    return Owner(Mail(home))


# Changes of the policy.


def written_policy(owner: Owner) -> tuple[str, str]:
    """The text of ``owner.yaml``, and a mark that stands for it: who changes it may say what they saw."""
    _ = owner.policy  # raises if it cannot be read
    text = owner.home.policy_file.read_text(encoding="utf-8-sig")
    return text, hashlib.sha256(text.encode()).hexdigest()[:16]


def changes_to(owner: Owner, text: str) -> list[dict[str, str]]:
    """Check a text that may become the policy, and say what would change; nothing is written."""
    policy = documents.read_text(text, Policy, name=POLICY_FILE)
    return policy_changes(owner.policy, owner.fitting(policy))


def put(owner: Owner, text: str, *, by: str, seen: str | None = None) -> list[dict[str, str]]:
    owner.home.check_running()
    changes = changes_to(owner, text)
    with owner.home.deciding():  # nobody else changes it meanwhile
        if seen is not None and written_policy(owner)[1] != seen:
            raise DecidedMeanwhile(POLICY_FILE, "changed by somebody else")
        documents.write_text(owner.home.policy_file, text)
    owner.put_policy_in_force(by=by)
    return changes
