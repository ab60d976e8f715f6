"""What the consumer makes of opened picks: each is checked, and the records that hold are a summary."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likeset.protocol.split.compute_inputs import OpenedSlots
from likeset.protocol.split.slot_records import SlotRecords
from likeset.trust.picks import OpenedPick, PickedSlot, open_picks
from likeset.trust.row_shares import Words, word_bytes
from likeset.trust.shared_offers import OfferPart, OfferShape

__all__ = ["Bought", "buy"]

_ODD_LABEL = "its label is of another kind than those of most rows"


@dataclass(frozen=True, eq=False)
class Bought:
    """What came of the picks.

    Attributes:
        owners: of each record that holds, in the order of picking, its owner's place among those computed on.
        records: those that hold.
        faults: of owners, by place, how many of their picks were left out for which reason.
        lost: picks that name no slot at all: no owner's fault.
    """

    owners: NDArray[np.int64]
    records: tuple[bytes, ...]
    faults: Mapping[int, Mapping[str, int]]
    lost: int


def buy(
    parts: Sequence[OfferPart],
    opened: OpenedSlots,
    *,
    envelopes: Sequence[Mapping[int, bytes]],
    shape: OfferShape,
    records: SlotRecords,
) -> Bought:
    """Open what was picked.

    Args:
        parts: the consumer's, of all owners that were computed on, in their order.
        opened: what the computation opened.
        envelopes: of each of these owners, by slot.
        shape: of an offer.
        records: reads what lies in envelopes.
    """
    picks = [number for number in range(len(opened.numbers)) if opened.numbers[number] != -1]
    inside = [number for number in picks if 0 <= opened.numbers[number] < len(parts) * shape.slots]
    coefficients: Words = np.append(opened.factors.view(np.uint64), np.uint64(0))  # valid is not summed there
    outcomes: dict[int, tuple[int, OpenedPick]] = {}
    for place, part in enumerate(parts):
        mine = [number for number in inside if opened.numbers[number] // shape.slots == place]
        wanted = [_picked(opened, number, slots=shape.slots) for number in mine]
        made = open_picks(
            part, wanted, envelopes=envelopes[place], layout=shape.layout, coefficients=coefficients, reader=records
        )
        outcomes |= {number: (place, pick) for number, pick in zip(mine, made, strict=True)}
    return _sorted_out([outcomes[number] for number in inside], records, len(picks) - len(inside))


def _picked(opened: OpenedSlots, number: int, *, slots: int) -> PickedSlot:
    random = word_bytes(opened.secrets[number : number + 1].view(np.uint64))
    checksum = int(opened.checksums[number : number + 1].view(np.uint64)[0])
    return PickedSlot(int(opened.numbers[number]) % slots, random, checksum)


def _sorted_out(outcomes: Sequence[tuple[int, OpenedPick]], records: SlotRecords, lost: int) -> Bought:
    """Those that hold, and of the others whose they are and why they do not."""
    faults: dict[int, Counter[str]] = {}

    def leave_out(place: int, reason: str) -> None:
        faults.setdefault(place, Counter())[reason] += 1

    whole = [(place, pick.record) for place, pick in outcomes if pick.fault is None]
    for place, pick in outcomes:
        if pick.fault is not None:
            leave_out(place, pick.fault.value)
    kinds = records.label_kinds([record for _, record in whole])
    usual = Counter(kinds).most_common(1)[0][0] if kinds else ""
    kept = [pair for pair, kind in zip(whole, kinds, strict=True) if kind == usual]
    for (place, _), kind in zip(whole, kinds, strict=True):
        if kind != usual:
            leave_out(place, _ODD_LABEL)
    owners = np.array([place for place, _ in kept], dtype=np.int64)
    return Bought(owners, tuple(record for _, record in kept), faults, lost)
