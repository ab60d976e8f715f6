"""A letter is a message between organisations: signed by its writer, sealed to its reader, bound to its place in a run.

The header is in the clear: whoever carries a letter knows where it goes. Everything else is sealed with the header as
HPKE's ``info``, so what somebody sealed opens under no other header; and since the header names the sender by
fingerprint, nobody can pass it on as their own. The signature is over the header and the digest of what is sealed:
it can be checked without what is sealed (a *stub*).
"""

import functools
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Self

from likeset.arguments import count
from likeset.errors import BadDocument, LetterRefused
from likeset.trust.cards import Card, CardSecret
from likeset.trust.encoding import LETTER_CONTEXT, fields, read_fields, read_tagged, signed, view_fields
from likeset.trust.headers import DIGEST_BYTES, HEADER_BYTES, NOTHING_RECEIVED, Header, Refusal
from likeset.trust.sealing import SEAL_BYTES, SealingSecret, seal
from likeset.trust.signing import SIGNATURE_BYTES

__all__ = [
    "HEADER_BYTES",
    "NOTHING_RECEIVED",
    "PADDING_STEP",
    "Header",
    "Letter",
    "LetterContent",
    "Refusal",
    "Stub",
    "is_stub",
    "letter_in",
    "open_letter",
    "padded",
    "write_letter",
]

PADDING_STEP = 256

_RANDOM_BYTES = 32
_LENGTH_BYTES = 8
_TAG, _STUB_TAG = b"likeset letter", b"likeset stub"


