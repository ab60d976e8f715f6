"""Rows of one id: how many there are at most, which of them take part, and that no pass goes around that."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chance import examples
from likeset.errors import BadDocument, BadTable, InvalidArgument
from likeset.geometry.offers import Drawing
from likeset.tables import cells, scan
from likeset.tables.profile import Inspection
from likeset.tables.scan import FirstPass, OfferedScan, SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources import Source, open_source

TEXT = """
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 1000]}
  note: {kind: text, width: 4}
text_bytes: 5
id: {column: who, keep: 2}
"""
SCHEMA = Schema.from_text(TEXT)
IDS = [7, 7, 7, 7, 8, 9, 9, 9, 9, 9, 10, 10] * 5
KEY = 11


def table(ids: list[object], *, long: int | None = None) -> pa.Table:
    """Each row has its number for an age; one may have a text that is too long."""
    notes = ["longer" if row == long else "short" for row in range(len(ids))]
    return pa.table({"who": ids, "age": np.arange(len(ids)), "note": notes})


def first_pass(path: Path, *, schema: Schema = SCHEMA, block_rows: int = 7) -> tuple[SourceScan, FirstPass]:
    scan = SourceScan(open_source(str(path)), schema, labelled=False, block_rows=block_rows)
    return scan, scan.first_pass(keep_key=KEY)


def written(folder: Path, rows: pa.Table, name: str) -> Path:
    (pq.write_table if name.endswith("parquet") else pa_csv.write_csv)(rows, folder / name)
    return folder / name


def test_the_same_rows_are_kept_of_text_numbers_and_dictionaries(tmp_path: Path) -> None:
    """20 rows of 7, 5 of 8, 25 of 9 and 10 of 10: two of each."""
    padded = [f" {number} " for number in IDS]
    kinds = {
        "a.csv": table(list(IDS)),
        "b.parquet": table(list(IDS)),
        "c.parquet": table(list(padded)),
        "d.parquet": table(pa.array(padded).dictionary_encode()),
    }
    kept = []
    for name, rows in kinds.items():
        for block_rows in (7, 64):
            _, seen = first_pass(written(tmp_path, rows, name), block_rows=block_rows)
            assert seen.kept is not None
            kept.append(seen.kept.tolist())
    assert all(rows == kept[0] for rows in kept)
    assert Counter(IDS[row] for row in kept[0]) == {7: 2, 8: 2, 9: 2, 10: 2}


def test_rows_without_an_id_are_one_persons(tmp_path: Path) -> None:
    ids = ["a", "NA", "", None, "?", "b", "a", "a"]
    _, seen = first_pass(written(tmp_path, table(list(ids)), "rows.parquet"))
    assert seen.kept is not None
    assert sorted("a" if ids[row] == "a" else "b" if ids[row] == "b" else "-" for row in seen.kept) == list("--aab")


def test_only_kept_rows_are_drawn_fetched_and_passed_by(tmp_path: Path) -> None:
    scan, seen = first_pass(written(tmp_path, table(list(IDS), long=3), "rows.csv"))
    assert seen.kept is not None
    assert seen.sample is None
    expected = [row for row in seen.kept.tolist() if row != 3]
    kept = OfferedScan.after(seen, scan, withhold=True)
    assert kept.row_count == len(expected) == seen.rows_taking_part()
    (drawn,) = kept.draw(Drawing(100, key=5))
    assert sorted((drawn.records.rows[:, 0] * 1000).round().astype(int).tolist()) == expected
    fetched = kept.fetch(drawn.row_numbers).rows
    assert fetched.tolist() == drawn.records.rows.tolist()
    assert sum(len(block.rows) for _, block in kept.blocks()) == len(expected)


def test_rows_are_drawn_also_where_every_row_is_kept(tmp_path: Path) -> None:
    every = Schema.from_text(TEXT.replace("keep: 2", "keep: 25"))
    scan, seen = first_pass(written(tmp_path, table(list(IDS)), "rows.csv"), schema=every)
    (drawn,) = OfferedScan.after(seen, scan, withhold=True).draw(Drawing(100, key=5))
    assert sorted(drawn.row_numbers.tolist()) == list(range(60))


def test_where_rows_keep_their_numbers_those_that_are_not_kept_are_absent(tmp_path: Path) -> None:
    scan, seen = first_pass(written(tmp_path, table(list(IDS)), "rows.csv"))
    assert seen.kept is not None
    holed = OfferedScan.after(seen, scan, withhold=False)
    assert sorted([*holed.absent_rows.tolist(), *seen.kept.tolist()]) == list(range(60))
    with pytest.raises(InvalidArgument, match=r"^drawings"):
        holed.draw(Drawing(3, key=5))


def test_no_pass_goes_around_it(tmp_path: Path) -> None:
    scan, _ = first_pass(written(tmp_path, table(list(IDS)), "rows.csv"))
    with pytest.raises(InvalidArgument, match="keep_key: "):
        scan.first_pass()
    with pytest.raises(InvalidArgument, match="keep = 2: allows no draw from all rows"):
        scan.draw(Drawing(3, key=5))


def test_a_limit_of_rows_may_stand_beside_it_and_holds(tmp_path: Path) -> None:
    """rows_per_id is what a file may have, keep what takes part: the smaller one is the unit."""
    path = written(tmp_path, table(list(IDS)), "rows.csv")
    both = Schema.from_text(TEXT.replace("keep: 2", "rows_per_id: 25, keep: 2"))
    assert (both.rows_per_unit, both.most_rows_per_id, SCHEMA.rows_per_unit, SCHEMA.most_rows_per_id) == (
        2,
        25,
        2,
        None,
    )
    assert first_pass(path, schema=both)[1].most_rows == 25
    few = Schema.from_text(TEXT.replace("keep: 2", "rows_per_id: 1, keep: 2"))
    assert few.rows_per_unit == 1
    for schema, ok in ((SCHEMA, True), (both, True), (few, False)):
        inspection = Inspection(schema)
        inspection.add(table(list(IDS)), table="t", locate=str)
        assert inspection.ok is ok
    with pytest.raises(BadDocument, match="keep"):
        Schema.from_text(TEXT.replace("keep: 2", "keep: 0"))


def test_ids_that_are_neither_text_nor_numbers_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, table([[1], [2]]), "rows.parquet")
    for declared in (SCHEMA, Schema.from_text(TEXT.replace("keep", "rows_per_id"))):
        with pytest.raises(BadTable, match="ids must be text or numbers"):
            first_pass(path, schema=declared)
        with pytest.raises(BadTable, match=r"^mine, column 'who': ids must be text or numbers"):
            Inspection(declared).add(table([[1], [2]]), table="mine", locate=str)


def test_schemas_that_do_not_use_it_keep_their_digest() -> None:
    """As it was before keep was known; and keep itself is part of what parties agree on."""
    old = Schema.from_text(TEXT.replace("keep: 2", "rows_per_id: 2"))
    assert old.digest == OLD_DIGEST
    assert (
        Schema.from_text(TEXT.replace(", keep: 2", "")).digest
        == Schema.from_text(TEXT.replace("keep: 2", "rows_per_id: 1")).digest
    )
    assert len({old.digest, SCHEMA.digest, Schema.from_text(TEXT.replace("keep: 2", "keep: 3")).digest}) == 3
    assert Schema.from_text(SCHEMA.to_yaml()) == SCHEMA


OLD_DIGEST = "e2a17a1dd7385d8a377589b42e5e54ad8571241ec1974fa4eb0c1734a9e58d2e"


MIXED = ["a", "b", "a", " a ", None, "NA", "", "c", "c"]
KINDS: dict[str, tuple[list[Any], pa.DataType, int]] = {
    "text": (MIXED, pa.string(), 3),
    "large text": (MIXED, pa.large_string(), 3),
    "views of text": (MIXED, pa.string_view(), 3),
    "dictionary": (MIXED, pa.dictionary(pa.int8(), pa.string()), 3),
    "numbers": ([1, 2, 2, None], pa.int64(), 2),
    "days": ([1, 1, 2], pa.date32(), 2),
    "nothing": ([], pa.string(), 1),
}


def counted(source: Source, column: str, *, missing: tuple[str, ...]) -> int:
    ids = scan.IdCount(column, missing)
    for block in source.blocks(ids.columns, rows=2):
        ids.add(block)
    return ids.most_rows()


@pytest.mark.parametrize("few", [0, 3, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_every_type(kind: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows of a, blanks aside; three without an id, who could be one person."""
    monkeypatch.setattr(cells, "_MOST_WAITING", few)
    values, type_of, most = KINDS[kind]
    with open_source(pa.table({"id": pa.array(values, type_of), "x": list(range(len(values)))})) as source:
        assert counted(source, "id", missing=("", "NA")) == most


@settings(max_examples=examples(30))
@given(ids=st.lists(st.sampled_from(["a", "b ", "c", "", "d"]), min_size=1, max_size=40))
def test_it_counts_as_a_naive_twin(ids: list[str]) -> None:
    with open_source(pa.table({"id": ids})) as source:
        assert counted(source, "id", missing=("",)) == max(Counter(one.strip() for one in ids).values())
