"""With the map and rows nearby, features give the rows away; where they do not, that is said."""

import numpy as np
import pytest

from chance import public_coins
from likeset.errors import InvalidArgument
from likeset.geometry.features import FourierFeatures
from likeset.geometry.kernels import median_gamma
from likeset.geometry.rows_behind_features import least_dimension, rows_behind

SEED = (1 << 255) + 5


def _worlds(columns: int, scale: float) -> tuple[FourierFeatures, np.ndarray, np.ndarray]:
    coins = public_coins(columns)
    near = coins.normal(size=(80, columns)).astype(np.float32)
    rows = coins.normal(0.2, 1.0, size=(40, columns)).astype(np.float32)
    gamma = median_gamma(near, scale=scale, coins=public_coins(0))
    return FourierFeatures(columns, least_dimension(columns), gamma, SEED, "phased"), rows, near


@pytest.mark.parametrize("columns", [1, 5, 30])
def test_rows_are_found_to_single_precision_at_the_usual_width(columns: int) -> None:
    features, rows, near = _worlds(columns, 1.0)
    found, known = rows_behind(features, features(rows), near=near)
    assert known.all()
    assert np.abs(found - rows).max() < 3e-6


def test_what_is_not_found_is_said_and_what_is_found_is_right() -> None:
    """A kernel ten times as sharp: angles wrap more than once between most rows."""
    features, rows, near = _worlds(5, 10.0)
    found, known = rows_behind(features, features(rows), near=near)
    assert 0 < known.sum() < 40
    assert np.abs(found[known] - rows[known]).max() < 3e-6


def test_features_of_no_row_and_of_another_map_are_not_taken_for_a_rows() -> None:
    features, rows, near = _worlds(5, 1.0)
    other = FourierFeatures(5, features.dimension, features.gamma, SEED + 1, "phased")
    assert not rows_behind(features, other(rows), near=near)[1].any()
    turned = np.roll(features(rows), 1, axis=1)
    assert not rows_behind(features, turned, near=near)[1].any()
    with pytest.raises(InvalidArgument):
        rows_behind(features, features(rows)[:, 1:], near=near)
