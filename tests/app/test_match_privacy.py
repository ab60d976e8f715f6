"""Everything that ``likeset match`` writes and prints, searched for what should not be there."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from job_world import World, arguments, write
from likeset.app import cli
from likeset.errors import LikesetError

FILES = {"target.csv": "TGT", "north.csv": "NOR", "south.csv": "SOU", "west.parquet": "WES"}
MARK = re.compile(rb"(?:ID|NOTE|SECRET)(?:TGT|NOR|SOU|WES)\d{4}")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.make(tmp_path)


@pytest.fixture
def marked(world: World) -> World:
    """Each row has an id, a text that is declared and a column that is not, all unmistakable."""
    schema = world.folder / "schema.yaml"
    declared = schema.read_text(encoding="utf-8").replace("label:", "  note: {kind: text, width: 16}\nlabel:")
    schema.write_text(declared, encoding="utf-8")
    for name, short in FILES.items():
        path = world.folder / name
        table = pq.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)
        places = range(table.num_rows)
        table = table.drop_columns("patient")
        table = table.append_column("patient", pa.array([f"ID{short}{place:04d}" for place in places]))
        table = table.append_column("note", pa.array([f"NOTE{short}{place:04d}" for place in places]))
        table = table.append_column("secret", pa.array([f"SECRET{short}{place:04d}" for place in places]))
        write(path, table)
    return world


def run(command: str, options: dict[str, Any], *more: object) -> Result:
    result = CliRunner().invoke(cli.app, arguments(command, options, *more), env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result


def refused(command: str, options: dict[str, Any]) -> str:
    """What is printed, and the words of the error that ``main`` prints."""
    result = CliRunner().invoke(cli.app, arguments(command, options), env={"COLUMNS": "160"})
    assert isinstance(result.exception, LikesetError), result.output
    return f"{result.output}{result.exception}{getattr(result.exception, '__notes__', '')}"


def marks(data: bytes) -> set[str]:
    return {found.decode() for found in MARK.findall(data)}


def page_for(world: World, owner: str) -> str:
    CliRunner().invoke(cli.app, ["report", str(world.out), "--for-owner", owner])
    return (world.out / f"report-for-{owner}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [{}, {"protocol": "interactive"}, {"offers": "uniform"}])
def test_no_cell_of_a_row_that_was_not_bought_is_anywhere(marked: World, options: dict[str, Any]) -> None:
    said = run("match", marked.options(**options)).output
    for owner in ("north", "south", "west"):
        page_for(marked, owner)
    bought = pq.read_table(marked.out / "summary.parquet")
    assert "patient" not in bought.column_names
    assert "secret" not in bought.column_names
    notes = set(bought["note"].to_pylist())
    assert len(notes) == bought.num_rows
    assert not {one for one in notes if one.startswith("NOTETGT")}
    assert marks(said.encode()) == set()
    files = [path for path in marked.folder.rglob("*") if path.is_file() and path.parent != marked.folder]
    assert {path.name for path in files} >= {"result.json", "pictures.json", "report.html", "ledger.sqlite"}
    for path in files:
        assert marks(path.read_bytes()) <= (notes if path.name == "summary.parquet" else set()), path.name


def test_a_shared_ledger_holds_no_cells_in_the_file_that_is_shown_around(marked: World) -> None:
    """Offers lie in the journal beside it, which only its owner can read."""
    ledger = marked.folder / "book.sqlite"
    run("match", marked.options(ledger=ledger))
    assert marks(ledger.read_bytes()) == set()
    assert (marked.folder / "book.sqlite.messages").stat().st_mode & 0o077 == 0


def test_only_the_user_can_read_the_output_directory(world: World) -> None:
    run("match", world.options())
    assert world.out.stat().st_mode & 0o077 == 0


def test_an_error_about_a_row_names_its_place_and_no_cell(marked: World) -> None:
    marked.replace("south.csv", note=[None] * 50)
    said = refused("match", marked.options())
    assert "line 2" in said
    assert marks(said.encode()) == set()
    assert not marked.out.exists()


def test_an_owner_is_shown_nothing_that_only_the_consumer_may_see(marked: World) -> None:
    run("match", marked.options())
    result = json.loads((marked.out / "result.json").read_text(encoding="utf-8"))
    page = page_for(marked, "north")
    for other in ("south", "west", "target.csv"):
        assert other not in page
    body = page[page.index("<body") :]
    for value in (result["in_sample_squared_mmd"], result["gamma"]):
        assert f"{value:.5g}" not in body
    assert result["created"][:16] not in body.replace(" ", "T")
    assert "of this run" in page


def test_simulated_noise_is_marked_wherever_a_result_appears(world: World) -> None:
    options = world.options(noise="simulated", seed=3)
    mark = "simulated, not private"
    assert mark in run("plan", options).output
    assert json.loads(run("plan", options, "--json").stdout)["private"] is False
    assert mark in run("match", options).output
    result = json.loads((world.out / "result.json").read_text(encoding="utf-8"))
    assert (result["private"], result["noise"]) == (False, "simulated")
    assert all(one["epsilon"] in (0.0, None) for one in result["guarantees"])
    assert "Simulated, not private" in (world.out / "report.html").read_text(encoding="utf-8")
    page = page_for(world, "north")
    assert "Simulated, not private" in page
    assert "seed 3" not in page


def test_a_part_without_a_proof_runs_by_name_only_and_is_marked(world: World) -> None:
    options = world.options(protocol="interactive", auction="paper")
    assert "paper-auction" in refused("match", options)
    assert not world.out.exists()
    mark = "not private: at least one part has no proof"
    accepted = options | {"accept_unproven": "paper-auction"}
    assert mark in run("plan", accepted).output
    assert mark in run("match", accepted).output
    assert "Not private" in (world.out / "report.html").read_text(encoding="utf-8")
    assert "Not private" in page_for(world, "north")


def test_it_is_said_over_which_runs_a_budget_counts(world: World) -> None:
    alone = "The budget counts this run alone"
    assert alone in run("plan", world.options()).output
    assert alone in run("match", world.options()).output
    assert alone in (world.out / "report.html").read_text(encoding="utf-8")
    ledger = world.folder / "book.sqlite"
    shared = run("match", world.options(ledger=ledger, out=world.folder / "out2")).output
    assert alone not in shared
    assert "All runs in this ledger together spent epsilon = 8 of 8" in shared
    assert "budget exceeded" in refused("match", world.options(ledger=ledger, out=world.folder / "out3"))


def test_bounds_that_came_from_data_are_warned_about_before_and_after(world: World) -> None:
    schema = world.folder / "schema.yaml"
    text = schema.read_text(encoding="utf-8").replace("bounds: [0, 100]", "bounds: [0, 100], from_data: true")
    schema.write_text(text, encoding="utf-8")
    for command in ("plan", "match"):
        assert "column age: its bounds or values were drafted from data" in run(command, world.options()).output
