"""Whatever rows lie in, blocks of any size, parts, and single rows by number give the same rows."""

import csv
import io
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_laws import check_laws, frame

from chance import examples
from likeset.tables.sources import Source, open_source

SLOW_FILES = settings(
    max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


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
        patch.setattr("likeset.tables.sources._PIECE_BYTES", stretch)
        patch.setattr("likeset.tables.sources._HEADER_BYTES", 1 << 20)
        with open_source(file) as source:
            expected = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
            check_laws(source, expected, rows=size, numbers=numbers)
            check_places(source, rows)


def check_places(source: Source, rows: list[tuple[str, str]]) -> None:
    """Each row's line is 1 for the header and one for each line feed before it; or its number, counted from 1."""
    line = 2
    places = [block.locate(offset) for block in source.blocks(["a"], rows=7) for offset in range(len(block))]
    several = any("\n" in cell for row in rows for cell in row)
    for number, (place, (a, b)) in enumerate(zip(places, rows, strict=True), start=1):
        assert place == f"line {line}" or (several and place == f"record {number}")
        line += 1 + a.count("\n") + b.count("\n")


@SLOW_FILES
@given(rows=st.integers(0, 60), size=sizes, numbers=row_numbers, group=st.integers(1, 25), part=st.integers(1, 60))
def test_parquet(tmp_path: Path, rows: int, size: int, numbers: list[int], group: int, part: int) -> None:
    pq.write_table(frame(rows), tmp_path / "t.parquet", row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("likeset.tables.sources._PART_ROWS", part)
        patch.setattr("likeset.tables.sources._LEAST_BATCH", 4)
        source = open_source(tmp_path / "t.parquet")
        check_laws(source, frame(rows), rows=size, numbers=numbers)
        assert all(each.row_count >= part for each in source.parts[:-1])


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


@SLOW_FILES
@given(rows=st.integers(0, 60), size=sizes, numbers=row_numbers, batch=st.integers(1, 25))
@pytest.mark.parametrize("compression", ["lz4", "uncompressed"])
def test_arrow_files(tmp_path: Path, compression: str, rows: int, size: int, numbers: list[int], batch: int) -> None:
    file = tmp_path / "t.feather"
    pyarrow.feather.write_feather(frame(rows), file, compression=compression, chunksize=batch)
    check_laws(open_source(file), frame(rows), rows=size, numbers=numbers)


def test_frames_of_other_libraries() -> None:
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]
    import polars as pl

    for table in (
        pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], 7: [0.5, 1.5, None]}, index=[5, 5, 6]),
        pl.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "7": [0.5, 1.5, None]}),
    ):
        expected = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"], "7": [0.5, 1.5, None]})
        with open_source(table, name="mine") as source:
            assert source.name == "mine"
            check_laws(source, expected, rows=2, numbers=[2, 2, 0])
            (block,) = source.blocks(["a"])
            assert block.locate(2) == "row 2"


def test_places_in_parquet(tmp_path: Path) -> None:
    """Row 17 of the second file lies in its row group 2: groups of 7 rows begin at 0, 7 and 14."""
    for number in range(2):
        pq.write_table(frame(20), tmp_path / f"part-{number}.parquet", row_group_size=7)
    with open_source(tmp_path) as source:
        places = [block.locate(offset) for block in source.blocks(["word"], rows=6) for offset in range(len(block))]
    assert places[20 + 17] == "part-1.parquet, row group 2, row 17"
    assert places[6:8] == ["part-0.parquet, row group 0, row 6", "part-0.parquet, row group 1, row 7"]
    with open_source(tmp_path / "part-1.parquet") as source:
        assert next(iter(source.blocks(["word"]))).locate(17) == "row group 2, row 17"


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow", "large.parquet", "large.arrow"])
def test_a_fingerprint_tells_whether_data_are_the_same(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("large"):
        monkeypatch.setattr("likeset.tables.sources._DIGESTED_BYTES", 10)

    def write(word: str) -> str:
        table = pa.table({"a": [word, "y"] * 20_000, "b": [f"{row}" for row in range(40_000)]})
        if name.endswith(".csv"):
            (tmp_path / name).write_text("a\n" + "\n".join(table["a"].to_pylist()))
        elif name.endswith(".parquet"):
            pq.write_table(table, tmp_path / name)
        else:
            pyarrow.feather.write_feather(table, tmp_path / name)
        os.utime(tmp_path / name, ns=(10**18, 10**18))
        with open_source(tmp_path / name) as source:
            found = source.fingerprint()
            assert source.fingerprint() == found
        return found

    first = write("x")
    assert write("x") == first
    os.utime(tmp_path / name, ns=(10**18 + 1, 10**18 + 1))
    with open_source(tmp_path / name) as source:
        assert (source.fingerprint() == first) is not name.startswith("large")
    assert write("zz") != first


def test_a_digest_of_values_does_not_see_what_lies_under_missing_ones_or_how_a_table_is_cut() -> None:
    def column(under: float) -> pa.Array:
        values = np.array([1.0, under, 3.0])
        return pa.Array.from_buffers(pa.float64(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(values)])

    first = open_source(pa.table({"a": column(7.0)})).fingerprint()
    assert open_source(pa.table({"a": column(8.0)})).fingerprint() == first
    assert open_source(pa.table({"a": [1.0, None, 3.5]})).fingerprint() != first
    assert open_source(pa.table({"b": column(7.0)})).fingerprint() != first
    lists = [pa.ListArray.from_arrays([0, 3, 3], column(under)) for under in (7.0, 8.0)]
    pairs = [pa.StructArray.from_arrays([column(under)], ["a"]) for under in (7.0, 8.0)]
    for one, other in (lists, pairs):
        assert open_source(pa.table({"a": one})).fingerprint() == open_source(pa.table({"a": other})).fingerprint()
    assert (
        open_source(pa.table({"a": lists[0]})).fingerprint()
        != open_source(pa.table({"a": lists[0][::-1]})).fingerprint()
    )
    table = frame(50).append_column("flag", pa.array([row % 3 == 0 or None for row in range(50)]))
    pieces = pa.concat_tables([table.slice(0, 13), table.slice(13, 1), table.slice(14)])
    assert open_source(pieces).fingerprint() == open_source(table).fingerprint()
    for name in table.schema.names:
        moved = table.set_column(table.schema.get_field_index(name), table.schema.field(name), table[name][::-1])
        assert open_source(moved).fingerprint() != open_source(table).fingerprint(), name
