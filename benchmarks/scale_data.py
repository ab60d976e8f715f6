"""The generated tables of ``benchmarks/scale.py``: Parquet files of 50 numbers, or of mixed columns that map to 50."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

KINDS = ("numbers", "mixed")

FILE_ROWS = 1 << 20
_NUMBERS, _WHOLE, _FLAGS, _WORDS, _VALUES = 18, 6, 2, 4, 6
_ALL_NUMBERS = 50
_CLASSES = 5


def schema_text(kind: str, *, share: int = 100) -> str:
    """The declared columns; of mixed ones ``share`` percent of each sort."""
    if kind == "numbers":
        numbers, whole, flags, words = _ALL_NUMBERS, 0, 0, 0
    else:
        numbers, whole, flags, words = (max(1, share * count // 100) for count in (_NUMBERS, _WHOLE, _FLAGS, _WORDS))
    lines = ["likeset: schema", "version: 1", "columns:"]
    lines += [f"  number_{number}: {{kind: numeric, bounds: [-6, 6], outside: clip}}" for number in range(numbers)]
    lines += [f"  whole_{number}: {{kind: numeric, bounds: [0, 120]}}" for number in range(whole)]
    lines += [f"  flag_{number}: {{kind: boolean}}" for number in range(flags)]
    values = ", ".join(f"value-{value}" for value in range(_VALUES))
    lines += [f"  word_{number}: {{kind: category, values: [{values}]}}" for number in range(words)]
    lines += [f"label: {{column: outcome, kind: category, values: [{', '.join(map(str, range(_CLASSES)))}]}}"]
    return "\n".join(lines) + "\n"


def table_of(kind: str, first_row: int, rows: int) -> pa.Table:
    """Rows that follow from their number's block alone: five classes, each with its own means and words."""
    coins = np.random.default_rng(first_row)
    classes = coins.integers(0, _CLASSES, rows)
    columns: dict[str, pa.Array] = {}
    for number in range(_ALL_NUMBERS if kind == "numbers" else _NUMBERS):
        means = (0.5 * np.sin(np.arange(_CLASSES) * (number + 1))).astype(np.float32)
        drawn = coins.standard_normal(rows, dtype=np.float32) + means[classes]
        columns[f"number_{number}"] = pa.array(drawn.astype(np.float64) if kind == "mixed" and number < 4 else drawn)
    if kind == "mixed":
        columns |= _other_columns(coins, classes)
    columns["outcome"] = pa.array(classes.astype(np.int8))
    return pa.table(columns)


def _other_columns(coins: np.random.Generator, classes: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Whole numbers, truth values and words."""
    columns: dict[str, pa.Array] = {}
    rows = len(classes)
    for number in range(_WHOLE):
        columns[f"whole_{number}"] = pa.array(coins.integers(0, 100, rows).astype(np.int16) + classes.astype(np.int16))
    for number in range(_FLAGS):
        columns[f"flag_{number}"] = pa.array(coins.random(rows, dtype=np.float32) < 0.2 + 0.1 * classes)
    for number in range(_WORDS):
        codes = np.minimum(coins.integers(0, _VALUES, rows), classes + number).astype(np.int8)
        values = pa.array([f"value-{value}" for value in range(_VALUES)])
        columns[f"word_{number}"] = pa.DictionaryArray.from_arrays(pa.array(codes), values).cast(pa.string())
    return columns


def write_tables(directory: Path, kind: str, rows: int) -> Path:
    """A directory with so many rows in files of about a million each; what is there already is kept."""
    folder = directory / f"{kind}-{rows}"
    if folder.exists():
        return folder
    making = directory / f"{kind}-{rows}.making"
    making.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, FILE_ROWS)):
        path = making / f"part-{number:05d}.parquet"
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            table = table_of(kind, first, min(FILE_ROWS, rows - first))
            # Numbers that hardly repeat gain nothing by a dictionary of them.
            pq.write_table(table, unfinished, compression="snappy", use_dictionary=kind == "mixed")
            unfinished.rename(path)
    making.rename(folder)
    return folder
