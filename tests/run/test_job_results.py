"""What a job leaves: the same for the same seed, marked where it is not private, and rendered again alike."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import job_world
from job_world import OWNERS, SIZE, World
from likeset.errors import BadDocument
from likeset.run.here import read_result
from likeset.run.job import Job

TIMES = ("created", "seconds")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("market"))


def run(world: World, out: Path, **options: Any) -> Path:
    assert job_world.call("match", world.options(out=out, **options)) == 0
    return out


@pytest.fixture(scope="module")
def secret(world: World) -> Path:
    return run(world, world.folder / "secret")


@pytest.fixture(scope="module")
def simulated(world: World) -> Path:
    return run(world, world.folder / "simulated", noise="simulated", seed=11)


def result(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"))
    return found


def timeless(out: Path) -> dict[str, Any]:
    return {name: value for name, value in result(out).items() if name not in TIMES}


def test_the_figures_of_a_result_belong_together(secret: Path) -> None:
    assert not secret.with_name("secret.partial").exists()
    found = result(secret)
    assert found["private"] is True
    assert set(found["shares"]) == set(OWNERS)
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    assert found["rows_seen"] == sum(one["disclosed"] for one in found["owners"])
    # (rows of owners that were seen, and the target) for each row used
    assert found["access_ratio"] == pytest.approx((found["rows_seen"] + 60) / (SIZE + 60))
    about_target = next(one for one in found["guarantees"] if one["protects"] == "consumer" and one["epsilon"])
    assert about_target["epsilon"] == pytest.approx(job_world.EPSILON, rel=1e-3)
    assert about_target["epsilon"] <= job_world.EPSILON
    assert about_target["basis"] == "proven"
    assert (secret / "terms.yaml").read_text(encoding="utf-8").startswith(f"digest: {found['terms']['digest']}")


def test_the_summary_is_rows_of_the_owners_with_labels_owner_and_weight(secret: Path, world: World) -> None:
    """Every row stands in its owner's file, with the label that it has there; ids never leave."""
    table = pq.read_table(secret / "summary.parquet")
    assert table.column_names == ["age", "pulse", "site", "smoker", "ill", "owner", "weight"]
    assert table.num_rows == SIZE
    assert sum(table["weight"].to_pylist()) == pytest.approx(1.0)
    counts = dict.fromkeys(OWNERS, 0)
    for *cells, owner, _ in zip(*table.to_pydict().values(), strict=True):
        counts[owner] += 1
        assert tuple(cells) in world.cells(owner)
    assert counts == {one["name"]: one["selected"] for one in result(secret)["owners"]}
    assert sum(counts.values()) == SIZE


@pytest.mark.usefixtures("without_figures")
def test_for_machines_the_screen_is_the_result(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job_world.call("match", world.options(out=tmp_path / "out", size=3), "--json") == 0
    printed = capsys.readouterr()
    assert (json.loads(printed.out), printed.err) == (result(tmp_path / "out"), "")


def test_a_report_is_rendered_again_to_the_same_bytes(
    simulated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(simulated, copy)
    (copy / "report.html").unlink()
    assert job_world.call("report", {}, copy, "--json") == 0
    assert json.loads(capsys.readouterr().out)["report"] == str(copy / "report.html")
    assert (copy / "report.html").read_bytes() == (simulated / "report.html").read_bytes()


def test_a_report_needs_a_finished_job(simulated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert job_world.call("report", {}, tmp_path) == 2
    assert "name the output directory of a finished job" in capsys.readouterr().err
    copy = tmp_path / "copy"
    shutil.copytree(simulated, copy)
    assert job_world.call("report", {"for_owner": "nort"}, copy) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (copy / "report-for-nort.html").exists()
    for text, words in (("{", "cannot be read"), ("[]", "not what likeset"), ('{"format": 3}', "another version")):
        (copy / "result.json").write_text(text, encoding="utf-8")
        with pytest.raises(BadDocument, match=words):
            read_result(copy)


def test_paths_count_from_the_job_file_and_options_from_here(
    world: World, simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.folder / "job.yaml"
    job.write_text(
        "schema: schema.yaml\ntarget: target.csv\n"
        "owners: {north: north.csv, south: ./south.csv, west: west.parquet}\n"
        f"size: {SIZE}\nepsilon: 2\nnoise: simulated\nseed: 11\nout: never\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    assert job_world.call("match", {"out": "here", "epsilon": job_world.EPSILON}, job) == 0
    assert timeless(tmp_path / "here") == timeless(simulated)
    assert not (world.folder / "never").exists()
    moved = Job.load(job)
    assert moved.schema_file == str(world.folder / "schema.yaml")
    assert moved.out == str(world.folder / "never")
    forms = {"a": "sql:SELECT 1", "b": "sqlite:db?table=t", "c": "postgres://host/db?table=t", "d": "/rows.csv"}
    beside = moved.model_copy(update={"owners": forms}).beside(Path("/elsewhere"))
    assert beside.owners == {**forms, "b": "sqlite:/elsewhere/db?table=t"}


def test_an_owner_column_in_the_data_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(
        "likeset: schema\nversion: 1\ncolumns:\n  owner: {kind: numeric, bounds: [0, 9]}\n  weight: "
        "{kind: numeric, bounds: [0, 200]}\n",
        encoding="utf-8",
    )
    for name, shift in (("target", 0), ("north", 1), ("south", 2)):
        lines = [f"{(row + shift) % 10},{50 + row + shift}" for row in range(30)]
        (tmp_path / f"{name}.csv").write_text("owner,weight\n" + "\n".join(lines) + "\n", encoding="utf-8")
    options = {
        "schema": tmp_path / "schema.yaml", "target": tmp_path / "target.csv", "size": 4, "out": tmp_path / "out",
        "owner": [f"{name}={tmp_path / name}.csv" for name in ("north", "south")],
    }  # fmt: skip
    assert job_world.call("match", options) == 0
    table = pq.read_table(tmp_path / "out" / "summary.parquet")
    assert table.column_names == ["owner", "weight", "likeset_owner", "likeset_weight"]
    assert set(table["likeset_owner"].to_pylist()) <= {"north", "south"}


def test_an_owner_in_another_unit_is_named(simulated: Path, tmp_path: Path) -> None:
    """Months in place of years are clipped to the bounds, and only a warning tells of them."""
    assert [warning["kind"] for warning in result(simulated)["warnings"] if "scale" in warning["kind"]] == []
    market = World.make(tmp_path)
    schema = job_world.SCHEMA.replace("[0, 100]}", "[0, 100], outside: clip}")
    (tmp_path / "schema.yaml").write_text(schema, encoding="utf-8")
    market.replace("south.csv", age=[12.0 * years for years in csv.read_csv(tmp_path / "south.csv")["age"].to_pylist()])
    (warning,) = (one for one in result(run(market, market.out))["warnings"] if one["kind"] == "different-scales")
    assert warning["columns"] == ["age"]
    assert "age (south)" in warning["text"]
