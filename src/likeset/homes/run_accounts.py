"""What the views of a run may spend, as accounts in a ledger."""

from collections.abc import Iterable, Mapping

from likeset.errors import BudgetExceeded
from likeset.ledger import Ledger, Limit, check_account
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.protocol.planned_terms import PlannedTerms
from likeset.protocol.plans import PlannedView

__all__ = ["check_accounts", "check_rows_left", "limit_of", "open_accounts", "owner_limits"]


def limit_of(
    epsilon: float, delta: float, relation: Relation, *, simulated: bool, accept: tuple[str, ...] = ()
) -> Limit:
    """A limit that takes simulated charges where everything is simulated, and no other unproven part by itself."""
    return Limit(epsilon, delta, relation, accept_unproven=(*accept, "simulated") if simulated else accept)


def open_accounts(ledger: Ledger, limits: Mapping[View, Limit]) -> None:
    """Accounts that a run needs and the ledger does not have yet; those it has keep their limits."""
    known = {account.view for account in ledger.accounts()}
    ledger.set_limits({view: limit for view, limit in limits.items() if view not in known})


def owner_limits(terms: PlannedTerms, *, simulated: bool) -> dict[View, Limit]:
    """What a run may spend of the owners' budgets."""
    budget = terms.owner_budget
    unproven = ("unbounded", *(name for name, _ in terms.unproven_parts())) if terms.unproven_parts() else ()
    toward_owners = limit_of(budget.epsilon, budget.delta, terms.relation, simulated=simulated, accept=unproven)
    limits = {View.owners(owner): toward_owners for owner in terms.owners}
    return limits | {View.curator(owner): Limit.rows_only(terms.rows_per_owner) for owner in terms.owners}


def check_accounts(ledger: Ledger, planned: Iterable[PlannedView]) -> None:
    """Every account that will hear something of a run must have its relation and its unit of privacy.

    The ledger checks each charge; this checks all of them before the first one and before the terms are shown.

    Raises:
        OtherRelation: an account has another relation, or another unit (``OtherUnit``).
    """
    accounts = ledger.accounts()
    for costs in planned:
        for account in accounts:
            if account.view.hears(costs.view):
                check_account(account.view, account.limit, account.unit, costs.event)


def check_rows_left(ledger: Ledger, terms: PlannedTerms) -> None:
    """An owner who may disclose no more rows abstains; where too few others are left, nothing is begun."""
    if ledger.messages(run=terms.run):
        return  # a run that is resumed has paid
    views = {View.curator(owner) for owner in terms.owners}
    mine = [account for account in ledger.accounts() if account.view in views]
    spent = [account for account in mine if account.rows + terms.rows_per_owner > account.limit.rows]
    if len(views) - len(spent) < terms.quorum:
        raise BudgetExceeded(
            str(spent[0].view),
            spent=spent[0].rows,
            requested=terms.rows_per_owner,
            limit=spent[0].limit.rows,
            unit="rows",
        )
