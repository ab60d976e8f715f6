"""What a method of a study gets, and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.simulation.market import LabelledMarket

__all__ = ["DELTA", "MethodPicks", "StatedCost", "Task"]

DELTA = 1e-5


@dataclass(frozen=True, eq=False)
class Task:
    """What a method gets.

    Attributes:
        market: owners, target, test rows.
        size: rows wanted.
        gamma: of the selection's kernel.
        offers: rows that each owner offers in ``sealed``.
        epsilon: what owners may learn about the target's rows, for protocols that take a budget.
        seed: of everything that is drawn.
    """

    market: LabelledMarket
    size: int
    gamma: float
    offers: int
    epsilon: float
    seed: int


@dataclass(frozen=True, slots=True)
class StatedCost:
    """What a view costs: epsilon (None where there is no bound) and on whose word."""

    epsilon: float | None
    basis: str


@dataclass(frozen=True, eq=False)
class MethodPicks:
    """What a method selected.

    Attributes:
        indices: rows of the pool, in the order in which they were selected.
        rows_seen: how many rows the curator saw.
        weights: of the rows; None if they count alike.
        target: what owners can learn about a row of the target.
        owners: what owners can learn about a row of another owner.
        notes: what went otherwise than foreseen.
        extra: other plain values worth recording.
    """

    indices: NDArray[np.int64]
    rows_seen: int
    weights: NDArray[np.float64] | None = None
    target: StatedCost = StatedCost(0.0, "nothing is told")
    owners: StatedCost = StatedCost(0.0, "nothing is told")
    notes: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
