"""Trials of what owners hear (auctions) and of the choice of the kernel's width."""

from likeset.audit import neighbours
from likeset.audit.neighbours import Neighbours
from likeset.audit.trials import Trial, claims, draws, trial_of
from likeset.privacy import auction, width_choice
from likeset.privacy.auction import Bids
from likeset.privacy.events import Observer, PrivacyUnit, Relation
from likeset.privacy.noise import Noise

OWNERS = 12
_REPLACED = Relation.REPLACE_ONE  # a bid is any function of an owner's rows: both relations mean the same here


def threshold_plan(observer: Observer, rounds: int = 1) -> auction.ThresholdPlan:
    """Twelve owners, epsilon 1."""
    return auction.plan_threshold(OWNERS, epsilon=1.0, observer=observer, rounds=rounds, summary_released=False)


def threshold(noise: Noise, pair: Neighbours[Bids], *, hears: list[int], rounds: int = 1) -> Trial:
    """Whether the owners in ``hears`` are asked."""
    observer = Observer.COALITION if len(hears) > 1 else Observer.ONE_OWNER
    plan = threshold_plan(observer, rounds)
    return trial_of(
        f"threshold auction, {observer}" + (f", {rounds} rounds" if rounds > 1 else ""),
        pair,
        draws(lambda side: [auction.run(plan, pair[side], noise).value[hears] for _ in range(rounds)]),
        claims=claims(plan.event, delta=0.0, relation=_REPLACED),
        noise=noise,
        samples=20_000,
        relation=_REPLACED,
        unseen="bids that react to earlier rounds; coalitions of three and more",
    )


def everyone(noise: Noise) -> Trial:
    """Even all owners together hear nothing that depends on a bid."""
    pair = neighbours.owner_is_overtaken(OWNERS, rank=1)
    plan = auction.plan_everyone(OWNERS)
    return trial_of(
        "everyone is asked, all owners together",
        pair,
        draws(lambda side: auction.run(plan, pair[side], noise).value),
        claims=claims(plan.event, delta=0.0, relation=_REPLACED),
        noise=noise,
        samples=2_000,
        relation=_REPLACED,
        unseen="other bids than these; an answer that differs less often than shown",
    )


def width(noise: Noise, *, rows_per_unit: int, samples: int) -> Trial:
    """Replace-one only: an added row would pair all others anew, and the choice has no price for that."""
    pair = neighbours.distance_collapses(3, rows_per_unit)
    plan = width_choice.WidthPlan(
        size=len(pair.first),
        unit=PrivacyUnit(rows_per_unit, ""),
        rate=0.5 / rows_per_unit,
        relation=Relation.REPLACE_ONE,
    )
    return trial_of(
        "width choice" if rows_per_unit == 1 else f"width choice, a unit is {rows_per_unit} rows",
        pair,
        draws(lambda side: width_choice.run(plan, pair[side], noise).value),
        claims=claims(plan.event, delta=0.0, relation=Relation.REPLACE_ONE),
        noise=noise,
        samples=samples,
        relation=Relation.REPLACE_ONE,
        unseen="how long the choice takes; under secret noise, pairings of rows other than a random one",
    )
