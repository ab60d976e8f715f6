"""``make study`` as typed: the list, a run, a run that goes on, and what is wrong with the input in one line."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from studies.command import main
from studies.registry import STUDIES

ROOT = Path(__file__).parents[2]
SMALL = ["digits", "--seeds", "1", "--sizes", "20", "--methods", "exact,greedy,uniform", "--workers", "0"]


def study(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["studies", *arguments])
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_alone_it_lists_the_studies(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert study("--json", monkeypatch=monkeypatch) == 0
    assert list(json.loads(capsys.readouterr().out)["studies"]) == list(STUDIES)
    assert study(monkeypatch=monkeypatch) == 0
    assert "digits" in capsys.readouterr().out


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


def test_the_records_in_the_repository_are_those_of_studies() -> None:
    assert {path.parent.name for path in ROOT.glob("studies/results/*/cells.jsonl")} <= set(STUDIES)


def test_where_every_cell_fails_the_answer_is_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """More rows are wanted than anybody has."""
    words = ["digits", "--seeds", "1", "--sizes", "5000", "--methods", "uniform", "--workers", "0"]
    assert study(*words, "--out", str(tmp_path), monkeypatch=monkeypatch) == 1
    assert "size" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["digitz"], "did you mean digits?"),
        (["xxxxxxxx"], "there are digits"),
        (["mnist"], "must name mnist.npz"),
        (["mnist", "--data", "nowhere.npz"], "neither a file nor a folder"),
        (["heart", "--data", "nowhere.csv"], "is no file"),
        (["allstate"], "raw train.csv of Kaggle's competition allstate-purchase-prediction-challenge"),
        (["digits", "--data", "x.csv"], "is not needed"),
        (["digits", "--page"], "has no record"),
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
    assert study(*words, "--out", "out", monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1


def made(*words: str) -> list[str]:
    """What ``make study`` with these words would start, with a variable in the environment that is somebody else's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(  # noqa: S603 - our own Makefile, and nothing is run
        ["make", "--dry-run", "--assume-old=.venv/.developed", "study", *words],  # noqa: S607 - whichever make is there
        cwd=ROOT,
        env=environment | {"NAME": "a-machine", "OUT": "elsewhere"},
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=600,
    )
    return [word for word in shlex.split(done.stdout) if word != "\n"]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make_hands_on_what_was_typed_and_nothing_else() -> None:
    start = [".venv/bin/python", "-m", "studies"]
    assert made() == start
    words = ("NAME=mnist", "DATA=it's a file.npz", "SEEDS=2", "SIZES=20,50", "EPSILON=0.5", "METHODS=exact")
    options = ["--data", "it's a file.npz", "--seeds", "2", "--sizes", "20,50", "--epsilon", "0.5"]
    assert made(*words) == [*start, "mnist", *options, "--methods", "exact"]
    assert made("NAME=digits", "WORKERS=1", "OUT=here") == [*start, "digits", "--workers", "1", "--out", "here"]


@pytest.mark.slow
def test_the_folder_runs_as_a_program_with_processes_of_its_own(tmp_path: Path) -> None:
    """As ``make study`` starts it: two workers find the studies, which are not installed."""
    words = ["digits", "--seeds", "1", "--sizes", "20", "--methods", "uniform", "--workers", "2", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "studies", *words, "--out", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == {}
