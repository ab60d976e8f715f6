"""Whatever is wrong with a table: one error that names the table, the place and what to do, and shows no value."""

import io
import itertools
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from likeset.errors import BadTable
from likeset.tables import sources
from likeset.tables.sources import open_source
from screens import Screens

CANARY = "canary-7319"
CHANGED = "changed while it was being read|No such file"


def complaint(given: Any) -> str:
    with pytest.raises(BadTable) as caught, open_source(given) as source:
        for _ in source.blocks(source.schema.names, rows=100):
            pass
    said = str(caught.value)
    assert CANARY not in said.replace(str(given), "")
    assert caught.value.__cause__ is None
    return said


LONG = "x" * 50
MANY_LINES = "".join(f"{row},{LONG}\n" for row in range(30_000)).encode()  # more than one stretch
CANARY_BYTES = CANARY.encode()

BAD_TEXTS = {
    "empty": b"", "only blank lines": b"\n\r\n\n", "only a byte order mark": b"\xef\xbb\xbf",
    "long line": b"a,b\n1,2\n3,%s,5\n" % CANARY_BYTES, "short line": b"a,b\n1,2\n\n%s\n" % CANARY_BYTES,
    "short last line": b'a,b\n"1\n1",2\n%s' % CANARY_BYTES,
    "ragged far down": b"a,b\n" + MANY_LINES + b"1,%s,3\n" % CANARY_BYTES,
    "semicolons": b"a;b\n1;2\n3;%s;5\n" % CANARY_BYTES, "bad encoding": b"a,b\n1,2\n%s,M\xfcller\n" % CANARY_BYTES,
    "bad encoding in a quoted field": b'a,b\n1,"x\n\n%s\xff"\n' % CANARY_BYTES,
    "bad encoding in the header": b"a,b\xfc\n1,2\n", "bad encoding far down": b"a,b\n" + MANY_LINES + b"1,\xff\n",
    "UTF-16": "a,b\n1,2\n".encode("utf-16"), "UTF-16 without a mark": "a,b\n1,2\n".encode("utf-16-le"),
    "NUL": b"a,b\n1,2\n3,%s\0\n" % CANARY_BYTES, "unclosed quote": b'a,b\n1,2\n3,"%s\n5,6\n' % CANARY_BYTES,
    "unclosed before a quoted field": b'a,b\n1,"%s\n5,"x"\n' % CANARY_BYTES,
    "unclosed after a quoted field": b'a,b\n"1",2\n3,"%s\n5,6\n' % CANARY_BYTES,
    "unclosed quote far up": b'a,b\n1,"%s\n' % CANARY_BYTES + 20 * MANY_LINES,
    "unclosed quote in the header": b'a,"%s\n1,2\n' % CANARY_BYTES,
    "text after a quote": b'a,b\n1,"2"%s\n' % CANARY_BYTES,
    "quote in the middle": b'a,b\n1,2\n%s" pipe,2\n4,5" pipe\n' % CANARY_BYTES,
    "lone carriage return": b"a,b\n1,2\r3,%s,4\n" % CANARY_BYTES, "same name twice": b"a,b,a\n1,2,3\n",
    "no header, few numbers": b"61.5,nan,inf\n", "no header": b"1,2.5,-3\n4,5,6\n", "Parquet": b"PAR1\0\0",
}  # fmt: skip


def test_bad_text(screens: Screens) -> None:
    for name, content in BAD_TEXTS.items():
        Path(name).with_suffix(".csv").write_bytes(content)
    screens.table("messages", {name: complaint(f"{name}.csv") for name in BAD_TEXTS})


