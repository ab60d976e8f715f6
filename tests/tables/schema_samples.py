"""One schema with every kind of column, rows that fit it, and the same rows in other forms."""

from typing import Any

import numpy as np
import pyarrow as pa

from chance import pinned_coins
from likeset.tables.schema import Schema

TEXT = """
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [20, 100]}
  dose: {kind: numeric, bounds: [0.1, 1000], scale: log, missing: indicator, missing_values: [0], weight: 2}
  smoker: {kind: boolean, missing: {value: false}}
  site: {kind: category, values: [north, south, east], unknown: other, missing: indicator}
  code: {kind: category, values: [1, 2.5, 4]}
  stage: {kind: ordinal, values: [I, II, III, IV], missing: indicator}
  seen: {kind: date, bounds: [2000-01-01, 2020-01-01], missing: indicator}
  note: {kind: text, width: 16, missing: indicator}
  embedding: {kind: vector, width: 3, norm: 2}
  picture: {kind: image, shape: [2, 2]}
label: {column: ill, kind: category, values: [0, 1]}
id: {column: patient, rows_per_id: 2}
"""

SCHEMA = Schema.from_text(TEXT)


def typed(rows: int = 200, *, seed: int = 1) -> pa.Table:
    """Rows with the types that a database would have; some cells are missing where that is allowed."""
    coins = pinned_coins(seed)

    def some(values: Any, kind: pa.DataType, *, gone: float = 0.2) -> pa.Array:
        return pa.array(values, kind, mask=coins.random(rows) < gone)

    doses = np.where(coins.random(rows) < 0.1, 0.0, np.round(10 ** coins.uniform(-1, 3, rows), 3))
    words = np.array(["Chest pain", "no pain", "PAIN  at rest", "Müde", "überall müde"])
    days = np.datetime64("2000-01-01") + coins.integers(0, 7000, rows)
    vectors = coins.normal(size=(rows, 3))
    vectors /= np.maximum(1.0, np.linalg.norm(vectors, axis=1, keepdims=True))
    return pa.table(
        {
            "other": pa.array(coins.random(rows)),
            "age": pa.array(np.round(coins.uniform(20, 100, rows), 1)),
            "dose": some(doses, pa.float64()),
            "smoker": some(coins.random(rows) < 0.5, pa.bool_()),
            "site": some(np.array(["north", "south", "east", "west"])[coins.integers(0, 4, rows)], pa.string()),
            "code": pa.array(np.array([1.0, 2.5, 4.0])[coins.integers(0, 3, rows)]),
            "stage": some(np.array(["I", "II", "III", "IV"])[coins.integers(0, 4, rows)], pa.string()),
            "seen": some(days, pa.date32()),
            "note": some(words[coins.integers(0, 5, rows)], pa.string()),
            "embedding": pa.array(list(vectors), pa.list_(pa.float64())),
            "picture": pa.array(list(coins.integers(0, 256, (rows, 4))), pa.list_(pa.int16())),
            "ill": pa.array(coins.integers(0, 2, rows)),
            "patient": pa.array([f"p{row // 2}" for row in range(rows)]),
        }
    )  # fmt: skip


def _cell(value: Any, coins: np.random.Generator) -> str:
    if value is None:
        return str(coins.choice(["", "NA", "?", " ", "null"]))
    if isinstance(value, bool):
        return str(coins.choice(["TRUE", "yes", "1", "1.0"] if value else ["False", " no", "0"]))
    if isinstance(value, list):
        return "[" + ", ".join(repr(one) for one in value) + "]"
    return f" {value}" if coins.random() < 0.1 else str(value)


def as_text(table: pa.Table, *, seed: int = 2) -> pa.Table:
    coins = pinned_coins(seed)
    columns = {name: [_cell(one, coins) for one in table[name].to_pylist()] for name in table.column_names}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def in_pieces(table: pa.Table, size: int = 7) -> pa.Table:
    return pa.concat_tables([table.slice(first, size) for first in range(0, len(table), size)])


def encoded(table: pa.Table) -> pa.Table:
    """The same rows, words and numbers as places in dictionaries, which differ from piece to piece."""

    def one(column: pa.ChunkedArray) -> pa.ChunkedArray:
        flat = not pa.types.is_list(column.type)
        return pa.chunked_array([chunk.dictionary_encode() if flat else chunk for chunk in column.chunks])

    pieces = in_pieces(table, 50)
    return pa.table({name: one(pieces[name]) for name in pieces.column_names})
