"""The same mathematics as `likeset.geometry`, written as slowly and plainly as the definitions."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Rows = NDArray[np.floating[Any]]


def kernel(x: Sequence[float] | Matrix, y: Sequence[float] | Matrix, *, gamma: float) -> float:
    """``exp(-gamma * ||x - y||²)`` of two rows."""
    return math.exp(-gamma * sum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)))


def mean_kernel(a: Matrix, b: Matrix, *, gamma: float) -> float:
    """The mean over all pairs, by a double loop and exact summation."""
    return math.fsum(kernel(x, y, gamma=gamma) for x, y in product(a, b)) / (len(a) * len(b))


def squared_mmd(a: Matrix, b: Matrix, *, gamma: float) -> float:
    """Paper eq. 1."""
    return mean_kernel(a, a, gamma=gamma) + mean_kernel(b, b, gamma=gamma) - 2 * mean_kernel(a, b, gamma=gamma)


def objective(summary: Rows, target: Rows, *, gamma: float) -> float:
    """Paper eq. 2; zero for an empty summary."""
    if not len(summary):
        return 0.0
    own = float(kernel_matrix(summary, summary, gamma=gamma).mean())
    return 2 * float(kernel_matrix(summary, target, gamma=gamma).mean()) - own


def marginal_gain(candidates: Rows, summary: Rows, target: Rows, *, gamma: float) -> Matrix:
    """What each candidate adds to the objective, times (q + 1)/2 and up to a term that is the same for all of them."""
    own = kernel_matrix(candidates, summary, gamma=gamma).sum(axis=1) / (len(summary) + 1)
    return np.asarray(kernel_matrix(candidates, target, gamma=gamma).mean(axis=1) - own)


def kernel_matrix(a: Rows, b: Rows, *, gamma: float) -> Matrix:
    """All pairs by differences, without the expansion of the square that costs digits."""
    differences = np.asarray(a, dtype=np.float64)[:, None, :] - np.asarray(b, dtype=np.float64)[None, :, :]
    return np.asarray(np.exp(-gamma * (differences**2).sum(axis=2)))


def best_by_objective(pool: Matrix, target: Matrix, chosen: list[int], *, gamma: float, tie: float = 1e-7) -> int:
    """The row whose addition gives the largest J, by computing J for each; ties go to the smaller index.

    Gains within ``tie`` are tied, as in ``likeset.geometry.greedy``. The q-th row moves J by 2/q times its gain, and by
    what all rows have in common.
    """
    among, toward = kernel_matrix(pool, pool, gamma=gamma), kernel_matrix(pool, target, gamma=gamma).mean(axis=1)
    values = {}
    for candidate in range(len(pool)):
        if candidate not in chosen:
            rows = [*chosen, candidate]
            values[candidate] = 2 * toward[rows].mean() - among[np.ix_(rows, rows)].mean()
    best = max(values.values())
    return min(candidate for candidate, value in values.items() if value >= best - 2.0 * tie / (len(chosen) + 1))


def greedy(pool: Matrix, target: Matrix, size: int, *, gamma: float) -> list[int]:
    """Brute-force greedy on J."""
    chosen: list[int] = []
    for _ in range(size):
        chosen.append(best_by_objective(pool, target, chosen, gamma=gamma))
    return chosen


def kkt_violation(rows: Matrix, target: Matrix, found: NDArray[np.float64], gamma: float) -> float:
    """How far weights are from optimal: half the gradient is ``K w - a``; no weighted row may be worse than any row.

    For a convex problem on the simplex ``w.g - min g`` (g the gradient) bounds how much better the optimum is.
    """
    kernel = kernel_matrix(rows, rows, gamma=gamma)
    gradient = 2 * (kernel @ found - kernel_matrix(rows, target, gamma=gamma).mean(axis=1))
    return float(found @ gradient - gradient.min())
