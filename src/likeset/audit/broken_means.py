"""Broken means: noise that is too small, reused, or sized for other neighbours than were promised."""

import numpy as np
from numpy.typing import NDArray

from likeset.audit import neighbours
from likeset.audit.batched_runs import batched_draws
from likeset.audit.neighbours import Neighbours, Rows
from likeset.audit.trials import Claim, Observe, Trial, claim_at, trial_of
from likeset.privacy import gaussian_mean
from likeset.privacy.events import ROW, Composition, Event, PrivacyUnit, Relation, RowSum, SelectionSum
from likeset.privacy.noise import Integers, Noise, SimulatedNoise

__all__ = [
    "MEAN_DELTA",
    "forgotten_rows",
    "halved_coordinate",
    "halved_noise",
    "mean_plan",
    "mean_trial",
    "reused_noise",
    "selection_as_sum",
    "wrong_relation",
]

MEAN_DELTA = 0.05
"""Large, because small deltas are decided in tails that few observations reach."""

_PAIR = neighbours.opposite_rows(rows=4, dimension=6)


class _AlteredNoise:
    """Additive noise of another source, after something was done to it."""

    def __init__(self, source: Noise) -> None:
        self.source = source

    @property
    def private(self) -> bool:
        return False

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        return self.source.discrete_laplace(scale, size)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return self.source.discrete_gaussian(sigma, size)

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        return self.source.exponential_choice(scores, rate)

    def bernoulli(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        return self.source.bernoulli(probabilities)

    def rounding(self, fractions: NDArray[np.float64]) -> NDArray[np.bool_]:
        return self.source.rounding(fractions)


class _HalvedNoise(_AlteredNoise):
    """Half the noise that was planned: a factor 2 was lost on the way."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return super().discrete_gaussian(sigma / 2, size)


class _HalvedLastCoordinate(_AlteredNoise):
    """Half the noise in the last coordinate, as from a scale that is kept by coordinate."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        drawn = super().discrete_gaussian(sigma, size)
        drawn[..., -1] //= 2
        return drawn


class _ReplayedNoise(_AlteredNoise):
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
    pair = neighbours.opposite_axis_rows(4, 6, axis=5)
    plan = mean_plan(pair)
    observe = _observe_with(_HalvedLastCoordinate, plan, pair, SimulatedNoise(seed))
    return mean_trial("gaussian mean, noise halved in one coordinate", pair, observe, plan.event)


def wrong_relation(seed: int) -> Trial:
    """The mean release planned for add-or-remove (sensitivity 1) but claimed under replace-one (2)."""
    plan = mean_plan(_PAIR, quantity=gaussian_mean.unit_rows(ROW, Relation.ADD_OR_REMOVE))
    observe = _observe_with(_AlteredNoise, plan, _PAIR, SimulatedNoise(seed))
    return mean_trial("gaussian mean, sensitivity of add-or-remove", _PAIR, observe, mean_plan(_PAIR).event)


def forgotten_rows(seed: int) -> Trial:
    """The mean release with noise for one row to a unit, claimed for units of three."""
    pair = neighbours.opposite_rows(4, 6, 3)
    plan, honest = (
        mean_plan(pair),
        mean_plan(pair, quantity=gaussian_mean.unit_rows(PrivacyUnit(3, ""), Relation.REPLACE_ONE)),
    )
    observe = _observe_with(_AlteredNoise, plan, pair, SimulatedNoise(seed))
    return mean_trial("gaussian mean, rows per unit forgotten", pair, observe, honest.event)


def selection_as_sum(seed: int) -> Trial:
    """Rows selected for the summary, priced as if an added row only added a row: another one gives way to it."""
    removed = Relation.ADD_OR_REMOVE
    plan = mean_plan(_PAIR, quantity=gaussian_mean.unit_rows(ROW, removed))
    honest = mean_plan(_PAIR, quantity=gaussian_mean.selected_unit_rows(ROW, removed))
    observe = _observe_with(_AlteredNoise, plan, _PAIR, SimulatedNoise(seed))
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
    changed: type[_AlteredNoise], plan: gaussian_mean.GaussianPlan, pair: Neighbours[Rows], noise: Noise
) -> Observe:
    return batched_draws(lambda side, drawn: gaussian_mean.run(plan, pair[side], changed(drawn)).value, noise)
