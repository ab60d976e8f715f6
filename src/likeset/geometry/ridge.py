"""Kernel ridge regression from rows to class indicators, each row predicted without itself.

With ``K`` the kernel of the rows and ``c`` the ridge, the fitted values are ``H Y``, ``H = K (K + c)⁻¹``, and a row's
value without itself is ``y - (y - (H Y)) / (1 - H_ii)``: no fit is repeated. Indicators are centred by their means
first; that each row has a part of one in n in these is not undone.

Up to 2,000 rows the kernel is used as it is. Beyond, it is replaced by its projection on the span of some rows
(Nyström), and the same formulas hold for the features of that projection.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from likeset.arguments import Rows
from likeset.geometry.kernels import KernelColumns, blocks

__all__ = ["MOST_EXACT_ROWS", "RIDGES", "RidgeScores", "evenly_spread", "ridge_scores"]

MOST_EXACT_ROWS = 2000
"""Rows up to which the kernel matrix is held whole."""

RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Ridges that are tried; the kernel of a row with itself is 1."""

_JITTER = 1e-8  # rows that are nearly equal make the kernel of the landmarks singular
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
    modes = _exact_modes(rows, others, gamma) if landmarks is None else _projected_modes(rows, others, gamma, landmarks)
    means = indicators.mean(axis=0)
    centred = indicators - means
    coordinates, squares = modes.rows.T @ centred, modes.rows**2

    def errors_without_itself(ridge: float) -> Scores:
        shrunk = modes.spectrum / (modes.spectrum + ridge)
        fitted = modes.rows @ (shrunk[:, None] * coordinates)
        return np.asarray((centred - fitted) / (1.0 - squares @ shrunk)[:, None])

    ridge = min(RIDGES, key=lambda ridge: float(np.mean(errors_without_itself(ridge) ** 2)))
    predicted = modes.others @ (coordinates / (modes.spectrum + ridge)[:, None]) + means
    return RidgeScores(left_out=indicators - errors_without_itself(ridge), predicted=predicted, ridge=ridge)


@dataclass(frozen=True, eq=False)
class _Modes:
    """A kernel by its eigenvectors, in which every ridge is cheap.

    Attributes:
        spectrum: eigenvalues of the kernel among the rows.
        rows: the eigenvectors, one per column; the kernel is ``rows diag(spectrum) rows'``.
        others: the kernel of other rows with the rows, times ``rows``.
    """

    spectrum: NDArray[np.float64]
    rows: Scores
    others: Scores


def _exact_modes(rows: Rows, others: Rows, gamma: float) -> _Modes:
    columns = KernelColumns(rows, gamma=gamma, dtype=_DOUBLE)
    spectrum, vectors = eigh(columns(rows), overwrite_a=True)
    return _Modes(np.maximum(spectrum, 0.0), vectors, columns(others) @ vectors)


def _projected_modes(rows: Rows, others: Rows, gamma: float, landmarks: NDArray[np.int64]) -> _Modes:
    """With ``F`` the features of rows: ``F'F`` has the spectrum, and its eigenvectors turn features into modes."""
    columns = KernelColumns(rows[landmarks], gamma=gamma, dtype=_DOUBLE)
    root = cholesky(columns(rows[landmarks]) + _JITTER * np.eye(len(landmarks)), lower=True)

    def features_of(some: Rows) -> Scores:
        parts = (columns(some[part]).T for part in blocks(len(some), width=len(landmarks)))
        return np.concatenate([solve_triangular(root, part, lower=True).T for part in parts])

    features = features_of(rows)
    spectrum, vectors = eigh(features.T @ features, overwrite_a=True)
    vectors, spectrum = vectors[:, spectrum > _JITTER], spectrum[spectrum > _JITTER]
    lengths = np.sqrt(spectrum)
    return _Modes(spectrum, (features @ vectors) / lengths, (features_of(others) @ vectors) * lengths)


def evenly_spread(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Positions of ``count`` values, spread evenly over their order: they depend on no seed."""
    order = np.argsort(values, kind="stable")
    return np.sort(order[np.linspace(0, len(order) - 1, count).round().astype(np.int64)])
