"""Lies change what they say they change, honest labels are not contradicted, and pages are made of the record."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import pinned_coins
from likeset.errors import InvalidArgument
from likeset.simulation import LabelledMarket
from studies.contract import Cell, Options, RecordLine, Study
from studies.joint_axes import STUDY as AXES
from studies.liars import STUDY, alike_market
from studies.lies import LIES, contradicted, tell_lie, without_contradicted

GAMMA = 0.5


def _market() -> LabelledMarket:
    """Three owners alike, two classes that are easy to tell."""
    coins = pinned_coins("three owners alike")

    def draw(rows: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        labels = np.arange(rows) % 2 + 3
        return (coins.normal(size=(rows, 2)) + 5.0 * (labels == 4)[:, None]).astype(np.float32), labels

    drawn = {name: draw(40) for name in ("liar", "second", "third")}
    target, (test, test_labels) = draw(30)[0], draw(20)
    return LabelledMarket(
        owners={name: rows for name, (rows, _) in drawn.items()},
        labels={name: labels for name, (_, labels) in drawn.items()},
        target=target,
        test=test,
        test_labels=test_labels,
    )


@pytest.mark.parametrize("lie", LIES)
def test_only_the_first_owner_lies_and_offers_as_many_rows(lie: str) -> None:
    honest, lying = _market(), tell_lie(_market(), lie, coins=pinned_coins("a lie"))
    for name in ("second", "third"):
        np.testing.assert_array_equal(lying.owners[name], honest.owners[name])
        np.testing.assert_array_equal(lying.labels[name], honest.labels[name])
    assert lying.owners["liar"].shape == honest.owners["liar"].shape
    same_rows = np.array_equal(lying.owners["liar"], honest.owners["liar"])
    same_labels = np.array_equal(lying.labels["liar"], honest.labels["liar"])
    assert (same_rows and same_labels) == (lie == "honest")


def test_others_contradict_wrong_labels_and_no_right_ones() -> None:
    judged = contradicted(tell_lie(_market(), "relabelled", coins=pinned_coins("a lie")), gamma=GAMMA)
    assert judged[0].mean() > 0.8
    assert max(part.mean() for part in judged[1:]) < 0.1


def test_contradicted_rows_are_left_out_and_their_labels_with_them() -> None:
    market = _market()
    judged = [np.arange(40) < 30, np.zeros(40, dtype=bool), np.ones(40, dtype=bool)]
    left = without_contradicted(market, judged)
    assert [len(rows) for rows in left.owners.values()] == [10, 40, 1]
    np.testing.assert_array_equal(left.owners["liar"], market.owners["liar"][30:])
    np.testing.assert_array_equal(left.labels["liar"], market.labels["liar"][30:])


def test_nobody_of_the_market_holds_a_row_of_the_target() -> None:
    market = alike_market(0)
    everything = np.concatenate([market.pool, market.target, market.test])
    assert len(everything) == 1797
    assert len(market.target) == 100


@pytest.mark.parametrize("study", [STUDY, AXES], ids=["liars", "joint-axes"])
def test_cells_differ_and_data_are_refused(study: Study) -> None:
    keys = [cell.key for cell in study.cells(Options(seeds=2))]
    assert len(set(keys)) == len(keys)
    with pytest.raises(InvalidArgument, match="scikit-learn"):
        study.cells(Options(data="somewhere"))


def _line(cell: Cell, results: dict[str, float]) -> RecordLine:
    return RecordLine(cell.key, cell.study, cell.settings, results, "", 1.0, "0", "2026-01-01")


def test_a_table_of_lies_gives_means_by_how_labels_are_used(tmp_path: Path) -> None:
    results = {"liars_picks": 0.5, "contradicted_liar": 0.9, "contradicted_others": 0.1, "distinct": 1.0}
    accuracies = {"match": 0.75, "ignore": 0.5, "guarded": 1.0}
    lines = [_line(cell, {**results, "accuracy": accuracies[cell["labels"]]}) for cell in STUDY.cells(Options(seeds=2))]
    tables = STUDY.present(lines, tmp_path).tables
    assert [len(table.rows) for table in tables] == [len(LIES), len(LIES)]
    assert tables[0].rows[1][:4] == ["useless", "0.750", "0.500", "1.000"]
    assert tables[0].rows[1][7:] == ["0.900", "0.100", "1.000"]


def test_a_table_of_an_axis_divides_by_exact_greedy_of_the_same_size(tmp_path: Path) -> None:
    lines = [
        _line(cell, {"accuracy": 0.5, "squared_mmd": 1.0 if cell["method"] == "exact" else float(cell["size"])})
        for cell in AXES.cells(Options(seeds=1))
    ]
    by_size = AXES.present(lines, tmp_path).tables[2]
    assert [row[0] for row in by_size.rows] == ["15", "30", "60"]
    assert [row[3] for row in by_size.rows] == ["15.00", "30.00", "60.00"]


def test_a_cell_of_each_study_can_be_run() -> None:
    cell = next(
        cell for cell in STUDY.cells(Options(seeds=1)) if cell["lie"] == "copies" and cell["labels"] == "guarded"
    )
    assert STUDY.run(cell)["distinct"] < 0.1
    base = AXES.cells(Options(seeds=1))[0]
    assert 0.5 < AXES.run(base)["accuracy"] <= 1.0
