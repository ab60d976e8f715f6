"""The exact worst case of many adaptively chosen bounded-range mechanisms, bounded from above on a grid.

A choice by the exponential mechanism has a privacy loss in a window of known width, and the worst mechanism
of that width has only two outcomes: loss t or t - width, for some t that may depend on everything seen
before. Let ``V_k(x)`` be the largest delta at epsilon = x that k such mechanisms can have. Then

    V_0(x) = max(0, 1 - e^x)        V_k(x) = max over t of  p_t V_(k-1)(x - t) + (1 - p_t) V_(k-1)(x - t +
    width)

with p_t = (1 - e^(t - width)) / (1 - e^-width). The recursion is carried out on a grid, always rounding up;
what it gives is a proven bound, about a tenth tighter than the one by Rényi divergences. Purely private steps
are added by randomised response, which is their worst case. Proof: docs/proofs/accounting.md, "Bounded range,
exactly".
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["advantage", "epsilon_at"]

_CELLS = 12  # grid steps per window; the bound loses about 1/(2 * _CELLS²) of epsilon to the grid
_MOST_WORK = 4e8  # grid updates: some seconds

Vector = NDArray[np.float64]


def epsilon_at(delta: float, *, width: float, times: int, pure: tuple[tuple[float, int], ...], reach: float) -> float:
    """An upper bound on epsilon at ``delta``; infinite if the computation would take too long.

    Args:
        delta: at which epsilon is wanted.
        width: of the windows of the bounded-range mechanisms.
        times: how many of them there are.
        pure: epsilons of purely private mechanisms, and how many of each.
        reach: where to stop looking: any upper bound on epsilon at a much smaller delta.
    """
    step = width / _CELLS
    size = math.ceil(reach / step) + _CELLS
    if size * (_CELLS * times + sum(count for _, count in pure)) > _MOST_WORK:
        return math.inf
    below = np.flatnonzero(_bound(width, times, pure, 0.0, size) <= delta)
    return step * float(below[0]) if len(below) else math.inf


def advantage(*, width: float, times: int, pure: tuple[tuple[float, int], ...], shift: float) -> float:
    """An upper bound on delta at epsilon 0, with Gaussian noise too; 1 if the computation would take too long.

    Args:
        width: of the windows of the bounded-range mechanisms.
        times: how many of them there are.
        pure: epsilons of purely private mechanisms, and how many of each.
        shift: sensitivity over sigma of all Gaussian steps together; 0 without any.
    """
    steps = times + sum(count for _, count in pure)
    # No loss of the discrete steps lies beyond their sum, and hardly any beyond ten standard deviations.
    spread = math.sqrt(times * width**2 / 4.0 + sum(count * epsilon**2 for epsilon, count in pure))
    reach = min(times * width + sum(count * epsilon for epsilon, count in pure), 10.0 * spread)
    size = math.ceil(_CELLS * reach / width) + _CELLS
    if size * _CELLS * steps > _MOST_WORK:
        return 1.0
    return float(_bound(width, times, pure, shift, size)[0])


@lru_cache(maxsize=32)
def _bound(width: float, times: int, pure: tuple[tuple[float, int], ...], shift: float, size: int) -> Vector:
    """The largest delta at each point of the grid."""
    step = width / _CELLS
    grid: Vector = step * np.arange(size, dtype=np.float64)
    bound = _gaussian_profile(grid, shift) if shift else np.zeros(size)  # V_0(x) = max(0, 1 - e^x) for x >= 0
    for _ in range(times):
        bound = _worst_choice(bound, step)
    for epsilon, count in pure:
        keep = 1.0 / (1.0 + math.exp(-epsilon))
        for _ in range(count):
            lower, upper = (
                _between_grid_points(bound, grid - epsilon, step),
                _between_grid_points(bound, grid + epsilon, step),
            )
            bound = keep * lower + (1.0 - keep) * upper
    return bound


def _gaussian_profile(epsilon: Vector, shift: float) -> Vector:
    from scipy.special import ndtr

    far = ndtr(-shift / 2.0 - epsilon / shift)
    profile: Vector = ndtr(shift / 2.0 - epsilon / shift) - np.exp(np.minimum(epsilon, 700.0)) * far
    return np.maximum(profile, 0.0)


def _worst_choice(bound: Vector, step: float) -> Vector:
    """One step of the recursion, rounded up between grid points."""
    width = _CELLS * step
    # Values at x - width ... x + width for every x: place i of ``wide`` is grid point i - _CELLS.
    wide = _at_grid_points(bound, np.arange(-_CELLS, len(bound) + _CELLS), step)
    size = len(bound)
    worst = np.zeros(size)
    bulge = np.zeros(size)
    slope = -math.expm1(-step)
    # Where the line through two neighbouring values, drawn over e^x, meets e^x = 0.
    intercepts = wide[1:] - np.diff(wide) / slope
    for cell in range(_CELLS + 1):
        t = cell * step
        chance = math.expm1(t - width) / math.expm1(-width)
        low, high = _CELLS - cell, 2 * _CELLS - cell  # places of x - t and of x - t + width
        np.maximum(worst, chance * wide[low : low + size] + (1.0 - chance) * wide[high : high + size], out=worst)
        if cell < _CELLS:
            # For t inside this cell the value is a + b u + c/u in u = e^-(t - cell * step): above both ends
            # of the cell by at most max(0, -c) * (e^(step/2) - 1)².
            rate = math.exp(t - width) / -math.expm1(-width)
            drop = intercepts[low - 1 : low - 1 + size] - intercepts[high - 1 : high - 1 + size]
            np.maximum(bulge, rate * drop, out=bulge)
    raised: Vector = np.minimum(1.0, worst + bulge * math.expm1(step / 2.0) ** 2)
    return raised


def _at_grid_points(bound: Vector, indices: NDArray[np.int64], step: float) -> Vector:
    """Values at grid points, also beyond the ends of the grid.

    Above the grid the last value is an upper bound, because delta falls with epsilon. Below zero the two
    directions of a symmetric family are tied: V(-x) = 1 - e^-x + e^-x V(x).
    """
    mirrored = bound[np.minimum(np.abs(indices), len(bound) - 1)]
    shrink = np.exp(np.minimum(indices, 0) * step)
    values: Vector = np.where(indices < 0, 1.0 - shrink + shrink * mirrored, mirrored)
    return values


def _between_grid_points(bound: Vector, points: Vector, step: float) -> Vector:
    """Upper bounds between grid points: delta is convex in e^epsilon, so a line over e^x lies above it."""
    indices = np.floor(points / step + 1e-9)
    inside = np.clip(points / step - indices, 0.0, 1.0)
    share = np.expm1(inside * step) / math.expm1(step)
    low = _at_grid_points(bound, indices.astype(np.int64), step)
    high = _at_grid_points(bound, indices.astype(np.int64) + 1, step)
    values: Vector = (1.0 - share) * low + share * high
    return values
