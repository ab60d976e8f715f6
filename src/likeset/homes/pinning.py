"""What people do with cards in any home; in an owner's node every change is in the audit log before it counts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from likeset.errors import InvalidArgument
from likeset.homes.consumer_home import ConsumerHome
from likeset.homes.curator_home import CuratorHome
from likeset.homes.home import PartyHome
from likeset.homes.owner_node import Home, OwnerNode
from likeset.homes.witness_home import WitnessHome
from likeset.trust.cards import Card, CardSecret, Pin, Pins

_Note = Callable[[dict[str, Any]], None]


def home_in(folder: Path) -> PartyHome:
    """The home in a directory, whosever it is.

    Raises:
        InvalidArgument: there is none.
    """
    homes: tuple[PartyHome, ...] = (Home(folder), ConsumerHome(folder), CuratorHome(folder), WitnessHome(folder))
    for home in homes:
        try:
            home.check()
        except InvalidArgument:
            continue
        return home
    made_by = "`likeset owner init`, `run init`, `curator init` and `witness init` make one"
    raise InvalidArgument("--home", folder, f"is no directory of an owner, consumer, curator or witness; {made_by}")


@contextmanager
def pins_to_change(home: PartyHome, *, by: str, node: OwnerNode | None = None) -> Iterator[Pins]:
    """The pinned cards of a home, for somebody who changes them.

    Args:
        home: the home.
        by: who does.
        node: the owner's node in it, where it is open already: a long log takes time to open.
    """
    with _noted(home, by=by, node=node) as note:
        yield home.pins(note=lambda pin: note(_words(pin)))


@dataclass(frozen=True, slots=True)
class MadeCard:
    """A home's new card.

    Attributes:
        card: the card.
        before: the files of the one before it; none if there was none.
    """

    card: Card
    before: tuple[Path, ...]


def make_own_card(
    home: PartyHome, *, by: str, name: str | None = None, new: bool = False, now: datetime | None = None
) -> MadeCard:
    """Make the card of a home.

    Args:
        home: the home.
        by: who wants it.
        name: on the card; that of the card before it, or else the home's, if not given.
        new: also if there is one, which is kept beside it.
        now: when; now if not given.

    Raises:
        InvalidArgument: there is a card already, or no party may have that name.
    """
    if not new:
        home.check_no_card()
    secret = CardSecret.generate(home.name_of_card() if name is None else name)
    with _noted(home, by=by) as note:
        note(_own_words(secret.card))
        before = home.set_card_aside(now) if new else []
        secret.write(home.folder)
    return MadeCard(secret.card, tuple(before))


def note_own_card(node: OwnerNode, *, by: str) -> None:
    """Write a new node's card into its audit log."""
    node.note("card", "", **_own_words(node.home.card()), by=by)


def check_not_own(home: PartyHome, card: Card) -> None:
    """Refuse a home's own card, and others of its name: terms that speak of a name mean one card.

    Raises:
        InvalidArgument: it is this home's own, or has its name.
    """
    own = home.card() if home.card_file.exists() else None
    if own is not None and own.name == card.name:
        reason = "is this home's own name; let the other party choose another one"
        if own == card:
            reason = "is this home's own card, to be pinned by others; ask the other party for its card"
        raise InvalidArgument("card", card.name, reason)


def _own_words(card: Card) -> dict[str, Any]:
    return {"state": "own", "name": card.name, "role": "owner", "fingerprint": card.fingerprint}


def _words(pin: Pin) -> dict[str, Any]:
    """What the audit log says about a pin that changes."""
    told = {"state": pin.state, "name": pin.card.name, "role": pin.role, "fingerprint": pin.card.fingerprint}
    return told | {word: value for word, value in (("replaced_by", pin.by), ("reason", pin.reason)) if value}


@contextmanager
def _noted(home: PartyHome, *, by: str, node: OwnerNode | None = None) -> Iterator[_Note]:
    """Where changes of cards are written down: an owner's audit log; others have none."""
    if node is not None:
        yield lambda words: node.note("card", "", **words, by=by)
    elif isinstance(home, Home):
        with OwnerNode(home.folder) as opened:
            yield lambda words: opened.note("card", "", **words, by=by)
    else:
        yield lambda _: None
