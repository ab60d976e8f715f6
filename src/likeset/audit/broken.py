"""Deliberately broken mechanisms. The auditor must catch every one of them; a test fails if it does not.

Each is a mistake that somebody has made or would be tempted to make, keeps the claim of the sound mechanism beside
it, and names the channel in which it is caught. None of them can be reached from a protocol.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from likeset.audit.sound import (
    EVENT,
    KEEP_BLOCK,
    KEEP_KEY,
    PAIR,
    CountedRows,
    NoisySum,
    Table,
    TracedSum,
    fresh_seed,
    kept_rows,
    kept_trial,
    reachability,
    sum_trial,
    textbook_laplace,
)
from likeset.audit.trials import (
    SMALL_DELTA,
    Channel,
    Claim,
    Neighbours,
    Observe,
    PrefetchedNoise,
    Rows,
    RunsAtOnce,
    Trial,
    WrappedNoise,
    batched_draws,
    claim_at,
    claims,
    draws,
    opposite_axis_rows,
    opposite_rows,
    opposite_scores,
    owner_is_overtaken,
    removed_signs,
    repeated_answers,
    restarted_answers,
    trial_of,
)
from likeset.geometry.features import Stream
from likeset.privacy import auction, gaussian_mean
from likeset.privacy.events import (
    ROW,
    Composition,
    Event,
    ExponentialChoice,
    InRange,
    Laplace,
    Norm,
    Observer,
    PrivacyUnit,
    Relation,
    RowSum,
    SelectionSum,
)
from likeset.privacy.noise import Integers, Noise, SimulatedNoise
from likeset.privacy.schedules import auction_epsilon, auction_patience

MEAN_DELTA = 0.05
"""Large, because small deltas are decided in tails that few observations reach."""

_PAIR = opposite_rows(rows=4, dimension=6)


class _HalvedNoise(WrappedNoise):
    """Half the noise that was planned: a factor 2 was lost on the way."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return super().discrete_gaussian(sigma / 2, size)


