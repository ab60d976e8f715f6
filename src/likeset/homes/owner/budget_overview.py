"""Both budgets of an owner at a glance: what is spent, what is left, and what was charged when."""

from dataclasses import asdict, dataclass
from typing import Any

from likeset.homes.owner.budgets import Spent, SpentSoFar, accounts_under, course_of, spent_by_run
from likeset.homes.owner.node import OwnerNode

__all__ = ["BudgetLine", "BudgetOverview", "budget_overview"]


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One budget over all runs.

    Attributes:
        what: is counted, and toward whom.
        spent: so far.
        limit: over all runs.
    """

    what: str
    spent: float
    limit: float

    @property
    def left(self) -> float:
        """What remains; nothing if more is spent than a limit allows that was lowered since."""
        return max(0, self.limit - self.spent)

    def shown(self, value: float) -> str:
        """A number of this budget, for people."""
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class BudgetOverview:
    """Both budgets, and their history.

    Attributes:
        rows: that may leave.
        readable: of them that one party may read.
        epsilon: what other owners may learn.
        delta: at which epsilon holds over all runs: the sum of the deltas of the limits that were in force.
        limits: how many they were.
        history: every charge that cost something, oldest first.
        course: what was spent after each of them.
    """

    rows: BudgetLine
    readable: BudgetLine
    epsilon: BudgetLine
    delta: float
    limits: int
    history: tuple[Spent, ...]
    course: tuple[SpentSoFar, ...]

    @property
    def lines(self) -> tuple[BudgetLine, ...]:
        """All budgets."""
        return self.epsilon, self.rows, self.readable

    @property
    def about_delta(self) -> str:
        """At which delta epsilon holds, for people."""
        if self.limits < 2:
            return f"at delta {self.delta:g}"
        return f"at delta {self.delta:g}, the sum of {self.limits} limits: one raised after a charge adds its delta"

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {
            "rows": {"spent": self.rows.spent, "limit": self.rows.limit},
            "readable": {"spent": self.readable.spent, "limit": self.readable.limit},
            "epsilon": {"spent": self.epsilon.spent, "limit": self.epsilon.limit, "delta": self.delta},
            "history": [
                {"run": charge.run, "at": charge.at, "toward": charge.toward}
                | {"rows": charge.rows, "answered": charge.answered}
                for charge in self.history
            ],
            "course": [asdict(point) for point in self.course],
        }


def budget_overview(node: OwnerNode) -> BudgetOverview:
    """Both budgets as ``owner.yaml`` limits them; nothing is written."""
    policy = node.policy
    accounts = accounts_under(node.ledger, policy, path=node.home.policy)
    rows, readable = sum(account.rows for account in accounts), sum(account.readable for account in accounts)
    most = policy.total.rows if policy.total.readable is None else policy.total.readable
    epsilon = sum(account.epsilon or 0.0 for account in accounts)
    return BudgetOverview(
        rows=BudgetLine("rows that leave", rows, policy.total.rows),
        readable=BudgetLine("rows that one party may read", readable, most),
        epsilon=BudgetLine("epsilon to owners", epsilon, policy.total.epsilon),
        delta=sum(account.delta or 0.0 for account in accounts),
        limits=max(len(account.deltas) for account in accounts),
        history=tuple(spent_by_run(node.ledger)),
        course=tuple(course_of(node.ledger, policy)),
    )
