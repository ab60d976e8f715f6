"""Tables with declared columns: a strict reader, and numbers by bounds and categories that everybody knows."""

import csv
import gzip
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadTable, InvalidArgument
from likeset.simulation import LabelledMarket

MISSING = ("", "NA", "?", "nan")
_HALF = np.float32(np.sqrt(0.5))


@dataclass(frozen=True, eq=False)
class RawTable:
    """The cells of a file, column by column, as text; and the lines in which its rows are."""

    path: str
    columns: dict[str, NDArray[np.str_]]
    digest: str
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, column: str, value: str) -> NDArray[np.int64]:
        """Rows with that text in a column."""
        return np.flatnonzero(self.columns[column] == value)


class EncodedColumn(Protocol):
    """A column that becomes numbers between 0 and 1."""

    @property
    def name(self) -> str:
        """In the file."""

    @property
    def width(self) -> int:
        """How many numbers it becomes."""

    def encode(self, table: RawTable) -> Rows:
        """The numbers of every row."""

    def random(self, count: int, coins: np.random.Generator) -> Rows:
        """Numbers of rows that nobody has."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number between public bounds, beyond which it is cut; missing: the middle, and a mark of its own.

    Attributes:
        name: of the column.
        low: becomes 0.
        high: becomes 1.
        zero_is_missing: whether a 0 stands for a missing value.
        parse: how the text is read.
    """

    name: str
    low: float
    high: float
    zero_is_missing: bool = False
    parse: Callable[[str], float] = float

    @property
    def width(self) -> int:
        """The number and the mark."""
        return 2

    def encode(self, table: RawTable) -> Rows:
        """Scaled numbers, and marks where they are missing."""
        values = np.full(len(table), np.nan)
        for row, text in enumerate(table.columns[self.name].tolist()):
            if text not in MISSING:
                try:
                    values[row] = self.parse(text)
                except ValueError as error:
                    raise BadTable(
                        table.path, "is not a number", place=f"line {table.lines[row]}", column=self.name
                    ) from error
        if self.zero_is_missing:
            values[values == 0.0] = np.nan
        missing = ~np.isfinite(values)
        scaled = np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)
        scaled[missing] = 0.5
        return np.stack([scaled, missing], axis=1).astype(np.float32)

    def random(self, count: int, coins: np.random.Generator) -> Rows:
        """Uniform between the bounds."""
        return np.stack([coins.random(count), np.zeros(count)], axis=1).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few public categories; missing: none of them."""

    name: str
    values: Sequence[str]

    @property
    def width(self) -> int:
        """One number for each category."""
        return len(self.values)

    def encode(self, table: RawTable) -> Rows:
        """1/√2 in the place of the category: then two categories are at distance 1, as the ends of a number are."""
        return _HALF * self.category_numbers(table)[1]

    def category_numbers(self, table: RawTable) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The category's number (-1: missing), and the same as ones and zeros."""
        known = {value: number for number, value in enumerate(self.values)} | dict.fromkeys(MISSING, -1)
        texts = table.columns[self.name].tolist()
        odd = next((row for row, text in enumerate(texts) if text not in known), None)
        if odd is not None:
            raise BadTable(table.path, "is no known category", place=f"line {table.lines[odd]}", column=self.name)
        numbers = np.array([known[text] for text in texts], dtype=np.int64)
        indicators = (numbers[:, None] == np.arange(len(self.values))).astype(np.float32)
        return numbers, indicators

    def random(self, count: int, coins: np.random.Generator) -> Rows:
        """Each category alike."""
        numbers = coins.integers(len(self.values), size=count)
        indicators: NDArray[np.float32] = (numbers[:, None] == np.arange(len(self.values))).astype(np.float32)
        return _HALF * indicators


def encode_columns(table: RawTable, columns: Sequence[EncodedColumn]) -> Rows:
    """All columns side by side."""
    return np.concatenate([column.encode(table) for column in columns], axis=1)


