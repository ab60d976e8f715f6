"""The vectors of offers: what an owner and compute parties write about a handful of slots.

Everything that is drawn comes from a fixed stream here, so that it follows from its label; no secret.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from trust_world import fixed_bytes, party

from likeset.tables.records import EnvelopeRecords
from likeset.tables.schema import Schema
from likeset.trust.cards import CardSecret
from likeset.trust.shares import (
    COMPUTE_ROLES,
    ComputeRole,
    OfferContext,
    OfferPart,
    OfferShape,
    Roster,
    common_lists,
    fixed_point,
    joined_shares,
    share_offer,
    words_in,
)

SCHEMA_TEXT = """likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 128], missing: indicator}
  smoker: {kind: boolean}
  seen: {kind: date, bounds: [2000-01-01, 2020-01-01]}
  note: {kind: text, width: 2}
  scan: {kind: vector, width: 2, bounds: [0, 1]}
label: {column: ill, values: [no, yes]}
"""
SCHEMA = Schema.from_text(SCHEMA_TEXT)
COMPACT = EnvelopeRecords(SCHEMA)
HANDLES = np.array([2**63 + 5, 77], dtype=np.uint64)
SHAPE = OfferShape(SCHEMA.width, slots=3, record_bytes=128)
Parts = Mapping[ComputeRole, OfferPart]
_TRUTH = 1 + 8 + 1 + 8  # where the second column lies in a record: after version, handle, marks and the first one


class Stream:
    """Bytes that follow from a label, one piece after another."""

    def __init__(self, label: str) -> None:
        self._label, self._pieces = label, 0

    def __call__(self, count: int) -> bytes:
        self._pieces += 1
        return fixed_bytes(f"{self._label} {self._pieces}", count)


def table() -> Any:
    """Two rows; the age of the second is missing."""
    return pa.table(
        {
            "age": pa.array([64.0, None]),
            "smoker": pa.array([True, False]),
            "seen": pa.array([datetime.date(2010, 1, 1), datetime.date(2019, 12, 31)]),
            "note": pa.array(["müde", "wach"]),
            "scan": pa.array([[0.25, 1.0], [0.0, 0.5]]),
        }
    )


def records() -> list[bytes]:
    return COMPACT.encode(table(), np.array(["yes", "no"]), HANDLES)


def vector_offer(secrets: dict[str, CardSecret], terms: bytes) -> Parts:
    """The owner's offer to three compute parties."""
    fingerprints = (secrets[role].card.fingerprint for role in ("curator", "consumer", "witness"))
    context = OfferContext(terms, secrets["owner"].card.fingerprint, tuple(fingerprints))
    read = COMPACT.read(records())
    assert read.sound.all()
    content: dict[str, Any] = {"rows": read.rows, "records": records()}
    with mock.patch("os.urandom", Stream("drawn for the offer")):
        return share_offer(secrets["owner"], context=context, shape=SHAPE, **content)


def offer_vectors(secrets: dict[str, CardSecret], terms: bytes) -> dict[str, Any]:
    everybody = {**secrets, "witness": party("university")}
    shared = vector_offer(everybody, terms)
    context = shared["curator"].offer_list.offer
    held = [{context.owner: part.offer_list.digest} for part in shared.values()]
    lists, parties = common_lists(held), context.parties
    rosters = [Roster(terms, parties, lists, role).signed_by(everybody[role]) for role in COMPUTE_ROLES]
    return {
        "witness_card": everybody["witness"].card.to_bytes().hex(),
        "schema": SCHEMA_TEXT,
        "records": [record.hex() for record in records()],
        "columns": SHAPE.columns,
        "record_bytes": SHAPE.record_bytes,
        "first_slot": _first_slot(shared),
        "rows": np.asarray(COMPACT.read(records()).rows, dtype=">f4").tobytes().hex(),
        "parts": {role: part.to_bytes().hex() for role, part in shared.items()},
        "rosters": {roster.role: roster.to_bytes().hex() for roster in rosters},
        "damaged": damaged_offers(shared),
    }


def _first_slot(shared: Parts) -> int:
    words = joined_shares([words_in(part.share, width=SHAPE.width) for part in shared.values()])
    row = fixed_point(COMPACT.read(records()).rows[:1])[0].tolist()
    return int(words[:, : SHAPE.columns + 1].tolist().index([*row, 1]))


def damaged_offers(shared: Parts) -> dict[str, dict[str, str]]:
    """What every reader must refuse: parts by the curator, records by the consumer."""
    part: Any = shared["curator"]
    size = SHAPE.envelope_bytes
    swapped = part.envelopes[size : 2 * size] + part.envelopes[:size] + part.envelopes[2 * size :]
    role: ComputeRole = "witness"
    unsigned = dataclasses.replace(part.offer_list, signature=bytes(64))
    first = records()[0]
    cases: dict[str, dict[str, bytes]] = {
        "part": {
            "swapped envelopes": dataclasses.replace(part, envelopes=swapped).to_bytes(),
            "another salt": dataclasses.replace(part, salts=bytes(len(part.salts))).to_bytes(),
            "another share": dataclasses.replace(part, share=shared[role].share).to_bytes(),
            "a list that nobody signed": dataclasses.replace(part, offer_list=unsigned).to_bytes(),
        },
        "record": {
            "a byte more": first + b"\0",
            "another version": b"\2" + first[1:],
            "a truth of 2": first[:_TRUTH] + b"\2" + first[_TRUTH + 1 :],
        },
    }
    return {kind: {label: data.hex() for label, data in each.items()} for kind, each in cases.items()}
