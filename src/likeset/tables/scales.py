"""Columns that a target and owners seem to have in different units."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.tables import cells
from likeset.tables.cells import MissingWords
from likeset.tables.columns import NumericColumn
from likeset.tables.schema import Schema
from likeset.tables.sources import Block

_APART = 3.0  # a factor between the scales of one column in two tables that needs an explanation
_ROWS = 1024  # of each table, evenly spaced, are compared
_FEWEST = 10  # values that determine a scale
_QUANTILES = (0.5, 0.75, 0.95, 1.0)

Floats = NDArray[np.floating[Any]]


class NumberSample:
    """A fold of a first pass: some rows of all numeric columns that a schema declares, NaN for what is missing."""

    def __init__(self, schema: Schema) -> None:
        missing = MissingWords.of(schema.declaration.missing_words)
        declared = {name: one for name, one in schema.declared.items() if isinstance(one, NumericColumn)}
        self._missing = {name: missing.also(one.missing_values) for name, one in declared.items()}
        self.columns = tuple(self._missing)
        self._parts = [np.empty((0, len(self.columns)))]

    def add(self, block: Block) -> None:
        self.add_table(block.table, first_row=block.first_row)

    def add_table(self, table: pa.Table, *, first_row: int = 0) -> None:
        step = 1 + (first_row + len(table)) // _ROWS  # later blocks are sampled less
        some, sample = table.take(np.arange(0, len(table), step)), np.empty((-(-len(table) // step), len(self.columns)))
        for place, (name, missing) in enumerate(self._missing.items()):
            sample[:, place] = cells.numbers(cells.plain_array(some.column(name)), missing)[0]
        self._parts.append(sample)

    @property
    def rows(self) -> Rows:
        return np.concatenate(self._parts)


def samples_apart(target: NumberSample, others: Mapping[str, NumberSample]) -> dict[str, list[str]]:
    """The columns of ``columns_apart`` by name."""
    odd = columns_apart(target.rows, {name: sample.rows for name, sample in others.items()})
    return {target.columns[number]: names for number, names in odd.items()}


def columns_apart(target: Rows, owners: Mapping[str, Rows]) -> dict[int, list[str]]:
    """The columns that are not on one scale, by number, and the owners that differ from the target in them.

    Either values of all owners lie beyond those of the target, or both spread and size of an owner's values are on
    another scale. Spread alone is not enough: a target may be a narrow part of the owners' rows.
    """
    own, *others = (rows[:: 1 + len(rows) // _ROWS].astype(np.float64) for rows in (target, *owners.values()))
    own_scales, *scales = map(_scales, (own, *others))
    found = dict[int, list[str]]()
    for number in range(own.shape[1]):
        mine, *theirs = (rows[~np.isnan(rows[:, number]), number] for rows in (own, *others))
        pooled = np.concatenate(theirs)
        if len(mine) and len(pooled) and mine.min() < mine.max() and pooled.min() < pooled.max():
            beyond = mine.max() < pooled.min() or pooled.max() < mine.min()
            apart = (_are_apart(own_scales[number], one[number]) for one in scales)
            odd = [name for name, is_apart in zip(owners, apart, strict=True) if beyond or is_apart]
            found |= {number: odd} if odd else {}
    return found


def _scales(rows: Rows) -> Floats:
    """For each column some quantiles of the sizes of its values, and their spread; NaN where few values tell."""
    if not np.isnan(rows).any():
        rows = rows if len(rows) >= _FEWEST else np.full((1, rows.shape[1]), np.nan)
        return np.vstack([np.quantile(np.abs(rows), _QUANTILES, axis=0), rows.std(axis=0)]).T
    columns = (column[~np.isnan(column)] for column in rows.T)
    return np.concatenate([_scales(column[:, None]) for column in columns])


def _are_apart(one: Floats, two: Floats) -> bool:
    """Whether spread and all quantiles of the sizes differ by a factor. Values that are mostly 0 do not tell."""
    if not (one.all() and two.all()):
        return False
    ratios = one / two
    return bool((ratios > _APART).all() or (ratios * _APART < 1.0).all())
