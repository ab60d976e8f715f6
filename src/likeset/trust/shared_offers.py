"""An offer in parts: what an owner makes of its rows, and what each compute party checks of what it got.

``share_offer`` makes everything at once, to be stored in one transaction before a byte leaves: what was drawn is sent
again as it is and never drawn anew. ``check_part`` is what a compute party asks before it signs a receipt.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadDocument, InvalidArgument, OfferRefused
from likeset.trust.cards import Card, CardSecret
from likeset.trust.encoding import fields, read_tagged
from likeset.trust.envelopes import KEY_BYTES, OfferContext, envelope_bytes, seal_record
from likeset.trust.offer_lists import SALT_BYTES, OfferFault, OfferList, ShareCommitments, SlotDigests, sign_list
from likeset.trust.row_shares import (
    COMPUTE_ROLES,
    RANDOM_BYTES,
    RANDOM_WORDS,
    WORD_BYTES,
    ComputeRole,
    SlotLayout,
    Words,
    secret_order,
    slot_words,
    split_words,
    word_bytes,
    words_in,
)

__all__ = ["OfferPart", "OfferShape", "SharedOffer", "check_part", "repeated_between", "share_offer"]

_PART_TAG = b"likeset part"


@dataclass(frozen=True, slots=True)
class OfferShape:
    """How large an offer is, by the terms: the same for every owner, whatever its rows.

    Attributes:
        layout: of a slot's words.
        slots: how many there are.
        record_bytes: how long a record may be; every envelope has room for as much.
    """

    layout: SlotLayout
    slots: int
    record_bytes: int

    @property
    def share_bytes(self) -> int:
        """Of one slot's share."""
        return WORD_BYTES * self.layout.width

    @property
    def envelope_bytes(self) -> int:
        """Of one slot's envelope."""
        return envelope_bytes(self.record_bytes)