def random_rows(columns: Sequence[EncodedColumn], count: int, coins: np.random.Generator) -> Rows:
    """Rows drawn from the declared columns alone: public, since no data are behind them."""
    return np.concatenate([column.random(count, coins) for column in columns], axis=1)


def read_table(
    location: str | None, columns: Sequence[str], *, last_of: str = "", only: tuple[str, Sequence[str]] = ("", ())
) -> RawTable:
    """A CSV file (plain or ``.gz``) with exactly these columns, in any order.

    ``only`` keeps rows with some values of a column, and ``last_of`` the last row for each value of another.
    """
    path = Path(str(location))
    if not path.is_file():
        raise InvalidArgument("--data", str(location), "is no file")
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadTable(str(path), "cannot be read as text; is the download complete?") from error
    lines = csv.reader(text.splitlines())
    header = next(lines, [])
    missing, odd = [name for name in columns if name not in header], [name for name in header if name not in columns]
    if missing or odd or len(set(header)) < len(header):
        reason = f"must have exactly the columns {', '.join(columns)}"
        reason += f"; missing: {', '.join(missing)}" if missing else ""
        reason += f"; {len(odd)} columns are not known" if odd else ""
        raise BadTable(str(path), reason, place="line 1")
    rows: dict[str | int, tuple[int, list[str]]] = {}
    for number, row in enumerate(lines, start=2):
        if len(row) != len(header):
            raise BadTable(
                str(path), f"has {len(row)} fields where the header has {len(header)}", place=f"line {number}"
            )
        if not only[0] or row[header.index(only[0])].strip() in only[1]:
            rows[row[header.index(last_of)] if last_of else number] = number, row
    if not rows:
        raise BadTable(str(path), "has a header and no rows that are wanted")
    numbers, texts = zip(*rows.values(), strict=True)
    cells = np.char.strip(np.array(texts, dtype=np.str_))
    columns_by_name = {name: cells[:, header.index(name)] for name in columns}
    return RawTable(str(path), columns_by_name, hashlib.sha256(text.encode()).hexdigest()[:16], numbers)


LEFT_OUT = {"workclass": "Federal-gov", "native_country": "Mexico"}
"""The target of each variant."""

