"""What runs studies: nothing is computed twice, nothing finished is lost, and no cell takes the others with it."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from studies.command import main
from studies.contract import SIMULATED, Cell, Options, Presentation, RecordLine
from studies.runner import run_study


@dataclass(frozen=True)
class Squares:
    """Cells 0, 1, ...; a folder (the cells' source) keeps a file for each time that a cell was run.

    A file ``fail-N`` or ``die-N`` in that folder makes cell N fail or die.
    """

    name: str = "squares"
    description: str = "squares of numbers"

    def cells(self, options: Options) -> Sequence[Cell]:
        return [
            Cell(self.name, {"seed": 0, "number": number}, source=options.data) for number in range(options.seeds or 4)
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        assert cell.source is not None
        number, folder = cell["number"], Path(cell.source)
        runs = len(list(folder.glob(f"ran-{number}-*")))
        (folder / f"ran-{number}-{runs}").write_text(os.environ.get("OPENBLAS_NUM_THREADS", ""), encoding="utf-8")
        if (folder / f"fail-{number}").exists():
            raise ArithmeticError("no square today")
        if (folder / f"die-{number}").exists():
            os._exit(9)
        if (folder / f"nan-{number}").exists():
            return {"square": float("nan")}
        return {"square": number * number}

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:
        raise NotImplementedError


SMALL = ["digits", "--seeds", "1", "--sizes", "20", "--methods", "exact,greedy,uniform", "--workers", "0"]


def study(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["studies", *arguments])
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_a_run_leaves_record_page_and_figures_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    assert study(*SMALL, "--out", str(out), monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "6 cells, 0 of them on record" in said
    assert "not private" in said
    page = (out / "README.md").read_text(encoding="utf-8")
    assert "`make study NAME=digits SEEDS=1 SIZES=20 METHODS=exact,greedy,uniform`" in page
    assert len(list(out.glob("*.svg"))) == 2
    assert study(*SMALL, "--out", str(out), "--json", monkeypatch=monkeypatch) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cells"] == 6
    assert document["failed"] == {}
    assert "not private" in document["noise"]
    assert len((out / "cells.jsonl").read_text(encoding="utf-8").splitlines()) == 6
    (out / "README.md").unlink()
    assert study(*SMALL, "--page", "--out", str(out), monkeypatch=monkeypatch) == 0
    assert (out / "README.md").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["digitz"], "did you mean digits?"),
        (["mnist"], "must name mnist.npz"),
        (["digits", "--page"], "has no record"),
        (["digits", "--epsilon", "one"], "numbers with commas"),
        (["digits", "--methods", "sealde"], "did you mean sealed?"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert study(*words, "--out", "out", monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1


def runs(folder: Path) -> list[int]:
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
