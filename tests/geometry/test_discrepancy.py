"""The discrepancy between two sets of rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_twins
from chance import examples, public_coins
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import squared_mmd

GOLDEN = (3 - math.exp(-1) - 2 * math.exp(-4)) / 18
SEEDS = st.integers(0, 2**32)


def test_the_squared_mmd_of_three_and_two_points_on_the_diagonal() -> None:
    """Rows {0,1,2}·(1,1) and {0,1}·(1,1) at gamma = 1/2: steps of 1 have squared length 2, so e^-1; of 2, e^-4.

    Within the first (3 + 4e^-1 + 2e^-4)/9, within the second (2 + 2e^-1)/4, between (2 + 3e^-1 + e^-4)/6. The first
    two less twice the third: (6 + 8e^-1 + 4e^-4 + 9 + 9e^-1 - 12 - 18e^-1 - 6e^-4)/18 = (3 - e^-1 - 2e^-4)/18.
    """
    three, two = [[0, 0], [1, 1], [2, 2]], [[0, 0], [1, 1]]
    assert squared_mmd(three, two, gamma=0.5) == pytest.approx(GOLDEN, rel=1e-14)
    assert squared_mmd(two, three, gamma=0.5) == pytest.approx(GOLDEN, rel=1e-14)
    assert squared_mmd(np.array(three, np.float32), np.array(two, np.float32), gamma=0.5) == pytest.approx(GOLDEN)


@settings(max_examples=examples(40))
@given(
    seed=SEEDS, rows=st.integers(1, 15), others=st.integers(1, 15), columns=st.integers(1, 4), gamma=st.floats(0.01, 9)
)
def test_discrepancy_agrees_with_a_double_loop(seed: int, rows: int, others: int, columns: int, gamma: float) -> None:
    coins = public_coins(seed)
    a, b = coins.normal(size=(rows, columns)), coins.normal(size=(others, columns))
    expected = naive_twins.squared_mmd(a, b, gamma=gamma)
    assert squared_mmd(a, b, gamma=gamma) == pytest.approx(expected, abs=1e-12)


def test_a_set_has_no_discrepancy_to_itself_and_it_is_never_negative() -> None:
    rows = public_coins(0).normal(size=(50, 3))
    assert 0.0 <= squared_mmd(rows, rows[::-1], gamma=1.0) < 1e-15
    assert 0.0 <= squared_mmd(rows, np.vstack([rows, rows]), gamma=1.0) < 1e-15


def test_a_weight_counts_like_copies_of_its_row() -> None:
    """Weights 1/2, 1/3, 1/6 are three, two and one copies among six rows."""
    coins = public_coins(3)
    rows, target = coins.normal(size=(3, 2)), coins.normal(size=(7, 2))
    copies = rows[[0, 0, 0, 1, 1, 2]]
    weighted = squared_mmd(rows, target, gamma=0.8, weights=[1 / 2, 1 / 3, 1 / 6])
    assert weighted == pytest.approx(naive_twins.squared_mmd(copies, target, gamma=0.8), abs=1e-14)
    assert squared_mmd(rows, target, gamma=0.8, weights=[0, 1, 0]) == pytest.approx(
        naive_twins.squared_mmd(rows[1:2], target, gamma=0.8), abs=1e-14
    )


def test_numbers_whose_distances_overflow_are_refused_rather_than_called_a_perfect_match() -> None:
    """The kernel of such rows is not a number, and the larger of zero and that is zero: the best value there is."""
    for dtype, large in [(np.float32, 1e30), (np.float64, 1e200)]:
        with pytest.raises(InvalidArgument, match="scale the columns"):
            squared_mmd(np.array([[large], [0]], dtype), np.array([[large], [1]], dtype), gamma=1.0)
    with pytest.raises(InvalidArgument, match="overflows"), np.errstate(all="ignore"):
        squared_mmd([[0.0], [1.0]], [[0.0], [3.0]], gamma=1e308)
