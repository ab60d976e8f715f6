"""How every command talks: tables for people, one JSON document for machines, complaints on standard error."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from likeset.errors import InvalidArgument

__all__ = ["JsonFlag", "complain", "make_directory", "show_json", "show_table", "stdout"]

stdout = Console(highlight=False)
_stderr = Console(stderr=True, highlight=False)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables, for machines.")]


def complain(message: str) -> None:
    """One line on standard error; markup in the message is shown, not interpreted."""
    _stderr.print("[bold red]error:[/]", end=" ")
    _stderr.print(message, markup=False, soft_wrap=True)


def show_json(document: Any) -> None:
    """The document, and nothing else, on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str | None = None
) -> None:
    """A table whose first column is words and whose other columns are figures."""
    table = Table(title=title, title_style="bold", caption=caption, caption_style="dim", title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(
            column, justify="left" if place == 0 else "right", overflow="fold", ratio=1 if place == 0 else None
        )
    for row in rows:
        table.add_row(*row)
    stdout.print(table)


def make_directory(path: Path) -> None:
    """Create a directory for output, if it is not there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument("--out", path, f"cannot be used as a directory: {error.strerror}") from error
