"""Labels from elsewhere are held against the schema: whatever an owner reads by it is right, and little else."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from chance import examples
from likeset.errors import BadDocument, BadTable
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import MOST_LETTERS, Schema

CANARY = "canary-81724"
WORDS, NUMBERS = "values: [low, high]", "values: [0, 2.5, -3]"
DECLARED = [WORDS, NUMBERS, "values: [1, 2]", "kind: category", "kind: text", "kind: number"]
MATCHED = [
    f"{WORDS}, match: true",
    f"{NUMBERS}, match: true",
    "kind: number, bounds: [-5, 5], match: true",
]


def schema(label: str | None) -> Schema:
    ending = "" if label is None else f"label: {{column: y, {label}}}\n"
    return Schema.from_text(f"likeset: schema\nversion: 1\ncolumns:\n  x: {{kind: boolean}}\n{ending}")


def read(declared: Schema, cells: Any) -> tuple[NDArray[Any], pa.Table]:
    """Labels as an owner reads them, and the records that go with them."""
    table = pa.table({"x": [True] * len(cells), "y": cells})
    mapped = declared.map(table, table="rows", locate=str)
    return mapped.labels, DeclaredRecords(declared).of(table)


CELLS: dict[str, st.SearchStrategy[Any]] = {
    WORDS: st.sampled_from(["low", " high", "high "]),
    NUMBERS: st.sampled_from(["0", "2.50", "-3", " 0.0", "-0"]),
    "values: [1, 2]": st.sampled_from(["1", "2.0", "+1"]),
    "kind: category": st.sampled_from(["1", "2.0", "low", "ä b", "1e3"]),
    "kind: text": st.text(min_size=1, max_size=9).map(lambda text: f"w{text}"),
    "kind: number": st.floats(-5, 5).map(str),
}


@settings(max_examples=examples(40))
@given(data=st.data(), label=st.sampled_from([*DECLARED, *MATCHED]))
def test_whatever_owners_read_by_the_schema_is_right(data: st.DataObject, label: str) -> None:
    kind = "kind: number" if "bounds" in label else label.removesuffix(", match: true")
    declared = schema(label)
    labels, records = read(declared, data.draw(st.lists(CELLS[kind], min_size=1, max_size=6)))
    found = DeclaredRecords(declared)
    assert found.label_fault(labels) is None
    inside = found.labels_in(records)
    assert (inside is not None) == ("match" in label)
    if inside is not None:
        assert np.array_equal(inside, labels)
    letters = found.label_letters
    if labels.dtype.kind == "U" and letters is not None:
        assert np.strings.str_len(labels).max() <= letters


def test_typed_columns_give_labels_that_are_right() -> None:
    for label, cells in (
        (f"{NUMBERS}, match: true", pa.array([0, 0, -3], pa.int16())),
        (f"{NUMBERS}, match: true", pa.array([2.5, 0, -3], pa.float32())),
        (f"{WORDS}, match: true", pa.array(["low", "high"], pa.string()).dictionary_encode()),
        ("kind: number, bounds: [-5, 5], match: true", pa.array([0.1, 2.7], pa.float32())),
        ("kind: number, bounds: [-5, 5], match: true", pa.array([1, 2], pa.uint8())),
    ):
        declared = schema(label)
        labels, records = read(declared, cells)
        assert DeclaredRecords(declared).label_fault(labels) is None
        assert np.array_equal(DeclaredRecords(declared).labels_in(records), labels)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "labels", "reason"),
    [
        (None, np.array(["low"]), "nobody declared"),
        (WORDS, np.array(["low", CANARY]), "none of the declared values"),
        (WORDS, np.array(["low", ""]), "none of the declared values"),
        (WORDS, np.array(["low", "LOW"]), "none of the declared values"),
        (WORDS, np.array(["\x00low"]), "none of the declared values"),
        (WORDS, np.array([0, 1]), "not text"),
        (WORDS, np.array([True]), "not text"),
        (NUMBERS, np.array([0, 7]), "none of the declared values"),
        (NUMBERS, np.array([0.0, np.nan]), "none of the declared values"),
        (NUMBERS, np.array(["0"]), "not numbers"),
        (NUMBERS, np.array([False]), "not numbers"),
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
    found = DeclaredRecords(schema(label)).label_fault(labels)
    assert found is not None
    assert reason in found
    assert CANARY not in found


@pytest.mark.parametrize("kind", ["text", "category"])
def test_a_label_that_no_message_can_hold_is_found_in_the_owners_file(kind: str) -> None:
    declared = schema(f"kind: {kind}")
    longest = "ä" * MOST_LETTERS
    assert read(declared, ["a", longest])[0].tolist() == ["a", longest]
    with pytest.raises(BadTable, match="more than 1000 letters") as caught:
        read(declared, ["a", longest + CANARY])
    assert CANARY not in str(caught.value)
    with pytest.raises(BadDocument, match="more than 1000 letters"):
        schema(f"values: [a, {longest}ä]")
