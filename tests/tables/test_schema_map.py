"""The map from rows to numbers: what it gives, that it is the same everywhere, and a twin of scikit-learn parts."""

import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from schema_samples import SCHEMA, as_text, encoded, in_pieces, typed
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.utils import murmurhash3_32

from likeset.errors import BadTable
from likeset.tables.columns import count_pieces, log2
from likeset.tables.schema import FetchedRows, Schema

HALF = math.sqrt(0.5)


def place(offset: int) -> str:
    return f"row {offset + 1}"


def mapped(table: Any, schema: Schema = SCHEMA) -> FetchedRows:
    return schema.map(table, table="t.csv", locate=place)


def one(column: str, values: Any, kind: pa.DataType | None = None) -> NDArray[np.float32]:
    schema = Schema.from_text(f"likeset: schema\nversion: 1\ncolumns:\n  x: {column}\n")
    return mapped(pa.table({"x": pa.array(values, kind)}), schema).rows


def complaint(column: str, values: Any, kind: pa.DataType | None = None) -> str:
    with pytest.raises(BadTable) as caught:
        one(column, values, kind)
    return str(caught.value)


def distance(rows: NDArray[np.float32]) -> float:
    return float(np.linalg.norm(rows[0].astype(float) - rows[1].astype(float)))


def same(a: FetchedRows, b: FetchedRows) -> bool:
    return a.rows.tobytes() == b.rows.tobytes() and a.labels.tobytes() == b.labels.tobytes()


@pytest.mark.parametrize("form", [as_text, in_pieces, encoded, lambda table: encoded(as_text(table))])
def test_every_form_of_the_same_rows_gives_the_same_bytes(form: Any) -> None:
    assert same(mapped(typed()), mapped(form(typed())))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3, 64, 199])
def test_blocks_of_any_size_give_the_same_bytes(rows: int) -> None:
    """Slices share their parent's buffers: an offset that is forgotten would show here."""
    rows_in_all = 30 if rows < 10 else 200
    for table in (typed(rows_in_all), as_text(typed(rows_in_all)), encoded(typed(rows_in_all))):
        parts = [mapped(table.slice(first, rows)) for first in range(0, len(table), rows)]
        assert np.concatenate([part.rows for part in parts]).tobytes() == mapped(table).rows.tobytes()
        batches = table.combine_chunks().to_batches(max_chunksize=rows)
        assert np.concatenate([mapped(batch).rows for batch in batches]).tobytes() == mapped(table).rows.tobytes()


def test_the_order_of_the_tables_columns_does_not_matter_and_others_are_ignored() -> None:
    table = typed()
    assert same(mapped(table), mapped(table.select(sorted(table.column_names, reverse=True))))


def test_no_rows_give_no_rows() -> None:
    for table in (typed().slice(0, 0), as_text(typed()).slice(0, 0), encoded(typed()).slice(0, 0)):
        assert mapped(table).rows.shape == (0, SCHEMA.width)
        assert mapped(table.schema.empty_table()).rows.shape == (0, SCHEMA.width)


