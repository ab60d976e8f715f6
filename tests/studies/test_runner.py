"""What runs studies: nothing is computed twice, nothing finished is lost, and no cell takes the others with it."""

import json
import os
from pathlib import Path

import pytest
from small_study import Squares

from likeset.errors import InvalidArgument
from studies.contract import SIMULATED, Cell, Options, RecordLine
from studies.pages import write_page
from studies.runner import run_study


def runs(folder: Path) -> list[int]:
    """Which cells were run, once for each time."""
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("ran-*"))


def go(tmp_path: Path, *, seeds: int = 4, workers: int = 0, out: str = "out") -> list[RecordLine]:
    return run_study(Squares(), Options(data=str(tmp_path), seeds=seeds), out=tmp_path / out, workers=workers)


def test_every_cell_leaves_a_line_from_which_it_can_be_repeated(tmp_path: Path) -> None:
    lines = go(tmp_path)
    assert [line["square"] for line in lines] == [0, 1, 4, 9]
    text = (tmp_path / "out" / "cells.jsonl").read_text(encoding="utf-8")
    documents = [json.loads(one) for one in text.splitlines()]
    assert [document["settings"] for document in documents] == [{"seed": 0, "number": n} for n in range(4)]
    assert {document["noise"] for document in documents} == {SIMULATED}
    assert all(document["version"] and document["date"] and document["seconds"] >= 0 for document in documents)
    assert str(tmp_path) not in text, "where the data lay is nobody's business"
    repeated = Cell("squares", documents[3]["settings"], source=str(tmp_path))
    assert repeated.key == documents[3]["key"]
    assert Squares().run(repeated) == documents[3]["results"]


@pytest.mark.parametrize("kept", [1, 30, 10_000])
def test_a_torn_last_line_is_dropped_and_its_cell_run_again(tmp_path: Path, kept: int) -> None:
    go(tmp_path)
    record = tmp_path / "out" / "cells.jsonl"
    *whole, last = record.read_text(encoding="utf-8").splitlines(keepends=True)
    record.write_text("".join(whole) + last.rstrip("\n")[:kept], encoding="utf-8")
    assert [line["square"] for line in go(tmp_path)] == [0, 1, 4, 9]
    assert runs(tmp_path) == [0, 1, 2, 3, 3]
    assert len(record.read_text(encoding="utf-8").splitlines()) == 4


def test_a_failed_cell_is_recorded_the_others_go_on_and_it_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "fail-1").touch()
    (tmp_path / "nan-2").touch()
    lines = go(tmp_path)
    assert [line.done for line in lines] == [True, False, False, True]
    assert lines[1].failure == "ArithmeticError: no square today"
    assert "JSON" in lines[2].failure
    (tmp_path / "fail-1").unlink()
    (tmp_path / "nan-2").unlink()
    assert [line["square"] for line in go(tmp_path)] == [0, 1, 4, 9]
    assert runs(tmp_path) == [0, 1, 1, 2, 2, 3]


def test_processes_have_one_thread_each_and_one_that_dies_takes_only_its_cell(tmp_path: Path) -> None:
    (tmp_path / "die-0").touch()
    before = dict(os.environ)
    lines = go(tmp_path, workers=1, seeds=3)
    assert [line.done for line in lines] == [False, True, True]
    assert "ended" in lines[0].failure
    assert (tmp_path / "ran-1-0").read_text(encoding="utf-8") == "1"
    assert dict(os.environ) == before
    (tmp_path / "die-0").unlink()
    assert [line["square"] for line in go(tmp_path, workers=2, seeds=3)] == [0, 1, 4]
    assert runs(tmp_path) == [0, 0, 1, 2]


def test_the_page_names_command_date_noise_and_failures(tmp_path: Path) -> None:
    (tmp_path / "fail-1").touch()
    lines = go(tmp_path)
    out = tmp_path / "out"
    page = write_page(Squares().present(lines, out), lines, out=out, command="make study NAME=squares")
    text = page.read_text(encoding="utf-8")
    assert "imulated noise: not private" in text
    assert "`make study NAME=squares`" in text
    assert lines[0].date[:10] in text
    assert "| 3 | 9 |" in text
    assert "(squares.svg)" in text
    assert "**1 runs failed** and are left out: ArithmeticError: no square today." in text


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"seeds": 0}, "--seeds"),
        ({"seeds": 10**9}, "--seeds"),
        ({"sizes": ()}, "--sizes"),
        ({"sizes": (1,)}, "--sizes"),
        ({"sizes": (-5, 5)}, "--sizes"),
        ({"sizes": (5, 5)}, "--sizes"),
        ({"epsilons": (0.0,)}, "--epsilon"),
        ({"epsilons": (float("nan"),)}, "--epsilon"),
        ({"methods": ()}, "--methods"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Options(**options)  # type: ignore[arg-type]  # what is tested
    assert caught.value.argument == argument
