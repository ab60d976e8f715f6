"""UCI Heart Disease: four hospitals, of which one is left out as the target."""

from functools import lru_cache

import numpy as np

from likeset.arguments import Rows
from likeset.errors import BadTable
from likeset.simulation import LabelledMarket
from studies.data.columns import Choice, EncodedColumn, Number, RawTable, encode_columns, random_rows, read_table

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
def _read_heart(location: str | None) -> tuple[RawTable, Rows]:
    table = read_table(location, (*(column.name for column in COLUMNS), *_OTHERS))
    for name, known in (("hospital", HOSPITALS), ("disease", ("0", "1"))):
        odd = np.flatnonzero(~np.isin(table.columns[name], known))
        if len(odd):
            raise BadTable(table.path, "is no known category", place=f"line {odd[0] + 2}", column=name)
    return table, encode_columns(table, COLUMNS)


def heart_digest(location: str | None) -> str:
    """Of the file."""
    return _read_heart(location)[0].digest


def heart_market(location: str | None, hospital: str, seed: int, rows_per_owner: int | None) -> LabelledMarket:
    """Three hospitals are owners; half of the fourth's patients are the target, the other half is held out."""
    table, rows = _read_heart(location)
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