def test_a_twin_of_scikit_learn_transformers_gives_the_same_bytes() -> None:
    """Built from the same declaration, and fitted on nothing that matters: bounds and categories are given."""
    table = typed().to_pandas()
    frame = table.assign(
        dose=table["dose"].mask(table["dose"] == 0),
        smoker=table["smoker"].fillna(False).astype(float),
        site=table["site"].where(table["site"].isin(["north", "south", "east"]) | table["site"].isna(), "(other)"),
    )
    frame["site"] = frame["site"].fillna("(missing)")
    frame["seen"] = (table["seen"].astype("datetime64[s]") - np.datetime64("2000-01-01")).dt.days

    def scaled(low: float, high: float) -> Any:
        return FunctionTransformer(lambda x: (x.to_numpy(float) - low) / (high - low))

    def marked(x: Any, fill: float = 0.5) -> Any:
        absent = np.isnan(x)
        return np.hstack([np.where(absent, fill, x), absent * math.sqrt(0.75)])

    def logged(x: Any) -> Any:
        low, high = (float(log2(np.array([bound]))[0]) for bound in (0.1, 1000.0))
        return 2 * marked(np.clip((log2(x.to_numpy(float)) - low) / (high - low), 0, 1))

    def one_hot(values: list[Any]) -> Any:
        return make_pipeline(
            OneHotEncoder(categories=[values], sparse_output=False), FunctionTransformer(lambda x: x * HALF)
        )

    steps = ["I", "II", "III", "IV"]
    stages = OrdinalEncoder(categories=[steps], handle_unknown="use_encoded_value", unknown_value=np.nan)
    flat = FunctionTransformer(lambda x: np.array(x.iloc[:, 0].tolist(), dtype=float))
    twin = ColumnTransformer(
        [
            ("age", scaled(20, 100), ["age"]),
            ("dose", FunctionTransformer(logged), ["dose"]),
            ("smoker", scaled(0, 1), ["smoker"]),
            ("site", one_hot(["north", "south", "east", "(other)", "(missing)"]), ["site"]),
            ("code", one_hot([1.0, 2.5, 4.0]), ["code"]),
            ("stage", make_pipeline(stages, FunctionTransformer(lambda x: marked(x / 3))), ["stage"]),
            ("seen", make_pipeline(scaled(0, 7305), FunctionTransformer(marked)), ["seen"]),
            ("embedding", make_pipeline(flat, FunctionTransformer(lambda x: x * HALF / 2)), ["embedding"]),
            ("picture", make_pipeline(flat, FunctionTransformer(lambda x: x / 255 / 2)), ["picture"]),
        ]
    )  # fmt: skip
    expected = twin.fit_transform(frame).astype(np.float32)
    kept = [place for place, name in enumerate(SCHEMA.feature_names) if not name.startswith("note")]
    np.testing.assert_array_equal(mapped(typed()).rows[:, kept], expected)


def test_the_transformer_takes_frames_and_is_never_fitted() -> None:
    table, transformer = typed(), SCHEMA.transformer()
    expected = mapped(table).rows
    np.testing.assert_array_equal(transformer.transform(table.to_pandas()), expected)
    np.testing.assert_array_equal(make_pipeline(transformer).fit(table.slice(0, 5)).transform(table), expected)
    assert list(transformer.get_feature_names_out()) == list(SCHEMA.feature_names)


def test_a_unit_is_a_unit_for_every_kind() -> None:
    """The whole range, two categories, two texts without common pieces, right angles, opposite pictures."""
    assert distance(one("{kind: numeric, bounds: [-5, 15]}", [-5, 15])) == 1.0
    assert distance(one("{kind: numeric, bounds: [1, 64], scale: log}", [1, 64])) == 1.0
    assert distance(one("{kind: boolean}", [True, False])) == 1.0
    assert distance(one("{kind: category, values: [a, b, c]}", ["c", "a"])) == pytest.approx(1.0, abs=1e-7)
    assert distance(one("{kind: ordinal, values: [a, b, c]}", ["c", "a"])) == 1.0
    assert distance(one("{kind: date, bounds: [2000-01-01, 2001-01-01]}", ["2000-01-01", "2001-01-01"])) == 1.0
    assert distance(one("{kind: text, width: 4096}", ["abcd", "wxyz"])) == pytest.approx(1.0, abs=1e-6)
    assert distance(one("{kind: vector, width: 2, norm: 3}", [[3, 0], [0, 3]])) == pytest.approx(1.0, abs=1e-7)
    assert distance(one("{kind: vector, width: 2, bounds: [-1, 1]}", [[-1, -1], [1, 1]])) == pytest.approx(1.0)
    assert distance(one("{kind: image, shape: [3, 3, 1]}", [[0] * 9, [255] * 9])) == pytest.approx(1.0)


def test_weight_multiplies_every_distance_of_a_column() -> None:
    for column, values in (
        ("kind: numeric, bounds: [0, 10]", [1, 9]),
        ("kind: category, values: [a, b], missing: indicator", ["a", None]),
        ("kind: text, width: 32", ["abc", "abd"]),
        ("kind: image, shape: [2]", [[0, 9], [90, 100]]),
    ):
        plain, heavy = one(f"{{{column}}}", values), one(f"{{{column}, weight: 4}}", values)
        np.testing.assert_array_equal(heavy, 4 * plain)


