"""Warnings about columns, on every screen: columns that may identify people, and columns that hardly count."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
import yaml
from home_world import give_card, invite, terms, write_policy
from typed import document, run

from job_world import World, arguments
from likeset.homes.owner import open_owner
from likeset.protocol.terms import Kernel
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema

OWNERS = {"north": 11, "south": 12}
pytestmark = pytest.mark.usefixtures("without_figures")


def hospital(rows: int, *, seed: int) -> pa.Table:
    """Encounters: at most two of each patient."""
    coins = np.random.default_rng(seed)
    return pa.table(
        {
            "encounter_id": coins.choice(400_000_000, rows, replace=False) + 12_522,
            "patient_nbr": seed * 1_000_000 + np.arange(rows) // 2,
            "age": coins.choice(["[50-60)", "[60-70)", "[70-80)"], rows),
            "time_in_hospital": coins.integers(1, 15, rows),
            "slip": coins.permutation(4 * rows)[:rows],
            "readmitted": coins.choice(["NO", "<30", ">30"], rows),
        }
    )


def columns(suspicions: list[dict[str, str]]) -> dict[str, str]:
    return {one["column"]: one["reason"] for one in suspicions}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    for name, rows, seed in (("target", 160, 10), *((name, 200, seed) for name, seed in OWNERS.items())):
        pa_csv.write_csv(hospital(rows, seed=seed), tmp_path / f"{name}.csv")
    return tmp_path


def drafted(world: Path, *more: object) -> Any:
    """A draft from all files, into ``schema.yaml``: at most two rows of a patient, as they show."""
    files = [world / f"{name}.csv" for name in ("target", *OWNERS)]
    schema = world / "schema.yaml"
    told = document("schema", "draft", *files, "--label", "readmitted", "--id", "patient_nbr", "--out", schema, *more)
    assert "rows_per_id: 2" in schema.read_text(encoding="utf-8")
    return told


def job(world: Path) -> list[object]:
    owners = [word for name in OWNERS for word in ("--owner", f"{name}={world / name}.csv")]
    places = ["--schema", world / "schema.yaml", "--target", world / "target.csv"]
    return [*places, *owners, "--size", 20, "--epsilon", 8, "--noise", "simulated", "--seed", 3]


def test_what_is_included_by_name_or_hardly_counts_is_warned_of_at_every_step(world: Path) -> None:
    told = drafted(world, "--include", "encounter_id", "--include", "slip")
    wanted = {"encounter_id": "name", "slip": "own-values"}
    assert columns(told["suspected_identifiers"]) == wanted
    assert wanted.keys() <= set(told["columns"])
    path = world / "schema.yaml"
    declared = yaml.safe_load(path.read_text(encoding="utf-8"))
    declared["columns"]["time_in_hospital"]["bounds"] = [0, 10_000]
    path.write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
    by_name = {"encounter_id": "name"}
    assert columns(document("schema", "show", path)["suspected_identifiers"]) == by_name
    (checked,) = document("schema", "check", "--schema", path, world / "north.csv")["files"]
    assert columns(checked["suspected_identifiers"]) == wanted
    assert [column["column"] for column in checked["dead_columns"]] == ["time_in_hospital"]
    for result in (document("plan", *job(world)), document("match", *job(world), "--out", world / "out")):
        notices = result["warnings"]
        assert columns([one for one in notices if one["kind"] == "suspected-identifier"]) == wanted
        (dead,) = [one["columns"] for one in notices if one["kind"] == "columns-hardly-count"]
        assert dead == ["time_in_hospital"]
        shown = " ".join(run("plan", *job(world)).stdout.split())
        assert all(one["text"] in shown for one in notices)
    check_at_an_owner(world, Schema.load(path), wanted)


def test_persons_with_several_rows_are_warned_of_where_no_id_is_declared(world: Path) -> None:
    drafted(world)
    path = world / "schema.yaml"
    declared = yaml.safe_load(path.read_text(encoding="utf-8"))
    del declared["id"]
    path.write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
    result = document("match", *job(world), "--out", world / "out")
    (warned,) = [notice for notice in result["warnings"] if notice["kind"] == "repeated-persons"]
    assert warned["column"] == "patient_nbr"
    node = world / "st-mary"
    run("init", node, "--name", "a", "--role", "owner")
    write_policy(node, columns=list(Schema.load(path).record_columns))
    run("owner", "data", "add", "visits", world / "north.csv", "--schema", path, "--home", node)
    found = [one["detail"] for one in document("check", "--home", node, code=1)["checks"]]
    assert any("values of column 'patient_nbr' repeat, but the schema declares no id" in one for one in found)


def check_at_an_owner(world: Path, schema: Schema, wanted: dict[str, str]) -> None:
    """It is warned by values too when it registers and checks, and by names when it reviews."""
    node = world / "st-mary"
    run("init", node, "--name", "a", "--role", "owner")
    give_card(node, "a")
    write_policy(node, columns=list(schema.record_columns))
    at = ("--home", node)
    added = document("owner", "data", "add", "visits", world / "north.csv", "--schema", world / "schema.yaml", *at)
    assert columns(added["suspected_identifiers"]) == wanted
    assert [column["column"] for column in added["dead_columns"]] == ["time_in_hospital"]
    asked = terms(
        schema_digest=schema.digest,
        columns=schema.record_columns,
        record_bytes=DeclaredRecords(schema).record_bytes,
        kernel=Kernel(columns=schema.width, dimension=16, gamma=0.4, seed=7),
        rows_per_unit=2,
        id_column=schema.id_column or "",
        expires="2099-01-01",
    )
    with open_owner(node) as owner:
        invite(owner, asked)
    assert columns(document("owner", "review", "run-1", *at)["suspected_identifiers"]) == {"encounter_id": "name"}
    checked = document("check", *at, code=1)  # bounds came from data
    assert columns(checked["suspected_identifiers"]) == wanted
    warned = [one for one in checked["checks"] if re.search("may identify people|hardly counts", one["detail"])]
    assert [one["ok"] for one in warned] == [True] * 3, "warnings: what may leave is the owner's to say"


def test_owners_rows_alone_tell_a_consumer_nothing(tmp_path: Path) -> None:
    """A target that uses its bounds, and owners that do not: no word of it reaches the consumer."""
    world = World.make(tmp_path)
    schema = tmp_path / "schema.yaml"
    schema.write_text(schema.read_text(encoding="utf-8").replace("[0, 100]", "[0, 10000]"), encoding="utf-8")
    world.replace("target.csv", age=[100.0 * row for row in range(60)])
    assert "less than 2%" not in run(*arguments("match", world.options())).stdout
