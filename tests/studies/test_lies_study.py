"""Lies change what they say they change, honest labels are not contradicted, and pages are made of the record."""

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import pinned_coins
from likeset.simulation import LabelledMarket
from studies.contract import Options
from studies.joint_axes import STUDY as AXES
from studies.liars import LIES, STUDY, contradicted, tell_lie

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


@pytest.mark.slow
def test_a_cell_of_each_study_can_be_run() -> None:
    cell = next(
        cell for cell in STUDY.cells(Options(seeds=1)) if cell["lie"] == "copies" and cell["labels"] == "guarded"
    )
    assert STUDY.run(cell)["distinct"] < 0.1
    base = AXES.cells(Options(seeds=1))[0]
    assert 0.5 < AXES.run(base)["accuracy"] <= 1.0
