"""The pieces of HTML. Everything that is not written here passes through ``html_text`` first."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

from likeset.app.report.plain_words import GLOSSARY, NO_BREAK, plain

__all__ = [
    "TableColumn",
    "badge",
    "banner",
    "bar",
    "definitions",
    "document",
    "figure",
    "glossary",
    "html_text",
    "legend",
    "note",
    "section",
    "small",
    "table",
]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Told to the browser as well: whatever might slip in, nothing is loaded and nothing is run."""

_BASES = {
    "proven": "covered by a written proof",
    "claimed": "the paper says so; no proof here",
    "none": "no guarantee",
    "simulated": "noise was simulated: not private",
}


def html_text(value: object) -> str:
    """Any value as text that means nothing to a browser but itself; numbers keep the blanks that do not break."""
    return "&nbsp;".join(html.escape(plain(part), quote=True) for part in str(value).split(NO_BREAK))


def document(*, title: str, kind: str, body: Iterable[str], footer: str) -> str:
    """A whole page around its parts."""
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html_text(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f'<body class="{html_text(kind)}">\n<main>\n' + "\n".join(part for part in body if part) + "\n</main>\n"
        f"<footer>{footer}</footer>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str, lead: str = "", anchor: str) -> str:
    """A section with a heading; nothing if it has no content."""
    content = "\n".join(part for part in parts if part)
    if not content:
        return ""
    opening = f'<p class="lead">{lead}</p>\n' if lead else ""
    return f'<section id="{html_text(anchor)}">\n<h2>{html_text(title)}</h2>\n{opening}{content}\n</section>'


def banner(title: str, words: str) -> str:
    """What must not be overlooked."""
    return f'<div class="banner" role="alert"><strong>{html_text(title)}</strong> {html_text(words)}</div>'


def note(words: str) -> str:
    """A remark in small print."""
    return f'<p class="note">{html_text(words)}</p>'


def small(words: object) -> str:
    """What stands below the content of a cell; nothing if there are no words."""
    return f"<small>{html_text(words)}</small>" if words else ""


def badge(basis: object) -> str:
    """The basis of a guarantee."""
    known = str(basis) if basis in _BASES else "none"
    return f'<span class="badge {known}" title="{html_text(_BASES[known])}">{html_text(basis)}</span>'


def bar(fraction: object, *, colour: str = "summary") -> str:
    """A length between nothing and the whole; decoration beside its number."""
    size = min(1.0, max(0.0, float(fraction))) if isinstance(fraction, int | float) else 0.0
    return f'<span class="bar" aria-hidden="true"><i class="{colour}" style="width:{100 * size:.1f}%"></i></span>'


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table; ``numeric`` ones stand on the right."""

    title: str
    numeric: bool = False


def table(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]], *, caption: str) -> str:
    """Rows of finished HTML cells. On a narrow screen each row becomes a card, hence the titles in the cells."""
    body = []
    for row in rows:
        cells = []
        for index, (column, cell) in enumerate(zip(columns, row, strict=True)):
            classes = ' class="number"' if column.numeric else ""
            tag, role = ("th", "rowheader") if index == 0 else ("td", "cell")
            scope = ' scope="row"' if index == 0 else ""
            title = html_text(column.title)
            cells.append(f'<{tag}{scope} role="{role}"{classes} data-title="{title}"><span>{cell}</span></{tag}>')
        body.append(f'<tr role="row">{"".join(cells)}</tr>')
    if not body:
        return ""
    head = "".join(
        f'<th scope="col" role="columnheader"{" class=" + chr(34) + "number" + chr(34) if column.numeric else ""}>'
        f"{html_text(column.title)}</th>"
        for column in columns
    )
    return (
        f'<table role="table"><caption>{html_text(caption)}</caption>\n'
        f'<thead><tr role="row">{head}</tr></thead>\n<tbody>\n' + "\n".join(body) + "\n</tbody></table>"
    )


def definitions(pairs: Iterable[tuple[str, str]], *, kind: str = "facts") -> str:
    """Names with their values; the values are finished HTML."""
    entries = "\n".join(f"<div><dt>{html_text(name)}</dt><dd>{value}</dd></div>" for name, value in pairs)
    return f'<dl class="{kind}">\n{entries}\n</dl>' if entries else ""


def figure(picture: str, *, title: str = "", caption: str = "", kind: str = "") -> str:
    """A drawing with its caption; ``caption`` is finished HTML. Nothing if there is no drawing."""
    if not picture:
        return ""
    heading = f"<h3>{html_text(title)}</h3>" if title else ""
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure class="{kind}">{heading}{picture}{below}</figure>'


def legend(names: Iterable[tuple[str, str]]) -> str:
    """What the colours mean: (colour, words)."""
    entries = "".join(
        f'<li><i class="{colour}" aria-hidden="true"></i>{html_text(words)}</li>' for colour, words in names
    )
    return f'<ul class="legend">{entries}</ul>'


def glossary() -> str:
    """Words that a reader may not know."""
    pairs = [(name, html_text(meaning)) for name, meaning in GLOSSARY]
    return section("Words", definitions(pairs, kind="glossary"), anchor="words")
