"""Deliberately broken mechanisms. The auditor must catch every one of them; a test fails if it does not.

Each is a mistake that somebody has made or would be tempted to make, and keeps the claim of the sound mechanism. None
of them can be reached from a protocol. A new one is a function from a seed to a trial that is listed in ``BROKEN``.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.audit import auditor, neighbours, sound_trials
from likeset.audit.auditor import SMALL_DELTA, Claim, Observations, Observe, PrefetchedNoise, Trial, trial_of
from likeset.audit.neighbours import Neighbours, Rows, owner_is_overtaken
from likeset.audit.sound_trials import (
    KEEP_BLOCK,
    KEEP_KEY,
    MEAN_DELTA,
    SIGNS,
    Table,
    mean_plan,
)
from likeset.geometry.features import Stream
from likeset.privacy import auction, gaussian_mean, width_choice
from likeset.privacy.auction import auction_epsilon, auction_patience
from likeset.privacy.events import (
    Composition,
    Event,
    ExponentialChoice,
    Laplace,
    Observer,
    PrivacyUnit,
    Relation,
    RowSum,
)
from likeset.privacy.noise import Integers, Noise, SimulatedNoise


def _negated_row(dimension: int, *, changed: int = 1, axis: int | None = None) -> Neighbours[Rows]:
    return neighbours.negated(neighbours.unit_rows(4, dimension, axis), changed, "unit row")


_PAIR = _negated_row(6)


class _HalvedNoise(auditor.WrappedNoise):
    """Half the noise that was planned: a factor 2 was lost on the way."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return super().discrete_gaussian(sigma / 2, size)


