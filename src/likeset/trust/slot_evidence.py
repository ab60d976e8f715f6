"""What is shown to a third party about slots of an offer: the signed list, receipts, and what was opened of the slots.

It contains the records of these slots, or lets them be found: it is for those who decide, and for nobody else.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, cast

from likeset.errors import BadDocument
from likeset.trust.cards import Card
from likeset.trust.encoding import fields, read_fields, read_tagged
from likeset.trust.envelopes import index_bytes
from likeset.trust.offer_lists import OfferList, ShareCommitments, SlotDigests
from likeset.trust.row_shares import COMPUTE_ROLES, RANDOM_BYTES, ComputeRole
from likeset.trust.share_receipts import ShareReceipt
from likeset.trust.shared_offers import OfferPart

__all__ = ["OfferEvidence", "ShareOpening", "SlotEvidence", "opening_of"]

_EVIDENCE_TAG = b"likeset evidence"
_SLOT_PARTS, _OPENING_PARTS = 5, 3


@dataclass(frozen=True, slots=True)
class ShareOpening:
    """A compute party's share of a slot, and the salt that proves it to be the one that was committed to.

    Attributes:
        role: of the party.
        salt: 32 bytes.
        share: its words, as they travel.
    """

    role: ComputeRole
    salt: bytes = field(repr=False)
    share: bytes = field(repr=False)


def opening_of(part: OfferPart, slot: int) -> ShareOpening:
    """What a compute party shows of its part when it is asked about a slot."""
    return ShareOpening(part.role, part.salt_of(slot), part.share_of(slot))


@dataclass(frozen=True, slots=True)
class SlotEvidence:
    """What is known of one slot; nothing in it is believed unless the list commits to it.

    Attributes:
        slot: its number.
        digests: what its leaf is made of.
        random: r, as the consumer had it opened; empty if that is not shown.
        envelope: as the curator has it; empty if that is not shown.
        openings: of the compute parties that showed theirs.
    """

    slot: int
    digests: SlotDigests
    random: bytes = field(default=b"", repr=False)
    envelope: bytes = field(default=b"", repr=False)
    openings: tuple[ShareOpening, ...] = field(default=(), repr=False)

    def true_random(self) -> bytes:
        """r, if it is the one that the list commits to; empty otherwise."""
        right = len(self.random) == RANDOM_BYTES and hashlib.sha256(self.random).digest() == self.digests.random
        return self.random if right else b""

    def true_envelope(self) -> bytes:
        """The envelope, if it is the one that the list commits to; empty otherwise."""
        return self.envelope if hashlib.sha256(self.envelope).digest() == self.digests.envelope else b""

    def true_shares(self, offer_list: OfferList) -> dict[ComputeRole, bytes]:
        """Of every compute party that opened what the list commits to, its share."""
        due = dict(zip(COMPUTE_ROLES, self.digests.commitments, strict=True))
        return {
            opening.role: opening.share
            for opening in self.openings
            if due.get(opening.role)
            == ShareCommitments(offer_list.context, opening.role).of(self.slot, salt=opening.salt, share=opening.share)
        }

    def to_bytes(self) -> bytes:
        """As it stands in files."""
        openings = (fields(opening.role.encode("ascii"), opening.salt, opening.share) for opening in self.openings)
        return fields(index_bytes(self.slot), self.digests.to_bytes(), self.random, self.envelope, fields(*openings))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The evidence that ``to_bytes`` wrote.

        Raises:
            BadDocument: it is none.
        """
        slot, digests, random, envelope, opened = read_fields(data, _SLOT_PARTS, what="evidence of a slot")
        if len(slot) != len(index_bytes(0)):
            raise BadDocument("evidence of a slot", "names no slot")
        openings = []
        words = {role.encode("ascii"): role for role in COMPUTE_ROLES}
        for opening in read_fields(opened, None, what="openings"):
            word, salt, share = read_fields(opening, _OPENING_PARTS, what="opening")
            if words.pop(word, None) is None:
                raise BadDocument("opening", "is of nobody who computes, or of somebody twice")
            openings.append(ShareOpening(cast(ComputeRole, word.decode("ascii")), salt, share))
        named = SlotDigests.from_bytes(digests)
        return cls(int.from_bytes(slot, "big"), named, random, envelope, tuple(openings))


@dataclass(frozen=True, slots=True)
class OfferEvidence:
    """What is shown about some slots of one offer.

    Attributes:
        offer_list: what the owner signed.
        receipts: of compute parties.
        key: K, as the consumer has it; empty if that is not shown.
        slots: what is known of each slot in question.
    """

    offer_list: OfferList
    receipts: tuple[ShareReceipt, ...]
    key: bytes = field(repr=False)
    slots: tuple[SlotEvidence, ...]

    def check(self, owner: Card, parties: Mapping[ComputeRole, Card]) -> None:
        """Everything in it is signed by whom it names, and about slots of this offer.

        Raises:
            BadDocument: it is not, and so proves nothing.
        """
        self.check_signed(owner, parties)
        if not self.slots:
            raise BadDocument("evidence", "shows no slot")

    def check_signed(self, owner: Card, parties: Mapping[ComputeRole, Card]) -> None:
        """The same; slots need not be there, for lists and receipts alone can prove something.

        Raises:
            BadDocument: it is not, and so proves nothing.
        """
        listed = self.offer_list
        if not listed.is_signed_by(owner):
            raise BadDocument("evidence", "its list is not signed by the owner")
        computing = tuple(parties[role].fingerprint for role in COMPUTE_ROLES if role in parties)
        if listed.context.parties != computing:
            raise BadDocument("evidence", "its list is for other compute parties")
        for receipt in self.receipts:
            known = receipt.role in parties and receipt.is_signed_by(parties[receipt.role])
            if not known or (receipt.context, receipt.list_digest) != (listed.context, listed.digest):
                raise BadDocument("evidence", "has a receipt of somebody else, or for another list")
        if not all(listed.names(shown.slot, shown.digests) for shown in self.slots):
            raise BadDocument("evidence", "shows digests that are not those of the list")
        if len({shown.slot for shown in self.slots}) != len(self.slots):
            raise BadDocument("evidence", "shows a slot twice")

    def true_key(self) -> bytes:
        """K, if it is the one that the list commits to; empty otherwise."""
        return self.key if hashlib.sha256(self.key).digest() == self.offer_list.key_digest else b""

    def to_bytes(self) -> bytes:
        """As it stands in files: it holds records, and is secret."""
        receipts = fields(*(receipt.to_bytes() for receipt in self.receipts))
        slots = fields(*(shown.to_bytes() for shown in self.slots))
        return fields(_EVIDENCE_TAG, self.offer_list.to_bytes(), receipts, self.key, slots)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The evidence that ``to_bytes`` wrote; what it proves, ``likeset.trust.blame`` says.

        Raises:
            BadDocument: it is none.
        """
        listed, receipts, key, slots = read_tagged(_EVIDENCE_TAG, data, 4)
        offer_list = OfferList.from_bytes(listed)
        signed = tuple(map(ShareReceipt.from_bytes, read_fields(receipts, None, what="receipts")))
        shown = (SlotEvidence.from_bytes(slot) for slot in read_fields(slots, None, what="slots"))
        return cls(offer_list, signed, key, tuple(shown))