def test_a_marked_missing_value_is_one_unit_from_both_ends() -> None:
    """√(½² + ¾) = 1 for numbers, and one value more for categories."""
    for column, ends in (
        ("kind: numeric, bounds: [0, 10]", (0, 10)),
        ("kind: boolean", (False, True)),
        ("kind: boolean", ("no", "yes")),
        ("kind: ordinal, values: [x, y, z]", ("x", "z")),
        ("kind: category, values: [x, y, z]", ("x", "y")),
        ("kind: text, width: 8", ("abc", "xyz")),
        ("kind: image, shape: [2]", ([0, 0], [255, 255])),
        ("kind: vector, width: 2, norm: 1", ([0, 1], [1, 0])),
    ):
        for end in ends:
            rows = one(f"{{{column}, missing: indicator}}", [end, None])
            assert distance(rows) == pytest.approx(1.0, abs=1e-6), column
        nothing = one(f"{{{column}, missing: indicator}}", [None], pa.null())
        np.testing.assert_array_equal(nothing, rows[1:], "a column without a value")


def test_a_missing_value_can_stand_for_a_declared_one() -> None:
    for column, value, kind in (
        ("kind: numeric, bounds: [1, 16], scale: log, missing: {value: 4}", 4, pa.float64()),
        ("kind: category, values: [1, 2], missing: {value: 2}", 2, pa.int64()),
        ("kind: ordinal, values: [x, y, z], missing: {value: y}", "y", pa.string()),
        ("kind: boolean, missing: {value: true}", True, pa.bool_()),
        ("kind: date, bounds: [2000-01-01, 2001-01-01], missing: {value: 2000-05-06}", "2000-05-06", pa.string()),
    ):
        rows = one(f"{{{column}}}", [value, None], kind)
        np.testing.assert_array_equal(rows[0], rows[1])


def test_values_that_mean_missing() -> None:
    column = "{kind: numeric, bounds: [1, 9], missing: indicator, missing_values: [0, -9]}"
    np.testing.assert_array_equal(one(column, [0, -9, None])[0], one(column, ["0.0", "-9", ""])[2])
    days = "{kind: date, bounds: [2000-01-01, 2001-01-01], missing: indicator, missing_values: [2000-06-01]}"
    assert one(days, ["2000-06-01", "2000-06-02"])[:, 1].tolist() == pytest.approx([0.75**0.5, 0.0])
    codes = "{kind: category, values: [1, 2, 3.5], missing: indicator, missing_values: [0, 3]}"
    for cells in ([0.0, 1.0, 3.0, 3.5], ["0", "1", "3.0", "3.5"]):
        assert one(codes, cells)[:, 3].tolist() == [np.float32(HALF), 0.0, np.float32(HALF), 0.0]
    words = "{kind: category, values: [a, NA], missing: indicator, missing_values: [z]}"
    rows = one(words, ["z", "?", "NA"])
    np.testing.assert_array_equal(rows[0], rows[1])
    assert rows[2].tolist() == [0.0, np.float32(HALF), 0.0], "a declared value is that value"


def test_a_number_among_the_missing_words_means_missing_in_text_and_in_numbers() -> None:
    column = "{kind: numeric, bounds: [0, 1], missing: indicator}"
    schema = Schema.from_text(f"likeset: schema\nversion: 1\nmissing_words: ['-999']\ncolumns:\n  x: {column}\n")
    for values in (["-999", "-999.0"], [-999, -999]):
        rows = mapped(pa.table({"x": values}), schema).rows
        np.testing.assert_array_equal(rows, np.array([[0.5, math.sqrt(0.75)]] * 2, dtype=np.float32))
    column = "{kind: category, values: [1, 2, 3], missing: indicator}"
    schema = Schema.from_text(f"likeset: schema\nversion: 1\nmissing_words: ['2']\ncolumns:\n  x: {column}\n")
    for numbers in (["1", "2"], [1, 2], [1.0, 2.0]):
        rows = mapped(pa.table({"x": numbers}), schema).rows
        assert rows[:, -1].tolist() == [0.0, np.float32(HALF)], "among declared numbers too"


