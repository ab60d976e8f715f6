"""Letters: signed by one writer, sealed to one reader, bound to their place in a run; and signed terms."""

import base64
import functools
import hashlib
import secrets
import struct
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, Self, cast, get_args

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from likeset.arguments import count
from likeset.errors import BadDocument, InvalidArgument, LetterRefused
from likeset.privacy.guarantee import checked_name
from likeset.trust.cards import (
    ACCEPTANCE_CONTEXT,
    LETTER_CONTEXT,
    SEAL_BYTES,
    SIGNATURE_BYTES,
    TERMS_CONTEXT,
    Card,
    CardSecret,
    SealingSecret,
    check_sealing_key,
    fields,
    fingerprint_bytes,
    fingerprint_text,
    read_fields,
    read_tagged,
    seal,
    signed,
    view_fields,
)

RUN_ID_BYTES = 16
DIGEST_BYTES = 32
NOTHING_RECEIVED = bytes(DIGEST_BYTES)
"""In a header: no letter has come from the other side in this run."""

_VERSION, _SUITE_NUMBER = 1, 1
_LAYOUT = struct.Struct(">HH16s32s25s25sQQ32s32s")
HEADER_BYTES = _LAYOUT.size
_MOST_COUNTED = 2**63 - 1  # the largest that every data base takes


class Refusal(StrEnum):
    """Why a letter was refused: one of a fixed set, whatever it says."""

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
    """What everybody can read on a letter.

    Attributes:
        run_id: 16 random bytes of the run.
        terms: the digest of its terms, 32 bytes.
        sender: the fingerprint of the writer's card.
        recipient: that of the reader's.
        round: of the protocol.
        number: of this letter among those from this sender to this recipient in the run, from 0.
        last_received: the digest of the last letter that the sender got from the recipient in the run; zeros if none.
        commitment: SHA-256 over 32 random bytes and the body, both of which are sealed.

    Raises:
        BadDocument: a part of it cannot be written.
    """

    run_id: bytes
    terms: bytes
    sender: str
    recipient: str
    round: int
    number: int
    last_received: bytes
    commitment: bytes

    def __post_init__(self) -> None:
        lengths = {"run_id": RUN_ID_BYTES} | dict.fromkeys(("terms", "last_received", "commitment"), DIGEST_BYTES)
        for name, length in lengths.items():
            if len(getattr(self, name)) != length:
                raise BadDocument("header", f"must have {length} bytes", field=name)
        for name in ("round", "number"):
            if not 0 <= getattr(self, name) <= _MOST_COUNTED:
                raise BadDocument("header", "must be a whole number below 2^63", field=name)
        fingerprint_bytes(self.sender)
        fingerprint_bytes(self.recipient)

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
        """The header that ``to_bytes`` wrote.

        Raises:
            LetterRefused: it has another length, version or suite, or counts beyond all letters.
        """
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
        return fields(_STUB_TAG, self.header.to_bytes(), self.ciphertext_digest, self.signature)

    @property
    def digest(self) -> bytes:
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


AcceptingRole = Literal["owner", "curator", "witness"]

MOST_TERMS_BYTES = 1 << 20
MOST_ACCEPTANCE_BYTES = 1 << 13
_TERMS_TAG, _ACCEPTANCE_TAG = b"likeset terms", b"likeset acceptance"


@dataclass(frozen=True, slots=True)
class SignedTerms:
    """An invitation: terms, and who asks.

    Attributes:
        text: the canonical JSON of the terms.
        card: of the consumer.
        run_key: its sealing key for the run.
        signature: over all of that, by the card.
    """

    text: str
    card: Card
    run_key: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        return fields(_TERMS_TAG, *self._parts(), self.signature)

    @classmethod
    def from_bytes(cls, data: bytes, *, most_bytes: int = MOST_TERMS_BYTES) -> Self:
        """The signed terms that ``to_bytes`` wrote, their signature checked.

        Raises:
            BadDocument: they are none, too large, or changed after they were signed.
        """
        if len(data) > most_bytes:
            raise BadDocument("signed terms", f"have {len(data)} bytes; at most {most_bytes} are read")
        text, card, run_key, signature = read_tagged(_TERMS_TAG, data, 4)
        try:
            terms = cls(text.decode("utf-8"), Card.from_bytes(card), run_key, signature)
        except UnicodeDecodeError:
            raise BadDocument("signed terms", "are no text") from None
        terms.check()
        return terms

    def check(self) -> None:
        """The card signed these terms.

        Raises:
            BadDocument: it did not.
        """
        if not self.card.verify(TERMS_CONTEXT, self._parts(), self.signature):
            raise BadDocument("signed terms", f"{self.card.name}'s signature does not hold: they were changed since")
        check_sealing_key(self.run_key, what="signed terms")

    def _parts(self) -> tuple[bytes, ...]:
        return self.text.encode("utf-8"), self.card.to_bytes(), self.run_key


