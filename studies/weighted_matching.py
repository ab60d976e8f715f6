"""Matching with weights: pick rows and weight them, so that the weighted rows look like the target.

Each pick is the row that the weighted summary lacks most: the largest ``mean_v k(v, x) - sum_s w_s k(s, x)``, the
steepest descent of the squared MMD. Then the weights are fitted anew. (Orthogonal matching pursuit; what ProtoDash
does too.) Beyond 64 picks they are fitted after every sixteenth part of the picks; in between a pick gets its even
share, as in herding.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.geometry.kernels import KernelColumns, PoolKernel
from likeset.geometry.weights import weights

_EACH_FITTED = 64
_PART = 16


@dataclass(frozen=True)
class WeightedMatch:
    """Rows of the pool in order of selection, and the best weights for them: none is negative, and they sum to 1."""

    indices: NDArray[np.int64]
    weights: NDArray[np.float64]


def match_weighted(pool: ArrayLike, target: ArrayLike, size: int, *, gamma: float) -> WeightedMatch:
    """Select ``size`` rows of the pool, and weights for them, some perhaps 0, that together look like the target."""
    rows, wanted = arguments.matrix("pool", pool), arguments.matrix("target", target)
    arguments.same_columns("pool", rows, "target", wanted)
    arguments.count("size", size, most=len(rows), most_is="the number of rows in the pool")
    attraction = KernelColumns(wanted, gamma=gamma, dtype=rows.dtype).sums(rows) / len(wanted)
    kernel, picks, fitted = PoolKernel(rows, gamma=gamma), np.empty(0, dtype=np.int64), 0
    repulsion = np.zeros(len(rows))
    while len(picks) < size:
        scores = attraction - repulsion
        scores[picks] = -np.inf
        picks = np.append(picks, np.argmax(scores))
        if len(picks) <= _EACH_FITTED or (len(picks) - fitted) * _PART >= len(picks):
            fitted = len(picks)
            columns = KernelColumns(rows[picks], gamma=gamma, dtype=rows.dtype)
            repulsion = columns.sums(rows, weights=weights(rows[picks], wanted, gamma=gamma))
        else:
            repulsion += (kernel.row(int(picks[-1]), scores) - repulsion) / len(picks)
    return WeightedMatch(picks, weights(rows[picks], wanted, gamma=gamma))
