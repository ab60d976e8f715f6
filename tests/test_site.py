"""The documentation's site: every page is in its menu, no link is dead, and a reader's browser asks nobody else."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

import likeset
from documented_pages import PAGES, ROOT, anchors, blocks
from likeset.app.cli import whole_program

SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
MKDOCS = Path(sys.executable).with_name("mkdocs")
PARTS = ["Tutorials", "How-to", "Reference", "Explanation"]
SHARED_PAGES = [*PAGES, *sorted(ROOT.glob("benchmarks/results/*.md")), *sorted(ROOT.glob("examples/*.md"))]
_LOADING = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "object": "data"}


def menu(items: list[Any]) -> Iterator[str]:
    """The pages of a menu, in their order."""
    for item in items:
        aim = next(iter(item.values())) if isinstance(item, dict) else item
        if isinstance(aim, list):
            yield from menu(aim)
        else:
            yield aim


def site_path(page: Path) -> str:
    """The name of a repository's page in the menu."""
    path = page.relative_to(ROOT).as_posix()
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def depth(items: list[Any]) -> int:
    """How many menus lie inside one another."""
    return 1 + max((depth(next(iter(item.values()))) for item in items if _opens_more(item)), default=0)


def _opens_more(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(next(iter(item.values())), list)


def test_every_page_is_in_the_menu_once() -> None:
    pages = sorted(menu(SETTINGS["nav"]))
    expected = sorted(site_path(page) for page in SHARED_PAGES)
    assert [page for page in expected if page not in pages] == [], "add it to nav in mkdocs.yml"
    assert [page for page in pages if page not in expected] == [], "nav in mkdocs.yml names it, and it does not exist"
    assert len(pages) == len(set(pages))


def test_the_menu_has_four_parts_whose_pages_lie_open() -> None:
    """A part's side bar shows groups of pages unfolded: one click for the part, one for the page."""
    assert [next(iter(item)) for item in SETTINGS["nav"][1:]] == PARTS
    assert depth(SETTINGS["nav"]) == 3
    assert {"navigation.tabs", "navigation.sections"} <= set(SETTINGS["theme"]["features"])


def test_every_public_name_has_a_page_made_from_its_docstring() -> None:
    described = {
        name for page in ROOT.glob("docs/api/*.md") for name in re.findall(r"^::: (.+)$", page.read_text(), re.M)
    }
    assert described == {f"likeset.{name}" for name in likeset.__all__}


def test_blocks_of_code_name_their_language_or_none() -> None:
    """A fence that is not closed would turn the rest of its page into code."""
    for page in SHARED_PAGES:
        assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0, page.name
        assert all(block.kind != "mermaid" for block in blocks(page)), "drawn by a script from elsewhere"


class Loads(HTMLParser):
    """What a page has a browser fetch by itself, where its links lead, and which anchors it has."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of a tag."""
        values = {name: value or "" for name, value in attrs}
        if tag in _LOADING and _LOADING[tag] in values:
            self.fetched.append(values[_LOADING[tag]])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if "id" in values:
            self.anchors.add(values["id"])


def read(page: Path) -> Loads:
    loads = Loads()
    loads.feed(page.read_text(encoding="utf-8"))
    return loads


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it."""
    if not MKDOCS.exists():
        pytest.skip("mkdocs is not installed; the extra docs has it")
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [str(MKDOCS), "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        outside = [aim for aim in read(page).fetched if re.match(r"(https?:)?//", aim)]
        assert outside == [], page.name
    for style in site.rglob("*.css"):
        assert re.search(r"(url\(|@import )['\"]?(https?:)?//", style.read_text(encoding="utf-8")) is None, style.name


@pytest.mark.slow
def test_the_page_of_the_command_line_has_every_noun(site: Path) -> None:
    nouns = {f"likeset-{name}" for name in whole_program().commands}
    assert len(nouns) > 10
    assert nouns <= read(site / "cli.html").anchors


@pytest.mark.slow
def test_every_page_is_two_clicks_from_the_first_and_every_link_leads_somewhere(site: Path) -> None:
    loads = {page: read(page) for page in sorted(site.rglob("*.html"))}
    start = site / "index.html"
    near = {start}
    for _ in range(2):
        near |= {aim for page in near for link in loads[page].links if (aim := aim_of(link, page)) in loads}
    assert set(loads) - near - {site / "404.html"} == set()
    for page, found in loads.items():
        for link in found.links if page.name != "404.html" else []:
            aim = aim_of(link, page)
            if aim is not None:
                assert aim.exists(), f"{page.name}: {link}"
                anchor = unquote(link.partition("#")[2])
                assert not anchor or anchor in loads[aim].anchors or anchor == "__top", f"{page.name}: {link}"


def aim_of(link: str, page: Path) -> Path | None:
    """The file that a link leads to; None for other sites."""
    if re.match(r"[a-z]+:", link):
        return None
    path = link.partition("#")[0].partition("?")[0]
    return page if path in ("", ".") else (page.parent / unquote(path)).resolve()


@pytest.mark.slow
def test_headings_have_the_anchors_that_pages_link_to_in_the_repository(site: Path) -> None:
    for page in PAGES:
        built = site / re.sub(r"(README)?\.md$", ".html", site_path(page).replace("README.md", "index.md"))
        assert anchors(page) <= read(built).anchors, page.name


@pytest.mark.slow
def test_the_search_finds_a_page_that_was_opened_from_a_disk(site: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium here")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    fetched: list[str] = []
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: fetched.append(request.url))
        page.goto((site / "index.html").as_uri() + "?q=threshold+auction")
        page.wait_for_selector(".md-search-result__link", timeout=120_000)
        titles = [text.splitlines()[:1] for text in page.locator(".md-search-result__link").all_inner_texts()]
        browser.close()
    assert ["Threshold auction"] in titles
    assert [url for url in fetched if not url.startswith(("file:", "data:"))] == []
