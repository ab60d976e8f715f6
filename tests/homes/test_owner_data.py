"""Data sets of an owner: registered, mapped by SQL, and without small groups; what a dry run shows is what leaves."""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from home_world import (
    CANARY,
    SCHEMA,
    SCHEMA_OF_ALL,
    Outside,
    answered,
    approve,
    introduce,
    invite,
    make_owner,
    opened,
    post,
    release_to,
    rows_text,
    terms,
    write_policy,
)

from likeset.errors import BadTable, InvalidArgument
from likeset.geometry.offers import Drawing
from likeset.homes import review
from likeset.homes.checkup import check_data
from likeset.homes.data import Registry, SmallGroup, SmallGroups
from likeset.homes.owner import Owner
from likeset.homes.review import rehearse
from likeset.protocol.terms import Budget, Kernel
from likeset.tables.scan import OfferedScan, SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources import BLOCK_ROWS, open_source

_ANY = {"epsilon": 9.0, "delta": 1e-5, "rows": 99}


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "rows.csv").write_text(rows_text(1))
    return Registry(tmp_path / "data")


def test_what_is_registered_is_what_is_used_whatever_becomes_of_the_files(registry: Registry, tmp_path: Path) -> None:
    added = registry.add("patients", str(tmp_path / "rows.csv"), schema=tmp_path / "schema.yaml")
    (tmp_path / "schema.yaml").write_text("something else")
    found = registry.get("patients")
    assert found.schema.digest == added.schema.digest == SCHEMA_OF_ALL.digest
    assert open_source(found.source).row_count == 60
    assert [one.name for one in registry.for_terms(terms())] == ["patients"]
    assert registry.for_terms(terms(schema_digest="0" * 64)) == []


