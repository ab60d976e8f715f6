"""An owner whose rows are not what the schema makes of its records is not believed, and the run goes on without it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import job_world
from job_world import World, run
from likeset import Summarizer
from likeset.geometry.offers import Drawing
from likeset.protocol.sealed import Admission
from likeset.run.here import FinishedJob
from likeset.tables.scan import DrawnRows, SourceScan
from likeset.tables.schema import FetchedRows, Schema
from likeset.tables.sources import Source
from summarizer_world import OWNERS, TARGET

Lie = Callable[[FetchedRows], FetchedRows]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("market"))


@pytest.fixture(autouse=True)
def shameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """An honest owner sends no row that is none; a liar has taken that check out."""
    monkeypatch.setattr(Admission, "admits", lambda _, block: np.ones(len(block.rows), dtype=np.bool_))


def run_with(lie: Lie, world: World, **changed: Any) -> FinishedJob:
    """A job in which south lies about the rows that it drew."""

    class Lying(SourceScan):
        def draw(self, *drawings: Drawing) -> list[DrawnRows]:
            drawn = super().draw(*drawings)
            return [dataclasses.replace(one, records=lie(one.records)) for one in drawn]

    def scan(source: Source, schema: Schema) -> SourceScan:
        return (Lying if source.name.endswith("south.csv") else SourceScan)(source, schema)

    return run(world.job(**changed), scan=scan)


def nudged(fetched: FetchedRows) -> FetchedRows:
    """The least change of one number in each row: whichever rows are offered, one is wrong."""
    rows = fetched.rows.copy()
    rows[:, 0] = np.nextafter(rows[:, 0], np.float32(2.0))
    return dataclasses.replace(fetched, rows=rows)


def other_records(fetched: FetchedRows) -> FetchedRows:
    assert fetched.table is not None
    return dataclasses.replace(fetched, table=fetched.table.take(pa.array(np.roll(np.arange(len(fetched.rows)), 1))))


def out_of_bounds(fetched: FetchedRows) -> FetchedRows:
    assert fetched.table is not None
    ages = pa.array(np.full(len(fetched.rows), 4711.0))
    return dataclasses.replace(fetched, table=fetched.table.set_column(0, "age", ages))


def more_columns(fetched: FetchedRows) -> FetchedRows:
    assert fetched.table is not None
    extra = pa.array(["canary-7f3a"] * len(fetched.rows))
    return dataclasses.replace(fetched, table=fetched.table.append_column("patient", extra))


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (nudged, "sent rows that are not what the schema makes of its records"),
        (other_records, "sent rows that are not what the schema makes of its records"),
        (out_of_bounds, "sent records that are not as the schema declares"),
    ],
)
def test_a_liar_is_named_and_left_out(lie: Lie, words: str, world: World, tmp_path: Path) -> None:
    done = run_with(lie, world, out=str(tmp_path / "out"))
    said = {"kind": "not-believed", "owner": "south", "text": f"south was not believed: {words}"}
    assert said in done.result["warnings"]
    owners: dict[str, Any] = {one["name"]: one for one in done.result["owners"]}
    assert owners["south"]["selected"] == 0
    assert words in owners["south"]["problem"]
    assert owners["north"]["problem"] is None
    assert done.result["rows_selected"] == job_world.SIZE
    assert set(pq.read_table(done.out / "summary.parquet")["owner"].to_pylist()) <= {"north", "west"}


def test_a_column_that_nobody_declared_does_not_leave(world: World, tmp_path: Path) -> None:
    done = run_with(more_columns, world, out=str(tmp_path / "out"))
    bought = pq.read_table(done.out / "summary.parquet")
    assert "south" in bought["owner"].to_pylist()
    assert "patient" not in bought.column_names
    assert not any(b"canary-7f3a" in file.read_bytes() for file in done.out.rglob("*") if file.is_file())


def test_a_failure_is_told_by_the_name_that_the_user_gave(tmp_path: Path) -> None:
    """Owners with blanks have another name on the wire; the second run finds nothing left of one owner's budget."""
    path, mine = tmp_path / "ledger.sqlite", "the curator's offers"
    Summarizer(4, offers="uniform", ledger=path, run="first").fit(TARGET, {mine: OWNERS["south"]})
    owners = {"offers": OWNERS["north clinic"], mine: OWNERS["south"]}
    found = Summarizer(4, offers="uniform", ledger=path, run="second").fit(TARGET, owners)
    told = [(one.kind, one.owner) for one in found.warnings_]
    assert told == [("did-not-take-part", mine), ("could-not-answer", mine)]
