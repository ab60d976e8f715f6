"""One reading of all rows tells what several readings told: a twin of each, whatever kind of file it is."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from scan_world import assert_same

from chance import pinned_coins
from likeset.errors import BadTable
from likeset.geometry.offers import Drawing
from likeset.homes.data import SmallGroups
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import MemoryScan, OfferedScan, Passed, SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources import Source, open_source

SCHEMA = Schema.from_text("""
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 100]}
  ward: {kind: category, values: [north, south, west]}
  note: {kind: text, width: 4}
label: {column: outcome, kind: category, values: [ill, well]}
id: {column: patient, rows_per_id: 3}
text_bytes: 8
""")
ROWS = 3_000
SAMPLE = Drawing(50, 11)


def table() -> pa.Table:
    """Three rows of one patient, two of each other; every 70th note is too long; west has four rows."""
    coins = pinned_coins(4)
    wards = np.array(["north", "south"])[coins.integers(0, 2, ROWS)].astype("<U5")
    wards[[5, 700, 701, 2_999]] = "west"
    patients = [f"p{row // 2}" for row in range(ROWS)]
    patients[17] = "p3"
    return pa.table(
        {
            "patient": patients,
            "age": coins.integers(0, 100, ROWS),
            "ward": wards,
            "note": ["longer than it may be" if row % 70 == 0 else f"n{row}" for row in range(ROWS)],
            "outcome": np.array(["ill", "well"])[coins.integers(0, 2, ROWS)],
        }
    )


def write(folder: Path, rows: pa.Table, kind: str) -> Path:
    path = folder / f"rows.{kind}"
    if kind == "csv":
        pa_csv.write_csv(rows, path)
    elif kind == "parquet":
        pq.write_table(rows, path, row_group_size=400)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=400)
    return path


@pytest.fixture(params=["csv", "parquet", "arrow"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("likeset.tables.sources._PIECE_BYTES", 7_000)
    return str(request.param)


def scan_of(source: Source, **options: Any) -> SourceScan:
    return SourceScan(source, SCHEMA, block_rows=256, **options)


def test_it_tells_what_there_is(kind: str, tmp_path: Path) -> None:
    groups = SmallGroups(SCHEMA, smallest=5, labelled=True)
    with open_source(write(tmp_path, table(), kind)) as source:
        seen = scan_of(source).first_pass(groups)
        assert (seen.row_count, seen.most_rows, seen.fault, seen.sample) == (ROWS, 3, None, None)
        assert seen.row_count == source.row_count
    assert seen.too_long.tolist() == list(range(0, ROWS, 70))
    assert groups.rows().tolist() == [5, 700, 701, 2_999]


@pytest.mark.slow
@pytest.mark.parametrize("without", [False, True], ids=["all rows", "without long ones"])
def test_the_sample_is_the_draw_from_the_same_rows(kind: str, without: bool, tmp_path: Path) -> None:
    """Of the very rows that have a number: those that are left out have none, as in a table without them."""
    rows = table()
    stay = [row for row in range(ROWS) if row % 70 or not without]
    twin = rows.take(pa.array(stay))
    mapped = SCHEMA.map(twin, table="twin", locate=str)
    (expected,) = MemoryScan(mapped.rows, mapped.labels, DeclaredRecords(SCHEMA).of(twin)).draw(SAMPLE)
    with open_source(write(tmp_path, rows, kind)) as source:
        every = scan_of(source)
        seen = every.first_pass(sample=SAMPLE, without_too_long=without)
        assert seen.sample is not None
        assert_same([seen.sample[1]], [expected])
        kept = OfferedScan(every, excluded=seen.too_long) if without else every
        assert_same(kept.draw(SAMPLE), [expected])


@pytest.mark.parametrize(
    ("row", "column", "value", "words"),
    [(2_000, "ward", "east", "ward"), (999, "outcome", "odd", "outcome"), (0, "age", 400, "age")],
)
def test_a_row_that_cannot_be_used_is_told_as_a_pass_tells_it(
    row: int, column: str, value: Any, words: str, kind: str, tmp_path: Path
) -> None:
    """The same words, place and column; and what else there is to know is known."""
    rows = table()
    cells = pa.array([value if number == row else cell for number, cell in enumerate(rows[column].to_pylist())])
    rows = rows.set_column(rows.column_names.index(column), column, cells)
    with open_source(write(tmp_path, rows, kind)) as source:
        scan = scan_of(source)
        seen = scan.first_pass(sample=SAMPLE)
        with pytest.raises(BadTable) as refused:
            for _ in scan.blocks():
                pass
    assert seen.fault is not None
    assert str(seen.fault) == str(refused.value)
    assert words in str(seen.fault)
    assert (seen.row_count, seen.most_rows, len(seen.too_long), seen.sample) == (ROWS, 3, ROWS // 70 + 1, None)


def test_what_is_at_hand_is_not_read_again(kind: str, tmp_path: Path) -> None:
    """The file is gone: the sample and the rows of the last draw are still there, and no others."""
    path = write(tmp_path, table(), kind)
    with open_source(path) as source:
        every = scan_of(source)
        scan = OfferedScan(every, sample=every.first_pass(sample=SAMPLE).sample)
        (drawn,) = scan.draw(Drawing(40, 12))
        numbers = drawn.row_numbers[[7, 3, 7, 0]]
        expected = every.fetch(numbers)
        path.unlink()
        fetched = scan.fetch(numbers)
        assert len(scan.draw(SAMPLE)[0].row_numbers) == SAMPLE.count
        other = np.setdiff1d(np.arange(ROWS), drawn.row_numbers)[:1]
        with pytest.raises(BadTable):
            scan.fetch(np.concatenate([numbers, other]))
        with pytest.raises(BadTable):
            scan.draw(Drawing(SAMPLE.count, SAMPLE.key + 1))
    assert np.array_equal(fetched.rows, expected.rows)
    assert fetched.labels.tolist() == expected.labels.tolist()
    assert fetched.table is not None
    assert fetched.table.equals(expected.table)


def test_progress_is_told_block_by_block(kind: str, tmp_path: Path) -> None:
    told: list[Passed] = []
    with open_source(write(tmp_path, table(), kind)) as source:
        scan = scan_of(source, progress=told.append)
        scan.first_pass()
        assert told[-1].rows == ROWS
        assert told[-1].total == (None if kind == "csv" else ROWS)
        scan.draw(SAMPLE)
    assert told[-1].total == ROWS


def test_two_readings_beside_each_other_do_not_mix_their_notes(kind: str, tmp_path: Path) -> None:
    with open_source(write(tmp_path, table(), kind)) as source:
        pairs = zip(source.blocks(["age"], rows=300), source.blocks(["ward"], rows=300), strict=True)
        ages = [(one.first_row, other.first_row, one.locate(0) == other.locate(0)) for one, other in pairs]
        assert ages == [(first, first, True) for first in range(0, ROWS, 300)]
        assert source.row_count == ROWS
        digest = source.fingerprint()
    with open_source(tmp_path / f"rows.{kind}") as source:
        assert source.fingerprint() == digest
