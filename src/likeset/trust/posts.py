"""What lies in a mailbox between two parties: posts, which only these two can find, open or write.

Two cards share a secret: an X25519 exchange of the X25519 halves of their sealing keys. From it follow, for each
direction, the name of a folder and a key. Whoever lists a mailbox sees names and sizes, and cannot tell who writes to
whom; a file that is put there by anybody else does not open. Wrapping draws no coins: what is wrapped again has the
same bytes, so that writing twice changes nothing.

A post proves nothing to third parties, and either of the two could have written it. What it holds is signed where that
matters, and sealed where it is secret: against whoever can break X25519 some day, posts hide only who writes to whom.
"""

import base64
import functools
import hashlib
from dataclasses import dataclass, field
from typing import Final, Literal, Self, cast, get_args

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.cards import Card, CardSecret
from likeset.trust.encoding import fields, view_fields
from likeset.trust.fingerprints import fingerprint_bytes
from likeset.trust.headers import DIGEST_BYTES

__all__ = ["POST_STEP", "PairKeys", "Post", "PostKind", "file_name", "is_post_size", "size_of_post"]

PostKind = Literal["terms", "standing", "acceptance", "letter", "progress", "ending"]
"""What a document is: terms that a consumer signed; a word on whether somebody takes part; an acceptance; a letter, a
stub or an acceptance that goes back to its writer; whom a curator waits for; how a run ended at the curator."""

POST_STEP: Final = 4096
"""Of what is wrapped, in bytes: it is filled up to a multiple of it."""

_PAIR: Final = b"likeset mailbox pair 1"
_CONTEXT: Final = b"likeset/post/1"
_FOLDER_BYTES, _KEY_BYTES, _TAG_BYTES, _LENGTH_BYTES = 20, 64, 16, 8
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
    """One direction of a pair."""

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
        """Where this home writes."""
        return self._outgoing.folder

    @property
    def incoming_folder(self) -> str:
        """Where the other one writes."""
        return self._incoming.folder

    def wrap(self, post: Post) -> bytes:
        """A post for the other one; the same post always has the same bytes."""
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
    """What a file with these bytes is called: their SHA-256."""
    return hashlib.sha256(data).hexdigest()


def size_of_post(document_bytes: int) -> int:
    """How long the file of a document of so many bytes is at most."""
    longest = max(map(len, get_args(PostKind)))
    filled = _PARTS * _LENGTH_BYTES + longest + DIGEST_BYTES + document_bytes
    return filled + -filled % POST_STEP + _TAG_BYTES


def is_post_size(size: int) -> bool:
    """Whether a file of so many bytes can be a post."""
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
    filled = _PARTS * _LENGTH_BYTES + len(kind) + len(post.terms) + len(post.document)
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
