"""Parquet: one file, or all files of a directory in the order of their paths, with the same columns.

Only the asked columns are decoded, some rows at a time. A part is a file, or a run of row groups of a large one.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from likeset.errors import BadTable
from likeset.tables.sources.row_blocks import BLOCK_ROWS, Part, Source, Stamp, check_names, unreadable

__all__ = ["open_parquet", "open_parquet_directory"]

_PART_ROWS = 1 << 20
_LEAST_BATCH = 8192
_DIGESTED_BYTES = 1 << 26
_BUFFER_BYTES = 1 << 20
_DAMAGED = "cannot be decoded; the file is damaged or was cut short, write it again"


@dataclass(frozen=True, eq=False)
class _File:
    """What the footer of a file says, and by what the file is known again."""

    path: Path
    label: str
    stamp: Stamp
    schema: pa.Schema
    group_rows: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _ParquetPart(Part):
    """A run of row groups of one file."""

    file: _File
    first_group: int
    groups: int
    words: frozenset[str] = frozenset()
    content: pa.Buffer | None = None  # of the whole file, where that was read already

    def with_words(self, columns: Iterable[str]) -> Part:
        texts = {field.name for field in self.schema if pa.types.is_string(field.type)}
        return replace(self, words=frozenset(texts.intersection(columns)))

    def read(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        with self._open_file() as file:
            for group in range(self.first_group, self.first_group + self.groups):
                yield from self._batches(file, group, columns, rows)

    def pick(self, numbers: NDArray[np.int64], columns: list[str]) -> Iterator[pa.Table]:
        ends = np.cumsum(self.file.group_rows[self.first_group : self.first_group + self.groups])
        starts = np.concatenate([[0], ends[:-1]])
        with self._open_file() as file:
            for group in np.unique(np.searchsorted(ends, numbers, side="right")):
                inside = numbers[(numbers >= starts[group]) & (numbers < ends[group])] - starts[group]
                first = 0
                for table in self._batches(file, self.first_group + int(group), columns, BLOCK_ROWS):
                    here = inside[(inside >= first) & (inside < first + table.num_rows)] - first
                    first += table.num_rows
                    if len(here):
                        yield table.take(pa.array(here))
                    if first > inside[-1]:
                        break

    def place(self, row: int) -> str:
        inside = row - self.first_row + sum(self.file.group_rows[: self.first_group])
        group = int(np.searchsorted(np.cumsum(self.file.group_rows), inside, side="right"))
        return _place(self.file.label, f"row group {group}, row {inside}")

    def _field(self, name: str) -> pa.Field:
        field = self.schema.field(name)
        return pa.field(name, pa.dictionary(pa.int32(), field.type)) if name in self.words else field

    @contextmanager
    def _open_file(self) -> Iterator[pq.ParquetFile]:
        self.file.stamp.check(self.file.path, table=self.table, place=self.file.label)
        with _reading(
            self.file.path, table=self.table, label=self.file.label, words=self.words, content=self.content
        ) as file:
            yield file

    def _batches(self, file: pq.ParquetFile, group: int, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """The rows of a row group; what cannot be decoded, or was changed in the meantime, is an error."""
        place = _place(self.file.label, f"row group {group}")
        wanted = pa.schema([self._field(name) for name in columns])
        rows_read = 0
        size = min(max(rows, _LEAST_BATCH), BLOCK_ROWS)
        batches = file.iter_batches(batch_size=size, row_groups=[group], columns=columns)
        while True:
            try:
                batch = next(batches, None)
                table = None if batch is None else pa.Table.from_batches([batch]).select(columns).cast(wanted)
            except (pa.ArrowException, OSError, ValueError, KeyError):
                table, rows_read = None, -1
            if table is None:
                break
            rows_read += table.num_rows
            yield table
        self.file.stamp.check(self.file.path, table=self.table, place=place)
        if rows_read != self.file.group_rows[group]:
            raise BadTable(self.table, _DAMAGED, place=place)


def open_parquet(file: Path, *, name: str) -> Source:
    """One Parquet file; a large one has several parts."""
    return _source([_footer(file, table=name, label="")], name=name)


def open_parquet_directory(directory: Path, *, name: str) -> Source:
    """All Parquet files below a directory, in the order of their paths.

    Files and directories whose names begin with a dot or an underscore are no data.
    """
    try:
        labels = sorted(_files_below(directory, table=name))
    except OSError as error:
        raise unreadable(name, error) from None
    if not labels:
        raise BadTable(name, "the directory has no .parquet file; give one with Parquet files, or a single file")
    return _source([_footer(directory / label, table=name, label=label) for label in labels], name=name)


def _files_below(directory: Path, *, table: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise error

    for parent, directories, files in os.walk(directory, onerror=fail, followlinks=False):
        if "_delta_log" in directories:
            raise BadTable(
                table,
                "is a Delta table, whose files also hold rows that were deleted; export the current rows as Parquet",
            )
        directories[:] = [each for each in directories if not each.startswith((".", "_"))]
        for file in files:
            if file.endswith((".parquet", ".pq")) and not file.startswith((".", "_")):
                yield (Path(parent) / file).relative_to(directory).as_posix()


def _place(label: str, words: str) -> str:
    return f"{label}, {words}" if label else words


@contextmanager
def _reading(
    path: Path,
    *,
    table: str,
    label: str,
    words: frozenset[str] = frozenset(),
    content: pa.Buffer | None = None,
) -> Iterator[pq.ParquetFile]:
    try:
        # Without memory mapping: a file that is cut short in the meantime must end in an error, not in a crash.
        file = pq.ParquetFile(
            path if content is None else pa.BufferReader(content),
            memory_map=False,
            pre_buffer=False,
            buffer_size=_BUFFER_BYTES,
            read_dictionary=sorted(words),
        )
    except OSError as error:
        if isinstance(error, pa.ArrowException) or error.errno is None:
            raise BadTable(table, _no_parquet(path), place=label) from None
        raise unreadable(table, error, place=label) from None
    except (pa.ArrowException, ValueError):
        raise BadTable(table, _no_parquet(path), place=label) from None
    with file:
        yield file


def _no_parquet(path: Path) -> str:
    size = path.stat().st_size
    if size == 0:
        return "the file is empty"
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(max(size - 4, 0))
        end = file.read(4)
    if start != b"PAR1":
        return "is no Parquet file"
    return "was cut short; write it again" if end != b"PAR1" else "its footer is damaged; write it again"


def _footer(path: Path, *, table: str, label: str) -> _File:
    try:
        stamp = Stamp.of(path)
        with path.open("rb"):
            pass  # the system's own words if it cannot be opened
    except OSError as error:
        raise unreadable(table, error, place=label) from None
    with _reading(path, table=table, label=label) as file:
        schema = file.schema_arrow.remove_metadata()
        rows = tuple(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))
    check_names(schema.names, table=table, place=label)
    return _File(path, label, stamp, schema, rows)


def _source(files: list[_File], *, name: str) -> Source:
    schema = _common(files, table=name)
    parts: list[_ParquetPart] = []
    first_row = 0
    for file in files:
        for first, groups in _runs(file.group_rows):
            rows = sum(file.group_rows[first : first + groups])
            parts.append(
                _ParquetPart(name, file.path, schema, first_row, rows, file=file, first_group=first, groups=groups)
            )
            first_row += rows
    by_content = sum(file.stamp.size for file in files) <= _DIGESTED_BYTES
    digests: list[str] = []

    def digesting() -> Iterator[Part]:
        """All parts, from what is digested: so little is read once for both."""
        digest = hashlib.sha256()
        for file in files:
            content = pa.py_buffer(_content(file, table=name))
            digest.update(hashlib.sha256(content).digest())
            for part in parts:
                if part.file is file:
                    yield replace(part, content=content)
        digests.append(digest.hexdigest())

    def fingerprint() -> str:
        for file in files:
            file.stamp.check(file.path, table=name, place=file.label)
        if not digests:
            digests.append(_fingerprint(files, by_content=by_content, table=name))
        return digests[0]

    return Source(
        name,
        schema,
        parts=lambda: tuple(parts),
        fingerprint=fingerprint,
        first=lambda: digesting() if by_content and not digests else None,
    )


def _runs(group_rows: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """First row group and number of row groups of each part: at least so many rows each, whatever the machine."""
    first, rows = 0, 0
    for group, count in enumerate(group_rows):
        rows += count
        if rows >= _PART_ROWS:
            yield first, group + 1 - first
            first, rows = group + 1, 0
    if first < len(group_rows) or not group_rows:
        yield first, len(group_rows) - first


def _common(files: list[_File], *, table: str) -> pa.Schema:
    """The columns of all files, which must have the same names and types.

    Files that only encode a column differently (dictionaries, or no values at all in one of them) go together.
    """
    fields = {field.name: field for field in files[0].schema}
    for file in files[1:]:
        others = {field.name: field for field in file.schema}
        differ = sorted(fields.keys() ^ others.keys())
        for name in fields.keys() & others.keys():
            kind = _wider(fields[name].type, others[name].type)
            if kind is None:
                differ.append(f"{name} ({others[name].type} where the first file has {fields[name].type})")
            else:
                fields[name] = pa.field(name, kind)
        if differ:
            raise BadTable(
                table,
                f"its columns differ from those of {files[0].label}: {', '.join(sorted(differ))}; "
                "all files of a directory need the same columns and types",
                place=file.label,
            )
    return pa.schema(list(fields.values()))


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type as which both can be read; None if there is no such type."""
    if a == b:
        return a
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (a, b)]
    plain = [pa.string() if pa.types.is_large_string(kind) else kind for kind in plain]
    return plain[0] if plain[0] == plain[1] else None


def _fingerprint(files: list[_File], *, by_content: bool, table: str) -> str:
    """Of the content of all files if that is little; otherwise of sizes, times of change and footers."""
    digest = hashlib.sha256()
    for file in files:
        if not by_content:
            digest.update(f"{file.stamp}".encode())
        digest.update(hashlib.sha256(_content(file, footer=not by_content, table=table)).digest())
    return digest.hexdigest()


def _content(file: _File, *, table: str, footer: bool = False) -> bytes:
    """All bytes of a file, or of its footer."""
    try:
        with file.path.open("rb") as opened:
            if footer:
                opened.seek(-8, os.SEEK_END)
                length = int.from_bytes(opened.read(4), "little") + 8
                opened.seek(-length, os.SEEK_END)
            return opened.read()
    except OSError as error:
        raise unreadable(table, error, place=file.label) from None
