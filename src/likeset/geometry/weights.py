"""Weights for selected rows that bring their weighted mean as close to the target as it gets."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.geometry.kernels import KernelColumns, rbf_kernel

JITTER = 1e-9
"""Added to the kernel's diagonal: equal rows make it singular; the squared MMD changes by at most this much."""


def weights(selected: ArrayLike, target: ArrayLike, *, gamma: float) -> NDArray[np.float64]:
    """Non-negative weights, summing to 1, that minimise the squared MMD to the target (what ProtoDash optimises).

    With ``K = R'R`` the kernel of the selected rows and ``a`` their mean kernel with the target, the squared MMD of
    weights w is ``||R w - b||²`` plus a constant, ``b = R'⁻¹ a``. Since the weights sum to 1 this is ``||C w||²`` with
    ``C = R - b 1'``: the point of a convex hull nearest to the origin. It is found exactly by non-negative least
    squares on ``||C y||² + t² (1'y - 1)²``: writing ``y = s w``, the best s leaves ``t² r / (t² + r)`` with
    ``r = ||C w||²``, which grows with r, so the best y is a multiple of the best w for every t > 0.

    Args:
        selected: rows to weigh.
        target: rows to match.
        gamma: width of the kernel.
    """
    from scipy.linalg import solve_triangular  # late: loading it takes longer than most matches
    from scipy.optimize import nnls

    rows, wanted = arguments.matrix("selected", selected), arguments.matrix("target", target)
    arguments.same_columns("selected", rows, "target", wanted)
    rows = rows.astype(np.float64)
    kernel = rbf_kernel(rows, rows, gamma=gamma)
    attraction = KernelColumns(wanted, gamma=gamma, dtype=np.dtype(np.float64)).means(rows)
    root = np.linalg.cholesky(kernel + JITTER * np.eye(len(rows)), upper=True)
    hull = root - solve_triangular(root, attraction, trans="T")[:, None]
    # t at the size of ||C w|| for equal weights keeps the two parts of the sum comparable, hence well conditioned.
    balance = max(float(np.linalg.norm(hull.mean(axis=1))), 1e-6)
    system = np.vstack([hull, np.full(len(rows), balance)])
    solution, _ = nnls(system, np.append(np.zeros(len(rows)), balance))
    return np.asarray(solution / solution.sum())
