"""Both budgets of an owner over all runs: what is spent, what a run would cost, what it did cost."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from weakref import WeakKeyDictionary

from likeset.errors import BadDocument, OtherRelation
from likeset.homes.owner.policy import Accounts, Policy
from likeset.ledger import Account, Ledger, Limit
from likeset.ledger.ledger_state import Charged, LedgerState
from likeset.privacy.events import Event, NoRelease
from likeset.privacy.view import View
from likeset.protocol.plans import PlannedView, planned_views
from likeset.protocol.terms import Terms

__all__ = ["BEGIN", "Spent", "accounts_for", "accounts_under", "began", "costs_of", "set_limits", "spent_by_run"]

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
    planned = {plan.view: plan for plan in planned_views(terms)}
    return planned[View.owners(name)], planned[View.curator(name)], planned[View.consumer(name)]


def accounts_for(ledger: Ledger, terms: Terms, policy: Policy) -> Accounts:
    """Both budgets of a policy before and after a run; one that was charged already is not counted twice."""
    others, curator, _ = costs_of(terms, policy.name)
    charged = _charges(ledger).toward.get(terms.run, set())
    limits = _limits(policy)
    epsilon_before, epsilon_after = _epsilon(ledger, others, limits, free="others" in charged)
    rows, readable = (0, 0) if "curator" in charged else (curator.rows, curator.readable)
    before, after = _quoted(ledger, curator, limits, rows=rows, readable=readable)
    return Accounts(
        epsilon_spent=epsilon_before,
        epsilon_after=epsilon_after,
        epsilon_of_run=others.guarantee.epsilon,
        rows_spent=before.rows,
        rows_after=after.rows,
        rows_of_run=curator.rows,
        read_spent=before.readable,
        read_after=after.readable,
        read_of_run=curator.readable,
        charged=terms.run in began(ledger),
    )


def _epsilon(ledger: Ledger, planned: PlannedView, limits: Mapping[View, Limit], *, free: bool) -> tuple[float, float]:
    event = NoRelease() if free else planned.event
    try:
        before, after = _quoted(ledger, planned, limits, event=event)
    except OtherRelation:  # it cannot be charged here, and the policy says why
        before, after = _quoted(ledger, planned, limits, event=NoRelease())
    return before.epsilon or 0.0, after.epsilon or 0.0


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


class _Charges:
    """What the charges of a ledger were for; each is looked at once, for there may be very many."""

    def __init__(self, state: LedgerState) -> None:
        self.state = state
        self.began: dict[str, datetime] = {}
        self.toward: dict[str, set[str]] = {}
        self._spent: list[tuple[Charged, Spent]] = []
        self._taken = 0

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

    def _is_answered(self, charged: Charged) -> bool:
        answer = self.state.requests[charged.key].answer
        return answer is not None and answer.number == charged.entry


_READ: WeakKeyDictionary[Ledger, _Charges] = WeakKeyDictionary()


def _charges(ledger: Ledger) -> _Charges:
    with ledger.log.reading() as state:  # one thread at a time, also within a decision
        charges = _READ.get(ledger)
        if charges is None or charges.state is not state:  # the first look, or a write was undone
            charges = _READ[ledger] = _Charges(state)
        charges.take_in()
        return charges
