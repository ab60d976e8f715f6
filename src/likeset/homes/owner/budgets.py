"""Both budgets of an owner over all runs: what is spent, what a run would cost, what it did cost."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from weakref import WeakKeyDictionary

from likeset.errors import BadDocument, InvalidArgument, OtherRelation, OtherUnit
from likeset.homes.owner.policy import Accounts, Policy
from likeset.ledger import Account, Ledger, Limit
from likeset.ledger.accounts import Tally
from likeset.ledger.ledger_state import Charged, LedgerState
from likeset.privacy.events import Event, NoRelease
from likeset.privacy.guarantee import View
from likeset.protocol.plans import PlannedView, views_of_owners
from likeset.protocol.terms import Terms

__all__ = ["BEGIN", "Spent", "SpentSoFar", "accounts_for", "accounts_under", "began", "costs_of", "course_of"]
__all__ += ["set_limits", "spent_by_run"]

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
    quotes = ledger.quote(planned.view, due, rows=rows, readable=readable, limits=limits)
    return next(pair for pair in quotes if pair[0].view == planned.view)


def began(ledger: Ledger) -> dict[str, datetime]:
    """When each run began, by its charge in the ledger."""
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
        """What was charged since."""
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
    with ledger.log.reading() as state:  # one thread at a time, also within a decision
        charges = _READ.get(ledger)
        if charges is None or charges.state is not state:  # the first look, or a write was undone
            charges = _READ[ledger] = _Charges(state)
        charges.take_in()
        return charges