class _HalvedLastCoordinate(auditor.WrappedNoise):
    """Half the noise in the last coordinate, as from a scale that is kept by coordinate."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        drawn = super().discrete_gaussian(sigma, size)
        drawn[..., -1] //= 2
        return drawn


class _ReplayedNoise(auditor.WrappedNoise):
    """Gives everything out twice, as a generator does that was copied or rewound."""

    def __init__(self, source: Noise) -> None:
        super().__init__(source)
        self.kept: list[Integers] = []

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        if self.kept:
            return self.kept.pop()
        self.kept.append(super().discrete_gaussian(sigma, size))
        return self.kept[0]


def mean_trial(
    mechanism: str,
    pair: Neighbours[Rows],
    observe: Observe,
    event: Event,
    *,
    deltas: tuple[float, ...] = (MEAN_DELTA,),
    samples: int = 12_000,
) -> Trial:
    noise = SimulatedNoise(0)
    return trial_of(f"gaussian mean{mechanism}", pair, observe, event, noise, samples=samples, deltas=deltas)


def _mean(
    mechanism: str,
    seed: int,
    pair: Neighbours[Rows] = _PAIR,
    *,
    noise: type[auditor.WrappedNoise] = auditor.WrappedNoise,
    claimed: RowSum | None = None,
) -> Trial:
    plan = mean_plan(pair)
    observe = auditor.batched_draws(
        lambda side, drawn: gaussian_mean.run(plan, pair[side], noise(drawn)).value, SimulatedNoise(seed)
    )
    return mean_trial(mechanism, pair, observe, mean_plan(pair, claimed).event)


def halved_noise(seed: int) -> Trial:
    """Half the noise that the event says; also what a forgotten factor 2 of a sensitivity comes to."""
    return _mean(", noise scale halved", seed, noise=_HalvedNoise)


def halved_coordinate(seed: int) -> Trial:
    """The mean release with half the noise in one of six coordinates; the rows lie along it."""
    pair = _negated_row(6, axis=5)
    return _mean(", noise halved in one coordinate", seed, pair, noise=_HalvedLastCoordinate)


def forgotten_rows(seed: int) -> Trial:
    """The mean release with noise for one row to a unit, claimed for units of three."""
    claimed = gaussian_mean.unit_rows(PrivacyUnit(3, ""), Relation.REPLACE_ONE)
    return _mean(", rows per unit forgotten", seed, _negated_row(6, changed=3), claimed=claimed)


def reused_noise(seed: int) -> Trial:
    """Two mean releases that share their noise; the second one is of rows that everybody knows."""
    plan = mean_plan(_PAIR)

    def both(side: int, drawn: Noise) -> Rows:
        replayed = _ReplayedNoise(drawn)
        private = gaussian_mean.run(plan, _PAIR[side], replayed).value
        return np.concatenate([private, gaussian_mean.run(plan, _PAIR.first, replayed).value], axis=1)

    event = Composition((plan.event, plan.event))
    observe = auditor.batched_draws(both, SimulatedNoise(seed))
    return mean_trial(" twice, noise reused", _PAIR, observe, event, samples=4_000)


# Broken means whose noise looks right: the row shows in a sign, in a bit, in one late coordinate, or now and then.
#
# Every single coordinate of the first three has the law that it should have, or all but one have. What is sent is made
# from a sound release, so these are what a debugging aid, a careless encoding or a planted back door would do.

_SMALL_PAIR = _negated_row(2)
_BOTH = (MEAN_DELTA, SMALL_DELTA)

Change = Callable[[Rows, int, gaussian_mean.GaussianPlan, Noise], Rows]
"""(sound releases, which input, the plan, more noise) -> what is sent."""


def _changed(
    mechanism: str,
    seed: int,
    change: Change,
    *,
    pair: Neighbours[Rows] = _SMALL_PAIR,
    planned: float = MEAN_DELTA,
    deltas: tuple[float, ...] = _BOTH,
    samples: int = 4_000,
    of_both: bool = False,
) -> Trial:
    """Sound releases of the first input, or of both, changed before they are sent."""
    plan, noise = mean_plan(pair, delta=planned), SimulatedNoise(seed)

    def observe(side: int, size: int) -> ArrayLike:
        rows = pair[side] if of_both else pair.first
        return change(gaussian_mean.run(plan, rows, auditor.RunsAtOnce(noise, size)).value, side, plan, noise)

    return mean_trial(mechanism, pair, observe, plan.event, deltas=deltas, samples=samples)


def sign_of_product(seed: int) -> Trial:
    """Which input it was decides the sign of the product of two noises; each of them is Gaussian all the same."""
    centre: Rows = _SMALL_PAIR.first.mean(axis=0)

    def change(rows: Rows, side: int, *_: object) -> Rows:
        away = rows - centre
        wanted = 1.0 if side == 0 else -1.0
        away[:, 1] = np.abs(away[:, 1]) * np.where(away[:, 0] < 0, -wanted, wanted)
        return centre + away

    return _changed(", sign of two noises", seed, change)


def parity(seed: int) -> Trial:
    """The release is rounded to even or to odd lattice points: a check bit that was computed from the rows."""

    def change(rows: Rows, side: int, plan: gaussian_mean.GaussianPlan, _: Noise) -> Rows:
        spacing = gaussian_mean.SPACING / plan.size
        return (2 * np.floor(np.rint(rows / spacing) / 2) + side) * spacing

    return _changed(", parity of the lattice point", seed, change)


def late_variance(seed: int) -> Trial:
    """More noise in coordinate 17 of 20 if a row is unusual; otherwise the release is the same."""

    def change(rows: Rows, side: int, plan: gaussian_mean.GaussianPlan, noise: Noise) -> Rows:
        if side == 1:
            more = noise.discrete_gaussian(30 * plan.sigma / gaussian_mean.SPACING, len(rows))
            rows[:, 17] += more * gaussian_mean.SPACING / plan.size
        return rows

    return _changed(", variance of a late coordinate", seed, change, pair=_negated_row(20))


def raw_mean_of_two_hundred(seed: int) -> Trial:
    """1 of 200 answers is the raw mean: not much less would show; 1 of 500 is *missed* (docs/proofs/auditor.md)."""
    return sometimes_raw(seed, 1 / 200)


def sometimes_raw(seed: int, share: float) -> Trial:
    def change(rows: Rows, side: int, _: object, noise: Noise) -> Rows:
        rows[noise.bernoulli(np.full(len(rows), share))] = _SMALL_PAIR[side].mean(axis=0)
        return rows

    name = f", raw with probability {share:g}"
    return _changed(name, seed, change, planned=SMALL_DELTA, deltas=(SMALL_DELTA,), samples=100_000, of_both=True)


# Broken choices and sums: lost factors, noise that leaves traces.

_SIGNS = neighbours.negated(neighbours.signs(8))


def doubled_rate(seed: int) -> Trial:
    """The exponential mechanism at twice its rate: the factor 2 for scores that may rise and fall is lost."""
    event = ExponentialChoice(rate=0.25, quantity=SIGNS)
    pair, noise = neighbours.opposite_scores(candidates=32, sensitivity=2), SimulatedNoise(seed)
    observe = auditor.draws(lambda side: noise.exponential_choice(pair[side], 2 * event.rate))
    name = "exponential choice, rate doubled"
    return trial_of(name, pair, observe, event, noise, samples=40_000, deltas=(0.0,))


def floating_point_laplace(seed: int) -> Trial:
    """Laplace noise as textbooks draw it; the event is which doubles can be reached (Mironov 2012)."""
    coins, event = np.random.default_rng(seed), Laplace(scale=2.0, quantity=SIGNS)
    values = float(_SIGNS.first.sum()), float(_SIGNS.second.sum())
    return trial_of(
        "sum, textbook floating-point Laplace",
        _SIGNS,
        lambda side, size: textbook_laplace(values[side], event.scale, size, coins),
        event,
        SimulatedNoise(seed),
        samples=20_000,
        score=lambda rows: np.subtract(*(reachable(rows[:, 0], value, event.scale) for value in values)),
    )


# Textbook Laplace noise in floating point, and Mironov's attack on it (CCS 2012).
#
# The textbook draws a uniform double u, a multiple of 2^-53, and returns x - b s log(1 - 2|u - 1/2|), where s
# is the sign of u - 1/2.
# The logarithm of a grid is not a grid: only some doubles can come out, and which ones depends on x. An answer
# that cannot come from x proves that the data were not x, whatever epsilon was claimed. No histogram of the
# answers shows it, because the reachable doubles of every x lie within a rounding error of each other.

_GRID = 2.0**-52  # 1 - 2|u - 1/2| is exact and a multiple of this
_REACH = 3  # exp() and log() each err by about one unit in the last place; so many grid steps on either side do


def textbook_laplace(value: float, scale: float, size: int, coins: np.random.Generator) -> Observations:
    """``size`` answers: the value plus Laplace noise, as textbooks write it."""
    centred = coins.random(size) - 0.5
    # log(0) needs u = 0, one draw in 2^53; the textbook does not guard against it and neither do we.
    return _answer(value, scale, np.sign(centred), 1 - 2 * np.abs(centred))


def reachable(answers: Observations, value: float, scale: float) -> Observations:
    """1 where some uniform double takes ``value`` to exactly this answer, else 0."""
    noise = answers - value
    nearest = np.rint(np.exp(-np.abs(noise) / scale) / _GRID)
    hits = np.zeros(len(answers), dtype=np.bool_)
    for step in range(-_REACH, _REACH + 1):
        tail = np.clip((nearest + step) * _GRID, _GRID, 1.0)
        hits |= _answer(value, scale, np.sign(noise), tail) == answers
    return hits.astype(np.float64)


def _answer(value: float, scale: float, sign: Observations, tail: Observations) -> Observations:
    answer: Observations = value - scale * sign * np.log(tail)
    return answer


# Broken auctions: the paper's, and two tempting improvements of the threshold auction.


def paper_auction(seed: int) -> Trial:
    """The paper's auction, one round: rank 1 is always asked, so not to be asked proves a better rival."""
    owners, epsilon, delta = 2, 1.0, 1e-5
    plan = auction.plan_paper(
        owners,
        epsilon=auction_epsilon(owners=owners, epsilon=epsilon, delta=delta),
        patience=auction_patience(owners),
        rounds=1,
        accept_unproven={auction.PAPER_AUCTION},
    )
    pair, noise = owner_is_overtaken(owners, rank=1), SimulatedNoise(seed)
    observe, claimed = auditor.draws(lambda side: auction.run(plan, pair[side], noise).value[:1]), Claim(epsilon, delta)
    name = "paper's auction, one round"
    return trial_of(name, pair, observe, (claimed,), noise, samples=40_000)


