"""Ridge regression that leaves each row out, against fits that are repeated without it."""

import numpy as np
import pytest
from numpy.typing import NDArray

import naive_twins
from chance import public_coins
from likeset.geometry import labels
from likeset.geometry.labels import ridge_scores


def _classes(seed: int, *, rows: int, classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
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
    """The closed form against 30 repeated fits for some ridges; the ridge kept is the one of the smallest error."""
    rows, codes = _classes(1, rows=30, classes=3)
    indicators = np.eye(3)[codes]
    repeated = [_repeated_fits(rows, indicators, gamma=gamma, ridge=value) for value in (0.01, 0.1, 1.0, 10.0)]
    best = min(repeated, key=lambda scores: float(((scores - indicators) ** 2).mean()))
    left_out, _ = ridge_scores(rows, indicators, rows[:4] + 0.1, gamma=gamma)
    np.testing.assert_allclose(left_out, best, atol=1e-5)


def test_predictions_are_those_of_the_plain_formula() -> None:
    """A row beside the others is predicted as it would be if it were one that is left out."""
    rows, codes = _classes(2, rows=25, classes=2)
    indicators, others = np.eye(2)[codes], rows[:6] + 0.2
    _, predicted = ridge_scores(rows, indicators, others, gamma=0.5)
    kernel = naive_twins.kernel_matrix(rows, rows, gamma=0.5)
    means, between = indicators.mean(axis=0), naive_twins.kernel_matrix(others, rows, gamma=0.5)
    plain = [
        between @ np.linalg.solve(kernel + value * np.eye(25), indicators - means) + means
        for value in (0.01, 0.1, 1.0, 10.0)
    ]
    assert min(float(np.abs(predicted - expected).max()) for expected in plain) < 1e-5


def test_a_projection_on_half_of_the_rows_names_nearly_the_same_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 600 rows in three columns; projected on 6 of them, too few for four classes, many names change."""
    rows, codes = _classes(4, rows=600, classes=4)
    named = {}
    for count in (6, 300, 600):
        monkeypatch.setattr(labels, "_LANDMARKS", count)
        named[count] = ridge_scores(rows, np.eye(4)[codes], rows[:1], gamma=0.7)[0].argmax(axis=1)
    assert (named[300] == named[600]).mean() >= 0.99
    assert (named[6] == named[600]).mean() < 0.97


def test_equal_rows_do_no_harm() -> None:
    rows, codes = _classes(5, rows=30, classes=2)
    doubled = np.concatenate([rows, rows])
    left_out, predicted = ridge_scores(doubled, np.eye(2)[np.concatenate([codes, codes])], rows, gamma=1.0)
    assert np.isfinite(left_out).all()
    assert np.isfinite(predicted).all()
