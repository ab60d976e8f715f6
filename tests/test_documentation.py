"""What the documents say is true: links lead somewhere, names exist; test_documented_commands.py runs the commands."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from documented_pages import PAGES, README, ROOT, anchors, commands, prose
from likeset.app.cli import whole_program

CONTRIBUTING = ROOT / "CONTRIBUTING.md"


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


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_pages_name_no_place_on_somebodys_machine(page: Path) -> None:
    assert re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", page.read_text(encoding="utf-8")) is None


def test_no_sentence_stands_on_two_pages() -> None:
    """A fact that is told twice is mended once: fourteen words in a row belong to one page; others link to it."""
    places: dict[tuple[str, ...], set[str]] = {}
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        if name == "CHANGELOG.md" or name.startswith("docs/studies/"):
            continue
        for paragraph in re.split(r"\n\n|\n(?=[-|#\d])", prose(page)):
            said = re.findall(r"[a-z0-9']+", paragraph.lower())
            for start in range(len(said) - 13):
                places.setdefault(tuple(said[start : start + 14]), set()).add(name)
    twice = {" ".join(said): sorted(pages) for said, pages in places.items() if len(pages) > 1}
    assert twice == {}


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"`make ([a-z]+)[` ]", prose(page))
        named += [command.typed.split()[1] for command in commands(page) if command.typed.startswith("make ")]
        assert set(named) <= targets, page.name


def test_pictures_in_the_readme_are_small() -> None:
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    assert pictures
    assert [path for path in pictures if (ROOT / path).stat().st_size >= 300_000] == []


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
    parts += [f"`{folder}/`" for folder in ("studies", "benchmarks")]
    assert [part for part in sorted(parts) if part not in table] == []


def test_hooks_before_a_commit_are_those_of_make_lint_and_make_types() -> None:
    """With the environment's own tools: another version of ruff would lay out otherwise."""
    (hooks,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(BIN)", ".venv/bin")
    called = [hook["entry"].replace(" --force-exclude", "") for hook in hooks["hooks"]]
    assert called == [".venv/bin/ruff check", ".venv/bin/ruff format --check", ".venv/bin/mypy"]
    assert [command for command in called if f"\t{command}" not in makefile] == []


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
    for module in (*ROOT.glob("src/likeset/**/*.py"), *ROOT.glob("studies/**/*.py")):
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


COMMANDS = list(leaves(whole_program()))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_command_has_an_example_in_its_help_that_names_real_options(path: tuple[str, ...], command: Any) -> None:
    _, found, example = (command.help or "").partition("Example:")
    assert found, "no example"
    typed = re.findall(r"`(.*?)`", example, flags=re.DOTALL)
    assert typed
    options = {name for parameter in command.params for name in parameter.opts}
    for one in typed:
        assert one.split()[: 1 + len(path)] == ["likeset", *path]
        assert set(re.findall(r"--[a-z-]+", one)) <= options
