"""Queries and databases: the same rows as they hold, read only, run once, and no trace left behind."""

import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from source_laws import check_laws, frame

from likeset.errors import BadTable
from likeset.tables import databases
from likeset.tables.sources import open_source

CANARY = "canary-7319"


@pytest.fixture(autouse=True)
def spool_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where private copies go; nothing may be left there."""
    directory = tmp_path / "spools"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    assert list(directory.iterdir()) == []


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "study 1.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE patients (age INT, weight, word TEXT, mixed, raw BLOB, empty)")
        connection.executemany(
            "INSERT INTO patients VALUES (?, ?, ?, ?, ?, NULL)",
            [
                (row if row % 5 else None, row + 0.5 if row % 2 else row, f"wörd\n{row}", (row, "x")[row % 2], b"\xff")
                for row in range(50)
            ],
        )
        connection.execute("CREATE TABLE secrets (word TEXT)")
        connection.execute("INSERT INTO secrets VALUES (?)", (CANARY,))
    connection.close()
    return file


def expected_patients() -> pa.Table:
    return pa.table(
        {
            "age": pa.array([row if row % 5 else None for row in range(50)], pa.int64()),
            "weight": pa.array([row + 0.5 if row % 2 else row for row in range(50)], pa.float64()),
            "word": [f"wörd\n{row}" for row in range(50)],
            "mixed": ["x" if row % 2 else str(row) for row in range(50)],
            "raw": [b"\xff"] * 50,
            "empty": pa.array([None] * 50, pa.string()),
        }
    )


@pytest.mark.parametrize(
    "what", ["table=patients", "query=SELECT * FROM patients", "query=SELECT * FROM patients -- all of them\n;"]
)
@pytest.mark.parametrize("fetched", [1, 7, 16384])
def test_sqlite(
    database: Path, spool_directory: Path, what: str, fetched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.tables.databases._FETCHED_ROWS", fetched)
    with open_source(f"sqlite:{database}?{what}") as source:
        assert source.schema == expected_patients().schema
        check_laws(source, expected_patients(), rows=8, numbers=[49, 3, 3, 0])
        (block, *_) = source.blocks(["age"])
        assert block.locate(17) == "row 17"
        (made,) = spool_directory.iterdir()
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        first = source.fingerprint()
    with open_source(f"sqlite:{database}?{what}") as source:
        assert source.fingerprint() == first
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE patients SET age = 4 WHERE age = 3")
    connection.close()
    with open_source(f"sqlite:{database}?{what}") as source:
        assert source.fingerprint() != first


@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        ("", "end it with ?table=NAME or ?query=SELECT"),
        ("?table=", "nothing stands after 'table='"),
        ("?table=patient", "no such table: patient"),
        ("?table=zzz", "no such table: zzz"),
        ("?query=SELEC 1", 'refused (it must be one SELECT, and nothing may follow it): near "1": syntax error'),
        ("?query=SELECT nope FROM patients", "no such column: nope"),
        ("?query=SELECT age, word AS age FROM patients", "column 'age': columns 1 and 2 have the same name"),
        ("?query=DELETE FROM patients", "(it must be one SELECT, and nothing may follow it): near"),
        ("?query=SELECT 1; DELETE FROM patients", "must be one SELECT, and nothing may follow it"),
        ("?query=SELECT age FROM patients; SELECT 2", "must be one SELECT, and nothing may follow it"),
        ("?query=SELECT age FROM patients) ; DELETE FROM patients; --", "must be one SELECT"),
        ("?query=SELECT age FROM patients \0", "must be one SELECT"),
        ("?query=PRAGMA writable_schema = 1", "(it must be one SELECT, and nothing may follow it): near"),
        ("?query=ATTACH '/dev/null' AS other", "(it must be one SELECT, and nothing may follow it): near"),
        ("?query=SELECT abs(-9223372036854775808) FROM patients", "failed while it ran"),
        ("?query=SELECT json_extract('{}', word) AS t FROM secrets", "failed while it ran"),
        ("?query=SELECT CASE WHEN age < 9 THEN raw ELSE word END AS both FROM patients", "column 'both': holds bytes"),
        ("?query=SELECT CAST(x'ff' || word AS TEXT) AS t FROM secrets", "row 0, column 't': is not in UTF-8"),
    ],
)
def test_bad_sqlite(database: Path, what: str, complaint: str) -> None:
    before = database.read_bytes()
    with pytest.raises(BadTable) as caught:
        open_source(f"sqlite:{database}{what}")
    assert complaint in str(caught.value)
    assert CANARY not in str(caught.value)
    assert database.read_bytes() == before


def test_files_that_are_no_sqlite(tmp_path: Path, database: Path) -> None:
    with pytest.raises(BadTable, match="No such file"):
        open_source(f"sqlite:{tmp_path}/none.db?table=a")
    assert not (tmp_path / "none.db").exists()
    broken = tmp_path / "broken.db"
    broken.write_text(CANARY * 1000)
    with pytest.raises(BadTable, match="cannot be read as an SQLite database") as caught:
        open_source(f"sqlite:{broken}?table=a")
    assert CANARY not in str(caught.value).replace(str(tmp_path), "")
    damaged = bytearray(database.read_bytes())
    damaged[4096:] = b"\xee" * (len(damaged) - 4096)
    broken.write_bytes(damaged)
    with pytest.raises(BadTable, match="cannot be read as an SQLite database"):
        open_source(f"sqlite:{broken}?table=patients")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more").mkdir()
    pq.write_table(frame(40), tmp_path / "more" / "a.parquet")
    pq.write_table(frame(10), tmp_path / "more" / "b.parquet")
    pq.write_table(pa.table({"word": [CANARY]}), tmp_path / "secret.parquet")
    (tmp_path / "t.csv").write_text(f"n,word\n1,x\n2,{CANARY}\n")
    return tmp_path


@pytest.mark.usefixtures("files")
def test_a_query_over_files(spool_directory: Path) -> None:
    query = "sql:SELECT number, word FROM 'more/a.parquet' WHERE number > 3 ORDER BY number DESC"
    with open_source(query) as source:
        found = [row for row in frame(40).select(["number", "word"]).to_pylist() if (row["number"] or 0) > 3]
        check_laws(source, pa.Table.from_pylist(found[::-1]), rows=7, numbers=[3, 1, 1])
        assert source.name == query
        assert len(list(spool_directory.iterdir())) == 1
    with pytest.raises(BadTable, match=r"No such file|changed while"):
        list(source.blocks(["word"]))
    source.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM 'more/*.parquet'",
        "SELECT count(*) AS n FROM read_parquet(['more/a.parquet', 'more/b.parquet'])",
        'WITH t AS (FROM "more/a.parquet" UNION ALL FROM "more/b.parquet") SELECT count(*) AS n FROM t;',
    ],
)
@pytest.mark.usefixtures("files")
def test_queries_over_several_files(query: str) -> None:
    with open_source(f"sql:{query}") as source:
        assert source.fetch([0], ["n"]).to_pydict() == {"n": [50]}


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELEC 1", "refused: Parser Error: syntax error"),
        ("SELECT nope FROM 't.csv'", 'refused: Binder Error: Referenced column "nope" not found'),
        ("SELECT * FROM nothing", "refused: Catalog Error: Table with name nothing does not exist"),
        ("SELECT * FROM 'none.parquet'", "only files that exist"),
        ("SELECT 1; SELECT 2", "exactly one SELECT"),
        ("COPY (SELECT 1) TO 'written.csv'", "exactly one SELECT"),
        ("COPY (SELECT 1) TO 't.csv'", "exactly one SELECT"),
        ("WITH x AS (COPY (SELECT 1) TO 't.csv' (USE_TMP_FILE false)) FROM x", "refused: Binder Error"),
        ("FROM query('WITH x AS (COPY (SELECT 1) TO ''t.csv'' (USE_TMP_FILE false)) FROM x')", "refused: Binder Error"),
        ("WITH x AS (COPY (SELECT 1) TO '*.csv') FROM x", "refused: Binder Error"),
        ("SELECT '\udcff' AS n", "not in UTF-8"),
        ("CREATE TABLE t (a INT)", "exactly one SELECT"),
        ("INSTALL httpfs", "exactly one SELECT"),
        ("ATTACH 'x.db'", "exactly one SELECT"),
        ("SELECT * FROM 'https://example.org/t.parquet'", "no network address"),
        ("SELECT * FROM read_text('/etc/hostname')", "only files that exist"),
        ("SELECT * FROM 'more/../secret.parquet' t, 'nowhere/*.parquet'", "the query failed (io error)"),
        ("SELECT * FROM read_parquet('secret' || '.parquet')", "only files that exist"),
        ("SELECT * FROM read_parquet('secret' || '.parquet') WHERE '*.csv' <> ''", "only files that exist"),
        ("SELECT * FROM read_text('/etc/hostname') WHERE '/*.csv' <> ''", "only files that exist"),
        ("SELECT * FROM glob('more/*') WHERE 'more/*.csv' <> ''", "only files that exist"),
        ("SELECT word::INT AS n FROM 't.csv'", "read_csv('FILE', all_varchar=true)"),
        ("SELECT error(word) AS n FROM 't.csv'", "the query failed (invalid input error)"),
        ("SELECT n, word AS n FROM 't.csv'", "same name"),
        ("SELECT * FROM read_csv('t.csv', columns = {'n': 'INT', 'word': 'INT'})", "conversion error in column word"),
        ("", "exactly one SELECT"),
    ],
)
def test_bad_queries(files: Path, query: str, complaint: str) -> None:
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    with pytest.raises(BadTable) as caught:
        open_source(f"sql:{query}")
    assert complaint in str(caught.value)
    assert CANARY not in str(caught.value)
    assert {path: path.read_bytes() for path in files.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("files")
def test_a_query_sees_no_variables_of_the_program() -> None:
    rows = pa.table({"a": [1]})
    with pytest.raises(BadTable, match="rows does not exist"):
        open_source("sql:SELECT * FROM rows")
    assert rows.num_rows == 1


def test_a_source_that_is_forgotten_leaves_nothing(database: Path) -> None:
    source = open_source(f"sqlite:{database}?table=patients")
    blocks = source.blocks(["age"], rows=5)
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    del source, blocks


def test_a_full_disk_is_said_and_leaves_nothing(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(pa.ipc, "new_file", full)
    with pytest.raises(BadTable, match="No space left on device; make room, or set TMPDIR"):
        open_source(f"sqlite:{database}?table=patients")


def test_an_interrupt_while_the_copy_is_made_leaves_nothing(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(databases, "_sqlite_batches", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_source(f"sqlite:{database}?table=patients")
