"""Studies of labels: which cells they have, and what their tables compare with what."""

import numpy as np
import pytest

from studies.contract import Cell, RecordLine
from studies.label_judging import comparison_table, judge_training, shares_table


def line(seed: int, part: str, results: dict[str, float], measure: str = "accuracy") -> RecordLine:
    cell = Cell("joint-families", {"family": "some", "seed": seed, "part": part})
    by_way = {way: {measure: value} for way, value in results.items()}
    return RecordLine(cell.key, cell.study, cell.settings, by_way, "", 1.0, "0", "2026-01-01")


def test_labels_matched_are_compared_with_labels_ignored_seed_by_seed() -> None:
    lines = [line(seed, "labels", {"match": 0.5 + seed / 10, "ignore": 0.5}) for seed in (1, 3)]
    assert comparison_table("x", lines, "accuracy").rows == [["some", "0.700", "0.500", "+0.200 ± 0.100", "2"]]


def test_class_shares_are_compared_with_exact_greedys_seed_by_seed() -> None:
    """Three of four rows are of class 1 and half of the test rows: a quarter too many."""
    rows, labels = np.array([[0.0], [1.0], [1.1], [1.2]], np.float32), np.array([0, 1, 1, 1])
    judged = judge_training(rows, labels, test=rows, test_labels=np.array([0, 0, 1, 1]), rare=1)
    assert judged["shares_off"] == pytest.approx(0.25)
    lines = [
        line(seed, "labels", {"match": 0.3 + seed / 10, "ignore": 0.3, "exact": 0.2}, "shares_off") for seed in (0, 2)
    ]
    (row,) = shares_table(lines).rows
    assert row == ["some", "0.400", "0.300", "0.200", "+0.200 ± 0.100", "+0.100 ± 0.000", "2"]