@dataclass(frozen=True)
class OfferPart:
    """What one compute party gets of an offer, sealed to it alone.

    Attributes:
        role: whose part it is.
        offer_list: what the owner signed.
        digests: of all slots, as ``SlotDigests`` has them, one after another.
        salts: of the commitments to this party's shares, 32 bytes for each slot.
        share: this party's words of all slots, as they travel.
        key: K, for the consumer; empty for others.
        envelopes: of all slots, one after another, for the curator; empty for others.
    """

    role: ComputeRole
    offer_list: OfferList
    digests: bytes = field(repr=False)
    salts: bytes = field(repr=False)
    share: bytes = field(repr=False)
    key: bytes = field(repr=False)
    envelopes: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """As it travels in a letter: secret."""
        listed = self.offer_list.to_bytes()
        return fields(
            _PART_TAG,
            self.role.encode("ascii"),
            listed,
            self.digests,
            self.salts,
            self.share,
            self.key,
            self.envelopes,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The part that ``to_bytes`` wrote; whether it can be believed, ``check_part`` says.

        Raises:
            OfferRefused: it is none.
        """
        try:
            role, listed, *rest = read_tagged(_PART_TAG, data, 7)
            offer_list = OfferList.from_bytes(listed)
            word = role.decode("ascii")
        except (BadDocument, UnicodeDecodeError):
            raise OfferRefused(OfferFault.FORM) from None
        if word not in COMPUTE_ROLES:
            raise OfferRefused(OfferFault.FORM)
        return cls(word, offer_list, *rest)

    def words(self, layout: SlotLayout) -> Words:
        """This party's share, one line for each slot: what goes into the computation, as it is."""
        return words_in(self.share, width=layout.width)

    def digests_of(self, slot: int) -> SlotDigests:
        """What the leaf of a slot is made of."""
        size = SlotDigests.SIZE
        return SlotDigests.from_bytes(self.digests[size * slot : size * (slot + 1)])

    def share_of(self, slot: int) -> bytes:
        """This party's words of one slot, as they travel."""
        return _piece(self.share, slot, self.offer_list.slots)

    def salt_of(self, slot: int) -> bytes:
        """The salt of the commitment to them."""
        return _piece(self.salts, slot, self.offer_list.slots)

    def envelope_of(self, slot: int) -> bytes:
        """The envelope of a slot, at the curator."""
        return _piece(self.envelopes, slot, self.offer_list.slots)


@dataclass(frozen=True)
class SharedOffer:
    """Everything that an owner stores, in one transaction, before a byte of it leaves.

    Attributes:
        parts: what each compute party gets. All else follows from them: r of a slot is the sum of the last words of
            all shares, K is in the consumer's part, envelopes are in the curator's.
        slot_of_row: in which slot each of the given rows lies; secret, and only its owner needs it.
    """

    parts: Mapping[ComputeRole, OfferPart] = field(repr=False)
    slot_of_row: NDArray[np.int64] = field(repr=False)

    @property
    def offer_list(self) -> OfferList:
        """What the owner signed."""
        return next(iter(self.parts.values())).offer_list


def share_offer(
    secret: CardSecret,
    *,
    context: OfferContext,
    shape: OfferShape,
    rows: Rows,
    classes: NDArray[np.int64],
    records: Sequence[bytes],
) -> SharedOffer:
    """An owner's offer: shares for every compute party, envelopes, the signed list.

    The given rows lie in a secret order among as many slots as the terms say; the others are empty.

    Args:
        secret: the owner's.
        context: of the offer.
        shape: how large it is.
        rows: encoded, at most one for each slot.
        classes: the class of each row's label; empty where the layout has none.
        records: of each row, with the owner's handle inside.

    Raises:
        InvalidArgument: rows, labels and records do not belong together, or do not fit; nothing was made.

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
    if len(records) != len(rows) or not all(records):
        raise InvalidArgument("records", f"{len(records)} records", "there must be one for each row, and none empty")
    words = slot_words(shape.layout, rows, classes, slots=shape.slots)
    order = secret_order(shape.slots)
    words = words[order]
    key, randoms = os.urandom(KEY_BYTES), os.urandom(RANDOM_BYTES * shape.slots)
    words[:, shape.layout.random] = words_in(randoms, width=RANDOM_WORDS)
    in_slots = [records[row] if row < len(records) else b"" for row in order.tolist()]
    envelopes = _sealed(in_slots, context=context, key=key, randoms=randoms, record_bytes=shape.record_bytes)
    shares = [word_bytes(share) for share in split_words(words)]
    parts = _parts(secret, context, shape, key=key, randoms=randoms, envelopes=envelopes, shares=shares)
    return SharedOffer(parts, np.argsort(order)[: len(records)])


def _parts(
    secret: CardSecret,
    context: OfferContext,
    shape: OfferShape,
    *,
    key: bytes,
    randoms: bytes,
    envelopes: Sequence[bytes],
    shares: Sequence[bytes],
) -> dict[ComputeRole, OfferPart]:
    """What each compute party gets, with the list that commits to all of it."""
    salts = [os.urandom(SALT_BYTES * shape.slots) for _ in COMPUTE_ROLES]
    commitments = [
        ShareCommitments(context, role).of_all(salt, share)
        for role, salt, share in zip(COMPUTE_ROLES, salts, shares, strict=True)
    ]
    digests = [
        SlotDigests(
            of_slot,
            hashlib.sha256(_piece(randoms, slot, shape.slots)).digest(),
            hashlib.sha256(envelopes[slot]).digest(),
        )
        for slot, of_slot in enumerate(zip(*commitments, strict=True))
    ]
    offer_list = sign_list(secret, context, key=key, leaves=_leaves(context, digests))
    everything = b"".join(slot_digests.to_bytes() for slot_digests in digests)
    return {
        role: OfferPart(
            role,
            offer_list,
            everything,
            salt,
            share,
            key if role == "consumer" else b"",
            b"".join(envelopes) if role == "curator" else b"",
        )
        for role, salt, share in zip(COMPUTE_ROLES, salts, shares, strict=True)
    }


def _leaves(context: OfferContext, digests: Sequence[SlotDigests]) -> bytes:
    """Of all slots, as the owner signs them."""
    return b"".join(slot_digests.leaf(context, slot) for slot, slot_digests in enumerate(digests))


def _sealed(
    records: Sequence[bytes], *, context: OfferContext, key: bytes, randoms: bytes, record_bytes: int
) -> list[bytes]:
    return [
        seal_record(
            record,
            context=context,
            slot=slot,
            key=key,
            random=_piece(randoms, slot, len(records)),
            record_bytes=record_bytes,
        )
        for slot, record in enumerate(records)
    ]


def check_part(part: OfferPart, *, context: OfferContext, role: ComputeRole, owner: Card, shape: OfferShape) -> None:
    """A part of an offer belongs to what its owner signed: whoever says so with a receipt can open it later.

    Args:
        part: from the owner.
        context: that the terms give this owner's offer.
        role: of the party that checks.
        owner: the card that the terms name for the owner.
        shape: of an offer, by the terms.

    Raises:
        OfferRefused: it does not; the offer then counts as absent.
    """
    listed, slots = part.offer_list, shape.slots
    if listed.context != context or owner.fingerprint != context.owner:
        raise OfferRefused(OfferFault.CONTEXT)
    if not listed.is_signed_by(owner):
        raise OfferRefused(OfferFault.SIGNATURE)
    if part.role != role:
        raise OfferRefused(OfferFault.ROLE)
    expected = (
        slots,
        slots * SlotDigests.SIZE,
        slots * SALT_BYTES,
        slots * shape.share_bytes,
        KEY_BYTES if role == "consumer" else 0,
        slots * shape.envelope_bytes if role == "curator" else 0,
    )
    if expected != (listed.slots, *map(len, (part.digests, part.salts, part.share, part.key, part.envelopes))):
        raise OfferRefused(OfferFault.SIZE)
    digests = [part.digests_of(slot) for slot in range(slots)]
    if _leaves(context, digests) != listed.leaves:
        raise OfferRefused(OfferFault.LEAVES)
    _check_secrets(part, digests)
    randoms = {slot_digests.random for slot_digests in digests}
    if len(randoms) != slots or len(_random_shares(part, shape)) != slots:
        raise OfferRefused(OfferFault.REPEATED)


def _check_secrets(part: OfferPart, digests: Sequence[SlotDigests]) -> None:
    """Shares, key and envelopes are those that the digests commit to."""
    context, role = part.offer_list.context, part.role
    place = COMPUTE_ROLES.index(role)
    if ShareCommitments(context, role).of_all(part.salts, part.share) != [one.commitments[place] for one in digests]:
        raise OfferRefused(OfferFault.SHARE)
    for slot, slot_digests in enumerate(digests):
        if role == "curator" and hashlib.sha256(part.envelope_of(slot)).digest() != slot_digests.envelope:
            raise OfferRefused(OfferFault.ENVELOPES)
    if role == "consumer" and hashlib.sha256(part.key).digest() != part.offer_list.key_digest:
        raise OfferRefused(OfferFault.KEY)


def repeated_between(parts: Mapping[str, OfferPart], shape: OfferShape) -> tuple[tuple[str, str], ...]:
    """Pairs of owners of whom one repeats what the other drew: shares of a slot, or the digest of its r.

    By chance that happens with probability below 2^-200. Which of the two copied is not told by it: both offers are
    to be left out.

    Args:
        parts: checked ones, one of each owner, by its name.
        shape: of an offer.
    """
    seen: dict[bytes, str] = {}
    pairs: set[tuple[str, str]] = set()
    for owner, part in parts.items():
        randoms = (part.digests_of(slot).random for slot in range(shape.slots))
        for drawn in {*_random_shares(part, shape), *randoms}:
            first = seen.setdefault(drawn, owner)
            if first != owner:
                pairs.add((first, owner))
    return tuple(sorted(pairs))


def _random_shares(part: OfferPart, shape: OfferShape) -> set[bytes]:
    """The distinct shares of r among all slots: 32 uniform bytes each, if the owner follows the protocol."""
    size = shape.share_bytes
    return {part.share[end - RANDOM_BYTES : end] for end in range(size, len(part.share) + 1, size)}


def _piece(data: bytes, slot: int, slots: int) -> bytes:
    size = len(data) // slots
    return data[size * slot : size * (slot + 1)]
