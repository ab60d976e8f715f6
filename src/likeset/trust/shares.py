"""An owner's offer in a split run: shares of its rows, envelopes with its records, and signed lists that bind them."""

import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Self

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.cards import (
    DIGEST_BYTES,
    FINGERPRINT_BYTES,
    LIST_CONTEXT,
    ROSTER_CONTEXT,
    Card,
    CardSecret,
    Signed,
    fields,
    fingerprint_bytes,
    fingerprint_text,
    read_tagged,
    signed,
)

ComputeRole = Literal["curator", "consumer", "witness"]
COMPUTE_ROLES: tuple[ComputeRole, ...] = ("curator", "consumer", "witness")
"""The compute parties in the order of their ranks."""

FRACTION_BITS = 16
"""Of an encoded row: an entry x becomes the whole number nearest to x times 2^16."""
LARGEST_ENTRY = 2.0**20
"""No entry of a row may be larger in size: a program that looks for larger ones needs room above what is honest."""
WORD_BYTES = 8
RANDOM_BYTES = 32
RANDOM_WORDS = RANDOM_BYTES // WORD_BYTES

Words = NDArray[np.uint64]
"""One line for each slot; numbers modulo 2^64, negative ones in two's complement."""

_ON_THE_WIRE = np.dtype(">u8")


def fixed_point(rows: Rows) -> Words:
    """Numbers as words: the nearest multiple of 2^-16, ties to even."""
    numbers = np.asarray(rows, dtype=np.float64)
    if not (np.abs(numbers) <= LARGEST_ENTRY).all():
        reason = f"must be finite and at most {LARGEST_ENTRY:.0f} in size to be shared; declare smaller weights"
        raise InvalidArgument("rows", f"array of shape {numbers.shape}", reason)
    return np.rint(numbers * 2.0**FRACTION_BITS).astype(np.int64).view(np.uint64)


def split_words(words: Words) -> tuple[Words, ...]:
    """Additive shares modulo 2^64, one for each compute party; all but the last are from ``os.urandom``."""
    drawn = [
        np.frombuffer(os.urandom(words.nbytes), dtype=np.uint64).reshape(words.shape)  # never a seed, never numpy's
        for _ in COMPUTE_ROLES[1:]
    ]
    last = np.array(words, dtype=np.uint64)
    for share in drawn:
        last -= share
    return (*drawn, last)


def joined_shares(shares: Sequence[Words]) -> Words:
    total = np.array(shares[0], dtype=np.uint64)
    for share in shares[1:]:
        total += share
    return total


def secret_order(count: int) -> NDArray[np.int64]:
    """A permutation that nobody can guess: the order of random words of 64 bits."""
    return np.argsort(np.frombuffer(os.urandom(WORD_BYTES * count), dtype=np.uint64), kind="stable").astype(np.int64)


def word_bytes(words: Words) -> bytes:
    """Words as they travel and are committed to: slot after slot, the most significant byte of a word first."""
    return words.astype(_ON_THE_WIRE).tobytes()


def words_in(data: bytes | memoryview, *, width: int) -> Words:
    if len(data) % (WORD_BYTES * width):
        raise BadDocument("shares", f"do not consist of lines of {width} words")
    words: NDArray[Any] = np.frombuffer(data, dtype=_ON_THE_WIRE)
    return words.astype(np.uint64).reshape(-1, width)


KEY_BYTES = 32
_TAG_BYTES = 16
_LENGTH_BYTES = 4
_NONCE = bytes(12)  # a key seals one record and never another: its r is drawn for it
_ROW_TAG, _OFFER_TAG = b"likeset row", b"likeset offer"


@dataclass(frozen=True)
class OfferContext:
    """Whose offer it is, under which terms, and who computes on it: bound into every key, commitment and signature."""

    terms: bytes  # their digest; it names the run, too
    owner: str  # the fingerprint of the owner's card
    parties: tuple[str, ...]  # those of curator, consumer and witness

    def __post_init__(self) -> None:
        if len(self.terms) != DIGEST_BYTES or len(self.parties) != len(COMPUTE_ROLES):
            raise BadDocument("offer", "names no terms, or not three compute parties")
        everybody = (self.owner, *self.parties)
        for fingerprint in everybody:
            fingerprint_bytes(fingerprint)
        if len(set(everybody)) != len(everybody):
            raise BadDocument("offer", "has a party in two roles: an owner never computes, and nobody computes twice")

    def parts(self) -> tuple[bytes, bytes, bytes]:
        parties = b"".join(map(fingerprint_bytes, self.parties))
        return self.terms, fingerprint_bytes(self.owner), parties

    @functools.cached_property
    def digest(self) -> bytes:
        """By which commitments and leaves name it: nobody's commitment is another's, nor of another run."""
        return hashlib.sha256(fields(_OFFER_TAG, *self.parts())).digest()


