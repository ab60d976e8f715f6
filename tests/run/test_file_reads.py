"""How often ``likeset match`` reads an owner's file: at most twice, whatever kind of file it is.

What is counted is what the kernel counts: the bytes that this process asked it for (``rchar`` of ``/proc/self/io``),
whoever asked: Python, Arrow, DuckDB or SQLite. Of a run with a large file of an owner, the bytes of the same run with a
small one are taken away, and the rest is divided by the size of the large file: a pass over all of its columns is 1.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import job_world
from chance import pinned_coins
from likeset.tables.sources import open_source

pytestmark = [
    pytest.mark.slow,  # these files are large
    pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts the bytes of a process"),
]

SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 100]}
  site: {kind: category, values: [chest, arm, leg]}
  note: {kind: text, width: 4}
label: {column: ill, kind: category, values: [0, 1]}
id: {column: patient, rows_per_id: 2}
"""
LARGE, SMALL, NOTE_BYTES = 4_000, 40, 2_000
GROUP_ROWS = 100  # of row groups and record batches
KINDS = ("csv", "parquet", "sqlite")
SIZE = 2
BESIDES = 0.08  # of what two readings are: the header of a text is looked for in its first megabyte; footers


def rows(count: int, *, seed: int) -> pa.Table:
    """Rows with a long text that cannot be compressed, two for each id."""
    coins = pinned_coins(seed)
    letters = coins.integers(0, 94, (count, NOTE_BYTES), dtype=np.uint8) + ord("!")
    letters[np.isin(letters, list(b'",'))] = ord("a")
    return pa.table(
        {
            "patient": [f"{seed}-{row // 2}" for row in range(count)],
            "age": np.round(coins.uniform(0, 100, count), 1),
            "site": np.array(["chest", "arm", "leg"])[coins.integers(0, 3, count)],
            "note": [bytes(note).decode() for note in letters],
            "ill": coins.integers(0, 2, count),
        }
    )


def write(folder: Path, name: str, table: pa.Table, kind: str) -> tuple[str, Path]:
    """A table as a file of this kind: how an owner's option names it, and the file."""
    path = folder / f"{name}.{kind}"
    if kind == "csv":
        pa_csv.write_csv(table, path)
    elif kind == "parquet":
        pq.write_table(table, path, row_group_size=GROUP_ROWS)
    else:
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE people (patient, age, site, note, ill)")
            cells = zip(*(column.to_pylist() for column in table.columns), strict=True)
            database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", cells)
            database.commit()
        return f"sqlite:{path}?table=people", path
    return str(path), path


def bytes_read() -> int:
    """That this process asked the kernel for so far, from files of any kind."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.removeprefix("rchar:") for line in lines if line.startswith("rchar:")))


@dataclass(frozen=True)
class Market:
    """A directory with a target, a small owner of each kind of file, and what a run with small owners costs."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Market":
        """Write what all runs share."""
        (folder / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
        write(folder, "target", rows(30, seed=1), "csv")
        write(folder, "other", rows(SMALL, seed=2), "csv")
        return cls(folder)

    def cost(self, out: str, *places: str, expected: int = 0, **options: Any) -> int:
        """Bytes that a run with these owners reads."""
        owners = [f"owner-{number}={place}" for number, place in enumerate(places)]
        given: dict[str, Any] = {
            "schema": self.folder / "schema.yaml",
            "target": self.folder / "target.csv",
            "owner": [*owners, f"south={self.folder / 'other.csv'}"],
            "size": SIZE,
            "epsilon": 8,
            "offers": "tilted",
            "out": self.folder / out,
            "noise": "simulated",
            "seed": 3,
        }
        words = {name: value for name, value in (given | options).items() if value is not None}
        before = bytes_read()
        assert job_world.call("match", words) == expected
        return bytes_read() - before

    def usual(self) -> int:
        """What is read beside a large owner's file; modules that are imported only now do not count."""
        few = [write(self.folder, "few", rows(SMALL, seed=seed), kind)[0] for seed, kind in enumerate(KINDS, start=10)]
        self.cost("first", *few)
        return min(self.cost(f"usual-{number}", few[0]) for number in range(2))


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Market]:
    """Without reports: figures take time, and read files of their own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("likeset.app.cli.match.render", lambda *_: "")
        yield Market.make(tmp_path_factory.mktemp("reads"))


@pytest.fixture(scope="module")
def usual(market: Market) -> int:
    return market.usual()


def copy_bytes(place: str) -> int:
    """How large the private copy of a source is; 0 where there is none."""
    with open_source(place) as source:
        path = source.parts[0].file.path  # type: ignore[attr-defined]
        return path.stat().st_size if path.parent.name.startswith("likeset-") else 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_owners_file_is_read_as_often_as_is_said(kind: str, usual: int, market: Market) -> None:
    """Once to check it, once to draw, and once for its digest if it is a small Parquet file.

    What is copied first is read once (twice from SQLite, first for the types), and the copy at most twice.
    """
    place, file = write(market.folder, "large", rows(LARGE, seed=4), kind)
    spent = market.cost(f"large-{kind}", place) - usual
    size, copy = file.stat().st_size, copy_bytes(place)
    said = (2 if kind == "sqlite" else 1) * size + 2 * copy if copy else (3 if kind == "parquet" else 2) * size
    assert 0.9 * said < spent < (1.0 + BESIDES) * said


def test_a_run_that_is_resumed_reads_no_more(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    """With keys that nobody can foresee: it finds them in its ledger before it reads any owner's file."""
    place, file = write(market.folder, "again", rows(LARGE, seed=6), "csv")
    secret: dict[str, Any] = {"noise": "secret", "seed": None}

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("likeset.run.runs.counted_budget", interrupt)
        market.cost("again", place, expected=130, **secret)
    spent = market.cost("again", place, resume=True, **secret)
    assert spent < (1.0 + BESIDES) * 2 * file.stat().st_size + (2 << 20)  # modules that are loaded meanwhile
