"""Private mean of unit-norm feature rows: discrete Gaussian noise on an integer sum.

Floating-point noise on floating-point sums is not what a proof speaks of, so nothing here depends on
rounding: each row is truncated toward zero onto a lattice of spacing ``SPACING``, its integer norm is
checked, and integers are summed and noised.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.arguments import Rows, count, matrix
from likeset.errors import InvalidArgument
from likeset.privacy.accounting import gaussian_sigma
from likeset.privacy.events import Gaussian, Norm, PrivacyUnit, Relation, Release, RowSum, SelectionSum
from likeset.privacy.noise import Integers, Noise, make_release

_STEPS = 2**30  # lattice steps per unit: squares of a row's coordinates still add up within 64 bits
SPACING = 1.0 / _STEPS
"""Distance between neighbouring lattice points: far below any useful noise."""

# A row of float32 features misses the unit sphere by about 1e-7: it is scaled back. Further out is a mistake.
_TOLERANCE = 1e-4
_MOST_ROWS = 2**31
_BLOCK = 16384


@dataclass(frozen=True, slots=True)
class GaussianPlan:
    """What will be released: a mean over ``size`` rows with noise of scale ``sigma`` on each coordinate of the sum.

    ``size`` is the public number of rows (replace-one) or the declared one (add-or-remove): the divisor. So
    ``sigma / size`` is the standard deviation of the noise on each coordinate of the mean.
    """

    quantity: RowSum | SelectionSum
    size: int
    dimension: int
    sigma: float

    def __post_init__(self) -> None:
        count("size", self.size, most=_MOST_ROWS, most_is="so that sums stay within 64 bits")
        if self.quantity.radius != 1.0:
            raise InvalidArgument("quantity", self.quantity, "must be a sum of rows of norm at most 1")
        if self.sigma > 2.0**20:
            raise InvalidArgument("sigma", self.sigma, "must be at most 2^20, so that sums stay within 64 bits")
        _ = self.event

    @property
    def relation(self) -> Relation:
        return self.quantity.relation

    @property
    def event(self) -> Gaussian:
        return Gaussian(sigma=self.sigma, quantity=self.quantity, coordinates=self.dimension, spacing=SPACING)


def unit_rows(unit: PrivacyUnit, relation: Relation) -> RowSum:
    return RowSum(norm=Norm.EUCLIDEAN, radius=1.0, unit=unit, relation=relation)


def selected_unit_rows(unit: PrivacyUnit, relation: Relation) -> SelectionSum:
    return SelectionSum(norm=Norm.EUCLIDEAN, radius=1.0, unit=unit, relation=relation)


def plan(quantity: RowSum | SelectionSum, *, size: int, dimension: int, epsilon: float, delta: float) -> GaussianPlan:
    """The least noise that (epsilon, delta) allows; ``delta`` is above zero."""
    sigma = gaussian_sigma(
        quantity,
        coordinates=count("dimension", dimension),
        spacing=SPACING,
        epsilon=epsilon,
        delta=delta,
    )
    return GaussianPlan(quantity=quantity, size=size, dimension=dimension, sigma=sigma)


def run(plan: GaussianPlan, features: ArrayLike, noise: Noise) -> Release[NDArray[np.float64]]:
    """The noisy mean of the rows, each of unit norm: the ``paired`` feature map.

    The paper's own features reach norm sqrt(2) and are refused. A refusal releases nothing, but depends on a row: do
    not report it to another party.

    Privacy contract:
        Protects:  one unit's rows in ``features``, under ``plan.relation``.
        Reveals:   the returned mean and nothing else.
        Costs:     ``plan.event``, fixed before data are read.
        Assumes:   rows have norm at most 1 (checked on integers); a unit has at most ``plan.quantity.rows`` rows.
        Basis:     proven, docs/proofs/gaussian-mean.md
    """
    rows = planned_rows(features, size=plan.size, dimension=plan.dimension, relation=plan.relation)
    if len(rows) > _MOST_ROWS:
        raise InvalidArgument("features", "too many rows", f"must have at most {_MOST_ROWS} rows")
    total = np.zeros(plan.dimension, dtype=np.int64)
    for first in range(0, len(rows), _BLOCK):
        total += _on_lattice(rows[first : first + _BLOCK], first).sum(axis=0)
    noisy = total + noise.discrete_gaussian(plan.sigma * _STEPS, plan.dimension)
    return make_release(noisy.astype(np.float64) / (float(_STEPS) * plan.size), plan.event, noise)


def planned_rows(features: ArrayLike, *, size: int, dimension: int, relation: Relation) -> Rows:
    """Features of the planned shape; under add-or-remove the number of rows is protected, and never told."""
    fixed_size = relation is Relation.REPLACE_ONE
    rows = matrix("features", features, allow_empty=not fixed_size)
    if rows.shape[1] != dimension:
        raise InvalidArgument("features", f"{rows.shape[1]} columns", f"must have {dimension} columns, as planned")
    if fixed_size and len(rows) != size:
        raise InvalidArgument("features", f"{len(rows)} rows", f"must have {size} rows, as planned")
    return rows


def _on_lattice(rows: Rows, first: int) -> Integers:
    """Rows as lattice points of norm at most 1, each a function of itself alone."""
    wide = rows.astype(np.float64)
    with np.errstate(over="ignore"):  # an infinite norm is too long, which is all that matters
        norms = np.linalg.norm(wide, axis=1)
    long = np.flatnonzero(norms > 1.0 + _TOLERANCE)
    if len(long):
        raise InvalidArgument(
            "features",
            f"array with {rows.shape[1]} columns",
            f"row {first + int(long[0])} is longer than 1; use the paired feature map",
        )
    points: Integers = np.trunc(wide / np.maximum(norms, 1.0)[:, None] * _STEPS).astype(np.int64)
    # Division can leave a row a hair outside; one more step toward zero on each coordinate brings it in.
    outside = (points**2).sum(axis=1) > _STEPS**2
    points[outside] -= np.sign(points[outside])
    if ((points**2).sum(axis=1) > _STEPS**2).any():
        raise AssertionError("a truncated row is longer than 1")
    return points
