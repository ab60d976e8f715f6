"""The paper's insurance market: four owners, one of whom has the target's state as well, and seed rows from a third."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadTable
from likeset.simulation import LabelledMarket
from studies.data.columns import Choice, EncodedColumn, Number, RawTable, encode_columns, read_adult, read_table

_OWNERS = 4
_MIXED, _VALIDATION = 0.7, 0.25  # of the target's state; of the rest of it
_SEED_ROWS = 150
_STATES = ("FL", "CT", "OH")
"""Most customers of all owners, the target, the seed rows."""
_CLASSES = ("Private", "Self-emp-not-inc", "State-gov")
"""The same for Adult, chosen before a result was seen: the largest class of workers, the next, and another."""
_FIGURES = ("1", "2", "3", "4")
_COLUMNS: tuple[EncodedColumn, ...] = (
    Choice("group_size", _FIGURES),
    Choice("homeowner", ("0", "1")),
    Number("car_age", 0.0, 30.0),
    Choice("car_value", tuple("abcdefghi")),
    Choice("risk_factor", _FIGURES),
    Number("age_oldest", 18.0, 75.0),
    Number("age_youngest", 16.0, 75.0),
    Choice("married_couple", ("0", "1")),
    Choice("C_previous", _FIGURES),
    Number("duration_previous", 0.0, 15.0),
)
_LABEL = "A"
"""One of the seven products; the paper does not say which. Options bought together with it are no columns."""
_OTHERS = ("customer_ID", "shopping_pt", "record_type", "day", "time", "state", "location", *"ABCDEFG", "cost")


@lru_cache(maxsize=1)
def read_allstate(location: str | None) -> tuple[RawTable, Rows]:
    """The last record of each customer of the three states, with the columns that an insurer knows beforehand."""
    names = (*(column.name for column in _COLUMNS), *_OTHERS)
    table = read_table(location, names, last_of="customer_ID", only=("state", _STATES))
    return table, encode_columns(table, _COLUMNS)


def allstate_market(location: str | None, variant: str, seed: int, rows_per_owner: int | None) -> LabelledMarket:  # noqa: ARG001
    """Florida and most of Connecticut are the owners'; seed rows come from Ohio."""
    table, rows = read_allstate(location)
    return _market(table, rows, np.unique(table.columns[_LABEL], return_inverse=True)[1], "state", _STATES, seed)


def adult_states_market(location: str | None, variant: str, seed: int, rows_per_owner: int | None) -> LabelledMarket:  # noqa: ARG001
    """The same layout of people by class of worker."""
    table, rows = read_adult(location)
    labels = (table.columns["income"] == ">50K").astype(np.int64)
    return _market(table, rows, labels, "workclass", _CLASSES, seed)


def _market(
    table: RawTable, rows: Rows, labels: NDArray[np.int64], column: str, states: tuple[str, str, str], seed: int
) -> LabelledMarket:
    coins = np.random.default_rng([seed, 0])
    most, wanted, seeds = (coins.permutation(table.where(column, state)) for state in states)
    bought, rest = np.split(wanted, [round(_MIXED * len(wanted))])
    target, test = np.split(rest, [round(_VALIDATION * len(rest))])
    owned = dict(zip((f"owner-{number}" for number in range(_OWNERS)), np.array_split(most, _OWNERS), strict=True))
    owned["owner-0"] = coins.permutation(np.concatenate([owned["owner-0"], bought]))
    if min(len(target), len(test), *map(len, owned.values())) == 0 or len(seeds) < _SEED_ROWS:
        raise BadTable(table.path, f"has too few rows with {' or '.join(states)}", column=column)
    return LabelledMarket(
        owners={name: rows[mine] for name, mine in owned.items()},
        labels={name: labels[mine] for name, mine in owned.items()},
        target=rows[target],
        test=rows[test],
        test_labels=labels[test],
        public=rows[seeds[:_SEED_ROWS]],
    )
