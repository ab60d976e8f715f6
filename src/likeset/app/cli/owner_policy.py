"""``likeset owner policy show`` and ``put``: what owner.yaml says, and a new one that is checked before it counts."""

from pathlib import Path
from typing import Annotated

import typer

from likeset.app.cli.owner_setup import HERE, NodePath, login, opened_node
from likeset.display.screen import JsonFlag, literal, show_json, show_table, stdout
from likeset.errors import InvalidArgument
from likeset.homes import owner_node
from likeset.homes.owner_node import written_policy

__all__ = ["put", "show"]


def show(*, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """What owner.yaml says now, as its file has it.

    Example: `likeset owner policy show --node st-mary`
    """
    with opened_node(node) as opened:
        written = written_policy(opened)
    if as_json:
        show_json({"policy": written.policy.model_dump(mode="json"), "text": written.text, "mark": written.mark})
        return
    for line in written.text.splitlines():
        stdout.print(literal(line), soft_wrap=True)


def put(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new owner.yaml.", show_default=False)],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only say what would change.")] = False,
    by: Annotated[str | None, typer.Option("--by", help="Who changes it; by default the name of the login.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Put a new owner.yaml in force: checked first, and in the audit log before it counts.

    Example: `likeset owner policy put new-owner.yaml --check --node st-mary`
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument("FILE", file, "cannot be read as UTF-8 text") from error
    with opened_node(node) as opened:
        draft = owner_node.draft_of(opened, text) if check else owner_node.put(opened, text, by=by or login())
    if as_json:
        changes = [{"field": field, "before": before, "after": after} for field, before, after in draft.changes]
        show_json({"in_force": not check, "changes": changes})
        return
    if draft.changes:
        show_table("What changes", ["field", "before", "after"], draft.changes)
    words = "[bold]would be in force[/]" if check else "[bold green]in force[/]"
    stdout.print(words if draft.changes else f"{words}; it says the same as before")
