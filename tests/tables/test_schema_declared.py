"""What a schema file may say, and what is said about mistakes in it; digests; names."""

import pytest
from schema_samples import SCHEMA, TEXT, typed

import likeset
from likeset.errors import BadDocument
from likeset.tables.schema import Schema
from screens import Screens

ONE = "columns: {x: {kind: boolean}}\n"
HEAD = "likeset: schema\nversion: 1\n"


def complaint(text: str) -> str:
    with pytest.raises(BadDocument) as caught:
        Schema.from_text(text, name="schema.yaml")
    return str(caught.value)


COLUMNS = (
    "{kind: numeric, bonds: [0, 1], bounds: [0, 1]}", "{kind: numeric}", "{kind: numerical, bounds: [0, 1]}",
    "{kind: numeric, bounds: [1, 0]}", "{kind: numeric, bounds: [1]}", "{kind: numeric, bounds: [0, .inf]}",
    "{kind: numeric, bounds: [-1.7e308, 1.7e308]}", "{kind: numeric, bounds: [0, 1], scale: log}",
    "{kind: numeric, bounds: [0, 1], scale: logg}", "{kind: numeric, bounds: [0, 1], weight: 0}",
    "{kind: numeric, bounds: [0, 1], weight: true}", "{kind: numeric, bounds: [0, 1], missing: indicater}",
    "{kind: numeric, bounds: [0, 1], missing: {value: 2}}", "{kind: numeric, bounds: [0, 1], missing: {valu: 1}}",
    "{kind: boolean, missing_values: [9]}", "{kind: boolean, true_words: [a], false_words: [A]}",
    "{kind: category, values: []}", "{kind: category, values: [a, a]}", "{kind: category, values: [1, 1.0]}",
    "{kind: category, values: [true, false]}", "{kind: category, values: [a, 1.5]}",
    "{kind: category, values: [a], missing: {value: b}}", "{kind: category, values: [a], missing_values: [1]}",
    "{kind: category, values: [a], missing_values: [a]}", "{kind: category, values: a}",
    "{kind: ordinal, values: [a]}", "{kind: date, bounds: [2000-01-01, 1999-01-01]}",
    "{kind: date, bounds: [2000-01-01, 2000-02-30]}",
    "{kind: date, bounds: [2000-01-01, 2001-01-01], format: '%d %B %Y'}",
    "{kind: date, bounds: [2000-01-01, 2001-01-01], format: '%d'}",
    "{kind: date, bounds: [2000-01-01, 2001-01-01], missing: {value: 1999-12-31}}",
    "{kind: date, bounds: [2000-01-01, 2001-01-01], missing: {value: 2001-01-02}}", "{kind: text, width: 0}",
    "{kind: vector, width: 3}", "{kind: vector, width: 3, norm: 1, bounds: [0, 1]}", "{kind: image, shape: [0, 3]}",
    "{kind: image, shape: [9999, 9999]}", "3",
)  # fmt: skip


def test_a_mistake_in_a_column_is_named_with_its_line(screens: Screens) -> None:
    start = f"{HEAD}columns:\n  ok: {{kind: boolean}}\n  x: "
    screens.table("messages", {column: complaint(f"{start}{column}\n") for column in COLUMNS})


REST = (
    f"{HEAD}columns: {{}}\n", f"{HEAD}", f"likeset: schema\nversion: 2\n{ONE}", f"likeset: job\nversion: 1\n{ONE}",
    f"{HEAD}{ONE}lable: {{column: y}}\n", f"{HEAD}{ONE}label: {{column: x}}\n", f"{HEAD}{ONE}id: {{column: x}}\n",
    f"{HEAD}{ONE}id: {{column: y, rows_per_id: 0}}\n", f"{HEAD}{ONE}label: {{column: y, match: true}}\n",
    f"{HEAD}{ONE}label: {{column: y, kind: number, values: [1]}}\n",
    f"{HEAD}{ONE}label: {{column: y, bounds: [1, 2]}}\n",
    f"{HEAD}{ONE}label: {{column: y, values: [{1001 * 'y'}]}}\n",
)  # fmt: skip


def test_a_mistake_in_the_rest_is_named(screens: Screens) -> None:
    screens.table("messages", {repr(text[:120]): complaint(text) for text in REST})


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
