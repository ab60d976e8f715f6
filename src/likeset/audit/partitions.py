"""Ways to cut the space of observations into finitely many cells; an auditor's event is a set of cells.

Every partition is built from the choosing half of the observations only, and then maps any observation to its
cell.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Observations", "Partition", "Score", "atoms", "quantile_cells"]

Observations = NDArray[np.float64]
"""One observation per row."""

Score = Callable[[Observations], Observations]
"""From observations to one or more numbers each."""

_MOST_ATOMS = 512
_EVEN_LEVELS = 64
_TAIL = 8  # a tail cell holds at least about this many of the observations it was cut from


@dataclass(frozen=True)
class Partition:
    """``size`` cells and the map from observations (one per row) to the numbers of their cells.

    Attributes:
        words: what the cells are cut by.
        size: how many cells there are.
        cells: from observations to cell numbers in 0..size-1.
    """

    words: str
    size: int
    cells: Callable[[Observations], NDArray[np.intp]]


def atoms(observations: Observations) -> Partition | None:
    """One cell per distinct observation and one for everything else; None if there are too many for that."""
    steps: list[tuple[Observations, NDArray[np.int64]]] = []
    code = np.zeros(len(observations), dtype=np.int64)
    # Column by column: number the values, join with the number so far, renumber. Numbers stay small that way.
    for column in observations.T:
        values, place = np.unique(column, return_inverse=True)
        if len(values) > _MOST_ATOMS:
            return None
        joint, code = np.unique(code * len(values) + place, return_inverse=True)
        if len(joint) > _MOST_ATOMS:
            return None
        steps.append((values, joint))
    other = len(steps[-1][1])

    def cells(rows: Observations) -> NDArray[np.intp]:
        number = np.zeros(len(rows), dtype=np.int64)
        known = np.ones(len(rows), dtype=np.bool_)
        for column, (values, joint) in zip(rows.T, steps, strict=True):
            place = _find(values, column)
            known &= place >= 0
            number = _find(joint, number * len(values) + place)
            known &= number >= 0
        return np.where(known, number, other).astype(np.intp)

    return Partition("the value observed", other + 1, cells)


def quantile_cells(observations: Observations, score: Score, words: str) -> Partition:
    """Intervals of a score: even quantiles, and tails cut ever finer, where small deltas are decided."""
    scored = score(observations)
    tails = 0.5 ** np.arange(1, max(2, int(np.log2(max(len(scored) / _TAIL, 2))) + 1))
    levels = np.concatenate([np.arange(1, _EVEN_LEVELS) / _EVEN_LEVELS, tails, 1 - tails])
    edges = np.unique(np.quantile(scored, levels, method="inverted_cdf"))
    return Partition(words, len(edges) + 1, lambda rows: np.searchsorted(edges, score(rows), side="right"))


def _find(table: NDArray[np.generic], wanted: NDArray[np.generic]) -> NDArray[np.int64]:
    """Positions in a sorted table, -1 for what is not in it."""
    place = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    return np.where(table[place] == wanted, place, -1).astype(np.int64)
