"""``likeset owner data list`` and ``remove``: the data sets that a node has."""

from typing import Annotated

import typer

from likeset.app.cli.owner_setup import HERE, NodePath, login, opened_node
from likeset.display.screen import JsonFlag, literal, show_json, show_suspicions, show_table, stdout

__all__ = ["list_data", "remove"]


def list_data(*, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """List the data sets: where their rows lie, what leaves with a record, which runs use them. No row is read.

    Example: [bold]likeset owner data list --node st-mary[/]
    """
    from likeset.homes.owner.data_register import listed_data

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


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The data set.", show_default=False)],
    *,
    by: Annotated[str | None, typer.Option("--by", help="Who removes it; by default the name of the login.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Forget a data set that no run uses any more. Its rows stay where they are; what left has left.

    Example: [bold]likeset owner data remove patients --node st-mary[/]
    """
    from likeset.homes.owner.data_register import remove as remove_data

    with opened_node(node) as opened:
        remove_data(opened, name, by=by or login())
    show_json({"data": name, "removed": True}) if as_json else stdout.print(f"[bold]removed[/]  {literal(name)}")
