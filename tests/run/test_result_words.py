"""A summary that is far from the target is called that."""

import pytest

from likeset.run.result import Likeness
from likeset.run.result_words import closeness


@pytest.mark.parametrize(
    ("low", "rows", "far"),
    [(0.09, 100, False), (0.11, 100, True), (0.75, 5, False), (0.85, 5, True)],  # five fresh rows may come to a fifth
)
def test_a_summary_is_far_by_the_lower_end_of_its_interval(low: float, rows: int, far: bool) -> None:
    likeness = Likeness(squared_mmd=0.9, low=low, high=1.0, curve=())
    words = closeness(likeness, in_sample=0.1, target_rows=70, rows=rows).after
    assert ("that is far" in words) == far
