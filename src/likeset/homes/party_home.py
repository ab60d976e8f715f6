"""The directory of a party, as far as all have the same: its own card, the cards pinned in it, and its letters.

``card`` is the card to give away, ``card.secret`` holds its keys, ``cards`` the pins, ``letters.sqlite`` the letters. A
card that was given up stays beside the new one, with the time in its name: what it signed can still be checked.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from likeset.errors import BadDocument, InvalidArgument
from likeset.homes.expiry import utc_now
from likeset.homes.identity import BOOK_FILE, CARDS_FOLDER, Identity
from likeset.trust.cards import CARD_FILE, SECRET_FILE, Card, CardSecret, read_card
from likeset.trust.pins import Pin, Pins

__all__ = ["PartyHome"]


@dataclass(frozen=True, slots=True)
class PartyHome(ABC):
    """The directory of a party.

    Args:
        folder: where it is.
    """

    folder: Path

    @property
    @abstractmethod
    def usual_name(self) -> str:
        """What its card is called if nobody says otherwise."""

    @abstractmethod
    def check(self) -> None:
        """Raise unless this is the directory of such a party."""

    @property
    def card_file(self) -> Path:
        """The file of its own card, to be given away."""
        return self.folder / CARD_FILE

    @property
    def cards(self) -> Path:
        """The folder of the pinned cards."""
        return self.folder / CARDS_FOLDER

    @property
    def book_file(self) -> Path:
        """The file of its letters; in an owner's node it is made with the first one."""
        return self.folder / BOOK_FILE

    @property
    def identity(self) -> Identity:
        """Who it is, whom it knows, and its letters; raises as ``card``."""
        return Identity.of(self.folder)

    def card(self) -> Card:
        """Its own card, which it has the keys of.

        Raises:
            BadDocument: there are no keys, others can read them, or they are damaged.
        """
        return self.card_secret().card

    def card_secret(self) -> CardSecret:
        """Its own card with its keys; raises as ``card``."""
        return CardSecret.load(self.folder)

    def pins(self, *, note: Callable[[Pin], None] | None = None) -> Pins:
        """The pinned cards; ``note`` is told of each change before it is written."""
        return Pins(self.cards, note=note)

    def check_no_card(self) -> None:
        """Raise if there is a card, or what is left of one: keys are never overwritten."""
        for path in (self.card_file, self.folder / SECRET_FILE):
            if path.exists():
                reason = "is there already, and keys are never overwritten; if they were stolen or lost, add --new"
                raise InvalidArgument("card", path, reason)

    def name_of_card(self) -> str:
        """What its card is called, or would be; keys that cannot be used do no harm."""
        try:
            return read_card(self.card_file).name
        except BadDocument:
            return self.usual_name

    def set_card_aside(self, now: datetime | None = None) -> list[Path]:
        """Give the card up: both of its files get the time into their names; returns where they are.

        Whatever a crash leaves of it, calling it again goes on.

        Raises:
            InvalidArgument: another one was given up in this very second.
            BadDocument: the files cannot be renamed.
        """
        marked = f"until-{(now or utc_now()).astimezone(UTC):%Y%m%dT%H%M%SZ}"
        files = [path for path in (self.folder / SECRET_FILE, self.card_file) if path.exists()]
        aside = [path.with_name(f"{path.name}.{marked}") for path in files]
        for path in aside:
            if path.exists():
                raise InvalidArgument("card", path, "is there already; try again in a second")
        for path, place in zip(files, aside, strict=True):
            try:
                path.rename(place)
            except OSError as error:
                raise BadDocument(str(path), f"cannot be renamed: {error.strerror}") from error
        return aside
