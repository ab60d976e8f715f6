"""Letters: signed by one writer, sealed to one reader, bound to their place in a run; and signed terms."""

import base64
import functools
import hashlib
import secrets
import struct
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, NamedTuple, Self, cast, get_args

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from likeset.errors import BadDocument, LetterRefused
from likeset.trust.cards import (
    ACCEPTANCE_CONTEXT,
    DIGEST_BYTES,
    LETTER_CONTEXT,
    RECEIPT_CONTEXT,
    SEAL_BYTES,
    SIGNATURE_BYTES,
    TERMS_CONTEXT,
    Card,
    CardSecret,
    SealingSecret,
    Signed,
    check_sealing_key,
    fields,
    fingerprint_bytes,
    fingerprint_text,
    name_in,
    read_fields,
    seal,
    signed,
    view_fields,
)

RUN_ID_BYTES = 16
NOTHING_RECEIVED = bytes(DIGEST_BYTES)
"""In a header: no letter has come from the other side in this run."""

_VERSION, _SUITE_NUMBER = 1, 1
_LAYOUT = struct.Struct(">HH16s32s25s25sQQ32s32s")
HEADER_BYTES = _LAYOUT.size
_MOST_COUNTED = 2**63 - 1  # the largest that every data base takes


class Refusal(StrEnum):
    SIZE = "it is larger than a letter may be here"
    FORM = "it does not have the form of a letter"
    VERSION = "it is of a version or suite that is not known here"
    SIGNATURE = "the sender's card did not sign it as it is"
    SENDER = "it names another sender than the card that signed it"
    RECIPIENT = "it is for another recipient"
    SEAL = "it was not sealed to the key for this run, under this header"
    COMMITMENT = "it does not say what its header commits to"
    BODY = "what was sealed in it does not have the form of a body"


