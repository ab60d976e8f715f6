"""The paper's condition and objective are those of their definitions."""

import itertools
import math

import numpy as np
import pytest

from chance import public_coins
from naive_twins import objective
from studies import theory_measures as measures


def test_the_condition_of_two_rows() -> None:
    """N = 2: allowed is 1/(8 + 12 + 2) = 1/22; at distance 3 it holds from gamma = log(22)/9 on."""
    rows = np.array([[0.0, 0.0], [0.0, 3.0]], dtype=np.float32)
    found = measures.theorem_condition(rows, gamma=0.1)
    assert found["allowed_kernel"] == pytest.approx(1 / 22)
    assert found["largest_kernel"] == pytest.approx(math.exp(-0.9))
    assert found["excess"] == pytest.approx(22 * math.exp(-0.9))
    assert found["needed_gamma"] == pytest.approx(math.log(22) / 9)
    assert not found["holds"]
    assert measures.theorem_condition(rows, gamma=1.001 * found["needed_gamma"])["holds"]


def test_values_of_subsets_are_the_papers_objective() -> None:
    coins = public_coins(1)
    pool, target = coins.normal(size=(7, 3)).astype(np.float32), coins.normal(size=(5, 3)).astype(np.float32)
    found = measures.small_optimum(pool, target, size=3, gamma=0.2)
    values = [objective(pool[list(some)], target, gamma=0.2) for some in itertools.combinations(range(7), 3)]
    assert found["best"] == pytest.approx(max(values))
    assert found["greedy"] <= found["best"] + 1e-12
