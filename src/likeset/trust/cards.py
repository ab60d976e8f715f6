"""A card is who a party is: a name, a key that checks its signatures, a key that seals to it.

It is signed with its own key, so nobody can change a part of it, and it is known by its fingerprint, which two people
compare by telephone. A card proves nothing about the name on it: a person who pins it does.
"""

import base64
import binascii
import functools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from likeset import documents
from likeset.documents import make_folder, write_text
from likeset.errors import BadDocument, InvalidArgument
from likeset.privacy.guarantee import checked_name
from likeset.trust.encoding import CARD_CONTEXT, fields, read_tagged, signed
from likeset.trust.fingerprints import check_typed, fingerprint_of
from likeset.trust.sealing import SealingSecret, check_sealing_key
from likeset.trust.signing import check_signing_key, holds

__all__ = [
    "CARD_FILE",
    "SECRET_FILE",
    "SUITE",
    "Card",
    "CardSecret",
    "card_in",
    "check_fingerprint",
    "read_card",
]

SUITE = "likeset-1"
"""Ed25519; HPKE with ML-KEM-768 and X25519, HKDF-SHA256, ChaCha20-Poly1305; SHA-256. Nothing in it can be chosen."""
CARD_FILE, SECRET_FILE = "card", "card.secret"
_TAG, _SECRET_TAG = b"likeset card", b"likeset card secret"
_TITLE, _SECRET_TITLE = "likeset card 1", "likeset card secret 1"
_LINE = 76
_MOST_BYTES = 1 << 16
_AGAIN = "get the file again"
_EXPORTED = "the file to ask for is the one that `likeset card show --export FILE` writes"
_GIVEN_AWAY = (
    "holds the keys of a card, which nobody may give away, and is no card; if somebody sent it to you, tell them to "
    "call `likeset card make --new`, for whoever has these keys speaks in their name"
)


