"""Newton's method within bounds: SciPy's solvers are the twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls

from chance import examples, public_coins
from likeset.geometry.newton import Derivatives, minimise
from likeset.geometry.strata import _least_squares


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_non_negative_least_squares_are_those_of_scipy(seed: int, unknowns: int) -> None:
    coins = np.random.default_rng(seed)
    system, goal = coins.normal(size=(unknowns + 5, unknowns)), coins.normal(size=unknowns + 5)
    found = _least_squares(system, goal, np.full(unknowns, 1.0 / unknowns))
    known, _ = nnls(system, goal)
    assert found == pytest.approx(known, abs=1e-7)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 2.0))
def test_a_logistic_loss_within_bounds_is_as_low_as_scipy_finds_it(seed: int, reach: float) -> None:
    """Bounds of 0.01 hold nearly all parameters, 2 nearly none."""
    coins = np.random.default_rng(seed)
    rows, signs = coins.normal(size=(30, 4)), np.where(coins.random(30) < 0.5, 1.0, -1.0)

    def loss(weights: NDArray[np.float64]) -> Derivatives:
        chances = 1.0 / (1.0 + np.exp(signs * (rows @ weights)))
        value = float(np.log1p(np.exp(-signs * (rows @ weights))).sum()) + 0.05 * float(weights @ weights)
        spread = chances * (1.0 - chances)
        return value, 0.1 * weights - rows.T @ (signs * chances), 0.1 * np.eye(4) + (rows * spread[:, None]).T @ rows

    found = minimise(loss, np.zeros(4), lowest=-reach, highest=reach)
    known = minimize(lambda weights: loss(weights)[:2], np.zeros(4), jac=True, bounds=[(-reach, reach)] * 4)
    assert np.all(np.abs(found) <= reach)
    assert loss(found)[0] <= known.fun + 1e-7


def test_a_full_step_that_overshoots_is_shortened() -> None:
    """From 3, undamped Newton on log cosh goes to about -98, and then farther away each time."""

    def function(at: NDArray[np.float64]) -> Derivatives:
        curvature = max(float(1.0 - np.tanh(at[0]) ** 2), 1e-12)
        return float(np.logaddexp(at[0], -at[0])), np.tanh(at), np.array([[curvature]])

    start = np.array([3.0 + public_coins("newton").random()])
    assert minimise(function, start) == pytest.approx([0.0], abs=1e-4)
