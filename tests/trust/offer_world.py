"""An owner with a few rows, three compute parties, and a reader of records that knows no schema."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from trust_world import TERMS, party

from likeset.trust.cards import CardSecret
from likeset.trust.shares import (
    ComputeRole,
    Lists,
    OfferContext,
    OfferShape,
    PickedSlot,
    SharedOffer,
    SlotLayout,
    Words,
    check_part,
    checksums,
    joined_shares,
    share_offer,
    word_bytes,
)

OWNER, OTHER_OWNER = party("owner"), party("another-owner")
PARTIES: dict[ComputeRole, CardSecret] = {
    "curator": party("curator"),
    "consumer": party("consumer"),
    "witness": party("witness"),
}
CARDS = {role: secret.card for role, secret in PARTIES.items()}
LAYOUT = SlotLayout(columns=3, classes=2)
SHAPE = OfferShape(LAYOUT, slots=6, record_bytes=40)
ROWS = np.array([[0.25, -1.0, 0.5], [0.0, 1.0, 0.125], [1.0, 0.75, -0.5], [-0.25, 0.5, 0.0]], dtype=np.float32)
CLASSES = np.array([0, 1, 1, 0])
HANDLES = np.array([11, 12, 13, 14], dtype=np.uint64)
COEFFICIENTS: Words = np.arange(3, 3 + 2 * (LAYOUT.width - 4), 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def context_of(secret: CardSecret = OWNER) -> OfferContext:
    fingerprints = [secret.card.fingerprint for secret in PARTIES.values()]
    return OfferContext(TERMS, secret.card.fingerprint, tuple(fingerprints))


def record(handle: int, label: int, row: NDArray[Any]) -> bytes:
    """Handle, class and row, as ``PlainReader`` reads them."""
    return bytes([handle, label]) + np.asarray(row, dtype="<f4").tobytes()


RECORDS = [record(int(handle), int(label), row) for handle, label, row in zip(HANDLES, CLASSES, ROWS, strict=True)]


@dataclasses.dataclass(frozen=True, eq=False)
class PlainRecords:
    """What they say."""

    sound: NDArray[np.bool_]
    rows: NDArray[np.float32]
    classes: NDArray[np.int64]
    handles: NDArray[np.uint64]


class PlainReader:
    """Reads records of this world."""

    def read(self, records: Sequence[bytes]) -> PlainRecords:
        sound = np.array([len(data) == 14 and data[1] < 2 for data in records], dtype=np.bool_)
        whole = [data if good else bytes(14) for data, good in zip(records, sound, strict=True)]
        rows = np.array([np.frombuffer(data[2:], dtype="<f4") for data in whole], dtype=np.float32).reshape(-1, 3)
        classes = np.array([data[1] for data in whole], dtype=np.int64)
        return PlainRecords(sound, rows, classes, np.array([data[0] for data in whole], dtype=np.uint64))


READER = PlainReader()


def offer(secret: CardSecret = OWNER, **changes: Any) -> SharedOffer:
    content: dict[str, Any] = {"rows": ROWS, "classes": CLASSES, "records": RECORDS, "shape": SHAPE}
    return share_offer(secret, context=context_of(secret), **(content | changes))


def held_of(shared: SharedOffer, owner: CardSecret = OWNER) -> list[Lists]:
    """What each compute party says that it has, once it checked its part."""
    for part in shared.parts.values():
        check_part(part, context=part.offer_list.offer, role=part.role, owner=owner.card, shape=SHAPE)
    return [{owner.card.fingerprint: part.offer_list.digest} for part in shared.parts.values()]


def words_of(shared: SharedOffer) -> Words:
    return joined_shares([part.words(LAYOUT) for part in shared.parts.values()])


def pick(shared: SharedOffer, slot: int) -> PickedSlot:
    """What an honest computation opens."""
    words = words_of(shared)[slot : slot + 1]
    (checksum,) = checksums(LAYOUT, words, COEFFICIENTS).tolist()
    return PickedSlot(slot, word_bytes(words[:, LAYOUT.random]), checksum)


def envelopes_of(shared: SharedOffer) -> dict[int, bytes]:
    return {slot: shared.parts["curator"].envelope_of(slot) for slot in range(SHAPE.slots)}