def test_clipping_brings_to_the_bounds() -> None:
    assert one("{kind: numeric, bounds: [0, 4], outside: clip}", [-3, 1, 9])[:, 0].tolist() == [0.0, 0.25, 1.0]
    assert one("{kind: numeric, bounds: [1, 4], scale: log, outside: clip}", [-3, 2, 9])[:, 0].tolist() == [
        0.0,
        0.5,
        1.0,
    ]
    dates = one("{kind: date, bounds: [2000-01-01, 2000-01-05], outside: clip}", ["1999-01-01", "2000-01-02"])
    assert dates[:, 0].tolist() == [0.0, 0.25]
    shrunk = one("{kind: vector, width: 2, norm: 1, outside: clip}", [[30, 40], [0.6, 0.8]])
    np.testing.assert_allclose(shrunk[0], shrunk[1], rtol=1e-6)


def test_unknown_categories() -> None:
    assert one("{kind: category, values: [a, b], unknown: other}", ["q"]).tolist() == [[0, 0, np.float32(HALF)]]
    assert one("{kind: category, values: [a, b], unknown: nothing}", ["q"]).tolist() == [[0, 0]]


def test_types_of_one_number_give_one_result() -> None:
    column = "{kind: numeric, bounds: [0, 10]}"
    expected = np.float32(0.03)
    values: Any
    for values, kind in (
        ([0.3], pa.float64()),
        (["0.3"], pa.large_string()),
        (["0.3"], pa.string_view()),
        ([decimal.Decimal("0.3")], pa.decimal128(5, 3)),
        ([decimal.Decimal("0.3")], pa.decimal256(40, 20)),
    ):
        assert one(column, values, kind)[0, 0] == expected, kind
    for values, kind in (([3], pa.uint8()), ([3], pa.int64()), ([3.0], pa.float32()), (["+3e0"], pa.string())):
        assert one(column, values, kind)[0, 0] == np.float32(0.3), kind


