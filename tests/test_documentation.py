"""The documents are true: links and names resolve; test_documented_commands.py runs the commands."""

import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from documented_pages import PAGES, README, ROOT, anchors, commands, prose
from likeset.app.cli import whole_program


def test_relative_links_resolve() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            linked = (page.parent / path).resolve() if path else page
            assert linked.exists(), f"{page.name}: {link} leads nowhere"
            assert linked.is_relative_to(ROOT), f"{page.name}: {link} leads out of the repository"
            if anchor:
                assert anchor in anchors(linked), f"{page.name}: {link}: no such heading"


def test_files_and_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", text) is None, "a place on somebody's machine"
        named = re.findall(r"(?:tests|benchmarks|studies)/[\w/-]+\.(?:py|md|yaml|json)\b", text)
        assert [path for path in named if not (ROOT / path).exists()] == [], page.name
        made = re.findall(r"`make ([a-z-]+)[` ]", prose(page))
        made += [command.typed.split()[1] for command in commands(page) if command.typed.startswith("make ")]
        assert set(made) <= targets, page.name


def test_pages_that_the_code_cites_exist() -> None:
    for module in (*ROOT.glob("src/likeset/**/*.py"), *ROOT.glob("studies/**/*.py")):
        for cited in re.findall(r"docs/[\w/-]+\.md", module.read_text(encoding="utf-8")):
            assert (ROOT / cited).exists(), f"{module.name} cites {cited}"


def test_no_large_file_in_docs_that_no_page_shows() -> None:
    shown = {
        (page.parent / path).resolve() for page in PAGES for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", prose(page))
    }
    images = [path for path in ROOT.glob("docs/**/*") if path.suffix in (".png", ".svg", ".json", ".jsonl")]
    assert [path.name for path in images if path not in shown] == []
    assert [path.name for path in images if path.stat().st_size >= 300_000] == []


def test_the_readme_and_contributing_are_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 110
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) < 100


def test_contributing_lists_every_part_of_the_package() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    parts = [f"`{path.parent.name}/`" for path in ROOT.glob("src/likeset/*/__init__.py")]
    parts += [f"`{path.name}`" for path in ROOT.glob("src/likeset/*.py") if path.name != "__init__.py"]
    parts += [f"`{folder}/`" for folder in ("studies", "benchmarks")]
    assert [part for part in sorted(parts) if part not in table] == []


def test_names_in_the_notation_exist() -> None:
    rows = re.findall(r"\| `((?:likeset|studies)\.[\w.]+)\.(\w+)`", (ROOT / "docs/notation.md").read_text("utf-8"))
    assert len(rows) > 30
    for module, name in rows:
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


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