def index_bytes(slot: int) -> bytes:
    return slot.to_bytes(8, "big")


def envelope_bytes(record_bytes: int) -> int:
    return _LENGTH_BYTES + record_bytes + _TAG_BYTES


def seal_record(
    record: bytes, *, context: OfferContext, slot: int, key: bytes, random: bytes, record_bytes: int
) -> bytes:
    """A record in its envelope; an empty one stands for a slot without a row, and looks like any other.

    ``key`` is K of the offer, ``random`` is r of the slot, drawn for this record and never used for another.
    """
    if len(record) > record_bytes:
        raise InvalidArgument("record", f"{len(record)} bytes", f"must have at most {record_bytes}, as the terms say")
    plaintext = len(record).to_bytes(_LENGTH_BYTES, "big") + record + bytes(record_bytes - len(record))
    cipher, associated = _cipher(context, slot, key, random)
    return cipher.encrypt(_NONCE, plaintext, associated)


def open_envelope(envelope: bytes, *, context: OfferContext, slot: int, key: bytes, random: bytes) -> bytes:
    cipher, associated = _cipher(context, slot, key, random)
    try:
        plaintext = cipher.decrypt(_NONCE, envelope, associated)
    except InvalidTag:
        raise BadDocument("envelope", "does not open with the key of its slot") from None
    end = _LENGTH_BYTES + int.from_bytes(plaintext[:_LENGTH_BYTES], "big")
    if not _LENGTH_BYTES <= end <= len(plaintext) or plaintext.count(0, end) != len(plaintext) - end:
        raise BadDocument("envelope", "holds no padded record")
    return plaintext[_LENGTH_BYTES:end]


def _cipher(context: OfferContext, slot: int, key: bytes, random: bytes) -> tuple[ChaCha20Poly1305, bytes]:
    if len(key) != KEY_BYTES or len(random) != RANDOM_BYTES:
        raise InvalidArgument("key", f"{len(key)} and {len(random)} bytes", "K and r must have 32 bytes each")
    names = _ROW_TAG, context.terms, fingerprint_bytes(context.owner)
    consumer = fingerprint_bytes(context.parties[COMPUTE_ROLES.index("consumer")])
    info = fields(*names, index_bytes(slot))
    derived = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(key + random)
    return ChaCha20Poly1305(derived), fields(*names, consumer, index_bytes(slot))


SALT_BYTES = 32


def new_salts(count: int) -> list[bytes]:
    return [os.urandom(SALT_BYTES) for _ in range(count)]


MOST_SLOTS = 1 << 20
_SHARE_TAG, _SLOT_TAG = b"likeset share", b"likeset slot"


class OfferFault(StrEnum):
    CONTEXT = "its list is of another owner, other terms or other compute parties"
    SIGNATURE = "the owner's card did not sign its list"
    SIZE = "it has other numbers of slots, words or bytes than the terms say"
    LIST = "it is not what the owner's list commits to"
    REPEATED = "it repeats what must be drawn anew for each slot"


SLOT_DIGESTS = len(COMPUTE_ROLES) + 2
"""What a leaf is made of: commitments to the shares of all compute parties, SHA-256 of r and of the envelope."""


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def _digests(many: Sequence[bytes]) -> list[bytes]:
    return [hashlib.sha256(each).digest() for each in many]


def _leaves(context: OfferContext, digests: bytes) -> bytes:
    slots = enumerate(pieces(digests, SLOT_DIGESTS * DIGEST_BYTES))
    named = (fields(_SLOT_TAG, context.digest, index_bytes(slot), *pieces(each, DIGEST_BYTES)) for slot, each in slots)
    return b"".join(_digests(list(named)))


def _commitments(context: OfferContext, role: ComputeRole, salts: bytes, shares: bytes) -> list[bytes]:
    """To one party's shares of all slots, as they travel; the salts go to that party only."""
    begun, named = hashlib.sha256(fields(_SHARE_TAG, context.digest)), fields(role.encode("ascii"))
    slots = len(salts) // SALT_BYTES
    size, view, made = len(shares) // slots, memoryview(shares), []
    for slot, salt in enumerate(pieces(salts, SALT_BYTES)):
        hashed = begun.copy()
        hashed.update(fields(index_bytes(slot)) + named + fields(salt) + size.to_bytes(8, "big"))
        hashed.update(view[size * slot : size * (slot + 1)])  # as of fields, without a copy of it
        made.append(hashed.digest())
    return made


