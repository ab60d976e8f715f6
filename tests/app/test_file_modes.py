"""What commands write holds rows, or says something about them: for the user alone, whatever the umask is."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))

from node_world import POLICY, SCHEMA, rows_text
from remote_world import hold, introduce_all, write_job

import job_world
from likeset import documents
from likeset.app.cli import app
from likeset.homes.consumer_home import ConsumerHome

OWNERS = ("a", "b")


@pytest.fixture(
    params=[0o000, pytest.param(0o022, marks=pytest.mark.slow), pytest.param(0o027, marks=pytest.mark.slow)], ids=oct
)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def done(*words: object) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, (words, result.output, result.exception)
    return result.stdout


def check_private(folder: Path, *, least: int) -> None:
    """Every file and directory below a folder, and the folder itself."""
    found = [folder, *folder.rglob("*")]
    assert sum(path.is_file() for path in found) >= least
    odd = {str(path): oct(path.stat().st_mode & 0o777) for path in found if path.stat().st_mode & 0o077}
    assert not odd


@pytest.mark.usefixtures("umask")
def test_results_of_a_job(tmp_path: Path) -> None:
    world = job_world.World.make(tmp_path)
    made = tmp_path / "made"
    made.mkdir(mode=0o700)
    options = world.options(out=made / "out", ledger=made / "budget.ledger")
    done(*job_world.arguments("match", options))
    done("report", made / "out")
    done("report", made / "out", "--for-owner", "north")
    done("schema", "draft", tmp_path / "north.csv", "--out", made / "draft.yaml")
    assert {path.name for path in (made / "out").iterdir()} >= {"summary.parquet", "result.json", "report.html"}
    check_private(made, least=8)


@pytest.mark.usefixtures("umask")
def test_all_that_parties_of_a_run_keep(tmp_path: Path) -> None:
    """From empty directories to rows that left, by commands, with the network in this process."""
    given, made = tmp_path / "given", tmp_path / "made"
    for folder in (given, given / "kit" / "startup", given / "kit" / "local"):
        folder.mkdir(parents=True)
    (given / "kit" / "local" / "resources.json").write_text("{}")
    job = write_job(given)
    (given / "schema.yaml").write_text(SCHEMA)
    for seed, name in enumerate(OWNERS):
        node = made / f"node-{name}"
        (given / f"{name}.csv").write_text(rows_text(seed))
        done("owner", "init", node, "--name", name)
        policy = {"likeset": "owner", "version": 1, "name": name, **POLICY, "manual_approval": False}
        documents.write(node / "owner.yaml", policy)
        done("owner", "data", "add", "rows", given / f"{name}.csv", "--schema", given / "schema.yaml", "--node", node)
    done("run", "init", made / "home", "--name", "new-clinic")
    done("curator", "init", made / "curator")
    done("curator", "schema", given / "schema.yaml", "--home", made / "curator")
    done("card", "show", "--home", made / "home", "--export", made / "clinic.card")
    heard = ConsumerHome(made / "home").card().fingerprint
    pinned = ("--as", "consumer", "--home", made / "node-a", "--fingerprint", heard)
    done("card", "pin", made / "clinic.card", *pinned)
    done("card", "make", "--new", "--home", made / "node-b")
    introduce_all(made)
    home = ("--home", made / "home")
    done("run", "invite", job, *home)
    node_a = ("--node", made / "node-a")
    done("owner", "inbox", "--add", made / "home" / "runs" / "run-1" / "run-1.invitation", *node_a)
    done("owner", "dry-run", "run-1", "--out", made / "before.parquet", *node_a)
    hold(made, mailbox=tmp_path / "mailbox")
    done("run", "report", "run-1", *home)
    done("owner", "dry-run", "run-1", "--out", made / "rows.csv", *node_a)
    done("owner", "outbox", "run-1", "--save", made / "some" / "bytes", *node_a)
    names = {path.name for path in made.rglob("*")}
    assert names >= {"rows.csv", "before.parquet", "summary.parquet", "summary.bin", "target.npy", "mailbox.json"}
    assert names >= {"card", "card.secret", f"{heard}.json"}
    check_private(made, least=50)


def test_rows_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.csv

    from likeset.app.cli.owner import write_rows
    from likeset.errors import InvalidArgument
    from likeset.homes.review import LeftRows

    def full(_: object, path: Path) -> None:
        path.write_text("half of a")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pyarrow.csv, "write_csv", full)
    with pytest.raises(InvalidArgument, match="No space left"):
        write_rows(LeftRows(pa.table({"age": [1.0]}), 1), tmp_path / "rows.csv")
    assert list(tmp_path.iterdir()) == []
