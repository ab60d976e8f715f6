"""The declared maps backwards: whatever can be told from a row as numbers is what the record said."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from schema_samples import SCHEMA, typed

from chance import public_coins
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.records_behind_rows import records_behind, unreadable_columns
from likeset.tables.schema.schema import Schema

DECLARED = DeclaredRecords(SCHEMA)


def _rows(table: pa.Table) -> Any:
    """As they come out of hashes: off by a little."""
    rows = DECLARED.rows_of(DECLARED.of(table))[0].astype(np.float64)
    return rows + public_coins(0).uniform(-5e-7, 5e-7, size=rows.shape)


def test_records_come_back_cell_by_cell() -> None:
    """What is missing comes back as null, or as what the schema fills in; unknown words and texts are gone."""
    table = DECLARED.of(typed(300))
    found, sound = records_behind(SCHEMA, _rows(typed(300)))
    assert sound.all()
    assert found.schema == DECLARED.form.schema
    said, back = table.to_pydict(), found.to_pydict()
    for name in ("code", "stage", "seen"):
        assert back[name] == said[name]
    assert back["age"] == pytest.approx(said["age"], abs=1e-3)
    doses = [None if dose == 0 else dose for dose in said["dose"]]
    assert [one is None for one in back["dose"]] == [one is None for one in doses]
    pairs = [(one, other) for one, other in zip(back["dose"], doses, strict=True) if other is not None]
    assert all(one == pytest.approx(other, rel=1e-4) for one, other in pairs)
    assert back["smoker"] == [one or False for one in said["smoker"]]
    assert back["site"] == [None if one == "west" else one for one in said["site"]]
    assert back["note"] == [None] * 300
    for name, error in (("embedding", 1e-5), ("picture", 1e-3)):
        assert np.abs(np.array(back[name]) - np.array(said[name])).max() < error
    assert unreadable_columns(SCHEMA) == ("site", "note")


def test_what_is_certain_of_a_number_is_kept_and_the_rest_rounded_away() -> None:
    schema = Schema.from_text("{likeset: schema, version: 1, columns: {age: {kind: numeric, bounds: [0, 120]}}}")
    found, _ = records_behind(schema, np.array([[63.0 / 120.0 + 3e-7], [1.0 + 4e-7], [-4e-7]]))
    assert found.to_pydict() == {"age": [63.0, 120.0, 0.0]}


def test_numbers_that_are_no_record_are_told_from_those_that_are() -> None:
    """Of an owner or a curator who made something up."""
    text = """
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 100]}
  sex: {kind: category, values: [f, m], weight: 2}
  stage: {kind: ordinal, values: [I, II, III]}
  ill: {kind: boolean}
  seen: {kind: date, bounds: [2000-01-01, 2000-01-11]}
"""
    high = 2 * np.sqrt(0.5)
    good = [0.5, high, 0.0, 0.5, 1.0, 0.3]
    wrong = {0: 1.1, 1: 0.5 * high, 2: high, 3: 0.3, 4: 0.5, 5: 0.25}
    rows = np.array([good, *([*good[:place], value, *good[place + 1 :]] for place, value in wrong.items())])
    found, sound = records_behind(Schema.from_text(text), rows)
    assert sound.tolist() == [True, *[False] * 6]
    first = {name: values[0] for name, values in found.to_pydict().items()}
    assert first == {"age": 50.0, "sex": "f", "stage": "II", "ill": True, "seen": datetime.date(2000, 1, 4)}


def test_an_unknown_value_that_counts_nothing_is_null_and_sound() -> None:
    text = "{likeset: schema, version: 1, columns: {sex: {kind: category, values: [f, m], unknown: nothing}}}"
    found, sound = records_behind(Schema.from_text(text), np.array([[0.0, 0.0], [0.0, np.sqrt(0.5)]]))
    assert (found.to_pydict(), sound.tolist()) == ({"sex": [None, "m"]}, [True, True])
