"""Who a home is: its card, the cards that it knows, and the book of its letters."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from likeset.homes.expiry import utc_now
from likeset.homes.letter_book import LetterBook
from likeset.trust.cards import CardSecret
from likeset.trust.pins import Pins

__all__ = ["BOOK_FILE", "CARDS_FOLDER", "Identity"]

BOOK_FILE = "letters.sqlite"
CARDS_FOLDER = "cards"


@dataclass(frozen=True, eq=False)
class Identity:
    """Who a home is, whom it knows, and what it wrote.

    Attributes:
        secret: its card, with the private half.
        pins: cards that a person here has pinned.
        book: its letters.
    """

    secret: CardSecret
    pins: Pins
    book: LetterBook

    @classmethod
    def of(cls, folder: Path, *, clock: Callable[[], datetime] = utc_now) -> Self:
        """That of the home in a directory."""
        secret = CardSecret.load(folder)
        return cls(secret, Pins(folder / CARDS_FOLDER), LetterBook(folder / BOOK_FILE, clock=clock))

    @property
    def fingerprint(self) -> str:
        """Of its card."""
        return self.secret.card.fingerprint