@pytest.mark.parametrize(("letters", "refused"), [(189, False), (191, True)])
def test_a_record_may_have_so_many_bytes(
    tmp_path: Path, letters: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """128 here, of what is held after pieces of 64 without an end: 62, 126, 190. Otherwise 16 megabytes."""
    monkeypatch.setattr(sources, "_PIECE_BYTES", 64)
    assert sources._RECORD_BYTES == 16 << 20
    monkeypatch.setattr(sources, "_RECORD_BYTES", 128)
    (tmp_path / "t.csv").write_bytes(b"a\n1\n" + b"x" * letters + b"\n")
    if refused:
        assert ", line 3: a record is longer than" in complaint(tmp_path / "t.csv")
    else:
        assert open_source(tmp_path / "t.csv").row_count == 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a,b\n", {"a": [], "b": []}),
        (b"a,b", {"a": [], "b": []}),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4", {"a": ["1", "3"], "b": ["2", "4"]}),
        (b"a;b;c,d\n1;2;3,5\n", {"a": ["1"], "b": ["2"], "c,d": ["3,5"]}),
        (b"a\tb\n1\tNA\n", {"a": ["1"], "b": ["NA"]}),
        (b"a|b\n 1|\n", {"a": [" 1"], "b": [""]}),
        (b'"a;;;",b\n1,"x""y"\n', {"a;;;": ["1"], "b": ['x"y']}),
        (b'"a\n1",b\n"",""\n', {"a\n1": [""], "b": [""]}),
        (b"a\n1\n\n\n2\n", {"a": ["1", "2"]}),
        (b",b\n0,x\n", {"": ["0"], "b": ["x"]}),
        (b"year,2019\n1,2\n", {"year": ["1"], "2019": ["2"]}),
        ("größe\nä\n".encode(), {"größe": ["ä"]}),
        (b'a,b\n1,"line\r\nend"\r\n2,x\r\n', {"a": ["1", "2"], "b": ["line\r\nend", "x"]}),
        (b"\n\na,b\n1,2\n", {"a": ["1"], "b": ["2"]}),
        (b"a,b\r1,2\r3,4\r", {"a": ["1", "3"], "b": ["2", "4"]}),
        (b"a;b\n1,5;-0,25\n", {"a": ["1,5"], "b": ["-0,25"]}),
    ],
)
def test_good_text(tmp_path: Path, content: bytes, expected: dict[str, list[str]]) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    with open_source(file) as source:
        assert source.row_count == len(next(iter(expected.values())))
        assert source.fetch(np.arange(source.row_count), list(expected)).to_pydict() == expected
        assert source.schema.names == list(expected)


def test_places_are_lines_unless_records_have_several(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    for content, places in [
        (b"\na,b\n1,x\n2,y\n3,z", ["line 3", "line 4", "line 5"]),
        (b'a,b\n1,x\n\n2,"y\n\ny"\n3,z\n', ["record 1", "record 2", "record 3"]),
        (b'a,b\n1,x\n2,"y\ny"\n3,z', ["record 1", "record 2", "line 5"]),
    ]:
        file.write_bytes(content)
        with open_source(file) as source:
            (block,) = source.blocks(["a"])
            assert [block.locate(offset) for offset in range(3)] == places
            assert [source.place(row) for row in range(3)] == places


def test_names_of_files_and_texts_that_are_no_source(screens: Screens) -> None:
    Path("patients.csv").write_text("a\n1\n")
    for name in ("t.db", "t.csv.gz", "t.parqet", "t", "t.txt"):
        Path(name).write_text(CANARY)
    names = ["patient.csv", "zzz.csv", "nowhere/zzz.parquet", "t.db", "t.csv.gz", "t.parqet", "t", "t.txt"]
    texts = [
        "", "sqllite:x.db?table=a", "https://example.org/t.csv", "mysql://eva:hunter2@host/db",
        "postgres://eva:hunter2@host/db", "postgres://eva:hunter2@host/db?query=DROP TABLE x",
        "postgres://host/db?password=hunter2&query=DELETE FROM x",
        "postgres://eva:hun@ter2@host/db?query=DELETE FROM x",
    ]  # fmt: skip
    told = [complaint(given) for given in [*names, *texts]]
    assert "ter2" not in "".join(told)
    screens.check("messages", "\n".join(told))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow"])
def test_permission_denied_by_a_system_that_says_so(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "denied")

    (tmp_path / name).write_text("a\n1\n")
    monkeypatch.setattr(Path, "open", denied)
    assert "cannot be read: Permission denied" in complaint(tmp_path / name)


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue())


