"""What README, claims and tutorial say to type is typed here, word by word, and prints what they show."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documented_pages import (
    CLAIMS,
    COMMANDS,
    PYTHON,
    README,
    ROOT,
    TUTORIAL,
    Block,
    Command,
    assert_shown,
    blocks,
    commands,
)

ENVIRONMENT = Path(sys.executable).parents[1]
DATA = Path(os.environ.get("LIKESET_DATA", ROOT.parent / "shared/data")) / "heart_disease_4hospitals.csv"
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
BEFORE = ("make ", "mkdir ", "cd ", "source ")  # what the test does itself

SHORTENED = {"audit": " --samples 1000"}
"""Added to commands that take a minute; a broken mechanism may then be missed. Their real sizes run in tests/audit."""


def run(typed: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "100", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    environment["PATH"] = os.pathsep.join([str(ENVIRONMENT / "bin"), os.environ.get("PATH", "")])
    return subprocess.run(  # noqa: S603 - what a reader of our own pages would paste
        ["/bin/sh", "-c", typed], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )


def follow(command: Command, folder: Path) -> None:
    """Type a command; a page says so where it ends with another code than 0, and then shows what is complained of."""
    expected = int(told[1]) if (told := re.search(r"# exit code (\d+)$", command.typed)) else 0
    more = next((more for name, more in SHORTENED.items() if f"likeset {name}" in command.typed), "")
    result = run(command.typed + more, folder)
    said = f"{command.typed}\n{result.stdout}{result.stderr}"
    assert result.returncode in ({0, 1} if more else {expected}), said
    assert "Traceback" not in result.stderr, said
    if command.shown is not None:
        complained = [line for line in result.stderr.splitlines() if line.startswith("error:")]
        assert_shown(command.shown, result.stdout + "\n".join(complained))


def write_files(found: list[Block], folder: Path) -> None:
    """Blocks whose first line is a comment with a file's name are that file."""
    for block in found:
        if block.lines and (name := re.fullmatch(r"# ([\w-]+\.(?:py|yaml))", block.lines[0])):
            (folder / name[1]).write_text("\n".join(block.lines) + "\n", encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, PYTHON], ids=lambda page: page.name)
def test_the_python_in_a_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    found = blocks(page)
    programs = [place for place, block in enumerate(found) if block.kind == "python"]
    assert programs
    for place in programs:
        script = tmp_path / "example.py"
        script.write_text("\n".join(found[place].lines), encoding="utf-8")
        result = run(f"python {script.name}", tmp_path)
        assert result.returncode == 0, result.stderr
        if place + 1 < len(found) and found[place + 1].kind == "text":
            assert_shown(found[place + 1].lines, result.stdout)


def test_the_first_example_has_at_most_fifteen_lines() -> None:
    program = next(block for block in blocks(README) if block.kind == "python")
    assert sum(bool(line.strip()) for line in program.lines) <= 15


@pytest.mark.slow
def test_commands_in_readme_claims_and_reference_run_in_a_fresh_clone(tmp_path: Path) -> None:
    """The other pages go on with what the README made, and print what they show."""
    (tmp_path / ".venv").symlink_to(ENVIRONMENT)
    typed = [command for page in (README, CLAIMS, COMMANDS) for command in commands(page)]
    typed = [command for command in typed if not command.typed.startswith(("make ", "likeset --show-completion"))]
    assert len(typed) >= 20
    for command in typed:
        assert command.typed.startswith(".venv/bin/likeset "), "works when pasted after a make target"
        follow(command, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the heart disease data are not here; LIKESET_DATA names their folder")
def test_the_tutorial_works_word_by_word(tmp_path: Path) -> None:
    folder = tmp_path / "heart"
    folder.mkdir()
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    write_as_published(folder)
    write_files(blocks(TUTORIAL), folder)
    typed = [
        command for command in commands(TUTORIAL) if not command.typed.startswith(("make ", "mkdir ", "cd ", "source "))
    ]
    assert len(typed) > 8
    for command in typed:
        follow(command, folder)


def write_as_published(folder: Path) -> None:
    """The four files of the archive: no header, ``?`` for what is missing, the degree of disease last."""
    with DATA.open(encoding="utf-8", newline="") as file:
        patients = list(csv.reader(file))[1:]
    for hospital in HOSPITALS:
        rows = [",".join(value or "?" for value in row[1:15]) for row in patients if row[0] == hospital]
        (folder / f"processed.{hospital}.data").write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_the_comparison_of_outputs_tells_right_from_wrong() -> None:
    output = "│ exact │ 0.0100 │ 0.123 │\n└───┘\n│ last  │ 7 │\n"
    assert_shown(["exact 0.0101 0.999", "", "...", "last 7"], output)
    for wrong in (["exact 0.0400 0.123", "last 7"], ["exact 0.0100 0.123"], ["last 7"], ["...", "first"]):
        with pytest.raises(AssertionError):
            assert_shown(wrong, output)


def test_a_command_that_fails_or_prints_something_else_is_noticed(tmp_path: Path) -> None:
    follow(Command("echo 51 rows", ["50 rows"]), tmp_path)
    follow(Command("echo error: no >&2; exit 2  # exit code 2", ["error: no"]), tmp_path)
    for wrong in (Command("echo 90 rows", ["50 rows"]), Command("exit 3", None), Command("true # exit code 2", None)):
        with pytest.raises(AssertionError):
            follow(wrong, tmp_path)
