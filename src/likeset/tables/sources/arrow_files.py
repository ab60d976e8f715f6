"""Arrow files (Feather, IPC): one record batch after the other; only the asked columns of a batch are decoded."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.errors import BadTable
from likeset.tables.sources.row_blocks import UNCOUNTED, Part, Source, Stamp, check_names, unreadable

__all__ = ["open_arrow"]

_DIGESTED_BYTES = 1 << 26
_FOOTER_BYTES = 1 << 16
_KINDS = {
    b"FEA1": "is a Feather file of the first version; write it again with a current library",
    b"\xff\xff\xff\xff": "is an Arrow stream; write it as an Arrow file (pyarrow.ipc.new_file)",
    b"PAR1": "is a Parquet file; name it .parquet",
    b"": "the file is empty",
}


@dataclass(frozen=True, eq=False)
class _ArrowPart(Part):
    """All rows of a file."""

    file: Path
    stamp: Stamp
    batch_rows: tuple[int, ...]

    def read(self, columns: list[str], rows: int) -> Iterator[pa.Table]:  # noqa: ARG002 (batches are as the file has them)
        with self._open_file(columns) as reader:
            for batch in range(len(self.batch_rows)):
                yield self._batch(reader, batch, columns)

    def pick(self, numbers: NDArray[np.int64], columns: list[str]) -> Iterator[pa.Table]:
        ends = np.cumsum(self.batch_rows)
        batches = np.searchsorted(ends, numbers, side="right")
        with self._open_file(columns) as reader:
            for batch in np.unique(batches):
                inside = numbers[batches == batch] - (ends[batch] - self.batch_rows[batch])
                yield self._batch(reader, int(batch), columns).take(pa.array(inside))

    def place(self, row: int) -> str:
        return f"row {row}"

    @contextmanager
    def _open_file(self, columns: list[str]) -> Iterator[pa.ipc.RecordBatchFileReader]:
        self.stamp.check(self.file, table=self.table)
        with _reading(self.file, table=self.table, fields=_fields(self.schema, columns)) as reader:
            yield reader

    def _batch(self, reader: pa.ipc.RecordBatchFileReader, number: int, columns: list[str]) -> pa.Table:
        batch = _decode(reader, number)
        self.stamp.check(self.file, table=self.table, place=f"record batch {number}")
        if batch is None or batch.num_rows != self.batch_rows[number]:
            raise _damaged_batch(self.table, number)
        return pa.Table.from_batches([batch]).select(columns).replace_schema_metadata(None)


@dataclass(frozen=True, eq=False)
class _UnreadPart(_ArrowPart):
    """All rows of a file of which nobody knows yet how many each batch has.

    Attributes:
        noted: takes the number of rows of each batch, and the digest if the whole file was read, at the end.
    """

    noted: Callable[[list[int], str], None]

    def read(self, columns: list[str], rows: int) -> Iterator[pa.Table]:  # noqa: ARG002 (as above)
        self.stamp.check(self.file, table=self.table)
        content = pa.py_buffer(_bytes(self.file, table=self.table)) if self.stamp.size <= _DIGESTED_BYTES else None
        counts = []
        with _reading(self.file, table=self.table, fields=_fields(self.schema, columns), content=content) as reader:
            for number in range(reader.num_record_batches):
                batch = _decode(reader, number)
                if batch is None:
                    self.stamp.check(self.file, table=self.table, place=f"record batch {number}")
                    raise _damaged_batch(self.table, number)
                counts.append(batch.num_rows)
                yield pa.Table.from_batches([batch]).select(columns).replace_schema_metadata(None)
        self.stamp.check(self.file, table=self.table)
        self.noted(counts, "" if content is None else hashlib.sha256(content).hexdigest())


def open_arrow(
    file: Path,
    *,
    name: str,
    close: Callable[[], None] | None = None,
    digest: str = "",
    batch_rows: Sequence[int] | None = None,
) -> Source:
    """An Arrow file.

    Args:
        file: where it lies.
        name: how messages call it.
        close: gives back what was made for it.
        digest: its fingerprint, if that is known already.
        batch_rows: how many rows each record batch has, if that is known already.
    """
    try:
        stamp = Stamp.of(file)
    except OSError as error:
        raise unreadable(name, error) from None
    with _reading(file, table=name, fields=[]) as reader:
        schema = reader.schema.remove_metadata()
    check_names(schema.names, table=name)
    counts = [] if batch_rows is None else [tuple(batch_rows)]
    digests = [digest] if digest else []

    def note(rows: list[int], content: str) -> None:
        counts.append(tuple(rows))
        digests.extend([content] if content else [])

    def parts() -> tuple[Part, ...]:
        if not counts:
            counts.append(_count_rows(file, table=name))
        return (_ArrowPart(name, file, schema, 0, sum(counts[0]), file=file, stamp=stamp, batch_rows=counts[0]),)

    def fingerprint() -> str:
        stamp.check(file, table=name)
        if not digests:
            digests.append(_fingerprint(file, None if stamp.size <= _DIGESTED_BYTES else stamp, table=name))
        return digests[0]

    def first() -> Iterator[Part] | None:
        given = (name, file, schema, 0, UNCOUNTED)
        return None if counts else iter([_UnreadPart(*given, file=file, stamp=stamp, batch_rows=(), noted=note)])

    return Source(name, schema, parts=parts, fingerprint=fingerprint, first=first, close=close)


def _fields(schema: pa.Schema, columns: list[str]) -> list[int]:
    return sorted(schema.get_field_index(name) for name in columns)


def _count_rows(file: Path, *, table: str) -> tuple[int, ...]:
    """How many rows each record batch has: no file says it in one place."""
    rows = []
    with _reading(file, table=table, fields=[0]) as reader:
        for number in range(reader.num_record_batches):
            batch = _decode(reader, number)
            if batch is None:
                raise _damaged_batch(table, number)
            rows.append(batch.num_rows)
    return tuple(rows)


@contextmanager
def _reading(
    file: Path, *, table: str, fields: list[int], content: pa.Buffer | None = None
) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """Its batches, from the file or from its content."""
    start = _bytes(file, first=6, table=table) if content is None else content[:6].to_pybytes()
    if start != b"ARROW1":
        raise BadTable(table, _KINDS.get(start[:4], "is no Arrow file"))
    # Without memory mapping: a file that is cut short in the meantime must end in an error, not in a crash.
    with pa.OSFile(str(file), "rb") if content is None else pa.BufferReader(content) as opened:
        try:
            reader = pa.ipc.open_file(opened, options=pa.ipc.IpcReadOptions(included_fields=fields))
        except (pa.ArrowException, OSError, ValueError):
            raise BadTable(table, "its footer is damaged, or the file was cut short; write it again") from None
        yield reader


def _bytes(file: Path, *, table: str, first: int = -1) -> bytes:
    """All bytes of a file, or the first of them."""
    try:
        with file.open("rb") as opened:
            return opened.read(first)
    except OSError as error:
        raise unreadable(table, error) from None


def _decode(reader: pa.ipc.RecordBatchFileReader, number: int) -> pa.RecordBatch | None:
    """A batch; None if it is damaged. Its inner references are checked: they could point anywhere."""
    try:
        batch = reader.get_batch(number)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        return None
    return batch


def _damaged_batch(table: str, number: int) -> BadTable:
    reason = "cannot be decoded; the file is damaged, write it again"
    return BadTable(table, reason, place=f"record batch {number}")


def _fingerprint(file: Path, stamp: Stamp | None, *, table: str) -> str:
    """Of the whole content; with a stamp, of that and the file's end."""
    try:
        with file.open("rb") as opened:
            if stamp is None:
                return hashlib.file_digest(opened, "sha256").hexdigest()
            opened.seek(-_FOOTER_BYTES, os.SEEK_END)
            return hashlib.sha256(f"{stamp}".encode() + opened.read()).hexdigest()
    except OSError as error:
        raise unreadable(table, error) from None
