"""What a run does to whose rows and what that costs each view, from planned terms alone, before any row is read."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from likeset.ledger.budget import Limit
from likeset.privacy import accounting, auction, gaussian_mean, mwem_mean
from likeset.privacy.accounting import Guarantee, least_noise, mwem_epsilon
from likeset.privacy.events import (
    Composition,
    Event,
    Gaussian,
    NoRelease,
    Norm,
    Observer,
    PublicSize,
    Relation,
    Repeated,
    RowSum,
    SelectionSum,
    Simulated,
    Unbounded,
    View,
)
from likeset.protocol.terms import SUMMARY_RELEASE, Budget, PlannedTerms

TargetPlan = gaussian_mean.GaussianPlan | mwem_mean.MwemPlan

_LATER_ITERATIONS = 5  # as in the paper's experiments
_CLEAR_ROWS = "rows are seen in the clear"
_SHARED_ROWS = "shares of rows: nothing, as long as no two compute parties work together and all follow the protocol"


@dataclass(frozen=True, slots=True)
class PlannedView:
    """What one view will hear in a run, and what that costs."""

    view: View
    event: Event  # all that will be released to it
    guarantee: Guarantee
    rows: int  # protected rows that reach the observer, at most
    readable: int  # how many of them it, or whoever buys them, may read
    shared: bool = False  # whether it has shares in their place, which alone tell nothing
    owns_curator: bool = False  # whether it reads all that the curator reads
    width_choice: Event | None = None  # the part of ``event`` that chose the width of the release's kernel

    @property
    def guess(self) -> float | None:
        """How often a coin-flip guess about one unit becomes correct at most; None where nothing is proven."""
        return accounting.guess_probability(self.event, relation=self.guarantee.relation)


@lru_cache(maxsize=64)
def target_plan(terms: PlannedTerms) -> TargetPlan | None:
    if terms.offers == "uniform":
        return None
    budget = terms.target_budget
    if terms.kernel.kind == "paired":
        return gaussian_mean.plan(
            gaussian_mean.unit_rows(terms.unit, terms.relation),
            size=terms.target_size,
            dimension=terms.kernel.dimension,
            epsilon=budget.epsilon,
            delta=budget.delta,
        )
    steps = _paper_schedule(terms).target if terms.schedule else None
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=terms.unit, relation=terms.relation)
    iterations = steps.iterations if steps else _first_iterations(terms)
    epsilon = (
        steps.epsilon
        if steps
        else mwem_epsilon(quantity, iterations=iterations, epsilon=budget.epsilon, delta=budget.delta)
    )
    return mwem_mean.MwemPlan(terms.target_size, terms.kernel.dimension, epsilon, iterations, quantity)


def size_event(relation: Relation) -> Event:
    """What the terms alone tell owners about the target: its exact size, unless a declared one takes its place."""
    return PublicSize() if relation is Relation.REPLACE_ONE else NoRelease()


def auction_plan(terms: PlannedTerms) -> auction.AuctionPlan:
    rounds = terms.size if terms.protocol == "interactive" else 1
    owners = len(terms.owners)
    if terms.auction == "everyone":
        return auction.plan_everyone(owners)
    if terms.auction == "threshold":
        return auction.plan_threshold(
            owners,
            epsilon=terms.auction_epsilon,
            observer=Observer.COALITION,
            rounds=rounds,
            summary_released=terms.summary_release != "none",
            offset=terms.auction_offset,
        )
    return auction.plan_paper(
        owners,
        epsilon=terms.auction_epsilon,
        patience=terms.auction_patience,
        rounds=rounds,
        accept_unproven=terms.accept_unproven,
    )


@lru_cache(maxsize=4096)
def summary_plan(terms: PlannedTerms, round_number: int) -> TargetPlan | None:
    """The release of the summary's mean in a round of ``interactive``; none where there is nothing to release.

    Where everyone is asked, one row of an owner that is added or removed puts one row of the summary in another's
    place (docs/proofs/summary-stream.md); the noise is priced for that.
    """
    size = terms.seed_rows + round_number - 1
    if terms.summary_release == "none" or size == 0:
        return None
    if terms.summary_release == "gaussian":
        quantity = gaussian_mean.selected_unit_rows(terms.unit, terms.relation)
        return gaussian_mean.GaussianPlan(
            quantity=quantity,
            size=size,
            dimension=terms.kernel.dimension,
            # One scale of noise for all rounds; the first round is about seed rows only.
            sigma=_sigma_of_rounds(quantity, terms.kernel.dimension, max(1, terms.size - 1), terms.owner_budget),
        )
    steps = _paper_schedule(terms).summary(round_number) if terms.schedule else _split_steps(terms, round_number)
    return mwem_mean.MwemPlan(
        size, terms.kernel.dimension, steps.epsilon, steps.iterations, _selected_coordinates(terms)
    )


def summary_event(terms: PlannedTerms) -> Event:
    """All releases about the summary together, as far as they concern owners' rows.

    The first round's is about seed rows alone, which are public.
    """
    if terms.auction != "everyone":
        return Unbounded(f"{SUMMARY_RELEASE}: with a selective auction nothing is proven for an owner's row")
    if terms.summary_release == "none" or terms.size < 2:
        return NoRelease()
    # Only the schedules of the paper's theory have rounds that differ; all others are the second over and over.
    changing = terms.schedule in mwem_mean.CHANGING_SCHEDULES
    alike = 1 if changing else terms.size - 1
    plans = (summary_plan(terms, number) for number in (range(2, terms.size + 1) if changing else (2,)))
    events = Counter(plan.event for plan in plans if plan is not None)
    return Composition(tuple(Repeated(event, times * alike) for event, times in events.items()))


@lru_cache(maxsize=64)
def _sigma_of_rounds(quantity: SelectionSum, coordinates: int, rounds: int, budget: Budget) -> float:
    """Runs that differ in other things share it: an inbox is full of them."""
    return least_noise(
        lambda sigma: Repeated(
            Gaussian(sigma=sigma, quantity=quantity, coordinates=coordinates, spacing=gaussian_mean.SPACING), rounds
        ),
        relation=quantity.relation,
        epsilon=budget.epsilon,
        delta=budget.delta,
        start=quantity.sensitivity / budget.epsilon,
    )


@lru_cache(maxsize=64)
def _split_epsilon(terms: PlannedTerms) -> float:
    return mwem_epsilon(
        _selected_coordinates(terms),
        iterations=_LATER_ITERATIONS * max(1, terms.size - 1),  # the first round is about seed rows only
        epsilon=terms.owner_budget.epsilon,
        delta=terms.owner_budget.delta,
    )


def _selected_coordinates(terms: PlannedTerms) -> SelectionSum:
    return SelectionSum(norm=Norm.COORDINATE, radius=1.0, unit=terms.unit, relation=terms.relation)


def _split_steps(terms: PlannedTerms, round_number: int) -> mwem_mean.Steps:
    iterations = _first_iterations(terms) if round_number == 1 else _LATER_ITERATIONS
    return mwem_mean.Steps(iterations=iterations, epsilon=_split_epsilon(terms))


def _first_iterations(terms: PlannedTerms) -> int:
    return int(terms.kernel.dimension**1.5)


def planned_views(
    terms: PlannedTerms, *, width_choice: Event | None, simulated: bool = False, own_curator: bool = False
) -> tuple[PlannedView, ...]:
    """Every view of the run: what it hears and what that costs.

    ``width_choice`` is the private choice of the release's kernel, None where a public width was used. The terms do not
    say which: ``Plan.width_plan`` and the consumer's ledger do. Nor do they say whether the curator is the consumer's
    own, which then reads all offers.
    """
    target = target_plan(terms)
    about_target: Event = target.event if target else size_event(terms.relation)
    if width_choice is not None:
        about_target = Composition((width_choice, about_target))
    release = _priced(terms, about_target, terms.target_budget, simulated=simulated)
    shared = terms.split is not None
    of_target = _priced(terms, _offered(terms), terms.target_budget, simulated=simulated)
    return (
        PlannedView(View.owners(terms.consumer), *release, 0, 0, width_choice=width_choice),
        *views_of_owners(terms, simulated=simulated, own_curator=own_curator),
        PlannedView(View.curator(terms.consumer), *of_target, terms.target_size, terms.target_size, shared=shared),
    )


def views_of_owners(
    terms: PlannedTerms,
    *,
    owners: Iterable[str] | None = None,
    simulated: bool = False,
    own_curator: bool = False,
) -> tuple[PlannedView, ...]:
    """Those of the views that see rows of owners, three for each: what the target's release costs is not asked here."""
    shared = terms.split is not None
    heard: Event = NoRelease() if terms.auction == "everyone" else auction_plan(terms).event
    if terms.summary_release != "none":
        heard = summary_event(terms)
    # Priced once each, however many owners there are.
    to_others, to_curator, to_consumer = (
        _priced(terms, event, terms.owner_budget, simulated=simulated)
        for event in (heard, _offered(terms), Unbounded(_CLEAR_ROWS))
    )
    offered, read = terms.rows_per_owner, terms.rows_readable
    owns_curator = own_curator and not shared
    bought = read if shared or owns_curator else terms.size
    views = list[PlannedView]()
    for owner in terms.owners if owners is None else owners:
        views.append(PlannedView(View.owners(owner), *to_others, 0, 0))
        views.append(PlannedView(View.curator(owner), *to_curator, offered, read, shared=shared))
        views.append(PlannedView(View.consumer(owner), *to_consumer, bought, bought, owns_curator=owns_curator))
    return tuple(views)


