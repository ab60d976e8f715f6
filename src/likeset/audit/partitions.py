"""Ways to cut the space of observations into finitely many cells; an auditor's event is a set of cells.

Every partition is built from the choosing half of the observations only, and then maps any observation to its
cell.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Observations", "Partition", "Score", "atoms", "atoms_apart", "quantile_edges"]

Observations = NDArray[np.float64]
"""One observation per row."""

Score = Callable[[Observations], Observations]
"""From observations to one or more numbers each."""

_MOST_ATOMS = 512
_REPEATED = 3  # so often must a value come again to be a cell where not every value can be one
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


def atoms(observations: Observations, words: str = "the value observed") -> Partition | None:
    """One cell per distinct observation, or per repeated one if there are too many; the last cell is the rest.

    None if there are too many and none is repeated: no value has a probability of its own that would show.
    """
    values, counts = np.unique(_fingerprints(observations), return_counts=True)
    if len(values) > _MOST_ATOMS:
        repeated = counts >= _REPEATED
        values, counts = values[repeated], counts[repeated]
        values = np.sort(values[np.argsort(-counts, kind="stable")[:_MOST_ATOMS]])
    if len(values) == 0:
        return None

    def cells(rows: Observations) -> NDArray[np.intp]:
        wanted = _fingerprints(rows)
        cell = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
        return np.where(values[cell] == wanted, cell, len(values)).astype(np.intp)

    return Partition(words, len(values) + 1, cells)


def quantile_edges(scored: Observations) -> Observations:
    """Where the intervals begin; a value that is an edge belongs to the interval above it."""
    tails = 0.5 ** np.arange(1, max(2, int(np.log2(max(len(scored) / _TAIL, 2))) + 1))
    levels = np.concatenate([np.arange(1, _EVEN_LEVELS) / _EVEN_LEVELS, tails, 1 - tails])
    ordered = np.sort(scored, kind="stable")  # fast where the parts are in order already
    return np.unique(ordered[np.ceil(levels * len(ordered)).astype(np.intp) - 1])


def atoms_apart(values: Partition, rest: Partition) -> Partition:
    """The cells of ``values``, and those of ``rest`` for what is in the last cell of ``values``.

    A raw value that is sometimes sent and noise that is too small are seen together that way.
    """
    other = values.size - 1

    def cells(rows: Observations) -> NDArray[np.intp]:
        cell = values.cells(rows)
        return np.where(cell < other, cell, other + rest.cells(rows))

    return Partition(f"{rest.words}, repeated values apart", other + rest.size, cells)


def _fingerprints(rows: Observations) -> NDArray[np.uint64]:
    """One number per observation. Should two observations share one, their cell holds both: still an event."""
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # adding zero makes -0.0 and 0.0 the same
    code = np.zeros(len(rows), dtype=np.uint64)
    for column in bits.T:
        code = (code ^ column) * np.uint64(0x9E3779B97F4A7C15)  # wraps around, and is one-to-one in each column
        code ^= code >> np.uint64(29)
    return code
