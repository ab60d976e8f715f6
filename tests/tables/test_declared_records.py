"""Records in declared types give the same rows, bit for bit; labels from elsewhere are held against the schema."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from schema_samples import SCHEMA, typed

from chance import examples
from likeset.errors import BadDocument, BadMessage, BadTable
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import MOST_LETTERS, Schema

EVERY_KIND = """
likeset: schema
version: 1
columns:
  number: {kind: numeric, bounds: [-5, 5], outside: clip, missing: indicator, missing_values: [-1]}
  dose: {kind: numeric, bounds: [0.1, 1000], scale: log, outside: clip, missing: {value: 1}}
  truth: {kind: boolean, missing: indicator, true_words: [Ja, "1"], false_words: [nein, "0"]}
  word: {kind: category, values: [a, b, "1"], unknown: other, missing: indicator, missing_values: [weg]}
  code: {kind: category, values: [1, 2.5, -3], unknown: nothing, missing: indicator, missing_values: [9]}
  step: {kind: ordinal, values: [low, mid, high], missing: {value: mid}}
  day: {kind: date, bounds: [2000-01-01, 2020-01-01], outside: clip, missing: indicator, format: "%d.%m.%Y"}
  note: {kind: text, width: 8, missing: indicator}
  vector: {kind: vector, width: 2, bounds: [-1, 1], outside: clip, missing: indicator}
  image: {kind: image, shape: [1, 2], missing: indicator}