class _HalvedLastCoordinate(WrappedNoise):
    """Half the noise in the last coordinate, as from a scale that is kept by coordinate."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        drawn = super().discrete_gaussian(sigma, size)
        drawn[..., -1] //= 2
        return drawn


class _ReplayedNoise(WrappedNoise):
    """Gives everything out twice, as a generator does that was copied or rewound."""

    def __init__(self, source: Noise) -> None:
        super().__init__(source)
        self.kept: list[Integers] = []

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        if self.kept:
            return self.kept.pop()
        self.kept.append(super().discrete_gaussian(sigma, size))
        return self.kept[0]


def halved_noise(seed: int) -> Trial:
    """The mean release with half the noise that its event says."""
    plan = mean_plan(_PAIR)
    observe = _observe_with(_HalvedNoise, plan, _PAIR, SimulatedNoise(seed))
    return mean_trial("gaussian mean, noise scale halved", _PAIR, observe, plan.event)


def halved_coordinate(seed: int) -> Trial:
    """The mean release with half the noise in one of six coordinates; the rows lie along it."""
    pair = opposite_axis_rows(4, 6, axis=5)
    plan = mean_plan(pair)
    observe = _observe_with(_HalvedLastCoordinate, plan, pair, SimulatedNoise(seed))
    return mean_trial("gaussian mean, noise halved in one coordinate", pair, observe, plan.event)


def wrong_relation(seed: int) -> Trial:
    """The mean release planned for add-or-remove (sensitivity 1) but claimed under replace-one (2)."""
    plan = mean_plan(_PAIR, quantity=gaussian_mean.unit_rows(ROW, Relation.ADD_OR_REMOVE))
    observe = _observe_with(WrappedNoise, plan, _PAIR, SimulatedNoise(seed))
    return mean_trial("gaussian mean, sensitivity of add-or-remove", _PAIR, observe, mean_plan(_PAIR).event)


def forgotten_rows(seed: int) -> Trial:
    """The mean release with noise for one row to a unit, claimed for units of three."""
    pair = opposite_rows(4, 6, 3)
    plan, honest = (
        mean_plan(pair),
        mean_plan(pair, quantity=gaussian_mean.unit_rows(PrivacyUnit(3, ""), Relation.REPLACE_ONE)),
    )
    observe = _observe_with(WrappedNoise, plan, pair, SimulatedNoise(seed))
    return mean_trial("gaussian mean, rows per unit forgotten", pair, observe, honest.event)


def selection_as_sum(seed: int) -> Trial:
    """Rows selected for the summary, priced as if an added row only added a row: another one gives way to it."""
    removed = Relation.ADD_OR_REMOVE
    plan = mean_plan(_PAIR, quantity=gaussian_mean.unit_rows(ROW, removed))
    honest = mean_plan(_PAIR, quantity=gaussian_mean.selected_unit_rows(ROW, removed))
    observe = _observe_with(WrappedNoise, plan, _PAIR, SimulatedNoise(seed))
    name = "gaussian mean of selected rows, priced as a sum of all rows"
    return mean_trial(name, _PAIR, observe, honest.event, relation=removed)


def reused_noise(seed: int) -> Trial:
    """Two mean releases that share their noise; the second one is of rows that everybody knows."""
    plan = mean_plan(_PAIR)

    def both(side: int, drawn: Noise) -> Rows:
        replayed = _ReplayedNoise(drawn)
        private = gaussian_mean.run(plan, _PAIR[side], replayed).value
        return np.concatenate([private, gaussian_mean.run(plan, _PAIR.first, replayed).value], axis=1)

    name = "gaussian mean twice, noise reused"
    event = Composition((plan.event, plan.event))
    return mean_trial(name, _PAIR, batched_draws(both, SimulatedNoise(seed)), event, samples=4_000)


def mean_plan(
    pair: Neighbours[Rows],
    *,
    quantity: RowSum | SelectionSum | None = None,
    delta: float = MEAN_DELTA,
) -> gaussian_mean.GaussianPlan:
    """Noise for epsilon 1 at ``delta``; unless told otherwise for one row to a unit, which may be replaced."""
    return gaussian_mean.plan(
        gaussian_mean.unit_rows(ROW, Relation.REPLACE_ONE) if quantity is None else quantity,
        size=len(pair.first),
        dimension=pair.first.shape[1],
        epsilon=1.0,
        delta=delta,
    )


def mean_trial(
    mechanism: str,
    pair: Neighbours[Rows],
    observe: Observe,
    event: Event,
    *,
    relation: Relation = Relation.REPLACE_ONE,
    deltas: tuple[float, ...] = (MEAN_DELTA,),
    samples: int = 12_000,
) -> Trial:
    """A broken mean with the claim of the sound one."""
    claimed: tuple[Claim, ...] = tuple(claim_at(delta, event, relation) for delta in deltas)
    return trial_of(
        mechanism,
        pair,
        observe,
        claims=claimed,
        noise=SimulatedNoise(0),
        samples=samples,
        relation=relation,
        unseen="other pairs",
    )


def _observe_with(
    changed: type[WrappedNoise], plan: gaussian_mean.GaussianPlan, pair: Neighbours[Rows], noise: Noise
) -> Observe:
    return batched_draws(lambda side, drawn: gaussian_mean.run(plan, pair[side], changed(drawn)).value, noise)


# Broken means whose noise looks right: the row shows in a sign, in a bit, in one late coordinate, or now and then.
#
# Every single coordinate of the first three has the law that it should have, or all but one have. What is sent is made
# from a sound release, so these are what a debugging aid, a careless encoding or a planted back door would do.

_SMALL_PAIR = opposite_rows(rows=4, dimension=2)
_BOTH = (MEAN_DELTA, SMALL_DELTA)


def sign_of_product(seed: int) -> Trial:
    """Which input it was decides the sign of the product of two noises; each of them is Gaussian all the same."""
    plan, noise = mean_plan(_SMALL_PAIR), SimulatedNoise(seed)
    centre: Rows = _SMALL_PAIR.first.mean(axis=0)

    def observe(side: int, size: int) -> Rows:
        away = _release(plan, _SMALL_PAIR.first, noise, size) - centre
        wanted = 1.0 if side == 0 else -1.0
        away[:, 1] = np.abs(away[:, 1]) * np.where(away[:, 0] < 0, -wanted, wanted)
        return centre + away

    return mean_trial(
        "gaussian mean, sign of two noises", _SMALL_PAIR, observe, plan.event, deltas=_BOTH, samples=4_000
    )


def parity(seed: int) -> Trial:
    """The release is rounded to even or to odd lattice points: a check bit that was computed from the rows."""
    plan, noise = mean_plan(_SMALL_PAIR), SimulatedNoise(seed)
    spacing = gaussian_mean.SPACING / plan.size

    def observe(side: int, size: int) -> Rows:
        points = np.rint(_release(plan, _SMALL_PAIR.first, noise, size) / spacing)
        return (2 * np.floor(points / 2) + side) * spacing

    return mean_trial(
        "gaussian mean, parity of the lattice point", _SMALL_PAIR, observe, plan.event, deltas=_BOTH, samples=4_000
    )


def late_variance(seed: int) -> Trial:
    """More noise in coordinate 17 of 20 if a row is unusual; otherwise the release is the same."""
    pair = opposite_rows(rows=4, dimension=20)
    plan, noise = mean_plan(pair), SimulatedNoise(seed)

    def observe(side: int, size: int) -> Rows:
        rows = _release(plan, pair.first, noise, size)
        if side == 1:
            more = noise.discrete_gaussian(30 * plan.sigma / gaussian_mean.SPACING, size)
            rows[:, 17] += more * gaussian_mean.SPACING / plan.size
        return rows

    return mean_trial(
        "gaussian mean, variance of a late coordinate", pair, observe, plan.event, deltas=_BOTH, samples=4_000
    )


def raw_mean(seed: int) -> Trial:
    """4 of 100 answers are the raw mean. At delta 0.05 that is no event of its own: it only adds to the tails."""
    return _raw_mean(seed, 0.04, planned=MEAN_DELTA, deltas=_BOTH, samples=300_000)


def raw_mean_of_two_hundred(seed: int) -> Trial:
    """1 of 200 answers is the raw mean: not much less would show."""
    return _raw_mean(seed, 1 / 200, planned=SMALL_DELTA, deltas=(SMALL_DELTA,), samples=100_000)


def rare_raw_mean(seed: int) -> Trial:
    """1 of 500 answers is the raw mean. Not in the broken set, because it is *missed* (docs/proofs/auditor.md)."""
    return _raw_mean(seed, 1 / 500, planned=SMALL_DELTA, deltas=(SMALL_DELTA,), samples=100_000)


def _raw_mean(seed: int, share: float, *, planned: float, deltas: tuple[float, ...], samples: int) -> Trial:
    plan, noise = mean_plan(_SMALL_PAIR, delta=planned), SimulatedNoise(seed)

    def observe(side: int, size: int) -> Rows:
        rows = _release(plan, _SMALL_PAIR[side], noise, size)
        rows[noise.bernoulli(np.full(size, share))] = _SMALL_PAIR[side].mean(axis=0)
        return rows

    name = f"gaussian mean, raw with probability {share:g}"
    return mean_trial(name, _SMALL_PAIR, observe, plan.event, deltas=deltas, samples=samples)


def _release(plan: gaussian_mean.GaussianPlan, rows: Rows, noise: Noise, size: int) -> Rows:
    return gaussian_mean.run(plan, rows, RunsAtOnce(noise, size)).value


# Broken choices and sums: lost factors, noise drawn again, noise that leaves traces.

_UNSEEN = "other pairs"


def doubled_rate(seed: int) -> Trial:
    """The exponential mechanism at twice its rate: the factor 2 for scores that may rise and fall is lost."""
    event = ExponentialChoice(rate=0.25, quantity=InRange(-1.0, 1.0))
    pair = opposite_scores(candidates=32, sensitivity=2)
    noise = SimulatedNoise(seed)
    return trial_of(
        "exponential choice, rate doubled",
        pair,
        lambda side, size: [noise.exponential_choice(pair[side], 2 * event.rate) for _ in range(size)],
        claims=(claim_at(0.0, event, Relation.REPLACE_ONE),),
        noise=noise,
        samples=40_000,
        relation=Relation.REPLACE_ONE,
        unseen=_UNSEEN,
    )


def forgotten_unit(seed: int) -> Trial:
    """A sum with noise for one row, while a patient has three: the rows of a unit were not counted."""
    pair = removed_signs(8, 3)
    removed = Relation.ADD_OR_REMOVE
    row = Laplace(scale=1.0, quantity=RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=removed))
    noise = SimulatedNoise(seed)
    return trial_of(
        "sum, three rows of a unit charged as one",
        pair,
        lambda side, size: pair[side].sum() + noise.discrete_laplace(row.scale, size),
        claims=claims(row, delta=0.0, relation=removed),
        noise=noise,
        samples=4_000,
        relation=removed,
        unseen=_UNSEEN,
    )


def redrawn_answer(seed: int) -> Trial:
    """The same request is answered with fresh noise each time: the answers average out."""
    noise = PrefetchedNoise(SimulatedNoise(seed))
    observe = repeated_answers(lambda side: NoisySum(PAIR[side], noise), times=8)
    return sum_trial("sum, repeated request redrawn", Channel.REPEATED, observe, noise, samples=10_000, unseen=_UNSEEN)


class _HastySum(TracedSum):
    """Stops reading at the first negative row, from where on it knows the rest."""

    def read(self, rows: CountedRows) -> int:
        total = 0
        for index in range(len(rows)):
            value = rows[index]
            total += value
            if value < 0:
                return total + (len(rows) - index - 1)
        return total


def early_exit(seed: int) -> Trial:
    """The answer is the sound one, but how long it takes depends on the rows."""
    noise = PrefetchedNoise(SimulatedNoise(seed))
    observe = draws(lambda side: _HastySum(PAIR[side], noise).answer(0))
    return sum_trial(
        "sum, early exit that depends on data", Channel.TRACE, observe, noise, samples=4_000, unseen=_UNSEEN
    )


def floating_point_laplace(seed: int) -> Trial:
    """Laplace noise as textbooks draw it; the event is which doubles can be reached (Mironov 2012)."""
    coins = np.random.default_rng(seed)
    values = [float(PAIR[side].sum()) for side in (0, 1)]
    return sum_trial(
        "sum, textbook floating-point Laplace",
        Channel.OUTPUT,
        lambda side, size: textbook_laplace(values[side], EVENT.scale, size, coins),
        SimulatedNoise(seed),
        samples=20_000,
        unseen=_UNSEEN,
        score=reachability(values[0], values[1], EVENT.scale),
    )


def seeded_noise(seed: int) -> Trial:
    """Noise from a fixed seed: whoever sees it start a second time has seen the noise before."""
    observe = restarted_answers(lambda side: NoisySum(PAIR[side], SimulatedNoise(seed)))
    return sum_trial(
        "sum, seeded noise", Channel.RESTARTED, observe, SimulatedNoise(seed), samples=2_000, unseen=_UNSEEN
    )


# Broken auctions: the paper's, and two tempting improvements of the threshold auction.

_AUCTION_UNSEEN = "what a coalition hears"


def paper_auction(seed: int) -> Trial:
    """The paper's auction, one round: rank 1 is always asked, so not to be asked proves a better rival."""
    owners, epsilon, delta = 5, 1.0, 1e-5
    plan = auction.plan_paper(
        owners,
        epsilon=auction_epsilon(owners=owners, epsilon=epsilon, delta=delta),
        patience=auction_patience(owners),
        rounds=1,
        accept_unproven={auction.PAPER_AUCTION},
    )
    pair = owner_is_overtaken(owners, rank=1)
    noise = SimulatedNoise(seed)
    return trial_of(
        "paper's auction, one round",
        pair,
        draws(lambda side: auction.run(plan, pair[side], noise).value[:1]),
        claims=(Claim(epsilon, delta),),
        noise=noise,
        samples=40_000,
        relation=Relation.REPLACE_ONE,
        unseen=_AUCTION_UNSEEN,
    )


