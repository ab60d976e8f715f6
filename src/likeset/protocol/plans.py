"""What a run will do to whose rows, and what that costs each view: from the terms alone, before any row is read."""

from dataclasses import dataclass

from likeset.errors import InvalidArgument
from likeset.mechanisms import auction, gaussian_mean, mwem_mean
from likeset.privacy import accounting, schedules
from likeset.privacy.calibration import mwem_epsilon
from likeset.privacy.events import Event, NoRelease, Observer, Simulated, Unbounded
from likeset.privacy.guarantee import Guarantee
from likeset.privacy.relation import Norm, RowSum
from likeset.privacy.view import View
from likeset.protocol.terms import SUMMARY_RELEASE, Terms

__all__ = ["PlannedView", "TargetPlan", "auction_plan", "planned_views", "target_plan"]

TargetPlan = gaussian_mean.Plan | mwem_mean.Plan

_CLEAR_ROWS = "rows are seen in the clear"
_HASHED_ROWS = "hashes of rows are seen: distances between them are no secret"


@dataclass(frozen=True, slots=True)
class PlannedView:
    """What one view will hear in a run.

    Attributes:
        view: who observes, and whose rows are protected.
        event: all that will be released to it.
        guarantee: what that costs, with its basis.
        rows: how many protected rows the observer sees, at most.
    """

    view: View
    event: Event
    guarantee: Guarantee
    rows: int


def target_plan(terms: Terms) -> TargetPlan | None:
    """The one release of the target's mean; none where offers are uniform."""
    if terms.offers == "uniform":
        return None
    budget = terms.target_budget
    if terms.kernel.kind == "paired":
        return gaussian_mean.plan(
            gaussian_mean.unit_rows(terms.rows_per_unit),
            size=terms.target_size,
            dimension=terms.kernel.dimension,
            relation=terms.relation,
            epsilon=budget.epsilon,
            delta=budget.delta,
        )
    steps = _paper_schedule(terms).target if terms.schedule else None
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, rows=terms.rows_per_unit)
    iterations = steps.iterations if steps else int(terms.kernel.dimension**1.5)
    epsilon = (
        steps.epsilon
        if steps
        else mwem_epsilon(
            quantity, iterations=iterations, relation=terms.relation, epsilon=budget.epsilon, delta=budget.delta
        )
    )
    return mwem_mean.plan(
        size=terms.target_size,
        dimension=terms.kernel.dimension,
        epsilon=epsilon,
        iterations=iterations,
        rows=terms.rows_per_unit,
        relation=terms.relation,
    )


def auction_plan(terms: Terms, observer: Observer = Observer.COALITION) -> auction.Plan:
    """Who is asked, priced for an observer."""
    rounds = terms.size if terms.protocol == "interactive" else 1
    owners = len(terms.owners)
    if terms.auction == "everyone":
        return auction.plan_everyone(owners)
    if terms.auction == "threshold":
        return auction.plan_threshold(
            owners,
            epsilon=terms.auction_epsilon,
            observer=observer,
            rounds=rounds,
            summary_released=terms.summary_release != "none",
            offset=terms.auction_offset,
        )
    return auction.plan_paper(
        owners,
        epsilon=terms.auction_epsilon,
        patience=schedules.auction_patience(owners),
        rounds=rounds,
        accept_unproven=terms.accept_unproven,
    )


def planned_views(terms: Terms, *, simulated: bool = False) -> tuple[PlannedView, ...]:
    """Every view of the run: what it hears and what that costs."""

    def planned(view: View, event: Event, delta: float, rows: int = 0) -> PlannedView:
        done = Simulated(event) if simulated and event != NoRelease() else event
        return PlannedView(view, done, accounting.guarantee(done, relation=terms.relation, delta=delta), rows)

    target = target_plan(terms)
    views = [planned(View.owners(terms.consumer), target.event if target else NoRelease(), terms.target_budget.delta)]
    rows_event = Unbounded(_HASHED_ROWS if terms.hashing else _CLEAR_ROWS)
    heard: Event = NoRelease() if terms.auction == "everyone" else auction_plan(terms).event
    if terms.summary_release != "none":
        heard = Unbounded(f"{SUMMARY_RELEASE}: nothing is proven for an owner's row")
    for owner in terms.owners:
        views.append(planned(View.owners(owner), heard, terms.owner_budget.delta))
        views.append(planned(View.curator(owner), rows_event, terms.owner_budget.delta, terms.rows_per_owner))
        views.append(planned(View.consumer(owner), rows_event, terms.owner_budget.delta, terms.size))
    target_rows = Unbounded(_HASHED_ROWS if terms.hashing else _CLEAR_ROWS)
    views.append(planned(View.curator(terms.consumer), target_rows, terms.target_budget.delta, terms.target_size))
    return tuple(views)


def _paper_schedule(terms: Terms) -> schedules.Schedule:
    if terms.size < 2:
        raise InvalidArgument("size", terms.size, "must be at least 2 for the paper's schedules")
    return schedules.schedule(
        terms.schedule,
        dimension=terms.kernel.dimension,
        size=terms.size,
        epsilon=terms.target_budget.epsilon,
        delta=terms.target_budget.delta,
    )
