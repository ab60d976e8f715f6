"""Swaps improve a selection until none helps."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive_twins
from chance import examples, public_coins
from likeset.geometry.greedy import exact_greedy, swap
from likeset.geometry.kernels import squared_mmd
from likeset.geometry.selection import Selection


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32),
    pool=st.integers(1, 60),
    share=st.floats(0, 1),
    gamma=st.floats(0.05, 5),
    passes=st.integers(0, 3),
    copies=st.booleans(),
)
def test_swapping_never_raises_the_discrepancy_and_never_repeats_a_row(
    seed: int, pool: int, share: float, gamma: float, passes: int, copies: bool
) -> None:
    coins = public_coins(seed)
    rows, target = coins.normal(size=(pool, 2)), coins.normal(0.5, 0.5, size=(9, 2))
    if copies:
        rows = rows[coins.integers(pool, size=pool)]
    start = coins.choice(pool, size=max(1, int(share * pool)), replace=False)
    kept = start.copy()
    end = swap(rows, target, start, gamma=gamma, passes=passes)
    np.testing.assert_array_equal(start, kept)
    assert len(np.unique(end)) == len(start)
    assert end.min() >= 0
    assert end.max() < pool
    before, after = (squared_mmd(rows[chosen], target, gamma=gamma) for chosen in (start, end))
    assert after <= before + 1e-12
    if np.array_equal(start, end):
        return
    assert passes > 0
    assert after < before


def test_swapping_ends_where_no_single_swap_helps() -> None:
    """Every exchange of a selected for another row is tried by brute force; none gains more than rounding."""
    coins = public_coins(1)
    rows, target = coins.normal(size=(40, 2)), coins.normal(0.5, 0.6, size=(15, 2))
    start = np.arange(6)
    end = swap(rows, target, start, gamma=0.7, passes=100)
    reached = naive_twins.squared_mmd(rows[end], target, gamma=0.7)
    assert reached < 0.5 * naive_twins.squared_mmd(rows[start], target, gamma=0.7)
    for place in range(len(end)):
        for candidate in set(range(40)) - set(end.tolist()):
            other = end.copy()
            other[place] = candidate
            assert naive_twins.squared_mmd(rows[other], target, gamma=0.7) > reached - 1e-7
    np.testing.assert_array_equal(swap(rows, target, end, gamma=0.7), end)


@pytest.mark.parametrize(("dtype", "rounding"), [(np.float32, 1e-6), (np.float64, 0.0)])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_a_large_pool_improves_as_well(dtype: type[np.floating], rounding: float, offset: float) -> None:
    coins = public_coins(2)
    pool = (coins.normal(size=(6000, 3)) + offset).astype(dtype)
    target = (coins.normal(0.7, 0.4, size=(60, 3)) + offset).astype(dtype)
    start = coins.choice(6000, size=140, replace=False)
    once = swap(pool, target, start, gamma=1.0)
    twice = swap(pool, target, start, gamma=1.0, passes=2)
    values = [squared_mmd(pool[chosen], target, gamma=1.0) for chosen in (start, once, twice)]
    assert len(np.unique(twice)) == 140
    assert values[1] < 0.1 * values[0]
    assert values[2] <= values[1] + rounding


def test_swaps_do_not_depend_on_what_lay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    coins = public_coins(4)
    pool, target = coins.normal(size=(500, 2)), coins.normal(0.3, 0.8, size=(40, 2))
    start = np.arange(0, 480, 40)
    expected, empty = swap(pool, target, start, gamma=0.8), np.empty
    monkeypatch.setattr(np, "empty", lambda *shape, **kind: full(empty(*shape, **kind)))
    assert swap(pool, target, start, gamma=0.8).tolist() == expected.tolist()


def full(memory: NDArray[Any]) -> NDArray[Any]:
    if memory.dtype.kind == "f":
        memory.fill(np.nan)
    return memory


def test_swapping_improves_on_greedy() -> None:
    coins = public_coins(3)
    pool, target = coins.normal(size=(500, 2)), coins.normal(0.3, 0.8, size=(40, 2))
    start = exact_greedy(pool, target, 12, gamma=0.8).indices
    refined = swap(pool, target, start, gamma=0.8, passes=5)
    assert squared_mmd(pool[refined], target, gamma=0.8) < squared_mmd(pool[start], target, gamma=0.8)
    ways = [swap(pool, target, start, gamma=0.8, passes=passes).tolist() for passes in (1, 2, 3)]
    assert swap(pool, target, start, gamma=0.8).tolist() == ways[0] != ways[1]
    assert Selection(gamma=0.8).select(pool, target, 12).indices.tolist() == ways[1] != ways[2]