def sign_terms(text: str, secret: CardSecret, run_key: bytes) -> SignedTerms:
    """Terms, signed by the consumer.

    Args:
        text: their canonical JSON.
        secret: the consumer's.
        run_key: the public half of its sealing key for the run.
    """
    check_sealing_key(run_key, what="run key")
    signature = secret.sign(TERMS_CONTEXT, text.encode("utf-8"), secret.card.to_bytes(), run_key)
    return SignedTerms(text, secret.card, run_key, signature)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A party takes part in a run under its terms.

    Attributes:
        run_id: of the run, 16 bytes.
        terms: their digest, 32 bytes.
        role: as what it takes part.
        party: its name in the terms.
        card: its card.
        run_key: its sealing key for the run.
        signature: over all of that, by the card.
    """

    run_id: bytes
    terms: bytes
    role: AcceptingRole
    party: str
    card: Card
    run_key: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        return fields(_ACCEPTANCE_TAG, *self._parts(), self.signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The acceptance that ``to_bytes`` wrote, its signature checked.

        Raises:
            BadDocument: it is none, or was changed after it was signed.
        """
        if len(data) > MOST_ACCEPTANCE_BYTES:
            raise BadDocument("acceptance", "is larger than an acceptance can be")
        run_id, terms, role, party, card, run_key, signature = read_tagged(_ACCEPTANCE_TAG, data, 7)
        try:
            words = role.decode("ascii"), party.decode("ascii")
        except UnicodeDecodeError:
            raise BadDocument("acceptance", "has a role or a name that no party has") from None
        accepted = cls(
            run_id, terms, cast(AcceptingRole, words[0]), words[1], Card.from_bytes(card), run_key, signature
        )
        accepted.check()
        return accepted

    def check(self) -> None:
        """The card signed this acceptance, and it has the form of one.

        Raises:
            BadDocument: it did not, or it has not.
        """
        if not self.card.verify(ACCEPTANCE_CONTEXT, self._parts(), self.signature):
            raise BadDocument("acceptance", f"{self.card.name}'s signature does not hold: it was changed since")
        if (
            len(self.run_id) != RUN_ID_BYTES
            or len(self.terms) != DIGEST_BYTES
            or self.role not in get_args(AcceptingRole)
        ):
            raise BadDocument("acceptance", "names no run, no terms or no role")
        try:
            checked_name("party", self.party)
        except InvalidArgument as error:
            raise BadDocument("acceptance", error.reason, field="party") from None
        check_sealing_key(self.run_key, what="acceptance")

    def _parts(self) -> tuple[bytes, ...]:
        names = self.role.encode("ascii"), self.party.encode("ascii")
        return self.run_id, self.terms, *names, self.card.to_bytes(), self.run_key


def accept(
    secret: CardSecret, *, run_id: bytes, terms: bytes, role: AcceptingRole, party: str, run_key: bytes
) -> Acceptance:
    """The acceptance of the holder of a card.

    Args:
        secret: the party's.
        run_id: of the run.
        terms: their digest.
        role: as what it takes part.
        party: its name in the terms.
        run_key: the public half of its new sealing key for the run.

    Raises:
        BadDocument: a part of it cannot be part of an acceptance.
    """
    unsigned = Acceptance(run_id, terms, role, party, secret.card, run_key, b"")
    accepted = Acceptance(
        run_id, terms, role, party, secret.card, run_key, secret.sign(ACCEPTANCE_CONTEXT, *unsigned._parts())
    )
    accepted.check()
    return accepted


def is_signed_terms(data: bytes) -> bool:
    """Whether bytes say of themselves that they are signed terms; whether they are, reading them tells."""
    return data.startswith(fields(_TERMS_TAG))


def is_acceptance(data: bytes) -> bool:
    """Whether bytes say of themselves that they are an acceptance; whether they are one, reading them tells."""
    return data.startswith(fields(_ACCEPTANCE_TAG))


PostKind = Literal["terms", "standing", "acceptance", "letter", "progress", "ending"]
"""What a document is: terms that a consumer signed; a word on whether somebody takes part; an acceptance; a letter, a
stub or an acceptance that goes back to its writer; whom a curator waits for; how a run ended at the curator."""

POST_STEP: Final = 4096
"""Of what is wrapped, in bytes: it is filled up to a multiple of it."""

_PAIR: Final = b"likeset mailbox pair 1"
_CONTEXT: Final = b"likeset/post/1"
_FOLDER_BYTES, _KEY_BYTES, _TAG_BYTES, _POST_LENGTH_BYTES = 20, 64, 16, 8
_PARTS: Final = 4
_REMEMBERED = 4096  # pairs of one process


