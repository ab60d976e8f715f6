"""Small groups: rows with a category value that few rows have are left out before anything is drawn."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.tables.schema.cell_values import MissingWords, plain_array
from likeset.tables.schema.columns import BooleanColumn, CategoryColumn, OrdinalColumn
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.labels import read_labels
from likeset.tables.schema.schema import Declaration, Schema
from likeset.tables.sources.source import Block, Source

__all__ = ["small_groups"]


def small_groups(source: Source, schema: Schema, *, smallest: int, labelled: bool) -> NDArray[np.int64]:
    """Numbers of the rows that have some category value with fewer than ``smallest`` rows in the whole source.

    Groups are values of category, ordinal and yes-or-no columns, and of a label that is a category; missing is none.
    """
    groups = _Groups(schema, labelled=labelled)
    nothing = np.empty(0, dtype=np.int64)
    if smallest <= 1 or not groups.columns:
        return nothing
    counts: dict[str, Counter[Any]] = {}
    for block in source.blocks(groups.columns):
        for name, values in groups.of(block):
            found = pc.value_counts(values.drop_null())
            seen = dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
            counts.setdefault(name, Counter()).update(seen)
    rare = {name: [value for value, rows in seen.items() if rows < smallest] for name, seen in counts.items()}
    if not any(rare.values()):
        return nothing
    withheld = [nothing]
    for block in source.blocks(groups.columns):
        marked = np.zeros(len(block), dtype=np.bool_)
        for name, values in groups.of(block):
            if rare[name]:
                found = pc.is_in(values, value_set=pa.array(rare[name], values.type))
                marked |= np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
        withheld.append(block.first_row + np.flatnonzero(marked))
    return np.concatenate(withheld)


class _Groups:
    """The columns whose values are groups, in declared types: a value is the same however a file writes it."""

    def __init__(self, schema: Schema, *, labelled: bool) -> None:
        kinds = (CategoryColumn, OrdinalColumn, BooleanColumn)
        declared: dict[str, Any] = {
            name: one for name, one in schema.declaration.columns.items() if isinstance(one, kinds)
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

    def of(self, block: Block) -> Iterator[tuple[str, Any]]:
        """Each column of a block with its values; null where one is missing."""
        if self._records is not None:
            found = self._records.of(block.table)
            for name in found.column_names:
                yield name, self._without_missing_words(plain_array(found.column(name)))
        if self._label is not None:
            cells = plain_array(block.table.column(self._label.column))
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
