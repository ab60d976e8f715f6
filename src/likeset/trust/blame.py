"""Who is at fault, decided by a third party from what was signed, without trusting any side.

The owner is at fault if what it committed to does not fit together: then anybody who has the evidence can see it. A
compute party is at fault if it signed a receipt and does not open what it signed for. If everything fits, the offer was
in order: then the computation went wrong, or the complaint is false, and nobody is proven to have lied.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np

from likeset.errors import BadDocument
from likeset.trust.cards import Card
from likeset.trust.envelopes import KEY_BYTES, open_envelope
from likeset.trust.offer_lists import OfferList
from likeset.trust.picks import RecordReader, record_words
from likeset.trust.row_shares import COMPUTE_ROLES, ComputeRole, SlotLayout, Words, joined_shares, word_bytes, words_in
from likeset.trust.slot_evidence import OfferEvidence, SlotEvidence

__all__ = ["BlameVerdict", "Blamed", "Ruling", "blame", "signed_two_lists"]

Blamed = Literal["owner", "curator", "consumer", "witness"]


class Ruling(StrEnum):
    """What a third party finds."""

    RANDOM = "the shares do not add up to the r of the list"
    LENGTH = "the shares, K or r are not as long as the terms say"
    VALID = "the shares make a valid bit that is neither 0 nor 1"
    SEAL = "the envelope does not open with K and r of the list"
    RECORD = "the envelope holds no record as declared"
    WORDS = "the shares do not add up to what the record says"
    SOLD_TWICE = "two slots hold the same row"
    UNOPENED = "somebody who signed for its part did not open it"
    PENDING = "somebody has not yet opened its part"
    CONSISTENT = "the offer is in order: the computation went wrong, or the complaint is false"


@dataclass(frozen=True, slots=True)
class BlameVerdict:
    """What follows from evidence.

    Attributes:
        ruling: what was found.
        at_fault: who is proven to be at fault; nobody if it cannot be told.
        slots: about which slots.
        must_open: compute parties whose part is needed, and not shown, to say more.
    """

    ruling: Ruling
    at_fault: tuple[Blamed, ...]
    slots: tuple[int, ...]
    must_open: tuple[ComputeRole, ...] = ()


def blame(
    evidence: OfferEvidence,
    *,
    owner: Card,
    parties: Mapping[ComputeRole, Card],
    layout: SlotLayout,
    reader: RecordReader,
    silent: frozenset[ComputeRole] = frozenset(),
) -> BlameVerdict:
    """Who is at fault about some slots of an offer.

    Whoever decides asks those whom ``must_open`` names, and asks again with what they showed. That somebody was asked
    and said nothing is what the third party saw itself: no document proves it.

    Args:
        evidence: from anybody.
        owner: the card that the terms name for the owner.
        parties: those of the compute parties.
        layout: of a slot's words, by the terms.
        reader: of records, by the schema that the terms name.
        silent: whom the third party asked to open their parts of these slots, in vain.

    Raises:
        BadDocument: the evidence is not signed by whom it names, and so proves nothing.
    """
    evidence.check(owner, parties)
    slots = [_Slot(evidence, shown, layout) for shown in evidence.slots]
    for slot in slots:
        ruling = slot.fault_of_shares() or slot.fault_of_seal() or slot.fault_of_record(reader)
        if ruling is not None:
            return BlameVerdict(ruling, ("owner",), (slot.number,))
    by_handle: dict[int, int] = {}
    for slot in slots:
        first = slot.number if slot.handle is None else by_handle.setdefault(slot.handle, slot.number)
        if first != slot.number:
            return BlameVerdict(Ruling.SOLD_TWICE, ("owner",), (first, slot.number))
    needed = {role for slot in slots for role in slot.unopened()}
    numbers = tuple(slot.number for slot in slots)
    if not needed:
        return BlameVerdict(Ruling.CONSISTENT, (), numbers)
    signers = {receipt.role for receipt in evidence.receipts}
    guilty: tuple[Blamed, ...] = tuple(role for role in COMPUTE_ROLES if role in needed & silent & signers)
    must_open = tuple(role for role in COMPUTE_ROLES if role in needed - silent)
    return BlameVerdict(Ruling.UNOPENED if guilty else Ruling.PENDING, guilty, numbers, must_open)


def signed_two_lists(first: OfferList, second: OfferList, owner: Card) -> bool:
    """Whether an owner signed two different lists for one offer: then it is at fault, whatever they say."""
    both = first.is_signed_by(owner) and second.is_signed_by(owner)
    return both and first.context.terms == second.context.terms and first.digest != second.digest


class _Slot:
    """What the evidence about one slot comes to."""

    def __init__(self, evidence: OfferEvidence, shown: SlotEvidence, layout: SlotLayout) -> None:
        self.number = shown.slot
        self.handle: int | None = None
        self._layout = layout
        self._context = evidence.offer_list.context
        self._shown = shown
        self._key, self._envelope = evidence.true_key(), shown.true_envelope()
        self._shares = shown.true_shares(evidence.offer_list)
        self._words: Words | None = None
        self._record: bytes | None = None

    def fault_of_shares(self) -> Ruling | None:
        """What is wrong with the sum of all shares, whatever the record says."""
        if any(len(share) != 8 * self._layout.width for share in self._shares.values()):
            return Ruling.LENGTH
        if self._key and len(self._key) != KEY_BYTES:
            return Ruling.LENGTH
        if len(self._shares) < len(COMPUTE_ROLES):
            return None
        words = joined_shares([words_in(share, width=self._layout.width) for share in self._shares.values()])
        random = word_bytes(words[:, self._layout.random])
        if not SlotEvidence(self.number, self._shown.digests, random).true_random():
            return Ruling.RANDOM
        if int(words[0, self._layout.valid]) not in (0, 1):
            return Ruling.VALID
        self._words = words
        self._shown = SlotEvidence(self.number, self._shown.digests, random)
        return None

    def fault_of_seal(self) -> Ruling | None:
        """Whether K and r, as committed to, fail to open the envelope that was committed to."""
        random = self._shown.true_random()
        if not (random and self._key and self._envelope):
            return None
        try:
            self._record = open_envelope(
                self._envelope, context=self._context, slot=self.number, key=self._key, random=random
            )
        except BadDocument:
            return Ruling.SEAL
        return None

    def fault_of_record(self, reader: RecordReader) -> Ruling | None:
        """What is wrong with the record, or with the words that were shared for it."""
        if self._record is None:
            return None
        expected = np.zeros((1, self._layout.width), dtype=np.uint64)  # of an empty slot
        if self._record:
            read = record_words(reader, self._layout, [self._record])
            if not read.sound[0]:
                return Ruling.RECORD
            expected, self.handle = read.words, int(read.handles[0])
        checked = self._layout.checked
        if self._words is not None and not np.array_equal(self._words[:, checked], expected[:, checked]):
            return Ruling.WORDS
        return None

    def unopened(self) -> set[ComputeRole]:
        """Whose part is needed, and not shown or not the one that was committed to."""
        missing = {role for role in COMPUTE_ROLES if role not in self._shares}
        if not self._key:
            missing.add("consumer")
        if not self._envelope:
            missing.add("curator")
        return missing
