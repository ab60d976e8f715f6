"""Whatever rows lie in, blocks of any size, parts, and single rows by number give the same rows."""

import csv
import io
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from likeset.errors import BadTable, InvalidArgument
from likeset.tables.blocks import ahead
from likeset.tables.sources import Source, open_source

SLOW_FILES = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


def whole(source: Source, *, rows: int, columns: list[str]) -> pa.Table:
    """All blocks one after the other, after a check that they follow each other."""
    tables, next_row = [pa.schema([source.schema.field(name) for name in columns]).empty_table()], 0
    for block in source.blocks(columns, rows=rows):
        assert block.first_row == next_row
        assert 0 < len(block) <= rows
        assert block.table.schema.names == columns
        next_row += len(block)
        tables.append(block.table)
    assert next_row == source.row_count
    return pa.concat_tables(tables)


def check_laws(source: Source, expected: pa.Table, *, rows: int, numbers: list[int]) -> None:
    """Blocks == the table; parts == blocks, also after a journey; fetch == take."""
    columns = list(expected.schema.names)[::-1]  # another order than the file's
    expected = expected.select(columns)
    assert source.row_count == expected.num_rows
    assert whole(source, rows=rows, columns=columns).to_pydict() == expected.to_pydict()
    parts = pickle.loads(pickle.dumps(source.parts))  # noqa: S301 (our own bytes)
    tables = [block.table for part in parts for block in part.blocks(columns, rows=rows)]
    firsts = np.cumsum([0, *(part.row_count for part in parts)])
    assert [part.first_row for part in parts] == firsts[:-1].tolist()
    assert [row for table in tables for row in table.to_pylist()] == expected.to_pylist()
    wanted = np.array([number % expected.num_rows for number in numbers if expected.num_rows], dtype=np.int64)
    fetched = source.fetch(wanted, columns)
    assert fetched.to_pydict() == expected.take(pa.array(wanted)).to_pydict()
    assert fetched.schema.names == columns


def frame(rows: int) -> pa.Table:
    """A table of several types, with missing values, lists and repeated words."""
    return pa.table(
        {
            "number": pa.array([None if row % 7 == 3 else row * 1.5 for row in range(rows)], pa.float64()),
            "word": pa.array([f"w{row % 5}" for row in range(rows)]),
            "vector": pa.array([[float(row), -1.0] for row in range(rows)], pa.list_(pa.float32())),
            "kind": pa.array([f"k{row % 3}" for row in range(rows)]).dictionary_encode(),
        }
    )


sizes = st.integers(1, 50)
row_numbers = st.lists(st.integers(0, 10**6), max_size=20)


@SLOW_FILES
@given(
    rows=st.lists(st.tuples(TEXT, TEXT), max_size=30),
    size=sizes,
    numbers=row_numbers,
    line_end=st.sampled_from(["\n", "\r\n"]),
    delimiter=st.sampled_from([",", ";", "\t"]),
    bom=st.booleans(),
    stretch=st.integers(8, 200),
)
def test_csv(
    tmp_path: Path,
    rows: list[tuple[str, str]],
    size: int,
    numbers: list[int],
    line_end: str,
    delimiter: str,
    bom: bool,
    stretch: int,
) -> None:
    """Against the standard library's writer and reader, with small stretches so that records cross their ends."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=line_end, quoting=csv.QUOTE_ALL)
    writer.writerows([("a", "b"), *rows])
    file = tmp_path / "t.csv"
    file.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.getvalue().encode())
    columns: dict[str, list[str]] = {"a": [a for a, _ in rows], "b": [b for _, b in rows]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("likeset.tables.delimited._STRETCH_BYTES", stretch)
        patch.setattr("likeset.tables.delimited._HEADER_BYTES", 1 << 20)
        with open_source(file) as source:
            expected = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
            check_laws(source, expected, rows=size, numbers=numbers)
            check_lines(source, text.getvalue(), rows)


def check_lines(source: Source, text: str, rows: list[tuple[str, str]]) -> None:
    """Each row's line is where its own text begins: 1 for the header and one for each line feed before it."""
    before = 2
    places = [block.locate(offset) for block in source.blocks(["a"], rows=7) for offset in range(len(block))]
    for place, (a, b) in zip(places, rows, strict=True):
        assert place == f"line {before}"
        before += 1 + a.count("\n") + b.count("\n")
    assert before - 1 == text.count("\n") + 0


@SLOW_FILES
@given(rows=st.integers(0, 60), size=sizes, numbers=row_numbers, group=st.integers(1, 25), part=st.integers(1, 60))
def test_parquet(tmp_path: Path, rows: int, size: int, numbers: list[int], group: int, part: int) -> None:
    pq.write_table(frame(rows), tmp_path / "t.parquet", row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("likeset.tables.parquet._PART_ROWS", part)
        patch.setattr("likeset.tables.parquet._LEAST_BATCH", 4)
        source = open_source(tmp_path / "t.parquet")
        check_laws(source, frame(rows), rows=size, numbers=numbers)
        assert rows < part or len(source.parts) >= min(2, rows // part)


@SLOW_FILES
@given(counts=st.lists(st.integers(0, 20), min_size=1, max_size=5), size=sizes, numbers=row_numbers)
def test_a_directory_of_parquet_files(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], size: int, numbers: list[int]
) -> None:
    """Files are taken by path, not by age; what begins with a dot or an underscore is no data."""
    directory = tmp_path_factory.mktemp("rows")
    table = frame(sum(counts))
    starts = np.cumsum([0, *counts])
    for number in reversed(range(len(counts))):
        name = directory / f"year={2000 + number}" / "part.parquet"
        name.parent.mkdir()
        pq.write_table(table.slice(starts[number], counts[number]), name, row_group_size=6)
    for ignored in ("_SUCCESS", "_old.parquet", ".hidden.parquet", "notes.txt"):
        (directory / ignored).write_text("no data")
    with open_source(str(directory)) as source:
        assert len(source.parts) == len(counts)
        check_laws(source, table, rows=size, numbers=numbers)


@SLOW_FILES
@given(rows=st.integers(0, 60), size=sizes, numbers=row_numbers)
def test_pyarrow_frames(rows: int, size: int, numbers: list[int]) -> None:
    check_laws(open_source(frame(rows)), frame(rows), rows=size, numbers=numbers)
