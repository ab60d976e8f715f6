"""Swap refinement: replace selected rows, one at a time, wherever another row of the pool does better."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import KernelColumns, PoolKernel, precise_enough

__all__ = ["swap"]

_GROUP = 16  # selected rows that are reconsidered between two scorings of the whole pool
_ACTIVE_SHARE = 0.125  # share of the pool that stands ready to replace them
_FEWEST_ACTIVE = 4096
_LEAST_GAIN = 1e-7  # a better score by less than rounding is not better


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

    Each selected row in turn is taken out and the best row of an active set put in its place, possibly itself.

    Args:
        pool: candidate rows.
        target: rows to match.
        selected: indices of the rows selected so far, without repetition.
        gamma: width of the kernel.
        passes: how many times to go through the selection; ends early when a pass changes nothing.
        target_weights: what each row of the target counts, summing to 1; alike if not given.

    Returns:
        indices of the improved selection, in the places of those they replace.
    """
    rows, wanted = arguments.matrix("pool", pool), arguments.matrix("target", target)
    arguments.same_columns("pool", rows, "target", wanted)
    chosen = _indices(selected, len(rows))
    arguments.count("passes", passes, least=0)
    rows = precise_enough(rows, gamma=arguments.positive("gamma", gamma), centre=wanted.mean(axis=0, dtype=np.float64))
    shares = None if target_weights is None else arguments.shares("target_weights", target_weights, length=len(wanted))
    attraction = KernelColumns(wanted, gamma=gamma, dtype=rows.dtype).means(rows, weights=shares)
    kernel = PoolKernel(rows, gamma=gamma)
    repulsion = np.zeros(len(rows))
    for first in range(0, len(chosen), 128):
        repulsion += kernel.sums(chosen[first : first + 128])
    for _ in range(passes):
        before = chosen.copy()
        for first in range(0, len(chosen), _GROUP):
            group = slice(first, min(first + _GROUP, len(chosen)))
            removed = chosen[group].copy()
            _swap_group(chosen, group, kernel, attraction, repulsion)
            changed = removed != chosen[group]
            if changed.any():
                repulsion += kernel.sums(chosen[group][changed]) - kernel.sums(removed[changed])
        if np.array_equal(before, chosen):
            break
    return chosen


def _swap_group(
    chosen: NDArray[np.int64],
    group: slice,
    kernel: PoolKernel,
    attraction: NDArray[np.float64],
    repulsion: NDArray[np.float64],
) -> None:
    """Reconsider the selected rows of one group, in place."""
    free = np.ones(len(attraction), dtype=bool)
    free[chosen] = False
    candidates = _best_free(attraction - repulsion / len(chosen), free)
    active = np.union1d(candidates, chosen[group])
    similarity = kernel.subset(active)
    available = free[active]
    own_attraction, own_repulsion = attraction[active], repulsion[active]
    for index in range(group.start, group.stop):
        current = int(np.searchsorted(active, chosen[index]))
        own_repulsion -= similarity.row(current)
        available[current] = True
        # The gain of a row when the other len(chosen) - 1 rows are in place.
        scores = np.where(available, own_attraction - own_repulsion / len(chosen), -np.inf)
        best = int(np.argmax(scores))
        if scores[best] <= scores[current] + _LEAST_GAIN:
            best = current
        available[best] = False
        own_repulsion += similarity.row(best)
        chosen[index] = active[best]


def _best_free(scores: NDArray[np.float64], free: NDArray[np.bool_]) -> NDArray[np.int64]:
    positions = np.flatnonzero(free)
    count = min(len(positions), max(_FEWEST_ACTIVE, int(_ACTIVE_SHARE * len(scores))))
    if count == len(positions):
        return positions
    return positions[np.argpartition(scores[positions], len(positions) - count)[len(positions) - count :]]


def _indices(selected: ArrayLike, pool_rows: int) -> NDArray[np.int64]:
    chosen = arguments.row_numbers("selected", selected)
    if len(chosen) == 0:
        raise InvalidArgument("selected", "no rows", "must list at least one row of the pool")
    if chosen.max() >= pool_rows:
        raise InvalidArgument("selected", int(chosen.max()), f"must lie in 0 to {pool_rows - 1}")
    if len(np.unique(chosen)) != len(chosen):
        raise InvalidArgument("selected", f"{len(chosen)} rows", "names a row twice")
    return chosen
