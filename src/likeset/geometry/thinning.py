"""Thin candidates down to a few that represent a weighted set of rows well: a sample with less chance in it."""

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.kernels import KernelColumns, rbf_kernel

__all__ = ["thin"]

_GROUP = 3000
"""Candidates that are thinned together: the cost is this times the number of candidates, whatever that number is."""


def thin(
    candidates: Rows, proxies: Rows, weights: NDArray[np.float64], count: int, *, gamma: float
) -> NDArray[np.int64]:
    """Positions of ``count`` candidates whose mean kernel comes close to that of the weighted proxies, greedily.

    Args:
        candidates: rows to choose from; with very many, every so-many-th of them form a group of their own.
        proxies: rows that stand for what the choice should look like.
        weights: of the proxies, summing to 1.
        count: how many to keep; all if there are fewer.
        gamma: width of the kernel.
    """
    if count >= len(candidates):
        return np.arange(len(candidates))
    groups = -(-len(candidates) // _GROUP)
    columns = KernelColumns(proxies, gamma=gamma, dtype=np.dtype(np.float32))
    kept = []
    for group in range(groups):
        positions = np.arange(group, len(candidates), groups)
        share = count // groups + (group < count % groups)
        rows = candidates[positions].astype(np.float32)
        attraction = (columns(rows) @ weights.astype(np.float32)).astype(np.float64)
        kept.append(positions[_greedy(attraction, rbf_kernel(rows, rows, gamma=gamma), share)])
    return np.concatenate(kept)


def _greedy(attraction: NDArray[np.float64], kernel: Rows, count: int) -> NDArray[np.int64]:
    chosen = np.empty(count, dtype=np.int64)
    free = attraction.copy()
    repulsion = np.zeros(len(attraction))
    for made in range(count):
        best = int(np.argmax(free - repulsion / (made + 1)))
        chosen[made] = best
        free[best] = -np.inf
        repulsion += kernel[best]
    return chosen
