"""Kernel ridge regression from rows to class indicators, each row predicted without itself.

With ``K`` the kernel of the rows and ``c`` the ridge, the fitted values are ``H Y``, ``H = K (K + c)⁻¹``, and a row's
value without itself is ``y - (y - (H Y)) / (1 - H_ii)``: no fit is repeated. Indicators are centred by their means
first; that each row has a part of one in n in these is not undone.

Up to 2,000 rows the kernel is used as it is. Beyond, it is replaced by its projection on the span of some rows
(Nyström), and the same formulas hold for the features of that projection.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.kernels import KernelColumns, blocks

__all__ = ["LANDMARKS", "MOST_EXACT_ROWS", "RIDGES", "RidgeScores", "evenly_spread", "ridge_scores"]

MOST_EXACT_ROWS = 2000
"""Rows up to which the kernel matrix is held whole."""

LANDMARKS = 600
"""Rows on whose span it is projected beyond that."""

RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Ridges that are tried; the kernel of a row with itself is 1."""

_JITTER = 1e-8  # rows that are nearly equal make a kernel singular
_DOUBLE = np.dtype(np.float64)

Scores = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RidgeScores:
    """What ridge regression says about classes: one line per row, one column per class; about 1 for the right one.

    Attributes:
        left_out: of the labelled rows, each without itself.
        predicted: of other rows.
        ridge: the one whose errors on left-out rows are smallest.
    """

    left_out: Scores
    predicted: Scores
    ridge: float


def ridge_scores(
    rows: Rows, indicators: Scores, others: Rows, *, gamma: float, landmarks: NDArray[np.int64] | None = None
) -> RidgeScores:
    """Fit indicators on rows, and predict them for others.

    Args:
        rows: labelled rows.
        indicators: for each of them 1 in the column of its class, 0 elsewhere.
        others: rows to predict.
        gamma: width of the kernel.
        landmarks: rows on whose span the kernel is projected; None for the kernel as it is.
    """
    means = indicators.mean(axis=0)
    centred = indicators - means
    if landmarks is None:
        modes = _exact_modes(rows, centred, gamma)
    else:
        modes = _projected_modes(rows, centred, gamma, landmarks)
    errors = np.empty((len(RIDGES), *centred.shape))
    for part in blocks(len(rows), width=len(modes.columns)):
        errors[:, part] = _errors_without_itself(modes, part, centred[part])
    best = int(np.argmin((errors**2).mean(axis=(1, 2))))
    weights = modes.turn @ (modes.coordinates * (modes.spectrum / (modes.spectrum + RIDGES[best]))[:, None])
    parts = blocks(len(others), width=len(modes.columns))
    predicted = np.concatenate([modes.columns(others[part]) @ weights for part in parts])
    return RidgeScores(left_out=indicators - errors[best], predicted=predicted + means, ridge=RIDGES[best])


@dataclass(frozen=True, eq=False)
class _Modes:
    """A kernel by its eigenvectors, in which every ridge is cheap.

    Attributes:
        spectrum: eigenvalues of the kernel among the pool's rows.
        coordinates: the eigenvectors' products with the centred indicators.
        pool_entries: the eigenvectors' entries at a part of the pool, one vector per column.
        columns: the kernel with the pool's rows, or with the landmarks.
        turn: what turns these kernel values into the eigenvectors' entries, and continues them to other rows.
    """

    spectrum: NDArray[np.float64]
    coordinates: Scores
    pool_entries: Callable[[slice], Scores]
    columns: KernelColumns
    turn: Scores


def _exact_modes(rows: Rows, centred: Scores, gamma: float) -> _Modes:
    columns = KernelColumns(rows, gamma=gamma, dtype=_DOUBLE)
    spectrum, vectors = np.linalg.eigh(columns(rows))
    spectrum, vectors = spectrum[spectrum > _JITTER], vectors[:, spectrum > _JITTER]
    return _Modes(spectrum, vectors.T @ centred, lambda part: vectors[part], columns, vectors / spectrum)


def _projected_modes(rows: Rows, centred: Scores, gamma: float, landmarks: NDArray[np.int64]) -> _Modes:
    """With ``L L'`` the kernel of the landmarks and ``C`` that of all rows with them, ``C (L L')⁻¹ C'`` stands for all.

    Its spectrum is that of ``L⁻¹ C'C L'⁻¹``, an eigenvector v of which continues to ``C L'⁻¹ v / sqrt(eigenvalue)``.
    """
    from scipy.linalg import solve_triangular  # late: loading it takes longer than most fits

    columns = KernelColumns(rows[landmarks], gamma=gamma, dtype=_DOUBLE)
    root = np.linalg.cholesky(columns(rows[landmarks]) + _JITTER * np.eye(len(landmarks)))
    products, sums = np.zeros((len(landmarks), len(landmarks))), np.zeros((len(landmarks), centred.shape[1]))
    for part in blocks(len(rows), width=len(landmarks)):
        kernel = columns(rows[part])
        products += kernel.T @ kernel
        sums += kernel.T @ centred[part]
    half = solve_triangular(root, products, lower=True)
    spectrum, vectors = np.linalg.eigh(solve_triangular(root, half.T, lower=True))
    kept = spectrum > _JITTER * len(rows)
    turn = solve_triangular(root, vectors[:, kept], lower=True, trans="T")
    turn /= np.sqrt(spectrum[kept])

    def entries(part: slice) -> Scores:
        return np.asarray(columns(rows[part]) @ turn)

    return _Modes(spectrum[kept], turn.T @ sums, entries, columns, turn)


def _errors_without_itself(modes: _Modes, part: slice, centred: Scores) -> Scores:
    """For each ridge the errors of a part of the pool, each row predicted without itself."""
    vectors = modes.pool_entries(part)
    shrunk = np.stack([modes.spectrum / (modes.spectrum + ridge) for ridge in RIDGES])
    shrunk_coordinates = np.concatenate([shrink[:, None] * modes.coordinates for shrink in shrunk], axis=1)
    fitted = (vectors @ shrunk_coordinates).reshape(len(vectors), len(RIDGES), -1)
    errors = (centred[:, None, :] - fitted) / (1.0 - vectors**2 @ shrunk.T)[:, :, None]
    return np.asarray(errors.transpose(1, 0, 2))


def evenly_spread(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Positions of ``count`` values, spread evenly over their order: they depend on no seed."""
    order = np.argsort(values, kind="stable")
    return np.sort(order[np.linspace(0, len(order) - 1, count).round().astype(np.int64)])
