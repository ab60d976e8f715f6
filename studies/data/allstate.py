"""Kaggle's Allstate purchase prediction, ``train.csv``: the paper's main experiment, for who brings the file."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadTable
from likeset.simulation import LabelledMarket
from studies.data.columns import Choice, EncodedColumn, Number, RawTable, encode_columns, read_table

PRODUCTS = {"A": "012", "B": "01", "C": "1234", "D": "123", "E": "01", "F": "0123", "G": "1234"}
"""The seven products with the options of each."""

COLUMNS = (
    "customer_ID",
    "shopping_pt",
    "record_type",
    "day",
    "time",
    "state",
    "location",
    "group_size",
    "homeowner",
    "car_age",
    "car_value",
    "risk_factor",
    "age_oldest",
    "age_youngest",
    "married_couple",
    "C_previous",
    "duration_previous",
    *PRODUCTS,
    "cost",
)
"""Of the file, in its order."""


def _hours(text: str) -> float:
    hours, _, minutes = text.partition(":")
    return int(hours) + int(minutes) / 60.0


_FEATURES: tuple[EncodedColumn, ...] = (
    Choice("day", "0123456"),
    Number("time", 0.0, 24.0, parse=_hours),
    Choice("group_size", "1234"),
    Choice("homeowner", "01"),
    Number("car_age", 0.0, 30.0),
    Choice("car_value", "abcdefghi"),
    Choice("risk_factor", "1234"),
    Number("age_oldest", 18.0, 75.0),
    Number("age_youngest", 16.0, 75.0),
    Choice("married_couple", "01"),
    Choice("C_previous", "1234"),
    Number("duration_previous", 0.0, 15.0),
    Number("cost", 250.0, 900.0),
)
"""What is known of a customer. Left out: the place, which tells the states apart, and the products, which are asked."""

_OWNERS, _GIVEN, _VALIDATION, _SEED_ROWS = 4, 0.7, 0.25, 150
_STATES = {"FL": _OWNERS, "CT": 20, "OH": 2}  # the fewest customers with which the experiment makes sense


@lru_cache(maxsize=1)
def _read_allstate(location: str | None) -> tuple[RawTable, Rows, dict[str, NDArray[np.int64]]]:
    """The last record of each customer: what was bought, in the file as Kaggle gives it."""
    table = read_table(location, COLUMNS)
    try:
        customers = table.columns["customer_ID"].astype(np.int64)
        points = table.columns["shopping_pt"].astype(np.int64)
    except ValueError as error:
        raise BadTable(table.path, "customer_ID and shopping_pt must be whole numbers in every row") from error
    order = np.lexsort((points, customers))
    last = np.sort(order[np.append(np.diff(customers[order]) != 0, True)])
    features = encode_columns(table, _FEATURES)[last]
    kept = RawTable(table.path, {name: cells[last] for name, cells in table.columns.items()}, table.digest)
    for state, fewest in _STATES.items():
        if len(kept.where("state", state)) < fewest:
            raise BadTable(table.path, f"has fewer than {fewest} customers of {state}", column="state")
    labels = {}
    for product, options in PRODUCTS.items():
        whole, _ = Choice(product, options).category_numbers(table)
        if (whole < 0).any():
            line = int(np.flatnonzero(whole < 0)[0]) + 2
            raise BadTable(table.path, "must not be missing", place=f"line {line}", column=product)
        labels[product] = whole[last]
    return kept, features, labels


def allstate_digest(location: str | None) -> str:
    """Of the file."""
    return _read_allstate(location)[0].digest


def allstate_market(location: str | None, _: str, seed: int, rows_per_owner: int | None) -> LabelledMarket:
    """Florida over four owners, 70% of Connecticut to the first; of the rest a quarter is the target."""
    table, rows, labels = _read_allstate(location)
    coins = np.random.default_rng([seed, 0])
    florida, connecticut, ohio = (coins.permutation(table.where("state", state)) for state in _STATES)
    parts = [part[:rows_per_owner] for part in np.array_split(florida, _OWNERS)]
    given = round(_GIVEN * len(connecticut))
    parts[0] = coins.permutation(np.concatenate([parts[0], connecticut[:given]]))
    rest = connecticut[given:]
    quarter = max(2, round(_VALIDATION * len(rest)))
    owned = {f"owner-{index + 1}": part for index, part in enumerate(parts)}
    pool, test = np.concatenate(parts), rest[quarter:]
    return LabelledMarket(
        owners={name: rows[part] for name, part in owned.items()},
        labels={name: labels["A"][part] for name, part in owned.items()},
        target=rows[rest[:quarter]],
        test=rows[test],
        test_labels=labels["A"][test],
        public=rows[ohio[:_SEED_ROWS]],
        more_labels={product: (values[pool], values[test]) for product, values in labels.items()},
    )
