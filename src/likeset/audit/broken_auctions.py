"""Broken auctions: the paper's, and two tempting improvements of the threshold auction."""

import math
from collections.abc import Callable, Sequence

from likeset.audit import neighbours
from likeset.audit.exact import Law
from likeset.audit.neighbours import Neighbours
from likeset.audit.prefetch import PrefetchedNoise
from likeset.audit.trials import Claim, Trial, claims, draws, trial_of
from likeset.privacy import auction
from likeset.privacy.events import Observer, Relation
from likeset.privacy.noise import Noise, SimulatedNoise

__all__ = ["paper_auction", "paper_auction_laws", "paper_auction_rate", "redrawn_threshold", "revealed_count"]

_UNSEEN = "what a coalition hears"


def paper_auction_rate(owners: int, *, epsilon: float, delta: float) -> float:
    """The paper's eps_auc for a claim of (epsilon, delta)."""
    return epsilon / (3 * math.sqrt(2) * math.log(1 / delta)) * math.pow(owners, -1 / 3)


def paper_auction_laws(owners: int, *, epsilon: float, delta: float) -> tuple[Law[bool], Law[bool]]:
    """Whether one owner is asked in one round, written out: at rank 1, and at rank 2 behind a rival."""
    rate = paper_auction_rate(owners, epsilon=epsilon, delta=delta)
    asked = math.exp(-rate)
    return {True: 1.0}, {True: asked, False: 1 - asked}


def paper_auction(seed: int) -> Trial:
    """The paper's auction, one round: rank 1 is always asked, so not to be asked proves a better rival."""
    owners, epsilon, delta = 5, 1.0, 1e-5
    plan = auction.plan_paper(
        owners,
        epsilon=paper_auction_rate(owners, epsilon=epsilon, delta=delta),
        patience=math.ceil(math.pow(owners, 2 / 3)),
        rounds=1,
        accept_unproven={auction.PAPER_AUCTION},
    )
    pair = neighbours.owner_is_overtaken(owners, rank=1)
    noise = SimulatedNoise(seed)
    return trial_of(
        "paper's auction, one round",
        pair,
        draws(lambda side: auction.run(plan, pair[side], noise).value[:1]),
        claims=(Claim(epsilon, delta),),
        noise=noise,
        samples=40_000,
        relation=Relation.REPLACE_ONE,
        unseen=_UNSEEN,
    )


def redrawn_threshold(seed: int) -> Trial:
    """The threshold is drawn again until enough owners are asked: then the highest ranks always are."""
    plan = _threshold_plan()
    pair = neighbours.owner_is_overtaken(plan.owners, rank=plan.offset)
    noise = PrefetchedNoise(SimulatedNoise(seed))

    def until_enough(side: int) -> Sequence[float]:
        while True:
            asked = auction.run(plan, pair[side], noise).value
            if asked.sum() >= plan.offset:
                return [asked[0]]

    return _threshold_trial("threshold auction, redrawn until enough are asked", plan, pair, until_enough, noise)


def revealed_count(seed: int) -> Trial:
    """Each owner also hears how many were asked, and with that the threshold itself."""
    plan = _threshold_plan()
    pair = neighbours.owner_is_overtaken(plan.owners, rank=plan.offset)
    noise = PrefetchedNoise(SimulatedNoise(seed))

    def with_count(side: int) -> Sequence[float]:
        asked = auction.run(plan, pair[side], noise).value
        return [asked[0], asked.sum()]

    return _threshold_trial("threshold auction, count of asked owners revealed", plan, pair, with_count, noise)


def _threshold_plan() -> auction.ThresholdPlan:
    return auction.plan_threshold(12, epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1, summary_released=False)


def _threshold_trial(
    mechanism: str,
    plan: auction.ThresholdPlan,
    pair: Neighbours[auction.Bids],
    draw: Callable[[int], Sequence[float]],
    noise: Noise,
) -> Trial:
    return trial_of(
        mechanism,
        pair,
        draws(draw),
        claims=claims(plan.event, delta=0.0, relation=Relation.REPLACE_ONE),
        noise=noise,
        samples=4_000,
        relation=Relation.REPLACE_ONE,
        unseen=_UNSEEN,
    )