@dataclass(frozen=True)
class Card:
    """A party's public half. One that exists is whole: its keys are usable, and its own signature holds.

    Attributes:
        name: as it calls itself.
        signing: its Ed25519 key, 32 bytes.
        sealing: its sealing key, 1216 bytes.
        signature: over the others, by ``signing``.

    Raises:
        BadDocument: it is none.
    """

    name: str
    signing: bytes = field(repr=False)
    sealing: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def __post_init__(self) -> None:
        _check_name(self.name)
        check_signing_key(self.signing, what="card")
        check_sealing_key(self.sealing, what="card")
        if not self.verify(CARD_CONTEXT, _signed_parts(self.name, self.signing, self.sealing), self.signature):
            raise BadDocument("card", "its signature does not hold: something in it was changed")

    def to_bytes(self) -> bytes:
        """As it travels, and as its fingerprint is taken of."""
        return fields(_TAG, *_signed_parts(self.name, self.signing, self.sealing), self.signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The card that ``to_bytes`` wrote.

        Raises:
            BadDocument: it is none.
        """
        if len(data) > _MOST_BYTES:
            raise BadDocument("card", "is larger than a card can be")
        suite, name, signing, sealing, signature = read_tagged(_TAG, data, 5)
        if suite != SUITE.encode("ascii"):
            raise BadDocument("card", f"is of another suite than {SUITE}, which is the only one known here")
        try:
            return cls(name.decode("ascii"), signing, sealing, signature)
        except UnicodeDecodeError:
            raise BadDocument("card", "has a name that no party may have") from None

    @functools.cached_property
    def fingerprint(self) -> str:
        """Eight groups of five letters, over all of it."""
        return fingerprint_of(self.to_bytes())

    def to_text(self) -> str:
        """As it stands in a file, for people to send around."""
        return f"{_TITLE}\nname: {self.name}\nfingerprint: {self.fingerprint}\n{_armoured(self.to_bytes())}"

    def verify(self, context: str, parts: Sequence[bytes], signature: bytes) -> bool:
        """Whether the holder of the card signed these parts as what the context says."""
        return holds(self.signing, signed(context, *parts), signature)


def read_card(path: Path) -> Card:
    """The card in a file.

    Raises:
        BadDocument: there is none.
    """
    return card_in(str(path), _text_in(path, missing="there is no such file; ask its party for its card"))


def card_in(name: str, text: str) -> Card:
    """The card in a text; ``name`` stands for it in errors.

    Raises:
        BadDocument: it is none, or the name or fingerprint above it are of another one.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or lines[0] != _TITLE:
        if lines and lines[0] == _SECRET_TITLE:
            raise BadDocument(name, _GIVEN_AWAY)
        raise BadDocument(name, f"is no card: it does not begin with '{_TITLE}'; {_EXPORTED}")
    try:
        card = Card.from_bytes(_unarmoured(lines[3:]))
    except BadDocument as error:
        raise BadDocument(name, f"{error.reason}; {_AGAIN}") from None
    for number, (word, value) in enumerate((("name", card.name), ("fingerprint", card.fingerprint)), start=1):
        if lines[number] != f"{word}: {value}":
            raise BadDocument(name, f"is not what the card below it says: somebody changed it; {_AGAIN}", field=word)
    return card


def check_fingerprint(expected: str, card: Card) -> None:
    """A fingerprint that a person typed is the card's; small letters and missing dashes do no harm.

    Raises:
        InvalidArgument: it is not; names the group and letter that differ.
    """
    check_typed(expected, card.fingerprint, whose=card.name)


class CardSecret:
    """A party's card with its private halves: the same keys and name always give the same card.

    Attributes:
        card: the public half.
        sealing: the private half of the card's sealing key.
    """

    def __init__(self, name: str, signing: Ed25519PrivateKey, sealing: SealingSecret) -> None:
        self.sealing = sealing
        self._signing = signing
        public = signing.public_key().public_bytes_raw()
        signature = self.sign(CARD_CONTEXT, *_signed_parts(name, public, sealing.public))
        self.card = Card(name, public, sealing.public, signature)

    @classmethod
    def generate(cls, name: str) -> Self:
        """A new card of a name, with new keys.

        Raises:
            InvalidArgument: no party may have that name.
        """
        checked_name("name", name)
        return cls(name, Ed25519PrivateKey.generate(), SealingSecret.generate())

    def sign(self, context: str, *parts: bytes) -> bytes:
        """The signature of the parts as what the context says: 64 bytes."""
        return self._signing.sign(signed(context, *parts))

    def write(self, folder: Path) -> None:
        """Into a home: ``card``, to be sent around, and ``card.secret``, for nobody else.

        Raises:
            InvalidArgument: there are keys already.
            BadDocument: they cannot be written.
        """
        for file in (SECRET_FILE, CARD_FILE):
            if (folder / file).exists():
                reason = "is there already, and keys are never overwritten: move it away first, or use another home"
                raise InvalidArgument("card", folder / file, reason)
        make_folder(folder)
        secret = fields(_SECRET_TAG, self._signing.private_bytes_raw(), self.sealing.to_bytes())
        write_text(folder / SECRET_FILE, f"{_SECRET_TITLE}\n{_armoured(secret)}")
        write_text(folder / CARD_FILE, self.card.to_text())

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The keys of a home.

        Raises:
            BadDocument: there are none, others can read them, they are damaged, or the card is of other keys.
        """
        path = folder / SECRET_FILE
        make = "make them with 'likeset card make'"
        if (folder / CARD_FILE).exists():
            make = "restore them from a copy, or make a new card with 'likeset card make --new'"
        text = _text_in(path, missing=f"there are no keys in this home; {make}", secret=True)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        damaged = BadDocument(str(path), "is damaged and holds no keys; restore it from a copy")
        if not lines or lines[0] != _SECRET_TITLE:
            raise damaged
        try:
            signing_bytes, sealing_bytes = read_tagged(_SECRET_TAG, _unarmoured(lines[1:]), 2)
            signing = Ed25519PrivateKey.from_private_bytes(signing_bytes)
            sealing = SealingSecret.from_bytes(sealing_bytes)
        except (BadDocument, ValueError):
            raise damaged from None
        public = folder / CARD_FILE
        missing = "is missing beside its keys; restore it from a copy, or call 'likeset card make --new'"
        card = card_in(str(public), _text_in(public, missing=missing))
        loaded = cls(card.name, signing, sealing)
        if loaded.card != card:
            raise BadDocument(str(path), f"does not belong to {CARD_FILE} beside it; restore both from one copy")
        return loaded

    def __repr__(self) -> str:
        return f"CardSecret({self.card.name!r}, ...)"


def _signed_parts(name: str, signing: bytes, sealing: bytes) -> tuple[bytes, ...]:
    return SUITE.encode("ascii"), name.encode("ascii"), signing, sealing


def _check_name(name: str) -> None:
    try:
        checked_name("name", name)
    except InvalidArgument as error:
        raise BadDocument("card", error.reason, field="name") from None


def _armoured(data: bytes) -> str:
    return "\n".join(textwrap.wrap(base64.b64encode(data).decode("ascii"), _LINE)) + "\n"


def _unarmoured(lines: Sequence[str]) -> bytes:
    text = "".join(lines)
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise BadDocument("card", "is damaged: some letters in it are none of base 64") from None
    if base64.b64encode(data).decode("ascii") != text:
        raise BadDocument("card", "is damaged at its end")
    return data


def _text_in(path: Path, *, missing: str, secret: bool = False) -> str:
    """The small text in a file; with ``secret``, in one that nobody else can read."""
    data = documents.bytes_in(path, most=_MOST_BYTES, missing=missing, secret=secret)
    try:
        if len(data) > _MOST_BYTES:
            raise BadDocument(str(path), "is larger than a card can be")
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise BadDocument(str(path), "is no text, so it holds no card") from None
