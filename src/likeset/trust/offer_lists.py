"""The owner's signed list: what it commits to before a byte of its offer leaves.

For each slot there is a *leaf*: a digest over the commitments to the shares of all compute parties, the digest of r and
that of the envelope. The owner signs all leaves and the digest of K. Compute parties check their parts against it.
"""

import functools
import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Self

from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.cards import Card, CardSecret
from likeset.trust.encoding import LIST_CONTEXT, fields, read_tagged, signed
from likeset.trust.envelopes import OfferContext, index_bytes
from likeset.trust.fingerprints import FINGERPRINT_BYTES, fingerprint_text
from likeset.trust.headers import DIGEST_BYTES
from likeset.trust.row_shares import COMPUTE_ROLES, ComputeRole
from likeset.trust.signing import SIGNATURE_BYTES

__all__ = [
    "MOST_SLOTS",
    "SALT_BYTES",
    "OfferFault",
    "OfferList",
    "ShareCommitments",
    "SlotDigests",
    "context_in",
    "sign_list",
]

SALT_BYTES = 32
MOST_SLOTS = 1 << 20
_LIST_TAG, _SHARE_TAG, _SLOT_TAG = b"likeset list", b"likeset share", b"likeset slot"


class OfferFault(StrEnum):
    """Why a compute party refuses its part of an offer: one of a fixed set, whatever the part says."""

    FORM = "it does not have the form of a part of an offer"
    CONTEXT = "its list is of another owner, other terms or other compute parties"
    SIGNATURE = "the owner's card did not sign its list"
    ROLE = "it is for another compute party"
    SIZE = "it has other numbers of slots, words or bytes than the terms say"
    LEAVES = "its digests are not those that the owner signed"
    SHARE = "its shares are not those that the owner committed to"
    KEY = "its key is not the one that the owner committed to"
    ENVELOPES = "its envelopes are not those that the owner committed to"
    REPEATED = "it repeats what must be drawn anew for each slot"


