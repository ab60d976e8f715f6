"""What commands write holds rows, or says something about them: for the user alone, whatever the umask is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from between_world import JOB
from home_world import POLICY, SCHEMA, rows_text
from typed import run

import job_world
from likeset import documents
from likeset.homes.home import Home

OWNERS = ("a", "b")


@pytest.fixture(
    params=[0o000, pytest.param(0o022, marks=pytest.mark.slow), pytest.param(0o027, marks=pytest.mark.slow)], ids=oct
)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def check_private(folder: Path, *, least: int) -> None:
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
    run(*job_world.arguments("match", options))
    run("report", made / "out")
    run("report", made / "out", "--for-owner", "north")
    run("schema", "draft", tmp_path / "north.csv", "--out", made / "draft.yaml")
    assert {path.name for path in (made / "out").iterdir()} >= {"summary.parquet", "result.json", "report.html"}
    check_private(made, least=8)


@pytest.mark.usefixtures("umask")
def test_all_that_parties_of_a_run_keep(tmp_path: Path) -> None:
    given, made, box = tmp_path / "given", tmp_path / "made", tmp_path / "mailbox"
    for folder in (given, box):
        folder.mkdir()
    made.mkdir(mode=0o700)
    (given / "schema.yaml").write_text(SCHEMA)
    (given / "target.csv").write_text(rows_text(7, count=30))
    documents.write(given / "job.yaml", JOB | {"consumer": "clinic"})
    roles = {"clinic": "consumer", "hub": "curator", "a": "owner", "b": "owner"}
    for name, role in roles.items():
        run("init", made / name, "--name", name, "--role", role, "--mailbox", box.as_uri())
    run("card", "make", "--new", "--home", made / "b")
    run("curator", "schema", given / "schema.yaml", "--home", made / "hub")
    for seed, name in enumerate(OWNERS):
        (given / f"{name}.csv").write_text(rows_text(seed))
        policy = {"likeset": "owner", "version": 1, **POLICY, "consumers": ["clinic"], "manual_approval": False}
        documents.write(made / name / "owner.yaml", policy)
        source, at = given / f"{name}.csv", ("--home", made / name)
        run("owner", "data", "add", "rows", source, "--schema", given / "schema.yaml", *at)
    for name, role in roles.items():
        run("card", "show", "--home", made / name, "--export", made / f"{name}.card")
        with Home(made / name) as home:
            heard = home.card.fingerprint
        for other, its in roles.items():
            if other != name and {role, its} != {"owner"}:
                words = ("--as", role, "--home", made / other, "--fingerprint", heard)
                run("card", "pin", made / f"{name}.card", *words)
    at_clinic = ("--home", made / "clinic")
    run("run", "start", given / "job.yaml", *at_clinic)
    for _ in range(4):
        for name in roles:
            run("sync", "--home", made / name)
    run("run", "report", "run-1", *at_clinic)
    names = {path.name for path in made.rglob("*")}
    assert names >= {"summary.parquet", "summary.bin", "target.npy"}
    assert names >= {"card", "card.secret", "home.yaml", "home.sqlite", "key", "keys"}
    check_private(made, least=40)
