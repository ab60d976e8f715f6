"""A small study of digits, and what it must show by margins that noise cannot cross."""

from dataclasses import replace
from statistics import fmean

import pytest

from studies.comparison import Width
from studies.comparisons import DIGITS
from studies.contract import Options, RecordLine
from studies.runner import run_study

NAMES = ("exact", "greedy", "sealed", "uniform-offers", "private", "uniform")
STUDY = replace(DIGITS, widths=(Width(scale=1.0),))
OPTIONS = Options(seeds=3, sizes=(40,), methods=NAMES)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[RecordLine]:
    found = run_study(STUDY, OPTIONS, out=tmp_path_factory.mktemp("digits"), workers=0)
    assert [line.failure for line in found if not line.done] == []
    return found


def mean(lines: list[RecordLine], method: str, result: str = "squared_mmd") -> float:
    return fmean(line.results[result] for line in lines if line["method"] == method)


@pytest.mark.slow
def test_exact_greedy_is_lowest_in_every_seed(lines: list[RecordLine]) -> None:
    """Sealed swaps rows at the end and can come near; a tenth is allowed for that."""
    for seed in range(3):
        mine = {line["method"]: line.results["squared_mmd"] for line in lines if line["seed"] == seed}
        assert all(mine["exact"] < 1.1 * value for name, value in mine.items() if name != "exact")
        assert mine["exact"] < mine["greedy"]
        assert mine["exact"] < 0.2 * mine["uniform"]


@pytest.mark.slow
def test_the_published_protocol_is_not_much_better_than_uniform_sampling(lines: list[RecordLine]) -> None:
    """At its own epsilon it does not fall below 0.4 of uniform sampling, and stays far from greedy."""
    assert mean(lines, "private") > 0.4 * mean(lines, "uniform")
    assert mean(lines, "private") > 3.0 * mean(lines, "greedy")