@dataclass(frozen=True)
class OfferList(Signed):
    """What an owner signed about its offer: SHA-256 of K, and a leaf of 32 bytes for each slot."""

    tag = b"likeset list"
    context = LIST_CONTEXT
    offer: OfferContext
    key_digest: bytes
    leaves: bytes = field(repr=False)
    signature: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if len(self.leaves) % DIGEST_BYTES or not 1 <= self.slots <= MOST_SLOTS:
            raise BadDocument("list", f"must have leaves of {DIGEST_BYTES} bytes for 1 to {MOST_SLOTS} slots")
        if len(self.key_digest) != DIGEST_BYTES:
            raise BadDocument("list", "has a digest of another length")

    @property
    def parts(self) -> tuple[bytes, ...]:
        return *self.offer.parts(), self.key_digest, index_bytes(self.slots), self.leaves

    @property
    def signer(self) -> str:
        return self.offer.owner

    @property
    def slots(self) -> int:
        return len(self.leaves) // DIGEST_BYTES

    @functools.cached_property
    def digest(self) -> bytes:
        """By which rosters name it: over what is signed, so another signature of it changes nothing."""
        return hashlib.sha256(signed(LIST_CONTEXT, *self.parts)).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        terms, owner, parties, key_digest, slots, leaves, signature = cls.read(data, 6)
        offer = OfferContext(terms, fingerprint_text(owner), _fingerprints_in(parties))
        made = cls(offer, key_digest, leaves, signature)
        if slots != index_bytes(made.slots):
            raise BadDocument("likeset list", "has another number of leaves than it says")
        return made


def _fingerprints_in(data: bytes) -> tuple[str, ...]:
    return tuple(map(fingerprint_text, pieces(data, FINGERPRINT_BYTES)))


_PART_TAG = b"likeset part"


@dataclass(frozen=True, slots=True)
class OfferShape:
    """How large an offer is, by the terms: the same for every owner, whatever its rows.

    The words of a slot are those of its row, 1 if it is filled, and its r.
    """

    columns: int
    slots: int
    record_bytes: int

    @property
    def width(self) -> int:
        return self.columns + 1 + RANDOM_WORDS

    @property
    def share_bytes(self) -> int:
        return WORD_BYTES * self.width

    @property
    def envelope_bytes(self) -> int:
        return envelope_bytes(self.record_bytes)


