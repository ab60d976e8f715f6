"""Tables of any size: rows in blocks, rows by number, and a fingerprint.

A source consists of parts, and a part of pieces that can be read on their own: about one megabyte of a text file, a row
group of Parquet, a record batch of Arrow. pyarrow decodes them. ``pyarrow.dataset`` is not used: it decodes whole row
groups ahead (2.4 times the memory for a million rows) and reads a text file from its start for every row asked for.
"""

import bisect
import csv
import hashlib
import itertools
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from likeset.errors import BadTable
from likeset.tables.cells import NUMBER
from likeset.text import near_miss, without_secrets

BLOCK_ROWS = 65536  # whole tiles of features; to look at a block takes as long as to map some 5,000 rows of it

_FORMS = (
    "give a .csv, .tsv, .parquet, .arrow or .feather file, a directory of Parquet files, sql:SELECT ..., "
    "sqlite:FILE?table=NAME or postgres://HOST/DATABASE?query=SELECT ...; unpack, download or export everything else"
)
_SCHEMES = ("sql", "sqlite", "postgres", "postgresql")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):(?![\\])")
_TEXT, _PARQUET, _ARROW = (".csv", ".tsv"), (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
_BROKEN = "is no {kind} file, was cut short, or its footer is damaged; write it again"
_DAMAGED = "cannot be decoded; the file is damaged or was cut short, write it again"

_PIECE_BYTES = 1 << 20  # of a text file
_HEADER_BYTES = 1 << 20
_RECORD_BYTES = 1 << 24  # a longer record is an error
_PART_ROWS = 1 << 20  # of a large Parquet file
_LEAST_BATCH = 8192
_BUFFER_BYTES = 1 << 20
_DIGESTED_BYTES = 1 << 26  # larger Parquet and Arrow files are known by size, time of change and footer
_FOOTER_BYTES = 1 << 16


def open_source(given: Any, *, name: str | None = None) -> "Source":
    """Open a path, one of the text forms of ``docs/sources.md``, or a frame; ``name`` is how messages call it."""
    if isinstance(given, Path):
        return _open_path(given, name=name or str(given))
    if not isinstance(given, str):
        return _open_frame(given, name=name or "data frame")
    if not given.strip():
        raise BadTable("table", f"an empty name; {_FORMS}")
    if is_path(given):
        return _open_path(Path(given), name=name or given)
    shown, word = name or without_secrets(given), _scheme(given)
    if word in _SCHEMES:
        from likeset.tables import databases  # loads DuckDB

        return databases.open_database(word, given, name=shown)
    raise BadTable(shown, f"{word!r} is not known{near_miss(word, _SCHEMES, cutoff=0.8) or f'; {_FORMS}'}")


def is_path(given: str) -> bool:
    """Whether a text names a file or a directory, and not a query or an address."""
    word = _scheme(given)
    return not word or (word not in _SCHEMES and os.access(given, os.F_OK))  # a query is too long for Path.exists


def _scheme(given: str) -> str:
    found = _SCHEME.match(given)
    return "" if found is None else found.group(1).lower()


def _open_path(path: Path, *, name: str) -> "Source":
    suffix, known = path.suffix.lower(), _TEXT + _PARQUET + _ARROW
    if not os.access(path, os.F_OK):
        beside = [each.name for each in path.parent.iterdir()] if os.access(path.parent, os.R_OK) else []
        raise BadTable(name, f"there is no such file{near_miss(path.name, beside, cutoff=0.7) or f'; {_FORMS}'}")
    if path.is_dir():
        return _open_directory(path, name=name)
    if suffix not in known:
        raise BadTable(name, f"the kind {suffix!r} of file is not known{near_miss(suffix, known) or f'; {_FORMS}'}")
    if not path.is_file():
        raise BadTable(name, "is not an ordinary file; save the rows to one")
    if suffix in _TEXT:
        return _open_text(path, name=name)
    return _open_parquet([(path, "")], name=name) if suffix in _PARQUET else open_arrow(path, name=name)


@dataclass(frozen=True, eq=False)
class Block:
    first_row: int
    table: pa.Table
    place: Callable[[int], str] = field(repr=False)

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows

    def locate(self, offset: int) -> str:
        """The place of the row at this offset of the block, for a message: ``line 17``."""
        return self.place(self.first_row + int(offset))


@dataclass(frozen=True)
class File:
    """A file with size and time of change, to detect changes; ``label`` is its path in a directory of files."""

    path: Path
    table: str
    label: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path, *, table: str, label: str = "") -> Self:
        try:
            with path.open("rb"):
                status = path.stat()
        except OSError as error:
            raise unreadable(table, error, place=label) from None
        return cls(path, table, label, status.st_size, status.st_mtime_ns)

    def check(self, place: str = "") -> None:
        try:
            status = self.path.stat()
            same = (status.st_size, status.st_mtime_ns) == (self.size, self.modified)
        except OSError:
            same = False
        if not same:
            reason = "the file was changed while it was being read; start again when nothing writes to it any more"
            raise self.error(reason, place)

    def error(self, reason: str, place: str = "") -> BadTable:
        return BadTable(self.table, reason, place=self.place(place))

    def place(self, place: str) -> str:
        return ", ".join(filter(None, (self.label, place)))


