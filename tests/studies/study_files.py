"""Files of the layouts that studies read, filled at random."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies.data import columns, states
from studies.data.columns import Choice, EncodedColumn, Number

Values = Mapping[str, Sequence[str]]


def write_table(path: Path, declared: Sequence[EncodedColumn], others: Values, rows: int) -> str:
    """A CSV file: declared columns at random within what they declare, other columns of the given values in turn."""
    coins = np.random.default_rng(8)
    filled: dict[str, list[str]] = {
        name: [values[row % len(values)] for row in range(rows)] for name, values in others.items()
    }
    for column in declared:
        if isinstance(column, Choice):
            filled[column.name] = coins.choice(list(column.values), size=rows).tolist()
        elif isinstance(column, Number):
            filled[column.name] = [str(value) for value in coins.integers(int(column.low), int(column.high), size=rows)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(filled)
        writer.writerows(zip(*filled.values(), strict=True))
    return str(path)


def write_heart(folder: Path) -> str:
    others: Values = {**dict.fromkeys(("slope", "ca", "thal", "num"), ("0",)), "hospital": columns.HOSPITALS}
    path = folder / "heart_disease_4hospitals.csv"
    return write_table(path, columns.COLUMNS, {**others, "disease": ["0", "0", "0", "1", "1"]}, 480)


def write_adult(folder: Path) -> str:
    others: Values = {
        **dict.fromkeys(("fnlwgt", "education", "split"), ("0",)),
        "workclass": ["Private", "Private", "Self-emp-not-inc", "State-gov", "Federal-gov"],
        "native_country": ["United-States", "Mexico", "Cuba"],
        "income": ["<=50K", ">50K"],
    }
    return write_table(folder / "adult.csv", columns._COLUMNS, others, 1000)


def write_allstate(folder: Path) -> str:
    """Two records of each customer, the second of which counts; a fourth state is nobody's."""
    others: Values = {
        **dict.fromkeys(states._OTHERS, ("0",)),
        "customer_ID": [str(row // 2) for row in range(2000)],
        "state": [name for name in ("FL", "FL", "CT", "OH", "NY") for _ in range(2)],
        "A": ["9", "0", "9", "1", "9", "2"],
    }
    return write_table(folder / "train.csv", states._COLUMNS, others, 2000)


def write_mnist(folder: Path) -> str:
    coins = np.random.default_rng(8)
    arrays: dict[str, NDArray[np.uint8]] = {}
    for part, rows in (("train", 600), ("test", 1000)):
        digits = (np.arange(rows) % 10).astype(np.uint8)
        pixels = coins.integers(64, size=(rows, 28, 28), dtype=np.uint8)
        pixels[np.arange(rows), digits] += 128  # a line of its own for each digit
        arrays |= {f"x_{part}": pixels, f"y_{part}": digits}
    path = folder / "small.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]  # its keywords are arrays
    return str(path)