@dataclass(frozen=True, slots=True)
class Header:
    run_id: bytes  # 16 random bytes of the run
    terms: bytes  # their digest
    sender: str  # fingerprints of the cards
    recipient: str
    round: int
    number: int  # of this letter among those from this sender to this recipient in the run, from 0
    last_received: bytes  # the digest of the last letter that the sender got from the recipient; zeros if none
    commitment: bytes  # SHA-256 over 32 random bytes and the body, both of which are sealed

    def to_bytes(self) -> bytes:
        return _LAYOUT.pack(
            _VERSION,
            _SUITE_NUMBER,
            self.run_id,
            self.terms,
            fingerprint_bytes(self.sender),
            fingerprint_bytes(self.recipient),
            self.round,
            self.number,
            self.last_received,
            self.commitment,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        if len(data) != HEADER_BYTES:
            raise LetterRefused(Refusal.FORM)
        version, suite, run_id, terms, sender, recipient, round_, number, last, commitment = _LAYOUT.unpack(data)
        if (version, suite) != (_VERSION, _SUITE_NUMBER):
            raise LetterRefused(Refusal.VERSION)
        if max(round_, number) > _MOST_COUNTED:
            raise LetterRefused(Refusal.FORM)
        named = fingerprint_text(sender), fingerprint_text(recipient)
        return cls(run_id, terms, *named, round_, number, last, commitment)


PADDING_STEP = 256

_RANDOM_BYTES = 32
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class LetterContent:
    message: bytes = field(repr=False)
    enclosures: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Letter(Signed):
    """A letter as it travels; whether it can be believed, ``open_letter`` says."""

    tag = b"likeset letter"
    context = LETTER_CONTEXT
    header: Header
    ciphertext: bytes | memoryview = field(repr=False)  # where the letter was read, it lies in ``data``
    signature: bytes = field(repr=False)
    data: bytes = field(repr=False)  # all its bytes, to be kept and sent again as they are

    @functools.cached_property
    def parts(self) -> tuple[bytes, ...]:
        return self.header.to_bytes(), hashlib.sha256(self.ciphertext).digest()

    @property
    def signer(self) -> str:
        return self.header.sender

    def to_bytes(self) -> bytes:
        return self.data

    @property
    def stub(self) -> bytes:
        """What proves that a letter was written, without what it says."""
        return fields(b"likeset stub", *self.parts, self.signature)

    @functools.cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(self.stub).digest()


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

    Its number is used for one letter only. The body is filled up to a multiple of ``padding_step`` bytes: where its
    length depends on rows or on what was sold, take one that hides it.
    """
    # Joined at once: each copy of a large message costs as much as half its encryption.
    plaintext = b"".join((secrets.token_bytes(_RANDOM_BYTES), *body(message, enclosures, step=padding_step)))
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
    return Letter(header, ciphertext, signature, fields(Letter.tag, header.to_bytes(), ciphertext, signature))


def body(message: bytes, enclosures: tuple[bytes, ...] = (), *, step: int) -> tuple[bytes, ...]:
    """The pieces of a body: the length of what is not padding, each part after its length, and zeros."""
    pieces = [piece for part in (message, *enclosures) for piece in (_length(len(part)), part)]
    filled = sum(map(len, pieces))
    return _length(filled), *pieces, bytes(-(_LENGTH_BYTES + filled) % step)


def letter_in(data: bytes, *, most_bytes: int) -> Letter:
    """The letter in some bytes: its size and form only."""
    if len(data) > most_bytes:
        raise LetterRefused(Refusal.SIZE)
    try:
        tag, header, ciphertext, signature = view_fields(data, 4, what="letter")
    except BadDocument:
        raise LetterRefused(Refusal.FORM) from None
    if (
        tag != Letter.tag
        or len(ciphertext) < SEAL_BYTES + _RANDOM_BYTES + _LENGTH_BYTES
        or len(signature) != SIGNATURE_BYTES
    ):
        raise LetterRefused(Refusal.FORM)
    return Letter(Header.from_bytes(bytes(header)), ciphertext, bytes(signature), data)


def open_letter(letter: Letter, *, writer: Card, reader: Card, key: SealingSecret) -> LetterContent:
    """What a letter says, if the writer signed it and sealed it to the reader under its header.

    Whether it is of the run, the terms, the round and the number that are due is asked of the header, which can be
    believed from here on. ``writer`` is the card that the terms name for the sender, ``reader`` this home's, ``key``
    its secret for the run.
    """
    header = letter.header
    if not writer.verify(LETTER_CONTEXT, letter.parts, letter.signature):
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


def _length(count_: int) -> bytes:
    return count_.to_bytes(_LENGTH_BYTES, "big")


def _opened(plaintext: bytes) -> LetterContent:
    start = _RANDOM_BYTES + _LENGTH_BYTES
    end = start + int.from_bytes(plaintext[_RANDOM_BYTES:start], "big")
    if not start <= end <= len(plaintext) or plaintext.count(0, end) != len(plaintext) - end:
        raise LetterRefused(Refusal.BODY)
    try:
        message, *enclosures = read_fields(memoryview(plaintext)[start:end], None, what="body")
    except ValueError:  # BadDocument is one, and so is a body without a message
        raise LetterRefused(Refusal.BODY) from None
    return LetterContent(message, tuple(enclosures))


AcceptingRole = Literal["owner", "curator", "witness"]

MOST_TERMS_BYTES = 1 << 20
MOST_ACCEPTANCE_BYTES = 1 << 13
_MOST_VERSIONS = 32


def versions_in(data: bytes, *, what: str) -> tuple[int, ...]:
    """The versions of messages that a party says it reads: a byte each, in ascending order."""
    if not 1 <= len(data) <= _MOST_VERSIONS or not data[0] or sorted(set(data)) != list(data):
        raise BadDocument(what, "does not list versions of messages")
    return tuple(data)


@dataclass(frozen=True)
class SignedTerms(Signed):
    """An invitation: the canonical JSON of the terms, the consumer's card, its key for the run, and what it reads."""

    tag = b"likeset terms"
    context = TERMS_CONTEXT
    text: str
    card: Card
    run_key: bytes = field(repr=False)
    reads: tuple[int, ...]  # versions of messages
    signature: bytes = field(default=b"", repr=False)

    @property
    def parts(self) -> tuple[bytes, ...]:
        return self.text.encode("utf-8"), self.card.to_bytes(), self.run_key, bytes(self.reads)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        text, card, run_key, versions, signature = cls.read(data, 4, most_bytes=MOST_TERMS_BYTES)
        reads = versions_in(versions, what="signed terms")
        try:
            terms = cls(text.decode("utf-8"), Card.from_bytes(card), run_key, reads, signature)
        except UnicodeDecodeError:
            raise BadDocument("signed terms", "are not text") from None
        terms.check_signed_by(terms.card)
        check_sealing_key(run_key, what="signed terms")
        return terms


@dataclass(frozen=True)
class Acceptance(Signed):
    """A party takes part in a run under its terms, with its card, its sealing key for the run and what it reads."""

    tag = b"likeset acceptance"
    context = ACCEPTANCE_CONTEXT
    run_id: bytes
    terms: bytes  # their digest
    role: AcceptingRole
    party: str  # its name in the terms
    card: Card
    run_key: bytes = field(repr=False)
    reads: tuple[int, ...]  # versions of messages
    signature: bytes = field(default=b"", repr=False)

    @property
    def parts(self) -> tuple[bytes, ...]:
        names = self.role.encode("ascii"), self.party.encode("ascii")
        return self.run_id, self.terms, *names, self.card.to_bytes(), self.run_key, bytes(self.reads)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = cls.read(data, 7, most_bytes=MOST_ACCEPTANCE_BYTES)
        run_id, terms, role, party, card, run_key, versions, signature = read
        word = role.decode("ascii", "replace")
        if (len(run_id), len(terms)) != (RUN_ID_BYTES, DIGEST_BYTES) or word not in get_args(AcceptingRole):
            raise BadDocument("acceptance", "names no run, no terms or no role")
        named = cast(AcceptingRole, word), name_in(party, what="acceptance")
        reads = versions_in(versions, what="acceptance")
        accepted = cls(run_id, terms, *named, Card.from_bytes(card), run_key, reads, signature)
        accepted.check_signed_by(accepted.card)
        check_sealing_key(run_key, what="acceptance")
        return accepted


MOST_RECEIPT_BYTES = 1 << 24


@dataclass(frozen=True)
class Receipt(Signed):
    """The reader of an owner's offers acknowledges letters, by digest, and the number of rows in them."""

    tag = b"likeset receipt"
    context = RECEIPT_CONTEXT
    run_id: bytes
    terms: bytes  # their digest
    owner: str  # its name in the terms
    rows: int
    letters: tuple[bytes, ...] = field(repr=False)  # digests, in the order in which they came
    at: str  # when it was signed (UTC)
    card: Card
    signature: bytes = field(default=b"", repr=False)

    @property
    def parts(self) -> tuple[bytes, ...]:
        numbers = self.rows.to_bytes(8, "big"), b"".join(self.letters), self.at.encode("ascii")
        return self.run_id, self.terms, self.owner.encode("ascii"), *numbers, self.card.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        run_id, terms, owner, rows, letters, at, card, signature = cls.read(data, 7, most_bytes=MOST_RECEIPT_BYTES)
        lengths = len(run_id), len(terms), len(rows), len(letters) % DIGEST_BYTES
        if lengths != (RUN_ID_BYTES, DIGEST_BYTES, 8, 0):
            raise BadDocument("receipt", "names no run, no terms or no letters")
        digests = tuple(letters[place : place + DIGEST_BYTES] for place in range(0, len(letters), DIGEST_BYTES))
        try:
            name, count = name_in(owner, what="receipt"), int.from_bytes(rows, "big")
            moment = datetime.fromisoformat(at.decode("ascii"))
        except (UnicodeDecodeError, ValueError):
            raise BadDocument("receipt", "names no owner or no time") from None
        if moment.tzinfo is None or count > _MOST_COUNTED:
            raise BadDocument("receipt", "has a time without a zone, or too many rows")
        receipt = cls(run_id, terms, name, count, digests, at.decode("ascii"), Card.from_bytes(card), signature)
        receipt.check_signed_by(receipt.card)
        return receipt


PostKind = Literal["terms", "participation", "acceptance", "letter", "progress", "ending"]
"""The kind of a document: terms that a consumer signed; a numbered word; an acceptance; a letter; whom a
curator waits for; how a run ended at the writer."""

POST_STEP: Final = 4096
"""Of what is wrapped, in bytes: it is filled up to a multiple of it."""

_PAIR: Final = b"likeset mailbox pair 1"
_CONTEXT: Final = b"likeset/post/1"
_FOLDER_BYTES, _KEY_BYTES, _TAG_BYTES = 20, 64, 16
_PARTS: Final = 4
_REMEMBERED = 4096  # pairs of one process


@dataclass(frozen=True, slots=True)
class Post:
    kind: PostKind
    terms: bytes
    document: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(PostKind):
            raise BadDocument("post", "is of a kind that is not known here")
        if len(self.terms) != DIGEST_BYTES:
            raise BadDocument("post", f"names terms by {DIGEST_BYTES} bytes", field="terms")


@dataclass(frozen=True, eq=False)
class Way:
    folder: str
    cipher: AESSIV = field(repr=False)
    associated: list[bytes] = field(repr=False)

    @classmethod
    def derived(cls, shared: bytes, writer: Card, reader: Card) -> Self:
        ends = fingerprint_bytes(writer.fingerprint), fingerprint_bytes(reader.fingerprint)
        info = fields(_PAIR, *ends)
        derived = HKDF(hashes.SHA256(), _FOLDER_BYTES + _KEY_BYTES, salt=None, info=info).derive(shared)
        folder = base64.b32encode(derived[:_FOLDER_BYTES]).decode("ascii").lower()
        return cls(folder, AESSIV(derived[_FOLDER_BYTES:]), [_CONTEXT, *ends])

    def wrap(self, post: Post) -> bytes:
        kind = post.kind.encode("ascii")
        filled = _PARTS * _LENGTH_BYTES + len(kind) + len(post.terms) + len(post.document)
        return self.cipher.encrypt(fields(kind, post.terms, post.document, bytes(-filled % POST_STEP)), self.associated)

    def unwrap(self, data: bytes) -> Post:
        """The post in some bytes; if they are none, nothing shows who wrote them instead."""
        if not is_post_size(len(data)):
            raise BadDocument("post", "has a length that no post has")
        try:
            plaintext = self.cipher.decrypt(data, self.associated)
        except InvalidTag:
            raise BadDocument("post", "was not written by the other of the two, or changed since") from None
        kind, terms, document, padding = read_fields(plaintext, _PARTS, what="post")
        if len(padding) >= POST_STEP or any(padding):
            raise BadDocument("post", "is filled up with something else than zeros")
        return Post(cast(PostKind, kind.decode("ascii", "replace")), terms, document)


class Pair(NamedTuple):
    """What two parties share: where they leave posts for one another, and how these are wrapped.

    Both have both keys: a post that opens as outgoing may also be one that the other party left in this one's name.
    """

    outgoing: Way
    incoming: Way


@functools.lru_cache(_REMEMBERED)
def pair_of(own: CardSecret, other: Card) -> Pair:
    shared = own.sealing.exchange_with(other.sealing)
    return Pair(Way.derived(shared, own.card, other), Way.derived(shared, other, own.card))


def file_name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def size_of_post(document_bytes: int) -> int:
    longest = max(map(len, get_args(PostKind)))
    filled = _PARTS * _LENGTH_BYTES + longest + DIGEST_BYTES + document_bytes
    return filled + -filled % POST_STEP + _TAG_BYTES


def is_post_size(size: int) -> bool:
    return size > _TAG_BYTES and (size - _TAG_BYTES) % POST_STEP == 0
