"""Cards: a party's name and public keys, its signatures and seals, fingerprints, and the cards that a home pinned."""

import base64
import functools
import hashlib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from likeset import documents
from likeset.arguments import checked_name
from likeset.documents import write_text
from likeset.errors import BadDocument, InvalidArgument
from likeset.files import make_private_folder

CARD_CONTEXT = "likeset/card/1"
TERMS_CONTEXT = "likeset/terms/1"
ACCEPTANCE_CONTEXT = "likeset/acceptance/1"
LETTER_CONTEXT = "likeset/letter/1"
RECEIPT_CONTEXT = "likeset/receipt/3"
LIST_CONTEXT = "likeset/list/1"
ROSTER_CONTEXT = "likeset/roster/1"
INVITE_TAG = b"likeset invite"
INVITE_CONTEXT = "likeset/invite/1"
REPLY_CONTEXT = "likeset/reply/1"
CONTEXTS = {CARD_CONTEXT, TERMS_CONTEXT, ACCEPTANCE_CONTEXT, LETTER_CONTEXT, RECEIPT_CONTEXT, LIST_CONTEXT}
CONTEXTS |= {ROSTER_CONTEXT, INVITE_CONTEXT, REPLY_CONTEXT}
"""Everything that a card signs. One that is not here cannot be signed: two kinds never share a name by accident."""

_LENGTH_BYTES = 8
_MOST_PARTS = 1 << 16  # empty parts cost their reader more memory than they have bytes


def fields(*parts: bytes) -> bytes:
    """The parts one after another, each after its length: 8 bytes, the most significant one first."""
    return b"".join([piece for part in parts for piece in (len(part).to_bytes(_LENGTH_BYTES, "big"), part)])


def read_fields(data: bytes | memoryview, count: int | None, *, what: str) -> tuple[bytes, ...]:
    """The parts that ``fields`` put together, so many if ``count`` is given; BadDocument if these are other bytes."""
    return tuple(bytes(view) for view in view_fields(data, count, what=what))


def view_fields(data: bytes | memoryview, count: int | None, *, what: str) -> list[memoryview]:
    """The same parts where they lie, without a copy."""
    whole = memoryview(data)
    most = _MOST_PARTS if count is None else count
    parts: list[memoryview] = []
    position, end = 0, len(whole)
    while position < end:
        start = position + _LENGTH_BYTES
        if len(parts) == most:
            raise BadDocument(what, f"has more than its {most} parts")
        if start > end:
            raise BadDocument(what, "is cut off in the length of a part")
        position = start + int.from_bytes(whole[start - _LENGTH_BYTES : start], "big")
        if position > end:
            raise BadDocument(what, "is cut off, or a length in it is wrong")
        parts.append(whole[start:position])
    if count is not None and len(parts) != count:
        raise BadDocument(what, f"has {len(parts)} parts; {count} are needed")
    return parts


def read_tagged(tag: bytes, data: bytes, count: int) -> tuple[bytes, ...]:
    """The parts after the first, which must be ``tag``: the words that say what the bytes are."""
    what = tag.decode("ascii")
    first, *parts = read_fields(data, count + 1, what=what)
    if first != tag:
        raise BadDocument(what, "is something else: it does not begin with its name")
    return tuple(parts)


def name_in(data: bytes, *, what: str) -> str:
    try:
        return checked_name("name", data.decode("ascii"))
    except (UnicodeDecodeError, InvalidArgument):
        raise BadDocument(what, "has a name that no party may have", field="name") from None


def signed(context: str, *parts: bytes) -> bytes:
    if context not in CONTEXTS:
        raise InvalidArgument("context", context, f"must be one of {', '.join(sorted(CONTEXTS))}")
    return fields(context.encode("ascii"), *parts)


