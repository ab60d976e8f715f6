"""Matching with weights: its first picks by brute force, its weights by their optimality, its quality against block."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive_twins
from chance import examples, public_coins
from likeset.geometry.weights import weights
from naive_twins import kkt_violation
from studies.weighted_matching import match_weighted


def points(seed: int, rows: int, columns: int, *, mean: float = 0.0, scale: float = 1.0) -> NDArray[np.float64]:
    return public_coins(seed).normal(mean, scale, size=(rows, columns))


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
