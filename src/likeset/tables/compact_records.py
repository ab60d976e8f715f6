"""Compact records: one row in a few bytes, as it lies in an envelope, with its label and its owner's handle.

An Arrow stream needs two kilobytes for a row of a dozen numbers. Here a record is a version, the handle, a bit for each
missing cell, cells of fixed width one after another, and then the letters of all texts: never more than 1.25 times
what the schema declares, plus 64 bytes. There is one way to write a record, and whatever else comes is refused.
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
from likeset.errors import InvalidArgument
from likeset.tables import cells
from likeset.tables.cells import Mask, plain_array
from likeset.tables.declared_records import DeclaredRecords
from likeset.tables.schema import MOST_LETTERS, Schema, fault_of, label_values, unusable_texts

__all__ = ["CompactRecords", "DecodedRecords", "most_compact_bytes"]

_VERSION = 1
_HEAD_BYTES = 9  # version and handle
_NUMBER, _DAY, _LENGTH, _CLASS = np.dtype(">f8"), np.dtype(">i4"), np.dtype(">u4"), np.dtype(">u2")
_BYTES_PER_LETTER = 4

Bytes = NDArray[np.uint8]


def most_compact_bytes(record_bytes: int) -> int:
    """How long a compact record may be where the terms declare records of so many bytes."""
    return record_bytes + record_bytes // 4 + 64


@dataclass(frozen=True, eq=False)
class DecodedRecords:
    """What compact records say. Arrays have an entry for each record, also for those that are none.

    Attributes:
        sound: which are records as declared; entries of others mean nothing.
        rows: what the schema makes of each.
        classes: the place of each label among the declared ones; empty where labels are no declared categories.
        handles: by which the owner finds each row again.
        table: the sound records, in declared types.
        labels: theirs; empty where there are none.
    """

    sound: Mask
    rows: Rows
    classes: NDArray[np.int64]
    handles: NDArray[np.uint64]
    table: pa.Table
    labels: NDArray[Any]


class CompactRecords:
    """Writes and reads compact records of a schema.

    Args:
        schema: what is declared.
        labelled: whether records carry labels; only where the schema declares some.
    """

    def __init__(self, schema: Schema, *, labelled: bool = True) -> None:
        self._declared, self._width = DeclaredRecords(schema), schema.width
        self._label = schema.declaration.label if labelled else None
        self._columns = [(field.name, field.type) for field in self._declared.form.schema]
        self._texts = [name for name, kind in self._columns if cells.is_text(kind)]
        self._marks = -(-len(self._columns) // 8)
        self._starts: dict[str, int] = {}
        position = _HEAD_BYTES + self._marks
        for name, kind in self._columns:
            self._starts[name] = position
            position += self._cell_bytes(name, kind)
        self._label_start = position
        self._fixed = position + self._label_bytes

    @property
    def most_bytes(self) -> int:
        """No record is longer; at most ``most_compact_bytes`` of what the schema declares."""
        letters = sum(self._declared.form.text_bytes.values())
        return self._fixed + letters + (_BYTES_PER_LETTER * MOST_LETTERS if self._label_is_open else 0)

    @cached_property
    def classes(self) -> tuple[Any, ...]:
        """The declared values of the label, in their order; empty where labels are no declared categories."""
        return () if self._label is None or self._label.values is None else tuple(self._label.values)

    def classes_of(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """The place of each label among the declared values; empty where labels are no declared categories.

        Raises:
            InvalidArgument: a label is none of them.
        """
        if not self.classes:
            return np.empty(0, dtype=np.int64)
        values = label_values(self.classes)
        order = np.argsort(values)
        at = np.minimum(np.searchsorted(values[order], labels), len(values) - 1)
        places = order[at].astype(np.int64)
        if not np.array_equal(values[places], labels):
            raise InvalidArgument("labels", f"array of {len(labels)}", "must be declared values of the label")
        return places

    def encode(self, table: pa.Table, labels: NDArray[Any], handles: NDArray[np.uint64]) -> list[bytes]:
        """A compact record for each row of a table.

        Args:
            table: rows that the schema maps, with at least the declared columns.
            labels: one for each row; empty where records carry none.
            handles: one for each row, by which its owner finds it again.

        Raises:
            InvalidArgument: labels or handles do not belong to the rows, or a row is none as declared.
        """
        records = self._declared.of(table)
        count = records.num_rows
        if len(handles) != count or len(labels) != (count if self._label is not None else 0):
            raise InvalidArgument("labels", f"{len(labels)} and {len(handles)} handles", f"there are {count} rows")
        label = self._label
        if label is not None and count and fault_of(labels, kind=label.kind, values=label.values) is not None:
            raise InvalidArgument("labels", f"array of {count}", "must be as the schema declares")
        if self._declared.too_long(records).any():
            raise InvalidArgument("table", f"{count} rows", "has a cell that is longer than the schema declares")
        out = np.zeros((count, self._fixed), dtype=np.uint8)
        out[:, 0] = _VERSION
        _put(out, 1, np.asarray(handles, dtype=np.uint64).astype(">u8"))
        missing = np.zeros((count, len(self._columns)), dtype=np.bool_)
        texts = []
        for place, (name, kind) in enumerate(self._columns):
            column = plain_array(records.column(name))
            missing[:, place] = self._write_cells(out, name, kind, column)
            if name in self._declared.form.text_bytes:
                texts.append(pc.cast(column, pa.binary()))
        out[:, _HEAD_BYTES : _HEAD_BYTES + self._marks] = np.packbits(missing, axis=1)
        if label is not None and count:
            texts += self._write_labels(out, labels)
        if not texts:
            return [line.tobytes() for line in out]
        joined = pc.binary_join_element_wise(
            *texts, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
        )
        return [line.tobytes() + letters for line, letters in zip(out, joined.to_pylist(), strict=True)]

    def read(self, records: Sequence[bytes]) -> DecodedRecords:
        """What compact records from another party say; whatever is none is not sound, and says nothing."""
        sound = np.array([self._has_form(record) for record in records], dtype=np.bool_)
        kept = [record for record, whole in zip(records, sound, strict=True) if whole]
        try:
            made = self._decoded(kept)
        except (pa.ArrowException, InvalidArgument, ValueError):
            # One of them is no text, or has no such label: which one is found out one by one.
            for place in np.flatnonzero(sound).tolist():
                sound[place] = self._decodes(records[place])
            kept = [record for record, whole in zip(records, sound, strict=True) if whole]
            made = self._decoded(kept)
        table, labels, handles = made
        good = self._as_declared(kept, table, labels, handles)
        places = np.flatnonzero(sound)
        sound[places[~good]] = False
        table, labels = table.filter(pa.array(good)), labels[good] if len(labels) else labels
        rows = np.zeros((len(records), self._width), dtype=np.float32)
        rows[sound] = self._declared.rows_of(table)[0]
        every_handle = np.zeros(len(records), dtype=np.uint64)
        every_handle[sound] = handles[good]
        classes = np.zeros(len(records) if self.classes else 0, dtype=np.int64)
        if self.classes and sound.any():
            classes[sound] = self.classes_of(labels)
        return DecodedRecords(sound, rows, classes, every_handle, table, labels)

    @property
    def _label_is_open(self) -> bool:
        """Whether labels are texts that nobody declared."""
        return self._label is not None and self._label.values is None and self._label.kind != "number"

    @property
    def _label_bytes(self) -> int:
        if self._label is None:
            return 0
        kind = _LENGTH if self._label_is_open else _CLASS if self._label.values is not None else _NUMBER
        return kind.itemsize

    def _cell_bytes(self, name: str, kind: Any) -> int:
        if pa.types.is_list(kind):
            return _NUMBER.itemsize * self._declared.form.widths[name]
        if pa.types.is_boolean(kind):
            return 1
        if pa.types.is_date(kind):
            return _DAY.itemsize
        return _LENGTH.itemsize if cells.is_text(kind) else _NUMBER.itemsize

    def _write_cells(self, out: Bytes, name: str, kind: Any, column: Any) -> Mask:
        """Cells of fixed width into their places, zeros for those that are missing; which are missing."""
        start = self._starts[name]
        missing: Mask = pc.is_null(column, nan_is_null=pa.types.is_floating(kind)).to_numpy(zero_copy_only=False)
        if pa.types.is_list(kind):
            width = self._declared.form.widths[name]
            entries, _, wrong = cells.lists(column, width)
            if wrong is not None:
                raise InvalidArgument("table", f"column {name}", "has a list of another width than declared")
            values = np.zeros((len(column), width))
            values[~missing] = np.asarray(entries.to_numpy(zero_copy_only=False)).reshape(-1, width)
            _put(out, start, values.astype(_NUMBER))
        elif pa.types.is_boolean(kind):
            out[:, start] = pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False)
        elif pa.types.is_date(kind):
            days = pc.fill_null(pc.cast(column, pa.int32()), 0).to_numpy(zero_copy_only=False)
            _put(out, start, days.astype(_DAY))
        elif cells.is_text(kind):
            lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
            _put(out, start, lengths.astype(_LENGTH))
        else:
            numbers = np.array(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False))
            numbers[missing] = 0.0
            _put(out, start, numbers.astype(_NUMBER))
        return missing

    def _write_labels(self, out: Bytes, labels: NDArray[Any]) -> list[Any]:
        """Labels into their place; the letters of those that are open."""
        if self.classes:
            _put(out, self._label_start, self.classes_of(labels).astype(_CLASS))
            return []
        if not self._label_is_open:
            _put(out, self._label_start, labels.astype(_NUMBER))
            return []
        if unusable_texts(labels).any():
            raise InvalidArgument("labels", f"array of {len(labels)}", "has a text that no record takes")
        letters = pa.array([label.encode() for label in labels.tolist()], pa.binary())
        _put(out, self._label_start, pc.binary_length(letters).to_numpy(zero_copy_only=False).astype(_LENGTH))
        return [letters]

    def _has_form(self, record: bytes) -> bool:
        """Version and length are right, as far as that shows without reading any letters."""
        if not self._fixed <= len(record) <= self.most_bytes or record[0] != _VERSION:
            return False
        places = [self._starts[name] for name in self._texts] + ([self._label_start] if self._label_is_open else [])
        lengths = (int.from_bytes(record[start : start + _LENGTH.itemsize], "big") for start in places)
        return self._fixed + sum(lengths) == len(record)

    def _decodes(self, record: bytes) -> bool:
        try:
            self._decoded([record])
        except (pa.ArrowException, InvalidArgument, ValueError):
            return False
        return True

    def _decoded(self, records: Sequence[bytes]) -> tuple[pa.Table, NDArray[Any], NDArray[np.uint64]]:
        """Table, labels and handles of records that have the form of one."""
        fixed = np.frombuffer(b"".join(record[: self._fixed] for record in records), dtype=np.uint8)
        lines = fixed.reshape(len(records), self._fixed)
        marks = lines[:, _HEAD_BYTES : _HEAD_BYTES + self._marks]
        missing = np.unpackbits(marks, axis=1, count=len(self._columns)).astype(np.bool_)
        texts = self._letters(lines, b"".join(record[self._fixed :] for record in records))
        arrays = [
            self._column(lines, name, kind, missing=missing[:, place], texts=texts)
            for place, (name, kind) in enumerate(self._columns)
        ]
        table = pa.Table.from_arrays(arrays, schema=self._declared.form.schema)
        table.validate(full=True)
        handles = _taken(lines, 1, np.dtype(">u8"))[:, 0].astype(np.uint64)
        return table, self._labels(lines, texts), handles

    def _letters(self, lines: Bytes, letters: bytes) -> Any:
        """All texts of all records, record after record, as one array that shares the letters."""
        places = [self._starts[name] for name in self._texts] + ([self._label_start] if self._label_is_open else [])
        lengths = (
            np.stack([_taken(lines, start, _LENGTH)[:, 0] for start in places], axis=1) if places else lines[:, :0]
        )
        ends = np.concatenate([[0], np.cumsum(lengths.ravel(), dtype=np.int64)])
        offsets = pa.py_buffer(ends.astype(np.int64).tobytes())
        texts = pa.Array.from_buffers(pa.large_string(), lengths.size, [None, offsets, pa.py_buffer(letters)])
        texts.validate(full=True)
        return texts

    def _column(self, lines: Bytes, name: str, kind: Any, *, missing: Mask, texts: Any) -> Any:
        start = self._starts[name]
        if cells.is_text(kind):
            every = len(self._texts) + self._label_is_open
            found = texts.take(pa.array(np.arange(len(lines)) * every + self._texts.index(name)))
            return pc.if_else(pa.array(missing), pa.scalar(None, kind), pc.cast(found, kind))
        if pa.types.is_list(kind):
            width = self._declared.form.widths[name]
            values = _taken(lines, start, _NUMBER, width)[~missing].astype(np.float64).ravel()
            ends = np.concatenate([[0], np.cumsum(np.where(missing, 0, width))]).astype(np.int32)
            return pa.ListArray.from_arrays(pa.array(ends, mask=np.append(missing, False)), pa.array(values))
        if pa.types.is_boolean(kind):
            return pa.array(lines[:, start] != 0, mask=missing)
        if pa.types.is_date(kind):
            return pa.array(_taken(lines, start, _DAY)[:, 0].astype(np.int32), mask=missing).cast(kind)
        return pa.array(_taken(lines, start, _NUMBER)[:, 0].astype(np.float64), mask=missing)

    def _labels(self, lines: Bytes, texts: Any) -> NDArray[Any]:
        if self._label is None:
            return np.empty(0)
        if self._label_is_open:
            every = len(self._texts) + 1
            words = texts.take(pa.array(np.arange(len(lines)) * every + len(self._texts))).to_pylist()
            return np.array(words, dtype=f"<U{max([1, *map(len, words)])}")
        if not self.classes:
            return _taken(lines, self._label_start, _NUMBER)[:, 0].astype(np.float64)
        places = _taken(lines, self._label_start, _CLASS)[:, 0].astype(np.int64)
        if len(places) and places.max() >= len(self.classes):
            raise InvalidArgument("label", "class", "is none of the declared ones")
        return label_values(self.classes)[places]

    def _as_declared(
        self, records: Sequence[bytes], table: pa.Table, labels: NDArray[Any], handles: NDArray[np.uint64]
    ) -> Mask:
        """Which records are as the schema declares them, and written in the one way that there is."""
        good = self._declared.rows_of(table)[1] & ~self._declared.too_long(table)
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
        return good


def _put(out: Bytes, start: int, values: NDArray[Any]) -> None:
    """The bytes of numbers into columns of bytes."""
    count = len(values)
    piece = np.ascontiguousarray(values).view(np.uint8).reshape(count, -1) if count else np.zeros((0, 1), np.uint8)
    out[:, start : start + piece.shape[1]] = piece


def _taken(lines: Bytes, start: int, kind: np.dtype[Any], count: int = 1) -> NDArray[Any]:
    """So many numbers of a type from each line."""
    piece = np.ascontiguousarray(lines[:, start : start + count * kind.itemsize])
    return piece.view(kind).reshape(len(lines), count)
