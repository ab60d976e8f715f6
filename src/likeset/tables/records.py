"""Records: rows in the declared columns and types, as bytes that may leave an owner.

Records have the same types for tables of any types: numbers are doubles, words are text, days are dates. The schema
maps a record and the cells of its table to the same row, so every party with the schema can check rows against records.

Each record has a bit for each missing cell, cells of fixed width, and the letters of its texts. There is one way to
write a record; a reader refuses everything else. docs/wire.md defines the bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadMessage, InvalidArgument
from likeset.tables import cells as cell_values
from likeset.tables.cells import Mask, MissingWords, plain_array
from likeset.tables.columns import (
    BooleanMap,
    CategoryColumn,
    ImageColumn,
    OrdinalColumn,
    TextColumn,
    VectorColumn,
)
from likeset.tables.schema import MOST_LETTERS, Schema, label_values, unusable_texts

_NUMBER, _DAY, _LENGTH, _CLASS = np.dtype(">f8"), np.dtype(">i4"), np.dtype(">u4"), np.dtype(">u2")
_VERSION = 1
_BYTES_PER_LETTER = 4  # of a label, as arrays of texts have them

Lines = NDArray[Any]
"""Of fixed width, one for each record, with a field for each column."""


class DeclaredRecords:
    """The columns that may leave an owner, in the types that the schema gives them; labels travel beside them.

    ``widths`` are those of lists, ``text_bytes`` the longest cell of each text column, and ``cell_bytes`` is a record
    without its letters. Fields of a ``line`` are numbered, since a column may have any name.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.label_column, self.largest_entry = schema.label_column, schema.largest_entry
        columns = schema.declared
        self._missing = MissingWords.of(schema.declaration.missing_words)
        self.types = pa.schema([pa.field(name, _type_of(declared)) for name, declared in columns.items()])
        self.widths = {
            name: declared.width
            for name, declared in columns.items()
            if isinstance(declared, VectorColumn | ImageColumn)
        }
        self.text_bytes = {
            field.name: self._longest_text(columns[field.name])
            for field in self.types
            if cell_values.is_text(field.type)
        }
        # Columns of text whose words are not declared: only they can make a record longer than allowed.
        self.open_columns = tuple(name for name, declared in columns.items() if _is_open(declared))
        self._places = {name: str(place) for place, name in enumerate(self.types.names)}
        fields: list[Any] = [("missing", "u1", (-(-len(self.types) // 8),))]
        for name, kind in zip(self.types.names, self.types.types, strict=True):
            shape = (self.widths[name],) if name in self.widths else ()
            fields.append((self._places[name], _number_type(kind), shape))
        self.line = np.dtype(fields)
        self.cell_bytes = self.line.itemsize

    @cached_property
    def record_bytes(self) -> int:
        """The longest record and label, as terms state it: eight bytes for a number, a text's length and letters."""
        single = len(self.types) - len(self.widths) - len(self.text_bytes)
        texts = 4 * len(self.text_bytes) + sum(self.text_bytes.values())
        label, letters = self.schema.declaration.label, MOST_LETTERS
        if label is None or label.kind == "number":
            letters = 0
        elif label.values is not None:
            letters = max(len(value) if isinstance(value, str) else 0 for value in label.values)
        return 8 * (single + sum(self.widths.values())) + texts + _BYTES_PER_LETTER * letters

    def of(self, table: pa.Table) -> pa.Table:
        arrays = [self._array(field, plain_array(table.column(field.name))) for field in self.types]
        return pa.Table.from_arrays(arrays, schema=self.types)

    def rows_of(self, records: pa.Table) -> tuple[Rows, Mask]:
        rows = np.zeros((records.num_rows, self.schema.width), dtype=np.float32)
        good = np.ones(records.num_rows, dtype=np.bool_)
        for encoder, _, troubles in self.schema.encode_columns(records, rows, table="records"):
            for trouble, mask in troubles.items():
                if encoder.complaint(trouble) is not None:
                    good &= ~mask
        return rows, good

    def too_long(self, table: pa.Table) -> Mask:
        """Which rows have a cell that is longer than declared; of a table with the open columns at least."""
        longer = np.zeros(table.num_rows, dtype=np.bool_)
        for name in self.open_columns:
            letters = pc.fill_null(pc.binary_length(_words(plain_array(table.column(name)))), 0)
            longer |= letters.to_numpy(zero_copy_only=False) > self.text_bytes[name]
        return longer

    def label_fault(self, labels: NDArray[Any]) -> str | None:
        """What is wrong with labels that came from elsewhere, in words that quote none of them; None if nothing is."""
        label = self.schema.declaration.label
        if label is None:
            return "labels, which nobody declared"
        values = label.values
        numbers = label.kind == "number" or (values is not None and not isinstance(values[0], str))
        if labels.dtype.kind not in ("if" if numbers else "U"):
            return f"labels that are not {'numbers' if numbers else 'text'}, as the schema declares them"
        if values is None:
            return "labels that are not finite numbers" if numbers and not np.isfinite(labels).all() else None
        return None if np.isin(labels, label_values(values)).all() else "labels that are none of the declared values"

    def labels_in(self, records: pa.Table) -> NDArray[Any] | None:
        """The labels inside records; None if labels travel only beside them."""
        label = self.schema.declaration.label
        return self.schema.labels(records, table="records")[0] if label is not None and label.match else None

    def most_bytes(self, rows: int) -> int:
        return rows * (self.cell_bytes + sum(self.text_bytes.values()))

    def pack(self, table: pa.Table) -> bytes:
        """The records of a table as bytes: the cells of all rows, then the letters of all rows."""
        cells, letters = self.cells(self.of(table))
        return cells.tobytes() + b"".join(letters)

    def unpack(self, data: bytes, *, rows: int) -> pa.Table:
        """The records that ``pack`` wrote; the reason of a ``BadMessage`` does not depend on them."""
        end = rows * self.cell_bytes
        try:
            if len(data) < end:
                raise ValueError
            table = self.from_cells(np.frombuffer(data[:end], dtype=self.line), data[end:])
            canonical = self.pack(table) == data
        except (pa.ArrowException, InvalidArgument, ValueError):
            raise BadMessage(f"it does not have the records of {rows} rows") from None
        if not canonical:
            raise BadMessage("its records are not written as they must be")
        return table

    def cells(self, records: pa.Table) -> tuple[Lines, list[bytes]]:
        count = records.num_rows
        out = np.zeros(count, dtype=self.line)
        missing = np.zeros((count, len(self.types)), dtype=np.bool_)
        texts = []
        for place, field in enumerate(self.types):
            column = plain_array(records.column(field.name))
            gone = pc.is_null(column, nan_is_null=pa.types.is_floating(field.type)).to_numpy(zero_copy_only=False)
            missing[:, place] = gone
            out[str(place)] = self._numbers(field, column, gone)
            if field.name in self.text_bytes:
                texts.append(pc.cast(column, pa.binary()))
        out["missing"] = np.packbits(missing, axis=1)
        if not texts:
            return out, [b""] * count
        nothing = pa.scalar(b"", pa.binary())
        return out, pc.binary_join_element_wise(
            *texts, nothing, null_handling="replace", null_replacement=b""
        ).to_pylist()

    def from_cells(self, lines: Lines, letters: bytes) -> pa.Table:
        """The records of cells and, record after record, their letters; ``ValueError`` where lengths differ."""
        missing = np.unpackbits(lines["missing"], axis=1, count=len(self.types)).astype(np.bool_)
        lengths = self.text_lengths(lines)
        ends = np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64).T.ravel())]).astype(np.int64)
        if ends[-1] != len(letters):
            raise ValueError("letters")
        buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(letters)]
        texts = pa.Array.from_buffers(pa.large_string(), len(ends) - 1, buffers)
        texts.validate(full=True)
        arrays = [
            self._column(field, lines[str(place)], missing=missing[:, place], texts=texts)
            for place, field in enumerate(self.types)
        ]
        table = pa.Table.from_arrays(arrays, schema=self.types)
        table.validate(full=True)
        return table

    def text_lengths(self, lines: Lines) -> list[Any]:
        return [lines[self._places[name]] for name in self.text_bytes]

    def _numbers(self, field: Any, column: Any, missing: Mask) -> NDArray[Any]:
        """What a cell has in its fixed width: zeros where it is missing, the length where it is a text."""
        if pa.types.is_list(field.type):
            width = self.widths[field.name]
            entries, _, wrong = cell_values.lists(column, width)
            if wrong.any():
                raise InvalidArgument("table", f"column {field.name}", "has a list of another width than declared")
            values = np.zeros((len(column), width))
            values[~missing] = np.asarray(entries.to_numpy(zero_copy_only=False)).reshape(-1, width)
            return values
        if pa.types.is_boolean(field.type):
            column = pc.cast(column, pa.uint8())
        elif pa.types.is_date(field.type):
            column = pc.cast(column, pa.int32())
        elif cell_values.is_text(field.type):
            column = pc.binary_length(column)
        numbers = np.array(pc.fill_null(column, pa.scalar(0, column.type)).to_numpy(zero_copy_only=False))
        numbers[missing] = 0
        return numbers

    def _column(self, field: Any, numbers: NDArray[Any], *, missing: Mask, texts: Any) -> Any:
        kind = field.type
        if cell_values.is_text(kind):
            names = list(self.text_bytes)
            places = np.arange(len(numbers)) * len(names) + names.index(field.name)
            return pc.if_else(pa.array(missing), pa.scalar(None, kind), pc.cast(texts.take(pa.array(places)), kind))
        if pa.types.is_list(kind):
            return _list_array(numbers[~missing].ravel(), missing, self.widths[field.name])
        if pa.types.is_boolean(kind):
            return pa.array(numbers != 0, mask=missing)
        return pa.array(numbers.astype(numbers.dtype.newbyteorder("=")), mask=missing).cast(kind)

    def _longest_text(self, declared: Any) -> int:
        words = [*self.schema.declaration.missing_words]  # a cell that means missing stays as it was written
        if not isinstance(declared, TextColumn):
            words += [*declared.values, *declared.missing_values]
        most = self.schema.declaration.text_bytes if _is_open(declared) else 0
        return max(most, *(len(word.encode()) for word in words), 0)

    def _array(self, field: Any, column: Any) -> Any:
        declared: Any = self.schema.declared[field.name]
        if column.type == field.type and not pa.types.is_list(field.type):  # a missing list may hide numbers
            return column if not cell_values.is_text(field.type) else _words(column)
        if pa.types.is_floating(field.type):
            plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
            return _nullable(cell_values.numbers(column, MissingWords.of(()) if plain else self._missing)[0])
        if pa.types.is_boolean(field.type):
            # The map itself knows which words and numbers mean what.
            positions, _ = BooleanMap(field.name, declared, self._missing).positions(column)
            return pa.array(positions == 1.0, mask=np.isnan(positions))
        if pa.types.is_date(field.type):
            days, _ = cell_values.days(column, declared.format, self._missing)
            return _nullable(days).cast(pa.int32(), safe=False).cast(pa.date32())
        if pa.types.is_list(field.type):
            entries, missing, _ = cell_values.lists(column, declared.width)
            return _list_array(cell_values.numbers(entries, MissingWords.of(()))[0], missing, declared.width)
        return _words(column)


