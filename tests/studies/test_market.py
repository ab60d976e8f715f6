"""The market's judge and its rows are those of scikit-learn, which is not loaded for them."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from chance import public_coins
from likeset.simulation import market
from likeset.simulation.linear_svm import linear_svm


def test_the_digits_are_those_of_scikit_learn() -> None:
    known_rows, known_digits = load_digits(return_X_y=True)
    rows, digits = market._bundled_digits()
    assert np.array_equal(rows, known_rows)
    assert np.array_equal(digits, known_digits)


@pytest.mark.parametrize("classes", [[3, 4], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]])
def test_the_machine_says_what_that_of_scikit_learn_says(classes: list[int]) -> None:
    rows, digits = market._bundled_digits()
    chosen = public_coins("svm").permutation(np.flatnonzero(np.isin(digits, classes)))
    known, asked = chosen[:200], chosen[200:]
    scaled = rows / 16.0
    exact = LinearSVC(dual=False, tol=1e-10, max_iter=100_000).fit(scaled[known], digits[known])
    assert np.array_equal(linear_svm(scaled[known], digits[known], scaled[asked]), exact.predict(scaled[asked]))
