"""Deliberately broken mechanisms. The auditor must catch every one of them; a test fails if it does not.

Each is a mistake that somebody has made, keeps the claim of the sound mechanism beside it, and names the
channel in which it is caught. None of them can be reached from a protocol.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from likeset.audit import neighbours
from likeset.audit.exact import Law
from likeset.audit.floating import reachability, textbook_laplace
from likeset.audit.neighbours import Neighbours
from likeset.audit.partitions import Score
from likeset.audit.prefetch import Prefetched
from likeset.audit.sums import EVENT, PAIR, CountedRows, NoisySum, TracedSum, claim, fresh_seed
from likeset.audit.trials import Channel, Observe, Trial, draws, repeated_answers, restarted_answers
from likeset.mechanisms import auction, gaussian_mean
from likeset.privacy.events import Composition, ExponentialChoice, Observer
from likeset.privacy.noise import Integers, SimulatedNoise
from likeset.privacy.relation import InRange, Relation

__all__ = ["BROKEN", "broken", "paper_auction_laws", "paper_auction_rate"]

_MEAN_PAIR = neighbours.opposite_rows(rows=4, dimension=6)
_MEAN_DELTA = 0.05  # large, because small deltas are decided in tails that few observations reach
_KNOWN_SEED = 2019


def broken() -> list[Trial]:
    """The whole set."""
    return [build() for build in BROKEN]


class _HalvedNoise(SimulatedNoise):
    """Half the noise that was planned: a factor 2 was lost on the way."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return super().discrete_gaussian(sigma / 2, size)


def halved_noise() -> Trial:
    """The mean release with half the noise that its event says."""
    plan = _mean_plan(Relation.REPLACE_ONE)
    noise = Prefetched(_HalvedNoise(fresh_seed()))
    observe = draws(lambda side: gaussian_mean.run(plan, _MEAN_PAIR[side], noise).value)
    return _mean_trial("gaussian mean, noise scale halved", observe, claim(plan.event, delta=_MEAN_DELTA))


def wrong_relation() -> Trial:
    """The mean release planned for add-or-remove (sensitivity 1) but claimed under replace-one (2)."""
    plan, honest = _mean_plan(Relation.ADD_OR_REMOVE), _mean_plan(Relation.REPLACE_ONE)
    noise = Prefetched(SimulatedNoise(fresh_seed()))
    observe = draws(lambda side: gaussian_mean.run(plan, _MEAN_PAIR[side], noise).value)
    name = "gaussian mean, sensitivity of add-or-remove"
    return _mean_trial(name, observe, claim(honest.event, delta=_MEAN_DELTA))


class _ReplayedNoise(SimulatedNoise):
    """Gives everything out twice, as a generator does that was copied or rewound."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kept: list[Integers] = []

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        if self.kept:
            return self.kept.pop()
        self.kept.append(super().discrete_gaussian(sigma, size))
        return self.kept[0]


def reused_noise() -> Trial:
    """Two mean releases that share their noise; the second one is of rows that everybody knows."""
    plan = _mean_plan(Relation.REPLACE_ONE)
    noise = _ReplayedNoise(fresh_seed())

    def both(side: int) -> Sequence[float]:
        private = gaussian_mean.run(plan, _MEAN_PAIR[side], noise).value
        known = gaussian_mean.run(plan, _MEAN_PAIR.first, noise).value
        return [*private, *known]

    epsilon = claim(Composition((plan.event, plan.event)), delta=_MEAN_DELTA)
    return _mean_trial("gaussian mean twice, noise reused", draws(both), epsilon, samples=4_000)


def doubled_rate() -> Trial:
    """The exponential mechanism at twice its rate: the factor 2 for scores that may rise and fall is lost."""
    rate = 0.25
    pair = neighbours.opposite_scores(candidates=32, sensitivity=2)
    noise = SimulatedNoise(fresh_seed())
    return Trial(
        mechanism="exponential choice, rate doubled",
        pair=pair.words,
        channel=Channel.OUTPUT,
        noise="simulated",
        epsilon=claim(ExponentialChoice(rate=rate, quantity=InRange(-1.0, 1.0)), delta=0.0),
        delta=0.0,
        observe=lambda side, size: [noise.exponential_choice(pair[side], 2 * rate) for _ in range(size)],
        samples=40_000,
    )


def redrawn_answer() -> Trial:
    """The same request is answered with fresh noise each time: the answers average out."""
    noise = Prefetched(SimulatedNoise(fresh_seed()))
    observe = repeated_answers(lambda side: NoisySum(PAIR[side], noise), times=8)
    return _sum_trial("sum, repeated request redrawn", Channel.REPEATED, observe, samples=10_000)


class _HastySum(TracedSum):
    """Stops reading at the first negative row, from where on it knows the rest."""

    def read(self, rows: CountedRows) -> int:
        total = 0
        for place in range(len(rows)):
            value = rows[place]
            total += value
            if value < 0:
                return total + (len(rows) - place - 1)
        return total


def early_exit() -> Trial:
    """The answer is the sound one, but how long it takes depends on the rows."""
    noise = Prefetched(SimulatedNoise(fresh_seed()))
    observe = draws(lambda side: _HastySum(PAIR[side], noise).answer(0))
    return _sum_trial("sum, early exit that depends on data", Channel.TRACE, observe, samples=4_000)


def floating_point_laplace() -> Trial:
    """Laplace noise as textbooks draw it; the event is which doubles can be reached (Mironov 2012)."""
    coins = np.random.default_rng(fresh_seed())
    values = [float(PAIR[side].sum()) for side in (0, 1)]
    return _sum_trial(
        "sum, textbook floating-point Laplace",
        Channel.OUTPUT,
        lambda side, size: textbook_laplace(values[side], EVENT.scale, size, coins),
        samples=20_000,
        score=reachability(values[0], values[1], EVENT.scale),
    )


def seeded_noise() -> Trial:
    """Noise from a fixed seed: whoever sees it start a second time has seen the noise before."""
    observe = restarted_answers(lambda side: NoisySum(PAIR[side], SimulatedNoise(_KNOWN_SEED)))
    return _sum_trial("sum, seeded noise", Channel.RESTARTED, observe, samples=2_000)


def paper_auction_rate(owners: int, *, epsilon: float, delta: float) -> float:
    """The paper's eps_auc for a claim of (epsilon, delta)."""
    return epsilon / (3 * math.sqrt(2) * math.log(1 / delta)) * math.pow(owners, -1 / 3)


