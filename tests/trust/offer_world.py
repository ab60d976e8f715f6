"""An owner with a few rows, three compute parties, and a reader of records that knows no schema."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from trust_world import TERMS, party

from likeset.trust.cards import CardSecret
from likeset.trust.shares import (
    ComputeRole,
    Lists,
    OfferContext,
    OfferPart,
    OfferShape,
    PickedSlot,
    Words,
    check_part,
    fixed_point,
    joined_shares,
    share_offer,
    word_bytes,
    words_in,
)

Parts = Mapping[ComputeRole, OfferPart]

OWNER, OTHER_OWNER = party("owner"), party("another-owner")
PARTIES: dict[ComputeRole, CardSecret] = {
    "curator": party("curator"),
    "consumer": party("consumer"),
    "witness": party("witness"),
}
CARDS = {role: secret.card for role, secret in PARTIES.items()}
SHAPE = OfferShape(columns=3, slots=6, record_bytes=40)
ROWS = np.array([[0.25, -1.0, 0.5], [0.0, 1.0, 0.125], [1.0, 0.75, -0.5], [-0.25, 0.5, 0.0]], dtype=np.float32)
HANDLES = np.array([11, 12, 13, 14], dtype=np.uint64)
FACTORS: Words = np.arange(3, 9, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def context_of(secret: CardSecret = OWNER) -> OfferContext:
    fingerprints = [secret.card.fingerprint for secret in PARTIES.values()]
    return OfferContext(TERMS, secret.card.fingerprint, tuple(fingerprints))


def record(handle: int, row: NDArray[Any]) -> bytes:
    """Handle and row, as ``read_plain`` reads them."""
    return bytes([handle]) + np.asarray(row, dtype="<f4").tobytes()


RECORDS = [record(int(handle), row) for handle, row in zip(HANDLES, ROWS, strict=True)]


def read_plain(records: Sequence[bytes]) -> tuple[NDArray[np.bool_], NDArray[np.float32], NDArray[np.uint64]]:
    sound = np.array([len(data) == 13 for data in records], dtype=np.bool_)
    whole = [data if good else bytes(13) for data, good in zip(records, sound, strict=True)]
    rows = np.array([np.frombuffer(data[1:], dtype="<f4") for data in whole], dtype=np.float32).reshape(-1, 3)
    return sound, rows, np.array([data[0] for data in whole], dtype=np.uint64)


def offer(secret: CardSecret = OWNER, **changes: Any) -> Parts:
    content: dict[str, Any] = {"rows": ROWS, "records": RECORDS, "shape": SHAPE}
    return share_offer(secret, context=context_of(secret), **(content | changes))


def held_of(shared: Parts, owner: CardSecret = OWNER) -> list[Lists]:
    """What each compute party says that it has, once it checked its part."""
    for part in shared.values():
        check_part(part, context=part.offer_list.offer, role=part.role, owner=owner.card, shape=SHAPE)
    return [{owner.card.fingerprint: part.offer_list.digest} for part in shared.values()]


def words_of(shared: Parts) -> Words:
    return joined_shares([words_in(part.share, width=SHAPE.width) for part in shared.values()])


def slots_of(shared: Parts, rows: NDArray[Any] = ROWS) -> list[int]:
    words = words_of(shared)[:, : len(rows[0]) + 1].tolist()
    return [words.index([*row, 1]) for row in fixed_point(rows).tolist()]


def pick(shared: Parts, slot: int) -> PickedSlot:
    words = words_of(shared)[slot]
    return PickedSlot(slot, word_bytes(words[-4:]), int(words[:3] @ FACTORS))


def envelopes_of(shared: Parts) -> dict[int, bytes]:
    return {slot: shared["curator"].envelope_of(slot) for slot in range(SHAPE.slots)}