def test_own_columns_become_declared_ones_by_a_query(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("born,mg,geschlecht,code\n1980,5.5,W,007\n1950,7,M,008\n1990,1,W,test\n")
    columns = (
        "2026 - born AS age, mg AS dose, if(geschlecht = 'W', 'f', 'm') AS sex, if(code = '007', 'yes', 'no') AS ill"
    )
    query = f"sql:SELECT {columns} FROM '{tmp_path / 'own.csv'}' WHERE code <> 'test'"  # noqa: S608
    query = query.replace(",", "," + " " * 255)  # longer than the name of a file can be
    registry.add("own", query, schema=tmp_path / "schema.yaml")
    with open_source(registry.get("own").source) as source:
        assert source.fetch([0, 1], ["age", "sex", "ill"]).to_pylist() == [
            {"age": 46, "sex": "f", "ill": "yes"},
            {"age": 76, "sex": "m", "ill": "no"},
        ]
        assert source.row_count == 2


def test_data_sets_that_cannot_be_used_are_not_registered(registry: Registry, tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    (tmp_path / "short.csv").write_text("age,dose\n1,2\n")
    (tmp_path / "empty.csv").write_text("age,dose,sex,ill\n")
    with pytest.raises(BadTable, match="'sex'"):
        registry.add("short", str(tmp_path / "short.csv"), schema=schema)
    with pytest.raises(BadTable, match="no rows"):
        registry.add("empty", str(tmp_path / "empty.csv"), schema=schema)
    with pytest.raises(BadTable, match="no such file"):
        registry.add("gone", str(tmp_path / "gone.csv"), schema=schema)
    with pytest.raises(InvalidArgument, match=r"^data set"):
        registry.add("a/../b", str(tmp_path / "rows.csv"), schema=schema)
    assert registry.names() == []
    registry.add("patients", str(tmp_path / "rows.csv"), schema=schema)
    with pytest.raises(InvalidArgument, match=r"^data set"):
        registry.add("patients", str(tmp_path / "rows.csv"), schema=schema)
    with pytest.raises(InvalidArgument, match="did you mean patients"):
        registry.get("patient")


GROUPED = Schema.from_text("""\
likeset: schema
version: 1
columns:
  place: {kind: category, values: [x, y], unknown: other, missing: indicator}
  grade: {kind: ordinal, values: [1, 2, 3]}
  born: {kind: numeric, bounds: [0, 100000]}
label: {column: ill}
""")


def grouped(rows: int = 40) -> pa.Table:
    """Row 0 is alone with its place, 1 and 2 share a grade, 3 its label; row 4 has no place at all."""
    places = ["z", "x", "y", "x", None, *("xy"[row % 2] for row in range(5, rows))]
    grades = [3, 1, 1, 3, 2, *(2 + row % 2 for row in range(5, rows))]
    labels = ["b", "b", "b", "c", "b", *("ba"[row % 2] for row in range(5, rows))]
    return pa.table({"place": places, "grade": grades, "born": list(range(rows)), "ill": labels})


@pytest.mark.parametrize(
    ("smallest", "labelled", "withheld"),
    [(1, True, []), (2, True, [0, 3]), (3, True, [0, 1, 2, 3]), (3, False, [0, 1, 2])],
)
def test_rows_with_a_rare_value_are_found(smallest: int, labelled: bool, withheld: list[int]) -> None:
    groups = SmallGroups(GROUPED, smallest=smallest, labelled=labelled)
    for block in open_source(grouped()).blocks(grouped().column_names):
        groups.add(block)
    assert groups.rows().tolist() == withheld


def test_a_scan_without_some_rows_is_the_scan_of_a_table_without_them() -> None:
    """A twin: the same rows removed from the file give the same numbers, draws and records."""
    rows = BLOCK_ROWS + 50
    table, withheld = grouped(rows), np.array([0, 3, 7, BLOCK_ROWS - 1, BLOCK_ROWS, rows - 1])
    stay = np.delete(np.arange(rows), withheld)
    twin = SourceScan(open_source(table.take(pa.array(stay))), GROUPED)
    guarded = OfferedScan(SourceScan(open_source(table), GROUPED), excluded=withheld)
    assert guarded.row_count == twin.row_count == rows - 6
    for one, other in zip(
        guarded.draw(Drawing(30, 5), Drawing(7, 6)), twin.draw(Drawing(30, 5), Drawing(7, 6)), strict=True
    ):
        assert one.row_numbers.tolist() == other.row_numbers.tolist()
        assert one.records.table is not None
        assert one.records.table.equals(other.records.table)
    numbers = np.array([0, 1, 2, 3, 5, BLOCK_ROWS - 5, rows - 7])
    assert guarded.numbers_in_source(numbers).tolist() == stay[numbers].tolist()
    fetched, expected = guarded.fetch(numbers), twin.fetch(numbers)
    assert fetched.table is not None
    assert fetched.table.equals(expected.table)
    joined = np.concatenate([block.rows for _, block in guarded.blocks()])
    assert [first for first, _ in guarded.blocks()] == [0, BLOCK_ROWS - 4]
    assert np.array_equal(joined, np.concatenate([block.rows for _, block in twin.blocks()]))


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    with opened(make_owner(tmp_path, rare=4, smallest_group=5)) as found:
        yield found


def test_rows_of_small_groups_never_leave(owner: Owner) -> None:
    """All 56 other rows are asked for, and the four with a value of their own are not among them."""
    run = terms(offers="uniform", offer_factor=30.0, size=6)
    wide = {"per_run": {"rows": 99}, "total": {"rows": 99}}
    write_policy(owner.home.folder, smallest_group=5, **wide)
    answered(owner, run)
    left = review.rows_in_letters(owner, "run-1")
    assert left.table is not None
    assert left.count == 56
    assert CANARY not in left.table["sex"].to_pylist()


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_a_dry_run_shows_exactly_what_leaves_for_a_release(owner: Owner, protocol: str) -> None:
    run = terms(protocol=protocol, size=3)
    approve(owner, run)
    outside = Outside(owner, run)
    owner.mail.hear(outside.release(release_to(run)))
    charged = owner.ledger.accounts()[1].rows
    trial = rehearse(owner, run)
    assert (trial.basis, trial.exact) == ("the release that was heard", True)
    assert (trial.row_count, trial.withheld) == (60, 4)
    assert owner.ledger.accounts()[1].rows == charged
    if protocol == "sealed":
        post(owner)
        left = review.rows_in_letters(owner, "run-1")
        assert left.table is not None
        assert left.table.equals(trial.rows.table)
    assert trial.rows.count == (6 if protocol == "sealed" else 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"auction": "threshold", "auction_epsilon": 1.0, "auction_offset": 5, "owner_budget": Budget(2.0, 1e-5)},
        {"protocol": "interactive", "size": 3, "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)},
    ],
)
def test_a_dry_run_is_an_example_where_other_owners_rows_have_a_part(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = terms(**changes)
    with opened(make_owner(tmp_path, per_run=_ANY, total=dict(_ANY))) as owner:
        approve(owner, run)
        owner.mail.hear(Outside(owner, run).release(release_to(run)))
        assert not rehearse(owner, run).exact


def test_terms_that_understate_what_leaves_or_are_for_other_rows_are_refused(owner: Owner) -> None:
    introduce(owner.home, terms())
    assert "other columns than leave" in owner.judge(terms(columns=("age", "dose"))).reasons[0]
    narrow = terms(kernel=Kernel(columns=4, dimension=16, gamma=0.4, seed=7))
    assert "count 4 features in a row, the schema 5" in owner.judge(narrow).reasons[0]
    assert owner.judge(terms(schema_digest="0" * 64)).reasons[0] == "no registered data set has the schema of the terms"


def test_where_several_data_sets_fit_somebody_must_say_which(owner: Owner, tmp_path: Path) -> None:
    owner.registry.add("newer", str(tmp_path / "a.csv"), schema=tmp_path / "schema.yaml")
    run = terms()
    introduce(owner.home, run)
    assert "name one with --data" in owner.judge(run).reasons[0]
    assert invite(owner, run).state == "invited"
    assert owner.approve("run-1", run.digest, by="Ada", data="newer").accepted
    assert owner.mail.consider(owner.run("run-1")).state == "accepted"
    assert "does not have" in owner.judge(run, data="nosuch").reasons[0]


def test_a_data_set_is_removed_unless_a_run_uses_it(owner: Owner) -> None:
    run = terms()
    approve(owner, run)
    with pytest.raises(InvalidArgument, match="is used by run-1"):
        review.remove(owner, "patients", by="Ada")
    owner.withdraw(run.run, by="Ada")
    review.remove(owner, "patients", by="Ada")
    assert owner.registry.names() == []


def test_small_groups_are_those_of_a_naive_count(tmp_path: Path) -> None:
    """Three of 60 rows have a category of their own; groups of fewer than 4, and of fewer than 40, are small."""
    folder = make_owner(tmp_path, rare=3)
    rows = list(csv.DictReader(io.StringIO(rows_text(1, rare=3))))
    counts = Counter((name, row[name]) for row in rows for name in ("sex", "ill"))
    for smallest in (4, 40):
        write_policy(folder, smallest_group=smallest)
        with opened(folder) as owner:
            look = check_data(owner, "patients")
        expected = {SmallGroup(*group, count) for group, count in counts.items() if count < smallest}
        assert set(look.small_groups) == expected
        assert SmallGroup("sex", CANARY, 3) in expected
        withheld = sum(
            any(SmallGroup(name, row[name], counts[name, row[name]]) in expected for name in ("sex", "ill"))
            for row in rows
        )
        assert (look.rows, look.smallest_group, look.withheld) == (60, smallest, withheld)
        assert [group.rows for group in look.small_groups] == sorted(group.rows for group in look.small_groups)
