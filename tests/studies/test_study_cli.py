"""``likeset study`` as typed: the list, a run, a run that goes on, and what is wrong with the input in one line."""

import json
import sys
from pathlib import Path

import pytest

from likeset.app.cli import main
from likeset.studies.registry import STUDIES

SMALL = ["digits", "--seeds", "1", "--sizes", "20", "--methods", "exact,greedy,uniform", "--workers", "0"]


def likeset(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["likeset", "study", *arguments])
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_alone_it_lists_the_studies(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert likeset("--json", monkeypatch=monkeypatch) == 0
    assert list(json.loads(capsys.readouterr().out)["studies"]) == list(STUDIES)
    assert likeset(monkeypatch=monkeypatch) == 0
    assert "digits" in capsys.readouterr().out


def test_a_run_leaves_record_page_and_figures_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    assert likeset(*SMALL, "--out", str(out), monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "6 cells, 0 of them on record" in said
    assert "not private" in said
    page = (out / "README.md").read_text(encoding="utf-8")
    assert "`likeset study digits --seeds 1 --sizes 20 --methods exact,greedy,uniform`" in page
    assert len(list(out.glob("*.svg"))) == 2
    assert likeset(*SMALL, "--out", str(out), "--json", monkeypatch=monkeypatch) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cells"] == 6
    assert document["failed"] == {}
    assert "not private" in document["noise"]
    assert len((out / "cells.jsonl").read_text(encoding="utf-8").splitlines()) == 6


def test_where_every_cell_fails_the_answer_is_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """More rows are wanted than anybody has."""
    words = ["digits", "--seeds", "1", "--sizes", "5000", "--methods", "uniform", "--workers", "0"]
    assert likeset(*words, "--out", str(tmp_path), monkeypatch=monkeypatch) == 1
    assert "size" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["digitz"], "did you mean digits?"),
        (["xxxxxxxx"], "there are digits"),
        (["mnist"], "must name mnist.npz"),
        (["mnist", "--data", "nowhere.npz"], "neither a file nor a folder"),
        (["heart", "--data", "nowhere.csv"], "is no file"),
        (["allstate"], "train.csv"),
        (["digits", "--data", "x.csv"], "is not needed"),
        (["digits", "--sizes", "20,many"], "whole numbers"),
        (["digits", "--sizes", "0"], "at least 2"),
        (["digits", "--sizes", "20,20"], "twice"),
        (["digits", "--epsilon", "-1"], "above zero"),
        (["digits", "--epsilon", "one"], "numbers with commas"),
        (["digits", "--seeds", "0"], "at least 1"),
        (["digits", "--methods", "sealde"], "did you mean sealed?"),
        (["digits", "--methods", ","], "at least one"),
        (["digits", "--workers", "-1"], "at least 0"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert likeset(*words, "--out", "out", monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1
