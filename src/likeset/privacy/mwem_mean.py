"""The paper's Algorithm 2: private mean of features by multiplicative weights (its hash function h_2).

The algorithm keeps a distribution over all grid points of [-1, 1]^d. Each update multiplies it by ``exp(s_i *
c)`` for one coordinate i, so it always is a product of exponentially tilted uniform distributions: one tilt
per coordinate is the whole state (the paper's Lemma 1 needs d/eta numbers), and the mean of a tilted uniform
grid has a closed form.

Sums are counted in grid steps, so they are integers and the noise is integer noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.arguments import count, matrix, one_of, positive
from likeset.errors import InvalidArgument
from likeset.privacy.events import (
    Composition,
    ExponentialChoice,
    Laplace,
    Quantity,
    Relation,
    Release,
    Repeated,
    RowSum,
    SelectionSum,
)
from likeset.privacy.gaussian_mean import planned_rows
from likeset.privacy.noise import Integers, Noise, make_release

Vector = NDArray[np.float64]

_TOLERANCE = 1e-6  # by how much a float32 cosine may miss [-1, 1] before it is a mistake rather than rounding
_SERIES_BELOW = 0.05


SCHEDULES = ("theorem", "proof", "experiment")
CHANGING_SCHEDULES = ("theorem", "proof")
"""Schedules whose releases of the summary differ from round to round, each with a price of its own."""

PAPER_DIMENSION, PAPER_GAMMA = 140, 0.1
"""Of the release's features in the paper's experiments."""


@dataclass(frozen=True, slots=True)
class Steps:
    """One run of Algorithm 2: the paper's T, and its eps of each choice and each measurement."""

    iterations: int
    epsilon: float

    def event(self, quantity: Quantity) -> Repeated:
        choice = ExponentialChoice(rate=self.epsilon, quantity=quantity)
        measurement = Laplace(scale=1.0 / self.epsilon, quantity=quantity)
        return Repeated(Composition((choice, measurement)), self.iterations)


@dataclass(frozen=True, slots=True)
class MwemPlan:
    """What will be released: ``iterations`` noisy choices and measurements, and the mean that they lead to.

    The paper's q, d, eps and T; the grid has step 1/d (eta). Coordinates of a row in ``quantity`` lie within [-1, 1].
    ``accounting.mwem_epsilon`` fits ``epsilon`` to a budget.
    """

    size: int
    dimension: int
    epsilon: float
    iterations: int
    quantity: RowSum | SelectionSum

    def __post_init__(self) -> None:
        count("size", self.size, most=2**31)
        count("dimension", self.dimension, most=2**20)
        count("iterations", self.iterations)
        positive("epsilon", self.epsilon)
        if self.quantity.radius != 1.0:
            raise InvalidArgument("quantity", self.quantity, "must be a sum of rows within [-1, 1]")
        _ = self.event

    @property
    def relation(self) -> Relation:
        return self.quantity.relation

    @property
    def event(self) -> Repeated:
        return Steps(self.iterations, self.epsilon).event(self.quantity)


@dataclass(frozen=True, slots=True)
class State:
    """All that a later call needs of an earlier one: public, because it follows from what was released.

    The tilts of each coordinate's last distribution (the paper's P_T), and the mean as last released, in units of the
    grid.
    """

    tilts: Vector
    mean: Vector

    @classmethod
    def uniform(cls, dimension: int) -> Self:
        return cls(tilts=np.zeros(dimension), mean=np.zeros(dimension))


@dataclass(frozen=True, slots=True)
class MwemMean:
    """A mean released by multiplicative weights, in the features' own units, and where the next call may start."""

    mean: Vector
    state: State


def run(plan: MwemPlan, features: ArrayLike, noise: Noise, *, start: State | None = None) -> Release[MwemMean]:
    """The paper's h_2 of the rows, coordinates within ``sqrt(2/d)`` of zero: the paper's feature map.

    A later call starts from the state that the last one returned. A refusal releases nothing, but depends on a row:
    do not report it to another party.

    Privacy contract:
        Protects:  one unit's rows in ``features``, under ``plan.relation``.
        Reveals:   the chosen coordinates, their noisy sums, and what follows from them: all of ``MwemMean``; and, by
                   how long its choices take, more than that (docs/proofs/auditor.md).
        Costs:     ``plan.event``, fixed before data are read; each call costs it again.
        Assumes:   coordinates within bounds (checked); ``plan.quantity`` holds; the result is sent at a time fixed
                   beforehand.
        Basis:     proven, docs/proofs/mwem-mean.md
    """
    rows = planned_rows(features, size=plan.size, dimension=plan.dimension, relation=plan.relation)
    sums = np.asarray(grid_points(rows, noise).sum(axis=0), dtype=np.int64)
    before = State.uniform(plan.dimension) if start is None else start
    if before.tilts.shape != (plan.dimension,) or before.mean.shape != (plan.dimension,):
        raise InvalidArgument("start", f"state of dimension {len(before.tilts)}", "belongs to another plan")
    after = _iterated(plan, sums, noise, tilts=before.tilts.copy())
    return make_release(MwemMean(math.sqrt(2.0 / plan.dimension) * after.mean, after), plan.event, noise)


