"""The generated tables of ``benchmarks/scale.py``: Parquet files of mixed columns that map to 50 features."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["FILE_ROWS", "schema_text", "table_of", "write_tables"]

FILE_ROWS = 1 << 20
_NUMBERS, _WHOLE, _FLAGS, _WORDS, _VALUES = 18, 6, 2, 4, 6
_CLASSES = 5


def schema_text(*, share: int = 100) -> str:
    """The declared columns; ``share`` percent of each kind."""
    numbers, whole, flags, words = (max(1, share * count // 100) for count in (_NUMBERS, _WHOLE, _FLAGS, _WORDS))
    lines = ["likeset: schema", "version: 1", "columns:"]
    lines += [f"  number_{number}: {{kind: numeric, bounds: [-6, 6], outside: clip}}" for number in range(numbers)]
    lines += [f"  whole_{number}: {{kind: numeric, bounds: [0, 120]}}" for number in range(whole)]
    lines += [f"  flag_{number}: {{kind: boolean}}" for number in range(flags)]
    values = ", ".join(f"value-{value}" for value in range(_VALUES))
    lines += [f"  word_{number}: {{kind: category, values: [{values}]}}" for number in range(words)]
    lines += [f"label: {{column: outcome, kind: category, values: [{', '.join(map(str, range(_CLASSES)))}]}}"]
    return "\n".join(lines) + "\n"


def table_of(first_row: int, rows: int) -> pa.Table:
    """Rows that follow from their number's block alone: five classes, each with its own means and words."""
    coins = np.random.default_rng(first_row)
    classes = coins.integers(0, _CLASSES, rows)
    columns: dict[str, pa.Array] = {}
    for number in range(_NUMBERS):
        kind = np.float64 if number < 4 else np.float32
        columns[f"number_{number}"] = pa.array(
            (coins.standard_normal(rows, dtype=np.float32) + 0.5 * np.sin(classes * (number + 1))).astype(kind)
        )
    for number in range(_WHOLE):
        columns[f"whole_{number}"] = pa.array(coins.integers(0, 100, rows).astype(np.int16) + classes.astype(np.int16))
    for number in range(_FLAGS):
        columns[f"flag_{number}"] = pa.array(coins.random(rows, dtype=np.float32) < 0.2 + 0.1 * classes)
    for number in range(_WORDS):
        codes = np.minimum(coins.integers(0, _VALUES, rows), classes + number).astype(np.int8)
        values = pa.array([f"value-{value}" for value in range(_VALUES)])
        columns[f"word_{number}"] = pa.DictionaryArray.from_arrays(pa.array(codes), values).cast(pa.string())
    columns["outcome"] = pa.array(classes.astype(np.int8))
    return pa.table(columns)


def write_tables(directory: Path, rows: int) -> Path:
    """A directory with so many rows in files of about a million each; kept if it is there already."""
    folder = directory / f"rows-{rows}"
    if folder.exists():
        return folder
    making = directory / f"rows-{rows}.making"
    making.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, FILE_ROWS)):
        table = table_of(first, min(FILE_ROWS, rows - first))
        pq.write_table(table, making / f"part-{number:05d}.parquet", compression="snappy")
    making.rename(folder)
    return folder
