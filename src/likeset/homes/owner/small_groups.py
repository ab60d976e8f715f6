"""Small groups: rows with a category value that few rows have are left out before anything is drawn."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.tables.cells import MissingWords, plain_array
from likeset.tables.columns import BooleanColumn, CategoryColumn, OrdinalColumn
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan.row_pass import without_dictionaries
from likeset.tables.schema import Declaration, Schema, read_labels
from likeset.tables.sources.source import Block, Source

__all__ = ["SmallGroup", "SmallGroups", "rare_among"]


@dataclass(frozen=True, slots=True)
class SmallGroup:
    """Rows that have a value in common which few others have.

    Attributes:
        column: in which.
        value: as it is declared; for this house alone.
        rows: how many.
    """

    column: str
    value: str
    rows: int


class SmallGroups:
    """Finds the rows with some category value that fewer than ``smallest`` rows have, while all rows go by once.

    Groups are values of category, ordinal and yes-or-no columns, and of a label that is a category; missing is none.
    Of each value that was seen less often so far, the numbers of its rows are held.

    Args:
        schema: what rows mean.
        smallest: so many rows are no small group.
        labelled: whether the label counts.
    """

    def __init__(self, schema: Schema, *, smallest: int, labelled: bool) -> None:
        self._groups = _Groups(schema, labelled=labelled)
        self._smallest = smallest
        self.columns: tuple[str, ...] = self._groups.columns if smallest > 1 else ()
        self._counts: dict[str, Counter[Any]] = {name: Counter() for name in self.columns}
        self._rows: dict[str, dict[Any, list[int]]] = {name: {} for name in self.columns}

    def add(self, block: Block) -> None:
        """The next rows."""
        self._add(block, None)

    def add_some(self, block: Block, kept: NDArray[np.int64]) -> None:
        """The next rows, of which only those of these numbers count: the others are offered to nobody."""
        here = np.arange(block.first_row, block.first_row + len(block))
        self._add(block, pa.array(np.isin(here, kept, assume_unique=True)))

    def _add(self, block: Block, counts: Any) -> None:
        if not self.columns:
            return
        for name, every in self._groups.of(without_dictionaries(block.table.select(self.columns))):
            values = every if counts is None else pc.if_else(counts, every, pa.scalar(None, every.type))
            seen, rows = self._counts[name], self._rows[name]
            counted = pc.value_counts(values.drop_null())
            here = counted.field(0).to_pylist()
            seen.update(dict(zip(here, counted.field(1).to_pylist(), strict=True)))
            few = [value for value in here if seen[value] < self._smallest]
            for value in set(here).difference(few):
                rows.pop(value, None)
            if few:
                rare = pc.is_in(values, value_set=pa.array(few, values.type))
                places = np.flatnonzero(rare.to_numpy(zero_copy_only=False))
                for place, value in zip(places, values.take(pa.array(places)).to_pylist(), strict=True):
                    rows.setdefault(value, []).append(block.first_row + int(place))

    def groups(self) -> tuple[SmallGroup, ...]:
        """The small groups among all rows that went by, smallest first."""
        groups = [
            SmallGroup(column, str(value), len(numbers))
            for column, by_value in self._rows.items()
            for value, numbers in by_value.items()
        ]
        return tuple(sorted(groups, key=lambda group: (group.rows, group.column, group.value)))

    def rows(self) -> NDArray[np.int64]:
        """Their numbers, rising, of all rows that went by."""
        rare = (numbers for rows in self._rows.values() for numbers in rows.values())
        return np.unique(np.array([number for numbers in rare for number in numbers], dtype=np.int64))


def rare_among(groups: SmallGroups, source: Source, kept: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The numbers of the rows in small groups.

    Args:
        groups: saw all rows, if all take part.
        source: the rows, read again if not all take part.
        kept: numbers of those that take part; None for all.
    """
    if kept is not None and groups.columns:
        for block in source.blocks(groups.columns):
            groups.add_some(block, kept)
    return groups.rows()


class _Groups:
    """The columns whose values are groups, in declared types: a value is the same however a file writes it."""

    def __init__(self, schema: Schema, *, labelled: bool) -> None:
        kinds = (CategoryColumn, OrdinalColumn, BooleanColumn)
        declared: dict[str, Any] = {
            name: column for name, column in schema.declaration.columns.items() if isinstance(column, kinds)
        }
        self._missing = MissingWords.of(schema.declaration.missing_words)
        label = schema.declaration.label
        self._label = label if labelled and label is not None and label.kind == "category" else None
        self._records = None
        if declared:
            part = Declaration(
                likeset="schema", version=1, columns=declared, missing_words=schema.declaration.missing_words
            )
            self._records = DeclaredRecords(Schema(part))
        self.columns = (*declared, *([self._label.column] if self._label else []))

    def of(self, table: pa.Table) -> Iterator[tuple[str, Any]]:
        """Each column of a table with its values; null where one is missing."""
        if self._records is not None:
            records = self._records.of(table)
            for name in records.column_names:
                yield name, self._without_missing_words(plain_array(records.column(name)))
        if self._label is not None:
            cells = plain_array(table.column(self._label.column))
            values, bad = read_labels(cells, kind="category", values=self._label.values, missing=self._missing)
            unusable = np.zeros(len(values), dtype=np.bool_)
            for _, _, mask in bad:
                unusable |= mask
            yield self._label.column, pa.array(values, mask=unusable)

    def _without_missing_words(self, column: Any) -> Any:
        if not pa.types.is_string(column.type):
            return column
        missing = pc.is_in(column, value_set=self._missing.words)
        return pc.if_else(missing, pa.scalar(None, column.type), column)
