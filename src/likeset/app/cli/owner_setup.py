"""``likeset owner init``, ``data add`` and ``check``: a node before its first run."""

import getpass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from likeset.display.screen import JsonFlag, literal, show_json, show_notes, show_suspicions, stdout
from likeset.homes.owner_node import OwnerNode, make_home
from likeset.homes.pinning import note_own_card
from likeset.homes.review import checkup, register
from likeset.tables.profile import documents_of
from likeset.text import without_secrets

__all__ = ["HERE", "NodePath", "add", "check", "init", "login", "opened_node"]

NodePath = Annotated[
    Path, typer.Option("--node", envvar="LIKESET_NODE", help="The node's directory; by default the current one.")
]
HERE = Path()


def login() -> str:
    """Who is at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a list of users
        return "unknown"


def opened_node(folder: Path) -> OwnerNode:
    """The node in a directory."""
    return OwnerNode(folder)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
    *,
    name: Annotated[str, typer.Option(help="The owner's name, as it stands in terms.", show_default=False)],
    as_json: JsonFlag = False,
) -> None:
    """Make a node. It allows nothing until owner.yaml says so.

    The directory holds everything, the sampling key among it: back it up, and let nobody else read it.

    Example: `likeset owner init st-mary --name st-mary`
    """
    home = make_home(folder, name=name)
    with opened_node(folder) as opened:
        opened.put_policy_in_force()  # the first one goes into the audit log
        note_own_card(opened, by=login())
    if as_json:
        show_json({"node": str(folder), "name": name, "policy": str(home.policy), "card": home.card().fingerprint})
        return
    stdout.print(f"[bold green]made[/]  {literal(str(folder))}", soft_wrap=True)
    stdout.print(f"its card, for others to pin: {literal(str(home.card_file))} (likeset card show)", soft_wrap=True)
    stdout.print(f"next: fill in {literal(str(home.policy))}, then likeset owner data add", soft_wrap=True)
    stdout.print(f"or in a browser: likeset owner console --node {literal(str(folder))}", soft_wrap=True)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you call it.", show_default=False)],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, database or query.", show_default=False)],
    *,
    schema: Annotated[Path, typer.Option(help="The schema that declares its columns.", show_default=False)],
    mapping: Annotated[Path | None, typer.Option(help="SQL that turns own columns into declared ones.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Register a data set. Its rows stay where they are; schema and mapping are copied.

    Example: `likeset owner data add patients patients.csv --schema schema.yaml --mapping mapping.yaml`
    """
    with opened_node(node) as opened:
        data = register(opened, name, source, schema=schema, mapping=mapping)
    shown, digest = without_secrets(data.source), data.schema.digest
    if as_json:
        document = {"data": name, "source": shown, "schema": digest, "columns": list(data.schema.record_columns)}
        dead = documents_of(data.dead_columns)
        show_json({**document, "suspected_identifiers": documents_of(data.suspicions), "dead_columns": dead})
    else:
        stdout.print(f"[bold green]added[/]  {literal(name)}: {literal(shown)}", soft_wrap=True)
        show_suspicions(data.suspicions)
        show_notes(column.warning for column in data.dead_columns)


def check(
    *,
    node: NodePath = HERE,
    kit: Annotated[Path | None, typer.Option(help="NVFlare start-up kit whose certificates to look at.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Look at everything before the first run: policy, data, disk, certificates, clock. Exit code 1 if anything fails.

    Example: `likeset owner check --node st-mary`
    """
    certificates = tuple(sorted((kit / "startup").glob("*.crt"))) if kit else ()
    with opened_node(node) as opened:
        findings = checkup(opened, certificates=certificates)
    ok = all(finding.ok for finding in findings)
    if as_json:
        suspected = documents_of(finding.suspicion for finding in findings if finding.suspicion is not None)
        documents = [{"what": finding.what, "ok": finding.ok, "words": finding.words} for finding in findings]
        dead = documents_of(finding.dead for finding in findings if finding.dead is not None)
        show_json({"ok": ok, "findings": documents, "suspected_identifiers": suspected, "dead_columns": dead})
    else:
        table = Table(show_header=False, box=None)
        for finding in findings:
            mark = "[yellow]warning[/]" if finding.is_warning else "[green]ok[/]"
            table.add_row(mark if finding.ok else "[bold red]no[/]", literal(finding.what), literal(finding.words))
        stdout.print(table)
        stdout.print("[bold green]ready[/]" if ok else "[bold red]not ready[/]")
    if not ok:
        raise typer.Exit(1)
