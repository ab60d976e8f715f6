"""Records behind rows: the declared maps backwards, for a consumer who has rows as numbers and no table.

Words of a text and values that were not declared are gone; numbers come back to about six digits of their range, for
the rows are in single precision.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.tables.schema.cell_faults import APART
from likeset.tables.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    NumericColumn,
    OrdinalColumn,
    TextColumn,
    VectorColumn,
    day_number,
)
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.schema import Schema

__all__ = ["records_behind", "unreadable_columns"]

Numbers = NDArray[np.float64]
_DIGITS = 6  # of a column's range
_CLOSE = 1e-4  # in units of a column


def unreadable_columns(schema: Schema) -> tuple[str, ...]:
    """Columns of which some cells, or all, cannot be told from numbers."""
    return tuple(
        name
        for name, column in schema.declared.items()
        if isinstance(column, TextColumn) or getattr(column, "unknown", "refuse") != "refuse"
    )


def records_behind(schema: Schema, rows: Numbers) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Records that the schema maps to these rows, null where a cell cannot be told; and which rows are any record's.

    A missing value that the schema fills in comes back as that value.
    """
    declared = DeclaredRecords(schema)
    arrays, sound, first = [], np.ones(len(rows), dtype=np.bool_), 0
    for described, (name, column) in zip(schema.describe(), schema.declared.items(), strict=True):
        part = rows[:, first : first + described.features] / column.weight
        first += described.features
        values, absent, good = _cells(column, part)
        sound &= good
        kind = declared.form.schema.field(name).type
        arrays.append(pa.array([None if gone else value for value, gone in zip(values, absent, strict=True)], kind))
    return pa.Table.from_arrays(arrays, schema=declared.form.schema), sound


def _cells(column: Any, part: Numbers) -> tuple[list[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    """The cells of a column, which of them are null, and which parts are such a cell's at all."""
    count = len(part)
    everywhere, nowhere = np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    if isinstance(column, TextColumn):
        return [None] * count, everywhere, everywhere
    if isinstance(column, CategoryColumn):
        return _category(column, part)
    absent = part[:, -1] > 0.5 * APART if column.missing == "indicator" else nowhere
    if not isinstance(column, NumericColumn | DateColumn | BooleanColumn | OrdinalColumn):
        return _lists(column, part[:, : column.width]), absent, everywhere
    positions = part[:, 0]
    good = absent | ((positions > -_CLOSE) & (positions < 1.0 + _CLOSE))
    positions = np.clip(positions, 0.0, 1.0)
    if isinstance(column, NumericColumn):
        return [_number(column, float(position)) for position in positions], absent, good
    steps = _steps(column)
    nearest = np.rint(positions * steps).astype(int)
    good &= absent | (np.abs(nearest / steps - positions) < _CLOSE)
    if isinstance(column, DateColumn):
        return [np.datetime64(day_number(column.bounds[0]) + int(day), "D").item() for day in nearest], absent, good
    values = (False, True) if isinstance(column, BooleanColumn) else column.values
    return [values[step] for step in nearest], absent, good


def _steps(column: Any) -> int:
    if isinstance(column, DateColumn):
        low, high = (day_number(day) for day in column.bounds)
        return high - low
    return 1 if isinstance(column, BooleanColumn) else len(column.values) - 1


def _number(column: NumericColumn, position: float) -> float:
    """Rounded to what is certain."""
    low, high = column.bounds
    if column.scale == "log":
        value = low * (high / low) ** position
        return min(max(float(f"{value:.{_DIGITS}g}"), low), high)
    digits = _DIGITS - math.ceil(math.log10(high - low))
    return min(max(round(low + position * (high - low), digits), low), high)


def _category(column: CategoryColumn, part: Numbers) -> tuple[list[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    """One value is at its height and all others at zero; beyond the declared values are unknown and missing ones."""
    heights = part / APART
    highest = heights.argmax(axis=1)
    shape = np.zeros_like(heights)
    shape[np.arange(len(part)), highest] = 1.0
    empty = np.abs(heights).max(axis=1) < _CLOSE  # unknown: nothing
    good = empty & (column.unknown == "nothing") | (np.abs(heights - shape).max(axis=1) < _CLOSE)
    absent = empty | (highest >= len(column.values))
    return [column.values[min(int(at), len(column.values) - 1)] for at in highest], absent, good


def _lists(column: Any, part: Numbers) -> list[Any]:
    if isinstance(column, VectorColumn) and column.norm is not None:
        lists = part * column.norm / APART
    else:
        low, high = column.bounds
        lists = np.clip(low + part * math.sqrt(part.shape[1]) * (high - low), low, high)
    return list(lists.tolist())
