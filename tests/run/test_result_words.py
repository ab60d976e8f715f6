"""Shares that owners are told of sum to the whole; a summary that is far is called that."""

import pytest

from likeset.run.result import Likeness
from likeset.run.result_words import closeness, shapley_shares


@pytest.mark.parametrize(
    ("low", "rows", "words"),
    [
        (0.09, 100, "60 rows would match better"),
        (0.11, 100, "few rows like yours were offered"),
        (0.75, 5, "60 rows would match better"),  # five fresh rows may come to a fifth
        (0.85, 5, "few rows like yours were offered"),
    ],
)
def test_a_size_is_recommended_unless_nothing_is_near(low: float, rows: int, words: str) -> None:
    likeness = Likeness(squared_mmd=0.9, low=low, high=1.0, recommended_size=60, curve=())
    assert words in closeness(likeness, in_sample=0.1, target_rows=70, rows=rows).after


def test_shapley_values_become_parts_of_their_sum() -> None:
    """0.3, 0.09 and 0 sum to 0.39, so that the first is 30 of 39 parts."""
    shares = shapley_shares([{"shapley": 0.3}, {"shapley": 0.09}, {"shapley": 0.0}])
    assert shares == pytest.approx([30 / 39, 9 / 39, 0.0])


@pytest.mark.parametrize("value", [None, 0.0, -0.2])
def test_what_comes_to_nothing_has_no_parts(value: float | None) -> None:
    assert shapley_shares([{"shapley": value}, {"shapley": value}]) == [None, None]
