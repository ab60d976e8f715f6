"""What a run leaves of the budgets, and over which runs they count."""

from dataclasses import dataclass

from likeset.ledger import Ledger
from likeset.ledger.accounts import Account
from likeset.privacy.guarantee import Basis, View
from likeset.run.job import Job

__all__ = ["ONE_RUN", "CountedBudget", "counted_budget"]

ONE_RUN = (
    "The budget counts this run alone. What other runs tell about the same rows adds to it; "
    "to have that counted and limited, give all of them one --ledger FILE."
)


@dataclass(frozen=True, slots=True)
class CountedBudget:
    """What owners may learn and have learned about the target.

    Attributes:
        shared: whether other runs are counted in the same ledger.
        epsilon_spent: what they learned; None where there is no bound.
        epsilon_limit: what they may learn; None for no limit.
        delta: over all runs: the sum of the deltas of the limits that were in force.
        in_words: the same for people.
    """

    shared: bool
    epsilon_spent: float | None
    epsilon_limit: float | None
    delta: float | None
    in_words: str


def counted_budget(job: Job, ledger: Ledger) -> CountedBudget:
    """What a run left, as far as this ledger knows.

    A ledger of the run's own knows of no other run: what several runs tell adds up, and nobody counts it.
    """
    view = View.owners(job.consumer)
    accounts = [account for account in ledger.accounts() if account.view.observer == "owners"]
    about_target = next(account for account in accounts if account.view == view)
    unbounded = [account for account in accounts if account.basis is not Basis.PROVEN]
    words = ONE_RUN
    if job.ledger is not None:
        words = _over_all_runs(about_target, unbounded)
    return CountedBudget(
        shared=job.ledger is not None,
        epsilon_spent=about_target.epsilon if about_target.basis is Basis.PROVEN else None,
        epsilon_limit=about_target.limit.epsilon,
        delta=about_target.delta,
        in_words=words,
    )


def _over_all_runs(account: Account, unbounded: list[Account]) -> str:
    if unbounded:
        whose = ", ".join(other.view.protected for other in unbounded)
        parts = ", ".join(sorted({part for other in unbounded for part in other.unproven}))
        return f"There is no bound over all runs in this ledger for the rows of {whose}: it was charged for {parts}."
    return (
        f"All runs in this ledger together spent epsilon = {account.epsilon:.3g} of {account.limit.epsilon:.3g} about "
        f"the rows of {account.view.protected}. The sum holds if no terms were chosen because of rows. Runs in other "
        "ledgers, or under another name, are not counted."
        + (f" The limit was raised: delta = {account.delta:g} in all." if len(account.deltas) > 1 else "")
    )
