"""Private choice of a kernel's width: about the median squared distance between rows of the target.

Owners see the kernel of the target's release, so its width must not be read off the target for free. It is chosen
from a public grid by a noisy choice whose score is the number of disjoint pairs of rows with a squared distance near
the candidate: a row is in one pair, so it moves a score by one at most.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.arguments import count, matrix, positive
from likeset.errors import InvalidArgument
from likeset.privacy.events import ExponentialChoice, NearPairs, PrivacyUnit, Relation, Release
from likeset.privacy.noise import Noise, make_release, random_order

_POWERS = range(-11, 4, 2)  # of two: candidates are a factor of 4 apart
_NEAR = 4.0  # a squared distance is near a candidate within this factor

LARGEST_FAILURE = 0.05
"""Probability of a choice far from the median distance above which a public width is recommended."""

_OFFSETS = 9  # places of the median between two candidates
_LARGEST_RATE = 0.5
_TINY = 1e-300
_MEDIANS = (0.4549364231195724, 2.0 * math.log(2.0), 2.3659738843753377)  # chi-squared, by degrees of freedom less 1
_COLUMNS = len(_MEDIANS)  # distances vary less with more


def grid(columns: int) -> tuple[float, ...]:
    """Candidate squared distances for rows with columns on a common scale of about 1: up to eight for each column."""
    return tuple(float(columns * 2.0**power) for power in _POWERS)


@lru_cache(maxsize=256)
def failure_bound(size: int, rate: float, columns: int = _COLUMNS) -> float:
    """Bound on the probability that the chosen squared distance is more than 8 times off the median squared distance.

    Assumes ``size`` independent rows whose distances vary as much as those of independent normal columns, at most three
    of them, and a median between a thousandth of and four times their number (docs/proofs/width-choice.md).
    """
    freedom = min(columns, _COLUMNS)
    pairs, number, used = size // 2, len(_POWERS), min(rate, _LARGEST_RATE)
    near = np.eye(number, number + 1) + np.eye(number, number + 1, k=1)  # candidates, by factors of 4 of the distance
    largest = 0.0
    for place in range(1, number - 1):
        far = np.abs(np.arange(number) - place) > 1
        for offset in np.linspace(-0.5, 0.5, _OFFSETS):
            edges = _MEDIANS[freedom - 1] * 4.0 ** (offset + np.arange(-1, number + 1) - place)
            shares = np.diff([_below(edge, freedom) for edge in edges])
            scores = near @ shares
            weights = np.exp(used * pairs * (scores - scores.max()))
            weights /= weights.sum()
            entropy = -float(weights @ np.log(np.maximum(weights, _TINY)))
            means = np.exp(used * (near[far] - weights @ near)) @ shares + 1.0 - shares.sum()
            largest = max(largest, float((means**pairs).sum()) * math.exp(-entropy * used / rate))
    return min(1.0, largest)


def _below(squared: float, freedom: int) -> float:
    """The chi-squared distribution with one, two or three degrees of freedom."""
    if freedom == 2:
        return -math.expm1(-squared / 2.0)
    tail = math.sqrt(2.0 * squared / math.pi) * math.exp(-squared / 2.0) if freedom == 3 else 0.0
    return math.erf(math.sqrt(squared / 2.0)) - tail


@dataclass(frozen=True, slots=True)
class WidthPlan:
    """What will be chosen: one of ``grid(columns)``, with probability proportional to ``exp(rate * score)``.

    Under replace-one only: adding a row would pair all others anew.
    """

    size: int
    unit: PrivacyUnit
    rate: float
    relation: Relation
    columns: int = _COLUMNS  # of the rows; the bound alone depends on them

    def __post_init__(self) -> None:
        count("size", self.size, least=2)
        count("columns", self.columns)
        positive("rate", self.rate)
        if self.relation is not Relation.REPLACE_ONE:
            raise InvalidArgument("relation", self.relation, "must be replace-one: give the kernel's width otherwise")
        _ = self.event

    @property
    def event(self) -> ExponentialChoice:
        """The event for the accountant: a replaced row changes one pair, hence each score by at most 1."""
        return ExponentialChoice(rate=self.rate, quantity=NearPairs(self.unit))

    @property
    def failure_bound(self) -> float:
        return failure_bound(self.size, self.rate, self.columns)


def near_pairs(distances: NDArray[np.float64], candidates: ArrayLike) -> NDArray[np.int64]:
    """For each candidate the number of squared distances within a factor of 4 of it."""
    ordered, middle = np.sort(distances), np.asarray(candidates, dtype=np.float64)
    upper = np.searchsorted(ordered, middle * _NEAR, side="right")
    return np.asarray(upper - np.searchsorted(ordered, middle / _NEAR, side="right"), dtype=np.int64)


def plan(*, size: int, unit: PrivacyUnit, rho: float, relation: Relation, columns: int = _COLUMNS) -> WidthPlan:
    """Plan a choice that costs ``rho`` in zero-concentrated privacy (it has the bounded-range property)."""
    rate = float(np.sqrt(2.0 * positive("rho", rho))) / NearPairs(unit).sensitivity
    return WidthPlan(size=size, unit=unit, rate=rate, relation=relation, columns=columns)


def run(plan: WidthPlan, data: ArrayLike, noise: Noise) -> Release[float]:
    """About the median squared distance between two rows; rows are paired at random, whatever their order is.

    Privacy contract:
        Protects:  one unit's rows in ``data``, under replace-one.
        Reveals:   the chosen candidate and, by its running time, a little more (docs/proofs/auditor.md): send what
                   follows from it at a time fixed beforehand.
        Costs:     ``plan.event``, fixed before data are read.
        Assumes:   a unit has at most ``plan.unit.rows`` rows.
        Basis:     proven, docs/proofs/width-choice.md
    """
    rows = matrix("data", data).astype(np.float64)
    if len(rows) != plan.size:
        raise InvalidArgument("data", f"{len(rows)} rows", f"must have {plan.size} rows, as planned")
    rows = rows[random_order(len(rows), noise)]  # in a sorted table a row that is replaced could move all others
    pairs = len(rows) // 2
    distances = ((rows[0 : 2 * pairs : 2] - rows[1 : 2 * pairs : 2]) ** 2).sum(axis=1)
    candidates = grid(rows.shape[1])
    scores: NDArray[np.int64] = near_pairs(distances, candidates)
    return make_release(candidates[noise.exponential_choice(scores, plan.rate)], plan.event, noise)