@dataclass(frozen=True, slots=True)
class SlotDigests:
    """What a leaf is made of.

    Attributes:
        commitments: to the share of each compute party, in their order.
        random: SHA-256 of r.
        envelope: SHA-256 of the envelope.
    """

    SIZE: ClassVar = DIGEST_BYTES * (len(COMPUTE_ROLES) + 2)
    commitments: tuple[bytes, ...]
    random: bytes
    envelope: bytes

    def to_bytes(self) -> bytes:
        """One digest after another."""
        return b"".join((*self.commitments, self.random, self.envelope))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The digests that ``to_bytes`` wrote.

        Raises:
            BadDocument: there are more or fewer.
        """
        if len(data) != cls.SIZE:
            raise BadDocument("digests of a slot", f"must have {cls.SIZE} bytes")
        digests = [data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES)]
        return cls(tuple(digests[:-2]), digests[-2], digests[-1])

    def leaf(self, context: OfferContext, slot: int) -> bytes:
        """The digest that the owner signs for the slot."""
        parts = (context.digest, index_bytes(slot), *self.commitments, self.random, self.envelope)
        return hashlib.sha256(fields(_SLOT_TAG, *parts)).digest()


class ShareCommitments:
    """Commitments to one party's shares of an offer: the digest of tag, offer, slot, role, salt and share, as fields.

    Args:
        context: of the offer.
        role: whose shares they are.
    """

    def __init__(self, context: OfferContext, role: ComputeRole) -> None:
        self._begun = hashlib.sha256(fields(_SHARE_TAG, context.digest))
        self._role = fields(role.encode("ascii"))

    def of(self, slot: int, *, salt: bytes, share: bytes | memoryview) -> bytes:
        """To the share of a slot; the salt goes to that party only.

        Args:
            slot: its number.
            salt: 32 random bytes.
            share: its words, as they travel.
        """
        hashed = self._begun.copy()
        hashed.update(fields(index_bytes(slot)) + self._role + fields(salt) + len(share).to_bytes(8, "big"))
        hashed.update(share)  # as of fields, without a copy of it
        return hashed.digest()

    def of_all(self, salts: bytes, shares: bytes) -> list[bytes]:
        """To the shares of all slots, as many as there are salts."""
        slots = len(salts) // SALT_BYTES
        size, view = len(shares) // slots, memoryview(shares)
        return [
            self.of(
                slot,
                salt=salts[SALT_BYTES * slot : SALT_BYTES * (slot + 1)],
                share=view[size * slot : size * (slot + 1)],
            )
            for slot in range(slots)
        ]


@dataclass(frozen=True)
class OfferList:
    """What an owner signed about its offer; whether it did, ``is_signed_by`` says.

    Attributes:
        context: whose offer it is, under which terms, and who computes.
        key_digest: SHA-256 of K.
        leaves: 32 bytes for each slot.
        signature: over all of that, by the owner's card.

    Raises:
        BadDocument: it has not the form of one.
    """

    context: OfferContext
    key_digest: bytes
    leaves: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.leaves) % DIGEST_BYTES or not 1 <= self.slots <= MOST_SLOTS:
            raise BadDocument("list", f"must have leaves of {DIGEST_BYTES} bytes for 1 to {MOST_SLOTS} slots")
        if len(self.key_digest) != DIGEST_BYTES or len(self.signature) not in (0, SIGNATURE_BYTES):
            raise BadDocument("list", "has a digest or a signature of another length")

    @property
    def slots(self) -> int:
        """How many slots the offer has."""
        return len(self.leaves) // DIGEST_BYTES

    @functools.cached_property
    def digest(self) -> bytes:
        """By which receipts and rosters name it: over what is signed, so another signature of it changes nothing."""
        return hashlib.sha256(signed(LIST_CONTEXT, *self._parts())).digest()

    def is_signed_by(self, card: Card) -> bool:
        """Whether the list names this card as its owner, and the card signed it."""
        named = self.context.owner == card.fingerprint
        return named and card.verify(LIST_CONTEXT, self._parts(), self.signature)

    def to_bytes(self) -> bytes:
        """As it travels."""
        return fields(_LIST_TAG, *self._parts(), self.signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The list that ``to_bytes`` wrote; whether it is signed is asked of it.

        Raises:
            BadDocument: it is none.
        """
        terms, owner, parties, key_digest, slots, leaves, signature = read_tagged(_LIST_TAG, data, 7)
        made = cls(context_in(terms, owner, parties), key_digest, leaves, signature)
        if slots != index_bytes(made.slots) or not signature:
            raise BadDocument("likeset list", "has another number of leaves than it says, or no signature")
        return made

    def _parts(self) -> tuple[bytes, ...]:
        return *self.context.parts(), self.key_digest, index_bytes(self.slots), self.leaves


def sign_list(secret: CardSecret, context: OfferContext, *, key: bytes, leaves: bytes) -> OfferList:
    """The list of an offer, signed by its owner: once for a run, and never another one.

    Raises:
        InvalidArgument: the card is another than the context names for the owner.
    """
    if secret.card.fingerprint != context.owner:
        raise InvalidArgument("secret", secret.card.name, "is the card of another party than the offer's owner")
    unsigned = OfferList(context, hashlib.sha256(key).digest(), leaves, b"")
    return OfferList(context, unsigned.key_digest, leaves, secret.sign(LIST_CONTEXT, *unsigned._parts()))


def context_in(terms: bytes, owner: bytes, parties: bytes) -> OfferContext:
    """The context that documents name by these parts.

    Raises:
        BadDocument: they name none.
    """
    named = [parties[start : start + FINGERPRINT_BYTES] for start in range(0, len(parties), FINGERPRINT_BYTES)]
    return OfferContext(terms, fingerprint_text(owner), tuple(map(fingerprint_text, named)))
