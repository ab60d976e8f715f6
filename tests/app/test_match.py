"""``likeset match`` and ``plan`` as a user calls them: what they refuse, leave out, warn about, write and print."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typed
from typer.testing import Result

import job_world
from job_world import OWNERS, World, arguments, write

FILES = {"target.csv": "TGT", "north.csv": "NOR", "south.csv": "SOU", "west.parquet": "WES"}
MARK = re.compile(rb"(?:ID|NOTE|SECRET)(?:TGT|NOR|SOU|WES)\d{4}")
RELEASED: dict[str, Any] = {
    "protocol": "interactive", "summary_release": "gaussian", "owner_epsilon": 2, "release_gamma": 1
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.make(tmp_path)


def run(command: str, options: dict[str, Any], *more: object) -> Result:
    return typed.run(*arguments(command, options, *more))


def refused(command: str, options: dict[str, Any]) -> str:
    result = typed.run(*arguments(command, options), code=1)
    return f"{result.output}{result.exception}{getattr(result.exception, '__notes__', '')}"


def result_of(world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((world.out / "result.json").read_text(encoding="utf-8"))
    return found


def declare(world: World, old: str, new: str) -> None:
    schema = world.folder / "schema.yaml"
    schema.write_text(schema.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")


# Options and places


def test_what_is_there_stays(world: World) -> None:
    world.out.mkdir()
    (world.out / "mine").write_text("precious", encoding="utf-8")
    refused("match", world.options())
    world.out.rename(world.partial)
    refused("match", world.options())
    refused("match", world.options(resume=True))
    assert (world.partial / "mine").read_text(encoding="utf-8") == "precious"


# Rows that take no part


def with_long_texts(world: World, every: int) -> World:
    """South's rows are those that are wanted; some have a text of 21 bytes where 20 are declared."""
    declare(world, "values: [chest, arm, leg]", "values: [chest, arm, leg], unknown: other")
    declare(world, "label:", "text_bytes: 20\nlabel:")
    world.replace("south.csv", site=["chest" if row % every else "x" * 21 for row in range(50)])
    return world


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize("options", [{}, {"offers": "uniform"}, RELEASED], ids=["tilted", "uniform", "interactive"])
def test_rows_with_too_long_texts_are_left_out_and_counted(options: dict[str, Any], world: World) -> None:
    run("match", with_long_texts(world, 2).options(**options, noise="simulated", seed=1))
    texts = [notice["text"] for notice in result_of(world)["warnings"] if notice["kind"] != "simulated-noise"]
    told = "owner south: rows with a text of more than 20 bytes (text_bytes of the schema) take no part: 25"
    assert texts.count(told) == 1
    assert not any("not believed" in text for text in texts)
    summary = pq.read_table(world.out / "summary.parquet")
    assert summary.num_rows == job_world.SIZE
    assert max(len(word) for word in summary["site"].to_pylist()) <= 20
    assert "south" in summary["owner"].to_pylist(), "its other rows are as good as before"


def test_an_owner_with_too_long_texts_only_is_told_so_before_anything_is_spent(world: World) -> None:
    assert "owner south" in refused("match", with_long_texts(world, 1).options())
    assert not world.out.exists()
    assert not world.partial.exists()


# What is written and printed


@pytest.fixture
def marked(world: World) -> World:
    """Each row has an id, a text that is declared and a column that is not, all unmistakable."""
    declare(world, "label:", "  note: {kind: text, width: 16}\nlabel:")
    for name, short in FILES.items():
        path = world.folder / name
        table = pq.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)
        table = table.drop_columns("patient")
        for column, mark in (("patient", "ID"), ("note", "NOTE"), ("secret", "SECRET")):
            cells = [f"{mark}{short}{place:04d}" for place in range(table.num_rows)]
            table = table.append_column(column, pa.array(cells))
        write(path, table)
    return world


def marks(data: bytes) -> set[str]:
    return {found.decode() for found in MARK.findall(data)}


def page_for(world: World, owner: str) -> str:
    run("report", {"for_owner": owner}, world.out)
    return (world.out / f"report-for-{owner}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [{}, {"protocol": "interactive"}, {"offers": "uniform"}])
def test_no_cell_of_a_row_that_was_not_bought_is_anywhere(marked: World, options: dict[str, Any]) -> None:
    said = run("match", marked.options(**options)).output
    pages = {owner: page_for(marked, owner) for owner in OWNERS}
    bought = pq.read_table(marked.out / "summary.parquet")
    assert not {"patient", "secret"} & set(bought.column_names)
    notes = set(bought["note"].to_pylist())
    assert len(notes) == bought.num_rows
    assert not {one for one in notes if one.startswith("NOTETGT")}
    assert marks(said.encode()) == set()
    files = [path for path in marked.folder.rglob("*") if path.is_file() and path.parent != marked.folder]
    assert {path.name for path in files} >= {"result.json", "pictures.json", "report.html", "ledger.sqlite"}
    for path in files:
        assert marks(path.read_bytes()) <= (notes if path.name == "summary.parquet" else set()), path.name
    result, body = result_of(marked), pages["north"][pages["north"].index("<body") :]
    told = ("south", "west", "target.csv", f"{result['in_sample_squared_mmd']:.5g}", f"{result['gamma']:.5g}")
    assert not [word for word in told if word in body], "only the consumer may see them"
    assert result["created"][:16] not in body.replace(" ", "T")


@pytest.mark.usefixtures("without_figures")
def test_a_shared_ledger_is_private_and_holds_no_cells_after_a_purge(marked: World) -> None:
    """Offers lie in it until then."""
    ledger = marked.folder / "book.sqlite"
    run("match", marked.options(ledger=ledger))
    assert ledger.stat().st_mode & 0o077 == 0
    assert marks(ledger.read_bytes())
    run("ledger", {}, "purge", ledger, "--before", "2100-01-01")
    assert marks(ledger.read_bytes()) == set()


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize(
    ("options", "screen", "banner"),
    [
        ({"noise": "simulated", "seed": 3}, "simulated, not private", "Simulated, not private"),
        (
            {"protocol": "interactive", "auction": "paper", "accept_unproven": "paper-auction"},
            "not private: at least one part has no proof",
            "Not private",
        ),
    ],
    ids=["simulated", "unproven"],
)
def test_what_is_not_private_says_so_everywhere(
    world: World, options: dict[str, Any], screen: str, banner: str
) -> None:
    if "accept_unproven" in options:
        assert "paper-auction" in refused("match", world.options(**options | {"accept_unproven": None}))
        assert not world.out.exists()
    given = world.options(**options)
    assert screen in run("plan", given).output
    assert json.loads(run("plan", given, "--json").stdout)["private"] is False
    assert screen in run("match", given).output
    assert result_of(world)["private"] is False
    assert all(one["epsilon"] in (0.0, None) for one in result_of(world)["guarantees"]) or "seed" not in options
    assert banner in (world.out / "report.html").read_text(encoding="utf-8")
    page = page_for(world, "north")
    assert banner in page
    assert "seed 3" not in page