def test_types_of_one_day_give_one_result() -> None:
    column = "{kind: date, bounds: [2000-01-01, 2000-01-05]}"
    schema = Schema.from_text(f"likeset: schema\nversion: 1\ncolumns:\n  x: {column}\n")
    moment = pa.array(np.array(["2000-01-03T17:30:00"], dtype="datetime64[s]"))
    for kind in (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns", "UTC"), pa.date32(), pa.date64()):
        cells = moment.cast(kind, safe=False)
        assert mapped(pa.table({"x": cells}), schema).rows[0, 0] == 0.5, kind
    for text in ("2000-01-03", "2000-01-03T23:59", " 2000-01-03 "):
        assert one(column, [text])[0, 0] == 0.5
    assert one("{kind: date, bounds: [2000-01-01, 2000-01-05], format: '%d.%m.%Y'}", ["3.1.2000"])[0, 0] == 0.5


@pytest.mark.parametrize(
    ("column", "good", "bad", "words"),
    [
        ("kind: numeric, bounds: [0, 9]", "1", "4.5 kg", "is not a finite number; has letters"),
        ("kind: numeric, bounds: [0, 9]", "1", "1,5", "is not a finite number; decimal commas are not read"),
        ("kind: numeric, bounds: [0, 9]", "1", "-inf", "is not a finite number"),
        ("kind: numeric, bounds: [0, 9]", 1.0, math.inf, "is not a finite number"),
        ("kind: numeric, bounds: [0, 9], outside: clip", 1.0, math.inf, "is not a finite number"),
        ("kind: numeric, bounds: [0, 9]", 1.0, math.nan, "has no value"),
        ("kind: numeric, bounds: [0, 9]", "1", "NaN", "has no value"),
        ("kind: numeric, bounds: [0, 9]", 1, 10, "is outside the declared bounds 0 to 9"),
        ("kind: numeric, bounds: [1, 9], scale: log", 1, -1, "is outside the declared bounds 1 to 9"),
        ("kind: boolean", "yes", "perhaps", "is none of the words for true and false"),
        ("kind: boolean", 1, 2, "is none of the words for true and false"),
        ("kind: boolean", True, None, "has no value"),
        ("kind: category, values: [a, b]", "a", "A", "is none of the declared values"),
        ("kind: category, values: [1, 2]", "1", "zz", "is not a number, as the declared values are"),
        ("kind: category, values: [1, 2]", 1, 3, "is none of the declared values"),
        ("kind: ordinal, values: [a, b]", "a", "c", "is none of the declared values"),
        ("kind: ordinal, values: [a, b]", "a", None, "has no value"),
        ("kind: date, bounds: [2000-01-01, 2001-01-01]", "2000-01-01", "2000-02-30", "is not a date"),
        ("kind: date, bounds: [2000-01-01, 2001-01-01]", "2000-01-01", "1.2.2000", "is not a date"),
        ("kind: date, bounds: [2000-01-01, 2001-01-01]", "2000-01-01", "2001-01-02", "is outside the declared bounds"),
        ("kind: text, width: 4", "a", None, "has no value"),
        ("kind: vector, width: 2, norm: 1", [1, 0], [1, 0, 0], "is not a list of 2 finite numbers"),
        ("kind: vector, width: 2, norm: 1", [1.0, 0.0], [math.nan, 0.0], "is not a list of 2 finite numbers"),
        ("kind: vector, width: 2, norm: 1", [1.0, 0.0], [None, 0.0], "is not a list of 2 finite numbers"),
        ("kind: vector, width: 2, norm: 1", [1.0, 0.0], [1.0, 1.0], "is outside the declared norm 1"),
        ("kind: vector, width: 2, norm: 1", "1 0", "1 x", "is not a list of 2 finite numbers"),
        ("kind: vector, width: 2, norm: 1", [1.0, 0.0], None, "has no value"),
        ("kind: image, shape: [2]", [0, 255], [0, 256], "is outside the declared bounds of its entries"),
        ("kind: image, shape: [2]", [0, 255], [-1, 0], "is outside the declared bounds of its entries"),
    ],
)  # fmt: skip
def test_the_first_bad_cell_is_named_by_place_and_column_without_its_value(
    column: str, good: Any, bad: Any, words: str
) -> None:
    found = complaint(f"{{{column}}}", [good, good, bad, good, bad])
    assert found.startswith("t.csv, row 3, column 'x': ")
    assert words in found
    assert isinstance(bad, float | int | list) or bad is None or bad not in found.split("'x': ")[1].split()


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("kind: numeric, bounds: [0, 9]", pa.date32()),
        ("kind: category, values: [a, b]", pa.int64()),
        ("kind: text, width: 4", pa.int64()),
        ("kind: vector, width: 2, norm: 1", pa.int64()),
        ("kind: date, bounds: [2000-01-01, 2001-01-01]", pa.int64()),
    ],
)
def test_a_column_of_another_type_is_refused(column: str, kind: pa.DataType) -> None:
    assert "t.csv, row 1, column 'x': is not" in complaint(f"{{{column}}}", [1], kind)
    assert "has no value" in complaint(f"{{{column}}}", [None], kind)


def test_a_missing_or_double_column_is_named() -> None:
    table = typed()
    names = ["Age" if name == "age" else name for name in table.column_names]
    with pytest.raises(BadTable, match=r"column 'age': is missing, but the schema declares it; did you mean Age\?"):
        mapped(table.rename_columns(names))
    doubled = table.append_column("age", table["age"])
    with pytest.raises(BadTable, match="column 'age': is there more than once"):
        mapped(doubled)


def test_labels() -> None:
    def labels(label: str, values: Any) -> NDArray[Any]:
        text = f"likeset: schema\nversion: 1\ncolumns:\n  x: {{kind: boolean}}\nlabel: {{column: y, {label}}}\n"
        return mapped(pa.table({"x": [True] * len(values), "y": values}), Schema.from_text(text)).labels

    values: Any
    for values in ([0, 1], ["0", "1.0"], [False, True]):
        found = labels("kind: category, values: [0, 1]", values)
        assert found.dtype == np.int64
        assert found.tolist() == [0, 1]
        assert labels("kind: category", values).tolist() == ["0", "1"]
    assert labels("kind: category", ["a", " b"]).tolist() == ["a", "b"]
    assert labels("kind: number", ["1.5", "2"]).tolist() == [1.5, 2.0]
    assert labels("kind: text", ["1.0", "b c"]).tolist() == ["1.0", "b c"]
    for label, values, words in (
        ("kind: category, values: [0, 1]", [0, 2], "is none of the declared values of the label: 0, 1"),
        ("kind: number", ["1", "x"], "is not a finite number"),
        ("kind: number", ["1", ""], "has no label"),
        ("kind: text", ["1", None], "has no label"),
        ("kind: category", ["1", None], "has no label"),
    ):
        with pytest.raises(BadTable, match=f"row 2, column 'y': {words}"):
            labels(label, values)


