"""Rows with a text that is longer than the schema declares: left out, counted, and nobody else's business."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import job_world
from job_world import World

SCHEMA = job_world.SCHEMA.replace("values: [chest, arm, leg]", "values: [chest, arm, leg], unknown: other")
RELEASED: dict[str, Any] = {
    "protocol": "interactive", "summary_release": "gaussian", "owner_epsilon": 2, "release_gamma": 1
}  # fmt: skip


def _world(folder: Path) -> World:
    """South's rows are those that are wanted; every second one has a text of 21 bytes where 20 are declared."""
    world = World.make(folder)
    (folder / "schema.yaml").write_text(SCHEMA + "text_bytes: 20\n", encoding="utf-8")
    world.replace("south.csv", site=["x" * 21 if row % 2 else "chest" for row in range(50)])
    return world


@pytest.mark.parametrize("options", [{}, {"offers": "uniform"}, RELEASED], ids=["tilted", "uniform", "interactive"])
def test_a_match_leaves_them_out_and_says_how_many(options: dict[str, Any], tmp_path: Path) -> None:
    world = _world(tmp_path)
    given = world.options(**options)
    owners = dict(pair.split("=") for pair in given.pop("owner"))
    given |= {"noise": "simulated", "seed": 1}
    words = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({"likeset": "job", "version": 1, "owners": owners, **words}))
    assert job_world.call("match", {}, tmp_path / "job.yaml") == 0
    result = json.loads((world.out / "result.json").read_text(encoding="utf-8"))
    assert [notice["text"] for notice in result["warnings"]].count(
        "owner south: rows with a text of more than 20 bytes (text_bytes of the schema) take no part: 25"
    ) == 1, result["warnings"]  # fmt: skip
    assert not any(notice["kind"] == "not-believed" for notice in result["warnings"])
    summary = pq.read_table(world.out / "summary.parquet")
    assert summary.num_rows == job_world.SIZE
    assert max(len(word) for word in summary["site"].to_pylist()) <= 20
    south = [owner == "south" for owner in summary["owner"].to_pylist()]
    assert any(south), "its other rows are as good as before"


def test_an_owner_with_no_other_rows_is_told_so_before_anything_is_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = _world(tmp_path)
    world.replace("south.csv", site=["x" * 21] * 50)
    assert job_world.call("match", world.options()) == 2
    assert "south.csv: every row has a text of more than 20 bytes; raise text_bytes in the schema" in (
        " ".join(capsys.readouterr().err.split())
    )
    assert not world.out.exists()
    assert not world.partial.exists()


def test_a_check_counts_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = _world(tmp_path)
    schema = ("check", "--schema", tmp_path / "schema.yaml")
    assert job_world.call("schema", {}, *schema, world.place("south")) == 0
    assert "25 rows have a text that is longer than text_bytes" in " ".join(capsys.readouterr().out.split())
    assert job_world.call("schema", {}, *schema, world.place("north"), "--json") == 0
    assert [file["too_long"] for file in json.loads(capsys.readouterr().out)["files"]] == [0]