def _iterated(plan: MwemPlan, sums: Integers, noise: Noise, *, tilts: Vector) -> State:
    """Algorithm 2 from these tilts, which it changes: the last distribution, and the mean of all."""
    means = grid_mean(tilts, plan.dimension)
    at_start = means.copy()
    # The average is kept as a difference from the start: a coordinate that nobody touched stays exactly the same.
    drift = np.zeros(plan.dimension)
    steps = plan.size * plan.dimension  # a mean of 1 is a sum of this many grid steps
    predicted = np.rint(means * steps).astype(np.int64)
    draws = noise.discrete_laplace(plan.dimension / plan.epsilon, plan.iterations).tolist()
    for left, draw in zip(range(plan.iterations, 0, -1), draws, strict=True):
        # Alg. 2, line 5: the coordinate that is predicted worst, chosen noisily.
        chosen = noise.exponential_choice(np.abs(predicted - sums), plan.epsilon / plan.dimension)
        # Alg. 2, line 6: a noisy sum, and a tilt towards it; everything divided by 2q as there.
        seen = (int(sums[chosen]) + draw) / steps
        tilts[chosen] += (seen - means[chosen]) / 2.0
        moved = _tilted_mean(float(tilts[chosen]), plan.dimension)
        drift[chosen] += left * (moved - means[chosen])  # the new value counts in this iteration and all later ones
        means[chosen] = moved
        predicted[chosen] = round(moved * steps)
    return State(tilts=tilts, mean=at_start + drift / plan.iterations)


def grid_points(features: ArrayLike, noise: Noise) -> Integers:
    """Rows on the grid, in steps of 1/d, without bias (the paper's Quantization, k*eta for its k*eps)."""
    rows = matrix("features", features, allow_empty=True)
    dimension = rows.shape[1]
    scaled = rows.astype(np.float64) * math.sqrt(dimension / 2.0)
    if (np.abs(scaled) > 1.0 + _TOLERANCE).any():
        raise InvalidArgument(
            "features", f"array with {dimension} columns", f"must lie within sqrt(2/{dimension}) of zero"
        )
    inside = np.clip(scaled, -1.0, 1.0) * dimension
    down = np.floor(inside)
    return np.asarray(down + noise.rounding(inside - down), dtype=np.int64)


def grid_mean(tilts: Vector, dimension: int) -> Vector:
    """Mean of the distribution proportional to exp(tilt * s) on the grid {-1, -1 + 1/d, ..., 1}, for each tilt.

    With n = 2d + 1 points of spacing 1/d and x = tilt/d it is (n/2 coth(n x/2) - 1/2 coth(x/2))/d; both poles at
    zero cancel, so each coth is replaced by coth(y) - 1/y, which is smooth there and 1 far out.
    """
    return np.array([_tilted_mean(tilt, dimension) for tilt in tilts.tolist()])


def _tilted_mean(tilt: float, dimension: int) -> float:
    # Plain floats: one number changes in each iteration, and a call into numpy would cost more than it computes.
    points = 2 * dimension + 1
    half = tilt / (2.0 * dimension)
    return (points * _langevin(points * half) - _langevin(half)) / (2.0 * dimension)


def _langevin(y: float) -> float:
    """coth(y) - 1/y, by its series near zero, where the two would cancel."""
    if abs(y) < _SERIES_BELOW:
        square = y * y
        return y / 3.0 * (1.0 - square / 15.0 * (1.0 - 2.0 * square / 21.0 * (1.0 - square / 10.0)))
    return 1.0 / math.tanh(y) - 1.0 / y


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of each release in a run of ``size`` rounds (the paper's p); ``target`` is the one of the target."""

    name: str
    size: int
    target: Steps
    _round: Callable[[int], Steps]

    def summary(self, round_number: int) -> Steps:
        """The release of the summary mean in a round, counted from 1 (the paper's eps_{l,T})."""
        return self._round(count("round_number", round_number, most=self.size, most_is="the size"))


def schedule(name: str, *, dimension: int, size: int, epsilon: float, delta: float) -> Schedule:
    """How many steps of which epsilon each mean release takes, by the paper's name for it.

    ``theorem`` is what its main theorem states, ``proof`` what the appendix computes with, ``experiment`` what
    Section 4 ran, whatever epsilon and delta are promised. They differ, and none of them is a guarantee: the
    accountant prices what a schedule does. ``dimension`` and ``size`` are the paper's d and p.
    """
    one_of("name", name, SCHEDULES)
    count("dimension", dimension)
    count("size", size, least=2)
    positive("epsilon", epsilon)
    if not 0.0 < delta < 1.0 / math.e:
        raise InvalidArgument("delta", delta, "must be above 0 and below 1/e, as in the paper")
    if name == "experiment":
        later = Steps(iterations=5, epsilon=0.01 / math.sqrt(5.0 * size))
        first = Steps(iterations=math.floor(dimension**1.5), epsilon=0.05)
        target = Steps(iterations=first.iterations, epsilon=0.01)
        return Schedule(name, size, target, lambda number: first if number == 1 else later)
    iterations = dimension**2
    factor = 16.0 if name == "theorem" else 36.0
    # The theorem divides by 16 T where the appendix takes the root of it: 1/(16 T) can only be a misprint.
    divisor = 16.0 * iterations if name == "theorem" else math.sqrt(16.0 * iterations)
    shrink = factor * iterations * math.log(1.0 / delta) * math.log(size)
    return Schedule(
        name,
        size,
        Steps(iterations=iterations, epsilon=epsilon / divisor),
        lambda number: Steps(iterations=iterations, epsilon=epsilon / math.sqrt(shrink * number)),
    )
