"""What an account may spend and has spent.

An account is a view with a limit. It counts every charge that reaches its observer, in whichever run and to
whomever else it went, and counts a broadcast once. Two budgets are kept: (epsilon, delta), by a privacy
filter over all charges ever reserved, and rows, by addition: those that left, and of them those that one party may
read.
"""

from dataclasses import dataclass

from likeset.errors import BudgetExceeded, UnprovenPart
from likeset.ledger.charges import Charge, Limit, as_followed, check_account, proven_part, unproven_parts
from likeset.privacy import accounting
from likeset.privacy.events import unit_of
from likeset.privacy.guarantee import Basis, View

__all__ = ["Account", "Tally"]

_ROUNDING = 1e-9
"""Relative: a budget that was split into equal charges must not fail at the last one because of rounding."""


@dataclass(frozen=True, slots=True)
class Account:
    """What an account may spend and has spent.

    Attributes:
        view: whose account it is.
        limit: what it may spend.
        epsilon: what the proven charges amount to at the limit's delta; None if the limit promises nothing.
        rows: how many rows were disclosed, or offered in shares.
        unproven: names of the unproven parts that were charged.
        charges: how many charges were counted.
        readable: how many of the rows one party could read.
        unit: of privacy, in words: that of the first charge that has one; None before.
        deltas: of each limit that may have allowed charges; raising a limit after a charge adds one.
    """

    view: View
    limit: Limit
    epsilon: float | None
    rows: int
    unproven: tuple[str, ...]
    charges: int
    readable: int = 0
    unit: str | None = None
    deltas: tuple[float, ...] = ()

    @property
    def delta(self) -> float | None:
        """At which the account's epsilon holds over all charges (docs/proofs/ledger.md, a changed limit)."""
        return sum(self.deltas) if self.deltas else None

    @property
    def basis(self) -> Basis:
        """Whether the limit is a proven guarantee for everything that was charged."""
        return Basis.NONE if self.unproven or self.epsilon is None else Basis.PROVEN


class Tally:
    """The running sum of one account."""

    def __init__(self, view: View, limit: Limit) -> None:
        self._view = view
        self._limit = limit
        self._filter: accounting.Filter | None = None
        if limit.relation is not None and limit.delta is not None:
            self._filter = accounting.Filter.empty(relation=limit.relation, delta=limit.delta)
        # What is spent once something follows: a price for a single owner holds only for what comes last.
        self._followed = self._filter
        self._rows = self._readable = 0
        self._charges = 0
        self._unproven: set[str] = set()
        self._unit: str | None = None
        self._limits: tuple[Limit, ...] = (limit,)

    def account(self) -> Account:
        """The sum so far."""
        spent = None if self._filter is None else self._filter.epsilon
        unproven = tuple(sorted(self._unproven))
        return Account(
            self._view,
            self._limit,
            spent,
            self._rows,
            unproven,
            self._charges,
            self._readable,
            self._unit,
            tuple(limit.delta for limit in self._limits if limit.delta is not None),
        )

    def copy(self) -> "Tally":
        """The same sum, to add to on trial."""
        twin = Tally(self._view, self._limit)
        twin._filter, twin._followed = self._filter, self._followed
        twin._rows, twin._readable, twin._charges = self._rows, self._readable, self._charges
        twin._unproven, twin._unit, twin._limits = set(self._unproven), self._unit, self._limits
        return twin

    def after(self, earlier: "Tally") -> "Tally":
        """The same sum, with the limits under which charges were made before this one.

        One that allows no more than another adds nothing: what it allowed, the other allows as well.
        """
        twin = self.copy()
        if earlier._filter is not None and earlier._filter.charges:
            covered = any(limit.allows_all_of(self._limit) for limit in earlier._limits)
            twin._limits = earlier._limits if covered else (*earlier._limits, self._limit)
        return twin

    def add(self, charge: Charge) -> None:
        """Count a charge, whether or not the limit allows it.

        Raises:
            ChargeRefused: the account cannot count it: made for a single owner, under another relation, or for another
                unit of privacy.
        """
        if charge.free:  # most are: answers that were paid for when the run began
            self._charges += 1
            return
        due = charge.cost_to(self._view)
        for event in due:
            check_account(self._view, self._limit, self._unit, event)
        for event in due:
            self._unproven.update(name for name, _ in unproven_parts(event))
            if self._filter is not None:
                self._unit = self._unit or unit_of(event)
            part = proven_part(event)
            if self._followed is not None and self._followed.add(part) != self._followed:  # not free
                self._filter = self._followed.add(part)
                self._followed = self._followed.add(as_followed(part))
        self._rows += charge.rows
        self._readable += charge.read_at_most
        self._charges += 1

    @property
    def _most_readable(self) -> int:
        return self._limit.rows if self._limit.readable is None else self._limit.readable

    def within_limit(self) -> bool:
        """Whether what was counted so far is what the limit allows."""
        if self._rows > self._limit.rows or self._readable > self._most_readable:
            return False
        if self._limit.epsilon is None or self._filter is None:
            return True
        accepted = self._unproven <= set(self._limit.accept_unproven)
        return accepted and self._filter.epsilon <= self._limit.epsilon * (1 + _ROUNDING)

    def check(self, charge: Charge) -> None:
        """Raise if the limit does not allow the charge; nothing is counted.

        Raises:
            BudgetExceeded: too much epsilon, or too many rows.
            UnprovenPart: a part without a proof that the limit does not accept by name.
            ChargeRefused: a price that was made for a single owner, on an account of several; under another relation
                than the limit's; or for another unit than earlier charges.
        """
        if self._rows + charge.rows > self._limit.rows:
            raise BudgetExceeded(
                str(self._view), spent=self._rows, requested=charge.rows, limit=self._limit.rows, unit="rows"
            )
        if self._readable + charge.read_at_most > self._most_readable:
            raise BudgetExceeded(
                str(self._view),
                spent=self._readable,
                requested=charge.read_at_most,
                limit=self._most_readable,
                unit="rows that one party may read",
            )
        after = self.copy()
        after.add(charge)
        if self._limit.epsilon is None or self._filter is None:
            return
        for event in charge.cost_to(self._view):
            for name, reason in unproven_parts(event):
                if name not in self._limit.accept_unproven:
                    raise UnprovenPart(name, f"{reason} (account: {self._view})")
        if after._filter is not None and not after._filter.epsilon <= self._limit.epsilon * (1 + _ROUNDING):
            alone = Tally(self._view, self._limit)
            alone.add(charge)
            raise BudgetExceeded(
                str(self._view),
                spent=self._filter.epsilon,
                requested=0.0 if alone._filter is None else alone._filter.epsilon,
                limit=self._limit.epsilon,
                unit=f"epsilon at delta = {self._limit.delta:g}, {self._limit.relation}",
            )
