"""Studies of labels: which cells they have, and what their tables compare with what."""

from dataclasses import replace

import numpy as np
import pytest

from studies.contract import Cell, Options, RecordLine
from studies.digits import STUDY as DIGITS
from studies.joint_families import STUDY as FAMILIES
from studies.judged_families import JUDGEMENT, market_of
from studies.label_judging import comparison_table, judge_training, ways_table


def line(seed: int, part: str, results: dict[str, float]) -> RecordLine:
    cell = Cell("joint-families", {"family": "some", "seed": seed, "part": part})
    by_way = {way: {"accuracy": accuracy} for way, accuracy in results.items()}
    return RecordLine(cell.key, cell.study, cell.settings, by_way, "", 1.0, "0", "2026-01-01")


def test_the_rule_is_compared_with_the_best_way_on_the_seeds_that_both_have() -> None:
    """On seeds 1 and 2 *all* has .6 and .7, *matched* .9 and .2: the best mean is .65, and the rule has .05 more."""
    rule = [line(seed, "labels", {"match": accuracy}) for seed, accuracy in ((1, 0.6), (2, 0.8), (3, 0.1))]
    ways = [line(seed, "other ways", {"all": one, "matched": two}) for seed, one, two in ((1, 0.6, 0.9), (2, 0.7, 0.2))]
    (row,) = ways_table(rule, ("all", "matched"), ways, "accuracy").rows
    assert row == ["some", "0.700", "0.650", "0.550", "+0.050 ± 0.050 (all)", "2"]
    assert ways_table(rule, ("all",), [line(4, "other ways", {"all": 0.5})], "accuracy").rows == []


def test_labels_matched_are_compared_with_labels_ignored_seed_by_seed() -> None:
    lines = [line(seed, "labels", {"match": 0.5 + seed / 10, "ignore": 0.5}) for seed in (1, 3)]
    assert comparison_table("x", lines, "accuracy").rows == [["some", "0.700", "0.500", "+0.200 ± 0.100", "2"]]


def test_a_comparison_takes_fewer_seeds_of_a_method_and_of_a_variant_at_an_epsilon() -> None:
    (variant, *_) = DIGITS.variants
    study = replace(
        DIGITS,
        methods=("exact", "sealed"),
        sizes=(40,),
        epsilons=(0.5, 1.0),
        widths=DIGITS.widths[:1],
        seeds_of={"exact": 1},
        seeds_at={(variant, 0.5): 2},
    )
    cells = [cell for cell in study.cells(Options(seeds=3)) if cell["market"] == variant]
    counted = {
        key: sum((cell["method"], cell["epsilon"]) == key for cell in cells)
        for key in (("exact", None), ("sealed", 0.5), ("sealed", 1.0))
    }
    assert counted == {("exact", None): 1, ("sealed", 0.5): 2, ("sealed", 1.0): 3}


def test_other_ways_have_the_seeds_of_the_rule() -> None:
    cells = FAMILIES.cells(Options(seeds=2))
    rule, ways = (
        {(cell["family"], cell["seed"]) for cell in cells if cell["part"] == part} for part in ("labels", "other ways")
    )
    assert len(rule) == 2 * len(JUDGEMENT)
    assert ways
    assert ways < rule


def test_a_rare_class_has_test_rows_of_its_own_that_count_in_its_recall_only() -> None:
    market = market_of("3% far", 0)
    assert market.rare_test is not None
    rows, labels = np.array([[0.0], [0.1], [1.0], [1.1]], np.float32), np.array([0, 0, 1, 1])
    judged = judge_training(
        rows, labels, test=rows, test_labels=labels, rare=1, rare_test=np.full((4, 1), 1.2, np.float32)
    )
    assert judged["accuracy"] == judged["rare"] == 1.0
    wrong = judge_training(rows, labels, test=rows, test_labels=labels, rare=1, rare_test=np.zeros((4, 1), np.float32))
    assert wrong["accuracy"] == pytest.approx(1.0)
    assert wrong["rare"] == 0.0
