"""How many rows an id has at most: the same in memory and on disk, for ids of every type."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chance import examples
from likeset.errors import BadTable
from likeset.tables import rows_per_id
from likeset.tables.sources import Source, open_source

IDS = ["a", "b", "a", " a ", None, "NA", "", "c", "c"]
KINDS: dict[str, tuple[list[Any], pa.DataType, int]] = {
    "text": (IDS, pa.string(), 3),
    "large text": (IDS, pa.large_string(), 3),
    "views of text": (IDS, pa.string_view(), 3),
    "dictionary": (IDS, pa.dictionary(pa.int8(), pa.string()), 3),
    "numbers": ([1, 2, 2, None], pa.int64(), 2),
    "lists": ([[1, 2], [1, 2], [2, 1]], pa.list_(pa.int8()), 2),
    "nothing": ([], pa.string(), 1),
}


def counted(source: Source, column: str, *, missing: tuple[str, ...]) -> int:
    """By blocks of two rows."""
    with rows_per_id.IdCount(source, column, missing=missing) as ids:
        for block in source.blocks(ids.columns, rows=2):
            ids.add(block)
        return ids.most_rows()


@pytest.mark.parametrize("few", [0, 3, 100], ids=["on disk", "in turns", "in memory"])
@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_every_type(kind: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows of a, blanks aside; three without an id, who could be one person."""
    monkeypatch.setattr(rows_per_id, "_FEW_ROWS", few)
    values, type_of, most = KINDS[kind]
    with open_source(pa.table({"id": pa.array(values, type_of), "x": list(range(len(values)))})) as source:
        assert counted(source, "id", missing=("", "NA")) == most


@settings(max_examples=examples(30))
@given(ids=st.lists(st.sampled_from(["a", "b ", "c", "", "d"]), min_size=1, max_size=40))
def test_it_counts_as_a_naive_twin(ids: list[str]) -> None:
    with open_source(pa.table({"id": ids})) as source:
        assert counted(source, "id", missing=("",)) == max(Counter(one.strip() for one in ids).values())


def test_a_missing_column_is_named() -> None:
    with open_source(pa.table({"id": ["a"]})) as source, pytest.raises(BadTable) as refused:
        counted(source, "idd", missing=())
    assert refused.value.column == "idd"
