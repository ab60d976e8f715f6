"""The rows behind features, for somebody who has the map and rows that lie near."""

import numpy as np
from numpy.typing import NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.geometry.features import FourierFeatures

__all__ = ["least_dimension", "rows_behind"]

_TRIES = 24
_STEPS = 60
_ANGLES_PER_COLUMN = 4
_SETTLED = 1e-9  # of a step, in radians
_CLOSE = 1e-4  # largest error of an angle's cosine and sine: a hundred times what single precision leaves


def least_dimension(columns: int) -> int:
    """From this length on, features are enough to find a row by: four angles for each column."""
    return 2 * _ANGLES_PER_COLUMN * columns


def rows_behind(
    features: FourierFeatures, hashed: Rows, *, near: Rows
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Rows that have these features, and for which of them one was found.

    An angle is known up to whole turns. So a row is sought from rows near it, by least squares on the angles that are
    left between them, each taken as less than half a turn; a row that is found has the very features, and is then the
    only one nearby. How sure that is depends on the kernel: of a row several widths away from all others, nothing is
    found.

    Args:
        features: the map, ``paired`` or ``phased``.
        hashed: its values at the rows that are sought.
        near: rows, some of which are near those.
    """
    frequencies, phases, height = features.waves
    pairs = features.dimension // 2
    arguments.same_columns("features", np.empty((0, features.dimension)), "hashed", hashed)
    solve = np.linalg.pinv(frequencies)
    waves = (hashed / height).astype(np.float64)
    angles = np.arctan2(waves[:, pairs:], waves[:, :pairs]) - phases
    likeness = hashed @ features(near).T
    starts = np.argsort(-likeness, axis=1, kind="stable")[:, :_TRIES]
    rows = np.zeros((len(hashed), features.columns))
    is_found = np.zeros(len(hashed), dtype=np.bool_)
    for attempt in range(starts.shape[1]):
        open_rows = np.flatnonzero(~is_found)
        if not len(open_rows):
            break
        guess = near[starts[open_rows, attempt]].astype(np.float64)
        for _ in range(_STEPS):
            off = _within_half_a_turn(angles[open_rows] - guess @ frequencies.T)
            step = off @ solve.T
            guess += step
            if float(np.abs(step @ frequencies.T).max()) < _SETTLED:
                break
        left = np.abs(_within_half_a_turn(angles[open_rows] - guess @ frequencies.T)).max(axis=1)
        good = left <= _CLOSE
        rows[open_rows[good]] = guess[good]
        is_found[open_rows[good]] = True
    return rows, is_found


def _within_half_a_turn(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((angles + np.pi) % (2.0 * np.pi) - np.pi)
