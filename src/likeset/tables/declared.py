"""Records in declared types: whatever a table holds (text of a CSV file, decimals, dictionaries), what leaves is alike.

Numbers become doubles, words text, days dates. What the schema maps them to does not change by it, so whoever has the
schema can check that rows are what their records say.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.tables import cells
from likeset.tables.cells import MissingWords, plain_array
from likeset.tables.columns import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    ImageColumn,
    NumericColumn,
    OrdinalColumn,
    TextColumn,
    VectorColumn,
)
from likeset.tables.labels import fault_of, read_labels
from likeset.tables.scalars import BooleanMap
from likeset.tables.schema import Schema

__all__ = ["DeclaredRecords"]


class DeclaredRecords:
    """The columns that may leave an owner, in the types that the schema gives them; labels travel beside them.

    Args:
        schema: what is declared.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._missing = MissingWords.of(schema.declaration.missing_words)
        self.record_schema = pa.schema([pa.field(name, _type_of(one)) for name, one in schema.declared.items()])

    def of(self, table: pa.Table) -> pa.Table:
        """Rows that the schema maps, as records."""
        arrays = [self._array(field, cells.plain_array(table.column(field.name))) for field in self.record_schema]
        return pa.Table.from_arrays(arrays, schema=self.record_schema)

    def longest(self) -> pa.Table | None:
        """One record with the longest cells that are declared; None if some cells may be of any length."""
        cells_of: dict[str, Any] = {}
        for name, declared in self._schema.declared.items():
            if isinstance(declared, TextColumn) or getattr(declared, "unknown", "refuse") != "refuse":
                return None
            kind = self.record_schema.field(name).type
            if cells.is_text(kind):
                # A cell that means missing stays as it was written.
                words = (*declared.values, *declared.missing_values, *self._schema.declaration.missing_words)
                cells_of[name] = pa.array([max(words, key=lambda word: len(word.encode()))], kind)
            elif pa.types.is_list(kind):
                cells_of[name] = pa.array([np.zeros(declared.width)], kind)
            else:
                cells_of[name] = pa.array([0], pa.int32()).cast(kind)
        return pa.table(cells_of, schema=self.record_schema)

    def rows_of(self, records: pa.Table) -> Rows:
        """What the schema makes of records; raises ``BadTable`` for any that are not as declared."""
        mapped = self._schema.map(records, table="records", locate=lambda offset: f"record {offset + 1}", labels=False)
        return mapped.rows

    @property
    def label_column(self) -> str | None:
        """The column of labels."""
        return self._schema.label_column

    @property
    def label_letters(self) -> int | None:
        """How many letters a label has at most; None where its values are not declared."""
        label = self._schema.declaration.label
        if label is None or label.values is None:
            return None if label is None or label.kind != "number" else 0
        return max(len(value) if isinstance(value, str) else 0 for value in label.values)

    def label_fault(self, labels: NDArray[Any]) -> str | None:
        """What is wrong with labels, in words that quote none of them; None if nothing is."""
        label = self._schema.declaration.label
        if label is None:
            return "labels, which nobody declared"
        return fault_of(labels, kind=label.kind, values=label.values)

    def labels_in(self, records: pa.Table) -> NDArray[Any] | None:
        """The labels that stand in records; None where labels travel beside them alone."""
        label = self._schema.declaration.label
        if label is None or not label.match:
            return None
        column = plain_array(records.column(label.column))
        return read_labels(column, kind=label.kind, values=label.values, missing=self._missing)[0]

    def _array(self, field: Any, column: Any) -> Any:
        declared: Any = self._schema.declared[field.name]
        if column.type == field.type:
            return column if not cells.is_text(field.type) else self._words(column)
        if pa.types.is_floating(field.type):
            return _numbers(cells.numbers(column, MissingWords.of(()))[0] if _plain(column) else self._parsed(column))
        if pa.types.is_boolean(field.type):
            # The map itself knows which words and numbers mean what.
            found, _ = BooleanMap(field.name, declared, self._missing).positions(column)
            return pa.array(found == 1.0, mask=np.isnan(found))
        if pa.types.is_date(field.type):
            days, _ = cells.days(column, declared.format, self._missing)
            return pa.array(_nullable(days), pa.float64()).cast(pa.int32(), safe=False).cast(pa.date32())
        if pa.types.is_list(field.type):
            return _lists(column, declared.width)
        return self._words(column)

    def _parsed(self, column: Any) -> NDArray[np.float64]:
        return cells.numbers(column, self._missing)[0]

    def _words(self, column: Any) -> Any:
        """Text without blanks around it; whole numbers are written as such."""
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        if pa.types.is_floating(column.type):
            whole = pc.equal(pc.floor(column), column)
            if pc.all(pc.fill_null(whole, fill_value=True)).as_py():
                column = pc.cast(column, pa.int64())
        return pc.utf8_trim_whitespace(pc.cast(column, pa.string()))


def _type_of(declared: Any) -> Any:
    if isinstance(declared, NumericColumn):
        return pa.float64()
    if isinstance(declared, CategoryColumn | OrdinalColumn):
        return pa.string() if isinstance(declared.values[0], str) else pa.float64()
    if isinstance(declared, BooleanColumn):
        return pa.bool_()
    if isinstance(declared, DateColumn):
        return pa.date32()
    if isinstance(declared, VectorColumn | ImageColumn):
        return pa.list_(pa.float64())
    assert isinstance(declared, TextColumn)  # noqa: S101 - the last kind there is
    return pa.string()


def _plain(column: Any) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def _nullable(values: NDArray[np.float64]) -> Any:
    return pa.array(values, mask=np.isnan(values))


def _numbers(values: NDArray[np.float64]) -> Any:
    return _nullable(values)


def _lists(column: Any, width: int) -> Any:
    """Lists of doubles; null where there is none."""
    entries, missing, _ = cells.lists(column, width)
    values = cells.numbers(entries, MissingWords.of(()))[0]
    absent = np.zeros(len(column), dtype=np.bool_) if missing is None else missing
    ends = np.concatenate([[0], np.cumsum(np.where(absent, 0, width))]).astype(np.int32)
    offsets = pa.array(ends, mask=np.append(absent, False))
    return pa.ListArray.from_arrays(offsets, pa.array(values))