def paper_auction_laws(owners: int, *, epsilon: float, delta: float) -> tuple[Law[bool], Law[bool]]:
    """Whether one owner is asked in one round, written out: at rank 1, and at rank 2 behind a rival."""
    rate = paper_auction_rate(owners, epsilon=epsilon, delta=delta)
    asked = math.exp(-rate)
    return {True: 1.0}, {True: asked, False: 1 - asked}


def paper_auction() -> Trial:
    """The paper's auction, one round: rank 1 is always asked, so not to be asked proves a better rival."""
    owners, epsilon, delta = 5, 1.0, 1e-5
    plan = auction.plan_paper(
        owners,
        epsilon=paper_auction_rate(owners, epsilon=epsilon, delta=delta),
        patience=math.ceil(math.pow(owners, 2 / 3)),
        rounds=1,
        accept_unproven={auction.PAPER_AUCTION},
    )
    pair = neighbours.overtaken(owners, rank=1)
    noise = SimulatedNoise(fresh_seed())
    return Trial(
        mechanism="paper's auction, one round",
        pair=pair.words,
        channel=Channel.OUTPUT,
        noise="simulated",
        epsilon=epsilon,
        delta=delta,
        observe=draws(lambda side: auction.run(plan, pair[side], noise).value[:1]),
        samples=40_000,
    )


def redrawn_threshold() -> Trial:
    """The threshold is drawn again until enough owners are asked: then the highest ranks always are."""
    plan = _threshold_plan()
    pair = neighbours.overtaken(plan.owners, rank=plan.offset)
    noise = Prefetched(SimulatedNoise(fresh_seed()))

    def until_enough(side: int) -> Sequence[float]:
        while True:
            asked = auction.run(plan, pair[side], noise).value
            if asked.sum() >= plan.offset:
                return [asked[0]]

    return _threshold_trial("threshold auction, redrawn until enough are asked", plan, pair, until_enough)


def revealed_count() -> Trial:
    """Each owner also hears how many were asked, and with that the threshold itself."""
    plan = _threshold_plan()
    pair = neighbours.overtaken(plan.owners, rank=plan.offset)
    noise = Prefetched(SimulatedNoise(fresh_seed()))

    def with_count(side: int) -> Sequence[float]:
        asked = auction.run(plan, pair[side], noise).value
        return [asked[0], asked.sum()]

    return _threshold_trial("threshold auction, count of asked owners revealed", plan, pair, with_count)


def _mean_plan(relation: Relation) -> gaussian_mean.Plan:
    return gaussian_mean.plan(
        gaussian_mean.unit_rows(1, relation),
        size=len(_MEAN_PAIR.first),
        dimension=_MEAN_PAIR.first.shape[1],
        epsilon=1.0,
        delta=_MEAN_DELTA,
    )


def _mean_trial(mechanism: str, observe: Observe, epsilon: float, *, samples: int = 12_000) -> Trial:
    return Trial(
        mechanism=mechanism,
        pair=_MEAN_PAIR.words,
        channel=Channel.OUTPUT,
        noise="simulated",
        epsilon=epsilon,
        delta=_MEAN_DELTA,
        observe=observe,
        samples=samples,
    )


def _sum_trial(
    mechanism: str, channel: Channel, observe: Observe, *, samples: int, score: Score | None = None
) -> Trial:
    return Trial(
        mechanism=mechanism,
        pair=PAIR.words,
        channel=channel,
        noise="simulated",
        epsilon=claim(EVENT, delta=0.0),
        delta=0.0,
        observe=observe,
        samples=samples,
        score=score,
    )


def _threshold_plan() -> auction.ThresholdPlan:
    return auction.plan_threshold(12, epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1, summary_released=False)


def _threshold_trial(
    mechanism: str,
    plan: auction.ThresholdPlan,
    pair: Neighbours[auction.Bids],
    draw: Callable[[int], Sequence[float]],
) -> Trial:
    return Trial(
        mechanism=mechanism,
        pair=pair.words,
        channel=Channel.OUTPUT,
        noise="simulated",
        epsilon=claim(plan.event, delta=0.0),
        delta=0.0,
        observe=draws(draw),
        samples=4_000,
    )


BROKEN: tuple[Callable[[], Trial], ...] = (
    halved_noise,
    wrong_relation,
    doubled_rate,
    reused_noise,
    redrawn_answer,
    early_exit,
    floating_point_laplace,
    seeded_noise,
    paper_auction,
    redrawn_threshold,
    revealed_count,
)
"""One builder for each member of the set."""