@dataclass(frozen=True)
class OfferPart:
    """What one compute party gets of an offer, sealed to it alone."""

    role: ComputeRole
    offer_list: OfferList
    digests: bytes = field(repr=False)  # of all slots, ``SLOT_DIGESTS`` each
    salts: bytes = field(repr=False)  # of the commitments to this party's shares
    share: bytes = field(repr=False)  # this party's words of all slots, as they travel
    key: bytes = field(repr=False)  # K, for the consumer; empty for others
    envelopes: bytes = field(repr=False)  # of all slots, for the curator; empty for others

    def to_bytes(self) -> bytes:
        parts = self.digests, self.salts, self.share, self.key, self.envelopes
        return fields(_PART_TAG, self.role.encode("ascii"), self.offer_list.to_bytes(), *parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        role, listed, *rest = read_tagged(_PART_TAG, data, 7)
        return cls(_role_in(role), OfferList.from_bytes(listed), *rest)

    def digests_of(self, slot: int) -> list[bytes]:
        size = SLOT_DIGESTS * DIGEST_BYTES
        return pieces(self.digests[size * slot : size * (slot + 1)], DIGEST_BYTES)

    def envelope_of(self, slot: int) -> bytes:
        size = len(self.envelopes) // self.offer_list.slots
        return self.envelopes[size * slot : size * (slot + 1)]


def share_offer(
    secret: CardSecret, *, context: OfferContext, shape: OfferShape, rows: Rows, records: Sequence[bytes]
) -> dict[ComputeRole, OfferPart]:
    """An owner's offer, which it stores in one transaction before a byte of it leaves: a part for each compute party.

    The given rows lie in a secret order among as many slots as the terms say; the others are empty, all of their words
    but r are 0. Records have the owner's handles inside. The owner finds all else in the parts: r of a slot is the sum
    of the last words of all shares, K is in the consumer's part, envelopes are in the curator's.

    Privacy contract:
        Protects:  every row, label, record and how many slots are empty.
        Reveals:   by what is sent here: to one compute party, and to all but one of them together with any owners,
                   nothing but the shape. The computation replicates shares among three parties, so from then on two
                   of them together have everything (docs/proofs/split.md). To the consumer, once a slot's r is opened
                   to it, that slot's record.
        Costs:     nothing here; what may be opened is charged by the terms.
        Assumes:   ``os.urandom`` is uniform; SHA-256, HKDF and ChaCha20-Poly1305 are what they are taken for.
        Basis:     proven under these assumptions, docs/proofs/envelopes.md
    """
    numbers, slots = np.asarray(rows), shape.slots
    key, randoms = os.urandom(KEY_BYTES), os.urandom(RANDOM_BYTES * slots)
    order = secret_order(slots)
    words = np.zeros((slots, shape.width), dtype=np.uint64)
    words[: len(numbers), : shape.columns] = fixed_point(numbers)
    words[: len(numbers), shape.columns] = 1
    words = words[order]
    words[:, -RANDOM_WORDS:] = words_in(randoms, width=RANDOM_WORDS)
    in_slots = [records[row] if row < len(records) else b"" for row in order.tolist()]
    envelopes = [
        seal_record(record, context=context, slot=slot, key=key, random=random, record_bytes=shape.record_bytes)
        for slot, (record, random) in enumerate(zip(in_slots, pieces(randoms, RANDOM_BYTES), strict=True))
    ]
    shares = [word_bytes(share) for share in split_words(words)]
    salts = [os.urandom(SALT_BYTES * slots) for _ in COMPUTE_ROLES]
    secrets = list(zip(COMPUTE_ROLES, salts, shares, strict=True))
    columns = [_commitments(context, role, salt, share) for role, salt, share in secrets]
    columns += [_digests(pieces(randoms, RANDOM_BYTES)), _digests(envelopes)]
    digests = b"".join(digest for of_slot in zip(*columns, strict=True) for digest in of_slot)
    offer_list = OfferList(context, hashlib.sha256(key).digest(), _leaves(context, digests)).signed_by(secret)
    return {
        role: OfferPart(
            role,
            offer_list,
            digests,
            salt,
            share,
            key if role == "consumer" else b"",
            b"".join(envelopes) if role == "curator" else b"",
        )
        for role, salt, share in secrets
    }


def check_part(part: OfferPart, *, context: OfferContext, role: ComputeRole, owner: Card, shape: OfferShape) -> None:
    """Raise unless a part of an offer belongs to what its owner signed; otherwise the offer counts as absent.

    ``context``, ``owner`` and ``shape`` are those that the terms give this owner's offer, ``role`` is the reader's.
    """
    listed, slots = part.offer_list, shape.slots
    if listed.offer != context or owner.fingerprint != context.owner:
        raise BadDocument("offer", OfferFault.CONTEXT)
    if not listed.is_signed_by(owner):
        raise BadDocument("offer", OfferFault.SIGNATURE)
    expected = (
        role,
        slots,
        slots * SLOT_DIGESTS * DIGEST_BYTES,
        slots * SALT_BYTES,
        slots * shape.share_bytes,
        KEY_BYTES if role == "consumer" else 0,
        slots * shape.envelope_bytes if role == "curator" else 0,
    )
    lengths = map(len, (part.digests, part.salts, part.share, part.key, part.envelopes))
    if expected != (part.role, listed.slots, *lengths):
        raise BadDocument("offer", OfferFault.SIZE)
    *commitments, randoms, envelopes = zip(*map(part.digests_of, range(slots)), strict=True)
    are_committed_to = (
        _leaves(context, part.digests) == listed.leaves
        and tuple(_commitments(context, role, part.salts, part.share)) == commitments[COMPUTE_ROLES.index(role)]
        and (role != "curator" or envelopes == tuple(_digests(pieces(part.envelopes, shape.envelope_bytes))))
        and (role != "consumer" or hashlib.sha256(part.key).digest() == listed.key_digest)
    )
    if not are_committed_to:
        raise BadDocument("offer", OfferFault.LIST)
    shares_of_r = {share[-RANDOM_BYTES:] for share in pieces(part.share, shape.share_bytes)}
    if len(set(randoms)) != slots or len(shares_of_r) != slots:
        raise BadDocument("offer", OfferFault.REPEATED)


_ENTRY_BYTES = FINGERPRINT_BYTES + DIGEST_BYTES

Lists = Mapping[str, bytes]
"""Of owners, by the fingerprints of their cards, the digests of their lists."""


def list_entries(lists: Lists) -> bytes:
    """As they travel: owner and digest, in the order of fingerprints."""
    return b"".join(sorted(fingerprint_bytes(owner) + digest for owner, digest in lists.items()))


def lists_in(entries: bytes) -> Lists:
    if len(entries) % _ENTRY_BYTES:
        raise BadDocument("roster", "has entries of another length")
    lines = pieces(entries, _ENTRY_BYTES)
    lists = {fingerprint_text(line[:FINGERPRINT_BYTES]): line[FINGERPRINT_BYTES:] for line in lines}
    if list_entries(lists) != entries:
        raise BadDocument("roster", "names an owner twice, or owners out of order")
    return lists


def common_lists(held: Sequence[Lists]) -> Lists:
    """Of the owners whose parts all compute parties have, by one and the same list."""
    first, *others = held
    return {owner: digest for owner, digest in first.items() if all(lists.get(owner) == digest for lists in others)}


@dataclass(frozen=True)
class Roster(Signed):
    """Whose offers a run computes on, and who computes (fingerprints), as the compute party of a role signed it."""

    tag = b"likeset roster"
    context = ROSTER_CONTEXT
    terms: bytes
    parties: tuple[str, ...]
    lists: Lists
    role: ComputeRole
    signature: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if len(self.terms) != DIGEST_BYTES or len(self.parties) != len(COMPUTE_ROLES):
            raise BadDocument("roster", "names no terms, or not three compute parties")

    @property
    def parts(self) -> tuple[bytes, ...]:
        parties = b"".join(map(fingerprint_bytes, self.parties))
        return self.terms, parties, list_entries(self.lists), self.role.encode("ascii")

    @property
    def signer(self) -> str:
        return self.parties[COMPUTE_ROLES.index(self.role)]

    @functools.cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(signed(ROSTER_CONTEXT, *self.parts[:-1])).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        terms, parties, entries, word, signature = cls.read(data, 4)
        return cls(terms, _fingerprints_in(parties), lists_in(entries), _role_in(word), signature)


def _role_in(word: bytes) -> ComputeRole:
    for role in COMPUTE_ROLES:
        if word == role.encode("ascii"):
            return role
    raise BadDocument("compute party", "has a role that nobody has")


class PickFault(StrEnum):
    UNOPENED = "the slot does not open to a record as the owner signed it"
    CHECKSUM = "the record does not make the row that was computed on"
    SOLD_TWICE = "a record of the same row was bought already"


@dataclass(frozen=True, slots=True)
class PickedSlot:
    """What the computation opens to the consumer: r, and the linear combination of the words of the slot's row."""

    slot: int
    random: bytes = field(repr=False)
    checksum: int = field(repr=False)


def open_picks(
    part: OfferPart,
    picks: Sequence[PickedSlot],
    *,
    envelopes: Mapping[int, bytes],
    factors: Words,
    read: Callable[[Sequence[bytes]], tuple[NDArray[np.bool_], Rows, NDArray[np.uint64]]],
) -> list[bytes | PickFault]:
    """What the consumer bought of one owner, by its own part and the curator's envelopes: for each pick its record.

    ``read`` tells which records are sound, their rows and their handles. The checksum of a record is the sum, modulo
    2^64, of the words of its row times these factors. Two different rows have the same checksum with probability
    2^(t - 64), where 2^t is the largest power of two that divides every difference; no row with large words counts in
    the program, so t is small. Factors were drawn after inputs were fixed.
    """
    records = [_record_of(part, pick, envelopes) for pick in picks]
    are_sound, rows, handles = read(records)
    sums = fixed_point(np.where(are_sound[:, None], rows, 0)) @ factors
    opened: list[bytes | PickFault] = []
    seen: set[int] = set()
    for place, (record, pick) in enumerate(zip(records, picks, strict=True)):
        handle = int(handles[place])
        if not are_sound[place]:
            opened.append(PickFault.UNOPENED)
        elif int(sums[place]) != pick.checksum:
            opened.append(PickFault.CHECKSUM)
        elif handle in seen:
            opened.append(PickFault.SOLD_TWICE)
        else:
            seen.add(handle)
            opened.append(record)
    return opened


def _record_of(part: OfferPart, pick: PickedSlot, envelopes: Mapping[int, bytes]) -> bytes:
    """The record of a pick; empty if its slot is, or does not open as the owner's list says."""
    if not 0 <= pick.slot < part.offer_list.slots:
        return b""
    envelope = envelopes.get(pick.slot, b"")
    if _digests([pick.random, envelope]) != part.digests_of(pick.slot)[-2:]:
        return b""
    context = part.offer_list.offer
    try:
        return open_envelope(envelope, context=context, slot=pick.slot, key=part.key, random=pick.random)
    except BadDocument:
        return b""
