"""UCI Adult: owners by work class or by country of birth; one class, or one country, is left out as the target."""

from functools import lru_cache

import numpy as np

from likeset.arguments import Rows
from likeset.errors import BadTable
from likeset.simulation import LabelledMarket
from studies.data.columns import Choice, EncodedColumn, Number, RawTable, encode_columns, random_rows, read_table

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
_OTHERS = ("workclass", "fnlwgt", "education", "native_country", "income", "split")
_FEWEST = 80  # rows of an owner
_TARGET = 400  # rows of the target, at most
_PUBLIC = 150


@lru_cache(maxsize=1)
def _read_adult(location: str | None) -> tuple[RawTable, Rows]:
    table = read_table(location, (*(column.name for column in _COLUMNS), *_OTHERS))
    odd = np.flatnonzero(~np.isin(table.columns["income"], ("<=50K", ">50K")))
    if len(odd):
        raise BadTable(table.path, "is no known category", place=f"line {odd[0] + 2}", column="income")
    return table, encode_columns(table, _COLUMNS)


def adult_digest(location: str | None) -> str:
    """Of the file."""
    return _read_adult(location)[0].digest


def adult_market(location: str | None, by: str, seed: int, rows_per_owner: int | None) -> LabelledMarket:
    """Who works for, or comes from, one place is the target (half, at most 400) and held out; the others are owners."""
    table, rows = _read_adult(location)
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
        public=random_rows(_COLUMNS, _PUBLIC, np.random.default_rng([seed, 2])),
    )