@dataclass(frozen=True, eq=False)
class Part(ABC):
    table: str
    schema: pa.Schema
    first_row: int  # in the whole source
    row_count: int
    starts: Sequence[int]  # first row of each piece, counted from the part's first row, and the end of the last piece

    def cut(self, columns: list[str], rows: int) -> Iterator[Block]:
        first = self.first_row
        for table in in_blocks(self.read(columns, rows), rows):
            yield Block(first, table, self.place)
            first += table.num_rows

    def with_words(self, columns: Iterable[str]) -> "Part":  # noqa: ARG002 - for Parquet
        return self

    def read(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        with self.opened(columns) as file:
            for number in range(len(self.starts) - 1):
                yield from self.piece(file, number, columns, rows)

    def pick(self, numbers: NDArray[np.int64], columns: list[str]) -> Iterator[pa.Table]:
        """Rows of these numbers, which count from the part's first row, rise, and occur once."""
        starts = np.asarray(self.starts)
        pieces = np.searchsorted(starts, numbers, side="right") - 1
        with self.opened(columns) as file:
            for number in np.unique(pieces):
                wanted, first = numbers[pieces == number] - starts[number], 0
                for table in self.piece(file, int(number), columns, BLOCK_ROWS):
                    here = wanted[(wanted >= first) & (wanted < first + table.num_rows)] - first
                    first += table.num_rows
                    if len(here):
                        yield table.take(pa.array(here))
                    if first > wanted[-1]:
                        break

    def place(self, row: int) -> str:
        return f"row {row}"

    @abstractmethod
    def opened(self, columns: list[str]) -> AbstractContextManager[Any]: ...

    @abstractmethod
    def piece(self, file: Any, number: int, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """The rows of one piece, in tables of about ``rows`` where the format allows it."""


@dataclass(eq=False)
class Source:
    """A table that is read in blocks, by the number of its rows, or part by part.

    ``fingerprint`` is a digest that stays the same as long as the data do; it holds no value, but is the owner's own
    business. ``unread`` returns a part that counts the rows while it is read, or None once they are counted. ``close``
    removes what was written for this source, and is harmless when repeated.
    """

    name: str
    schema: pa.Schema = field(repr=False)
    find_parts: Callable[[], tuple[Part, ...]] = field(repr=False)
    fingerprint: Callable[[], str] = field(repr=False)
    unread: Callable[[], Part | None] = field(default=lambda: None, repr=False)
    close: Callable[[], None] = field(default=lambda: None, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return self.find_parts()

    @cached_property
    def row_count(self) -> int:
        return sum(part.row_count for part in self.parts)

    def blocks(self, columns: Sequence[str], *, rows: int = BLOCK_ROWS, words: Sequence[str] = ()) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time; no block reaches over the end of a part.

        Columns of text that are named in ``words`` come as dictionaries where that is cheaper.
        """
        names = checked_columns(columns, self.schema, table=self.name)
        unread = self.unread()
        return _ahead(self._cut(self.parts if unread is None else (unread,), names, rows, words))

    def _cut(self, parts: Iterable[Part], names: list[str], rows: int, words: Sequence[str]) -> Iterator[Block]:
        """Hold the source, and so the private copy of a query's answer, until the last block was taken."""
        for part in parts:
            yield from part.with_words(words).cut(names, rows)

    def fetch(self, row_numbers: ArrayLike, columns: Sequence[str]) -> pa.Table:
        """The rows of these numbers in this order, as often as they are named; reads only what is needed for them."""
        names = checked_columns(columns, self.schema, table=self.name)
        numbers, places = np.unique(np.asarray(row_numbers, dtype=np.int64), return_inverse=True)
        tables = [pa.schema([self.schema.field(name) for name in names]).empty_table()]
        for part in self.parts:
            inside = numbers[(numbers >= part.first_row) & (numbers < part.first_row + part.row_count)]
            if len(inside):
                tables.extend(part.pick(inside - part.first_row, names))
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks().take(pa.array(places))

    def place(self, row: int) -> str:
        last = bisect.bisect_right([part.first_row for part in self.parts], row) - 1
        return self.parts[last].place(row)


def in_blocks(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows, cut after every ``rows`` of them, wherever the given tables begin and end."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        start = 0
        while table.num_rows - start >= rows - count:
            held.append(table.slice(start, rows - count))
            start += rows - count
            yield pa.concat_tables(held)
            held, count = [], 0
        if start < table.num_rows:
            held.append(table.slice(start))
            count += table.num_rows - start
    if held:
        yield pa.concat_tables(held)


def _ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same blocks; a thread reads the next one while the caller uses one."""
    with ThreadPoolExecutor(1, thread_name_prefix="likeset-reader") as reader:
        following = reader.submit(next, blocks, None)
        while (block := following.result()) is not None:
            following = reader.submit(next, blocks, None)
            yield block


def checked_columns(columns: Sequence[str], schema: pa.Schema, *, table: str) -> list[str]:
    for name in columns:
        if name not in schema.names:
            raise BadTable(table, f"is missing{near_miss(name, set(schema.names).difference(columns))}", column=name)
    return list(columns)


def check_names(names: Sequence[str], *, table: str, place: str = "") -> None:
    if not names:
        raise BadTable(table, "has no columns", place=place)
    for number, name in enumerate(names, start=1):
        if (first := names.index(name) + 1) != number:
            reason = f"columns {first} and {number} have the same name; rename one of them"
            raise BadTable(table, reason, place=place, column=name)


def unreadable(table: str, error: OSError, *, place: str = "") -> BadTable:
    return BadTable(table, f"cannot be read: {os.strerror(error.errno or 0)}", place=place)


def _fingerprint(files: Sequence[File]) -> str:
    """Of the content of all files if that is little; otherwise of sizes, times of change and the files' ends."""
    little = sum(file.size for file in files) <= _DIGESTED_BYTES
    digest = hashlib.sha256()
    for file in files:
        file.check()
        with file.path.open("rb") as opened:
            if not little:
                digest.update(f"{file.size}/{file.modified}".encode())
                opened.seek(-min(_FOOTER_BYTES, file.size), os.SEEK_END)
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


# Text: CSV and TSV in UTF-8 with a header; all columns come as text.


@dataclass(eq=False)
class _TextIndex:
    """Where pieces of whole records begin (byte, row, line), noted by a first pass; the digest is set at its end."""

    offsets: list[int]
    rows: list[int]
    lines: list[int]
    digest: str = ""


@dataclass(frozen=True, eq=False)
class _TextPart(Part):
    """All rows of a text file; the first pass over it checks everything and fills the index."""

    file: File
    delimiter: str
    index: _TextIndex

    def opened(self, columns: list[str]) -> BinaryIO:  # noqa: ARG002
        self.file.check()
        return self.file.path.open("rb")

    def read(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        return super().read(columns, rows) if self.index.digest else self._first_read(columns)

    def piece(self, file: BinaryIO, number: int, columns: list[str], rows: int) -> Iterator[pa.Table]:  # noqa: ARG002
        start, end = self.index.offsets[number : number + 2]
        file.seek(start)
        chunk = file.read(end - start)
        line = self.index.lines[number]
        self.file.check(f"line {line}")
        table = self._parse(chunk, columns, row=self.index.rows[number], line=line)
        if table.num_rows != self.index.rows[number + 1] - self.index.rows[number]:
            raise self.file.error("has other records than in the first pass over it", f"from line {line} on")
        yield table

    def place(self, row: int) -> str:
        """A line where every record of the piece is one line; otherwise the number of the record."""
        index = self.index
        piece = int(np.searchsorted(index.rows, row, side="right")) - 1
        known = piece + 1 < len(index.rows)
        if known and index.lines[piece + 1] - index.lines[piece] == index.rows[piece + 1] - index.rows[piece]:
            return f"line {index.lines[piece] + row - index.rows[piece]}"
        return f"record {row + 1}"

    def _first_read(self, columns: list[str]) -> Iterator[pa.Table]:
        index, digest, rest = self.index, hashlib.sha256(f"{self.schema.names}".encode()), b""
        with self.opened(columns) as file:
            file.seek(index.offsets[0])
            last = False
            while not last:
                read = file.read(_PIECE_BYTES)
                digest.update(read)
                chunk, last, line = rest + read, not read, index.lines[-1]
                try:
                    end = _end_of_records(chunk, self.delimiter, last=last, table=self.table, line=line)
                    whole, rest = chunk[:end], chunk[end:]
                    if not whole:
                        continue
                    _check_text(whole, table=self.table, line=line)
                    table = self._parse(whole, columns, row=index.rows[-1], line=line)
                except BadTable:
                    self.file.check(f"line {line}")  # half a record, if somebody writes to the file
                    raise
                index.lines.append(line + whole.count(b"\n") + (not whole.endswith(b"\n")))
                index.offsets.append(index.offsets[-1] + end)
                index.rows.append(index.rows[-1] + table.num_rows)  # last: another thread may look for a place
                yield table
        self.file.check()
        index.digest = digest.hexdigest()

    def _parse(self, chunk: bytes, columns: list[str], *, row: int, line: int) -> pa.Table:
        ragged: list[pyarrow.csv.InvalidRow] = []

        def refuse(record: pyarrow.csv.InvalidRow) -> str:
            ragged.append(record)
            return "error"

        try:
            return pyarrow.csv.read_csv(
                pa.BufferReader(chunk),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=self.schema.names, use_threads=False, block_size=max(len(chunk) + 1, 1024)
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=refuse
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(columns, pa.string()), include_columns=columns, strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid:  # its message quotes the record
            pass
        if not ragged:
            if not chunk.strip(b"\r\n"):
                return pa.schema([self.schema.field(name) for name in columns]).empty_table()
            raise self.file.error("cannot be read as delimited text", f"from line {line} on")
        before = ragged[0].number - 1
        plain = not re.search(rb'"|\n\r?\n|^\r?\n', chunk)
        reason = (
            f"{ragged[0].actual_columns} fields where the header has {len(self.schema.names)}; a field that contains "
            f"{self.delimiter!r} must stand in quotation marks"
        )
        raise self.file.error(reason, f"line {line + before}" if plain else f"record {row + before + 1}")


def _open_text(path: Path, *, name: str) -> Source:
    file = File.of(path, table=name)
    with path.open("rb") as opened:
        names, delimiter, start, line = _header(opened.read(_HEADER_BYTES), table=name)
    schema = pa.schema([(column, pa.string()) for column in names])
    passes: list[_TextIndex] = []

    def part() -> _TextPart:
        """The rows by the first index that is complete, or with a new one: two first passes may run side by side."""
        complete = [index for index in passes if index.digest]
        if not complete:
            passes.append(_TextIndex([start], [0], [line]))
        index = complete[0] if complete else passes[-1]
        return _TextPart(name, schema, 0, index.rows[-1], index.rows, file, delimiter, index)

    def unread() -> Part | None:
        return None if (found := part()).index.digest else found

    def whole() -> _TextPart:
        first = unread()
        for _ in () if first is None else first.read(names[:1], BLOCK_ROWS):
            pass
        return part()

    return Source(name, schema, lambda: (whole(),), lambda: whole().index.digest, unread)


def _header(chunk: bytes, *, table: str) -> tuple[list[str], str, int, int]:
    """Names of the columns, delimiter, and the byte and line where records begin."""
    if b"\0" in chunk:
        _check_text(chunk, table=table, line=1)
    text = chunk.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if not text.strip():
        raise BadTable(table, "the file is empty; a header with the names of the columns is needed")
    line = 1 + chunk[: len(chunk) - len(text)].count(b"\n")
    found = re.match(rb'((?:[^"\r\n]++|"[^"]*+")*+)(\r?\n|\r|\Z)', text)
    if found is None or (found.end() == len(text) and len(chunk) == _HEADER_BYTES):
        raise BadTable(table, "the header does not end; is a quotation mark not closed?", place=f"line {line}")
    header = found.group(1)
    _check_text(header, table=table, line=line)
    outside = b"".join(header.split(b'"')[0::2])
    delimiter = max(",;\t|", key=lambda sign: outside.count(sign.encode()))
    _end_of_records(header, delimiter, last=True, table=table, line=line)
    try:
        (names,) = csv.reader([header.decode()], delimiter=delimiter, strict=True)
    except (csv.Error, ValueError):
        raise BadTable(table, "the header cannot be read", place=f"line {line}") from None
    number = re.compile(rf"{NUMBER}|^[+-]?(nan|inf(inity)?)$", re.IGNORECASE)
    numbers = sum(number.match(name.strip().replace(",", ".")) is not None for name in names)
    if 2 * numbers > len(names):  # without a header, messages would show the first record
        reason = f"{numbers} of {len(names)} names of columns are numbers; put a line with the names first"
        raise BadTable(table, reason, place=f"line {line}")
    check_names(names, table=table, place=f"line {line}")
    return names, delimiter, len(chunk) - len(text) + found.end(), line + text[: found.end()].count(b"\n")


def _end_of_records(chunk: bytes, delimiter: str, *, last: bool, table: str, line: int) -> int:
    """The end of the last whole record of a chunk that begins with one: a line end after an even number of marks."""
    signs = np.frombuffer(chunk, dtype=np.uint8)
    marks = np.flatnonzero(signs == ord('"')) if b'"' in chunk else np.empty(0, dtype=np.int64)
    if len(marks):
        _check_marks(chunk, signs, marks, delimiter, table=table, line=line)
    end, before = len(chunk), len(marks)
    while before % 2 or not (last or end == 0 or chunk[end - 1] == ord("\n")):
        # Every line end after an odd mark lies inside its field: go on before the mark.
        end = chunk.rfind(b"\n", 0, int(marks[before - 1]) if before % 2 else max(end - 1, 0)) + 1
        before = int(np.searchsorted(marks, end))
    if len(chunk) - end > (0 if last else _RECORD_BYTES):
        if len(marks) % 2:
            reason = "a quotation mark opens a field here and nothing closes it"
            raise BadTable(table, reason, place=_line(chunk, int(marks[-1]), line))
        raise BadTable(table, f"a record is longer than {_RECORD_BYTES >> 20} megabytes", place=f"line {line}")
    return end


def _check_marks(
    chunk: bytes, signs: NDArray[np.uint8], marks: NDArray[np.int64], delimiter: str, *, table: str, line: int
) -> None:
    """Each opening mark begins a field, each closing one ends it; two together stand for one inside a field."""
    edge = np.zeros(256, dtype=np.bool_)
    edge[[ord(sign) for sign in f'{delimiter}\n\r"']] = True
    opening, closing = marks[0::2], marks[1::2]
    inside = opening[(opening > 0) & ~edge[signs[opening - 1]]]
    after = opening[: len(closing)][~edge[signs[np.minimum(closing + 1, len(signs) - 1)]]]
    if len(inside) or len(after):
        first = int(min([*inside[:1], *after[:1]]))
        reason = (
            "a quotation mark stands in the middle of a field, is not closed, or text follows the closing one; put the "
            "whole field into quotation marks and write a mark inside of it twice"
        )
        raise BadTable(table, reason, place=_line(chunk, first, line))


def _line(chunk: bytes, offset: int, first: int) -> str:
    line = first + chunk.count(b"\n", 0, offset)
    return f"line {line}"


def _check_text(chunk: bytes, *, table: str, line: int) -> None:
    reason = "has a NUL byte; it is damaged, not text, or in UTF-16"
    start = chunk.find(b"\0")
    if start < 0:
        try:
            chunk.decode()
        except UnicodeDecodeError as error:
            start, reason = error.start, "is not in UTF-8; convert it, or save it as 'CSV UTF-8'"
    if start >= 0:
        raise BadTable(table, reason, place=_line(chunk, start, line))


@dataclass(frozen=True, eq=False)
class _FilePart(Part):
    """Pieces of a Parquet or Arrow file; what cannot be decoded, or was changed in the meantime, is an error."""

    file: File

    def piece(self, file: Any, number: int, columns: list[str], rows: int) -> Iterator[pa.Table]:
        count, place = 0, self.piece_name(number)
        try:
            for table in self.decoded(file, number, columns, rows):
                count += table.num_rows
                self.file.check(place)  # before a caller takes what it wants and leaves
                yield table
        except (pa.ArrowException, OSError, ValueError, KeyError):
            count = -1
        self.file.check(place)
        if count != self.starts[number + 1] - self.starts[number]:
            raise self.file.error(_DAMAGED, place)

    @abstractmethod
    def piece_name(self, number: int) -> str: ...

    @abstractmethod
    def decoded(self, file: Any, number: int, columns: list[str], rows: int) -> Iterator[pa.Table]: ...


# Parquet: one file, or all files of a directory in the order of their paths, with the same columns.


@dataclass(frozen=True, eq=False)
class _ParquetPart(_FilePart):
    first_group: int
    skipped: int  # rows of the file before the first group
    words: frozenset[str] = frozenset()

    def with_words(self, columns: Iterable[str]) -> Part:
        texts = {field.name for field in self.schema if pa.types.is_string(field.type)}
        return replace(self, words=frozenset(texts.intersection(columns)))

    def place(self, row: int) -> str:
        inside = row - self.first_row
        group = self.piece_name(bisect.bisect_right(self.starts, inside) - 1)
        return self.file.place(f"{group}, row {self.skipped + inside}")

    def piece_name(self, number: int) -> str:
        return f"row group {self.first_group + number}"

    def opened(self, columns: list[str]) -> AbstractContextManager[pq.ParquetFile]:  # noqa: ARG002
        self.file.check()
        return _parquet(self.file, words=self.words)

    def decoded(self, file: pq.ParquetFile, number: int, columns: list[str], rows: int) -> Iterator[pa.Table]:
        word = pa.dictionary(pa.int32(), pa.string())
        wanted = pa.schema([(name, word if name in self.words else self.schema.field(name).type) for name in columns])
        size = min(max(rows, _LEAST_BATCH), BLOCK_ROWS)
        for batch in file.iter_batches(batch_size=size, row_groups=[self.first_group + number], columns=columns):
            yield pa.Table.from_batches([batch]).select(columns).cast(wanted)


def _open_directory(directory: Path, *, name: str) -> Source:
    """All Parquet files below a directory; names that begin with a dot or an underscore are no data."""

    def fail(error: OSError) -> None:
        raise unreadable(name, error) from None

    paths = []
    for parent, directories, files in os.walk(directory, onerror=fail):
        if "_delta_log" in directories:
            raise BadTable(
                name, "is a Delta table, whose files also hold deleted rows; export the current rows as Parquet"
            )
        directories[:] = [each for each in directories if not each.startswith((".", "_"))]
        data = (file for file in files if file.endswith(_PARQUET) and not file.startswith((".", "_")))
        paths += [Path(parent, file) for file in data]
    if not paths:
        raise BadTable(name, "the directory has no .parquet file; give one with Parquet files, or a single file")
    labelled = sorted((path.relative_to(directory).as_posix(), path) for path in paths)
    return _open_parquet([(path, label) for label, path in labelled], name=name)


def _open_parquet(paths: Sequence[tuple[Path, str]], *, name: str) -> Source:
    files = [File.of(path, table=name, label=label) for path, label in paths]
    schemas: list[pa.Schema] = []
    rows: list[list[int]] = []  # of each row group of each file
    for file in files:
        with _parquet(file) as opened:
            schemas.append(opened.schema_arrow.remove_metadata())
            rows.append([opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)])
        check_names(schemas[-1].names, table=name, place=file.label)
    schema = _common_schema(files, schemas)
    parts: list[Part] = []
    first_row = 0
    for file, counts in zip(files, rows, strict=True):
        skipped = 0
        for first, last in _runs(counts):
            starts = (0, *itertools.accumulate(counts[first:last]))
            parts.append(_ParquetPart(name, schema, first_row, starts[-1], starts, file, first, skipped))
            first_row, skipped = first_row + starts[-1], skipped + starts[-1]
    return Source(name, schema, lambda: tuple(parts), lambda: _fingerprint(files))


def _runs(group_rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first row group of each part and the one after its last; parts have at least ``_PART_ROWS`` rows."""
    first = 0
    for group in range(1, len(group_rows)):
        if sum(group_rows[first:group]) >= _PART_ROWS:
            yield first, group
            first = group
    yield first, len(group_rows)


@contextmanager
def _parquet(file: File, words: frozenset[str] = frozenset()) -> Iterator[pq.ParquetFile]:
    try:
        # Without memory mapping: a file that is cut short in the meantime must end in an error, not in a crash.
        opened = pq.ParquetFile(
            file.path, memory_map=False, pre_buffer=False, buffer_size=_BUFFER_BYTES, read_dictionary=sorted(words)
        )
    except (pa.ArrowException, OSError, ValueError):
        raise file.error(_BROKEN.format(kind="Parquet") if file.size else "the file is empty") from None
    with opened:
        yield opened


def _common_schema(files: Sequence[File], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all files, which must have the same names and types.

    Files that only encode a column differently (dictionaries, or no values at all in one of them) go together.
    """
    if all(schema.equals(schemas[0]) for schema in schemas):
        return schemas[0]
    common = _plain(schemas[0])
    for file, schema in zip(files, schemas, strict=True):
        differ = ", ".join(sorted(set(common.names) ^ set(schema.names)))
        try:
            common = pa.unify_schemas([common, _plain(schema)])
        except pa.ArrowTypeError as error:  # speaks of names and types only
            differ = differ or str(error)
        if differ:
            reason = f"its columns differ from those of {files[0].label}: {differ}; all need the same columns and types"
            raise file.error(reason)
    return common


def _plain(schema: pa.Schema) -> pa.Schema:
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in schema.types]
    kinds = [pa.string() if pa.types.is_large_string(kind) else kind for kind in kinds]
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


# Arrow files (Feather, IPC), and rows in memory.


@dataclass(frozen=True, eq=False)
class _ArrowPart(_FilePart):
    def opened(self, columns: list[str]) -> AbstractContextManager[pa.ipc.RecordBatchFileReader]:
        self.file.check()
        return _arrow(self.file, fields=sorted(self.schema.get_field_index(name) for name in columns))

    def piece_name(self, number: int) -> str:
        return f"record batch {number}"

    def decoded(
        self,
        file: pa.ipc.RecordBatchFileReader,
        number: int,
        columns: list[str],
        rows: int,  # noqa: ARG002
    ) -> Iterator[pa.Table]:
        batch = file.get_batch(number)
        batch.validate(full=True)  # its inner references could point anywhere
        yield pa.Table.from_batches([batch]).select(columns).replace_schema_metadata(None)


def open_arrow(path: Path, *, name: str, close: Callable[[], None] = lambda: None, digest: str = "") -> Source:
    file = File.of(path, table=name)
    with _arrow(file, fields=[]) as reader:
        schema = reader.schema.remove_metadata()
    check_names(schema.names, table=name)
    counts = []
    with _arrow(file, fields=[0]) as reader:  # one column tells how many rows each batch has
        for number in range(reader.num_record_batches):
            try:
                counts.append(reader.get_batch(number).num_rows)
            except (pa.ArrowException, OSError, ValueError):
                raise file.error(_DAMAGED, f"record batch {number}") from None
    part = _ArrowPart(name, schema, 0, sum(counts), (0, *itertools.accumulate(counts)), file)
    return Source(name, schema, lambda: (part,), lambda: digest or _fingerprint([file]), close=close)


@contextmanager
def _arrow(file: File, *, fields: list[int]) -> Iterator[pa.ipc.RecordBatchFileReader]:
    # Without memory mapping: a file that is cut short in the meantime must end in an error, not in a crash.
    with pa.OSFile(str(file.path), "rb") as source:
        try:
            reader = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=fields))
            _ = reader.schema.names  # raises UnicodeDecodeError
        except (pa.ArrowException, OSError, ValueError):
            raise file.error(_BROKEN.format(kind="Arrow") if file.size else "the file is empty") from None
        yield reader


@dataclass(frozen=True, eq=False)
class _FramePart(Part):
    rows: pa.Table

    @contextmanager
    def opened(self, columns: list[str]) -> Iterator[pa.Table]:
        yield self.rows.select(columns)

    def piece(self, file: pa.Table, number: int, columns: list[str], rows: int) -> Iterator[pa.Table]:  # noqa: ARG002
        yield file


def _open_frame(frame: Any, *, name: str) -> Source:
    table = arrow_table(frame, name=name)
    part = _FramePart(name, table.schema, 0, table.num_rows, (0, table.num_rows), table)

    def fingerprint() -> str:
        digest = ValueDigest(table.schema)
        for block in in_blocks([table], BLOCK_ROWS):
            digest.update(block)
        return digest.hexdigest()

    return Source(name, table.schema, lambda: (part,), fingerprint)


def arrow_table(frame: Any, *, name: str) -> pa.Table:
    if type(frame).__module__.split(".")[0] == "pandas" and type(frame).__name__ == "DataFrame":
        return _from_pandas(frame, name=name)  # its Arrow export has the index among the columns
    if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):
        raise BadTable(name, f"is a {type(frame).__name__}; call .collect() on it first")
    if not hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pa.RecordBatch):
        kind = type(frame).__name__
        raise BadTable(
            name, f"a table cannot be made from a {kind}; give a path, or a frame of pandas, polars or pyarrow"
        )
    # What polars exports by itself has views of texts, which pyarrow cannot select rows from.
    table = frame.to_arrow() if hasattr(frame, "to_arrow") else pa.table(frame)
    check_names(table.schema.names, table=name)
    return table.cast(pa.schema(list(zip(table.schema.names, table.schema.types, strict=True))))


def _from_pandas(frame: Any, *, name: str) -> pa.Table:
    """Column by column, so that an error can name the column; the library's own message would show a value."""
    names = [str(column) for column in frame.columns]
    check_names(names, table=name)
    arrays = []
    for position, column in enumerate(names):
        try:
            arrays.append(pa.Array.from_pandas(frame.iloc[:, position]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            reason = "holds values of several kinds, or objects; make it numbers, text or dates throughout"
            raise BadTable(name, reason, column=column) from None
    return pa.table(arrays, names=names)


class ValueDigest:
    """Of names, types and values of successive tables, independent of their layout in memory.

    The bytes under a missing value are left to chance, so only which values are missing and the others are digested.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._digest = hashlib.sha256(str(schema.remove_metadata()).encode())

    def update(self, table: pa.Table) -> None:
        """Take in the next rows; where one table ends and the next begins makes a difference."""
        for column in table.combine_chunks().columns:
            for array in column.chunks:
                self._take(array)

    def _take(self, array: pa.Array) -> None:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        present = array.is_valid()
        values = array.filter(present)
        inner: list[pa.Array] = []
        if pa.types.is_struct(array.type):
            values, inner = present, values.flatten()
        elif hasattr(array, "flatten") and not pa.types.is_map(array.type):  # a list
            values, inner = pc.list_value_length(values), [values.flatten()]
        for plain in (present, values):
            self._digest.update(pa.record_batch([plain], names=[""]).serialize())
        for each in inner:
            self._take(each)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()
