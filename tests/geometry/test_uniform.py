"""Tests of the uniform baseline."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chance import public_coins
from likeset.errors import InvalidArgument
from likeset.geometry.greedy import MatchMethod
from likeset.geometry.offers import uniform

Rows = NDArray[np.floating[Any]]
METHODS: tuple[MatchMethod, ...] = get_args(MatchMethod)
GROUPED = 12_000
"""Rows of a pool in which ``block`` works with active sets, also within an active set."""


def points(seed: int, rows: int, columns: int, *, mean: float = 0.0, scale: float = 1.0) -> NDArray[np.float64]:
    return public_coins(seed).normal(mean, scale, size=(rows, columns))


@pytest.mark.parametrize(
    ("owner_sizes", "size", "quota"),
    [
        ([10, 10, 10], 9, [3, 3, 3]),
        ([10, 10, 10], 11, [4, 4, 3]),  # what does not divide evenly goes to the first
        ([2, 10, 10], 12, [2, 5, 5]),  # the first lacks two: one more from each other
        ([2, 10, 10], 13, [2, 6, 5]),
        ([0, 3, 0, 9], 10, [0, 3, 0, 7]),
        ([1, 2, 3, 100], 50, [1, 2, 3, 44]),
        ([5], 5, [5]),
        ([4, 4], 1, [1, 0]),
        ([3, 1, 4, 1, 5], 14, [3, 1, 4, 1, 5]),
    ],
)
def test_uniform_takes_as_many_from_each_owner_as_it_can(owner_sizes: list[int], size: int, quota: list[int]) -> None:
    chosen = uniform(owner_sizes, size, coins=public_coins(0))
    assert [len(rows) for rows in chosen] == quota
    for rows, available in zip(chosen, owner_sizes, strict=True):
        assert rows.tolist() == sorted(set(rows.tolist()))
        assert set(rows.tolist()) <= set(range(available))


@given(owner_sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_no_owner_gives_two_more_than_another_that_still_has_rows(
    owner_sizes: list[int], share: float, seed: int
) -> None:
    size = int(share * sum(owner_sizes))
    if not size:
        return
    quota = [len(rows) for rows in uniform(owner_sizes, size, coins=public_coins(seed))]
    assert sum(quota) == size
    open_quota = [given for given, available in zip(quota, owner_sizes, strict=True) if given < available]
    assert not open_quota or max(quota) <= min(open_quota) + 1


def test_uniform_draws_every_row_equally_often() -> None:
    """4 of 10 rows, 5000 times: each row 2000 ± sqrt(5000·0.4·0.6) = 35 times; 6.5 deviations for ten rows."""
    coins = public_coins(1)
    counts = np.zeros(10)
    for _ in range(5000):
        counts[uniform([10, 3], 7, coins=coins)[0]] += 1
    assert np.abs(counts - 2000).max() < 6.5 * 35


@pytest.mark.parametrize(
    ("owner_sizes", "size", "argument", "shown"),
    [
        ([3, 4], 8, "size", "8"),
        ([3, 4], 0, "size", "0"),
        ([], 1, "size", "1"),
        ([3, -1], 1, "owner_sizes[1]", "-1"),
        ([3, 2.5], 1, "owner_sizes[1]", "2.5"),
        ([3, True], 1, "owner_sizes[1]", "True"),
        ("ab", 1, "owner_sizes[0]", "'a'"),
    ],
)
def test_impossible_quotas_are_refused(owner_sizes: Any, size: int, argument: str, shown: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        uniform(owner_sizes, size, coins=public_coins(0))
    assert caught.value.argument == argument
    assert shown in str(caught.value)
