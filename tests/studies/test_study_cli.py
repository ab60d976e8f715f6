"""``make study`` as typed: the list, a run, a run that goes on, and what is wrong with the input in one line."""

import json
import os
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
        (["xxxxxxxx"], "there are digits"),
        (["mnist"], "must name mnist.npz"),
        (["mnist", "--data", "nowhere.npz"], "neither a file nor a folder"),
        (["digits", "--data", "x.csv"], "is not needed"),
        (["digits", "--page"], "has no record"),
        (["digits", "--sizes", "20,many"], "whole numbers"),
        (["digits", "--sizes", "0"], "at least 2"),
        (["digits", "--epsilon", "-1"], "above zero"),
        (["digits", "--epsilon", "one"], "numbers with commas"),
        (["digits", "--methods", "sealde"], "did you mean sealed?"),
        (["digits", "--methods", ","], "at least one"),
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