@dataclass(frozen=True, slots=True)
class Stub:
    """What proves that a letter was written, without what it says.

    Attributes:
        header: of the letter.
        ciphertext_digest: SHA-256 of what is sealed in it.
        signature: over both, by the sender's card.
    """

    header: Header
    ciphertext_digest: bytes
    signature: bytes

    def to_bytes(self) -> bytes:
        """As it stands in files."""
        return fields(_STUB_TAG, self.header.to_bytes(), self.ciphertext_digest, self.signature)

    @property
    def digest(self) -> bytes:
        """By which others name the letter."""
        return hashlib.sha256(self.to_bytes()).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The stub that ``to_bytes`` wrote; whether it is signed is asked of it.

        Raises:
            BadDocument: it is none.
        """
        header, digest, signature = read_tagged(_STUB_TAG, data, 3)
        if len(digest) != DIGEST_BYTES or len(signature) != SIGNATURE_BYTES:
            raise BadDocument("likeset stub", "has a digest or a signature of another length")
        try:
            return cls(Header.from_bytes(header), digest, signature)
        except LetterRefused as error:
            raise BadDocument("likeset stub", error.reason) from None

    def is_signed_by(self, card: Card) -> bool:
        """Whether the header names this card as its sender, and the card signed the letter."""
        parts = (self.header.to_bytes(), self.ciphertext_digest)
        return self.header.sender == card.fingerprint and card.verify(LETTER_CONTEXT, parts, self.signature)


@dataclass(frozen=True, slots=True)
class LetterContent:
    """What was sealed in a letter.

    Attributes:
        random: 32 bytes without which the commitment says nothing.
        message: what the sender says.
        enclosures: what it sends along.
        padding: how many zeros were after them.
    """

    random: bytes = field(repr=False)
    message: bytes = field(repr=False)
    enclosures: tuple[bytes, ...] = field(repr=False)
    padding: int = field(repr=False)

    @property
    def body(self) -> bytes:
        """Message and enclosures as they were sealed, with their padding."""
        return b"".join(_body(self.message, self.enclosures, self.padding))


@dataclass(frozen=True)
class Letter:
    """A letter as it travels; whether it can be believed, ``open_letter`` says.

    Attributes:
        header: in the clear.
        ciphertext: what is sealed; where the letter was read, it lies in ``data``.
        signature: of the sender.
        data: all its bytes, to be kept and sent again as they are.
        content: what was sealed, where this process wrote it; None where the letter was read.
    """

    header: Header
    ciphertext: bytes | memoryview = field(repr=False)
    signature: bytes = field(repr=False)
    data: bytes = field(repr=False)
    content: LetterContent | None = field(default=None, repr=False, compare=False)

    @functools.cached_property
    def digest(self) -> bytes:
        """By which others name it: SHA-256 of its stub."""
        return self.stub.digest

    @functools.cached_property
    def stub(self) -> Stub:
        """What can be checked without what is sealed."""
        return Stub(self.header, hashlib.sha256(self.ciphertext).digest(), self.signature)


def is_stub(data: bytes) -> bool:
    """Whether bytes say of themselves that they are a stub; whether they are one, reading them tells."""
    return data.startswith(fields(_STUB_TAG))


def write_letter(
    secret: CardSecret,
    *,
    recipient: Card,
    recipient_key: bytes,
    run_id: bytes,
    terms: bytes,
    round: int,  # noqa: A002 - the word that protocol and header have for it
    number: int,
    last_received: bytes = NOTHING_RECEIVED,
    message: bytes,
    enclosures: tuple[bytes, ...] = (),
    padding_step: int = PADDING_STEP,
) -> Letter:
    """A letter from the holder of a card.

    Args:
        secret: the writer's.
        recipient: the reader's card.
        recipient_key: the reader's sealing key for the run.
        run_id: of the run, 16 bytes.
        terms: their digest, 32 bytes.
        round: of the protocol.
        number: of this letter from this sender to this recipient in the run; used for one letter only.
        last_received: digest of the last letter that came from the recipient in the run.
        message: what to say.
        enclosures: what to send along.
        padding_step: the body is filled up to a multiple of so many bytes; where its length depends on rows or on
            what was sold, take one that hides it.

    Raises:
        InvalidArgument: ``padding_step`` is below 1.
        BadDocument: the header cannot be written, or ``recipient_key`` is no sealing key.
    """
    content = padded(secrets.token_bytes(_RANDOM_BYTES), message, enclosures, step=padding_step)
    # Put together at once: each copy of a large message costs as much as half its encryption.
    plaintext = b"".join((content.random, *_body(message, content.enclosures, content.padding)))
    header = Header(
        run_id=run_id,
        terms=terms,
        sender=secret.card.fingerprint,
        recipient=recipient.fingerprint,
        round=round,
        number=number,
        last_received=last_received,
        commitment=hashlib.sha256(plaintext).digest(),
    )
    ciphertext = seal(recipient_key, plaintext, info=_info(header))
    signature = secret.sign(LETTER_CONTEXT, header.to_bytes(), hashlib.sha256(ciphertext).digest())
    return Letter(header, ciphertext, signature, fields(_TAG, header.to_bytes(), ciphertext, signature), content)


def padded(random: bytes, message: bytes, enclosures: tuple[bytes, ...] = (), *, step: int) -> LetterContent:
    """What is sealed in a letter whose body is filled up to a multiple of ``step`` bytes."""
    filled = _LENGTH_BYTES * (2 + len(enclosures)) + len(message) + sum(map(len, enclosures))
    return LetterContent(random, message, enclosures, -filled % count("padding_step", step))


def letter_in(data: bytes, *, most_bytes: int) -> Letter:
    """The letter in some bytes: its size and form only.

    Raises:
        LetterRefused: it is too large, or none.
    """
    if len(data) > most_bytes:
        raise LetterRefused(Refusal.SIZE)
    try:
        tag, header, ciphertext, signature = view_fields(data, 4, what="letter")
    except BadDocument:
        raise LetterRefused(Refusal.FORM) from None
    if tag != _TAG or len(ciphertext) < SEAL_BYTES + _RANDOM_BYTES + _LENGTH_BYTES or len(signature) != SIGNATURE_BYTES:
        raise LetterRefused(Refusal.FORM)
    return Letter(Header.from_bytes(bytes(header)), ciphertext, bytes(signature), data)


def open_letter(letter: Letter, *, writer: Card, reader: Card, key: SealingSecret) -> LetterContent:
    """What a letter says, if the writer signed it and sealed it to the reader under its header.

    Whether it is of the run, the terms, the round and the number that are due is asked of the header, which can be
    believed from here on.

    Args:
        letter: any.
        writer: the card that the terms name for the sender.
        reader: this home's card.
        key: its secret for the run.

    Raises:
        LetterRefused: it cannot be believed.
    """
    header = letter.header
    if not writer.verify(LETTER_CONTEXT, (header.to_bytes(), letter.stub.ciphertext_digest), letter.signature):
        raise LetterRefused(Refusal.SIGNATURE)
    if header.sender != writer.fingerprint:
        raise LetterRefused(Refusal.SENDER)
    if header.recipient != reader.fingerprint:
        raise LetterRefused(Refusal.RECIPIENT)
    try:
        plaintext = key.open(letter.ciphertext, info=_info(header))
    except BadDocument:
        raise LetterRefused(Refusal.SEAL) from None
    if hashlib.sha256(plaintext).digest() != header.commitment:
        raise LetterRefused(Refusal.COMMITMENT)
    return _opened(plaintext)


def _info(header: Header) -> bytes:
    return signed(LETTER_CONTEXT, header.to_bytes())


def _body(message: bytes, enclosures: tuple[bytes, ...], padding: int) -> tuple[bytes, ...]:
    """The pieces of a body: the length of what is not padding, each part after its length, and zeros."""
    pieces = [piece for part in (message, *enclosures) for piece in (_length(len(part)), part)]
    return _length(sum(map(len, pieces))), *pieces, bytes(padding)


def _length(count_: int) -> bytes:
    return count_.to_bytes(_LENGTH_BYTES, "big")


def _opened(plaintext: bytes) -> LetterContent:
    """The parts of what the writer committed to; it may still have written nonsense."""
    start = _RANDOM_BYTES + _LENGTH_BYTES
    end = start + int.from_bytes(plaintext[_RANDOM_BYTES:start], "big")
    if not start <= end <= len(plaintext) or plaintext.count(0, end) != len(plaintext) - end:
        raise LetterRefused(Refusal.BODY)
    try:
        message, *enclosures = read_fields(memoryview(plaintext)[start:end], None, what="body")
    except ValueError:  # BadDocument is one, and so is a body without a message
        raise LetterRefused(Refusal.BODY) from None
    return LetterContent(plaintext[:_RANDOM_BYTES], message, tuple(enclosures), len(plaintext) - end)
