"""What the report draws is counted on the rows: values that are cut off, missing ones, labels."""

import numpy as np
import pyarrow as pa
import pytest

from likeset.run.result import _edges, _marginals
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema

WORDS = [f"word {place:02d}" for place in range(15)]
SCHEMA = Schema.from_text(f"""
likeset: schema
version: 1
columns:
  word: {{kind: category, values: {WORDS}, missing: indicator}}
  dose: {{kind: numeric, bounds: [60, 800], missing: indicator, missing_values: [0]}}
  day: {{kind: date, bounds: ["1970-01-01", "1990-01-01"], missing: indicator}}
label: {{column: ill, kind: category, values: [0, 1]}}
""")


def marginal(column: str) -> dict[str, object]:
    """Of 20 rows, the first 15 have a word each, the next three have the last word too, and two have none."""
    words = pa.array([*WORDS, WORDS[-1], WORDS[-1], WORDS[-1], None, None])
    doses, days = pa.array([0] * 5 + [200] * 15), pa.array(["1971-03-05"] * 20)
    table = DeclaredRecords(SCHEMA).of(pa.table({"word": words, "dose": doses, "day": days}))
    rows = SCHEMA.map(table, table="rows", locate=str, labels=False).rows
    both = (rows, table)
    (found,) = [one for one in _marginals(SCHEMA, both, both, None) if one["column"] == column]
    return found


def test_the_most_frequent_values_are_kept_and_the_others_are_counted_together() -> None:
    """Of 15 words 6 are kept, the last, which is there most often, among them; nine of 20 rows have another."""
    word = marginal("word")
    assert word["values"] == [*WORDS[:5], WORDS[-1]]
    assert word["target"] == [0.05] * 5 + [0.2]
    assert word["others"] == {"count": 9, "target": 0.45, "summary": 0.45}
    assert word["missing"] == {"target": 0.1, "summary": 0.1}


def test_a_declared_missing_value_is_missing_and_has_no_bar() -> None:
    dose = marginal("dose")
    assert dose["missing"] == {"target": 0.25, "summary": 0.25}
    assert dose["edges"] == [199.5, 200.5]


@pytest.mark.parametrize(
    ("low", "high", "bars", "width"),
    [(1980, 1987, 8, 1.0), (0, 0, 1, 1.0), (0, 11, 12, 1.0), (0, 12, 7, 2.0), (-5, 94, 12, 9.0)],
)
def test_bars_of_whole_numbers_hold_as_many_of_them_each(low: int, high: int, bars: int, width: float) -> None:
    """Years from 1980 to 1987 in twelve bars would leave four empty, though every year is there."""
    edges = _edges(np.arange(low, high + 1.0))
    assert len(edges) == bars + 1
    assert np.diff(edges).tolist() == [width] * bars
    assert edges[0] == low - 0.5
    assert edges[-1] > high
