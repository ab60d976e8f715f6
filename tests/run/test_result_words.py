"""A summary that is far from the target is called that."""

import pytest

from likeset.run.result import Likeness
from likeset.run.result_words import closeness


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
