"""The vectors of offers beside ``docs/wire.md``: two readers agree about them, and about what is damaged."""

import datetime
import json
from typing import Any

import numpy as np
import pytest
import second_reader
from offer_vectors import COMPACT, HANDLES, SHAPE, table
from second_reader import Refused
from wire_vectors import VECTORS

from likeset.errors import BadDocument
from likeset.trust.cards import Card
from likeset.trust.shares import COMPUTE_ROLES, OfferPart, check_part, fixed_point, open_envelope

CONTENT: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))
OFFER = CONTENT["offer"]
CARD_BYTES = {role: bytes.fromhex(CONTENT["parties"][role]["card"]) for role in ("owner", "curator", "consumer")}
CARD_BYTES["witness"] = bytes.fromhex(OFFER["witness_card"])
CARDS: dict[Any, Card] = {role: Card.from_bytes(data) for role, data in CARD_BYTES.items()}
SECONDS = {role: second_reader.read_card(data) for role, data in CARD_BYTES.items()}
KINDS = ["number", "truth", "day", "text", "list 2"]
DAMAGED = [
    pytest.param(kind, bytes.fromhex(data), id=f"{kind}: {label}")
    for kind, cases in OFFER["damaged"].items()
    for label, data in cases.items()
]


def read_part(data: bytes, role: Any) -> OfferPart:
    part = OfferPart.from_bytes(data)
    check_part(part, context=part.offer_list.offer, role=role, owner=CARDS["owner"], shape=SHAPE)
    return part


def read_part_second(data: bytes) -> Any:
    words = OFFER["columns"] + 5
    return second_reader.read_part(data, SECONDS["owner"], words=words, record_bytes=OFFER["record_bytes"])


@pytest.mark.parametrize("role", COMPUTE_ROLES)
def test_both_read_parts_and_rosters(role: Any) -> None:
    data = bytes.fromhex(OFFER["parts"][role])
    part = read_part(data, role)
    named, listed, shares = read_part_second(data)
    assert (named.decode(), listed.digest) == (role, part.offer_list.digest)
    assert b"".join(shares) == part.share
    roster = bytes.fromhex(OFFER["rosters"][role])
    assert second_reader.read_roster(roster, SECONDS[role]) == {SECONDS["owner"].fingerprint: listed.digest}
    with pytest.raises(Refused):
        second_reader.read_roster(roster, SECONDS["owner"])


def test_both_read_the_records() -> None:
    days = [(day - datetime.date(1970, 1, 1)).days for day in table()["seen"].to_pylist()]
    rows = table().drop_columns("seen").append_column("seen", [days]).select(["age", "smoker", "seen", "note", "scan"])
    records = list(map(bytes.fromhex, OFFER["records"]))
    assert COMPACT.read(records).sound.all()
    for record, handle, row, label in zip(records, HANDLES.tolist(), rows.to_pylist(), (1, 0), strict=True):
        assert second_reader.read_record(record, KINDS) == (handle, list(row.values()), label)


def test_both_open_the_envelope_of_the_first_row() -> None:
    """The shares of its slot add up to what the schema makes of the record, 1 for a slot that is filled, and r."""
    slot = OFFER["first_slot"]
    parts = {role: bytes.fromhex(data) for role, data in OFFER["parts"].items()}
    read = [read_part_second(data) for data in parts.values()]
    shares = [second_reader.pieces(shares[slot], 8) for _, _, shares in read]
    words = [sum(int.from_bytes(word, "big") for word in place) % 2**64 for place in zip(*shares, strict=True)]
    rows = np.frombuffer(bytes.fromhex(OFFER["rows"]), dtype=">f4").reshape(2, -1)
    assert words[:-4] == [*fixed_point(rows[:1].astype(np.float32))[0].tolist(), 1]
    random = b"".join(map(second_reader.number, words[-4:]))
    consumer, curator = read_part(parts["consumer"], "consumer"), read_part(parts["curator"], "curator")
    envelope, context = curator.envelope_of(slot), consumer.offer_list.offer
    record = open_envelope(envelope, context=context, slot=slot, key=consumer.key, random=random)
    assert record.hex() == OFFER["records"][0]
    assert second_reader.open_envelope(envelope, read[0][1], slot, key=consumer.key, random=random) == record


@pytest.mark.parametrize(("kind", "data"), DAMAGED)
def test_both_refuse_what_is_damaged(kind: str, data: bytes) -> None:
    if kind == "record":
        assert not COMPACT.read([data]).sound.any()
        with pytest.raises(Refused):
            second_reader.read_record(data, KINDS)
        return
    with pytest.raises(BadDocument):
        read_part(data, "curator")
    with pytest.raises(Refused):
        read_part_second(data)