def redrawn_threshold(seed: int) -> Trial:
    """The threshold is drawn again until enough owners are asked: then the highest ranks always are."""

    def until_enough(ask: Callable[[], NDArray[np.bool_]]) -> Sequence[float]:
        while (asked := ask()).sum() < _threshold_plan().offset:
            pass
        return [asked[0]]

    return _threshold_trial("redrawn until enough are asked", seed, until_enough)


def revealed_count(seed: int) -> Trial:
    """Each owner also hears how many were asked, and with that the threshold itself."""

    def with_count(ask: Callable[[], NDArray[np.bool_]]) -> Sequence[float]:
        asked = ask()
        return [asked[0], asked.sum()]

    return _threshold_trial("count of asked owners revealed", seed, with_count)


def _threshold_plan() -> auction.ThresholdPlan:
    return sound_trials.threshold_plan(Observer.ONE_OWNER)


def _threshold_trial(
    mechanism: str, seed: int, heard: Callable[[Callable[[], NDArray[np.bool_]]], Sequence[float]]
) -> Trial:
    plan, noise = _threshold_plan(), PrefetchedNoise(SimulatedNoise(seed))
    pair = owner_is_overtaken(plan.owners, rank=plan.offset)
    observe = auditor.draws(lambda side: heard(lambda: auction.run(plan, pair[side], noise).value))
    name = f"threshold auction, {mechanism}"
    return trial_of(name, pair, observe, plan.event, noise, samples=4_000)


