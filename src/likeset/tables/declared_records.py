"""Records in declared types: whatever a table holds (text of a CSV file, decimals, dictionaries), what leaves is alike.

Numbers become doubles, words text, days dates. What the schema maps them to does not change by it, so whoever has the
schema can check that rows are what their records say. How long a record may be follows from the schema as well.
"""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.tables import cells
from likeset.tables.cells import Mask, MissingWords, plain_array
from likeset.tables.columns import (
    BooleanColumn,
    BooleanMap,
    CategoryColumn,
    DateColumn,
    ImageColumn,
    NumericColumn,
    OrdinalColumn,
    TextColumn,
    VectorColumn,
)
from likeset.tables.records import RecordForm
from likeset.tables.schema import MOST_LETTERS, Schema, fault_of, read_labels

__all__ = ["DeclaredRecords"]

_BYTES_PER_LETTER = 4  # of a label, as arrays of texts have them


class DeclaredRecords:
    """The columns that may leave an owner, in the types that the schema gives them; labels travel beside them.

    Args:
        schema: what is declared.

    Attributes:
        schema: the same.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._missing = MissingWords.of(schema.declaration.missing_words)
        self.form = self._form()

    def of(self, table: pa.Table) -> pa.Table:
        """Rows that the schema maps, as records."""
        arrays = [self._array(field, cells.plain_array(table.column(field.name))) for field in self.form.schema]
        return pa.Table.from_arrays(arrays, schema=self.form.schema)

    @cached_property
    def open_columns(self) -> tuple[str, ...]:
        """Columns of text whose words nobody declared: only they can make a record longer than it may be."""
        return tuple(name for name, declared in self.schema.declared.items() if _is_open(declared))

    @cached_property
    def longest(self) -> pa.Table:
        """One record with the longest cells that are declared."""
        longest: dict[str, Any] = {}
        for name in self.schema.declared:
            kind = self.form.schema.field(name).type
            if cells.is_text(kind):
                longest[name] = pa.array(["x" * self.form.text_bytes[name]], kind)
            elif pa.types.is_list(kind):
                longest[name] = pa.array([np.zeros(self.form.widths[name])], kind)
            else:
                longest[name] = pa.array([0], pa.int32()).cast(kind)
        return pa.table(longest, schema=self.form.schema)

    @cached_property
    def record_bytes(self) -> int:
        """How long a record may be: eight bytes for a number, four for a text's length, and those of its letters.

        With its label, of which a letter takes four bytes: letters are padded to what rows can need by the terms.
        """
        form, columns = self.form, len(self.form.schema)
        single = columns - len(form.widths) - len(form.text_bytes)
        texts = 4 * len(form.text_bytes) + sum(form.text_bytes.values())
        return 8 * (single + sum(form.widths.values())) + texts + _BYTES_PER_LETTER * self._most_label_letters

    @property
    def _most_label_letters(self) -> int:
        if self.label_column is None:
            return 0
        declared = self.label_letters
        return MOST_LETTERS if declared is None else declared

    @property
    def largest_entry(self) -> float:
        """No number of a row that the schema makes of a record is larger in size."""
        return self.schema.largest_entry

    def too_long(self, table: pa.Table) -> Mask:
        """Which rows have a cell that is longer than declared; of a table with the open columns at least."""
        longer = np.zeros(table.num_rows, dtype=np.bool_)
        for name in self.open_columns:
            letters = pc.fill_null(pc.binary_length(self._words(plain_array(table.column(name)))), 0)
            longer |= letters.to_numpy(zero_copy_only=False) > self.form.text_bytes[name]
        return longer

    def rows_of(self, records: pa.Table) -> tuple[Rows, Mask]:
        """What the schema makes of records, and which of them are as declared; of others the row is anything."""
        rows = np.zeros((records.num_rows, self.schema.width), dtype=np.float32)
        good = np.ones(records.num_rows, dtype=np.bool_)
        for encoder, troubles in self.schema.encode_columns(records, rows, table="records"):
            for trouble, mask in troubles.items():
                if encoder.complaint(trouble) is not None:
                    good &= ~mask
        return rows, good

    def _form(self) -> RecordForm:
        columns = self.schema.declared
        kinds = pa.schema([pa.field(name, _type_of(declared)) for name, declared in columns.items()])
        widths = {
            name: declared.width
            for name, declared in columns.items()
            if isinstance(declared, VectorColumn | ImageColumn)
        }
        texts = [name for name in columns if cells.is_text(kinds.field(name).type)]
        return RecordForm(kinds, widths, {name: self._longest_text(columns[name]) for name in texts})

    def _longest_text(self, declared: Any) -> int:
        """How many bytes a cell of a column of text can have."""
        words = [*self.schema.declaration.missing_words]  # a cell that means missing stays as it was written
        if not isinstance(declared, TextColumn):
            words += [*declared.values, *declared.missing_values]
        most = self.schema.declaration.text_bytes if _is_open(declared) else 0
        return max(most, *(len(word.encode()) for word in words), 0)

    @property
    def label_column(self) -> str | None:
        """The column of labels."""
        return self.schema.label_column

    @property
    def label_letters(self) -> int | None:
        """How many letters a label has at most; None where its values are not declared."""
        label = self.schema.declaration.label
        if label is None or label.values is None:
            return None if label is None or label.kind != "number" else 0
        return max(len(value) if isinstance(value, str) else 0 for value in label.values)

    def label_fault(self, labels: NDArray[Any]) -> str | None:
        """What is wrong with labels, in words that quote none of them; None if nothing is."""
        label = self.schema.declaration.label
        if label is None:
            return "labels, which nobody declared"
        return fault_of(labels, kind=label.kind, values=label.values)

    def labels_in(self, records: pa.Table) -> NDArray[Any] | None:
        """The labels that stand in records; None where labels travel beside them alone."""
        label = self.schema.declaration.label
        if label is None or not label.match:
            return None
        column = plain_array(records.column(label.column))
        return read_labels(column, kind=label.kind, values=label.values, missing=self._missing)[0]

    def _array(self, field: Any, column: Any) -> Any:
        declared: Any = self.schema.declared[field.name]
        if column.type == field.type and not pa.types.is_list(field.type):  # a missing list may hide numbers
            return column if not cells.is_text(field.type) else self._words(column)
        if pa.types.is_floating(field.type):
            return _numbers(
                cells.numbers(column, MissingWords.of(()))[0] if _plain(column) else self._parse_numbers(column)
            )
        if pa.types.is_boolean(field.type):
            # The map itself knows which words and numbers mean what.
            positions, _ = BooleanMap(field.name, declared, self._missing).positions(column)
            return pa.array(positions == 1.0, mask=np.isnan(positions))
        if pa.types.is_date(field.type):
            days, _ = cells.days(column, declared.format, self._missing)
            return pa.array(_nullable(days), pa.float64()).cast(pa.int32(), safe=False).cast(pa.date32())
        if pa.types.is_list(field.type):
            return _lists(column, declared.width)
        return self._words(column)

    def _parse_numbers(self, column: Any) -> NDArray[np.float64]:
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


def _is_open(declared: Any) -> bool:
    """Whether cells of this column may hold words that nobody declared."""
    if isinstance(declared, CategoryColumn):
        return declared.unknown != "refuse" and isinstance(declared.values[0], str)
    return isinstance(declared, TextColumn)


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
