"""What a schema file may say, and what is said about mistakes in it; digests; names."""

import pytest
from schema_samples import SCHEMA, TEXT, typed

import likeset
from likeset.errors import BadDocument
from likeset.tables.schema import Schema

ONE = "columns: {x: {kind: boolean}}\n"
HEAD = "likeset: schema\nversion: 1\n"


def complaint(text: str) -> str:
    with pytest.raises(BadDocument) as caught:
        Schema.from_text(text, name="schema.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("{kind: numeric, bonds: [0, 1], bounds: [0, 1]}", "columns.x.bonds: is not a field here; did you mean bound"),
        ("{kind: numeric}", "columns.x.bounds: is missing; add it"),
        ("{kind: numerical, bounds: [0, 1]}", "did you mean numeric?"),
        ("{kind: numeric, bounds: [1, 0]}", "columns.x.bounds: the lower bound must come first"),
        ("{kind: numeric, bounds: [1]}", "columns.x.bounds"),
        ("{kind: numeric, bounds: [0, .inf]}", "columns.x.bounds.2: must be a finite number"),
        ("{kind: numeric, bounds: [-1.7e308, 1.7e308]}", "columns.x.bounds: the bounds are too far apart"),
        ("{kind: numeric, bounds: [0, 1], scale: log}", "columns.x: scale: log needs a lower bound above 0"),
        ("{kind: numeric, bounds: [0, 1], scale: logg}", "columns.x.scale: must be linear or log; did you mean log?"),
        ("{kind: numeric, bounds: [0, 1], weight: 0}", "columns.x.weight: must be greater than 0"),
        ("{kind: numeric, bounds: [0, 1], weight: true}", "columns.x.weight: must be a number"),
        ("{kind: numeric, bounds: [0, 1], missing: indicater}", "columns.x.missing: must be refuse, indicator or"),
        ("{kind: numeric, bounds: [0, 1], missing: {value: 2}}", "the value must be a number within the bounds"),
        ("{kind: numeric, bounds: [0, 1], missing: {valu: 1}}", "columns.x.missing: must be refuse, indicator or"),
        ("{kind: boolean, missing_values: [9]}", "is not a field of boolean, but of numeric, category,"),
        ("{kind: boolean, true_words: [a], false_words: [A]}", "none in common"),
        ("{kind: category, values: []}", "columns.x.values"),
        ("{kind: category, values: [a, a]}", "columns.x.values: a value is given twice"),
        ("{kind: category, values: [1, 1.0]}", "columns.x.values: a value is given twice"),
        ("{kind: category, values: [true, false]}", "use kind: boolean"),
        ("{kind: category, values: [a, 1.5]}", "must be numbers throughout, or words throughout"),
        ("{kind: category, values: [a], missing: {value: b}}", "missing: the value must be one of values"),
        ("{kind: category, values: [a], missing_values: [1]}", "missing_values: must be numbers if values are"),
        ("{kind: category, values: [a], missing_values: [a]}", "cannot both be declared and mean missing"),
        ("{kind: category, values: a}", "columns.x.values: must be a list of numbers or words"),
        ("{kind: ordinal, values: [a]}", "columns.x.values"),
        ("{kind: date, bounds: [2000-01-01, 1999-01-01]}", "the earlier day must come first"),
        ("{kind: date, bounds: [2000-01-01, 2000-02-30]}", "a day is written as year-month-day"),
        ("{kind: date, bounds: [2000-01-01, 2001-01-01], format: '%d %B %Y'}", "format: use iso, or"),
        ("{kind: date, bounds: [2000-01-01, 2001-01-01], format: '%d'}", "format: must name day, month and year"),
        ("{kind: date, bounds: [2000-01-01, 2001-01-01], missing: {value: 1999-12-31}}", "a day within the bounds"),
        ("{kind: date, bounds: [2000-01-01, 2001-01-01], missing: {value: 2001-01-02}}", "a day within the bounds"),
        ("{kind: text, width: 0}", "columns.x.width"),
        ("{kind: vector, width: 3}", "needs either bounds of its entries or the largest norm"),
        ("{kind: vector, width: 3, norm: 1, bounds: [0, 1]}", "needs either bounds of its entries or the largest norm"),
        ("{kind: image, shape: [0, 3]}", "columns.x.shape.1"),
        ("{kind: image, shape: [9999, 9999]}", "at most 1,000,000 numbers"),
        ("3", "columns.x: must be a mapping of fields, such as {field: value}"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_column_is_named_with_its_line(column: str, expected: str) -> None:
    found = complaint(f"{HEAD}columns:\n  ok: {{kind: boolean}}\n  x: {column}\n")
    assert found.startswith("schema.yaml, line 5: columns.x")
    assert expected in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HEAD}columns: {{}}\n", "line 3: columns"),
        (f"{HEAD}", "line 1: columns: is missing; add it"),
        (f"likeset: schema\nversion: 2\n{ONE}", "line 2: version: this likeset reads version 1"),
        (f"likeset: job\nversion: 1\n{ONE}", "line 1: likeset: must be schema"),
        (f"{HEAD}{ONE}lable: {{column: y}}\n", "line 4: lable: is not a field here; did you mean label?"),
        (f"{HEAD}{ONE}label: {{column: x}}\n", "line 4: label: 'x' is among the columns too"),
        (f"{HEAD}{ONE}id: {{column: x}}\n", "an id never leaves an owner"),
        (f"{HEAD}{ONE}id: {{column: y, rows_per_id: 0}}\n", "line 4: id.rows_per_id"),
        (f"{HEAD}{ONE}label: {{column: y, match: true}}\n", "line 4: label: match: true needs"),
        (f"{HEAD}{ONE}label: {{column: y, kind: number, values: [1]}}\n", "values belong to"),
        (f"{HEAD}{ONE}label: {{column: y, bounds: [1, 2]}}\n", "bounds belong to"),
        (f"{HEAD}{ONE}label: {{column: y, values: [{1001 * 'y'}]}}\n", "more than 1000 letters"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_rest_is_named(text: str, expected: str) -> None:
    assert expected in complaint(text)


def test_names_and_columns() -> None:
    assert likeset.Schema is Schema
    assert SCHEMA.columns == tuple(name for name in typed().column_names if name not in ("other", "ill", "patient"))
    assert SCHEMA.label_column == "ill"
    assert SCHEMA.id_column == "patient"
    assert SCHEMA.rows_per_unit == 2
    assert SCHEMA.record_columns == (*SCHEMA.columns, "ill")
    assert SCHEMA.needed_columns == (*SCHEMA.columns, "ill", "patient")
    assert SCHEMA.feature_names[:4] == ("age", "dose", "dose is missing", "smoker")
    assert SCHEMA.feature_names[4:9] == ("site=north", "site=south", "site=east", "site is another", "site is missing")
    assert SCHEMA.feature_names[9:12] == ("code=1", "code=2.5", "code=4")
    bare = Schema.from_text(f"{HEAD}{ONE}")
    assert (bare.label_column, bare.id_column, bare.rows_per_unit, bare.needed_columns) == (None, None, 1, ("x",))


def test_a_label_is_matched_only_if_declared() -> None:
    text = f"{HEAD}{ONE}label: {{column: y, values: [a, b], weight: 3"
    plain, matched = Schema.from_text(f"{text}}}\n"), Schema.from_text(f"{text}, match: true}}\n")
    assert (plain.columns, plain.width) == (("x",), 1)
    assert (matched.columns, matched.feature_names) == (("x", "y"), ("x", "y=a", "y=b"))
    assert matched.record_columns == plain.record_columns == ("x", "y")
    assert matched.describe()[1].weight == 3


def test_a_digest_is_of_the_content_and_of_the_order_of_columns() -> None:
    a = f"{HEAD}columns:\n  x: {{kind: boolean}}\n  y: {{kind: numeric, bounds: [0, 1]}}\n"
    same = "# words\nversion: 1\nlikeset: schema\ncolumns:\n  x:\n    kind: boolean\n    weight: 1\n"
    same += "  y: {bounds: [0.0, 1.0], kind: numeric, scale: linear}\n"
    assert Schema.from_text(a).digest == Schema.from_text(same).digest
    assert len(Schema.from_text(a).digest) == 64
    swapped = f"{HEAD}columns:\n  y: {{kind: numeric, bounds: [0, 1]}}\n  x: {{kind: boolean}}\n"
    others = [
        swapped,
        a.replace("0, 1", "0, 2"),
        a.replace("boolean", "boolean, weight: 2"),
        f"{a}missing_words: ['']\n",
    ]
    assert len({Schema.from_text(text).digest for text in (a, *others)}) == 5


def test_the_digest_of_a_schema_never_changes() -> None:
    """Parties with different releases compare digests: a change here shuts out those who have another one."""
    text = f"{HEAD}columns:\n  x: {{kind: boolean}}\n"
    assert Schema.from_text(text).digest == DIGEST


def test_yaml_is_read_back_as_the_same_schema() -> None:
    assert Schema.from_text(SCHEMA.to_yaml()) == SCHEMA
    assert Schema.from_text(TEXT) == SCHEMA


def test_columns_from_data_are_told() -> None:
    text = f"{HEAD}columns:\n  x: {{kind: boolean}}\n  y: {{kind: numeric, bounds: [0, 1], from_data: true}}\n"
    assert Schema.from_text(text).from_data == ("y",)
    assert Schema.from_text(f"{text}label: {{column: z, values: [1], from_data: true}}\n").from_data == ("y", "z")


DIGEST = "80a7834b4deee671d1a74f6205de613f1312c68664f917e2fd1ce749dda9268e"
