"""A table in files, the same rows in memory, and drawings with weights: what the tests of passes share."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from chance import pinned_coins
from likeset.geometry.features import FourierFeatures, Projection
from likeset.geometry.offers import Drawing
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import DrawnRows, MemoryScan
from likeset.tables.schema import FetchedRows, Schema

SCHEMA = Schema.from_text("""
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 100]}
  weight: {kind: numeric, bounds: [-5, 5], outside: clip, missing: indicator}
  ward: {kind: category, values: [north, south, west]}
label: {column: outcome, kind: category}
""")


@dataclass(frozen=True, eq=False)
class ByFeatures:
    """Weights by a direction in feature space, as an owner's are; goes to other processes."""

    projection: Projection

    def __call__(self, block: FetchedRows, first_row: int) -> NDArray[np.float64]:
        return self.projection(block.rows, first_row=first_row).astype(np.float64)


def table(rows: int, *, seed: int = 0) -> pa.Table:
    coins = pinned_coins(seed)
    weights = coins.standard_normal(rows)
    wards = np.array(["north", "south", "west"])[coins.integers(0, 3, rows)]
    return pa.table(
        {
            "age": pa.array(coins.integers(0, 100, rows)),
            "weight": pa.array(weights, mask=coins.random(rows) < 0.05),
            "ward": pa.array(wards),
            "outcome": pa.array(np.array(["ill", "well"])[coins.integers(0, 2, rows)]),
        }
    )


def write(directory: Path, rows: pa.Table, sizes: list[int], *, group: int = 1000) -> Path:
    """The rows in files of these sizes, written in reverse order: their names decide, not their age."""
    directory.mkdir(parents=True, exist_ok=True)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for place in reversed(range(len(sizes))):
        piece = rows.slice(int(starts[place]), sizes[place])
        pq.write_table(piece, directory / f"part-{place:03d}.parquet", row_group_size=group)
    return directory


def spoil(directory: Path, file: int, row: int, *, group: int = 1000) -> None:
    """One ward of one file becomes a word that the schema does not declare."""
    path = directory / f"part-{file:03d}.parquet"
    rows = pq.read_table(path)
    wards = rows.column("ward").to_pylist()
    wards[row] = "east"
    pq.write_table(rows.set_column(2, "ward", pa.array(wards)), path, row_group_size=group)


def drawings(count: int, *, key: int = 7) -> tuple[Drawing, Drawing]:
    features = FourierFeatures(SCHEMA.width, 64, 0.5, 3)
    direction = 4.0 * pinned_coins(1).standard_normal(64)
    return Drawing(count, key, ByFeatures(Projection(features, direction))), Drawing(count // 2, key + 1)


def in_memory(rows: pa.Table) -> MemoryScan:
    mapped = SCHEMA.map(rows, table="rows", locate=str)
    return MemoryScan(mapped.rows, mapped.labels, DeclaredRecords(SCHEMA).of(rows))


def assert_same(found: list[DrawnRows], expected: list[DrawnRows]) -> None:
    """The same rows in the same order, to the last bit, with the same records."""
    for one, other in zip(found, expected, strict=True):
        assert one.row_numbers.tolist() == other.row_numbers.tolist()
        assert one.records.rows.tobytes() == other.records.rows.tobytes()
        assert one.records.labels.tolist() == other.records.labels.tolist()
        assert one.records.table is not None
        assert one.records.table.equals(other.records.table)
