"""Names that are words of messages: nobody gets a warning that is not its own."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import job_world
from job_world import World
from likeset import Summarizer
from likeset.geometry.offers import Drawing
from likeset.protocol import notices
from likeset.protocol.sealed import Admission
from likeset.run.job import Job
from likeset.run.runs import run_job
from likeset.tables.scan import DrawnRows, SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources import Source
from summarizer_world import OWNERS, TARGET


class LyingScan(SourceScan):
    """Rows that are not what the schema makes of the records."""

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        return [
            dataclasses.replace(one, records=dataclasses.replace(one.records, rows=np.nextafter(one.records.rows, 2.0)))
            for one in super().draw(*drawings)
        ]


@pytest.fixture(autouse=True)
def shameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """An honest owner sends no row that is none; a liar has taken that check out."""
    monkeypatch.setattr(Admission, "admits", lambda _, block: np.ones(len(block.rows), dtype=np.bool_))


def scan(source: Source, schema: Schema) -> SourceScan:
    return (LyingScan if source.name.endswith("south.csv") else SourceScan)(source, schema)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("market"))


def result(world: World, out: Path, owners: dict[str, str]) -> dict[str, Any]:
    """A run with a fallback to uniform offers, a liar (south) and, without its rows, too few."""
    job = Job.of(
        schema=str(world.folder / "schema.yaml"),
        target=str(world.folder / "target.csv"),
        owners={name: str(world.place(file)) for name, file in owners.items()},
        size=150,
        allow_fewer=True,
        epsilon=0.05,
        purpose="offers was not believed: only target",
        out=str(out),
    )
    return dict(run_job(job, render=lambda *_: "", scan=scan).result)


@pytest.mark.parametrize(
    "names", [("offers", "only", "target"), ("ledger", "offers", "only"), ("simulated", "column", "offers")]
)
def test_an_owner_called_as_a_message_begins_has_only_its_own_problem(
    world: World, tmp_path: Path, names: tuple[str, str, str]
) -> None:
    found = result(world, tmp_path / "out", dict(zip(names, job_world.OWNERS, strict=True)))
    warnings = [(one["kind"], one["owner"]) for one in found["warnings"]]
    assert warnings == [("uniform-offers", None), ("not-believed", names[1]), ("few-rows", None)]
    problems = {one["name"]: one["problem"] for one in found["owners"]}
    assert (problems[names[0]], problems[names[2]]) == (None, None)
    assert problems[names[1]].startswith(f"{names[1]} was not believed: ")


def test_an_owner_called_hashes_discloses_rows_like_all_others(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    owners = dict(zip(("hashes", "south", "west"), job_world.OWNERS, strict=True))
    places = [f"{name}={world.place(file)}" for name, file in owners.items()]
    assert job_world.call("plan", world.options(owner=places, out=None)) == 0
    assert "rows in the clear" in capsys.readouterr().out


def test_a_failure_is_told_by_the_name_that_the_user_gave(tmp_path: Path) -> None:
    """Owners with blanks have another name on the wire; the second run finds nothing left of one owner's budget."""
    path, mine = tmp_path / "ledger.sqlite", "the curator's offers"
    Summarizer(4, offers="uniform", ledger=path, run="first").fit(TARGET, {mine: OWNERS["south"]})
    owners = {"offers": OWNERS["north clinic"], mine: OWNERS["south"]}
    found = Summarizer(4, offers="uniform", ledger=path, run="second").fit(TARGET, owners)
    told = [(one.kind, one.owner) for one in found.warnings_]
    assert told == [("did-not-take-part", mine), ("could-not-answer", mine)]


def test_a_notice_says_whom_it_concerns_by_a_field_and_not_by_its_words() -> None:
    """A reason that is another message word by word is still a reason."""
    other = notices.uniform_offers(60, 0.05, 1)
    notice = notices.not_believed("offers", notices.few_rows(1, 2).text)
    assert (notice.owner, other.owner, notices.few_rows(1, 2).owner) == ("offers", None, None)
