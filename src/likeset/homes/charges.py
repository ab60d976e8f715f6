"""From terms to a ledger: the accounts that a run needs, and what each draw of a party is charged."""

from collections.abc import Callable, Iterable, Mapping

from likeset.errors import BudgetExceeded
from likeset.ledger.budget import Charge, Limit, check_account
from likeset.ledger.ledger import Ledger, Request
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.protocol.party import ChargeWanted, Step
from likeset.protocol.prices import PlannedView
from likeset.protocol.terms import PlannedTerms
from likeset.protocol.wire import Message


def carry(step: Step, commit: Callable[[ChargeWanted], bytes]) -> tuple[Message, ...]:
    """Complete a step and return its replies; ``commit`` charges for a draw and returns the stored bytes.

    If a charge is refused or its draw fails, the party has failed and must be rebuilt.
    """
    while step.charge is not None:
        try:
            kept = commit(step.charge)
        except BaseException:
            step.abandon()
            raise
        step = step.go_on(kept)
    return step.replies


def request_of(wanted: ChargeWanted, *, inputs: bytes = b"") -> Request:
    """The ledger's request for a draw; ``inputs`` is a digest of everything that the draw follows from."""
    return Request(wanted.run, wanted.round, wanted.kind, content=wanted.content + inputs)


def charge_of(wanted: ChargeWanted) -> Charge:
    return Charge(wanted.costs, wanted.rows, wanted.readable)


def limit_of(
    epsilon: float, delta: float, relation: Relation, *, simulated: bool, accept: tuple[str, ...] = ()
) -> Limit:
    """A limit that accepts simulated charges only if everything is simulated, and the unproven parts named."""
    return Limit(epsilon, delta, relation, accept_unproven=(*accept, "simulated") if simulated else accept)


def open_accounts(ledger: Ledger, limits: Mapping[View, Limit]) -> None:
    """Open the accounts that a run needs and the ledger lacks; existing accounts keep their limits."""
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
    """Raise ``OtherRelation`` unless every account that a run charges has its relation and its unit of privacy.

    The ledger checks each charge; this checks all of them before the first charge and before the terms are shown.
    """
    accounts = ledger.accounts()
    for costs in planned:
        for account in accounts:
            if account.view.hears(costs.view):
                check_account(account.view, account.limit, account.unit, costs.event)


def check_rows_left(ledger: Ledger, terms: PlannedTerms) -> None:
    """Raise if too few owners may still disclose rows; an owner whose limit is reached abstains."""
    if ledger.messages(run=terms.run):
        return  # a resumed run has paid
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
