"""What the consumer makes of opened picks: each is checked, and the records that hold are a summary."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from likeset.protocol.split.compute_inputs import OpenedSlots
from likeset.protocol.split.slot_records import SlotRecords
from likeset.trust.picks import OpenedPick, PickedSlot, open_picks
from likeset.trust.row_shares import Words, word_bytes
from likeset.trust.shared_offers import OfferPart, OfferShape

__all__ = ["Bought", "ShownPick", "buy"]

_ODD_LABEL = "its label is of another kind than those of most rows"


@dataclass(frozen=True, slots=True)
class ShownPick:
    """A pick that gave no record, or the one that it repeats: what is shown of it if there is a dispute.

    Attributes:
        owner: its place among the owners that were computed on.
        slot: of the owner's offer.
        random: r, as it was opened.
        fault: why it gave no record; empty for a sound pick whose row was sold a second time.
    """

    owner: int
    slot: int
    random: bytes = field(repr=False)
    fault: str


@dataclass(frozen=True, eq=False)
class Bought:
    """What came of the picks.

    Attributes:
        owners: of each record that holds, in the order of picking, its owner's place among those computed on.
        records: those that hold, in compact form.
        faults: of owners, by place, how many of their picks were left out for which reason.
        lost: picks that name no slot at all: no owner's fault.
        shown: the picks that failed, with what was opened of them.
    """

    owners: NDArray[np.int64]
    records: tuple[bytes, ...]
    faults: Mapping[int, Mapping[str, int]]
    lost: int
    shown: tuple[ShownPick, ...]


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
    shown: list[ShownPick] = []
    for place, part in enumerate(parts):
        mine = [number for number in inside if opened.numbers[number] // shape.slots == place]
        wanted = [_picked(opened, number, slots=shape.slots) for number in mine]
        made = open_picks(
            part, wanted, envelopes=envelopes[place], layout=shape.layout, coefficients=coefficients, reader=records
        )
        outcomes |= {number: (place, pick) for number, pick in zip(mine, made, strict=True)}
        shown += _shown(place, wanted, made)
    return _sorted_out([outcomes[number] for number in inside], records, len(picks) - len(inside), tuple(shown))


def _shown(place: int, wanted: Sequence[PickedSlot], made: Sequence[OpenedPick]) -> Iterator[ShownPick]:
    """Picks of one owner that failed, and those that they repeat."""
    twins = {pick.twin for pick in made}
    for picked, pick in zip(wanted, made, strict=True):
        if pick.fault is not None or pick.slot in twins:
            yield ShownPick(place, pick.slot, picked.random, "" if pick.fault is None else pick.fault.value)


def _picked(opened: OpenedSlots, number: int, *, slots: int) -> PickedSlot:
    random = word_bytes(opened.secrets[number : number + 1].view(np.uint64))
    checksum = int(opened.checksums[number : number + 1].view(np.uint64)[0])
    return PickedSlot(int(opened.numbers[number]) % slots, random, checksum)


def _sorted_out(
    outcomes: Sequence[tuple[int, OpenedPick]], records: SlotRecords, lost: int, shown: tuple[ShownPick, ...]
) -> Bought:
    """Those that hold, and of the others whose they are and why they do not."""
    faults: dict[int, Counter[str]] = {}

    def blame(place: int, reason: str) -> None:
        faults.setdefault(place, Counter())[reason] += 1

    whole = [(place, pick.record) for place, pick in outcomes if pick.fault is None]
    for place, pick in outcomes:
        if pick.fault is not None:
            blame(place, pick.fault.value)
    kinds = records.label_kinds([record for _, record in whole])
    usual = Counter(kinds).most_common(1)[0][0] if kinds else ""
    kept = [pair for pair, kind in zip(whole, kinds, strict=True) if kind == usual]
    for (place, _), kind in zip(whole, kinds, strict=True):
        if kind != usual:
            blame(place, _ODD_LABEL)
    owners = np.array([place for place, _ in kept], dtype=np.int64)
    return Bought(owners, tuple(record for _, record in kept), faults, lost, shown)
