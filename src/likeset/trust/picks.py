"""The consumer opens what it bought: index, r and checksum of each pick, K, and the envelopes from the curator.

Each pick ends in a record or in one fault of a fixed set. Which rows a record makes is asked of a *reader*, which knows
the schema; nothing here does.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.envelopes import open_envelope
from likeset.trust.row_shares import RANDOM_BYTES, SlotLayout, Words, are_shareable, checksums, slot_words
from likeset.trust.shared_offers import OfferPart

__all__ = [
    "OpenedPick",
    "PickFault",
    "PickedSlot",
    "ReadRecords",
    "RecordReader",
    "RecordWords",
    "open_picks",
    "record_words",
]


class ReadRecords(Protocol):
    """What records say; arrays have an entry for each record, also for those that are none."""

    @property
    def sound(self) -> NDArray[np.bool_]:
        """Which of them are records as declared; entries of others say nothing."""

    @property
    def rows(self) -> Rows:
        """The encoded row of each."""

    @property
    def classes(self) -> NDArray[np.int64]:
        """The class of each one's label; empty where labels are no categories."""

    @property
    def handles(self) -> NDArray[np.uint64]:
        """By which its owner finds each row again."""


class RecordReader(Protocol):
    """Reads records by a schema; ``likeset.tables.records`` has one."""

    def read(self, records: Sequence[bytes]) -> ReadRecords:
        """What they say; never raises for what a stranger wrote."""


class PickFault(StrEnum):
    """Why a pick gives no record."""

    SLOT = "the offer has no such slot"
    RANDOM = "the r that was opened is not the one of the owner's list"
    ENVELOPE = "the envelope is missing, or not the one of the owner's list"
    SEAL = "the envelope does not open"
    EMPTY = "the slot is empty"
    RECORD = "the envelope holds no record as declared"
    CHECKSUM = "the record does not make the row that was computed on"
    SOLD_TWICE = "a record of the same row was bought already"


@dataclass(frozen=True, slots=True)
class PickedSlot:
    """What the computation opens to the consumer.

    Attributes:
        slot: of the owner's offer.
        random: r, 32 bytes.
        checksum: the linear combination of the slot's words.
    """

    slot: int
    random: bytes = field(repr=False)
    checksum: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpenedPick:
    """What came of a pick: a record, or a fault.

    Attributes:
        slot: of the owner's offer.
        record: empty where there is a fault before it could be read.
        fault: None if the record is what was computed on.
    """

    slot: int
    record: bytes = field(repr=False)
    fault: PickFault | None


@dataclass(frozen=True, eq=False)
class RecordWords:
    """What an honest owner shares for records.

    Attributes:
        sound: which of them are records that an honest owner could have shared; entries of others mean nothing.
        words: of each, without random words.
        handles: by which the owner finds each row again.
    """

    sound: NDArray[np.bool_]
    words: Words = field(repr=False)
    handles: NDArray[np.uint64]


def record_words(reader: RecordReader, layout: SlotLayout, records: Sequence[bytes]) -> RecordWords:
    """The words that an honest owner shares for records; whatever a stranger wrote, it has words or is not sound.

    Raises:
        InvalidArgument: the reader is of another schema than the layout.
    """
    read = reader.read(records)
    if read.rows.shape != (len(records), layout.columns):
        raise InvalidArgument("reader", f"rows of shape {read.rows.shape}", f"must make {layout.columns} columns")
    sound = read.sound & are_shareable(read.rows)
    words = np.zeros((len(records), layout.width), dtype=np.uint64)
    classes = read.classes[sound] if layout.classes else np.empty(0, dtype=np.int64)
    if sound.any():
        words[sound] = slot_words(layout, read.rows[sound], classes, slots=int(sound.sum()))
    return RecordWords(sound, words, read.handles)


def open_picks(
    part: OfferPart,
    picks: Sequence[PickedSlot],
    *,
    envelopes: Mapping[int, bytes],
    layout: SlotLayout,
    coefficients: Words,
    reader: RecordReader,
) -> tuple[OpenedPick, ...]:
    """What the consumer bought of one owner.

    Args:
        part: the consumer's, for which it signed a receipt.
        picks: what the computation opened, in the order of picking.
        envelopes: of the picked slots at least, by slot, as they came from the curator.
        layout: of a slot's words.
        coefficients: of the checksums.
        reader: of records.
    """
    opened = [_record_of(part, pick, envelopes) for pick in picks]
    whole = [number for number, pick in enumerate(opened) if pick.fault is None]
    read = record_words(reader, layout, [opened[number].record for number in whole])
    sums = checksums(layout, read.words, coefficients)
    seen: set[int] = set()
    for place, number in enumerate(whole):
        fault: PickFault | None = None
        handle = int(read.handles[place])
        if not read.sound[place]:
            fault = PickFault.RECORD
        elif int(sums[place]) != picks[number].checksum:
            fault = PickFault.CHECKSUM
        elif handle in seen:
            fault = PickFault.SOLD_TWICE
        else:
            seen.add(handle)
        opened[number] = OpenedPick(opened[number].slot, opened[number].record, fault)
    return tuple(opened)


def _record_of(part: OfferPart, pick: PickedSlot, envelopes: Mapping[int, bytes]) -> OpenedPick:
    """The record in the envelope of a pick, not looked into."""
    listed = part.offer_list

    def failed(fault: PickFault) -> OpenedPick:
        return OpenedPick(pick.slot, b"", fault)

    if not 0 <= pick.slot < listed.slots:
        return failed(PickFault.SLOT)
    digests = part.digests_of(pick.slot)
    if len(pick.random) != RANDOM_BYTES or hashlib.sha256(pick.random).digest() != digests.random:
        return failed(PickFault.RANDOM)
    envelope = envelopes.get(pick.slot)
    if envelope is None or hashlib.sha256(envelope).digest() != digests.envelope:
        return failed(PickFault.ENVELOPE)
    try:
        record = open_envelope(envelope, context=listed.context, slot=pick.slot, key=part.key, random=pick.random)
    except BadDocument:
        return failed(PickFault.SEAL)
    return OpenedPick(pick.slot, record, None) if record else failed(PickFault.EMPTY)