def redrawn_threshold(seed: int) -> Trial:
    """The threshold is drawn again until enough owners are asked: then the highest ranks always are."""
    plan = _threshold_plan()
    pair = owner_is_overtaken(plan.owners, rank=plan.offset)
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
    pair = owner_is_overtaken(plan.owners, rank=plan.offset)
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
        unseen=_AUCTION_UNSEEN,
    )


def kept_by_block(seed: int) -> Trial:
    """A few rows of each id *of a block* are kept: who has rows in several blocks has several times as many."""

    def by_block(table: Table, keep: int) -> NDArray[np.int64]:
        parts = range(0, len(table.ids), KEEP_BLOCK)
        kept = [
            kept_rows(Table(table.ids[part : part + KEEP_BLOCK], table.signs[part : part + KEEP_BLOCK]), keep)
            for part in parts
        ]
        return np.concatenate([part + rows for part, rows in zip(parts, kept, strict=True)])

    noise, relation = SimulatedNoise(seed), Relation.REPLACE_ONE
    return kept_trial("sum of kept rows, kept block by block", by_block, noise, relation, keep=2, samples=4_000)


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
    return kept_trial("sum of kept rows, drawn by place", by_place, noise, relation, keep=1, samples=4_000)


BROKEN: tuple[Callable[[int], Trial], ...] = (
    halved_noise,
    halved_coordinate,
    wrong_relation,
    forgotten_rows,
    selection_as_sum,
    reused_noise,
    sign_of_product,
    parity,
    late_variance,
    raw_mean,
    raw_mean_of_two_hundred,
    doubled_rate,
    forgotten_unit,
    kept_by_block,
    kept_by_place,
    redrawn_answer,
    early_exit,
    floating_point_laplace,
    seeded_noise,
    paper_auction,
    redrawn_threshold,
    revealed_count,
)
"""One builder for each member of the set; it takes the seed of the simulated noise."""


def broken_trials(seed: int | None = None) -> list[Trial]:
    """The whole set.

    Args:
        seed: of all noise; a fresh one if not given, so that repeated audits see other coins.
    """
    chosen = fresh_seed() if seed is None else seed
    return [build(chosen) for build in BROKEN]
