"""Records in envelopes: short, one way to write each, and nothing else is read."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_samples import SCHEMA, typed
from test_declared_records import SCHEMA_OF_EVERY_KIND

from chance import examples, public_coins
from likeset.errors import InvalidArgument
from likeset.tables.records import DeclaredRecords, EnvelopeRecords, most_envelope_bytes
from likeset.tables.schema import Schema

FEATURES = """
likeset: schema
version: 1
columns:
  size: {kind: numeric, bounds: [0, 1]}
"""
OPEN_LABEL = Schema.from_text(FEATURES + "label: {column: word, kind: text}\n")
NUMBER_LABEL = Schema.from_text(FEATURES + "label: {column: cost, kind: number, bounds: [0, 9], match: true}\n")
WORD_LABEL = Schema.from_text(FEATURES + "label: {column: stage, values: [low, high, middle]}\n")
NUMBERS = Schema.from_text(
    "likeset: schema\nversion: 1\ncolumns:\n"
    + "".join(f"  c{number}: {{kind: numeric, bounds: [0, 1]}}\n" for number in range(14))
)


def labels_of(schema: Schema, table: pa.Table) -> Any:
    return schema.map(table, table="rows", locate=str).labels


def handles_for(count: int) -> Any:
    return public_coins("handles").integers(0, 2**64, count, dtype=np.uint64)


COMPACT, TABLE = EnvelopeRecords(SCHEMA), typed(60)
LABELS, HANDLES = labels_of(SCHEMA, TABLE), handles_for(60)
RECORDS = COMPACT.encode(TABLE, LABELS, HANDLES)


def test_records_come_back_as_they_were() -> None:
    read = COMPACT.read(RECORDS)
    assert read.sound.all()
    assert read.table.equals(DeclaredRecords(SCHEMA).of(TABLE))
    assert read.rows.tobytes() == SCHEMA.map(TABLE, table="rows", locate=str).rows.tobytes()
    assert read.labels.tolist() == LABELS.tolist()
    assert read.handles.tolist() == HANDLES.tolist()


def test_a_message_has_the_cells_of_all_records_and_then_their_letters() -> None:
    declared = DeclaredRecords(SCHEMA)
    records = EnvelopeRecords(SCHEMA, labelled=False).encode(TABLE, np.empty(0), HANDLES)
    end = 9 + declared.cell_bytes
    cells, letters = (record[9:end] for record in records), (record[end:] for record in records)
    assert declared.pack(TABLE) == b"".join([*cells, *letters])


@pytest.mark.parametrize("schema", [SCHEMA, SCHEMA_OF_EVERY_KIND, OPEN_LABEL, NUMBER_LABEL, WORD_LABEL, NUMBERS])
def test_a_record_is_hardly_longer_than_what_is_declared(schema: Schema) -> None:
    """At most 1.25 times the declared record plus 64 bytes, whatever stands in it."""
    declared = DeclaredRecords(schema).record_bytes
    assert EnvelopeRecords(schema).most_bytes <= most_envelope_bytes(declared) <= 1.25 * declared + 64


@pytest.mark.parametrize(
    ("schema", "name", "cells"),
    [
        (OPEN_LABEL, "word", ["müde", "wach", "x" * 1000]),
        (NUMBER_LABEL, "cost", [0.5, 0.0, 9.0]),
        (WORD_LABEL, "stage", ["middle", "low", "high"]),
    ],
)
def test_labels_of_every_kind_come_back(schema: Schema, name: str, cells: list[Any]) -> None:
    table = pa.table({"size": pa.array([0.1, 0.2, 0.3]), name: pa.array(cells)})
    labels, compact = labels_of(schema, table), EnvelopeRecords(schema)
    read = compact.read(compact.encode(table, labels, handles_for(3)))
    assert read.sound.all()
    assert read.labels.tolist() == cells


@pytest.mark.slow
def test_every_changed_bit_is_refused_or_another_record() -> None:
    """There is one way to write a record: whatever is read, is written again as the same bytes."""
    record = RECORDS[0]
    changed = [
        record[:at] + bytes([record[at] ^ 1 << bit]) + record[at + 1 :] for at in range(len(record)) for bit in range(8)
    ]
    read = COMPACT.read(changed)
    kept = [data for data, sound in zip(changed, read.sound, strict=True) if sound]
    assert COMPACT.encode(read.table, read.labels, read.handles[read.sound]) == kept
    assert not read.sound[:8].any()  # the version
    assert read.sound[8:72].all()  # the handle is the owner's own
    assert read.sound[72:].mean() < 0.9


def test_whatever_is_no_record_is_refused_alone() -> None:
    start, label = _start("note"), COMPACT._line.itemsize - 2
    place = next(at for at, record in enumerate(RECORDS) if record[start + 3] >= 4)
    note = RECORDS[place]
    bad = {
        "empty": b"",
        "cut": RECORDS[1][:-1],
        "a byte more": RECORDS[1] + b"\0",
        "another version": b"\2" + RECORDS[1][1:],
        "no text": note[:-1] + b"\xff",
        "a length beyond all": note[:start] + b"\xff" * 4 + note[start + 4 :],
        "an unknown class": note[:label] + b"\0\2" + note[label + 2 :],
        "beyond the bounds": _with_number(RECORDS[1], "age", 101.0),
        "no number": _with_number(RECORDS[1], "age", float("nan")),
    }
    read = COMPACT.read([RECORDS[0], *bad.values(), RECORDS[2]])
    assert read.sound.tolist() == [True, *(False for _ in bad), True]
    assert read.table.num_rows == 2
    assert not read.rows[1:-1].any()


def test_nothing_hides_under_a_missing_cell() -> None:
    place = next(at for at, cell in enumerate(TABLE["dose"].to_pylist()) if cell is None)
    assert COMPACT.read([RECORDS[place]]).sound.all()
    assert not COMPACT.read([_with_number(RECORDS[place], "dose", 7.0)]).sound.any()


def test_a_label_that_is_not_the_one_in_the_record_is_refused() -> None:
    compact = EnvelopeRecords(NUMBER_LABEL)
    table = pa.table({"size": pa.array([0.1]), "cost": pa.array([2.0])})
    (record,) = compact.encode(table, np.array([3.0]), handles_for(1))
    assert not compact.read([record]).sound.any()


def test_a_cell_longer_than_declared_is_not_written() -> None:
    long = pa.array(["x" * 4097, *["y"] * 59])
    with pytest.raises(InvalidArgument, match=r"^table"):
        COMPACT.encode(TABLE.set_column(TABLE.column_names.index("note"), "note", long), LABELS, HANDLES)


def test_no_records_at_all() -> None:
    assert COMPACT.encode(TABLE.slice(0, 0), np.empty(0), handles_for(0)) == []
    assert COMPACT.read([]).table.num_rows == 0


def _start(column: str) -> int:
    """The place of a cell: after version and handle."""
    declared = COMPACT._declared
    fields = declared.line.fields
    assert fields is not None
    return 9 + int(fields[declared._places[column]][1])


def _with_number(record: bytes, column: str, number: float) -> bytes:
    start = _start(column)
    return record[:start] + np.array(number, dtype=">f8").tobytes() + record[start + 8 :]


@pytest.mark.slow
@given(st.integers(0, 59), st.lists(st.tuples(st.integers(9, 400), st.integers(0, 255)), min_size=1, max_size=12))
@settings(max_examples=examples(60))
def test_no_bytes_of_a_stranger_raise(place: int, changes: list[tuple[int, int]]) -> None:
    """Whatever a stranger wrote is a record, in the one way to write it, or none; its neighbours do not suffer."""
    forged = bytearray(RECORDS[place])
    for at, value in changes:
        forged[at % len(forged)] = value
    read = COMPACT.read([RECORDS[0], bytes(forged), RECORDS[1]])
    assert read.sound[[0, 2]].all()
    if read.sound[1]:
        assert COMPACT.encode(read.table, read.labels, read.handles)[1] == forged
