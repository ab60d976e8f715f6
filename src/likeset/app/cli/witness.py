"""``likeset witness``: the side of a third organisation that computes on shares and reads nothing."""

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
from likeset.homes.witness_home import PROMISES, SETTINGS_FILE, WitnessHome, checkup, make_witness_home
from likeset.transports.desks import witness_desk
from likeset.transports.posts import Desk

__all__ = ["witness"]

witness = typer.Typer(
    name="witness",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
HomePath = Annotated[Path, home_option("The witness's directory")]


@witness.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
    *,
    name: Annotated[str, typer.Option(help="The name on its card.", show_default=False)],
    mailbox: MailboxOption = None,
    listen: ListenOption = "",
    reach_at: ReachOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Make the directory of a witness: its card, its settings, its letters. It needs no data.

    Give consumers, curators and owners its card, and pin the cards of consumers and curators. Workers need an
    environment of their own: `likeset split setup`.

    Example: `likeset witness init uni --name university --mailbox file:///mnt/share --listen 0.0.0.0:7301
    --reach-at uni.example:7301`
    """
    home = make_witness_home(folder, name=name, mailboxes=mailbox or (), listen=listen, reach_at=reach_at)
    if as_json:
        show_json({"home": str(folder), "name": name, "card": home.card().fingerprint, "promises": list(PROMISES)})
        return
    stdout.print(f"[bold green]made[/]  {literal(str(folder))}", soft_wrap=True)
    show_card_to_give(home, to="consumers, curators and owners", role="witness")
    _show_promises()


@witness.command()
def check(*, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Say what this witness promises, and whether it can: keys, cards, workers, ports. Exit code 1 if something fails.

    Example: `likeset witness check --home uni`
    """
    findings = checkup(opened_witness(home))
    if as_json:
        documents = [{"what": finding.what, "ok": finding.ok, "words": finding.words} for finding in findings]
        show_json({"promises": list(PROMISES), "findings": documents})
    else:
        _show_promises()
        rows = [[finding.what, "ok" if finding.ok else "NOT OK", finding.words] for finding in findings]
        show_table("Check-up", ["what", "", "found"], rows)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


@witness.command()
def sync(*, mailbox: MailboxOption = None, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Look into the mailboxes once: take what came, send what is due. Exit code 1 if one cannot be used now.

    Nothing is computed: for that somebody must stay, here and at the two others, with `serve`.

    Example: `likeset witness sync --home uni`
    """
    with _desks(home, mailbox, stays=False) as desks:
        sync_and_show(desks, as_json=as_json, notes=nobody_known(home))


@witness.command()
def serve(
    *,
    mailbox: MailboxOption = None,
    every: EveryOption = 60.0,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Stay, look into the mailboxes again and again, and compute when all three are ready.

    SIGTERM and Ctrl-C end it between two letters, with exit code 0; what was computed so far is kept, and goes on with
    the next call. A mailbox that is away is tried again.

    Example: `likeset witness serve --home uni`
    """
    with _desks(home, mailbox, stays=True) as desks:
        serve_and_show(desks, every=every, as_json=as_json, notes=nobody_known(home))


def _desks(folder: Path, given: list[str] | None, *, stays: bool) -> AbstractContextManager[list[Desk]]:

    home = opened_witness(folder)
    return computing_desks(
        home, given, lambda at, store, room: witness_desk(at, store, room=room), file=SETTINGS_FILE, stays=stays
    )


def opened_witness(folder: Path) -> WitnessHome:
    """The witness's home in a directory."""
    home = WitnessHome(folder)
    home.check()
    return home


def _show_promises() -> None:

    stdout.print("A witness promises", soft_wrap=True)
    for promise in PROMISES:
        stdout.print(f"  - {literal(promise)}", soft_wrap=True)
