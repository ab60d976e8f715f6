"""Links and names in the pages resolve, their commands and code run and print what is shown, and the site builds."""

import ast
import csv
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import likeset
from documented_pages import PAGES, ROOT, Command, anchors, assert_shown, blocks, commands, files_to_paste, prose
from likeset.app.cli import whole_program
from studies.registry import STUDIES

ENVIRONMENT = Path(sys.executable).parents[1]
HEART = Path(os.environ.get("LIKESET_DATA", ROOT.parent / "shared/data")) / "heart_disease_4hospitals.csv"
PACKAGE = "app|run|transports|homes|split|protocol|ledger|trust|tables|audit|privacy|geometry"
NEEDS = {"pandas_pipeline": "pandas"}
OF_TEXTS = ("text_embeddings", "sentence_vectors")


def read(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_relative_links_resolve() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            path, _, anchor = link.partition("#")
            if not re.match(r"[a-z]+:", link):
                linked = (page.parent / path).resolve() if path else page
                assert linked.is_relative_to(ROOT), f"{page.name}: {link}"
                assert linked.exists(), f"{page.name}: {link}"
                assert not anchor or anchor in anchors(linked), f"{page.name}: {link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_make_targets_that_a_page_names_exist(page: Path) -> None:
    text = read(page)
    assert re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", text) is None, "a path of somebody's machine"
    named = re.findall(r"(?:tests|benchmarks|studies)/[\w/-]+\.(?:py|md|yaml|json)\b", text)
    named += [f"src/likeset/{path}" for path in re.findall(rf"`((?:{PACKAGE})/\w+\.py)`", text)]
    assert [path for path in named if not (ROOT / path).exists()] == []
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), flags=re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)[` ]", prose(page))) <= targets


def test_pages_that_the_code_cites_exist() -> None:
    for module in (*ROOT.glob("src/likeset/**/*.py"), *ROOT.glob("studies/**/*.py")):
        for cited in re.findall(r"docs/[\w/-]+\.md", read(module)):
            assert (ROOT / cited).exists(), f"{module.name} cites {cited}"


def test_no_large_file_in_docs_and_none_that_no_page_shows() -> None:
    shown = {(page.parent / path).resolve() for page in PAGES for path in re.findall(r"!\[.*?\]\((.+?)\)", prose(page))}
    images = [path for path in ROOT.glob("docs/**/*") if path.suffix in (".png", ".svg", ".json", ".jsonl")]
    assert [path.name for path in images if path not in shown or path.stat().st_size >= 300_000] == []


def test_readme_and_contributing_are_short_and_contributing_lists_every_part() -> None:
    assert len(read("README.md").splitlines()) <= 110
    assert len(read("CONTRIBUTING.md").splitlines()) < 100
    parts = [f"`{path.parent.name}/`" for path in ROOT.glob("src/likeset/*/__init__.py")]
    parts += [f"`{path.name}`" for path in ROOT.glob("src/likeset/*.py") if path.name != "__init__.py"]
    assert [part for part in parts if part not in read("CONTRIBUTING.md")] == []


def test_names_in_the_notation_exist() -> None:
    rows = re.findall(r"\| `((?:likeset|studies)\.[\w.]+)\.(\w+)`", read("docs/notation.md"))
    assert len(rows) > 20
    assert [name for module, name in rows if not hasattr(importlib.import_module(module), name)] == []


def test_every_part_of_the_paper_names_what_exists() -> None:
    """Modules, commands and tests; a part without a place or without a test is declined, with the reason."""
    table = read("docs/paper-audit.md").partition("\n## Every part of the paper")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 50
    for part, place, *test in rows:
        if place.startswith("declined: "):
            assert len(place) > 30 and "".join(test).strip(" |") == "", part  # noqa: PT018 - one row
            continue
        for module, name in re.findall(r"`((?:likeset|studies)\.[\w.]+)\.(\w+)`", place):
            assert hasattr(importlib.import_module(module), name), part
        for study in re.findall(r"`make study NAME=([\w-]+)`", place):
            assert study in STUDIES, part
        assert re.search(r"`(likeset|studies)\.|`make study NAME=|\]\(proofs/", place), part
        (named,) = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", " ".join(test))
        assert f"def {named[1]}(" in read(named[0]), part


def test_names_in_the_proofs_exist() -> None:
    known = {word for path in ROOT.glob("src/likeset/**/*.py") for word in re.findall(r"\w+", read(path))}
    for page in ROOT.glob("docs/proofs/*.md"):
        named = re.findall(r"`(?:\w+\.)*(\w+_\w+|[A-Z]\w*[a-z]\w*|_\w+)`", read(page))
        missing = [name for name in named if name not in known and len(name) > 4]
        assert set(missing) <= {"SecureRandSeed"}, page.name  # a word of the engine


def test_names_that_benchmarks_import_exist() -> None:
    for script in ROOT.glob("benchmarks/**/*.py"):
        nodes = [node for node in ast.walk(ast.parse(read(script))) if isinstance(node, ast.ImportFrom)]
        for module, names in ((node.module or "", node.names) for node in nodes):
            for name in [alias.name for alias in names if module.split(".")[0] == "likeset"]:
                found = hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}")
                assert found, f"{script.name}: from {module} import {name}"


def test_every_command_has_an_example_with_real_options_and_a_form_for_machines() -> None:
    for path, command in leaves(whole_program()):
        example = (command.help or "").partition("Example:")[2]
        options = {name for parameter in command.params for name in parameter.opts}
        typed = re.findall(r"`(.*?)`", example, flags=re.DOTALL)
        assert typed, path
        assert ("--log" if path == ("up",) else "--json") in options, path
        for one in typed:
            assert one.split()[: 1 + len(path)] == ["likeset", *path]
            assert set(re.findall(r"--[a-z-]+", one)) <= options, path


def test_commands_that_pages_name_exist_with_their_options() -> None:
    program = whole_program()
    groups = "|".join(name for name, command in program.commands.items() if hasattr(command, "commands"))
    for page in (page for page in PAGES if page.name != "wire.md"):  # its documents begin with such words
        lines = "\n".join(line for block in blocks(page) for line in block.lines).replace("\\\n", " ")
        typed = re.findall(r"^(?:\$ )?(?:\.venv/bin/)?likeset ([a-z].*)", lines, flags=re.MULTILINE)
        typed += re.findall(r"`likeset ([a-z][^`\n]*)`", prose(page))
        typed += re.findall(rf"`((?:{groups}) [a-z][^`\n]*)`", prose(page))
        for words in (re.sub(r"[#|&>].*", "", one).split() for one in typed):
            command = program
            while words and (inner := getattr(command, "commands", None)):
                assert words[0] in inner, f"{page.name}: likeset ... {' '.join(words)}"
                command = inner[words.pop(0)]
            known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            assert {word for word in words if re.fullmatch(r"--[a-z-]+", word)} <= {*known, "--help"}, page.name


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, one in (inner or {}).items():
        yield from leaves(one, (*path, name))


def test_every_page_is_in_the_menu_once_and_every_public_name_in_the_reference() -> None:
    pages = [page.relative_to(ROOT).as_posix().removeprefix("docs/") for page in PAGES]
    assert sorted(menu(yaml.safe_load(read("mkdocs.yml"))["nav"])) == sorted(
        "index.md" if page == "README.md" else page for page in pages
    )
    described = re.findall(r"^::: likeset\.(.+)$", read("docs/api.md"), re.MULTILINE)
    assert set(described) == set(likeset.__all__) == set(dir(likeset)) - {"__version__"}


def menu(items: list[Any]) -> Iterator[str]:
    for item in items:
        aim = next(iter(item.values())) if isinstance(item, dict) else item
        yield from menu(aim) if isinstance(aim, list) else [aim]


@pytest.mark.slow
def test_the_site_builds_strictly_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    built = run(f"NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet --site-dir {tmp_path}", ROOT)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES)
    elsewhere = r"<(?:script|img|iframe|source|link)[^>]* (?:src|href)=\"?(?:https?:)?//"
    assert [page.name for page in pages if re.search(elsewhere, page.read_text(encoding="utf-8"))] == []
    elsewhere = r"(url\(|@import )['\"]?(https?:)?//"
    assert [one.name for one in tmp_path.rglob("*.css") if re.search(elsewhere, one.read_text(encoding="utf-8"))] == []
    reference = (tmp_path / "cli.html").read_text(encoding="utf-8")
    assert [name for name in whole_program().commands if f'id="likeset-{name}"' not in reference] == []


def run(typed: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "LIKESET_HEART"}
    environment |= {"COLUMNS": "100", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    environment["PATH"] = os.pathsep.join([str(ENVIRONMENT / "bin"), os.environ.get("PATH", "")])
    return subprocess.run(  # noqa: S603 - what a reader of our own pages would paste
        ["/bin/sh", "-c", typed], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )


def follow(command: Command, folder: Path) -> None:
    """Type a command; a page states an exit code other than 0, and shows the error."""
    expected = {int(told[1]) if (told := re.search(r"# exit code (\d+)$", command.typed)) else 0}
    typed = command.typed
    if "likeset audit" in typed:  # takes a minute; with few samples a broken mechanism may be missed
        typed, expected = f"{typed} --samples 1000", {0, 1}
    result = run(typed, folder)
    said = f"{typed}\n{result.stdout}{result.stderr}"
    assert result.returncode in expected, said
    assert "Traceback" not in result.stderr, said
    if command.shown is not None:
        errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
        assert_shown(command.shown, result.stdout + "\n".join(errors))


AUDITS = [pytest.param(False, marks=pytest.mark.slow), pytest.param(True, marks=pytest.mark.soak)]


@pytest.mark.parametrize("audits", AUDITS, ids=["without the long audits", "the long audits"])
def test_commands_of_readme_claims_and_reference_run_in_a_fresh_clone(tmp_path: Path, audits: bool) -> None:
    """The other pages continue with the files of the README."""
    (tmp_path / ".venv").symlink_to(ENVIRONMENT)
    found = [one for page in ("README", "docs/claims", "docs/cli") for one in commands(ROOT / f"{page}.md")]
    by_text = {one.typed: one for one in found if not one.typed.startswith(("make ", "likeset --show-completion"))}
    assert len(by_text) >= 20
    for typed, command in by_text.items():
        assert typed.startswith(".venv/bin/likeset "), "works when pasted after a make target"
        if audits == ("likeset audit" in typed):
            follow(command, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not HEART.exists(), reason="the heart disease data are not here; LIKESET_DATA names their folder")
def test_the_tutorial_works_word_by_word(tmp_path: Path) -> None:
    folder = tmp_path / "heart"
    folder.mkdir()
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    with HEART.open(encoding="utf-8", newline="") as file:
        patients = list(csv.reader(file))[1:]
    for hospital in ("cleveland", "hungarian", "switzerland", "va"):  # as published: no header, ? for missing
        rows = [",".join(value or "?" for value in row[1:15]) for row in patients if row[0] == hospital]
        (folder / f"processed.{hospital}.data").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name, text in files_to_paste(ROOT / "docs/tutorial.md").items():
        (folder / name).write_text(text, encoding="utf-8")
    for command in commands(ROOT / "docs/tutorial.md"):
        if not command.typed.startswith(("make ", "mkdir ", "cd ", "source ")):
            follow(command, folder)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_python_in_a_page_runs_and_prints_what_it_says(page: str, tmp_path: Path) -> None:
    found = blocks(ROOT / page)
    programs = [place for place, block in enumerate(found) if block.kind == "python"]
    assert programs
    for place in programs:
        (tmp_path / "example.py").write_text("\n".join(found[place].lines), encoding="utf-8")
        result = run("python example.py", tmp_path)
        assert result.returncode == 0, result.stderr
        if place + 1 < len(found) and found[place + 1].kind == "text":
            assert_shown(found[place + 1].lines, result.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(ROOT.glob("examples/*.py")), ids=lambda script: script.stem)
def test_an_example_runs(script: Path) -> None:
    if script.stem in NEEDS:
        pytest.importorskip(NEEDS[script.stem])
    if script.stem in OF_TEXTS and not os.environ.get("LIKESET_TEXTS"):
        pytest.skip("LIKESET_TEXTS names no folder with the two files of PyPI that examples/text_embeddings.py names")
    result = run(f"python {script}", ROOT)
    assert result.returncode == 0, result.stderr
    assert re.search(r"\d", result.stdout), "prints its results"
