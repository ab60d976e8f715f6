"""Weights are the optimum of their convex problem."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chance import examples, public_coins
from likeset.geometry.weights import weights
from naive_twins import kkt_violation


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32),
    selected=st.integers(1, 30),
    target=st.integers(1, 30),
    columns=st.integers(1, 4),
    gamma=st.floats(0.01, 10),
    copies=st.booleans(),
)
def test_weights_meet_the_optimality_conditions(
    seed: int, selected: int, target: int, columns: int, gamma: float, copies: bool
) -> None:
    coins = public_coins(seed)
    rows, wanted = coins.normal(size=(selected, columns)), coins.normal(size=(target, columns))
    if copies:
        rows = rows[coins.integers(len(rows), size=len(rows))]
    found = weights(rows, wanted, gamma=gamma)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    # The jitter of 1e-9 on the diagonal moves the optimum by no more than that in squared MMD.
    assert kkt_violation(rows, wanted, found, gamma) < 1e-7


@pytest.mark.parametrize("gamma", [1e-8, 1e-4, 50.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_very_wide_and_very_narrow_kernels_stay_optimal(gamma: float, dtype: type[np.floating]) -> None:
    coins = public_coins(6)
    rows = coins.normal(size=(80, 3)).astype(dtype)
    rows[40:60] = rows[:20]
    target = coins.normal(size=(50, 3)).astype(dtype)
    found = weights(rows, target, gamma=gamma)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1.0)
    assert kkt_violation(rows.astype(np.float64), target.astype(np.float64), found, gamma) < 1e-7
