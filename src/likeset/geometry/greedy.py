"""Greedy matching: pick rows of a pool, one after another, so that together they look like the target.

Each pick maximises the marginal gain ``mean_v k(v, x) - q/(q+1) * mean_s k(s, x)`` over all rows of the pool.
Selections are deterministic for given inputs; equal gains (up to rounding) go to the smaller index.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import KernelColumns, PoolKernel, precise_enough

_TIE = 1e-7
_LEAST_GAIN = 1e-7  # a better score by less than rounding is not better


@dataclass(frozen=True)
class Match:
    """Rows selected, in order of selection.

    Attributes:
        indices: rows of the pool.
        gains: marginal gain of each pick when it was made.
        objectives: the objective J after each pick; the squared MMD is the target's own mean kernel less this.
    """

    indices: NDArray[np.int64]
    gains: NDArray[np.float64]
    objectives: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.indices)


class Similarity(Protocol):
    """Similarity among the rows of a pool."""

    def row(self, position: int, likely: NDArray[np.float64]) -> NDArray[Any]:
        """The similarity of every row to the given one; rows with large ``likely`` may be asked for next."""


def exact_greedy(
    pool: ArrayLike,
    target: ArrayLike,
    size: int,
    *,
    gamma: float,
    target_weights: ArrayLike | None = None,
) -> Match:
    """Select ``size`` rows of the pool that together look like the target, reading all rows: not private.

    Args:
        pool: candidate rows; float32 halves the memory and doubles the speed.
        target: rows to match.
        size: number of rows to select.
        gamma: width of the kernel ``exp(-gamma * ||x - y||²)``.
        target_weights: weight of each row of the target, with sum 1; equal if not given.
    """
    attraction, kernel = _kernels(pool, target, gamma, target_weights, stored_share=0.5)
    arguments.count("size", size, most=len(attraction), most_is="the number of rows in the pool")
    return pick(attraction, kernel, size)


def _kernels(
    pool: ArrayLike,
    target: ArrayLike,
    gamma: float,
    target_weights: ArrayLike | None,
    stored_share: float | None = None,
) -> tuple[NDArray[np.float64], PoolKernel]:
    """The mean kernel of each row of a pool with the target, and the kernel among the pool's rows."""
    rows, wanted = arguments.matrix("pool", pool), arguments.matrix("target", target)
    arguments.same_columns("pool", rows, "target", wanted)
    arguments.positive("gamma", gamma)
    shares = None if target_weights is None else arguments.shares("target_weights", target_weights, length=len(wanted))
    rows = precise_enough(rows, gamma=gamma, centre=wanted.mean(axis=0, dtype=np.float64))
    attraction = KernelColumns(wanted, gamma=gamma, dtype=rows.dtype).means(rows, weights=shares)
    stored_bytes = None if stored_share is None else int(stored_share * rows.nbytes)
    return attraction, PoolKernel(rows, gamma=gamma, stored_bytes=stored_bytes)


def pick(attraction: NDArray[np.float64], kernel: Similarity, size: int) -> Match:
    """Greedy picks, given the mean similarity of each row of the pool to the target."""
    free, repulsion, scores = attraction.copy(), np.zeros(len(attraction)), np.empty(len(attraction))
    indices = np.empty(size, dtype=np.int64)
    repelled, own = np.empty(size), np.empty(size)
    for made in range(size):
        np.multiply(repulsion, -1.0 / (made + 1), out=scores)
        scores += free
        # Rows that are equal up to rounding count as tied: the result must not depend on how a product was blocked.
        best = int(np.argmax(scores >= scores.max() - _TIE))
        similar = kernel.row(best, scores)
        indices[made], repelled[made], own[made] = best, repulsion[best], similar[best]
        free[best] = -np.inf
        repulsion += similar
    number = np.arange(1, size + 1)
    objectives = 2.0 * np.cumsum(attraction[indices]) / number - np.cumsum(2.0 * repelled + own) / number**2
    return Match(indices=indices, gains=attraction[indices] - repelled / number, objectives=objectives)


def swap(
    pool: ArrayLike,
    target: ArrayLike,
    selected: ArrayLike,
    *,
    gamma: float,
    passes: int = 1,
    target_weights: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Improve a selection by swaps; every swap lowers its squared MMD to the target.

    Each selected row in turn is replaced by the best row of the pool, which may be the same row.
    """
    arguments.count("passes", passes, least=0)
    attraction, kernel = _kernels(pool, target, gamma, target_weights)
    return swap_rows(attraction, kernel, _indices(selected, len(attraction)), passes=passes)


def swap_rows(
    attraction: NDArray[np.float64], kernel: Similarity, selected: NDArray[np.int64], *, passes: int
) -> NDArray[np.int64]:
    """Swaps, given the mean similarity of each row of the pool to the target."""
    chosen, share = selected.copy(), -1.0 / len(selected)
    free, repulsion, scores = attraction.copy(), np.zeros(len(attraction)), attraction.copy()
    for row in chosen:
        repulsion += kernel.row(row, scores)
    free[chosen] = -np.inf
    for _ in range(passes):
        before = chosen.copy()
        for place, current in enumerate(before):
            repulsion -= kernel.row(current, scores)
            free[current] = attraction[current]
            # The gain of a row when the other len(chosen) - 1 rows are in place.
            np.multiply(repulsion, share, out=scores)
            scores += free
            best = int(np.argmax(scores))
            if scores[best] <= scores[current] + _LEAST_GAIN:
                best = int(current)
            free[best] = -np.inf
            repulsion += kernel.row(best, scores)
            chosen[place] = best
        if np.array_equal(before, chosen):
            break
    return chosen


def _indices(selected: ArrayLike, pool_rows: int) -> NDArray[np.int64]:
    chosen = arguments.row_numbers("selected", selected)
    if len(chosen) == 0:
        raise InvalidArgument("selected", "no rows", "must list at least one row of the pool")
    if chosen.max() >= pool_rows:
        raise InvalidArgument("selected", int(chosen.max()), f"must lie in 0 to {pool_rows - 1}")
    if len(np.unique(chosen)) != len(chosen):
        raise InvalidArgument("selected", f"{len(chosen)} rows", "names a row twice")
    return chosen