missing_words: ["", NA, "-9", "?"]
"""
SCHEMA_OF_EVERY_KIND = Schema.from_text(EVERY_KIND)


def rows_of(schema: Schema, table: pa.Table) -> Any:
    return schema.map(table, table="rows", locate=str, labels=False).rows


def check(schema: Schema, table: pa.Table) -> pa.Table:
    """Records of a table, after a way through bytes, give the rows that the table gives."""
    declared = DeclaredRecords(schema)
    made = declared.of(table)
    expected = rows_of(schema, table)
    assert made.schema.equals(declared.types)
    packed = declared.pack(made)
    assert len(packed) <= declared.most_bytes(table.num_rows)
    back = declared.unpack(packed, rows=table.num_rows)
    for form in (made, back):
        found, good = declared.rows_of(form)
        assert good.all()
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
    assert declared.of(back).equals(back)
    return made


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


NUMBERS = maybe(st.floats(-10, 10, allow_nan=False) | st.sampled_from([-1.0, -9.0, 0.0, -0.0, 5.0]))
DAYS = maybe(st.dates(datetime.date(1990, 1, 1), datetime.date(2030, 1, 1)))
TYPED = st.fixed_dictionaries(
    {
        "number": NUMBERS,
        "dose": maybe(st.floats(0.001, 1e5)),
        "truth": maybe(st.booleans()),
        "word": maybe(st.sampled_from(["a", " b", "1", "c", "weg", "NA", "-9", "", "ä"])),
        "code": maybe(st.sampled_from([1.0, 2.5, -3.0, 9.0, -9.0, 4.0])),
        "step": maybe(st.sampled_from(["low", " mid ", "high", "?"])),
        "day": DAYS,
        "note": maybe(st.text(alphabet="ab ?äNA\n", max_size=6)),
        "vector": maybe(st.lists(st.floats(-2, 2), min_size=2, max_size=2)),
        "image": maybe(st.lists(st.integers(0, 255), min_size=2, max_size=2)),
    }
)
KINDS = {
    "number": pa.float64(), "dose": pa.float64(), "truth": pa.bool_(), "word": pa.string(), "code": pa.float64(),
    "step": pa.string(), "day": pa.date32(), "note": pa.string(), "vector": pa.list_(pa.float64()),
    "image": pa.list_(pa.uint8()),
}  # fmt: skip
WRITTEN = st.fixed_dictionaries(
    {
        "number": st.sampled_from(["", "NA", " 1.5", "-9", "-1", "0.1", "1e-3", "-0", "7", "nan", "?"]),
        "dose": st.sampled_from(["1", "0.3", " 2e2", "NA", "0.0001", "123456"]),
        "truth": st.sampled_from(["ja", "JA ", "1", "1.0", "0", "0.0", "nein", "", "NA", "-9"]),
        "word": st.sampled_from(["a", " b ", "1", "c", "weg", "NA", ""]),
        "code": st.sampled_from(["1", "1.0", "2.50", "-3", "9", "4", "", "-9"]),
        "step": st.sampled_from(["low", " mid ", "high", "?", ""]),
        "day": st.sampled_from(["01.02.2003", " 31.12.2019", "01.01.1999", "NA", ""]),
        "note": st.text(alphabet="ab ?äNA", max_size=6),
        "vector": st.sampled_from(["[0.1, 0.2]", "1 -1", "", "(0.5;0.25)"]),
        "image": st.sampled_from(["[0, 255]", "1,2", ""]),
    }
)


def table_of(rows: list[dict[str, Any]], kinds: dict[str, Any]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(rows=st.lists(TYPED, min_size=1, max_size=6))
def test_typed_columns_keep_their_rows(rows: list[dict[str, Any]]) -> None:
    check(SCHEMA_OF_EVERY_KIND, table_of(rows, KINDS))


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(rows=st.lists(WRITTEN, min_size=1, max_size=6))
def test_columns_of_text_keep_their_rows(rows: list[dict[str, Any]]) -> None:
    check(SCHEMA_OF_EVERY_KIND, table_of(rows, dict.fromkeys(KINDS, pa.string())))


OTHER_TYPES: dict[str, tuple[Any, Any]] = {
    "number": ([1, None, -1], pa.int16()),
    "dose": (["0.30", None, "2.50"], pa.decimal128(9, 2)),
    "truth": ([1, 0, None], pa.int8()),
    "word": (["a", None, "NA"], pa.dictionary(pa.int8(), pa.string())),
    "code": ([1, 9, None], pa.dictionary(pa.int8(), pa.int64())),
    "step": (["low", None, "high"], pa.large_string()),
    "day": ([datetime.datetime(2001, 2, 3, 23, 59), None, datetime.datetime(1999, 1, 1)], pa.timestamp("us")),
    "note": (["a b", None, " "], pa.string_view()),
    "vector": ([[0.5, -0.5], None, [1.0, 0.25]], pa.list_(pa.float32(), 2)),
    "image": ([[1, 2], [3, 4], None], pa.large_list(pa.int32())),
}


def test_other_types_that_files_have(tmp_path: Any) -> None:
    """Integers, decimals, dictionaries, times, lists of a fixed size; from a Parquet file too; and only nulls."""
    table = table_of([{name: values[row] for name, (values, _) in OTHER_TYPES.items()} for row in range(3)], {
        name: pa.string() if str(kind) == "decimal128(9, 2)" else kind for name, (_, kind) in OTHER_TYPES.items()
    })  # fmt: skip
    made = check(SCHEMA_OF_EVERY_KIND, table)
    assert made["truth"].to_pylist() == [True, False, None]
    assert made["day"].to_pylist() == [datetime.date(2001, 2, 3), None, datetime.date(1999, 1, 1)]
    decimal = table.set_column(1, "dose", pa.array([0, None, 2], pa.int32()).cast(pa.decimal128(12, 2)))
    assert check(SCHEMA_OF_EVERY_KIND, decimal)["dose"].to_pylist() == [0.0, None, 2.0]
    plain = made.set_column(7, "note", made["note"])
    pq.write_table(plain, tmp_path / "rows.parquet")
    assert check(SCHEMA_OF_EVERY_KIND, pq.read_table(tmp_path / "rows.parquet")).equals(made)
    nothing = pa.table({name: pa.nulls(2) for name in KINDS})
    assert check(SCHEMA_OF_EVERY_KIND, nothing).num_rows == 2


def test_records_that_are_not_as_declared_are_marked() -> None:
    declared = DeclaredRecords(SCHEMA)
    made = declared.of(typed(5))
    for name, value, good in (("age", 1e9, False), ("smoker", None, True), ("code", 7.0, False)):
        place, kind = made.column_names.index(name), made.schema.field(name).type
        cells = made.column(name).to_pylist()
        spoiled = made.set_column(place, name, pa.array([*cells[:2], value, *cells[3:]], kind))
        rows, marked = declared.rows_of(spoiled)
        assert marked.tolist() == [True, True, good, True, True]  # what missing ones mean is declared
        assert np.array_equal(rows[[0, 1, 3, 4]], declared.rows_of(made)[0][[0, 1, 3, 4]])


def test_how_long_a_record_may_be_follows_from_the_schema() -> None:
    """A number, truth value or day takes 8 bytes, a vector 8 for each entry, a text 4 and the letters of the longest.

    Words for missing stay as they were written: of those "(missing)" is the longest, with 9 letters. Text that nobody
    declared may have ``text_bytes``: here 4096, unless declared otherwise. Packed, a byte of marks comes before,
    and a truth value takes 1 byte, a day 4.
    """
    text = (
        "likeset: schema\nversion: 1\nmissing_words: ['', (missing)]\ncolumns:\n"
        "  a: {kind: numeric, bounds: [0, 1]}\n  b: {kind: category, values: [x, yes]}\n"
        "  c: {kind: vector, width: 3, bounds: [0, 1]}\n  d: {kind: category, values: [x], unknown: other}\n"
        "  e: {kind: boolean}\n  f: {kind: date, bounds: [2000-01-01, 2020-01-01]}\n"
    )
    assert DeclaredRecords(Schema.from_text(text)).record_bytes == 8 + 13 + 24 + 8 + 8 + 4 + 4096
    shorter = DeclaredRecords(Schema.from_text(text + "text_bytes: 10\n"))
    assert shorter.record_bytes == 8 + 13 + 24 + 8 + 8 + 4 + 10
    assert shorter.most_bytes(3) == 3 * (1 + shorter.record_bytes - 7 - 4)
    for label, more in (("values: [no, maybe]", 4 * 5), ("values: [1, 2]", 0)):
        labelled = Schema.from_text(f"{text}text_bytes: 10\nlabel: {{column: y, kind: category, {label}}}\n")
        assert DeclaredRecords(labelled).record_bytes == shorter.record_bytes + more
    assert shorter.open_columns == ("d",)
    letters = ["x" * 10, "x" * 11, " " + "x" * 10 + " ", "ä" * 5, "ä" * 6, None]
    assert shorter.too_long(pa.table({"d": letters})).tolist() == [False, True, False, False, True, False]


PACKED = DeclaredRecords(SCHEMA).pack(typed(6))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
@settings(max_examples=examples(30))
def test_bytes_of_a_stranger_are_refused_or_the_only_way_to_write_their_records(changes: list[tuple[int, int]]) -> None:
    declared, forged = DeclaredRecords(SCHEMA), bytearray(PACKED)
    for place, value in changes:
        forged[place % len(forged)] = value
    try:
        table = declared.unpack(bytes(forged), rows=6)
    except BadMessage:
        return
    assert declared.pack(table) == forged
    declared.rows_of(table)
    declared.too_long(table)


@pytest.mark.parametrize(
    ("data", "rows"),
    [(b"", 6), (PACKED[:-1], 6), (PACKED + b"x", 6), (PACKED, 5), (PACKED, 7), (PACKED, 10**9), (PACKED, 0)],
)
def test_records_of_another_length_are_refused(data: bytes, rows: int) -> None:
    with pytest.raises(BadMessage):
        DeclaredRecords(SCHEMA).unpack(data, rows=rows)


def test_a_length_that_is_only_claimed_takes_no_memory() -> None:
    """A text that claims 4 GiB, in a message of some bytes."""
    declared = DeclaredRecords(Schema.from_text("likeset: schema\nversion: 1\ncolumns: {a: {kind: text, width: 2}}\n"))
    assert declared.pack(pa.table({"a": ["xyz"]})) == b"\0" + b"\0\0\0\3" + b"xyz"
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(BadMessage):
            declared.unpack(b"\0" + b"\xff" * 4 + b"xyz", rows=1)
    finally:
        pa.set_memory_pool(usual)
    assert pool.max_memory() < 1 << 20


def test_nothing_hides_under_a_missing_cell() -> None:
    declared = DeclaredRecords(
        Schema.from_text(
            "likeset: schema\nversion: 1\ncolumns: {a: {kind: numeric, bounds: [0, 9], missing: indicator}}\n"
        )
    )
    assert declared.unpack(b"\x80" + bytes(8), rows=1).column("a").to_pylist() == [None]
    assert declared.pack(pa.table({"a": [np.nan]})) == b"\x80" + bytes(8)  # a NaN has room for 51 bits
    with pytest.raises(BadMessage):
        declared.unpack(b"\x80" + bytes(7) + b"\1", rows=1)
    with pytest.raises(BadMessage):
        declared.unpack(b"\x40" + bytes(8), rows=1)  # a mark of a column that does not exist


# Labels

CANARY = "canary-81724"
WORD_LABELS, NUMBER_LABELS = "values: [low, high]", "values: [0, 2.5, -3]"
DECLARED = [WORD_LABELS, NUMBER_LABELS, "values: [1, 2]", "kind: category", "kind: text", "kind: number"]
MATCHED = [f"{WORD_LABELS}, match: true", f"{NUMBER_LABELS}, match: true", "kind: number, bounds: [-5, 5], match: true"]


def labelled(label: str | None) -> Schema:
    ending = "" if label is None else f"label: {{column: y, {label}}}\n"
    return Schema.from_text(f"likeset: schema\nversion: 1\ncolumns:\n  x: {{kind: boolean}}\n{ending}")


def read(declared: Schema, cells: Any) -> tuple[NDArray[Any], pa.Table]:
    table = pa.table({"x": [True] * len(cells), "y": cells})
    mapped = declared.map(table, table="rows", locate=str)
    return mapped.labels, DeclaredRecords(declared).of(table)


CELLS: dict[str, st.SearchStrategy[Any]] = {
    WORD_LABELS: st.sampled_from(["low", " high", "high "]),
    NUMBER_LABELS: st.sampled_from(["0", "2.50", "-3", " 0.0", "-0"]),
    "values: [1, 2]": st.sampled_from(["1", "2.0", "+1"]),
    "kind: category": st.sampled_from(["1", "2.0", "low", "ä b", "1e3"]),
    "kind: text": st.text(min_size=1, max_size=9).map(lambda text: f"w{text}"),
    "kind: number": st.floats(-5, 5).map(str),
}


@settings(max_examples=examples(40))
@given(data=st.data(), label=st.sampled_from([*DECLARED, *MATCHED]))
def test_whatever_owners_read_by_the_schema_is_right(data: st.DataObject, label: str) -> None:
    kind = "kind: number" if "bounds" in label else label.removesuffix(", match: true")
    declared = labelled(label)
    labels, records = read(declared, data.draw(st.lists(CELLS[kind], min_size=1, max_size=6)))
    found = DeclaredRecords(declared)
    assert found.label_fault(labels) is None
    inside = found.labels_in(records)
    assert (inside is not None) == ("match" in label)
    if inside is not None:
        assert np.array_equal(inside, labels)


@pytest.mark.parametrize(
    ("label", "labels", "reason"),
    [
        (None, np.array(["low"]), "nobody declared"),
        (WORD_LABELS, np.array(["low", CANARY]), "none of the declared values"),
        (WORD_LABELS, np.array(["low", ""]), "none of the declared values"),
        (WORD_LABELS, np.array(["low", "LOW"]), "none of the declared values"),
        (WORD_LABELS, np.array(["\x00low"]), "none of the declared values"),
        (WORD_LABELS, np.array([0, 1]), "not text"),
        (WORD_LABELS, np.array([True]), "not text"),
        (NUMBER_LABELS, np.array([0, 7]), "none of the declared values"),
        (NUMBER_LABELS, np.array([0.0, np.nan]), "none of the declared values"),
        (NUMBER_LABELS, np.array(["0"]), "not numbers"),
        (NUMBER_LABELS, np.array([False]), "not numbers"),
        ("kind: number", np.array([0.5, np.nan]), "not finite"),
        ("kind: number", np.array([np.inf]), "not finite"),
        ("kind: number", np.array([CANARY]), "not numbers"),
        ("kind: text", np.array([1.5]), "not text"),
        ("kind: category", np.array([1]), "not text"),
    ],
)
def test_what_is_not_as_declared_is_named_without_being_quoted(
    label: str | None, labels: NDArray[Any], reason: str
) -> None:
    found = DeclaredRecords(labelled(label)).label_fault(labels)
    assert found is not None
    assert reason in found
    assert CANARY not in found


@pytest.mark.parametrize("kind", ["text", "category"])
def test_a_label_that_no_message_can_hold_is_found_in_the_owners_file(kind: str) -> None:
    declared = labelled(f"kind: {kind}")
    longest = "ä" * MOST_LETTERS
    assert read(declared, ["a", longest])[0].tolist() == ["a", longest]
    with pytest.raises(BadTable, match="more than 1000 letters") as caught:
        read(declared, ["a", longest + CANARY])
    assert CANARY not in str(caught.value)
    with pytest.raises(BadDocument, match="more than 1000 letters"):
        labelled(f"values: [a, {longest}ä]")
