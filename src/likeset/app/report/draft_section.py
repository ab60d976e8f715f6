"""The profile of a draft as a section of HTML: for whoever holds the rows, and for nobody else."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from likeset.app.report.markup import TableColumn, banner, document, html_text, section, small, table

if TYPE_CHECKING:
    from likeset.tables.draft import ColumnProfile, SchemaDraft

__all__ = ["draft_page", "draft_section"]

_WIDTH, _HEIGHT = 96, 24
_COLUMNS = (
    TableColumn("Column"),
    TableColumn("Rows"),
    TableColumn("Missing", numeric=True),
    TableColumn("Different values", numeric=True),
    TableColumn("Would be"),
    TableColumn("Why"),
)


def draft_page(made: "SchemaDraft", files: Sequence[str]) -> str:
    """A page with the section alone."""
    warning = banner(
        "Keep this at home.", "It was made from your own rows and shows how they spread. Only the schema is public."
    )
    return document(
        title="Profile of a draft",
        kind="report",
        body=[f"<h1>{html_text('What is in ' + ', '.join(files))}</h1>", warning, draft_section(made)],
        footer="Written by likeset schema draft.",
    )


def draft_section(made: "SchemaDraft") -> str:
    """What was seen of every column, what it would be, and why."""
    rows = max((column.rows for column in made.profile), default=0)
    words = [f"{rows:,} rows. The bars show how they spread, from the least value to the largest."]
    if made.absent:
        words.append(f"Left out, for not all files have them: {', '.join(made.absent)}.")
    if made.comma_remedy:
        words.append(f"Note: {made.comma_remedy}.")
    return section(
        "Columns",
        table(_COLUMNS, [_cells(column) for column in made.profile], caption="What each column would be"),
        lead=html_text(" ".join(words)),
        anchor="draft-columns",
    )


def _cells(column: "ColumnProfile") -> tuple[str, ...]:
    kind = column.kind if column.role == "column" else f"{column.role}: {column.kind}" if column.kind else column.role
    different = "many" if column.different is None else f"{column.different:,}"
    return (
        html_text(column.name),
        _picture(column),
        html_text(f"{column.missing:,}"),
        html_text(different if column.bars else ""),
        html_text(kind),
        html_text(column.why) + small(column.caution),
    )


def _picture(column: "ColumnProfile") -> str:
    """Bars without an axis; nothing that could be read off but the shape."""
    most = max(column.bars, default=0)
    if not most:
        return ""
    step = _WIDTH / len(column.bars)
    bars = "".join(
        f'<rect x="{step * place:.1f}" y="{_HEIGHT * (1 - bar / most):.1f}" width="{max(step - 1, 1):.1f}" '
        f'height="{_HEIGHT * bar / most:.1f}" fill="var(--target)"/>'
        for place, bar in enumerate(column.bars)
    )
    label = html_text(f"how the rows of {column.name} spread")
    return f'<svg role="img" aria-label="{label}" width="{_WIDTH}" height="{_HEIGHT}">{bars}</svg>'
