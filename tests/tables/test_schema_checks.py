"""Counting what does not fit, and drafting a schema from files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from schema_samples import SCHEMA, as_text, typed

from likeset.errors import BadTable
from likeset.tables.columns import Trouble
from likeset.tables.profile import MARK, Inspection, draft
from likeset.tables.schema import Schema
from likeset.tables.sources import open_source

TEXT = """
likeset: schema
version: 1
columns:
  a: {kind: numeric, bounds: [0, 9], missing: indicator}
  b: {kind: category, values: [x, y], unknown: other}
label: {column: y, kind: category, values: [0, 1]}
id: {column: who, rows_per_id: 2}
"""
TABLE = pa.table(
    {
        "a": ["1", "", "10", "x", "-1", "12", "99"],
        "b": ["x", "y", "z", "x", "", "x", "x"],
        "y": [0, 1, 1, 2, 0, 0, 0],
        "who": ["p", "p", "p", "q", "r", "s", None],
    }
)


def test_every_trouble_is_counted_with_its_first_places_over_blocks() -> None:
    """Column a: one missing (allowed), 10, -1, 12 and 99 outside, x no number; b: z unknown (allowed), one missing."""
    inspection = Inspection(Schema.from_text(TEXT))
    for first in range(0, 7, 2):
        inspection.add(TABLE.slice(first, 2), table="t", locate=lambda offset, first=first: f"row {first + offset}")  # type: ignore[misc]
    assert inspection.rows == 7
    a, b, y = inspection.columns
    assert a.counts == {Trouble.MISSING: 1, Trouble.OUTSIDE: 4, Trouble.UNKNOWN: 0, Trouble.WRONG: 1}
    assert a.first[Trouble.OUTSIDE] == ["row 2", "row 4", "row 5"]
    assert a.first[Trouble.WRONG] == ["row 3"]
    assert set(a.complaints) == {Trouble.OUTSIDE, Trouble.WRONG}
    assert b.counts[Trouble.UNKNOWN] == 1
    assert set(b.complaints) == {Trouble.MISSING}
    assert (y.kind, y.counts[Trouble.UNKNOWN], y.first[Trouble.UNKNOWN]) == ("label", 1, ["row 3"])
    assert not inspection.ok
    ids = inspection.id_summary()
    assert ids is not None
    assert (ids.ids, ids.most_rows, ids.over, ids.missing) == (4, 3, 1, 1)


def test_rows_that_fit_are_ok() -> None:
    for table in (typed(), as_text(typed())):
        inspection = Inspection(SCHEMA)
        inspection.add(table, table="t", locate=str)
        assert inspection.ok
        assert inspection.columns[1].counts[Trouble.MISSING] > 0
    bad = typed().set_column(1, "age", pa.array(np.full(200, 5.0)))
    inspection = Inspection(SCHEMA)
    inspection.add(bad, table="t", locate=str)
    assert not inspection.ok


def test_a_draft_fits_the_files_it_came_from_and_marks_what_came_from_data(tmp_path: Path) -> None:
    table = typed(400).drop_columns(["embedding"])
    pq.write_table(table, tmp_path / "rows.parquet")
    source = open_source(str(tmp_path / "rows.parquet"))
    text = draft([source], label="ill", ids="patient").text
    schema = Schema.from_text(text)
    kinds = {one.name: one.kind for one in schema.describe()}
    assert kinds == {
        "other": "numeric",
        "age": "numeric",
        "dose": "numeric",
        "smoker": "boolean",
        "site": "category",
        "code": "numeric",
        "stage": "category",
        "seen": "date",
        "note": "category",
        "picture": "vector",
    }
    assert set(schema.from_data) == {*kinds, "ill", "patient"} - {"smoker"}
    assert text.count(f"# {MARK}\n") == len(schema.from_data)
    assert schema.id_column == "patient"
    inspection = Inspection(schema)
    inspection.add(table, table="t", locate=str)
    assert inspection.ok, "rows_per_id is what the file shows"


def test_a_draft_from_text_finds_the_same_kinds(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "n,codes,truth,day,words,free\n"
        + "".join(
            f"{n * 1.5},{n % 3},{'yes' if n % 2 else 'no'},2020-01-{n % 28 + 1:02d},{'ab'[n % 2]},text {n} here\n"
            for n in range(100)
        ),
        encoding="utf-8",
    )
    schema = Schema.from_text(draft([open_source(str(path)), open_source(str(path))], include=["free"]).text)
    kinds = {one.name: one.kind for one in schema.describe()}
    assert kinds == {
        "n": "numeric",
        "codes": "category",
        "truth": "boolean",
        "day": "date",
        "words": "category",
        "free": "text",
    }
    assert schema.from_data == ("n", "codes", "day", "words")
    bounds = {name: getattr(column, "bounds", None) for name, column in schema.declaration.columns.items()}
    assert bounds["n"] == (0.0, 200.0), "148.5 rounded outward"
    assert bounds["day"] == ("2020-01-01", "2021-01-01")


def test_a_draft_says_what_it_cannot_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("z\n1\n", encoding="utf-8")
    a, b = (open_source(str(tmp_path / name)) for name in ("a.csv", "b.csv"))
    with pytest.raises(BadTable, match="there is no column that all files have"):
        draft([a, b])
    with pytest.raises(BadTable, match="column 'Y': is missing; did you mean y"):
        draft([a], label="Y")


def test_rows_that_take_part_are_counted_where_a_few_of_each_id_are_kept() -> None:
    """Three rows of p, one each of q, r and s: with two of each kept, five."""
    for words, taking in (("rows_per_id: 2", None), ("keep: 2", 5)):
        inspection = Inspection(Schema.from_text(TEXT.replace("rows_per_id: 2", words)))
        inspection.add(TABLE, table="t", locate=str)
        assert inspection.taking_part() == taking


def test_an_error_names_the_first_place_and_every_column_with_errors() -> None:
    text = "likeset: schema\nversion: 1\ncolumns:\n" + "".join(
        f"  c{n}: {{kind: numeric, bounds: [0, 9]}}\n" for n in range(13)
    )
    table = pa.table({f"c{n}": [1, 11 if n else 1, 11] for n in range(13)})
    with pytest.raises(BadTable) as caught:
        Schema.from_text(text).map(table, table="t", locate=lambda row: f"row {row}")
    assert (caught.value.place, caught.value.column) == ("row 1", "c1")
    assert "'c0', 'c2'" in str(caught.value)
    assert "and 2 more" in str(caught.value)


def test_a_draft_from_frames_is_a_schema_with_the_text_to_edit() -> None:
    frame = pa.table({"age": [31, 42.5, 78], "sex": ["f", "m", "f"], "patient_id": [1, 2, 3]})
    drafted = Schema.draft(frame, label="sex")
    assert (drafted.columns, drafted.label_column, drafted.from_data) == (("age",), "sex", ("age", "sex"))
    assert Schema.from_text(drafted.text) == drafted
    assert MARK in drafted.text
    assert "patient_id" in drafted.text, "left out, and said so"
    assert Schema.from_text(Schema(drafted.declaration).text) == drafted
