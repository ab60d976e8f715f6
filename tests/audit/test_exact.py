"""Epsilon and delta of laws small enough to do by hand."""

import math

import pytest
from exact_laws import hockey_stick, pure_epsilon

from likeset.errors import InvalidArgument


def test_randomized_response_has_the_epsilon_it_was_built_with() -> None:
    """p/(1-p) = e^epsilon; at half of it, delta = p - e^(epsilon/2) (1-p)."""
    p = math.e / (1 + math.e)
    first, second = {"yes": p, "no": 1 - p}, {"yes": 1 - p, "no": p}
    assert pure_epsilon(first, second) == pytest.approx(1)
    assert hockey_stick(first, second, epsilon=1.0) == pytest.approx(0, abs=1e-15)
    assert hockey_stick(first, second, epsilon=0.5) == pytest.approx(p - math.exp(0.5) * (1 - p))


def test_an_excluded_outcome_costs_its_probability_at_every_epsilon() -> None:
    first, second = {"asked": 1.0}, {"asked": 0.9, "not asked": 0.1}
    assert pure_epsilon(first, second) == math.inf
    for epsilon in (0.0, 1.0, 50.0):
        assert hockey_stick(first, second, epsilon=epsilon) == pytest.approx(0.1)


def test_equal_laws_cost_nothing() -> None:
    law = {1: 0.25, 2: 0.75, 3: 0.0}
    assert pure_epsilon(law, law) == 0
    assert hockey_stick(law, law, epsilon=0.0) == 0


@pytest.mark.parametrize("law", [{"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": math.nan}])
def test_what_is_not_a_law_is_refused(law: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        pure_epsilon(law, {"a": 1.0})
