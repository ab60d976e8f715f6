"""Matching with weights: its first picks by brute force, its weights by their optimality, its quality against block."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive_twins
from chance import examples, public_coins
from likeset.errors import InvalidArgument
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.geometry.weights import weights
from naive_twins import kkt_violation
from studies import weighted_matching
from studies.weighted_matching import match_weighted

Rows = NDArray[np.floating[Any]]


def points(seed: int, rows: int, columns: int, *, mean: float = 0.0, scale: float = 1.0) -> NDArray[np.float64]:
    return public_coins(seed).normal(mean, scale, size=(rows, columns))


# What is picked.


@pytest.mark.parametrize("seed", range(8))
def test_the_first_two_picks_are_those_of_brute_force(seed: int) -> None:
    """The first row alone has the least squared MMD; the second is where moving weight to it lowers that fastest.

    The derivative is taken by a small step, by double loops: no formula of the module is used.
    """
    pool, target = points(seed, 25, 1 + seed % 3), points(seed + 100, 7, 1 + seed % 3, mean=0.5)
    gamma = [0.1, 0.7, 4.0][seed % 3]
    first, second = match_weighted(pool, target, 2, gamma=gamma).indices
    alone = [naive_twins.squared_mmd(row[None, :], target, gamma=gamma) for row in pool]
    assert first == np.argmin(alone)
    step = 1e-6
    lowered = []
    for row in range(len(pool)):
        pair, share = pool[[first, row]], np.array([1.0 - step, step])
        within = share @ naive_twins.kernel_matrix(pair, pair, gamma=gamma) @ share
        lowered.append(within - 2 * share @ naive_twins.kernel_matrix(pair, target, gamma=gamma).mean(axis=1))
    lowered[first] = np.inf
    assert second == np.argmin(lowered)


@pytest.mark.parametrize("seed", range(6))
def test_picks_are_those_of_a_plain_pursuit_with_optimal_weights(seed: int) -> None:
    pool, target = points(seed, 60, 3), points(seed + 50, 20, 3, mean=0.4, scale=0.8)
    kernel = naive_twins.kernel_matrix(pool, pool, gamma=0.5)
    attraction = naive_twins.kernel_matrix(pool, target, gamma=0.5).mean(axis=1)
    chosen = [int(np.argmax(attraction))]
    for _ in range(9):
        scores = attraction - kernel[:, chosen] @ weights(pool[chosen], target, gamma=0.5)
        scores[chosen] = -np.inf
        chosen.append(int(np.argmax(scores)))
    assert match_weighted(pool, target, 10, gamma=0.5).indices.tolist() == chosen


def test_equal_rows_are_picked_in_order_of_their_index() -> None:
    assert match_weighted(np.zeros((700, 2)), [[0.0, 0.0]], 40, gamma=1.0).indices.tolist() == list(range(40))
    tiled = np.tile(points(1, 400, 3), (3, 1))
    picked = match_weighted(tiled, points(2, 50, 3), 60, gamma=0.3).indices
    for place, row in enumerate(picked):
        earlier = set(picked[:place].tolist())
        assert set(range(row % 400, row, 400)) <= earlier


# The weights.


@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 2**32),
    pool_rows=st.integers(1, 60),
    columns=st.integers(1, 4),
    gamma=st.floats(0.01, 10),
    copies=st.booleans(),
    data=st.data(),
)
def test_weights_are_optimal_for_the_picks_and_picks_are_distinct(
    seed: int, pool_rows: int, columns: int, gamma: float, copies: bool, data: st.DataObject
) -> None:
    coins = public_coins(seed)
    pool, target = coins.normal(size=(pool_rows, columns)), coins.normal(0.4, 1.0, size=(12, columns))
    if copies:
        pool = pool[coins.integers(pool_rows, size=pool_rows)]
    size = data.draw(st.integers(1, pool_rows))
    found = match_weighted(pool, target, size, gamma=gamma)
    assert len(found) == len(found.weights) == len(np.unique(found.indices)) == size
    assert found.weights.min() >= 0.0
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert kkt_violation(pool[found.indices], target, found.weights, gamma) < 1e-7


@pytest.mark.parametrize("gamma", [0.02, 0.5, 8.0])
def test_the_weights_that_steer_the_picks_are_optimal_for_the_rows_that_carry_them(gamma: float) -> None:
    """They may differ from the best ones only in rows that were dropped on the way."""
    pool, target = points(3, 80, 2), points(4, 30, 2, mean=0.5, scale=0.6)
    attraction = naive_twins.kernel_matrix(pool, target, gamma=gamma).mean(axis=1)
    fit = weighted_matching._Fit(pool, 40, gamma)
    for index in range(40):
        fit.add(index, float(attraction[index]))
        assert fit.weights.min() >= 0.0
        assert fit.weights.sum() == pytest.approx(1.0, abs=1e-9)
        carrying = np.flatnonzero(fit.weights)
        assert kkt_violation(pool[carrying], target, fit.weights[carrying], gamma) < 1e-6


# The quality.


def _mixture(coins: np.random.Generator) -> tuple[Rows, Rows]:
    means = coins.normal(0, 0.6, size=(8, 10))
    pool = means[coins.integers(8, size=6000)] + coins.normal(size=(6000, 10))
    return pool, means[coins.integers(2, size=200)] + coins.normal(size=(200, 10)) + 0.1


def _few_different_rows(coins: np.random.Generator) -> tuple[Rows, Rows]:
    pool, target = _mixture(coins)
    return pool[coins.integers(300, size=6000)], target


def _two_per_cent_right_rows(coins: np.random.Generator) -> tuple[Rows, Rows]:
    pool = coins.normal(size=(6000, 5)) + 4.0
    right = coins.choice(6000, size=120, replace=False)
    pool[right] = 0.5 * coins.normal(size=(120, 5))
    return pool, 0.5 * coins.normal(size=(100, 5))


def _far_from_zero(coins: np.random.Generator) -> tuple[Rows, Rows]:
    pool, target = _mixture(coins)
    return pool + 1000.0, target + 1000.0


def _small_part_of_the_target_is_elsewhere(coins: np.random.Generator) -> tuple[Rows, Rows]:
    pool, target = coins.normal(size=(6000, 3)), coins.normal(size=(200, 3))
    pool[coins.choice(6000, size=60, replace=False)] += 8.0
    target[:10] += 8.0
    return pool, target


def _out_of_reach(coins: np.random.Generator) -> tuple[Rows, Rows]:
    return coins.normal(size=(6000, 3)), coins.normal(3.0, 0.5, size=(200, 3))


def _a_square(coins: np.random.Generator) -> tuple[Rows, Rows]:
    return coins.uniform(-1, 1, size=(6000, 2)), coins.uniform(-1, 1, size=(300, 2))


def _heavy_tails(coins: np.random.Generator) -> tuple[Rows, Rows]:
    return coins.standard_t(2, size=(6000, 2)), coins.standard_t(2, size=(300, 2))


DATA = [
    _mixture,
    _few_different_rows,
    _two_per_cent_right_rows,
    _far_from_zero,
    _small_part_of_the_target_is_elsewhere,
    _out_of_reach,
    _a_square,
    _heavy_tails,
]


@pytest.mark.parametrize("width", [0.3, 3.0], ids=["wide", "narrow"])
@pytest.mark.parametrize("data", DATA)
def test_it_matches_at_least_as_well_as_weights_put_on_the_rows_of_block(data: Any, width: float) -> None:
    """A hundredth of luck is allowed, and 1e-7, below which float32 scores are rounding."""
    coins = np.random.default_rng(0)  # pinned: on other pools either may be better, by luck
    pool, target = (rows.astype(np.float32) for rows in data(coins))
    gamma = median_gamma(target, scale=width, coins=coins)
    found = match_weighted(pool, target, 100, gamma=gamma)
    assert len(np.unique(found.indices)) == 100
    block = exact_greedy(pool, target, 100, gamma=gamma).indices
    afterwards = weights(pool[block], target, gamma=gamma)
    left = squared_mmd(pool[found.indices], target, gamma=gamma, weights=found.weights)
    assert left <= 1.01 * squared_mmd(pool[block], target, gamma=gamma, weights=afterwards) + 1e-7


def test_groups_of_picks_cost_little_quality() -> None:
    """Against scoring all rows after each pick, which the first picks do anyway."""
    coins = np.random.default_rng(1)  # pinned: on other pools either way is better, by luck
    pool, target = (rows.astype(np.float32) for rows in _mixture(coins))
    left = []
    for largest_group in (weighted_matching._LARGEST_GROUP, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weighted_matching, "_LARGEST_GROUP", largest_group)
            found = match_weighted(pool, target, 100, gamma=0.05)
        left.append(squared_mmd(pool[found.indices], target, gamma=0.05, weights=found.weights))
    assert left[0] <= 1.05 * left[1]


# Behaviour.


def test_a_pool_can_be_matched_down_to_its_last_row() -> None:
    pool, target = points(5, 120, 2), points(6, 30, 2)
    found = match_weighted(pool, target, 120, gamma=0.5)
    np.testing.assert_array_equal(np.sort(found.indices), np.arange(120))
    assert kkt_violation(pool[found.indices], target, found.weights, 0.5) < 1e-7


def test_the_same_arguments_give_the_same_match_and_are_only_read() -> None:
    pool, target = points(7, 3000, 4).astype(np.float32), points(8, 40, 4)
    pool.flags.writeable = target.flags.writeable = False
    one, two = (match_weighted(same, target, 50, gamma=0.2) for same in (pool, np.asfortranarray(pool)))
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-12)


def test_progress_counts_up_to_the_size() -> None:
    seen: list[tuple[int, int]] = []
    match_weighted(points(9, 500, 2), points(10, 20, 2), 40, gamma=0.5, progress=lambda *at: seen.append(at))
    assert seen[-1] == (40, 40)
    assert [made for made, _ in seen] == sorted({made for made, _ in seen})


GOOD: dict[str, Any] = {"pool": np.zeros((5, 2)), "target": np.zeros((3, 2)), "size": 2, "gamma": 1.0}


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("pool", np.zeros(5)),
        ("pool", np.zeros((0, 2))),
        ("pool", [[np.nan, 0.0]] * 5),
        ("pool", [["a", "b"]] * 5),
        ("target", np.zeros((3, 3))),
        ("target", np.zeros((0, 2))),
        ("target", [[np.inf, 0.0]]),
        ("size", 6),
        ("size", 0),
        ("size", 1.5),
        ("gamma", 0.0),
        ("gamma", -1.0),
        ("gamma", float("nan")),
        ("gamma", "wide"),
    ],
)
def test_bad_input_is_named(argument: str, value: object) -> None:
    arguments = {**GOOD, argument: value}
    with pytest.raises(InvalidArgument) as caught:
        match_weighted(arguments["pool"], arguments["target"], arguments["size"], gamma=arguments["gamma"])
    assert caught.value.argument == argument
