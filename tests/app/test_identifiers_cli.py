"""Identifiers stay in the house: from a hospital's file over a draft to a summary, and at the owner's own desk."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parents[1] / "homes"))

from card_world import signed_terms
from node_world import terms, write_policy

from likeset.app import cli
from likeset.protocol.terms import Kernel
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema

OWNERS = {"north": 11, "south": 12}
LEFT_OUT = {"": "nameless", "encounter_id": "name", "referral": "own-text", "slip": "numbered"}


def hospital(rows: int, *, seed: int) -> pa.Table:
    """Encounters as a data frame writes them, its index first: at most two of each patient."""
    coins = np.random.default_rng(seed)
    return pa.table(
        {
            "": np.arange(rows),
            "encounter_id": coins.choice(400_000_000, rows, replace=False) + 12_522,
            "patient_nbr": seed * 1_000_000 + np.arange(rows) // 2,
            "gender": coins.choice(["Female", "Male"], rows),
            "age": coins.choice(["[50-60)", "[60-70)", "[70-80)"], rows),
            "admission_type_id": coins.integers(1, 9, rows),
            "discharge_disposition_id": coins.zipf(1.5, rows).clip(1, 28),
            "time_in_hospital": coins.integers(1, 15, rows),
            "num_lab_procedures": coins.integers(1, 120, rows),
            "number_inpatient": coins.poisson(0.6, rows),
            "diag_1": [f"{code:.0f}.{code % 3:.0f}x" for code in coins.zipf(1.3, rows).clip(1, 700)],
            "referral": [f"letter {number} of ward {number % 5}" for number in coins.permutation(rows)],
            "slip": coins.permutation(4 * rows)[:rows],
            "readmitted": coins.choice(["NO", "<30", ">30"], rows),
        }
    )


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.app, list(map(str, arguments)), env={"COLUMNS": "200"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def document(*arguments: object, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def columns(suspicions: list[dict[str, str]]) -> dict[str, str]:
    return {one["column"]: one["reason"] for one in suspicions}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    for name, rows, seed in (("target", 160, 10), *((name, 200, seed) for name, seed in OWNERS.items())):
        pa_csv.write_csv(hospital(rows, seed=seed), tmp_path / f"{name}.csv")
    return tmp_path


def suspected(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The notices of a plan or a result that are about columns that may identify people."""
    return [notice for notice in document["warnings"] if notice["kind"] == "suspected-identifier"]


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


def test_no_identifier_of_a_hospital_reaches_the_summary(world: Path) -> None:
    told = drafted(world)
    assert columns(told["left_out"]) == LEFT_OUT
    assert told["suspected_identifiers"] == []
    kept = {"admission_type_id", "discharge_disposition_id", "diag_1", "num_lab_procedures", "number_inpatient"}
    assert kept <= set(told["columns"])
    assert not {*LEFT_OUT, "patient_nbr"} & set(told["columns"])
    result = document("match", *job(world), "--out", world / "out")
    assert suspected(result) == []
    summary = pq.read_table(world / "out" / "summary.parquet")
    assert not {*LEFT_OUT, "patient_nbr"} & set(summary.column_names)
    assert summary.num_rows == 20
    inside = [cell for name in summary.column_names for cell in summary.column(name).to_pylist()]
    for name in OWNERS:
        table = pa_csv.read_csv(world / f"{name}.csv")
        secrets = {
            *table["encounter_id"].to_pylist(),
            *table["patient_nbr"].to_pylist(),
            *table["referral"].to_pylist(),
        }
        assert not secrets & set(inside)
    for step in (["schema", "check", "--schema", world / "schema.yaml", world / "north.csv"], ["plan", *job(world)]):
        assert "may identify people" not in run(*step).stdout


def test_what_is_included_by_name_is_warned_of_at_every_later_step(world: Path) -> None:
    told = drafted(world, "--include", "encounter_id", "--include", "referral")
    wanted = {"encounter_id": "name", "referral": "own-text"}
    assert columns(told["suspected_identifiers"]) == wanted
    assert wanted.keys() <= set(told["columns"])
    assert columns(document("schema", "show", world / "schema.yaml")["suspected_identifiers"]) == {
        "encounter_id": "name"
    }
    (checked,) = document("schema", "check", "--schema", world / "schema.yaml", world / "north.csv")["files"]
    assert columns(checked["suspected_identifiers"]) == wanted
    assert columns(suspected(document("plan", *job(world)))) == wanted
    result = document("match", *job(world), "--out", world / "out")
    assert columns(suspected(result)) == wanted
    assert "note: column 'encounter_id' may identify people" in run("plan", *job(world)).stdout


def test_an_owner_is_warned_when_it_registers_checks_and_reviews(world: Path) -> None:
    drafted(world, "--include", "encounter_id", "--include", "slip")
    schema = Schema.load(world / "schema.yaml")
    node = world / "node"
    wanted = {"encounter_id": "name", "slip": "numbered"}
    run("owner", "init", node, "--name", "a")
    write_policy(node, "a", columns=list(schema.record_columns))
    at = ("--node", node)
    added = document("owner", "data", "add", "visits", world / "north.csv", "--schema", world / "schema.yaml", *at)
    assert columns(added["suspected_identifiers"]) == wanted
    asked = terms(
        schema_digest=schema.digest,
        columns=schema.record_columns,
        record_bytes=DeclaredRecords(schema).record_bytes,
        kernel=Kernel(columns=schema.width, dimension=16, gamma=0.4, seed=7),
        rows_per_unit=2,
        id_column=schema.id_column or "",
        expires="2099-01-01",
    )
    (world / "run-1.invitation").write_bytes(signed_terms(asked))
    run("owner", "inbox", "--add", world / "run-1.invitation", *at)
    review = document("owner", "review", "run-1", *at)
    assert columns(review["suspected_identifiers"]) == wanted, "slip by its values, as they looked at registration"
    assert "note: column 'slip' may identify people" in run("owner", "review", "run-1", *at).stdout
    checked = document("owner", "check", *at, code=1)  # bounds came from data
    assert columns(checked["suspected_identifiers"]) == wanted
    warned = [one for one in checked["findings"] if "may identify people" in one["words"]]
    assert [one["ok"] for one in warned] == [True, True], "a warning: whether it may leave is the owner's to say"


def test_a_column_without_a_name_cannot_be_asked_for(world: Path) -> None:
    for arguments in (["--include", ""], ["--label", ""]):
        refused = run("schema", "draft", world / "north.csv", *arguments, code=1)
        assert "a column without a name cannot be a feature or a label" in str(refused.exception)
    text = 'likeset: schema\nversion: 1\ncolumns:\n  "": {kind: numeric, bounds: [0, 9]}\n'
    (world / "bad.yaml").write_text(text, encoding="utf-8")
    refused = run("schema", "show", world / "bad.yaml", code=1)
    assert "a column without a name cannot be a feature, label or id" in str(refused.exception)


def test_a_draft_of_nothing_but_identifiers_says_how_to_keep_one(tmp_path: Path) -> None:
    pa_csv.write_csv(pa.table({"": range(40), "ssn": range(40)}), tmp_path / "rows.csv")
    refused = run("schema", "draft", tmp_path / "rows.csv", code=1)
    assert "every column may identify people: '', 'ssn'; name those to keep with --include" in str(refused.exception)
    with_ssn = document("schema", "draft", tmp_path / "rows.csv", "--include", "ssn")
    assert with_ssn["columns"] == ["ssn"]
    refused = run("schema", "draft", tmp_path / "rows.csv", "--include", "snn", code=1)
    assert "did you mean ssn?" in str(refused.exception)
