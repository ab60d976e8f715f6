"""A password in the address of a table: in no line that a command prints, and in no file but the owner's own."""

import traceback
from pathlib import Path

import pytest
from home_world import invite, make_owner, terms
from typer.testing import CliRunner

from job_world import World, arguments
from likeset.app import cli
from likeset.homes.data import Registry
from likeset.homes.owner import open_owner
from likeset.tables import databases
from likeset.tables.sources import Source, open_source

CANARY = "c4nary"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Postgres server whose tables are files."""

    def opened(scheme: str, address: str, *, name: str) -> Source:
        assert scheme == "postgres"
        assert CANARY in address, "a connection is made with the password"
        return open_source(Path(address.split("table=")[1]), name=name)

    monkeypatch.setattr(databases, "open_database", opened)


def said(*given: object) -> str:
    """All that a command prints, and all that its error would show to whoever calls it from a program."""
    result = CliRunner().invoke(cli.app, list(map(str, given)), env={"COLUMNS": "200"})
    assert "Usage:" not in result.output
    error = result.exception
    shown = "" if error is None else "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    lines = [line for line in shown.splitlines() if CANARY not in line or "File " not in line]
    return result.output + "\n".join(lines)


@pytest.mark.usefixtures("server", "without_figures")
def test_a_whole_run_keeps_it_to_itself(tmp_path: Path) -> None:
    world = World.make(tmp_path)

    def form(table: object) -> str:
        return f"postgres://ada:a@%2F{CANARY}@db.internal/x?table={table}"

    options = world.options(
        target=form(tmp_path / "target.csv"),
        owner=[f"{name}={form(world.place(name))}" for name in ("north", "south", "west")],
        public_rows=form(tmp_path / "south.csv"),
        ledger=tmp_path / "budget.ledger",
    )
    typed = arguments("match", options)
    planned = arguments("plan", {name: value for name, value in options.items() if name != "out"})
    outputs = [said(*planned), said(*planned, "--json"), said(*typed, "--json"), said(*typed), said(*typed, "--resume")]
    outputs += [said("report", world.out), said("ledger", "show", tmp_path / "budget.ledger", "--json")]
    assert (world.out / "report.html").exists()
    assert "postgres://" in (world.out / "job.yaml").read_text()
    for output in outputs:
        assert CANARY not in output
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path


@pytest.mark.usefixtures("server")
def test_a_home_keeps_it_in_one_file_of_its_own(tmp_path: Path) -> None:
    folder, schema = make_owner(tmp_path), tmp_path / "schema.yaml"

    def form(table: object) -> str:
        return f"postgres://ada@db.internal/x?password={CANARY}&table={table}"

    asked = terms(expires="2099-01-01")
    with open_owner(folder) as owner:
        invite(owner, asked)

    def command(*words: object) -> str:
        return said("owner", *words, "--home", folder)

    outputs = [
        command("data", "add", "x", form(tmp_path / "missing.csv"), "--schema", schema),
        command("data", "add", "theirs", form(tmp_path / "a.csv"), "--schema", schema, "--json"),
        said("check", "--home", folder),
        command("inbox"),
        command("review", "run-1"),
        command("dry-run", "run-1", "--data", "theirs"),
        command("approve", "run-1", "--by", "Ada", "--data", "theirs"),
        command("audit", "verify", "--json"),
        repr(Registry(folder / "data").get("theirs")),
        said("schema", "check", "--schema", schema, form(tmp_path / "a.csv")),
        said("schema", "draft", form(tmp_path / "a.csv")),
    ]
    assert '"data": "theirs"' in outputs[1]
    for output in outputs:
        assert CANARY not in output
    holding = [path for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert [path.relative_to(folder) for path in holding] == [Path("data/theirs/source.yaml")]
