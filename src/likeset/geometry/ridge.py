"""Kernel ridge regression from rows to class indicators, each row predicted without itself.

The kernel is projected on the span of at most 500 of the rows (Nyström). With ``U`` the projected rows in the basis of
its eigenvectors, of eigenvalues ``s``, the fitted values are ``U (s + c)⁻¹ U'Y`` for the ridge c. A row's value without
itself is ``y - (y - fitted) / (1 - leverage)``, so no fit is repeated. The ridge with the smallest such errors is used.
"""

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.kernels import KernelColumns, blocks

__all__ = ["ridge_scores"]

_LANDMARKS = 500
_RIDGES = (0.01, 0.1, 1.0, 10.0)  # the kernel of a row with itself is 1
_JITTER = 1e-8  # rows that are nearly equal make a kernel singular

Scores = NDArray[np.float64]


def ridge_scores(rows: Rows, indicators: Scores, others: Rows, *, gamma: float) -> tuple[Scores, Scores]:
    """Fit indicators on rows, and predict them for others.

    Args:
        rows: labelled rows.
        indicators: for each of them 1 in the column of its class, 0 elsewhere.
        others: rows to predict.
        gamma: width of the kernel.

    Returns:
        the scores of the rows, each without itself, and of the others: about 1 in the column of the right class.
    """
    from scipy.linalg import solve_triangular  # late: loading it takes longer than most fits

    means = indicators.mean(axis=0)
    centred = indicators - means
    # By their positions, and so of each owner as many as its part of the rows: they depend on no seed.
    landmarks = rows[np.linspace(0, len(rows) - 1, min(len(rows), _LANDMARKS)).round().astype(np.int64)]
    columns = KernelColumns(landmarks, gamma=gamma, dtype=np.dtype(np.float64))
    root = np.linalg.cholesky(columns(landmarks) + _JITTER * np.eye(len(landmarks)))
    products, sums = np.zeros(root.shape), np.zeros((len(root), centred.shape[1]))
    for part in blocks(len(rows), width=len(root)):
        kernel = columns(rows[part])
        products += kernel.T @ kernel
        sums += kernel.T @ centred[part]
    half = solve_triangular(root, products, lower=True)
    spectrum, vectors = np.linalg.eigh(solve_triangular(root, half.T, lower=True))
    basis = solve_triangular(root, vectors, lower=True, trans="T")
    shrunk = [1.0 / (np.maximum(spectrum, 0.0) + ridge) for ridge in _RIDGES]
    fits = [shrink[:, None] * (basis.T @ sums) for shrink in shrunk]
    errors = np.empty((len(_RIDGES), *centred.shape))
    for part in blocks(len(rows), width=len(root)):
        projected = columns(rows[part]) @ basis
        fitted = (projected @ np.concatenate(fits, axis=1)).reshape(len(projected), len(fits), -1)
        leverages = projected**2 @ np.stack(shrunk, axis=1)
        errors[:, part] = ((centred[part][:, None] - fitted) / (1.0 - leverages)[:, :, None]).transpose(1, 0, 2)
    best = int(np.argmin((errors**2).mean(axis=(1, 2))))
    weights = basis @ fits[best]
    predicted = [columns(others[part]) @ weights for part in blocks(len(others), width=len(root))]
    return indicators - errors[best], np.concatenate(predicted) + means