class Signed:
    """A statement that a card signed, in its one form: ``fields(tag, *parts, signature)``.

    Each kind is a frozen dataclass that says what the parts mean. Who signs one encloses its card; a kind without a
    ``card`` names its signer otherwise.
    """

    tag: ClassVar[bytes]
    context: ClassVar[str]
    signature: bytes

    @property
    def parts(self) -> tuple[bytes, ...]:
        raise NotImplementedError

    @property
    def signer(self) -> str:
        card: Card = self.card  # type: ignore[attr-defined]  # kinds that have none override this
        return card.fingerprint

    def to_bytes(self) -> bytes:
        return fields(self.tag, *self.parts, self.signature)

    @classmethod
    def is_in(cls, data: bytes) -> bool:
        """Checks the type tag only; ``read`` validates the structure."""
        return data.startswith(fields(cls.tag))

    @classmethod
    def read(cls, data: bytes, count: int, *, most_bytes: int | None = None) -> tuple[bytes, ...]:
        what = cls.tag.decode("ascii")
        if most_bytes is not None and len(data) > most_bytes:
            raise BadDocument(what, f"has {len(data)} bytes; at most {most_bytes} are read")
        parts = read_tagged(cls.tag, data, count + 1)
        if len(parts[-1]) != SIGNATURE_BYTES:
            raise BadDocument(what, "has a signature of another length")
        return parts

    def signed_by(self, secret: "CardSecret") -> Self:
        if self.signer != secret.card.fingerprint:
            reason = f"is not the card that this {self.tag.decode('ascii')} names as its signer's"
            raise InvalidArgument("secret", secret.card.name, reason)
        return replace(self, signature=secret.sign(self.context, *self.parts))  # type: ignore[type-var] # kinds are

    def is_signed_by(self, card: "Card") -> bool:
        return self.signer == card.fingerprint and card.verify(self.context, self.parts, self.signature)

    def check_signed_by(self, card: "Card") -> None:
        if not self.is_signed_by(card):
            reason = f"{card.name}'s signature does not hold: it was changed since"
            raise BadDocument(self.tag.decode("ascii"), reason)


SIGNING_KEY_BYTES = 32
SIGNATURE_BYTES = 64
_FIELD_PRIME = 2**255 - 19
_SIGN_BIT = 2**255
_ORDER_EIGHT = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
# The second coordinates of the eight points of small order: for such a key a signature exists that holds for
# every message, so that its holder could deny each of them.
_SMALL_ORDER = {0, 1, _FIELD_PRIME - 1, _ORDER_EIGHT, _FIELD_PRIME - _ORDER_EIGHT}


def check_signing_key(public: bytes, *, what: str) -> None:
    """Raise unless a public signing key is in its one form, and one for which signatures prove something."""
    coordinate = int.from_bytes(public, "little") % _SIGN_BIT
    if len(public) != SIGNING_KEY_BYTES or coordinate >= _FIELD_PRIME or coordinate in _SMALL_ORDER:
        raise BadDocument(what, "holds no usable signing key")


