"""Private choice of a kernel's width: about the median squared distance between rows of the target.

Owners see the kernel of the target's release, so its width must not be read off the target for free. It is chosen
from a public grid by a noisy choice whose score is how evenly a candidate splits the distances of disjoint pairs of
rows: a row is in one pair, so it moves every score by one pair's worth at most.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.arguments import count, matrix, positive
from likeset.errors import InvalidArgument
from likeset.privacy.events import ExponentialChoice, PairSplit, PrivacyUnit, Relation, Release
from likeset.privacy.noise import Noise, make_release, random_order

_HALVINGS = range(-20, 7)  # in half powers of two


def grid(columns: int) -> tuple[float, ...]:
    """Candidate squared distances for rows with columns on a common scale of about 1: a thousandth to eight each."""
    return tuple(float(columns * 2.0 ** (power / 2.0)) for power in _HALVINGS)


@dataclass(frozen=True, slots=True)
class WidthPlan:
    """What will be chosen: one of ``grid(columns)``, with probability proportional to ``exp(rate * score)``.

    Under replace-one only: adding a row would pair all others anew.
    """

    size: int
    unit: PrivacyUnit
    rate: float
    relation: Relation

    def __post_init__(self) -> None:
        count("size", self.size, least=2)
        positive("rate", self.rate)
        if self.relation is not Relation.REPLACE_ONE:
            raise InvalidArgument("relation", self.relation, "must be replace-one: give the kernel's width otherwise")
        _ = self.event

    @property
    def event(self) -> ExponentialChoice:
        """What it is, for the accountant: a replaced row moves one pair across a candidate, hence a score by 2."""
        return ExponentialChoice(rate=self.rate, quantity=PairSplit(self.unit))


def plan(*, size: int, unit: PrivacyUnit, rho: float, relation: Relation) -> WidthPlan:
    """Plan a choice that costs ``rho`` in zero-concentrated privacy (it has the bounded-range property)."""
    rate = float(np.sqrt(2.0 * positive("rho", rho))) / PairSplit(unit).sensitivity
    return WidthPlan(size=size, unit=unit, rate=rate, relation=relation)


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
    below = np.searchsorted(np.sort(distances), candidates, side="right")
    scores: NDArray[np.int64] = -np.abs(2 * below - pairs).astype(np.int64)
    return make_release(candidates[noise.exponential_choice(scores, plan.rate)], plan.event, noise)
