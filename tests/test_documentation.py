"""What the documents say is true: code and commands run, links lead somewhere, names exist."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

from likeset.app.cli import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SCRIPT = Path(sys.executable).parent / "likeset"

SHORTENED = {"audit": ["--samples", "1000"]}
"""Added to commands that take a minute; a broken mechanism may then be missed. Their real sizes run in tests/audit."""


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    lines: list[str]


class Command(NamedTuple):
    """A command of a page, as typed, and the output that the page shows; None if it shows none."""

    typed: str
    shown: list[str] | None


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [Block(kind, body.splitlines()) for kind, body in found]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def commands(page: Path) -> Iterator[Command]:
    for block in blocks(page):
        if block.kind == "sh":
            yield from (Command(line, None) for line in block.lines if line.strip())
        elif block.kind == "console":
            starts = [place for place, line in enumerate(block.lines) if line.startswith("$ ")]
            assert starts, "a console block begins with a command"
            assert starts[0] == 0, "a console block begins with a command"
            for start, end in pairwise([*starts, len(block.lines)]):
                yield Command(block.lines[start].removeprefix("$ "), block.lines[start + 1 : end] or None)


README_COMMANDS = [command for command in commands(README) if not command.typed.startswith("make ")]


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "100", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    return subprocess.run(  # noqa: S603 - what a reader of our own README would paste
        arguments, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )


def test_the_python_in_the_readme_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    found = blocks(README)
    programs = [place for place, block in enumerate(found) if block.kind == "python"]
    assert programs
    for place in programs:
        script = tmp_path / "example.py"
        script.write_text("\n".join(found[place].lines), encoding="utf-8")
        result = run([sys.executable, str(script)], tmp_path)
        assert result.returncode == 0, result.stderr
        if place + 1 < len(found) and found[place + 1].kind == "text":
            assert_shown(found[place + 1].lines, result.stdout)


def test_the_first_example_has_at_most_fifteen_lines() -> None:
    program = next(block for block in blocks(README) if block.kind == "python")
    assert sum(bool(line.strip()) for line in program.lines) <= 15


@pytest.mark.parametrize("command", README_COMMANDS, ids=[command.typed for command in README_COMMANDS])
def test_commands_in_the_readme_run_and_print_what_it_shows(command: Command, tmp_path: Path) -> None:
    program, *arguments = shlex.split(command.typed, comments=True)
    assert program == ".venv/bin/likeset", "works when pasted into a fresh clone after a make target"
    more = SHORTENED.get(arguments[0], [])
    result = run([str(SCRIPT), *arguments, *more], tmp_path)
    assert result.returncode in ((0, 1) if more else (0,)), result.stderr
    assert "Traceback" not in result.stderr
    if command.shown is not None:
        assert_shown(command.shown, result.stdout)


def words(line: str) -> list[str]:
    """The words of a line, without the frames of tables."""
    return re.sub(r"[─-╿]", " ", line).split()


def alike(shown: list[str], printed: list[str]) -> bool:
    """The same words, and numbers that are near: other machines round otherwise.

    Numbers with three decimals are times or bounds from random observations: any will do.
    """
    if len(shown) != len(printed):
        return False
    for one, other in zip(shown, printed, strict=True):
        numbers = [re.fullmatch(r"(\d+(?:\.(\d+))?)([x%.,]?)", word) for word in (one, other)]
        if numbers[0] and numbers[1] and numbers[0][3] == numbers[1][3]:
            near = abs(float(numbers[0][1]) - float(numbers[1][1])) <= 0.25 * float(numbers[0][1])
            if not near and len(numbers[0][2] or "") != 3:
                return False
        elif one != other:
            return False
    return True


def assert_shown(shown: list[str], output: str) -> None:
    """Line by line; ``...`` stands for any lines."""
    printed = [split for line in output.splitlines() if (split := words(line))]
    place, anywhere = 0, False
    for line in shown:
        if line.strip() == "...":
            anywhere = True
        elif expected := words(line):
            rest = range(place, len(printed) if anywhere else min(place + 1, len(printed)))
            found = next((number for number in rest if alike(expected, printed[number])), None)
            assert found is not None, f"{line!r} is not in the output:\n{output}"
            place, anywhere = found + 1, False
    assert anywhere or place == len(printed), f"the page does not show the end of the output:\n{output}"


def test_the_comparison_of_outputs_tells_right_from_wrong() -> None:
    output = "│ exact │ 0.0100 │ 0.123 │\n└───┘\n│ last  │ 7 │\n"
    assert_shown(["exact 0.0101 0.999", "", "...", "last 7"], output)
    for wrong in (["exact 0.0200 0.123", "last 7"], ["exact 0.0100 0.123"], ["last 7"], ["...", "first"]):
        with pytest.raises(AssertionError):
            assert_shown(wrong, output)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_relative_links_resolve(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{link} leads nowhere"
        assert linked.is_relative_to(ROOT), f"{link} leads out of the repository"
        if anchor:
            assert anchor in anchors(linked), f"{link}: no such heading"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_pages_name_no_place_on_somebodys_machine(page: Path) -> None:
    assert re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", page.read_text(encoding="utf-8")) is None


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"`make ([a-z]+)`", prose(page))
        named += [command.typed.split()[1] for command in commands(page) if command.typed.startswith("make ")]
        assert set(named) <= targets, page.name


def test_the_picture_in_the_readme_is_small() -> None:
    assert (ROOT / "docs/images/selected-digits.png").stat().st_size < 100_000


def test_contributing_is_short_and_names_real_tests() -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    named = re.findall(r"tests/[\w/]+\.py", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_contributing_has_a_room_for_every_part_of_the_package() -> None:
    """A newcomer finds the place of a change by the names in the table."""
    table = CONTRIBUTING.read_text(encoding="utf-8")
    parts = [f"`{path.parent.name}/`" for path in ROOT.glob("src/likeset/*/__init__.py")]
    parts += [f"`{path.name}`" for path in ROOT.glob("src/likeset/*.py") if path.name != "__init__.py"]
    assert [part for part in sorted(parts) if part not in table] == []


def test_names_in_the_notation_exist() -> None:
    rows = [
        line for line in (ROOT / "docs/notation.md").read_text(encoding="utf-8").splitlines() if "| `likeset" in line
    ]
    assert len(rows) > 30
    for row in rows:
        found = re.search(r"\| `(likeset\.[\w.]+)\.(\w+)` \|$", row)
        assert found, row
        assert hasattr(importlib.import_module(found[1]), found[2]), row


def test_pages_that_the_code_cites_exist() -> None:
    for module in ROOT.glob("src/likeset/**/*.py"):
        for cited in re.findall(r"docs/[\w/-]+\.md", module.read_text(encoding="utf-8")):
            assert (ROOT / cited).exists(), f"{module.name} cites {cited}"


def test_decisions_are_numbered_and_have_their_three_parts() -> None:
    decisions = sorted(ROOT.glob("docs/decisions/*.md"))
    for number, page in enumerate(decisions, start=1):
        text = page.read_text(encoding="utf-8")
        assert page.name.startswith(f"{number:04d}-")
        assert text.startswith(f"# {number}. ")
        assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == ["Context", "Decision", "Consequences"]
        assert len(text.splitlines()) <= 60, "one page"


def test_the_changelog_has_a_privacy_heading() -> None:
    assert "\n### Privacy\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that lead to it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    else:
        for name, one in inner.items():
            yield from leaves(one, (*path, name))


COMMANDS = list(leaves(typer.main.get_command(app)))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_command_has_an_example_in_its_help_that_names_real_options(path: tuple[str, ...], command: Any) -> None:
    _, found, example = (command.help or "").partition("Example:")
    assert found, "no example"
    typed = re.findall(r"\[bold\](.*?)\[/\]", example, flags=re.DOTALL)
    assert typed
    options = {name for parameter in command.params for name in parameter.opts}
    for one in typed:
        assert one.split()[: 1 + len(path)] == ["likeset", *path]
        assert set(re.findall(r"--[a-z-]+", one)) <= options
