"""Numbers that other rows contradict are told from those that they predict, whatever a few rows say."""

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import pinned_coins
from likeset.geometry.kernels import rbf_kernel
from likeset.geometry.number_labels import surprise, surprising_rows, unsurprising_target

GAMMA = 0.3
Matrix = NDArray[np.float64]


def _rows(count: int = 200) -> tuple[Matrix, Matrix]:
    """Rows in a plane and a number that is nearly a smooth function of them."""
    coins = pinned_coins("numbers on a plane")
    rows = coins.normal(size=(count, 2))
    return rows, np.sin(rows[:, 0]) + rows[:, 1] + 0.1 * coins.normal(size=count)


def test_a_wrong_number_surprises_and_others_hardly() -> None:
    rows, numbers = _rows()
    wrong = int(np.argmin((rows**2).sum(axis=1)))  # in the middle, where there are others
    numbers[wrong] += 4.0
    told = surprise(rows, numbers, rows[:50], gamma=GAMMA)
    assert told.usable
    assert told.skill > 0.8
    assert int(np.argmax(np.abs(told.numbers))) == wrong
    assert np.median(np.abs(told.numbers)) < 0.2


def test_shuffled_numbers_tell_nothing() -> None:
    rows, numbers = _rows()
    told = surprise(rows, pinned_coins("shuffled numbers").permutation(numbers), rows[:50], gamma=GAMMA)
    assert not told.usable


@pytest.mark.parametrize("numbers", [np.full(200, 3.0), np.full(200, np.nan)])
def test_numbers_that_are_all_alike_or_missing_tell_nothing(numbers: Matrix) -> None:
    told = surprise(_rows()[0], numbers, _rows()[0][:50], gamma=GAMMA)
    assert told.skill == 0.0
    assert not told.numbers.any()


def test_enormous_numbers_of_a_few_change_little_for_the_others() -> None:
    rows, numbers = _rows()
    told = surprise(rows, numbers, rows[:50], gamma=GAMMA)
    numbers[:6] = 1e300
    shaken = surprise(rows, numbers, rows[:50], gamma=GAMMA)
    assert shaken.usable
    assert np.median(np.abs(shaken.numbers[6:] - told.numbers[6:])) < 0.15


def test_rows_out_of_reach_and_without_a_number_are_not_judged() -> None:
    rows, numbers = _rows()
    rows[0] += 1e4
    numbers[1] = np.nan
    told = surprise(rows, numbers, rows[50:100], gamma=GAMMA)
    assert told.numbers[:2].tolist() == [0.0, 0.0]
    assert told.skill > 0.8


def test_beyond_exact_rows_a_projection_tells_the_same() -> None:
    rows, numbers = _rows(2300)
    exact, projected = (surprise(rows[:count], numbers[:count], rows[:50], gamma=GAMMA) for count in (2000, 2300))
    assert projected.skill == pytest.approx(exact.skill, abs=0.02)


def test_a_surprise_lowers_the_kernel_with_the_target_by_its_square() -> None:
    rows, surprises = _rows(10)[0], np.linspace(-1.0, 2.0, 10)
    longer, wanted = surprising_rows(rows, surprises, weight=0.4, gamma=GAMMA), unsurprising_target(rows)
    expected = rbf_kernel(rows, rows, gamma=GAMMA) * np.exp(-0.4 * surprises**2)[:, None]
    np.testing.assert_allclose(rbf_kernel(longer, wanted, gamma=GAMMA), expected, atol=1e-12)
