"""Brings pages from beside ``docs/`` into the site: README as its start, CONTRIBUTING, examples.

Adds what ``typer`` writes about every command to the page of the command line.

Links in pages are written as they work in the repository. What lies in ``docs/`` loses that folder in the site, so
links across its border are written anew here. MkDocs loads this file as hooks (``mkdocs.yml``).
"""

import html
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify
from typer.cli import get_docs_for_click

from likeset.app.cli import whole_program

ROOT = Path(__file__).parents[2]
_BESIDE_DOCS = ("*.md", "LICENSE", "examples/*", "benchmarks/README.md", "studies/results/README.md")
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"(^```.*?^```$)", flags=re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> None:
    """Anchors are those that GitHub gives to headings: pages are read there, too."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Add what lies beside ``docs/``."""
    for path in files_beside_docs():
        content = (ROOT / path).read_bytes()
        files.append(File.generated(config, site_path(path), content=content))


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs names them
    """Write a page's links as they are in the site; code is left as it is."""
    source = repository_path(page.file.src_uri)
    if source == "docs/cli.md":
        markdown += command_reference()
    texts = _FENCE.split(markdown)
    return "".join(text if text.startswith("```") else with_site_links(text, source) for text in texts)


def on_page_content(content: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Keep options in one piece: browsers break lines after ``--``."""
    return re.sub(
        r"<code>[^<]*</code>",
        lambda code: re.sub(r"--[a-z][a-z-]*", r'<span class="option">\g<0></span>', code[0]),
        content,
    )


def on_page_context(context: dict[str, Any], *, page: Page, config: MkDocsConfig, nav: Navigation) -> None:  # noqa: ARG001
    """List every page on the first one: on a narrow screen the menu takes more than two clicks."""
    if page.is_homepage:
        page.content = f'{page.content}\n<h2 id="all-pages">All pages</h2>\n' + "".join(
            f"<h3>{html.escape(part.title)}</h3>\n{listed(part.children)}" for part in nav.items if part.is_section
        )


def listed(items: list[Any]) -> str:
    """Pages, and groups of pages, as nested lists."""
    lines = (
        f"<li>{html.escape(item.title)}{listed(item.children)}</li>"
        if item.is_section
        else f'<li><a href="{html.escape(item.file.url)}">{html.escape(str(item.title))}</a></li>'
        for item in items
    )
    return f"<ul>{''.join(lines)}</ul>\n"


def command_reference() -> str:
    """Every command with its options, below headings of the second level and lower."""
    program = whole_program()
    return "\n" + get_docs_for_click(
        obj=program, ctx=typer.Context(program), name="likeset", title="All commands", indent=1
    )


def files_beside_docs() -> Iterator[str]:
    """Paths in the repository, of what the site takes from outside ``docs/``."""
    for pattern in _BESIDE_DOCS:
        yield from (path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob(pattern)) if path.is_file())


def site_path(path: str) -> str:
    """Where a file of the repository lies in the site."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def repository_path(path: str) -> str:
    """Where a file of the site lies in the repository."""
    if path == "index.md":
        return "README.md"
    return f"docs/{path}" if (ROOT / "docs" / path).exists() else path


def with_site_links(text: str, source: str) -> str:
    """The text of a page of the repository, with relative links as they are in the site."""
    folder = posixpath.dirname(source)
    site_folder = posixpath.dirname(site_path(source))

    def rewritten(link: re.Match[str]) -> str:
        before, path, after = link.groups()
        if re.match(r"[a-z]+:", path):
            return link[0]
        aim = site_path(posixpath.normpath(posixpath.join(folder, path)))
        return before + posixpath.relpath(aim, site_folder or ".") + after

    return _LINK.sub(rewritten, text)
