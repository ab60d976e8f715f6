"""The documentation's site builds strictly, has every page in its menu, and loads nothing from elsewhere."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import likeset
from documented_pages import PAGES, ROOT
from likeset.app.cli import whole_program

MENU = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
MKDOCS = Path(sys.executable).with_name("mkdocs")


def menu(items: list[Any]) -> Iterator[str]:
    """The pages of a menu, in their order."""
    for item in items:
        aim = next(iter(item.values())) if isinstance(item, dict) else item
        if isinstance(aim, list):
            yield from menu(aim)
        else:
            yield aim


def test_every_page_is_in_the_menu_once() -> None:
    paths = [page.relative_to(ROOT).as_posix() for page in [*PAGES, *ROOT.glob("examples/*.md")]]
    expected = ["index.md" if path == "README.md" else path.removeprefix("docs/") for path in paths]
    assert sorted(menu(MENU)) == sorted(expected)


def test_every_public_name_is_in_the_python_reference() -> None:
    described = re.findall(r"^::: (.+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.M)
    assert set(described) == {f"likeset.{name}" for name in likeset.__all__}


@pytest.mark.slow
def test_the_site_builds_strictly_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    if not MKDOCS.exists():
        pytest.skip("mkdocs is not installed; the extra docs has it")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [str(MKDOCS), "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert built.returncode == 0, built.stdout + built.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]* src=\"?([^\s\">]+)", text)
        loaded += re.findall(r"<link[^>]* href=\"?([^\s\">]+)", text)
        assert [address for address in loaded if re.match(r"(https?:)?//", address)] == [], page.name
    for style in tmp_path.rglob("*.css"):
        assert re.search(r"(url\(|@import )['\"]?(https?:)?//", style.read_text(encoding="utf-8")) is None, style.name
    reference = (tmp_path / "cli.html").read_text(encoding="utf-8")
    assert [name for name in whole_program().commands if f'id="likeset-{name}"' not in reference] == []