def canaries(rows: int) -> pa.Table:
    return pa.table({"a": list(range(rows)), "word": [f"{CANARY}-{row}" for row in range(rows)]})


def damaged_group(group: int) -> bytes:
    """A file of three row groups, with one group's pages overwritten."""
    content = parquet_bytes(canaries(3000), row_group_size=1000, compression="snappy", use_dictionary=False)
    chunk = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(group).column(0)
    start, length = int(chunk.data_page_offset), int(chunk.total_compressed_size)
    return content[:start] + b"\xff" * length + content[start + length :]


def test_bad_parquet(screens: Screens) -> None:
    good, told = parquet_bytes(canaries(3000), row_group_size=1000), []
    footer = good[:-40] + b"\xff" * 30 + good[-10:]
    for content in (b"", b"a,b\n1,2\n", good[:-100], good[: len(good) // 2], footer, damaged_group(1)):
        Path("t.parquet").write_bytes(content)
        told.append(complaint("t.parquet"))
    folder = Path("folder")
    folder.mkdir()
    told.append(complaint(folder))
    (folder / "_old.parquet").write_bytes(b"")
    (folder / "t.csv").write_text("a\n1\n")
    told.append(complaint(folder))
    pq.write_table(canaries(10), folder / "part-0.parquet")
    others = (
        {"a": [1]},
        {"a": [1], "word": ["x"], "more": [1]},
        {"a": [1.5], "word": ["x"]},
        {"A": [1], "word": ["x"]},
    )
    for content in (
        damaged_group(2),
        parquet_bytes(canaries(3))[:-9],
        *(parquet_bytes(pa.table(one)) for one in others),
    ):
        (folder / "part-1.parquet").write_bytes(content)
        told.append(complaint(folder))
    (folder / "_delta_log").mkdir()
    screens.check("messages", "\n".join([*told, complaint(folder)]))


def test_files_that_only_encode_a_column_differently_go_together(tmp_path: Path) -> None:
    words = pa.array(["x", "y", "x"])
    for number, column in enumerate([words.dictionary_encode(), words, pa.nulls(3), words.cast(pa.large_string())]):
        pq.write_table(pa.table({"b": [1, 2, 3], "word": column}), tmp_path / f"{number}.parquet")
    pq.write_table(pa.table({"word": words, "b": [1, 2, 3]}), tmp_path / "other-order.parquet")
    with open_source(tmp_path) as source:
        assert source.schema.field("word").type == pa.string()
        found = pa.concat_tables(block.table for block in source.blocks(["word"])).to_pydict()["word"]
    assert found == [*"xyxxyx", None, None, None, *"xyxxyx"]


def test_bad_arrow_files(tmp_path: Path) -> None:
    with pa.ipc.new_file(tmp_path / "t.arrow", canaries(1).schema) as writer:
        for _ in range(3):
            writer.write_table(canaries(1000))
    good = (tmp_path / "t.arrow").read_bytes()
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, canaries(1).schema) as streamer:
        streamer.write_table(canaries(1))
    first = f"{CANARY}-0".encode()
    place = good.index(first, good.index(first) + 1) - 3000  # among the offsets of the second batch's words
    for content, expected in [
        (b"", "the file is empty"),
        (b"something else", "is no Arrow file"),
        (good.replace(b"word", b"wo\xd6d"), "is no Arrow file"),
        (stream.getvalue(), "is no Arrow file"),
        (good[:-100], "its footer is damaged"),
        (good[:place] + b"\xff" * 2000 + good[place + 2000 :], ", record batch 1: cannot be decoded"),
    ]:
        (tmp_path / "t.arrow").write_bytes(content)
        assert expected in complaint(tmp_path / "t.arrow")


def change_csv(file: Path) -> None:
    file.write_text("a,b\n" + f"2,{LONG}\n" * 200_000)


def change_parquet(file: Path) -> None:
    pq.write_table(canaries(200_000), file, row_group_size=70_000)


def change_arrow(file: Path) -> None:
    pyarrow.feather.write_feather(canaries(200_000), file)


@pytest.mark.parametrize(
    ("name", "write"), [("t.csv", change_csv), ("t.parquet", change_parquet), ("t.arrow", change_arrow)]
)
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    """Appended to, removed, or another time of change: an error each time, in a first pass, a later one and a fetch."""
    file = tmp_path / name

    def append() -> None:
        with file.open("ab") as opened:
            opened.write(b"3\n")

    def touch() -> None:
        os.utime(file, ns=(1, 1))

    write(file)
    content = file.read_bytes()
    for happens, counted in itertools.product((append, file.unlink, touch), (False, True)):
        file.write_bytes(content)
        with open_source(file) as source:
            assert not counted or source.row_count == 200_000
            blocks = source.blocks(["a"], rows=1000)
            next(blocks)
            happens()
            with pytest.raises(BadTable, match=CHANGED):
                list(blocks)
            with pytest.raises(BadTable, match=CHANGED):
                source.fetch([199_999], ["a"])


def test_an_arrow_file_that_changes_between_two_looks_at_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, decoded = tmp_path / "t.arrow", sources._ArrowPart.decoded
    change_arrow(file)

    def changed(*arguments: Any) -> Any:
        os.utime(file, ns=(1, 1))
        return decoded(*arguments)

    with open_source(file) as source:
        monkeypatch.setattr(sources._ArrowPart, "decoded", changed)
        with pytest.raises(BadTable, match=CHANGED):
            source.fetch([0], ["a"])


def test_a_child_that_ends_leaves_the_copy_to_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_source(f"sql:FROM '{tmp_path / 't.csv'}'") as source:
        process = os.getpid()
        with monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: process + 1)  # what a forked child would see
            source.close()
        assert source.fetch([0], ["a"]).num_rows == 1


