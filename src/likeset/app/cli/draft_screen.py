"""The profile of a draft on a terminal: a line for each column, with a histogram of block characters."""

from collections.abc import Sequence

from rich.table import Table

from likeset.display.screen import literal, stderr, stdout
from likeset.tables.profile import DraftColumn, SchemaDraft

__all__ = ["blocks", "show_profile"]

_NAME_WIDTH, _KIND_WIDTH = 24, 8  # the rest is for the reason: a row of 80 letters has room for few
_BLOCKS = "▁▂▃▄▅▆▇█"


def blocks(bars: Sequence[int]) -> str:
    """Counts as block characters: the largest is full, and none but nothing is empty."""
    most = max(bars, default=0)
    steps = len(_BLOCKS) - 1
    return "".join(" " if not bar else _BLOCKS[round(steps * bar / most)] for bar in bars)


def show_profile(made: SchemaDraft, files: Sequence[str], *, beside: bool) -> None:
    """What was seen, what each column would be, and why.

    Args:
        made: the draft.
        files: as they were given.
        beside: whether it goes to standard error, since something else goes to standard output.
    """
    screen = stderr if beside else stdout
    rows = max((column.rows for column in made.profile), default=0)
    shown = ", ".join(files)
    table = Table(title=f"{literal(shown)}: {rows:,} rows", title_style="bold", title_justify="left")
    table.add_column("column", overflow="fold", min_width=8, max_width=_NAME_WIDTH)
    table.add_column("rows", no_wrap=True)
    table.add_column("missing", justify="right")
    table.add_column("would be", overflow="fold", max_width=_KIND_WIDTH)
    table.add_column("why", overflow="fold", ratio=1)
    for column in made.profile:
        table.add_row(
            literal(column.name),
            blocks(column.bars),
            f"{column.missing:,}" if column.missing else "",
            _kind(column),
            literal(column.why) + (f"; [yellow]{literal(column.caution)}[/]" if column.caution else ""),
        )
    screen.print(table)
    if made.absent:
        words = ", ".join(f"{name} (not in {file})" for name, file in made.absent.items())
        screen.print(f"[yellow]note:[/] left out, because not all files have them: {literal(words)}", soft_wrap=True)
    for note in filter(None, (made.comma_remedy, made.wide_note)):
        screen.print(f"[yellow]note:[/] {literal(note)}", soft_wrap=True)
    screen.print("[dim]This profile shows your own rows: keep it at home. A schema is public.[/]", soft_wrap=True)
    if made.left_out:
        screen.print("[dim]--include COLUMN declares one that was left out all the same[/]", soft_wrap=True)
    if made.id_hint:
        words = (
            f"if {made.id_hint!r} says whose row it is, add --id {made.id_hint}: privacy then protects people, not rows"
        )
        screen.print(f"[yellow]note:[/] {literal(words)}", soft_wrap=True)


def _kind(column: DraftColumn) -> str:
    if column.role == "left out":
        return "[dim]left out[/]"
    return "id" if column.role == "id" else f"label: {column.kind}" if column.role == "label" else column.kind
