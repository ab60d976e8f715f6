"""Rows and messages that left or would leave, on the owner's own screen and disk; ``likeset owner row``."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow.csv
import pyarrow.parquet
import typer
from rich.table import Table

from likeset.app.cli.owner_setup import HERE, NodePath, opened_node
from likeset.display.screen import (
    MOST_IN_A_CELL,
    JsonFlag,
    literal,
    make_directory,
    show_json,
    show_notes,
    show_table,
    stdout,
)
from likeset.errors import InvalidArgument
from likeset.files import keep_private, keep_private_bytes
from likeset.homes.review import InboxRun, LeftMessage, LeftRows, find_row, handle_in

__all__ = [
    "row",
    "row_documents",
    "save_messages",
    "show_rows",
    "show_runs",
    "write_rows",
]


def row(
    handle: Annotated[str, typer.Argument(metavar="HANDLE", help="As its buyer has it.", show_default=False)],
    *,
    run: Annotated[str | None, typer.Option(help="The run in which it left, if you know it.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Find the row that left under a handle: which data set, where it lies there, and what its buyer has of it.

    Each record that a consumer buys holds its owner's handle, in the column likeset_handle: a number that tells nobody
    but the owner anything. A buyer who finds a mistake in a record can name it by this number.

    Example: `likeset owner row 11923834061248102733 --run sepsis-2026-07 --node st-mary`
    """
    wanted = handle_in(handle)
    with opened_node(node) as opened:
        found = find_row(opened, wanted, run=run)
    record = {name: _plain(value) for name, value in found.record.items()}
    whose = {found.id_column: _plain(found.id_value)} if found.id_column else {}
    if as_json:
        named = {"handle": found.handle, "run": found.run, "consumer": found.consumer, "data": found.data}
        where = {"source": found.source, "place": found.place, "number": found.number}
        show_json({**named, **where, "unchanged": found.is_checked or None, "id": whose, "record": record})
        return
    words = f"{found.data}: {found.source}, {found.place}"
    stdout.print(f"[bold green]found[/]  {literal(words)}", soft_wrap=True)
    asked = f"left in run {found.run}, which {found.consumer} asked for"
    stdout.print(literal(asked), soft_wrap=True)
    lines = [[name, str(value), "no: it stays here"] for name, value in whose.items()]
    lines += [[name, str(value), "yes"] for name, value in record.items()]
    show_table("Row", ["column", "value", "its buyer has it"], lines)
    if not found.is_checked:
        show_notes(["messages of this run were purged: whether the data set is what it was then cannot be told"])


def show_rows(rows: LeftRows, most: int) -> None:
    """A table of the first rows."""
    if rows.table is None:
        if rows.count:
            stdout.print("[dim]they cannot be shown[/]")
        return
    table = Table()
    for name in rows.table.column_names:
        table.add_column(literal(name), overflow="fold")
    for row in row_documents(rows, most):
        table.add_row(*(literal(str(value), most=MOST_IN_A_CELL) for value in row.values()))
    stdout.print(table)


def row_documents(rows: LeftRows, most: int) -> list[dict[str, Any]]:
    """The first rows as plain data."""
    if rows.table is None:
        return []
    return [{name: _plain(value) for name, value in row.items()} for row in rows.table.slice(0, most).to_pylist()]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | list):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def write_rows(rows: LeftRows, out: Path) -> None:
    """All rows into a new file, as CSV or Parquet."""
    if rows.table is None:
        raise InvalidArgument("--out", out, "these rows cannot be shown; there is nothing to write")
    writers = {".parquet": pyarrow.parquet.write_table, ".csv": pyarrow.csv.write_csv}
    if out.suffix not in writers:
        raise InvalidArgument("--out", out, "must end in .csv or .parquet")
    if out.exists():
        raise InvalidArgument("--out", out, "is there already; nothing is overwritten")
    try:
        keep_private(out, lambda path: writers[out.suffix](rows.table, path))
    except OSError as error:
        raise InvalidArgument("--out", out, f"cannot be written: {error.strerror}") from error


def show_runs(runs: Sequence[InboxRun], *, every: bool) -> None:
    """A table of runs; ``every`` if not only those that wait."""
    if not runs:
        stdout.print("No run came yet." if every else "No run waits for a decision; --all shows the others.")
        return
    rows = []
    for run in runs:
        asked = "" if run.rows is None else str(run.rows)
        who = f"{run.consumer} ({run.consumer_card})"
        rows.append((run.run, who, run.purpose or "", asked, run.came[:16].replace("T", " "), run.status))
    show_table("Runs", ["run", "who asks", "what for", "rows", "came (UTC)", "status"], rows)


def save_messages(messages: list[LeftMessage], folder: Path) -> None:
    """The literal bytes, one file each."""
    make_directory(folder)
    for message in messages:
        try:
            keep_private_bytes(folder / message.file_name, message.data)
        except OSError as error:
            raise InvalidArgument("--save", folder, f"cannot be written: {error.strerror}") from error
