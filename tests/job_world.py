"""A small market as files: a schema, a target and three owners, and the command line as a user has it."""

import json
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from chance import pinned_coins
from likeset.app.cli import main
from likeset.run.here import FinishedJob, run_job
from likeset.run.job import Job

SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 100]}
  pulse: {kind: numeric, bounds: [20, 220], missing: indicator}
  site: {kind: category, values: [chest, arm, leg]}
  smoker: {kind: boolean}
label: {column: ill, kind: category, values: [0, 1]}
id: {column: patient, rows_per_id: 2}
"""
OWNERS = ("north", "south", "west")
SIZE, EPSILON = 12, 8


def rows(count: int, *, seed: int, age: float, whose: str) -> pa.Table:
    """Rows that fit the schema; two for each id, and every pulse missing that stands in a place that 7 divides."""
    coins = pinned_coins(seed)
    pulse = np.round(coins.uniform(40, 160, count), 1)
    return pa.table(
        {
            "patient": [f"{whose}-{row // 2}" for row in range(count)],
            "age": np.round(np.clip(coins.normal(age, 12.0, count), 0, 100), 1),
            "pulse": pa.array(pulse, mask=np.arange(count) % 7 == 0),
            "site": np.array(["chest", "arm", "leg"])[coins.integers(0, 3, count)],
            "smoker": np.array(["no", "yes"])[(coins.random(count) < age / 100).astype(int)],
            "ill": coins.integers(0, 2, count),
        }
    )


@dataclass(frozen=True)
class World:
    """A directory with ``schema.yaml``, ``target.csv``, ``north.csv``, ``south.csv`` and ``west.parquet``."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "World":
        (folder / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
        write(folder / "target.csv", rows(60, seed=1, age=60.0, whose="mine"))
        write(folder / "north.csv", rows(60, seed=2, age=30.0, whose="north"))
        write(folder / "south.csv", rows(50, seed=3, age=60.0, whose="south"))
        write(folder / "west.parquet", rows(70, seed=4, age=50.0, whose="west"))
        return cls(folder)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def partial(self) -> Path:
        return self.folder / "out.partial"

    def options(self, **changed: Any) -> dict[str, Any]:
        """Options of ``likeset match`` that work; None takes one away."""
        given: dict[str, Any] = {
            "schema": self.folder / "schema.yaml",
            "target": self.folder / "target.csv",
            "owner": [f"{name}={self.place(name)}" for name in OWNERS],
            "size": SIZE,
            "epsilon": EPSILON,
            "out": self.out,
        }
        return given | changed

    def job(self, **changed: Any) -> Job:
        given = {
            "schema": str(self.folder / "schema.yaml"),
            "target": str(self.folder / "target.csv"),
            "owners": {name: str(self.place(name)) for name in OWNERS},
            "size": SIZE,
            "epsilon": float(EPSILON),
            "out": str(self.out),
        }
        return Job.of(**(given | changed))

    def place(self, name: str) -> Path:
        return self.folder / (f"{name}.parquet" if name == "west" else f"{name}.csv")

    def cells(self, name: str) -> set[tuple[Any, ...]]:
        """The rows of an owner without their ids, as records have them."""
        path = self.place(name)
        table = pq.read_table(path) if path.suffix == ".parquet" else pa_csv.read_csv(path)
        lines = [list(row.values())[1:] for row in table.to_pylist()]
        return {(age, pulse, site, smoker in ("yes", True), ill) for age, pulse, site, smoker, ill in lines}

    def replace(self, name: str, **columns: Any) -> None:
        """Write a file of the market again with other columns; None takes one away."""
        path = self.folder / name
        table = pq.read_table(path) if path.suffix == ".parquet" else pa_csv.read_csv(path)
        for column, values in columns.items():
            place = table.column_names.index(column)
            table = table.remove_column(place)
            if values is not None:
                table = table.add_column(place, column, pa.array(values))
        write(path, table)


def write(path: Path, table: pa.Table) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        pa_csv.write_csv(table, path)


def arguments(command: str, options: Mapping[str, Any], *more: object) -> list[str]:
    found = [command]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value]:
            if one is True:
                found.append(flag)
            elif one is not None:
                found += [flag, str(one)]
    return [*found, *map(str, more)]


def run(job: Job, **options: Any) -> FinishedJob:
    """Run a job without a report, whose figures take time."""
    return run_job(job, render=lambda *_: "", **options)


def charges(ledger: Path) -> list[str]:
    """What was charged in a ledger, without the run's own secrets, which cost nothing: the kinds of requests."""
    with closing(sqlite3.connect(ledger)) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM log WHERE kind = 'reserve'")]
    return [kind for _, _, kind in map(json.loads, keys) if kind != "run/secrets"]


def call(command: str, options: Mapping[str, Any], *more: object) -> int:
    before = sys.argv
    sys.argv = ["likeset", *arguments(command, options, *more)]
    try:
        main()
    except SystemExit as ended:
        return 0 if ended.code is None else int(ended.code)
    finally:
        sys.argv = before
    return 0