def holds(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


FINGERPRINT_BYTES = 25
DIGEST_BYTES = 32
_GROUPS, _LETTERS_IN_A_GROUP = 8, 5
_LETTERS = _GROUPS * _LETTERS_IN_A_GROUP
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_FORM = re.compile(rf"[{_ALPHABET}]{{5}}(?:-[{_ALPHABET}]{{5}}){{7}}")
_BETWEEN = re.compile(r"[\s-]+")
_LARGE = {ord(letter.lower()): letter for letter in _ALPHABET}  # str.upper makes ASCII of letters that are not
_REMEMBERED = 4096  # the parties of a run, which every letter names


@functools.lru_cache(_REMEMBERED)
def fingerprint_text(data: bytes) -> str:
    if len(data) != FINGERPRINT_BYTES:
        raise BadDocument("fingerprint", f"has {len(data)} bytes; {FINGERPRINT_BYTES} are needed")
    return _grouped(base64.b32encode(data).decode("ascii"))


@functools.lru_cache(_REMEMBERED)
def fingerprint_bytes(text: str) -> bytes:
    if _FORM.fullmatch(text) is None:
        raise BadDocument("fingerprint", "must be eight groups of five letters A-Z or 2-7, joined by -")
    return base64.b32decode(text.replace("-", ""))


@functools.lru_cache(_REMEMBERED)
def typed(text: str) -> str:
    """A fingerprint as a person typed it, in its one form: small letters and missing dashes do no harm."""
    letters = _BETWEEN.sub("", text).translate(_LARGE)
    if not set(letters) <= set(_ALPHABET):
        raise InvalidArgument("fingerprint", text, "has other letters than A-Z and 2-7 (no 0, 1, 8, 9)")
    if len(letters) != _LETTERS:
        reason = f"has {len(letters)} letters; it must have {_LETTERS}, eight groups of five"
        raise InvalidArgument("fingerprint", text, reason)
    return _grouped(letters)


def _grouped(letters: str) -> str:
    return "-".join(letters[start : start + _LETTERS_IN_A_GROUP] for start in range(0, _LETTERS, _LETTERS_IN_A_GROUP))


SECRET_BYTES = 96
SEAL_BYTES = 1136
"""How much longer what is sealed is than what it says."""

_KEM_PUBLIC_BYTES = 1184
_KEM_SEED_BYTES = 64
_PROBE = X25519PrivateKey.from_private_bytes(bytes(range(32)))  # no secret: it only tells points of small order
_SUITE = hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


class SealingSecret:
    """The private half of a sealing key: of a card, or of one run, and deleted with it."""

    def __init__(self, kem: MLKEM768PrivateKey, exchange: X25519PrivateKey) -> None:
        self._kem = kem
        self._exchange = exchange
        self._both = hpke.MLKEM768X25519PrivateKey(kem, exchange)
        self._public = kem.public_key().public_bytes_raw() + exchange.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Self:
        return cls(MLKEM768PrivateKey.generate(), X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        if len(data) != SECRET_BYTES:
            raise BadDocument("sealing secret", f"has {len(data)} bytes; {SECRET_BYTES} are needed")
        return cls(
            MLKEM768PrivateKey.from_seed_bytes(data[:_KEM_SEED_BYTES]),
            X25519PrivateKey.from_private_bytes(data[_KEM_SEED_BYTES:]),
        )

    def to_bytes(self) -> bytes:
        """The seed of ML-KEM-768 and the private key of X25519, 96 bytes: secret."""
        return self._kem.private_bytes_raw() + self._exchange.private_bytes_raw()

    @property
    def public(self) -> bytes:
        return self._public

    def exchange_with(self, public: bytes) -> bytes:
        """What the X25519 halves of this key and of another one's public half have in common: 32 secret bytes.

        Both holders get the same. It is no key: whatever is derived from it must say what for.
        """
        check_sealing_key(public, what="sealing key")
        return self._exchange.exchange(X25519PublicKey.from_public_bytes(public[_KEM_PUBLIC_BYTES:]))

    def open(self, ciphertext: bytes | memoryview, *, info: bytes) -> bytes:
        """What was sealed to the public half with the same ``info``; BadDocument does not tell which was another."""
        try:
            return _SUITE.decrypt(ciphertext, self._both, info)
        except (InvalidTag, ValueError):
            raise BadDocument("sealed bytes", "cannot be opened with this key") from None

    def __repr__(self) -> str:
        return "SealingSecret(...)"


def seal(public: bytes, plaintext: bytes, *, info: bytes) -> bytes:
    """Sealed to whoever has the private half; ``info`` is not in it, and opening needs the same."""
    try:
        kem = MLKEM768PublicKey.from_public_bytes(public[:_KEM_PUBLIC_BYTES])
        exchange = X25519PublicKey.from_public_bytes(public[_KEM_PUBLIC_BYTES:])
        return _SUITE.encrypt(plaintext, hpke.MLKEM768X25519PublicKey(kem, exchange), info)
    except ValueError:
        raise BadDocument("sealing key", "cannot be used to seal anything") from None


def check_sealing_key(public: bytes, *, what: str) -> None:
    """Raise unless a public sealing key is in its one form, and neither half is one that anybody could open."""
    kem, exchange = public[:_KEM_PUBLIC_BYTES], public[_KEM_PUBLIC_BYTES:]
    try:
        MLKEM768PublicKey.from_public_bytes(kem)  # checks its numbers
        _PROBE.exchange(X25519PublicKey.from_public_bytes(exchange))  # refuses points of small order
    except ValueError:
        raise BadDocument(what, "holds no usable sealing key") from None
    if int.from_bytes(exchange, "little") >= _FIELD_PRIME:
        raise BadDocument(what, "holds a sealing key that is not in its one form")


SUITE = "likeset-1"
"""Ed25519; HPKE with ML-KEM-768 and X25519, HKDF-SHA256, ChaCha20-Poly1305; SHA-256. Nothing in it can be chosen."""
CARD_FILE, SECRET_FILE = "card", "card.secret"
_SECRET_TAG = b"likeset card secret"
_TITLE, _SECRET_TITLE = "likeset card 1", "likeset card secret 1"
_LINE = 76
_MOST_BYTES = 1 << 16
_AGAIN = "get the file again"
_EXPORTED = "the file to ask for is the one that `likeset card show --export FILE` writes"
_GIVEN_AWAY = (
    "contains secret keys, not a card. If somebody sent it to you, tell them to run `likeset card make --new`: whoever "
    "has these keys can sign in their name"
)


@dataclass(frozen=True)
class Card(Signed):
    """A party's public half, signed by itself. One that exists is whole: its keys are usable, its signature holds."""

    tag = b"likeset card"
    context = CARD_CONTEXT
    name: str
    signing: bytes = field(repr=False)  # Ed25519, 32 bytes
    sealing: bytes = field(repr=False)  # 1216 bytes
    signature: bytes = field(repr=False)

    def __post_init__(self) -> None:
        name_in(self.name.encode("ascii", "replace"), what="card")
        check_signing_key(self.signing, what="card")
        check_sealing_key(self.sealing, what="card")
        if not self.verify(self.context, self.parts, self.signature):
            raise BadDocument("card", "its signature does not hold: something in it was changed")

    @property
    def parts(self) -> tuple[bytes, ...]:
        return _parts_of_card(self.name, self.signing, self.sealing)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        suite, name, signing, sealing, signature = cls.read(data, 4, most_bytes=_MOST_BYTES)
        if suite != SUITE.encode("ascii"):
            raise BadDocument("card", f"is of another suite than {SUITE}, which is the only one known here")
        return cls(name_in(name, what="card"), signing, sealing, signature)

    @functools.cached_property
    def fingerprint(self) -> str:
        return fingerprint_text(hashlib.sha256(self.to_bytes()).digest()[:FINGERPRINT_BYTES])

    def to_text(self) -> str:
        return f"{_TITLE}\nname: {self.name}\nfingerprint: {self.fingerprint}\n{_armoured(self.to_bytes())}"

    def verify(self, context: str, parts: Sequence[bytes], signature: bytes) -> bool:
        return holds(self.signing, signed(context, *parts), signature)


def read_card(path: Path) -> Card:
    return card_in(str(path), _text_in(path, missing="there is no such file; ask its party for its card"))


def card_in(name: str, text: str) -> Card:
    """The card in a text, under its own name and fingerprint; ``name`` stands for it in errors."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or lines[0] != _TITLE:
        if lines and lines[0] == _SECRET_TITLE:
            raise BadDocument(name, _GIVEN_AWAY)
        raise BadDocument(name, f"is not a card: it does not begin with '{_TITLE}'; {_EXPORTED}")
    try:
        card = Card.from_bytes(_unarmoured(lines[3:]))
    except BadDocument as error:
        raise BadDocument(name, f"{error.reason}; {_AGAIN}") from None
    for number, (word, value) in enumerate((("name", card.name), ("fingerprint", card.fingerprint)), start=1):
        if lines[number] != f"{word}: {value}":
            raise BadDocument(name, f"is not what the card below it says: somebody changed it; {_AGAIN}", field=word)
    return card


def check_fingerprint(expected: str, card: Card) -> None:
    """A fingerprint that a person typed is the card's.

    The error names the groups that differ, not what should stand there: that is asked on the telephone, not copied from
    the card.
    """
    expected = typed(expected)
    pairs = zip(expected.split("-"), card.fingerprint.split("-"), strict=True)
    wrong = [str(number) for number, (group, due) in enumerate(pairs, start=1) if group != due]
    if wrong:
        reason = f"of its {_GROUPS} groups differ: {', '.join(wrong)}; ask for them again"
        raise InvalidArgument("fingerprint", expected, f"is not the fingerprint of {card.name}'s card: {reason}")


class CardSecret:
    """A party's card with its private halves: the same keys and name always give the same card."""

    def __init__(self, name: str, signing: Ed25519PrivateKey, sealing: SealingSecret) -> None:
        self.sealing = sealing
        self._signing = signing
        public = signing.public_key().public_bytes_raw()
        signature = self.sign(CARD_CONTEXT, *_parts_of_card(name, public, sealing.public))
        self.card = Card(name, public, sealing.public, signature)

    @classmethod
    def generate(cls, name: str) -> Self:
        checked_name("name", name)
        return cls(name, Ed25519PrivateKey.generate(), SealingSecret.generate())

    def sign(self, context: str, *parts: bytes) -> bytes:
        return self._signing.sign(signed(context, *parts))

    def write(self, folder: Path) -> None:
        for file in (SECRET_FILE, CARD_FILE):
            if (folder / file).exists():
                reason = "is there already, and keys are never overwritten: move it away first, or use another home"
                raise InvalidArgument("card", folder / file, reason)
        make_private_folder(folder)
        secret = fields(_SECRET_TAG, self._signing.private_bytes_raw(), self.sealing.to_bytes())
        write_text(folder / SECRET_FILE, f"{_SECRET_TITLE}\n{_armoured(secret)}")
        write_text(folder / CARD_FILE, self.card.to_text())

    @classmethod
    def load(cls, folder: Path) -> Self:
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


def _parts_of_card(name: str, signing: bytes, sealing: bytes) -> tuple[bytes, ...]:
    return SUITE.encode("ascii"), name.encode("ascii"), signing, sealing


def _armoured(data: bytes) -> str:
    return "\n".join(textwrap.wrap(base64.b64encode(data).decode("ascii"), _LINE)) + "\n"


def _unarmoured(lines: Sequence[str]) -> bytes:
    text = "".join(lines)
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise BadDocument("card", "is damaged: some letters in it are not base 64") from None


def _text_in(path: Path, *, missing: str, secret: bool = False) -> str:
    data = documents.bytes_in(path, most=_MOST_BYTES, missing=missing, secret=secret)
    try:
        if len(data) > _MOST_BYTES:
            raise BadDocument(str(path), "is larger than a card can be")
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise BadDocument(str(path), "is not text, so it is not a card") from None


Role = Literal["owner", "curator", "consumer", "witness"]
PinState = Literal["pinned", "revoked"]


@dataclass(frozen=True, slots=True)
class Pin:
    """A card that a person pinned, for parties that take part in runs with this home in a role."""

    card: Card
    role: Role
    at: str  # when its state last changed (UTC)
    state: PinState = "pinned"  # only such a one counts
    by: str = ""  # of a curator's: the consumer that owns it
    reason: str = ""  # why it was revoked; of a pinned card, who introduced it without a call of its own

    @property
    def introduced_by(self) -> str:
        return self.reason if self.state == "pinned" else ""

    @property
    def belongs_to(self) -> str:
        """The name of the consumer whose own curator this is; its invitation carried both signatures."""
        return self.by if self.state == "pinned" else ""
