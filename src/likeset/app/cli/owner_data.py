"""``likeset owner data list``, ``check`` and ``remove``: the data sets that a node has."""

from typing import Annotated

import typer

from likeset.app.cli.owner_setup import HERE, NodePath, login, opened_node
from likeset.display.screen import JsonFlag, literal, show_json, show_suspicions, show_table, stdout
from likeset.homes.review import listed_data, look_at_data
from likeset.homes.review import remove as remove_data

__all__ = ["check_data", "list_data", "remove"]


def list_data(*, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """List the data sets: where their rows lie, what leaves with a record, which runs use them. No row is read.

    Example: `likeset owner data list --node st-mary`
    """
    with opened_node(node) as opened:
        listed = listed_data(opened)
    if as_json:
        show_json({"data": [data.document() for data in listed]})
        return
    if not listed:
        stdout.print("There are no data sets; add one with likeset owner data add.")
        return
    rows = [
        [data.name, data.source, ", ".join(name for name, _ in data.columns), str(len(data.used_by))] for data in listed
    ]
    show_table("Data sets", ["name", "source", "columns", "runs that use it"], rows)
    show_suspicions(suspicion for data in listed for suspicion in data.suspicions)


def check_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The data set.", show_default=False)],
    *,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Read every row of a data set: what is not as declared, small groups, columns that may identify people.

    Exit code 1 if something is not in order. Nothing leaves; the values of small groups are shown here alone.

    Example: `likeset owner data check patients --node st-mary`
    """
    with opened_node(node) as opened:
        look = look_at_data(opened, name)
    if as_json:
        show_json(look.document())
    else:
        marks = [
            ("warning" if finding.is_warning else "ok" if finding.ok else "no", finding.words)
            for finding in look.findings
        ]
        show_table(f"Data set {name}", ["in order", "words"], [list(mark) for mark in marks])
        if look.groups:
            groups = [[group.column, group.value, f"{group.rows:,}"] for group in look.groups]
            show_table(f"Groups of fewer than {look.smallest} rows: never offered", ["column", "value", "rows"], groups)
    if not look.ok:
        raise typer.Exit(1)


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The data set.", show_default=False)],
    *,
    by: Annotated[str | None, typer.Option("--by", help="Who removes it; by default the name of the login.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Forget a data set that no run uses any more. Its rows stay where they are; what left has left.

    Example: `likeset owner data remove patients --node st-mary`
    """
    with opened_node(node) as opened:
        remove_data(opened, name, by=by or login())
    show_json({"data": name, "removed": True}) if as_json else stdout.print(f"[bold]removed[/]  {literal(name)}")