def test_bad_frames() -> None:
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]
    import polars as pl

    for given, expected in [
        (pd.DataFrame({"a": [1, CANARY]}), "data frame, column 'a': holds values of several kinds"),
        (pd.DataFrame({"a": [object()]}), "data frame, column 'a': holds values of several kinds"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "columns 1 and 2 have the same name"),
        (pd.DataFrame(), "has no columns"),
        (pl.DataFrame({"a": [1]}).lazy(), "is a LazyFrame; call .collect()"),
        (np.zeros((2, 2)), "cannot be made from a ndarray; give a path, or a frame"),
        ([1, 2], "cannot be made from a list"),
        (None, "cannot be made from a NoneType"),
        (pa.table([[1], [2]], names=["a", "a"]), "have the same name"),
    ]:
        with pytest.raises(BadTable) as caught:
            open_source(given)
        assert expected in str(caught.value)
        assert CANARY not in str(caught.value)


def test_asked_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Age,weight,sex,city,job,street\n1,2,3,4,5,6\n")
    with open_source(tmp_path / "t.csv") as source:
        for columns, expected in [
            (["wieght"], "column 'wieght': is missing; did you mean weight?"),
            (["age"], "column 'age': is missing; did you mean Age?"),
            (["zzz"], "column 'zzz': is missing"),
            (["weight", "wieght"], "column 'wieght': is missing"),  # the other column has a use of its own
        ]:
            for read in (source.blocks, lambda names: source.fetch([0], names)):
                with pytest.raises(BadTable) as caught:
                    read(columns)
                assert str(caught.value).endswith(expected)
                assert str(tmp_path / "t.csv") in str(caught.value)


def test_a_reader_that_stops_early_leaves_no_thread_behind(tmp_path: Path) -> None:
    change_csv(tmp_path / "t.csv")
    with open_source(tmp_path / "t.csv") as source:
        blocks = source.blocks(["a"], rows=1000)
        next(blocks)
        assert [thread for thread in threading.enumerate() if thread.name.startswith("likeset-reader")]
        blocks.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("likeset-reader")]