def test_a_target_may_have_no_labels() -> None:
    table = typed().drop_columns(["ill", "patient"])
    found = SCHEMA.map(table, table="target", locate=place, labels=False)
    assert len(found.labels) == 0
    assert found.rows.tobytes() == mapped(typed()).rows.tobytes()
    with pytest.raises(BadTable, match="column 'ill': is missing"):
        mapped(table)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1))
def test_the_logarithm_is_a_logarithm(values: list[float]) -> None:
    np.testing.assert_allclose(log2(np.array(values)), np.log2(values), rtol=1e-15, atol=2e-15)


@pytest.mark.parametrize(
    ("text", "by_letters", "length", "counts"),
    [
        ("abab", True, 3, [1, 1, 1, 1]),  # " ab", "aba", "bab", "ab "
        ("aaaa", True, 3, [1, 1, 2]),  # " aa", twice "aaa", "aa "
        ("aaaa", True, 1, [2, 4]),  # two blanks
        ("中中", True, 2, [1, 1, 1]),  # characters, not bytes
        ("a", True, 4, []),
        ("a b a b", False, 1, [2, 2]),
        ("a b a b", False, 2, [1, 2]),
        ("a-b c", False, 1, [1, 1]),
        ("a b", False, 3, []),
        ("", False, 1, []),
        (None, True, 1, [1]),  # one blank
    ],
)
def test_pieces_are_counted(text: str | None, by_letters: bool, length: int, counts: list[int]) -> None:
    found = count_pieces(pa.array([text], pa.string()), width=2**16, letters=by_letters, length=length)
    assert sorted(found[found > 0].tolist()) == counts


def test_case_blanks_and_composition_do_not_count() -> None:
    for column in ("{kind: text, width: 64}", "{kind: text, width: 64, pieces: words, length: 2}"):
        rows = one(column, ["\u00e9 ab c", " E\u0301\tAB \n C", "c ab \u00e9"])
        assert rows[0].tobytes() == rows[1].tobytes() != rows[2].tobytes()


def test_long_texts_are_cut_into_shares_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["ab cd " * (place % 7) + "x" for place in range(50)]
    whole = one("{kind: text, width: 8}", texts)
    monkeypatch.setattr("likeset.tables.columns.CHUNK", 40)
    assert one("{kind: text, width: 8}", texts).tobytes() == whole.tobytes()


def test_the_places_of_pieces_never_change() -> None:
    """Owners with another release, of likeset or scikit-learn, must get the same features."""
    pieces = [" he", "hea", "ear", "art", "rt "]
    places = [12, 13, 28, 36, 53]
    assert sorted(abs(int(murmurhash3_32(piece, seed=0))) % 64 for piece in pieces) == places
    assert np.flatnonzero(one("{kind: text, width: 64}", ["heart"])[0]).tolist() == places


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


# Typed columns and text: the same bits, and the same refusals.

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


def test_typed_columns_give_the_bits_of_the_same_cells_in_text() -> None:
    table = pa.table(_GOOD)
    typed = _SCHEMA.map(table, table="rows", locate=str)
    words = {name: [str(cell).lower() for cell in table.column(name).to_pylist()] for name in table.schema.names}
    written = _SCHEMA.map(pa.table(words), table="rows", locate=str)
    columns = _SCHEMA.map(table, table="rows", locate=str, by_columns=True)
    assert typed.rows.tobytes() == written.rows.tobytes() == columns.rows.tobytes()
    assert typed.labels.tolist() == written.labels.tolist()
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
def test_a_bad_cell_of_a_typed_column_is_refused(column: str, cells: Any) -> None:
    table = pa.table({**_GOOD, column: cells})
    with pytest.raises(BadTable) as caught:
        _SCHEMA.map(table, table="rows", locate=lambda offset: f"row {offset}")
    assert (caught.value.place, caught.value.column) == ("row 1", column)
