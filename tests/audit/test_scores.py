"""Each kind of event is found where it is the only one that shows anything; nothing is found in equal laws.

The secret bit is hidden so that every single coordinate has the same law under both inputs, unless told otherwise.
Seeds are public: a failure repeats itself.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import pinned_coins
from likeset.audit.auditor import Score, distances, joint_score, lattice_bits, lower_bound, lower_bounds

SAMPLES = 6_000
MOST = math.log(SAMPLES / 2 / 22)  # what 3000 observations can show: an event never seen may have probability 22/3000
Rows = NDArray[np.float64]


def normal(columns: int, seed: int) -> Rows:
    return pinned_coins(seed).normal(size=(SAMPLES, columns))


@pytest.mark.parametrize(("left", "right"), [(0, 1), (3, 18)])
def test_the_sign_of_a_product_of_any_two_coordinates(left: int, right: int) -> None:
    first, second = normal(20, 1), normal(20, 2)
    first[:, left] = np.abs(first[:, left]) * np.sign(first[:, right])
    second[:, left] = -np.abs(second[:, left]) * np.sign(second[:, right])
    bound = lower_bound(first, second, delta=1e-5)
    assert bound.epsilon > MOST - 1.5
    assert bound.event.startswith("product of two coordinates")


def test_a_bit_that_only_the_parities_of_all_coordinates_together_show() -> None:
    points = [np.rint(normal(4, seed) * 2.0**30) for seed in (12, 13)]
    for bit, rows in enumerate(points):
        rows[:, 0] += np.mod(rows.sum(axis=1) + bit, 2)
    bound = lower_bound(points[0], points[1], delta=0.05)
    assert bound.epsilon > MOST - 0.3
    assert bound.event.startswith("lowest bits of the lattice point in coordinate 4")  # the column after the last


def test_correlations_that_no_pair_shows_by_itself() -> None:
    """Noise with slightly correlated coordinates, all of them: each of 190 products says little, their sum much."""
    first, second = normal(20, 5), normal(20, 6)
    shared = pinned_coins(7).normal(size=(SAMPLES, 1))
    bound = lower_bound(first, math.sqrt(0.8) * second + math.sqrt(0.2) * shared, delta=0.01)
    assert bound.epsilon > 0.7
    assert bound.event.startswith("quadratic discriminant")


def test_the_lowest_bit_of_a_double() -> None:
    bits = [normal(1, seed).view(np.uint64) for seed in (14, 15)]
    first, second = ((rows & ~np.uint64(1) | np.uint64(bit)).view(np.float64) for bit, rows in enumerate(bits))
    assert lower_bound(first, second, delta=0.05).epsilon > MOST - 0.3


@pytest.mark.parametrize(
    "score", [None, joint_score(distances(0.0, 1.0), lattice_bits(2.0**-30))], ids=["own", "given"]
)
def test_so_many_scores_find_nothing_in_equal_laws(score: Score | None) -> None:
    """The judging half sees one event, however many the choosing half looked at."""
    coins = pinned_coins(20)
    for _ in range(4):
        first, second = np.rint(coins.normal(size=(2, 2000, 20)) * 2.0**30) * 2.0**-30
        for bound in lower_bounds(first, second, deltas=[0.0, 1e-5, 0.05], score=score):
            assert bound.epsilon == 0
