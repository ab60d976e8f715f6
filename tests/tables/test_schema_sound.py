"""The short check of a block: whoever passes it, the map has nothing to complain about; and it passes ordinary rows."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chance import examples
from likeset.errors import BadTable
from likeset.tables.schema import Schema

_SCHEMA = Schema.from_text("""
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 100], missing_values: [99]}
  dose: {kind: numeric, bounds: [-1, 1], outside: clip, missing: indicator}
  smoker: {kind: boolean}
  ward: {kind: category, values: [north, south]}
  grade: {kind: ordinal, values: [1, 2, 5]}
label: {column: outcome, kind: category, values: [0, 1]}
""")
_GOOD: dict[str, Any] = {
    "age": pa.array([0, 50, 98], pa.int16()),
    "dose": pa.array([-1.0, -0.0, 1.0], pa.float32()),
    "smoker": pa.array([True, False, True]),
    "ward": pa.array(["north", "south", "north"]).dictionary_encode(),
    "grade": pa.array([1, 5, 2], pa.int8()),
    "outcome": pa.array([0, 1, 1], pa.int8()),
}


def _plain(table: pa.Table) -> pa.Table:
    """The same cells as text, which nothing is short for."""
    return pa.table(
        {name: [str(cell).lower() for cell in table.column(name).to_pylist()] for name in table.schema.names}
    )


def test_ordinary_rows_are_sound_and_the_short_way_gives_the_bits_of_the_long_one() -> None:
    table = pa.table(_GOOD)
    assert _SCHEMA.sound(table, table="rows")
    short = _SCHEMA.map(table, table="rows", locate=str)
    long = _SCHEMA.map(_plain(table), table="rows", locate=str)
    columns = _SCHEMA.map(table, table="rows", locate=str, by_columns=True)
    assert short.rows.tobytes() == long.rows.tobytes() == columns.rows.tobytes()
    assert short.labels.tolist() == long.labels.tolist()
    assert columns.rows.flags.f_contiguous


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        ("age", pa.array([0, 101, 5], pa.int16())),
        ("age", pa.array([0, 99, 5], pa.int16())),
        ("age", pa.array([0, None, 5], pa.int16())),
        ("age", pa.array([0.0, float("nan"), 5.0])),
        ("age", pa.array([0.0, float("inf"), 5.0])),
        ("ward", pa.array(["north", "east", "north"]).dictionary_encode()),
        ("ward", pa.array(["north", None, "north"]).dictionary_encode()),
        ("smoker", pa.array([True, None, True])),
        ("grade", pa.array([1, 3, 2], pa.int8())),
        ("grade", pa.array([1, 6, 2], pa.int8())),
        ("grade", pa.array([1, 0, 2], pa.int8())),
        ("outcome", pa.array([0, 2, 1], pa.int8())),
        ("outcome", pa.array([0, None, 1], pa.int8())),
    ],
)
def test_rows_that_the_map_refuses_are_not_sound(column: str, cells: Any) -> None:
    table = pa.table({**_GOOD, column: cells})
    assert not _SCHEMA.sound(table, table="rows")
    with pytest.raises(BadTable) as caught:
        _SCHEMA.map(table, table="rows", locate=lambda offset: f"row {offset}")
    assert (caught.value.place, caught.value.column) == ("row 1", column)


@settings(max_examples=examples(150))
@given(
    ages=st.lists(st.none() | st.integers(-3, 103) | st.just(99), min_size=1, max_size=4),
    wards=st.lists(st.sampled_from(["north", "south", "east", " north", "NA", None]), min_size=1, max_size=4),
    grades=st.lists(st.sampled_from([1, 2, 3, 5, -7, None]), min_size=1, max_size=4),
)
def test_what_is_sound_is_mapped_without_complaint(
    ages: list[int | None], wards: list[str | None], grades: list[int | None]
) -> None:
    rows = min(len(ages), len(wards), len(grades))
    table = pa.table(
        {
            "age": pa.array(ages[:rows], pa.int64()),
            "dose": pa.array(np.zeros(rows)),
            "smoker": pa.array([True] * rows),
            "ward": pa.array(wards[:rows], pa.string()).dictionary_encode(),
            "grade": pa.array(grades[:rows], pa.int64()),
            "outcome": pa.array([1] * rows),
        }
    )
    if _SCHEMA.sound(table, table="rows"):
        _SCHEMA.map(table, table="rows", locate=str)


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(BadTable, match="'ward'"):
        _SCHEMA.sound(pa.table(_GOOD).drop_columns(["ward"]), table="rows")
