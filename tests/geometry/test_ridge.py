"""Ridge regression that leaves each row out, against fits that are repeated without it."""

import naive_twins
import numpy as np
import pytest
from numpy.typing import NDArray

from chance import public_coins
from likeset.geometry.ridge import RIDGES, evenly_spread, ridge_scores


def _classes(seed: int, *, rows: int, classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows around one centre for each class, and their classes."""
    coins = public_coins(seed)
    codes = coins.integers(classes, size=rows)
    return coins.normal(size=(classes, 3))[codes] + 0.5 * coins.normal(size=(rows, 3)), codes


def _repeated_fits(
    rows: NDArray[np.float64], indicators: NDArray[np.float64], *, gamma: float, ridge: float
) -> NDArray[np.float64]:
    """Each row predicted by a fit without it; the means that indicators are centred by stay those of all rows."""
    means = indicators.mean(axis=0)
    scores = np.empty_like(indicators)
    for place in range(len(rows)):
        others = np.delete(np.arange(len(rows)), place)
        kernel = naive_twins.kernel_matrix(rows[others], rows[others], gamma=gamma)
        fit = np.linalg.solve(kernel + ridge * np.eye(len(others)), indicators[others] - means)
        scores[place] = naive_twins.kernel_matrix(rows[[place]], rows[others], gamma=gamma)[0] @ fit + means
    return scores


@pytest.mark.parametrize("gamma", [0.2, 2.0])
def test_left_out_scores_are_those_of_fits_without_the_row(gamma: float) -> None:
    """The closed form against 30 repeated fits for every ridge; the ridge kept is the one of the smallest error."""
    rows, codes = _classes(1, rows=30, classes=3)
    indicators = np.eye(3)[codes]
    repeated = {ridge: _repeated_fits(rows, indicators, gamma=gamma, ridge=ridge) for ridge in RIDGES}
    errors = {ridge: float(((scores - indicators) ** 2).mean()) for ridge, scores in repeated.items()}
    fitted = ridge_scores(rows, indicators, rows[:4] + 0.1, gamma=gamma)
    assert fitted.ridge == min(errors, key=lambda ridge: errors[ridge])
    np.testing.assert_allclose(fitted.left_out, repeated[fitted.ridge], atol=1e-9)


def test_predictions_are_those_of_the_plain_formula() -> None:
    rows, codes = _classes(2, rows=25, classes=2)
    indicators, others = np.eye(2)[codes], rows[:6] + 0.2
    fitted = ridge_scores(rows, indicators, others, gamma=0.5)
    kernel = naive_twins.kernel_matrix(rows, rows, gamma=0.5)
    means = indicators.mean(axis=0)
    plain = np.linalg.solve(kernel + fitted.ridge * np.eye(25), indicators - means)
    expected = naive_twins.kernel_matrix(others, rows, gamma=0.5) @ plain + means
    np.testing.assert_allclose(fitted.predicted, expected, atol=1e-9)


def test_a_projection_on_all_rows_changes_nothing() -> None:
    rows, codes = _classes(3, rows=40, classes=3)
    indicators = np.eye(3)[codes]
    exact = ridge_scores(rows, indicators, rows + 0.1, gamma=1.0)
    projected = ridge_scores(rows, indicators, rows + 0.1, gamma=1.0, landmarks=np.arange(40))
    assert projected.ridge == exact.ridge
    np.testing.assert_allclose(projected.left_out, exact.left_out, atol=1e-4)
    np.testing.assert_allclose(projected.predicted, exact.predicted, atol=1e-4)


def test_a_projection_on_half_of_the_rows_names_nearly_the_same_classes() -> None:
    """Of 600 rows in three columns; projected on 6 of them, too few for four classes, many names change."""
    rows, codes = _classes(4, rows=600, classes=4)
    indicators = np.eye(4)[codes]
    exact = ridge_scores(rows, indicators, rows[:1], gamma=0.7).left_out.argmax(axis=1)
    agreeing = {}
    for count in (6, 300):
        landmarks = evenly_spread(rows[:, 0], count)
        projected = ridge_scores(rows, indicators, rows[:1], gamma=0.7, landmarks=landmarks)
        agreeing[count] = float((projected.left_out.argmax(axis=1) == exact).mean())
    assert agreeing[300] >= 0.99
    assert agreeing[6] < 0.97


def test_equal_rows_as_landmarks_do_no_harm() -> None:
    rows, codes = _classes(5, rows=30, classes=2)
    doubled, indicators = np.concatenate([rows, rows]), np.eye(2)[np.concatenate([codes, codes])]
    scores = ridge_scores(doubled, indicators, rows, gamma=1.0, landmarks=np.arange(60))
    assert np.isfinite(scores.left_out).all()
    np.testing.assert_allclose(
        scores.predicted, ridge_scores(doubled, indicators, rows, gamma=1.0).predicted, atol=1e-4
    )


def test_spread_positions_cover_the_order_of_the_values() -> None:
    """Five of nine values: the smallest, the largest, and every second one between; in order of position."""
    values = np.array([8.0, 0.0, 7.0, 1.0, 6.0, 2.0, 5.0, 3.0, 4.0])
    np.testing.assert_array_equal(evenly_spread(values, 5), np.sort([1, 5, 8, 4, 0]))
