"""Matching with weights: pick rows and weight them, so that the weighted rows look like the target.

Each pick is the row that the weighted summary lacks most: the largest ``mean_v k(v, x) - sum_s w_s k(s, x)``, the
steepest descent of the squared MMD. After each pick the weights are fitted anew. (Orthogonal matching pursuit; what
ProtoDash does too.)

All rows are scored by one matrix product per group of picks; within a group picks are made among the best of them
only. Groups grow with the summary, since one pick of many changes little.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular

from likeset import arguments
from likeset.arguments import Rows
from likeset.geometry.greedy import largest_positions
from likeset.geometry.kernels import KernelColumns, PoolKernel, rbf_kernel
from likeset.geometry.weights import JITTER, weights

_GROUP_SHARE = 0.125  # picks in a group, as a share of those made ...
_LARGEST_GROUP = 64  # ... and at most
_FEWEST_ACTIVE = 512  # rows that compete within a group ...
_ACTIVE_PER_PICK = 32  # ... and so many more for each of its picks
_TIE = 1e-7


@dataclass(frozen=True)
class WeightedMatch:
    """Rows selected, in order of selection, and the best weights for them.

    Attributes:
        indices: rows of the pool.
        weights: for each row; none is negative, and they sum to 1.
    """

    indices: NDArray[np.int64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.indices)


def match_weighted(pool: ArrayLike, target: ArrayLike, size: int, *, gamma: float) -> WeightedMatch:
    """Select ``size`` rows of the pool, and weights for them, that together look like the target.

    Args:
        pool: candidate rows; float32 halves the memory and doubles the speed.
        target: rows to match.
        size: number of rows to select. Some may get the weight 0.
        gamma: width of the kernel ``exp(-gamma * ||x - y||²)``.
    """
    rows, wanted = arguments.matrix("pool", pool), arguments.matrix("target", target)
    arguments.same_columns("pool", rows, "target", wanted)
    arguments.count("size", size, most=len(rows), most_is="the number of rows in the pool")
    arguments.positive("gamma", gamma)
    attraction = KernelColumns(wanted, gamma=gamma, dtype=rows.dtype).sums(rows) / len(wanted)
    kernel = PoolKernel(rows, gamma=gamma)
    fit = _Fit(rows, size, gamma)
    while fit.made < size:
        scores = attraction.copy()
        if fit.made:
            scores -= kernel.sums(fit.indices[: fit.made], weights=fit.weights)
            scores[fit.indices[: fit.made]] = -np.inf
        group = min(max(1, int(_GROUP_SHARE * fit.made)), _LARGEST_GROUP, size - fit.made)
        active = largest_positions(scores, min(len(rows) - fit.made, _FEWEST_ACTIVE + _ACTIVE_PER_PICK * group))
        _pick_group(fit, group, rows[active], kernel.subset(active), active, attraction[active])
    return WeightedMatch(fit.indices, weights(rows[fit.indices], wanted, gamma=gamma))


class _Fit:
    """The picks so far and the weights that fit them to the target, updated pick by pick.

    With ``K`` the kernel of the rows that carry weight and ``a`` their attraction, the best weights that sum to 1 are
    ``K⁻¹ (a + c 1)`` for one number c. A pick adds one row to the Cholesky factor of K and one entry each to the
    solutions for a and for 1. Where a weight falls below zero, the weights move only as far as they can, and the row
    at zero carries no weight from then on (Wolfe's algorithm for the nearest point of a polytope).
    """

    def __init__(self, rows: Rows, size: int, gamma: float) -> None:
        self.indices = np.empty(size, dtype=np.int64)
        self.weights = np.empty(0)
        self.made = 0
        self._rows = rows
        self._gamma = gamma
        self._picked = np.empty((size, rows.shape[1]))
        self._kernel = np.empty((size, size))
        self._toward = np.ones((size, 2))  # a and 1
        self._carrying = np.empty(0, dtype=np.int64)  # picks that carry weight
        self._root = np.zeros((size, size))  # L with K = L L'
        self._solved = np.empty((size, 2))  # L⁻¹ a and L⁻¹ 1

    def add(self, index: int, attraction: float) -> None:
        """One more pick."""
        new = self.made
        self.made += 1
        self.indices[new] = index
        self._picked[new] = self._rows[index]
        self._toward[new, 0] = attraction
        similar = rbf_kernel(self._picked[: self.made], self._picked[[new]], gamma=self._gamma)[:, 0]
        self._kernel[new, : self.made] = self._kernel[: self.made, new] = similar
        self._kernel[new, new] = 1.0 + JITTER
        self._extend(new)
        self.weights = np.append(self.weights, 0.0)
        best = self._affine()
        while best.min() < 0.0:
            self._retreat(best)
            best = self._affine()
        self.weights[:] = 0.0
        self.weights[self._carrying] = best

    def similar_to(self, rows: Rows) -> Rows:
        """The kernel between some rows and the picks."""
        return KernelColumns(self._picked[: self.made], gamma=self._gamma, dtype=rows.dtype)(rows)

    def _extend(self, new: int) -> None:
        """Let a pick carry weight: one more row of L."""
        carrying, number = self._carrying, len(self._carrying)
        shadow = self._kernel[carrying, new]
        if number:
            shadow = solve_triangular(self._root[:number, :number], shadow, lower=True, check_finite=False)
        self._root[number, :number] = shadow
        self._root[number, number] = np.sqrt(max(self._kernel[new, new] - float(shadow @ shadow), JITTER))
        self._solved[number] = (self._toward[new] - shadow @ self._solved[:number]) / self._root[number, number]
        self._carrying = np.append(carrying, new)

    def _affine(self) -> NDArray[np.float64]:
        """The best weights of the carrying rows that sum to 1, of either sign."""
        number = len(self._carrying)
        root, solved = self._root[:number, :number], self._solved[:number]
        toward, level = solve_triangular(root, solved, trans="T", lower=True, check_finite=False).T
        best: NDArray[np.float64] = toward + (1.0 - toward.sum()) / level.sum() * level
        return best

    def _retreat(self, best: NDArray[np.float64]) -> None:
        """Go toward weights, some of them negative, until the first is zero, and drop its row."""
        present = self.weights[self._carrying]
        falling = np.flatnonzero(best < 0.0)
        steps = present[falling] / (present[falling] - best[falling])
        first = falling[np.argmin(steps)]
        moved = present + steps.min() * (best - present)
        moved[first] = 0.0
        self.weights[self._carrying] = np.maximum(moved, 0.0)
        kept = np.delete(self._carrying, first)
        number = len(kept)
        self._carrying = kept
        self._root[:number, :number] = cholesky(self._kernel[np.ix_(kept, kept)], lower=True, check_finite=False)
        self._solved[:number] = solve_triangular(
            self._root[:number, :number], self._toward[kept], lower=True, check_finite=False
        )


def _pick_group(
    fit: _Fit, group: int, rows: Rows, kernel: PoolKernel, active: NDArray[np.int64], attraction: NDArray[np.float64]
) -> None:
    """Make some picks among active rows only; ``rows``, ``kernel`` and ``attraction`` are theirs."""
    before = fit.made
    similar = np.empty((before + group, len(active)))
    free = np.ones(len(active), dtype=bool)
    if before:
        similar[:before] = fit.similar_to(rows).T
    for _ in range(group):
        scores = np.where(free, attraction - fit.weights @ similar[: fit.made], -np.inf)
        best = int(np.argmax(scores >= scores.max() - _TIE))
        free[best] = False
        similar[fit.made] = kernel.row(best)
        fit.add(int(active[best]), float(attraction[best]))
