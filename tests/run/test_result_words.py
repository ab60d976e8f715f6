"""Shares that owners are told of sum to the whole."""

import pytest

from likeset.run.result_words import shapley_shares


def test_shapley_values_become_parts_of_their_sum() -> None:
    """0.3, 0.09 and 0 sum to 0.39, so that the first is 30 of 39 parts."""
    shares = shapley_shares([{"shapley": 0.3}, {"shapley": 0.09}, {"shapley": 0.0}])
    assert shares == pytest.approx([30 / 39, 9 / 39, 0.0])


@pytest.mark.parametrize("value", [None, 0.0, -0.2])
def test_what_comes_to_nothing_has_no_parts(value: float | None) -> None:
    assert shapley_shares([{"shapley": value}, {"shapley": value}]) == [None, None]