def kept_by_block(seed: int) -> Trial:
    """A few rows of each id *of a block* are kept: who has rows in several blocks has several times as many."""

    def by_block(table: Table, keep: int) -> NDArray[np.int64]:
        parts = [slice(first, first + KEEP_BLOCK) for first in range(0, len(table.ids), KEEP_BLOCK)]
        kept = [sound_trials.kept_rows(Table(table.ids[part], table.signs[part]), keep) for part in parts]
        return np.concatenate([part.start + rows for part, rows in zip(parts, kept, strict=True)])

    noise, relation = SimulatedNoise(seed), Relation.REPLACE_ONE
    return sound_trials.kept_sum(noise, relation, keep=2, samples=4_000, kept=by_block, name="kept block by block")


def kept_by_place(seed: int) -> Trial:
    """What is kept hangs on a row's place in the table: without one id, all others' rows are drawn anew."""

    def by_place(table: Table, keep: int) -> NDArray[np.int64]:
        words = Stream("audit/places", KEEP_KEY).words(0, len(table.ids))
        best: dict[bytes, list[int]] = {}
        for row in np.argsort(words).tolist():
            mine = best.setdefault(table.ids[row], [])
            if len(mine) < keep:
                mine.append(row)
        return np.sort(np.concatenate([np.array(rows) for rows in best.values()]))

    noise, relation = SimulatedNoise(seed), Relation.ADD_OR_REMOVE
    return sound_trials.kept_sum(noise, relation, keep=1, samples=4_000, kept=by_place, name="drawn by place")


def all_pairs_counted(seed: int) -> Trial:
    """A width chosen by the distances of all pairs of rows, claimed for pairs that have no row in common."""
    noise, unit, candidates = SimulatedNoise(seed), PrivacyUnit(1, ""), width_choice.grid(1)
    pair = neighbours.pair_moves_apart()
    plan = width_choice.WidthPlan(size=len(pair.first), unit=unit, rate=1.0, relation=Relation.REPLACE_ONE)

    def choose(side: int) -> int:
        squared = (pair[side] - pair[side].T) ** 2
        distances = squared[np.triu_indices(len(squared), k=1)]
        return noise.exponential_choice(width_choice.near_pairs(distances, candidates), plan.rate)

    name = "width choice, all pairs counted"
    return trial_of(name, pair, auditor.draws(choose), plan.event, noise, samples=8_000)


BROKEN: tuple[Callable[[int], Trial], ...] = (
    halved_noise,
    halved_coordinate,
    forgotten_rows,
    reused_noise,
    sign_of_product,
    parity,
    late_variance,
    raw_mean_of_two_hundred,
    doubled_rate,
    all_pairs_counted,
    kept_by_block,
    kept_by_place,
    floating_point_laplace,
    paper_auction,
    redrawn_threshold,
    revealed_count,
)
"""One builder for each member of the set; it takes the seed of the simulated noise."""


def broken_trials(seed: int | None = None) -> list[Trial]:
    """The whole set; ``seed`` is that of all noise, a fresh one if not given: repeated audits see other coins."""
    chosen = sound_trials.fresh_seed() if seed is None else seed
    return [build(chosen) for build in BROKEN]
