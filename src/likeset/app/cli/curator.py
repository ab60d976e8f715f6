"""``likeset curator``: the side of whom all trust to see offered rows; letters travel by mailbox."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from likeset.app.cli.home_paths import HERE, home_option
from likeset.app.cli.mailbox import (
    EveryOption,
    ListenOption,
    MailboxOption,
    ReachOption,
    computing_desks,
    nobody_known,
    serve_and_show,
    show_card_to_give,
    sync_and_show,
)
from likeset.display.screen import JsonFlag, literal, show_json, show_table, stdout
from likeset.homes.curator_home import SETTINGS_FILE, CuratorHome, make_curator_home
from likeset.tables.schema import Schema
from likeset.transports.desks import curator_desk
from likeset.transports.posts import Desk

__all__ = ["curator"]

curator = typer.Typer(
    name="curator",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
HomePath = Annotated[Path, home_option("The curator's directory")]


@curator.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
    *,
    name: Annotated[str, typer.Option(help="The name on its card.")] = "curator",
    schema: Annotated[list[Path] | None, typer.Option(help="A schema that runs may use; repeatable.")] = None,
    mailbox: MailboxOption = None,
    listen: ListenOption = "",
    reach_at: ReachOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Make the directory of a curator: its card, its letters, the schemas that it knows.

    Give consumers and owners its card, to be pinned, and pin the cards of consumers. A run is curated only if the card
    of its consumer is pinned here: `likeset card pin FILE --as consumer`.

    Example: `likeset curator init curator --schema schema.yaml --mailbox file:///mnt/share`
    """
    for path in schema or []:
        Schema.load(path)  # before anything is made
    home = make_curator_home(folder, name=name, mailboxes=mailbox or (), listen=listen, reach_at=reach_at)
    known = [home.add_schema(path) for path in schema or []]
    if as_json:
        digests = [declared.digest for declared in known]
        show_json({"home": str(folder), "name": name, "card": home.card().fingerprint, "schemas": digests})
        return
    stdout.print(f"[bold green]made[/]  {literal(str(folder))}", soft_wrap=True)
    show_card_to_give(home, to="consumers and owners", role="curator")


@curator.command()
def schema(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[SCHEMA.yaml]...", help="Schemas that runs may use from now on.")
    ] = None,
    *,
    seed_rows: Annotated[
        list[Path] | None, typer.Option(help="Public rows that runs may start from, on those schemas; repeatable.")
    ] = None,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Know schemas, and list all that are known. A run on another one ends before anybody is asked for rows.

    Example: `likeset curator schema schema.yaml --home curator`
    """
    opened = opened_curator(home)
    for path in files or []:
        opened.add_schema(path)
    digests = [digest for path in seed_rows or [] for digest in opened.add_seed_rows(str(path))]
    known = opened.schemas_known()
    if as_json:
        documents = [{"schema": declared.digest, "columns": list(declared.record_columns)} for declared in known]
        show_json({"schemas": documents, "seed_rows_added": digests})
        return
    rows = [[", ".join(declared.record_columns), declared.digest[:12]] for declared in known]
    show_table("Schemas that runs may use", ["columns", "digest"], rows)
    for digest in digests:
        stdout.print(f"[bold green]added[/]  public rows {literal(digest[:12])}")


@curator.command()
def sync(*, mailbox: MailboxOption = None, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Look into the mailboxes once: take what came, send what is due. Exit code 1 if one cannot be used now.

    Without --mailbox those that curator.yaml names. Made for cron.

    Example: `likeset curator sync --mailbox file:///mnt/share --home curator`
    """
    with _desks(home, mailbox, stays=False) as desks:
        sync_and_show(desks, as_json=as_json, notes=nobody_known(home))


@curator.command()
def serve(
    *,
    mailbox: MailboxOption = None,
    every: EveryOption = 60.0,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Stay, and look into the mailboxes again and again, with pauses that grow while nothing comes.

    SIGTERM and Ctrl-C end it between two letters, with exit code 0. A mailbox that is away is tried again. Split runs
    are computed beside the looks, if curator.yaml says where to listen.

    Example: `likeset curator serve --mailbox file:///mnt/share --home curator`
    """
    with _desks(home, mailbox, stays=True) as desks:
        serve_and_show(desks, every=every, as_json=as_json, notes=nobody_known(home))


def _desks(folder: Path, given: list[str] | None, *, stays: bool) -> AbstractContextManager[list[Desk]]:

    home = opened_curator(folder)
    return computing_desks(
        home, given, lambda at, store, room: curator_desk(at, store, room=room), file=SETTINGS_FILE, stays=stays
    )


def opened_curator(folder: Path) -> CuratorHome:
    """The curator's home in a directory."""
    home = CuratorHome(folder)
    home.check()
    return home
