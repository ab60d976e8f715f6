"""``keep`` in a match: few rows of each id take part, of the target and of owners, and prices are for those."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pytest

import job_world
from job_world import World, run
from likeset.arguments import Rows
from likeset.errors import BadTable
from likeset.privacy.events import Composition, Gaussian
from likeset.protocol.notices import notice_documents
from likeset.protocol.sealed import Scan
from likeset.run import here
from likeset.run.job import RunSecrets
from likeset.run.plan import open_plan, plan_job

MANY = [f"p{row // 10}" for row in range(60)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Ten rows of each id of the target; of owners two, as before."""
    world = World.make(tmp_path)
    world.replace("target.csv", patient=MANY)
    return world


def declare(world: World, words: str) -> None:
    text = job_world.SCHEMA.replace("rows_per_id: 2", words)
    (world.folder / "schema.yaml").write_text(text, encoding="utf-8")


def target_rows(world: World, root: int, **changed: Any) -> Rows:
    return open_plan(world.job(**changed), secrets=RunSecrets(root)).inputs.target.rows


def test_of_each_id_of_the_target_so_many_rows_take_part(world: World) -> None:
    """Six ids with ten rows each: 6 keep rows; the same for the same secrets, others for others."""
    declare(world, "rows_per_id: 10")
    everything = target_rows(world, 1).tolist()
    for keep in (1, 3):
        declare(world, f"keep: {keep}")
        rows = target_rows(world, 1).tolist()
        whose = Counter(MANY[everything.index(row)] for row in rows)
        assert whose == dict.fromkeys(set(MANY), keep)
        assert target_rows(world, 1).tolist() == rows
        assert target_rows(world, 2).tolist() != rows


def test_prices_are_for_as_many_rows_as_take_part(world: World) -> None:
    """keep: 2 of ten rows costs what a table of the kept rows with rows_per_id: 2 costs, under both relations.

    A release of m rows has noise in proportion to the rows of a unit over m; here both are the same in both worlds.
    """
    fitting = {"relation": "add-or-remove", "declared_size": 12, "release_gamma": 0.5}
    for more in ({}, fitting):
        declare(world, "keep: 2")
        with_keep = plan_job(world.job(offers="tilted", epsilon=40.0, **more))
        assert with_keep.terms.rows_per_unit == 2
        assert len(with_keep.inputs.target.rows) == 12
        declare(world, "rows_per_id: 2")
        world.replace("target.csv", patient=[f"p{row // 2}" for row in range(60)])
        table = pa_csv.read_csv(world.folder / "target.csv")
        job_world.write(world.folder / "few.csv", table.slice(0, 12))
        plain = plan_job(world.job(offers="tilted", epsilon=40.0, target=str(world.folder / "few.csv"), **more))
        assert _sigma(with_keep.guarantees[0].event) == _sigma(plain.guarantees[0].event)
        world.replace("target.csv", patient=MANY)


def _sigma(event: Any) -> float:
    release = event.events[-1] if isinstance(event, Composition) else event
    assert isinstance(release, Gaussian)
    assert release.quantity.unit.rows == 2
    return release.sigma


def test_a_run_that_is_resumed_draws_the_same_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secret noise and secret draws: the run that goes on has the target and the offers that it began with."""
    declare(world, "keep: 2")
    world.replace("north.csv", patient=[f"n{row // 5}" for row in range(60)])
    seen: list[tuple[list[Any], list[Any]]] = []
    run_here = here.run_here

    def watched(plan: Any, terms: Any, draws: Any, scans: Mapping[str, Scan], **more: Any) -> Any:
        everything = scans["north"].fetch(np.arange(scans["north"].row_count)).rows
        seen.append((plan.inputs.target.rows.tolist(), everything.tolist()))
        if len(seen) == 1:
            raise KeyboardInterrupt
        return run_here(plan, terms, draws, scans, **more)

    monkeypatch.setattr(here, "run_here", watched)
    monkeypatch.setattr("likeset.run.job._charges", lambda _path, _run: float(len(seen)))
    with pytest.raises(KeyboardInterrupt):
        run(world.job())
    run(world.job(), resume=True)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert len(seen[0][0]) == 12


def test_a_target_that_repeats_persons_without_a_declared_id_leads_to_a_question(world: World) -> None:
    """By plan and match; not where an id is declared, nobody has two rows, or nothing is released about the target."""

    def asked(**more: Any) -> list[str]:
        job = world.job(**{"offers": "tilted", "epsilon": 40.0, **more})
        documents = notice_documents(plan_job(job).warnings)
        return [told["column"] for told in documents if told["kind"] == "repeated-persons"]

    declare(world, "rows_per_id: 10")
    assert asked() == []
    text = (world.folder / "schema.yaml").read_text(encoding="utf-8")
    without = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("id:"))
    (world.folder / "schema.yaml").write_text(without, encoding="utf-8")
    assert asked() == ["patient"]
    assert asked(offers="uniform") == []
    kinds = [notice["kind"] for notice in run(world.job(offers="tilted", epsilon=40.0)).result["warnings"]]
    assert "repeated-persons" in kinds
    world.replace("target.csv", patient=[f"p{row}" for row in range(60)])
    assert asked() == []


def test_too_few_rows_left_is_said_before_anything_is_spent(world: World) -> None:
    world.replace("target.csv", patient=["one"] * 60)
    declare(world, "keep: 1")
    with pytest.raises(
        BadTable, match="the target has 1 rows that take part; at least 2 are needed; rows without an id"
    ):
        plan_job(world.job())


def test_a_plan_says_that_not_all_rows_of_the_target_take_part(world: World) -> None:
    declare(world, "keep: 1")
    (notice,) = [one for one in notice_documents(plan_job(world.job()).warnings) if one["kind"] == "rows-of-ids-kept"]
    assert (notice["rows"], notice["given"], notice["keep"]) == (6, 60, 1)
    declare(world, "rows_per_id: 10")
    assert "rows-of-ids-kept" not in {one["kind"] for one in notice_documents(plan_job(world.job()).warnings)}