def _offered(terms: PlannedTerms) -> Event:
    return Unbounded(_CLEAR_ROWS if terms.split is None else _SHARED_ROWS)


def _priced(terms: PlannedTerms, event: Event, budget: Budget, *, simulated: bool) -> tuple[Event, Guarantee]:
    done = Simulated(event) if simulated and not isinstance(event, NoRelease | PublicSize) else event
    return done, accounting.guarantee(done, relation=terms.relation, delta=budget.delta)


def _paper_schedule(terms: PlannedTerms) -> mwem_mean.Schedule:
    return mwem_mean.schedule(
        terms.schedule,
        dimension=terms.kernel.dimension,
        size=terms.size,
        epsilon=terms.promised_epsilon or 1.0,  # experiment does not use it
        delta=terms.target_budget.delta,
    )


def limit_of(
    epsilon: float, delta: float, relation: Relation, *, simulated: bool, accept: tuple[str, ...] = ()
) -> Limit:
    """A limit that accepts simulated charges only if everything is simulated, and the unproven parts named."""
    return Limit(epsilon, delta, relation, accept_unproven=(*accept, "simulated") if simulated else accept)


def owner_limits(terms: PlannedTerms, *, simulated: bool) -> dict[View, Limit]:
    budget = terms.owner_budget
    unproven = ("unbounded", *(name for name, _ in terms.unproven_parts())) if terms.unproven_parts() else ()
    toward_owners = limit_of(budget.epsilon, budget.delta, terms.relation, simulated=simulated, accept=unproven)
    limits = {View.owners(owner): toward_owners for owner in terms.owners}
    return limits | {View.curator(owner): Limit.rows_only(terms.rows_per_owner) for owner in terms.owners}