_MARRIED = (
    "Married-civ-spouse",
    "Never-married",
    "Divorced",
    "Separated",
    "Widowed",
    "Married-spouse-absent",
    "Married-AF-spouse",
)
_OCCUPATIONS = (
    "Prof-specialty",
    "Craft-repair",
    "Exec-managerial",
    "Adm-clerical",
    "Sales",
    "Other-service",
    "Machine-op-inspct",
    "Transport-moving",
    "Handlers-cleaners",
    "Farming-fishing",
    "Tech-support",
    "Protective-serv",
    "Priv-house-serv",
    "Armed-Forces",
)
_COLUMNS: tuple[EncodedColumn, ...] = (
    Number("age", 17.0, 90.0),
    Number("education_num", 1.0, 16.0),
    Choice("marital_status", _MARRIED),
    Choice("occupation", _OCCUPATIONS),
    Choice("relationship", ("Husband", "Not-in-family", "Own-child", "Unmarried", "Wife", "Other-relative")),
    Choice("race", ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other")),
    Choice("sex", ("Male", "Female")),
    Number("capital_gain", 0.0, 20_000.0),
    Number("capital_loss", 0.0, 3_000.0),
    Number("hours_per_week", 1.0, 99.0),
)
_OTHER_STATES = ("workclass", "fnlwgt", "education", "native_country", "income", "split")
_FEWEST = 80  # rows of an owner
_TARGET = 400  # rows of the target, at most
_PUBLIC_ADULTS = 150


@lru_cache(maxsize=1)
def read_adult(location: str | None) -> tuple[RawTable, Rows]:
    table = read_table(location, (*(column.name for column in _COLUMNS), *_OTHER_STATES))
    odd = np.flatnonzero(~np.isin(table.columns["income"], ("<=50K", ">50K")))
    if len(odd):
        raise BadTable(table.path, "is no known category", place=f"line {table.lines[odd[0]]}", column="income")
    return table, encode_columns(table, _COLUMNS)


def adult_market(location: str | None, by: str, seed: int, rows_per_owner: int | None) -> LabelledMarket:
    """Who works for, or comes from, one place is the target (half, at most 400) and held out; the others are owners."""
    table, rows = read_adult(location)
    labels = (table.columns["income"] == ">50K").astype(np.int64)
    coins = np.random.default_rng([seed, 0])
    names, counts = np.unique(table.columns[by], return_counts=True)
    chosen = [str(name) for name, count in zip(names, counts, strict=True) if name != "" and count >= _FEWEST]
    if LEFT_OUT[by] not in chosen or len(chosen) < 2:
        raise BadTable(table.path, f"has too few rows: {_FEWEST} are needed of the target and of an owner", column=by)
    left_out = coins.permutation(table.where(by, LEFT_OUT[by]))
    half = min(len(left_out) // 2, _TARGET)
    owned = {name: coins.permutation(table.where(by, name)) for name in chosen if name != LEFT_OUT[by]}
    return LabelledMarket(
        owners={name: rows[mine[:rows_per_owner]] for name, mine in owned.items()},
        labels={name: labels[mine[:rows_per_owner]] for name, mine in owned.items()},
        target=rows[left_out[:half]],
        test=rows[left_out[half:]],
        test_labels=labels[left_out[half:]],
        public=random_rows(_COLUMNS, _PUBLIC_ADULTS, np.random.default_rng([seed, 2])),
    )


HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_FIGURES = ("0.0", "1.0", "2.0", "3.0", "4.0", "6.0", "7.0")
COLUMNS: tuple[EncodedColumn, ...] = (
    Number("age", 20.0, 80.0),
    Choice("sex", _FIGURES[:2]),
    Choice("cp", _FIGURES[1:5]),
    Number("trestbps", 80.0, 200.0, zero_is_missing=True),
    Number("chol", 100.0, 500.0, zero_is_missing=True),
    Choice("fbs", _FIGURES[:2]),
    Choice("restecg", _FIGURES[:3]),
    Number("thalach", 60.0, 210.0),
    Choice("exang", _FIGURES[:2]),
    Number("oldpeak", -3.0, 6.5),
)
"""Slope, ca and thal are left out: hardly any hospital but Cleveland has them."""
_OTHERS = ("hospital", "slope", "ca", "thal", "num", "disease")
_PUBLIC = 150


@lru_cache(maxsize=1)
def read_heart(location: str | None) -> tuple[RawTable, Rows]:
    table = read_table(location, (*(column.name for column in COLUMNS), *_OTHERS))
    for name, known in (("hospital", HOSPITALS), ("disease", ("0", "1"))):
        odd = np.flatnonzero(~np.isin(table.columns[name], known))
        if len(odd):
            raise BadTable(table.path, "is no known category", place=f"line {table.lines[odd[0]]}", column=name)
    return table, encode_columns(table, COLUMNS)


def heart_market(location: str | None, hospital: str, seed: int, rows_per_owner: int | None) -> LabelledMarket:
    """Three hospitals are owners; half of the fourth's patients are the target, the other half is held out."""
    table, rows = read_heart(location)
    labels = table.columns["disease"].astype(np.int64)
    coins = np.random.default_rng([seed, 0])
    left_out = coins.permutation(table.where("hospital", hospital))
    half = len(left_out) // 2
    owned = {name: coins.permutation(table.where("hospital", name)) for name in HOSPITALS if name != hospital}
    return LabelledMarket(
        owners={name: rows[mine[:rows_per_owner]] for name, mine in owned.items()},
        labels={name: labels[mine[:rows_per_owner]] for name, mine in owned.items()},
        target=rows[left_out[:half]],
        test=rows[left_out[half:]],
        test_labels=labels[left_out[half:]],
        public=random_rows(COLUMNS, _PUBLIC, np.random.default_rng([seed, 2])),
    )
