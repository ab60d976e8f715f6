"""What a ledger leaves for a run that is planned, and how to raise a limit that stands in its way."""

import math
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from likeset.errors import BudgetExceeded
from likeset.ledger import Ledger
from likeset.privacy.guarantee import Basis, View
from likeset.run.plan import Plan

__all__ = ["AccountOutlook", "ledger_outlook", "note_how_to_raise"]


@dataclass(frozen=True, slots=True)
class AccountOutlook:
    """One account, before and after a run.

    Attributes:
        about: whose rows it is about.
        unit: what it counts: epsilon, or rows that the curator may see.
        spent: so far; None where there is no bound.
        after: with the run; None likewise.
        limit: what may be spent; None for no limit.
    """

    about: str
    unit: str
    spent: float | None
    after: float | None
    limit: float | None

    @property
    def left(self) -> float | None:
        """What the run would leave; None where that is not known."""
        return None if self.after is None or self.limit is None else max(0.0, self.limit - self.after)

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {**asdict(self), "left": self.left}


def ledger_outlook(plan: Plan, path: Path) -> tuple[AccountOutlook, ...]:
    """What a run would leave of the budgets in a ledger; nothing is charged, and nothing is written.

    Raises:
        BudgetExceeded: the run would be refused, as when it is started.
    """
    each, views = plan.terms.rows_per_owner, {View.curator(owner) for owner in plan.terms.owners}
    with Ledger(path, read_only=True) as ledger:
        try:
            plan.check_affordable(ledger)
        except BudgetExceeded as error:
            note_how_to_raise(error, path)
            raise
        quoted = plan.quote(ledger)
        of_owners = [account for account in ledger.accounts() if account.view in views]
    about_target = [
        AccountOutlook(
            before.view.protected,
            "epsilon",
            before.epsilon if before.basis is Basis.PROVEN else None,
            after.epsilon if after.basis is Basis.PROVEN else None,
            after.limit.epsilon,
        )
        for before, after in quoted
    ]
    rows = [
        AccountOutlook(account.view.protected, "rows", account.rows, account.rows + each, account.limit.rows)
        for account in of_owners
    ]
    return (*about_target, *rows)


def note_how_to_raise(error: BudgetExceeded, path: Path) -> None:
    """Add to a refusal where the budget stands, and the command that raises its limit."""
    error.add_note(f"look at it with: likeset ledger show {shlex.quote(str(path))}")
    with Ledger(path, read_only=True) as ledger:
        protected = [account.view.protected for account in ledger.accounts() if str(account.view) == error.view]
    for name in protected[:1]:
        needed = error.spent + error.requested
        amount = f"--rows {needed:.0f}" if error.unit == "rows" else f"--epsilon {math.ceil(needed * 100.0) / 100.0:g}"
        command = f"likeset ledger limit {shlex.quote(str(path))} --of {name} {amount}"
        error.add_note(f"whoever may allow more raises the limit with: {command}")
