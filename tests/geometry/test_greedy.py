"""Greedy matching against brute force; its memory and precision."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import naive_twins
from chance import public_coins
from likeset.geometry.greedy import Match, exact_greedy
from likeset.geometry.kernels import squared_mmd
from naive_twins import marginal_gain, objective

Rows = NDArray[np.floating[Any]]


def points(seed: int, rows: int, columns: int, *, mean: float = 0.0, scale: float = 1.0) -> NDArray[np.float64]:
    return public_coins(seed).normal(mean, scale, size=(rows, columns))


def pinned_coins() -> np.random.Generator:
    """For comparisons of two ways to choose, of which either may be the better one by luck: no bound is sure."""
    return np.random.default_rng(0)


# Exact selection is what brute force selects.


@pytest.mark.parametrize("seed", range(8))
def test_exact_picks_what_brute_force_picks(seed: int) -> None:
    pool, target = points(seed, 40, 1 + seed % 3), points(seed + 100, 9, 1 + seed % 3, mean=0.5)
    gamma = [0.1, 0.7, 4.0][seed % 3]
    found = exact_greedy(pool, target, 12, gamma=gamma)
    assert found.indices.tolist() == naive_twins.greedy(pool, target, 12, gamma=gamma)


@pytest.mark.parametrize("seed", range(6))
def test_equal_rows_are_picked_in_order_of_their_index(seed: int) -> None:
    """Rows on a small grid, most of them several times: ties everywhere, also between different rows."""
    coins = public_coins(seed)
    pool = coins.integers(0, 3, size=(30, 2)).astype(float)
    target = coins.integers(0, 3, size=(5, 2)).astype(float)
    expected = naive_twins.greedy(pool, target, 15, gamma=0.6)
    assert exact_greedy(pool, target, 15, gamma=0.6).indices.tolist() == expected


# What a match says of itself is true.


def assert_true_of_itself(found: Match, pool: Rows, target: Rows, *, gamma: float, tolerance: float) -> None:
    """Gains and objectives, recomputed from scratch in double precision, at some of the picks."""
    exactly, wanted = pool.astype(np.float64), target.astype(np.float64)
    size = len(found)
    assert len(found.gains) == len(found.objectives) == size
    assert len(np.unique(found.indices)) == size
    for made in {0, 1, 2, size // 3, size // 2, size - 1} & set(range(size)):
        before, pick = found.indices[:made], found.indices[made]
        gain = marginal_gain(exactly[[pick]], exactly[before], wanted, gamma=gamma)[0]
        assert found.gains[made] == pytest.approx(gain, abs=tolerance)
        expected = objective(exactly[found.indices[: made + 1]], wanted, gamma=gamma)
        assert found.objectives[made] == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-11)])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_gains_and_objectives_are_those_of_the_rows(dtype: type[np.floating], tolerance: float, offset: float) -> None:
    """An offset of 1000 costs three of float32's seven digits, whether the pool holds them or we compute them."""
    pool = (points(1, 21_000, 3) + offset).astype(dtype)
    target = (points(2, 50, 3, mean=0.6, scale=0.5) + offset).astype(dtype)
    found = exact_greedy(pool, target, 60, gamma=0.5)
    assert_true_of_itself(found, pool, target, gamma=0.5, tolerance=tolerance if offset == 0 else max(tolerance, 1e-9))


def test_a_pool_can_be_matched_down_to_its_last_row() -> None:
    pool, target = points(8, 1500, 2), points(9, 30, 2)
    found = exact_greedy(pool, target, 1500, gamma=0.5)
    np.testing.assert_array_equal(np.sort(found.indices), np.arange(1500))


def test_the_arguments_are_read_only_and_any_memory_order_will_do() -> None:
    pool, target = points(10, 5000, 3), points(11, 40, 3)
    expected = exact_greedy(pool, target, 25, gamma=0.5)
    strided = np.repeat(pool, 2, axis=1)[:, ::2]
    for same in (np.asfortranarray(pool), strided):
        kept = same.copy()
        same.flags.writeable = False
        found = exact_greedy(same, target, 25, gamma=0.5)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(same, kept)


# Memory.


_MEASURE = """
from pathlib import Path
import numpy as np
from likeset.geometry.greedy import exact_greedy

def peak():
    # getrusage would also count what the parent held when it started us.
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

def rows(seed, count):
    made = np.empty((count, 50), dtype=np.float32)
    coins = np.random.default_rng(seed)
    for first in range(0, count, 5000):
        coins.standard_normal(out=made[first : first + 5000], dtype=np.float32)
    return made

warm = exact_greedy(rows(1, 6000), rows(2, 100), 20, gamma=0.02)
before = peak()
pool, target = rows(3, 200_000), rows(4, 500)
exact_greedy(pool, target, 100, gamma=0.01)
print((peak() - before) / pool.nbytes)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not tell a process its own peak memory"
)
def test_matching_stays_under_three_times_the_memory_of_its_data() -> None:
    """Data and all, in a process of its own: 200000 rows of 50 columns in float32 are 40 MB."""
    child = subprocess.run(  # noqa: S603 - this interpreter, with a program written above
        [sys.executable, "-c", _MEASURE], capture_output=True, text=True, check=False, timeout=600
    )
    assert child.returncode == 0, child.stderr
    times_the_data = float(child.stdout)
    assert 1.0 < times_the_data < 3.0


def test_of_copies_the_first_is_picked_first() -> None:
    """Copies far apart in the pool, whose kernel rows are computed in different products."""
    different = 4000
    pool, target = np.tile(points(21, different, 4), (3, 1)), points(22, 100, 4, mean=0.3)
    picked = exact_greedy(pool, target, 300, gamma=0.2).indices
    for place, row in enumerate(picked):
        assert set(range(row % different, row, different)) <= set(picked[:place].tolist())


def test_two_groups_of_rows_far_apart_are_matched_as_well_in_float32_as_in_float64() -> None:
    """Groups at ±1000 with unit spread: ``||x||² + ||y||² - 2 x.y`` has a rounding error of 0.1 to 1 in float32.

    The rows themselves are exact to 6e-5 there, so float32 data are no excuse.
    """
    coins = public_coins(0)
    pool, target = coins.normal(size=(6000, 5)), coins.normal(0, 0.7, size=(100, 5))
    pool[::2], pool[1::2] = pool[::2] + 1000, pool[1::2] - 1000
    target[::2], target[1::2] = target[::2] + 1000, target[1::2] - 1000
    pool, target = (rows.astype(np.float32).astype(np.float64) for rows in (pool, target))
    left = []
    for dtype in (np.float32, np.float64):
        found = exact_greedy(pool.astype(dtype), target.astype(dtype), 100, gamma=0.2)
        left.append(squared_mmd(pool[found.indices], target, gamma=0.2))
        assert found.objectives[-1] == pytest.approx(objective(pool[found.indices], target, gamma=0.2), abs=1e-3)
    assert left[0] <= 1.5 * left[1]
