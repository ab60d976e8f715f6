"""A small market as files of several kinds, with a schema that has every kind of column.

Each row of an owner has a dose of its own, by which a selected row's number is found again.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [20, 100]}
  dose: {kind: numeric, bounds: [0.1, 1000], scale: log, weight: 2}
  smoker: {kind: boolean, missing: {value: false}}
  site: {kind: category, values: [arm, chest, leg], unknown: other, missing: indicator}
  stage: {kind: ordinal, values: [I, II, III, IV], missing: indicator}
  seen: {kind: date, bounds: [2000-01-01, 2020-01-01], missing: indicator}
  note: {kind: text, width: 16, missing: indicator}
  embedding: {kind: vector, width: 3, norm: 2}
  picture: {kind: image, shape: [2, 2]}
label: {column: ill, kind: category, values: [0, 1]}
"""
PLAIN = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [20, 100]}
  dose: {kind: numeric, bounds: [0.1, 1000]}
  site: {kind: category, values: [arm, chest, leg, foot], missing: indicator}
label: {column: ill, kind: category, values: [0, 1]}
"""
ID = "id: {column: patient, rows_per_id: 2}\n"
_COUNTS = {"target": 60, "north": 40, "south": 45, "west": 50, "public": 25, "seeds": 3}


def _table(seed: int, count: int, *, age: float, whose: str) -> pa.Table:
    """Rows that fit both schemas; two for each patient."""
    coins = np.random.default_rng(seed)  # pinned: what comes of it is kept in a file

    def some(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=coins.random(count) < 0.1)

    words = np.array(["Chest pain", "no pain", "pain at rest", "tired"])
    days = np.datetime64("2001-01-01") + coins.integers(0, 6000, count)
    vectors = coins.normal(size=(count, 3))
    vectors /= np.maximum(1.0, np.linalg.norm(vectors, axis=1, keepdims=True))
    doses = np.round(np.clip(coins.normal(10 * age, 120.0, count), 1, 990), 0) + np.arange(count) / 1000
    return pa.table(
        {
            "patient": [f"{whose}-{row // 2}" for row in range(count)],
            "age": np.round(np.clip(coins.normal(age, 12.0, count), 20, 100), 2),
            "dose": doses,
            "smoker": some(coins.random(count) < 0.5, pa.bool_()),
            "site": some(np.array(["arm", "chest", "leg", "foot"])[coins.integers(0, 4, count)], pa.string()),
            "stage": some(np.array(["I", "II", "III", "IV"])[coins.integers(0, 4, count)], pa.string()),
            "seen": some(days, pa.date32()),
            "note": some(words[coins.integers(0, 4, count)], pa.string()),
            "embedding": pa.array(list(np.round(vectors, 4)), pa.list_(pa.float64())),
            "picture": pa.array(list(coins.integers(0, 256, (count, 4))), pa.list_(pa.int16())),
            "ill": coins.integers(0, 2, count),
        }
    )


@dataclass(frozen=True)
class FileMarket:
    """A directory with every table as CSV, Parquet, Arrow and SQLite, and the schemas."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "FileMarket":
        for name, text in (("every", SCHEMA), ("plain", PLAIN), ("ids", PLAIN + ID), ("every-ids", SCHEMA + ID)):
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        market = cls(folder)
        for name, table in market.tables().items():
            market._write(name, table)
        return market

    def tables(self) -> dict[str, pa.Table]:
        """By name: the target, three owners, public rows and seed rows."""
        ages = {"north": 35.0, "south": 60.0, "west": 50.0}
        return {
            name: _table(300 + place, count, age=ages.get(name, 55.0), whose=name)
            for place, (name, count) in enumerate(_COUNTS.items())
        }

    def place(self, name: str, kind: str) -> str:
        """A table as an option of ``likeset match`` names it."""
        if kind == "sqlite":
            return f"sqlite:{self.folder / 'study.db'}?table={name}"
        if kind == "sql":
            place = self.folder / f"{name}.parquet"
            return f"sql:SELECT * FROM '{place}' ORDER BY patient, dose"  # noqa: S608 - names of our own
        return str(self.folder / name if kind == "directory" else self.folder / f"{name}.{kind}")

    def words(self, *, schema: str = "plain", kinds: tuple[str, str, str] = ("csv", "csv", "csv")) -> list[str]:
        """Options of ``likeset match``: which schema, and in which kind of file each owner's rows are."""
        owners = zip(("north", "south", "west"), kinds, strict=True)
        named = [f"--owner={name}={self.place(name, kind)}" for name, kind in owners]
        schema_file, target = self.folder / f"{schema}.yaml", self.folder / "target.csv"
        return [f"--schema={schema_file}", f"--target={target}", *named]

    def number_of(self, owner: str, row: Mapping[str, Any]) -> int:
        doses = self.tables()[owner]["dose"].to_numpy()
        (place,) = np.flatnonzero(np.isclose(doses, row["dose"], rtol=1e-6, atol=0.0))
        return int(place)

    def _write(self, name: str, table: pa.Table) -> None:
        text = pa.table({column: [_cell(one) for one in table[column].to_pylist()] for column in table.column_names})
        pa_csv.write_csv(text, self.folder / f"{name}.csv")
        pq.write_table(table, self.folder / f"{name}.parquet")
        with pa.OSFile(str(self.folder / f"{name}.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        (self.folder / name).mkdir()
        pq.write_table(table.slice(0, 20), self.folder / name / "part-0.parquet")
        pq.write_table(table.slice(20), self.folder / name / "part-1.parquet")
        with closing(sqlite3.connect(self.folder / "study.db")) as database:
            columns = ", ".join(f'"{column}"' for column in text.column_names)
            marks = ", ".join("?" * len(text.column_names))
            database.execute(f"CREATE TABLE {name} ({columns})")
            cells = [list(row.values()) for row in text.to_pylist()]
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", cells)  # noqa: S608 - names of our own
            database.commit()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, list) else str(value)
