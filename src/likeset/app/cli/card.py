"""``likeset card``: who a home is, and whom a person here has compared by telephone."""

import sys
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from likeset.app.cli.party import HERE, home_option, login, show_fingerprint
from likeset.arguments import one_of
from likeset.display import JsonFlag, complain, literal, show_json, show_notes, stdout
from likeset.documents import write_text
from likeset.errors import InvalidArgument
from likeset.homes.home import PartyHome
from likeset.homes.pinning import check_not_own, home_in, make_own_card, pins_to_change
from likeset.trust.cards import Card, Pin, Role, check_fingerprint, read_card
from likeset.trust.cards import Role as AnyRole

__all__ = ["card"]

card = typer.Typer(
    name="card",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

HomePath = Annotated[Path, home_option("The directory of an owner, a consumer, a curator or a witness", or_node=True)]
CardFile = Annotated[Path, typer.Argument(metavar="FILE", help="The party's card.", show_default=False)]
Fingerprint = Annotated[
    str | None,
    typer.Option(help="Its fingerprint, as its party read it out; without it you are asked, at a terminal only."),
]
By = Annotated[
    str | None, typer.Option("--by", help="Who says so, for an owner's audit log; by default the name of the login.")
]
_STOLEN = (
    "everybody who pinned the old card must replace it (likeset card replace) before they hear this home again: give "
    "them the new one, and read its fingerprint out by telephone",
    "runs under way under the old card end; what they have cost stays charged",
    "if somebody else has the old keys, telephone now: until the old card is replaced, they can speak in your name",
)


@card.command()
def make(
    *,
    home: HomePath = HERE,
    name: Annotated[str | None, typer.Option(help="The name on it; by default the home's own.")] = None,
    new: Annotated[
        bool, typer.Option("--new", help="After a theft or a loss: also if there is one, which is kept beside it.")
    ] = False,
    by: By = None,
    as_json: JsonFlag = False,
) -> None:
    """Make the card of a home that has none: `card`, to give away, and `card.secret`, for nobody else.

    New homes have one. With `--new` a home gets another one in place of its own: then everybody who pinned the
    old one must replace it, and runs under way under the old one end.

    Example: `likeset card make --home st-mary`
    """
    own = home_in(home)
    made = make_own_card(own, by=by or login(), name=name, new=new)
    if as_json:
        document = {**_document(made.card), "file": str(own.card_file), "before": list(map(str, made.before))}
        show_json({**document, "notes": list(_STOLEN) if made.before else []})
        return
    stdout.print(f"[bold green]made[/]  {literal(str(own.card_file))}", soft_wrap=True)
    for path in made.before:
        stdout.print(f"kept  {literal(str(path))}", soft_wrap=True)
    show_fingerprint(made.card)
    show_notes(_STOLEN if made.before else ())


@card.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A card; by default the home's own.", show_default=False)
    ] = None,
    *,
    home: HomePath = HERE,
    export: Annotated[Path | None, typer.Option(help="Write the card, which is public, into this new file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a card: its name, its fingerprint to be read out by telephone, and as what it is pinned in this home.

    Example: `likeset card show --home st-mary --export st-mary.card`
    """
    if file is None:
        own = home_in(home)
        shown, place, pin = own.card(), own.card_file, None
    else:
        shown, place = read_card(file), file
        # Anybody may look at a card, also where there is no home.
        pin = None if home == HERE and not _is_home(home) else home_in(home).pins().by_fingerprint(shown.fingerprint)
    if export is not None:
        _export(shown, export)
    if as_json:
        role = {"role": pin.role, "state": pin.state} if pin else {"role": None, "state": None}
        exported = None if export is None else str(export)
        show_json({**_document(shown), **role, "file": str(place), "exported": exported})
        return
    stdout.print(f"[bold]{literal(shown.name)}[/]  {literal(str(place))}", soft_wrap=True)
    if file is None:
        stdout.print("the card of this home; give away this file, never card.secret", soft_wrap=True)
    elif pin is not None:
        stdout.print(f"{pin.state} as {pin.role}, {literal(pin.at)}", soft_wrap=True)
    show_fingerprint(shown)
    if export is not None:
        stdout.print(f"[bold green]written[/]  {literal(str(export))}", soft_wrap=True)


@card.command()
def pin(
    file: CardFile,
    *,
    role: Annotated[
        str, typer.Option("--as", help="As what: owner, curator, consumer or witness.", show_default=False)
    ],
    fingerprint: Fingerprint = None,
    home: HomePath = HERE,
    by: By = None,
    as_json: JsonFlag = False,
) -> None:
    """Pin a party's card, once its fingerprint was compared by telephone; then this home believes what it signs.

    Call a number that you know, not one that came with the card, and let the party read its fingerprint out.

    Example: `likeset card pin clinic.card --as consumer --home st-mary`
    """
    wanted = cast("Role", one_of("--as", role, get_args(AnyRole)))
    own, shown = home_in(home), read_card(file)
    check_not_own(own, shown)
    known = own.pins().check_pin(shown, wanted)
    if known is None and fingerprint is None:
        fingerprint = _compared(shown, as_json=as_json)
    with pins_to_change(own, by=by or login()) as pins:
        pinned = pins.pin(shown, wanted, fingerprint=fingerprint)
    _show_change(pinned, "was pinned already" if known else "pinned", own, as_json=as_json)


@card.command(name="list")
def list_cards(*, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """List the cards that were ever pinned in this home; only those that are pinned now count.

    Example: `likeset card list --home st-mary`
    """
    pins = home_in(home).pins().all()
    if as_json:
        show_json({"home": str(home), "cards": [_pin_document(pin) for pin in pins]})
    elif not pins:
        stdout.print("no card was ever pinned here; see likeset card pin --help")
    else:
        for pin in pins:
            why = f": {literal(pin.reason)}" if pin.reason else ""
            since = f"{pin.role}, {pin.state} since {pin.at[:10]}{why}"
            stdout.print(f"[bold]{literal(pin.card.name)}[/]  {since}", soft_wrap=True)
            show_fingerprint(pin.card)


@card.command()
def replace(
    file: CardFile,
    *,
    fingerprint: Fingerprint = None,
    home: HomePath = HERE,
    by: By = None,
    as_json: JsonFlag = False,
) -> None:
    """Pin a party's new card in place of its old one, once its fingerprint was compared by telephone.

    It has the role of the old one, and runs under way under that one end. Ask why there is a new one: whoever wants to
    be taken for the party would say the same.

    Example: `likeset card replace clinic-2027.card --home st-mary`
    """
    own, shown = home_in(home), read_card(file)
    check_not_own(own, shown)
    before = own.pins().check_replacement(shown)
    known = before.card == shown
    if not known and fingerprint is None:
        fingerprint = _compared(shown, as_json=as_json)
    with pins_to_change(own, by=by or login()) as pins:
        pinned = pins.replace(shown, fingerprint=fingerprint)
    _show_change(pinned, "was pinned already" if known else "pinned in place of the old one", own, as_json=as_json)


@card.command()
def revoke(
    which: Annotated[
        str, typer.Argument(metavar="NAME|FINGERPRINT", help="The pinned card, or one that was.", show_default=False)
    ],
    *,
    reason: Annotated[str, typer.Option(help="Why, for those who look later.", show_default=False)],
    home: HomePath = HERE,
    by: By = None,
    as_json: JsonFlag = False,
) -> None:
    """Mark a card as one that never counts again: nothing that it signs is believed here from now on.

    Example: `likeset card revoke clinic --reason "keys stolen" --home st-mary`
    """
    own = home_in(home)
    with pins_to_change(own, by=by or login()) as pins:
        revoked = pins.revoke(which, reason)
    _show_change(revoked, "revoked", own, as_json=as_json)


def _at_terminal() -> bool:
    return sys.stdin.isatty() and stdout.is_terminal


def _compared(shown: Card, *, as_json: bool) -> str | None:
    """Let a person compare a fingerprint; what they typed, or None if they say that it is the same."""
    if as_json or not _at_terminal():
        reason = "nobody is here to compare it by telephone; give what the party read out, with --fingerprint"
        raise InvalidArgument("--fingerprint", "none", reason)
    stdout.print(f"The card of [bold]{literal(shown.name)}[/] has this fingerprint:", soft_wrap=True)
    show_fingerprint(shown)
    stdout.print("Call its party by a number that did not come with the card, and let it read out its own.")
    stdout.print("Type what you hear, or yes if all eight groups are the same; Enter alone pins nothing.")
    while True:
        answer = typer.prompt("fingerprint or yes", default="", show_default=False).strip()
        if answer.casefold() == "yes":
            return None
        if not answer or answer.casefold() == "no":
            stdout.print("nothing was pinned")
            raise typer.Exit(1)
        try:
            check_fingerprint(answer, shown)
        except InvalidArgument as error:
            complain(str(error))
        else:
            return str(answer)


def _is_home(folder: Path) -> bool:
    try:
        home_in(folder)
    except InvalidArgument:
        return False
    return True


def _export(shown: Card, path: Path) -> None:
    if path.exists():
        raise InvalidArgument("--export", path, "is there already, and nothing is overwritten; name a new file")
    write_text(path, shown.to_text())


def _document(shown: Card) -> dict[str, Any]:
    return {"name": shown.name, "fingerprint": shown.fingerprint}


def _pin_document(pin: Pin) -> dict[str, Any]:
    words = {"role": pin.role, "state": pin.state, "at": pin.at, "replaced_by": pin.by, "reason": pin.reason}
    return {**_document(pin.card), **words}


def _show_change(pin: Pin, words: str, home: PartyHome, *, as_json: bool) -> None:
    if as_json:
        show_json({"home": str(home.folder), **_pin_document(pin)})
        return
    name, place = literal(pin.card.name), literal(str(home.folder))
    stdout.print(f"[bold green]{words}[/]  {name}, {pin.role}, in {place}", soft_wrap=True)