def most_envelope_bytes(record_bytes: int) -> int:
    return record_bytes + record_bytes // 4 + 64


@dataclass(frozen=True, eq=False)
class DecodedRecords:
    """The content of records. Arrays have an entry for each record, also for unsound ones, where it means nothing.

    ``table`` and ``labels`` have the sound records only.
    """

    sound: Mask
    rows: Rows
    handles: NDArray[np.uint64]
    table: pa.Table
    labels: NDArray[Any]


class EnvelopeRecords:
    def __init__(self, schema: Schema, *, labelled: bool = True) -> None:
        self._declared = DeclaredRecords(schema)
        self._label = schema.declaration.label if labelled else None
        declared = None if self._label is None else self._label.values
        self.classes: tuple[Any, ...] = () if declared is None else tuple(declared)
        # Labels that are text without declared values.
        self._label_is_open = self._label is not None and declared is None and self._label.kind != "number"
        self._label_type = _LENGTH if self._label_is_open else _CLASS if self.classes else _NUMBER
        last = [] if self._label is None else [("label", self._label_type)]
        self._line = np.dtype([("version", "u1"), ("handle", ">u8"), ("cells", self._declared.line), *last])
        self._fixed = self._line.itemsize

    @property
    def most_bytes(self) -> int:
        letters = sum(self._declared.text_bytes.values())
        return self._fixed + letters + (_BYTES_PER_LETTER * MOST_LETTERS if self._label_is_open else 0)

    def classes_of(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """The place of each label among the declared values; empty where labels are no declared categories."""
        if not self.classes:
            return np.empty(0, dtype=np.int64)
        same = labels[:, np.newaxis] == label_values(self.classes)
        if not same.any(axis=1).all():
            raise InvalidArgument("labels", f"array of {len(labels)}", "must be declared values of the label")
        return np.asarray(same.argmax(axis=1))

    def encode(self, table: pa.Table, labels: NDArray[Any], handles: NDArray[np.uint64]) -> list[bytes]:
        """A record for each row of a table, its label, if records carry any, and the handle of its owner."""
        records, label = self._declared.of(table), self._label
        count = records.num_rows
        if self._declared.too_long(records).any():
            raise InvalidArgument("table", f"{count} rows", "has a cell that is longer than the schema declares")
        cells, letters = self._declared.cells(records)
        out = np.zeros(count, dtype=self._line)
        out["version"], out["handle"], out["cells"] = _VERSION, handles, cells
        last = [b""] * count
        if self._label_is_open:
            last = [text.encode() for text in labels.tolist()]
            out["label"] = [len(text) for text in last]
        elif label is not None:
            out["label"] = self.classes_of(labels) if self.classes else labels
        return [line.tobytes() + first + second for line, first, second in zip(out, letters, last, strict=True)]

    def read(self, records: Sequence[bytes]) -> DecodedRecords:
        """The content of records from another party; bytes that are no record are not sound, and have no content."""
        forms = [self._has_form(record) for record in records]
        if not self._decode([record for record, has_form in zip(records, forms, strict=True) if has_form]):
            # A text is not UTF-8 or a label is unknown: find the records one by one.
            forms = [has_form and self._decode([record]) for record, has_form in zip(records, forms, strict=True)]
        sound = np.array(forms, dtype=np.bool_)
        whole = [record for record, has_form in zip(records, forms, strict=True) if has_form]
        table, labels, handles = self._decoded(whole)
        rows, good = self._as_declared(whole, table, labels, handles)
        sound[np.flatnonzero(sound)[~good]] = False
        table, labels = table.filter(pa.array(good)), labels[good] if len(labels) else labels
        every_row = np.zeros((len(records), rows.shape[1]), dtype=np.float32)
        every_row[sound] = rows[good]
        every_handle = np.zeros(len(records), dtype=np.uint64)
        every_handle[sound] = handles[good]
        return DecodedRecords(sound, every_row, every_handle, table, labels)

    def _has_form(self, record: bytes) -> bool:
        """Version and length are right, as far as that shows without reading any letters."""
        if not self._fixed <= len(record) <= self.most_bytes or record[0] != _VERSION:
            return False
        (line,) = np.frombuffer(record, dtype=self._line, count=1)
        lengths = self._declared.text_lengths(line["cells"]) + ([line["label"]] if self._label_is_open else [])
        return self._fixed + sum(map(int, lengths)) == len(record)

    def _decode(self, records: Sequence[bytes]) -> bool:
        try:
            self._decoded(records)
        except (pa.ArrowException, InvalidArgument, ValueError):
            return False
        return True

    def _decoded(self, records: Sequence[bytes]) -> tuple[pa.Table, NDArray[Any], NDArray[np.uint64]]:
        lines = np.frombuffer(b"".join(record[: self._fixed] for record in records), dtype=self._line)
        handles = lines["handle"].astype(np.uint64)
        values = np.empty(0) if self._label is None else lines["label"]
        lengths = values.tolist() if self._label_is_open else [0] * len(records)
        ends = [len(record) - length for record, length in zip(records, lengths, strict=True)]
        letters = b"".join(record[self._fixed : end] for record, end in zip(records, ends, strict=True))
        table = self._declared.from_cells(lines["cells"], letters)
        if self._label_is_open:
            words = [record[end:].decode() for record, end in zip(records, ends, strict=True)]
            return table, np.array(words, dtype=f"<U{max([1, *map(len, words)])}"), handles
        if not self.classes:
            return table, values.astype(np.float64), handles
        places = values.astype(np.int64)
        if len(places) and places.max() >= len(self.classes):
            raise InvalidArgument("label", "class", "is none of the declared ones")
        return table, label_values(self.classes)[places], handles

    def _as_declared(
        self, records: Sequence[bytes], table: pa.Table, labels: NDArray[Any], handles: NDArray[np.uint64]
    ) -> tuple[Rows, Mask]:
        rows, good = self._declared.rows_of(table)
        good &= ~self._declared.too_long(table)
        if self._label is not None and len(labels):
            if not self.classes and not self._label_is_open:
                good &= np.isfinite(labels)
            good &= ~unusable_texts(labels)
            inside = self._declared.labels_in(table.filter(pa.array(good)))
            if inside is not None:
                good[good] = np.asarray(inside == labels[good])
        places = np.flatnonzero(good)
        again = self.encode(table.take(pa.array(places)), labels[good] if len(labels) else labels, handles[good])
        good[places] = [records[place] == record for place, record in zip(places.tolist(), again, strict=True)]
        return rows, good


def _type_of(declared: Any) -> Any:
    if isinstance(declared, CategoryColumn | OrdinalColumn):
        return pa.string() if isinstance(declared.values[0], str) else pa.float64()
    return _TYPES[declared.kind]


_TYPES = {
    "numeric": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "text": pa.string(),
    "vector": pa.list_(pa.float64()),
    "image": pa.list_(pa.float64()),
}


def _number_type(kind: Any) -> np.dtype[Any]:
    if pa.types.is_boolean(kind):
        return np.dtype("u1")
    return _DAY if pa.types.is_date(kind) else _LENGTH if cell_values.is_text(kind) else _NUMBER


def _is_open(declared: Any) -> bool:
    """Whether cells of this column may hold words that are not declared."""
    if isinstance(declared, CategoryColumn):
        return declared.unknown != "refuse" and isinstance(declared.values[0], str)
    return isinstance(declared, TextColumn)


def _words(column: Any) -> Any:
    """Text without blanks around it; whole numbers are written as such."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if pa.types.is_floating(column.type):
        whole = pc.equal(pc.floor(column), column)
        if pc.all(pc.fill_null(whole, fill_value=True)).as_py():
            column = pc.cast(column, pa.int64())
    return pc.utf8_trim_whitespace(pc.cast(column, pa.string()))


def _nullable(values: NDArray[np.float64]) -> Any:
    return pa.array(values, mask=np.isnan(values))


def _list_array(entries: NDArray[Any], missing: Mask, width: int) -> Any:
    ends = np.concatenate([[0], np.cumsum(np.where(missing, 0, width))]).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(ends, mask=np.append(missing, False)), pa.array(entries.astype(np.float64))
    )
