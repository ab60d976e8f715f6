"""A column whose values use next to nothing of its bounds is a warning everywhere, and by the target alone in a run."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from job_world import World, arguments
from likeset.app import cli

WORDS = "column 'age' hardly counts: its values use less than 2% of the declared bounds"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Ages from 0 to 100 within bounds of 0 and 10,000."""
    world = World.make(tmp_path)
    schema = tmp_path / "schema.yaml"
    schema.write_text(schema.read_text(encoding="utf-8").replace("[0, 100]", "[0, 10000]"), encoding="utf-8")
    return world


def run(*typed: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli.app, list(map(str, typed)), env={"COLUMNS": "200"})
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def dead(told: dict[str, Any]) -> list[str]:
    return [notice["column"] for notice in told["warnings"] if notice["kind"] == "column-hardly-counts"]


def test_a_plan_and_a_match_say_it_of_the_target(world: World) -> None:
    assert f"in the target, {WORDS}" in run(*arguments("plan", world.options(out=None)))
    assert dead(json.loads(run(*arguments("plan", world.options(out=None)), "--json"))) == ["age"]
    assert f"in the target, {WORDS}" in run(*arguments("match", world.options()))
    assert dead(json.loads((world.out / "result.json").read_text(encoding="utf-8"))) == ["age"]


def test_owners_rows_alone_tell_a_consumer_nothing(world: World) -> None:
    """A target that uses its bounds, and owners that do not: no word of it reaches the consumer."""
    world.replace("target.csv", age=[100.0 * row for row in range(60)])
    assert "hardly counts" not in run(*arguments("match", world.options()))


def test_an_owner_hears_it_when_it_registers_and_checks(world: World) -> None:
    node = world.folder / "node"
    run("owner", "init", node, "--name", "north")
    add = ("owner", "data", "add", "people", world.place("north"), "--schema", world.folder / "schema.yaml")
    assert f"note: {WORDS}" in run(*add, "--node", node)
    told = json.loads(run(*add[:3], "again", *add[4:], "--node", node, "--json"))
    assert [column["column"] for column in told["dead_columns"]] == ["age"]
    checked = json.loads(run("owner", "check", "--node", node, "--json", code=1))
    assert {column["column"] for column in checked["dead_columns"]} == {"age"}
    assert all(finding["ok"] for finding in checked["findings"] if "hardly counts" in finding["words"])