@dataclass(frozen=True, slots=True)
class Post:
    """What one party leaves for another.

    Attributes:
        kind: of the document.
        terms: the digest of the terms that it belongs to, 32 bytes.
        document: what is left.

    Raises:
        BadDocument: there is no such kind, or the digest has another length.
    """

    kind: PostKind
    terms: bytes
    document: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(PostKind):
            raise BadDocument("post", "is of a kind that is not known here")
        if len(self.terms) != DIGEST_BYTES:
            raise BadDocument("post", f"names terms by {DIGEST_BYTES} bytes", field="terms")


@dataclass(frozen=True, slots=True)
class _Way:
    folder: str
    cipher: AESSIV = field(repr=False)
    associated: list[bytes] = field(repr=False)


@dataclass(frozen=True, eq=False)
class PairKeys:
    """What two parties share: where they leave posts for one another, and how these are wrapped.

    Attributes:
        outgoing_folder: where this home writes and the other one reads: 32 small letters and digits.
        incoming_folder: where the other one writes.
    """

    _outgoing: _Way
    _incoming: _Way

    @classmethod
    def between(cls, own: CardSecret, other: Card) -> Self:
        """The keys of a home and another party; computed once in each process.

        Raises:
            InvalidArgument: it is the home's own card.
        """
        if own.card.sealing == other.sealing:
            raise InvalidArgument("card", other.name, "is this home's own, and nobody leaves posts for themselves")
        return cls(*_ways(own, other))

    @property
    def outgoing_folder(self) -> str:
        return self._outgoing.folder

    @property
    def incoming_folder(self) -> str:
        return self._incoming.folder

    def wrap(self, post: Post) -> bytes:
        return _wrap(self._outgoing, post)

    def unwrap(self, data: bytes) -> Post:
        """A post that the other one left.

        Raises:
            BadDocument: it is none; who wrote it instead, nobody can tell.
        """
        return _unwrap(self._incoming, data)

    def unwrap_own(self, data: bytes) -> Post:
        """A post that this home left for the other one, or the other one in its name: they have the same key.

        Raises:
            BadDocument: it is none.
        """
        return _unwrap(self._outgoing, data)


def file_name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def size_of_post(document_bytes: int) -> int:
    """How long the file of a document of so many bytes is at most."""
    longest = max(map(len, get_args(PostKind)))
    filled = _PARTS * _POST_LENGTH_BYTES + longest + DIGEST_BYTES + document_bytes
    return filled + -filled % POST_STEP + _TAG_BYTES


def is_post_size(size: int) -> bool:
    return size > _TAG_BYTES and (size - _TAG_BYTES) % POST_STEP == 0


@functools.lru_cache(_REMEMBERED)
def _ways(own: CardSecret, other: Card) -> tuple[_Way, _Way]:
    shared = own.sealing.exchange_with(other.sealing)
    mine, theirs = fingerprint_bytes(own.card.fingerprint), fingerprint_bytes(other.fingerprint)
    return _way(shared, mine, theirs), _way(shared, theirs, mine)


def _way(shared: bytes, writer: bytes, reader: bytes) -> _Way:
    info = fields(_PAIR, writer, reader)
    derived = HKDF(hashes.SHA256(), _FOLDER_BYTES + _KEY_BYTES, salt=None, info=info).derive(shared)
    folder = base64.b32encode(derived[:_FOLDER_BYTES]).decode("ascii").lower()
    return _Way(folder, AESSIV(derived[_FOLDER_BYTES:]), [_CONTEXT, writer, reader])


def _wrap(way: _Way, post: Post) -> bytes:
    kind = post.kind.encode("ascii")
    filled = _PARTS * _POST_LENGTH_BYTES + len(kind) + len(post.terms) + len(post.document)
    return way.cipher.encrypt(fields(kind, post.terms, post.document, bytes(-filled % POST_STEP)), way.associated)


def _unwrap(way: _Way, data: bytes) -> Post:
    if not is_post_size(len(data)):
        raise BadDocument("post", "has a length that no post has")
    try:
        plaintext = way.cipher.decrypt(data, way.associated)
    except InvalidTag:
        raise BadDocument("post", "was not written by the other of the two, or changed since") from None
    kind, terms, document, padding = view_fields(plaintext, _PARTS, what="post")
    if len(padding) >= POST_STEP or any(padding):
        raise BadDocument("post", "is filled up with something else than zeros")
    try:
        word = bytes(kind).decode("ascii")
    except UnicodeDecodeError:
        raise BadDocument("post", "is of a kind that is not known here") from None
    return Post(cast(PostKind, word), bytes(terms), bytes(document))
