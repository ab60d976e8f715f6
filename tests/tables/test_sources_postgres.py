"""Rows of a real Postgres server, started for these tests on a socket of its own where one is installed."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from source_laws import check_laws

from likeset.errors import BadTable
from likeset.tables.sources import open_source

CANARY = "canary-7319"
USUAL_PLACES = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/local/bin")]


def server_programs() -> Path | None:
    for place in [Path(found).parent for found in [shutil.which("initdb")] if found] + USUAL_PLACES:
        if all((place / program).exists() for program in ("initdb", "pg_ctl", "postgres", "psql")):
            return place
    return None


def as_ordinary_user(command: list[str]) -> list[str]:
    """The server refuses to be run by the superuser."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("adbc_driver_postgresql", reason="the extra likeset[postgres] is not installed")
    programs = server_programs()
    if programs is None:
        pytest.skip("no Postgres server is installed: apt-get install postgresql")
    users = [user.pw_name for user in pwd.getpwall()]
    if os.geteuid() == 0 and (shutil.which("runuser") is None or "postgres" not in users):
        pytest.skip("the server cannot be run by the superuser, and there is no user 'postgres'")
    directory = Path(tempfile.mkdtemp(prefix="likeset-server-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(directory, "postgres")

    def run(*command: str) -> None:
        typed = as_ordinary_user([str(programs / command[0]), *command[1:]])
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(typed, check=True, cwd=directory, timeout=600, **quiet)  # type: ignore[call-overload]  # noqa: S603

    data, started = str(directory / "data"), False
    try:
        run("initdb", "-D", data, "-A", "trust", "-U", "likeset", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={directory} -c fsync=off"
        run("pg_ctl", "-D", data, "-w", "-l", str(directory / "log"), "-o", options, "start")
        started = True
        for statement in (
            "CREATE TABLE patients (id INT, age DOUBLE PRECISION, word TEXT, sick BOOLEAN, born DATE)",
            "INSERT INTO patients SELECT i, CASE WHEN i % 5 > 0 THEN i / 2.0 END, 'wörd ' || i, i % 2 = 0, "
            "DATE '1970-01-01' + i FROM generate_series(0, 99) AS i",
            f"CREATE TABLE secrets AS SELECT '{CANARY}'::TEXT AS word",
            "CREATE USER careful PASSWORD 'hunter2'",
        ):
            run("psql", "-h", str(directory), "-U", "likeset", "-d", "postgres", "-c", statement)
        yield f"postgresql://likeset@/postgres?host={directory}"
    finally:
        if started:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(directory, ignore_errors=True)


def expected() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(100), pa.int32()),
            "age": pa.array([row / 2 if row % 5 else None for row in range(100)]),
            "word": [f"wörd {row}" for row in range(100)],
            "sick": [row % 2 == 0 for row in range(100)],
            "born": pa.array(range(100), pa.int32()).cast(pa.date32()),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["table=patients", "table=public.patients", "query=SELECT * FROM patients ORDER BY id;"]
)
def test_rows_of_a_server(server: str, what: str) -> None:
    with open_source(f"{server}&{what}") as source:
        assert source.schema.types == expected().schema.types
        check_laws(source, expected(), rows=7, numbers=[99, 0, 0, 5])
        assert next(source.blocks(["id"])).locate(3) == "row 3"
        found = source.fingerprint()
    with open_source(f"{server}&{what}") as source:
        assert source.fingerprint() == found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        ("query=SELECT nope FROM patients", 'the query is refused: column "nope" does not exist'),
        ("query=SELECT * FORM patients", "the query is refused: syntax error"),
        ("table=zzz", 'the query is refused: relation "zzz" does not exist'),
        ("query=SELECT word::INT FROM secrets", "the query failed while it ran"),
        ("query=SELECT 1/(id - id) FROM patients", "the query failed while it ran"),
        ("query=SELECT id, age AS id FROM patients", "same name"),
        ("query=WITH gone AS (DELETE FROM patients RETURNING id) SELECT * FROM gone", ""),
        ("query=SELECT 1; DELETE FROM patients", ""),
        ("query=SELECT setval('x', 1)", "refused"),
    ],
)
def test_bad_queries_on_a_server(server: str, what: str, complaint: str) -> None:
    with pytest.raises(BadTable) as caught:
        open_source(f"{server}&{what}")
    assert complaint in str(caught.value)
    assert CANARY not in str(caught.value)
    with open_source(f"{server}&table=patients") as source:
        assert source.row_count == 100


@pytest.mark.slow
def test_types_that_arrow_has_no_name_for(server: str) -> None:
    """Exact numbers come as numbers, everything else as the server writes it."""
    columns = {
        "price": ("CASE WHEN i = 1 THEN NULL ELSE i + 0.25::NUMERIC(10, 2) END", [0.25, None, 2.25]),
        "who": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"] * 3),
        "stay": ("i * INTERVAL '1 day 2 hours'", ["00:00:00", "1 day 02:00:00", "2 days 04:00:00"]),
        "note": ("jsonb_build_object('i', i)", [f'{{"i": {i}}}' for i in range(3)]),
        "address": ("('10.0.0.' || i)::INET", [f"10.0.0.{i}/32" for i in range(3)]),
        "doses": ("ARRAY[i, 0.5::NUMERIC]", [[float(i), 0.5] for i in range(3)]),
        "Plain": ("i", [0, 1, 2]),
    }
    asked = ", ".join(f'{expression} AS "{name}"' for name, (expression, _) in columns.items())
    query = f"SELECT {asked} FROM generate_series(0, 2) AS i ORDER BY i -- in order"  # noqa: S608
    with open_source(f"{server}&query={query}") as source:
        assert source.fetch([0, 1, 2], list(columns)).to_pydict() == {
            name: cells for name, (_, cells) in columns.items()
        }
        assert source.schema.field("price").type == pa.float64()
        with open_source(f"{server}&query={query}") as again:
            assert again.fingerprint() == source.fingerprint()
    with open_source(f"{server}&query=SELECT 1.5 AS n, 2 AS m ORDER BY 2 DESC") as source:
        assert source.fetch([0], ["n", "m"]).to_pylist() == [{"n": 1.5, "m": 2}]


@pytest.mark.slow
def test_a_server_that_refuses_and_one_that_is_not_there(server: str, tmp_path: Path) -> None:
    socket = server.split("host=")[1]
    for address, complaint in [
        (f"postgres://careful:hunter2@/none?host={socket}&table=patients", "no such database"),
        (f"postgres://nobody:hunter2@/postgres?host={socket}&table=patients", "refused the user"),
        (f"postgres://careful:hunter2@/postgres?host={socket}&table=secrets", "permission denied for table secrets"),
        (f"postgres://careful:hunter2@/postgres?host={tmp_path}&table=patients", "cannot be reached"),
    ]:
        with pytest.raises(BadTable) as caught:
            open_source(address)
        assert complaint in str(caught.value)
        assert "hunter2" not in str(caught.value)


def test_a_server_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(BadTable, match=r"extra postgres, which are not installed"):
        open_source("postgres://eva:hunter2@host/db?table=patients")
