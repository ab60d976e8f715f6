"""``likeset card``: the card of a home, and the cards that it pinned."""

import shlex
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from likeset.app.cli.home import HERE, NOUN, By, HomePath, ask, at_home, at_terminal, login, show_fingerprint
from likeset.app.lazy import lazy_imports
from likeset.display import emit, literal, stdout
from likeset.documents import write_text
from likeset.errors import InvalidArgument

with lazy_imports():
    from likeset import arguments
    from likeset.homes import home as homes
    from likeset.homes import mail as letters
    from likeset.trust import cards

card = typer.Typer(name="card", **NOUN)

CardFile = Annotated[Path, typer.Argument(metavar="FILE", help="The party's card.", show_default=False)]
Fingerprint = Annotated[
    str | None,
    typer.Option(help="Its fingerprint, as its party read it out; without it you are asked, at a terminal only."),
]
_STOLEN = (
    "everybody who pinned the old card must revoke it and pin the new one before letters of this home reach them: "
    "give them the new one, and read its fingerprint out by telephone",
    "open runs under the old card end; what they have cost stays charged",
    "if somebody else has the old keys, telephone now: until the old card is revoked, they can speak in your name",
)


@card.command()
def make(
    *,
    home: HomePath = HERE,
    new: Annotated[
        bool, typer.Option("--new", help="After a theft or a loss: replace the card; its old files are kept.")
    ] = False,
    by: By = None,
) -> None:
    """Make the card of a home that has none: `card`, to give to others, and `card.secret`, to keep secret.

    New homes have one. With `--new`, a new card replaces it: everybody who pinned the old card must then pin it,
    and open runs under the old card end.

    Example: `likeset card make --home st-mary`
    """
    with homes.Home(home) as own:
        made, before = own.make_card(by=by or login(), new=new)
    document = {**_document(made), "file": str(own.card_file), "before": list(map(str, before))}
    emit({**document, "notes": list(_STOLEN) if before else []})


@card.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A card; by default the home's own.", show_default=False)
    ] = None,
    *,
    home: HomePath = HERE,
    export: Annotated[Path | None, typer.Option(help="Write the card, which is public, into this new file.")] = None,
) -> None:
    """Show a card: its name, its fingerprint to be read out by telephone, and the role it is pinned with in this home.

    Example: `likeset card show --home st-mary --export st-mary.card`
    """
    pin = None
    if file is not None and home == HERE and not (home / homes.SETTINGS_FILE).exists():
        shown, place = cards.read_card(file), file  # anybody may look at a card, without a home
    else:
        with homes.Home(home) as own:
            shown, place = (own.card, own.card_file) if file is None else (cards.read_card(file), file)
            pin = None if file is None else own.pins.by_fingerprint(shown.fingerprint)
    if export is not None:
        if export.exists():
            raise InvalidArgument("--export", export, "already exists, and nothing is overwritten; name a new file")
        write_text(export, shown.to_text())
    role = {"role": pin.role, "state": pin.state} if pin else {"role": None, "state": None}
    exported = None if export is None else str(export)
    emit({**_document(shown), **role, "file": str(place), "exported": exported})


@card.command()
def pin(
    file: CardFile,
    *,
    role: Annotated[
        str, typer.Option("--as", help="The role: owner, curator, consumer or witness.", show_default=False)
    ],
    fingerprint: Fingerprint = None,
    home: HomePath = HERE,
    by: By = None,
) -> None:
    """Pin a party's card after comparing its fingerprint by telephone; this home then accepts what the card signs.

    Call a number that you knew before, not one that came with the card, and let the party read its fingerprint out.

    Example: `likeset card pin clinic.card --as consumer --home st-mary`
    """
    wanted = cast("cards.Role", arguments.one_of("--as", role, get_args(cards.Role)))
    with homes.Home(home) as own:
        shown = cards.read_card(file)
        if own.pins.check_pin(shown, wanted) is None and fingerprint is None:
            fingerprint = _compared(shown)
        pinned = own.pins.pin(shown, wanted, fingerprint=fingerprint, by=by or login())
    emit({"home": str(home), **_pin_document(pinned)})


@card.command(name="list")
def list_cards(*, home: HomePath = HERE) -> None:
    """List all cards that were ever pinned in this home; only those that are still pinned are accepted.

    Example: `likeset card list --home st-mary`
    """
    with homes.Home(home) as own:
        pins = own.pins.all()
    hint = () if pins else at_home(home, "likeset", "card", "pin", "FILE", "--as", "ROLE")
    document = {"home": str(home), "cards": [_pin_document(pin) for pin in pins]}
    emit(document, next_step=hint)


@card.command()
def revoke(
    which: Annotated[
        str, typer.Argument(metavar="NAME|FINGERPRINT", help="A card that is pinned or was.", show_default=False)
    ],
    *,
    reason: Annotated[str, typer.Option(help="The reason, for the log.", show_default=False)],
    home: HomePath = HERE,
    by: By = None,
) -> None:
    """Revoke a card for ever: from now on this home accepts nothing that it signs.

    Example: `likeset card revoke clinic --reason "keys stolen" --home st-mary`
    """
    with homes.Home(home) as own:
        revoked = own.pins.revoke(which, reason, by=by or login())
        ended = letters.Mail(own).open_runs_with(revoked.card)
        own_curators = [pin.card.name for pin in own.pins.pinned("curator") if pin.belongs_to == revoked.card.name]
    notes = ["nothing more leaves in these runs; rows that were sent before stay there"] if ended else []
    for name in own_curators:
        again = shlex.join(at_home(home, "likeset", "card", "revoke", name, "--reason", reason))
        notes.append(f"{name} belongs to it: {again}")
    document = {"home": str(home), **_pin_document(revoked), "ended_runs": ended}
    emit(document, notes=notes)


def _compared(shown: "cards.Card") -> str:
    if not at_terminal():
        reason = "nobody is here to compare it by telephone; give what the party read out, with --fingerprint"
        raise InvalidArgument("--fingerprint", "none", reason)
    stdout.print(f"The card of [bold]{literal(shown.name)}[/] has this fingerprint:", soft_wrap=True)
    show_fingerprint(shown.fingerprint)
    stdout.print("Call its party by a number that did not come with the card, and let it read out its own.")
    stdout.print("Type what you hear, or yes if all eight groups are the same; Enter alone pins nothing.")

    def heard(answer: str) -> str:
        if answer.casefold() not in ("yes", "no"):
            cards.check_fingerprint(answer, shown)
        return "" if answer.casefold() == "no" else shown.fingerprint

    if not (compared := ask("fingerprint or yes", heard)):
        stdout.print("nothing was pinned")
        raise typer.Exit(1)
    return compared


def _document(shown: "cards.Card") -> dict[str, Any]:
    return {"name": shown.name, "fingerprint": shown.fingerprint}


def _pin_document(pin: "cards.Pin") -> dict[str, Any]:
    state = {"role": pin.role, "state": pin.state, "at": pin.at, "belongs_to": pin.belongs_to}
    why = "introduced_by" if pin.introduced_by else "reason"
    return {**_document(pin.card), **state, why: pin.reason}
