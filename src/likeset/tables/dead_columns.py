"""Columns that hardly count: their values use next to nothing of the declared bounds, so that all rows look alike.

Decided here for checks, plans, matches and owners alike, from rows as the schema maps them. One wrong zero is enough: a
density of 0.99 to 1.00 within bounds of 0 and 2 moves a row by half a hundredth of a unit.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.tables.cells import Mask
from likeset.tables.columns import DateColumn, ImageColumn, NumericColumn, VectorColumn
from likeset.tables.schema import Schema

__all__ = ["BoundsUse", "DeadColumn", "dead_column_documents", "dead_columns_of"]

_DEAD = 0.02
_LEAST_ROWS = 10


@dataclass(frozen=True, slots=True)
class DeadColumn:
    """A column whose range uses less than 2% of its bounds.

    Attributes:
        column: its name.
    """

    column: str

    @property
    def warning(self) -> str:
        """What to do about it; tells no value."""
        return (
            f"column {self.column!r} hardly counts: its values use less than {_DEAD:.0%} of the declared bounds; "
            "declare narrower ones, or leave it out"
        )

    def document(self) -> dict[str, str]:
        """For machines."""
        return {"column": self.column, "warning": self.warning}


def dead_column_documents(columns: Iterable[DeadColumn]) -> list[dict[str, str]]:
    """As they stand behind ``--json``."""
    return [column.document() for column in columns]


class BoundsUse:
    """How much of its bounds each column uses, over all rows that go by.

    Args:
        schema: that mapped the rows.
    """

    def __init__(self, schema: Schema) -> None:
        self._columns = dict(_bounded(schema))
        self._rows = dict.fromkeys(self._columns, 0)
        self._least = dict.fromkeys(self._columns, math.inf)
        self._most = dict.fromkeys(self._columns, -math.inf)

    def add(self, rows: NDArray[np.float32], *, skip: Mapping[str, Mask] | None = None) -> None:
        """The next mapped rows.

        Args:
            rows: as the schema maps them.
            skip: for a column, which rows of it mean nothing.
        """
        for name, (first, last, marked, _) in self._columns.items():
            means = np.ones(len(rows), dtype=np.bool_)
            if marked:
                means &= rows[:, last] == 0.0
            if skip is not None and name in skip:
                means &= ~skip[name]
            entries = rows[means, first:last]
            if entries.size:
                self._rows[name] += len(entries)
                self._least[name] = min(self._least[name], float(entries.min()))
                self._most[name] = max(self._most[name], float(entries.max()))

    def dead_columns(self) -> tuple[DeadColumn, ...]:
        """Those that use less than 2%; none is named for a handful of rows."""
        return tuple(
            DeadColumn(name)
            for name, (_, _, _, unit) in self._columns.items()
            if self._rows[name] >= _LEAST_ROWS and self._most[name] - self._least[name] < _DEAD * unit
        )


def dead_columns_of(schema: Schema, table: pa.Table, *, table_name: str) -> tuple[DeadColumn, ...]:
    """Of a table that is at hand, whatever is wrong with some of its cells."""
    use = BoundsUse(schema)
    rows = np.zeros((table.num_rows, schema.width), dtype=np.float32)
    troubled = {
        encoder.name: np.logical_or.reduce(list(troubles.values()))
        for encoder, troubles in schema.encode_columns(table, rows, table=table_name)
        if troubles
    }
    use.add(rows, skip=troubled)
    return use.dead_columns()


def _bounded(schema: Schema) -> Iterable[tuple[str, tuple[int, int, bool, float]]]:
    """Each column with bounds: its first and last entry, whether a mark for missing follows, and a unit of an entry."""
    first = 0
    for described, declared in zip(schema.describe(), schema.declared.values(), strict=True):
        after = first + described.features
        wide = isinstance(declared, ImageColumn) or (isinstance(declared, VectorColumn) and declared.bounds is not None)
        if wide or isinstance(declared, NumericColumn | DateColumn):
            marked = declared.missing == "indicator"
            last = after - 1 if marked else after
            yield described.name, (first, last, marked, declared.weight / math.sqrt(last - first))
        first = after
