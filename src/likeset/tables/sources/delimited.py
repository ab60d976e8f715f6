"""CSV and TSV files: text in UTF-8, a header, one record after the other; all columns come as text.

The first pass over the file checks everything, gives the rows that are asked for, and notes where every stretch of
about one megabyte begins: byte, row and line. Later passes and single rows are read from there, and a place in a
message is a line of the file. The notes take 25 bytes per megabyte of file; nothing is written to disk.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from likeset.errors import BadTable
from likeset.tables.sources.records_in_text import Broken, Records, field_counts, split
from likeset.tables.sources.row_blocks import UNCOUNTED, Part, Source, Stamp, check_names, unreadable

__all__ = ["open_delimited"]

_STRETCH_BYTES = 1 << 20
_HEADER_BYTES = 1 << 20
_MOST_BYTES = 1 << 24
_LINE_END = b"\n"
_BOM = b"\xef\xbb\xbf"
_DELIMITERS = ",;\t|"
_OTHER_KINDS = {
    b"\x1f\x8b": "is compressed; name it .csv.gz",
    b"PK\x03\x04": "is an archive or an Excel workbook; save the sheet as CSV in UTF-8",
    b"PAR1": "is a Parquet file; name it .parquet",
    b"ARROW1": "is an Arrow file; name it .arrow",
    b"SQLite format 3": "is an SQLite database; write sqlite:FILE?table=NAME",
    b"\xff\xfe": "is in UTF-16; convert it to UTF-8",
    b"\xfe\xff": "is in UTF-16; convert it to UTF-8",
}


@dataclass(frozen=True, eq=False)
class _Layout:
    """How the file is written: where the records begin, in which line, and what separates fields."""

    delimiter: str
    start: int
    line: int


@dataclass(frozen=True, eq=False)
class _Index:
    """Where stretches of whole records begin; one entry more than there are stretches, for the end of the last."""

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    lines: NDArray[np.int64]
    plain: NDArray[np.bool_]


class _Notes:
    """What a first pass over the file noted so far."""

    def __init__(self, layout: _Layout) -> None:
        self.offsets, self.rows, self.lines = [layout.start], [0], [layout.line]
        self.plain: list[bool] = []
        self.digest = ""

    def add(self, records: Records) -> None:
        """Another stretch of whole records."""
        self.offsets.append(self.offsets[-1] + records.end)
        self.rows.append(self.rows[-1] + len(records.starts))
        self.lines.append(self.lines[-1] + records.lines)
        self.plain.append(records.plain)  # last: by it the other lists are read, perhaps by another thread

    def index(self) -> _Index:
        """Where the stretches begin that were seen."""
        stretches = len(self.plain)
        offsets, rows, lines = (
            np.array(noted[: stretches + 1], dtype=np.int64) for noted in (self.offsets, self.rows, self.lines)
        )
        return _Index(offsets, rows, lines, np.array(self.plain[:stretches], dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class _DelimitedPart(Part):
    """All rows of the file."""

    file: Path
    stamp: Stamp
    layout: _Layout
    index: _Index

    def read(self, columns: list[str], rows: int) -> Iterator[pa.Table]:  # noqa: ARG002 (stretches are as noted)
        with _open_file(self.file, table=self.table) as file:
            for stretch in range(len(self.index.plain)):
                yield self._stretch(file, stretch, columns)

    def pick(self, numbers: NDArray[np.int64], columns: list[str]) -> Iterator[pa.Table]:
        stretches = np.searchsorted(self.index.rows, numbers, side="right") - 1
        with _open_file(self.file, table=self.table) as file:
            for stretch in np.unique(stretches):
                inside = numbers[stretches == stretch] - self.index.rows[stretch]
                yield self._stretch(file, int(stretch), columns).take(pa.array(inside))

    def place(self, row: int) -> str:
        stretch = int(np.searchsorted(self.index.rows, row, side="right")) - 1
        line, offset = int(self.index.lines[stretch]), row - int(self.index.rows[stretch])
        if self.index.plain[stretch]:
            return f"line {line + offset}"
        with _open_file(self.file, table=self.table) as file:
            chunk = self._bytes(file, stretch)
        start = int(split(chunk, delimiter=self.layout.delimiter, last=True).starts[offset])
        return f"line {line + chunk.count(_LINE_END, 0, start)}"

    def _bytes(self, file: BinaryIO, stretch: int) -> bytes:
        start, end = (int(offset) for offset in self.index.offsets[stretch : stretch + 2])
        file.seek(start)
        chunk = file.read(end - start)
        self.stamp.check(self.file, table=self.table, place=f"line {self.index.lines[stretch]}")
        return chunk

    def _stretch(self, file: BinaryIO, stretch: int, columns: list[str]) -> pa.Table:
        table = _parse(self._bytes(file, stretch), self.schema.names, columns, delimiter=self.layout.delimiter)
        if table is None or table.num_rows != self.index.rows[stretch + 1] - self.index.rows[stretch]:
            line = int(self.index.lines[stretch])
            raise BadTable(self.table, "has other records than in the first pass over it", place=f"from line {line} on")
        return table


@dataclass(frozen=True, eq=False)
class _UnreadPart(Part):
    """All rows of a file that nobody read to its end yet: it is checked and noted on the way.

    Attributes:
        file: where it lies.
        stamp: by which it is known again.
        layout: how it is written.
        notes: of this pass alone, so that another one may run beside it.
        read_parts: where what was noted goes when the end is reached.
    """

    file: Path
    stamp: Stamp
    layout: _Layout
    notes: _Notes
    read_parts: list["_UnreadPart"]

    def read(self, columns: list[str], rows: int) -> Iterator[pa.Table]:  # noqa: ARG002 (stretches are as they come)
        digest = hashlib.sha256(f"{self.schema.names}".encode())
        with _open_file(self.file, table=self.table) as file:
            yield from self._read_and_note(file, columns, digest)
        self.stamp.check(self.file, table=self.table)
        self.notes.digest = digest.hexdigest()
        self.read_parts.append(self)

    def pick(self, numbers: NDArray[np.int64], columns: list[str]) -> Iterator[pa.Table]:
        return self.part_so_far().pick(numbers, columns)

    def place(self, row: int) -> str:
        return self.part_so_far().place(row)

    def part_so_far(self) -> _DelimitedPart:
        """The rows that were read so far."""
        index = self.notes.index()
        given = (self.table, self.path, self.schema, 0, int(index.rows[-1]))
        return _DelimitedPart(*given, file=self.file, stamp=self.stamp, layout=self.layout, index=index)

    def _read_and_note(self, file: BinaryIO, columns: list[str], digest: "hashlib._Hash") -> Iterator[pa.Table]:
        """Every record is checked, and it is noted where stretches of them begin."""
        layout, notes, table, names = self.layout, self.notes, self.table, self.schema.names
        file.seek(layout.start)
        rest = b""
        while True:
            read = file.read(_STRETCH_BYTES)
            digest.update(read)
            chunk, last, line = rest + read, not read, notes.lines[-1]
            if not chunk:
                break
            _check_no_nul(read, table=table, line=line + rest.count(_LINE_END))
            records = _checked_split(chunk, delimiter=layout.delimiter, last=last, table=table, line=line)
            rest = chunk[records.end :]
            if records.end:
                whole = chunk[: records.end]
                _check_text(whole, table=table, line=line)
                stretch = _parse(whole, names, columns, delimiter=layout.delimiter)
                if stretch is None or stretch.num_rows != len(records.starts):
                    raise _ragged_record(whole, records, layout, names, table=table, line=line)
                notes.add(records)
                yield stretch
            _check_rest(rest, records, last=last, table=table, line=notes.lines[-1])
            if last:
                break


def open_delimited(file: Path, *, name: str, tabs: bool = False, close: Callable[[], None] | None = None) -> Source:
    """A CSV or TSV file.

    Args:
        file: where it lies.
        name: how messages call it.
        tabs: the name says that tabs separate the fields.
        close: gives back what was made for it.
    """
    try:
        stamp = Stamp.of(file)
    except OSError as error:
        raise unreadable(name, error) from None
    with _open_file(file, table=name) as opened:
        names, layout = _header(opened, table=name, tabs=tabs)
    schema = pa.schema([(column, pa.string()) for column in names])
    read_parts: list[_UnreadPart] = []

    def new_part() -> _UnreadPart:
        given = (name, file, schema, 0, UNCOUNTED)
        notes = _Notes(layout)
        return _UnreadPart(*given, file=file, stamp=stamp, layout=layout, notes=notes, read_parts=read_parts)

    def read_part() -> _UnreadPart:
        if not read_parts:
            for _ in new_part().read(names[:1], 0):
                pass
        return read_parts[0]

    return Source(
        name,
        schema,
        parts=lambda: (read_part().part_so_far(),),
        fingerprint=lambda: read_part().notes.digest,
        first=lambda: None if read_parts else iter([new_part()]),
        close=close,
    )


def _open_file(file: Path, *, table: str) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise unreadable(table, error) from None


def _header(file: BinaryIO, *, table: str, tabs: bool) -> tuple[list[str], _Layout]:
    """The names of the columns, and where the records after them begin."""
    chunk = file.read(_HEADER_BYTES)
    last = len(chunk) < _HEADER_BYTES
    for magic, reason in _OTHER_KINDS.items():
        if chunk.startswith(magic):
            raise BadTable(table, reason)
    skipped = len(_BOM) if chunk.startswith(_BOM) else 0
    text = chunk[skipped:]
    while text[:1] in (b"\n", b"\r"):
        skipped, text = skipped + 1, text[1:]
    if not text.strip():
        raise BadTable(table, "the file is empty; a header with the names of the columns is needed")
    line = 1 + chunk.count(_LINE_END, 0, skipped)
    first_line = text[: text.index(_LINE_END)] if _LINE_END in text else text
    delimiter = _delimiter(first_line, tabs=tabs)
    records = _checked_split(text, delimiter=delimiter, last=last, table=table, line=line)
    if not records.end:
        raise BadTable(table, "the header does not end; is a quotation mark not closed?", place=f"line {line}")
    end = int(records.starts[1]) if len(records.starts) > 1 else records.end
    _check_no_nul(text[:end], table=table, line=line)
    _check_text(text[:end], table=table, line=line)
    try:
        names = next(csv.reader(io.StringIO(text[:end].decode(), newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        raise BadTable(table, "the header cannot be read", place=f"line {line}") from None
    _check_header(names, table=table, place=f"line {line}")
    return names, _Layout(delimiter, skipped + end, line + text.count(_LINE_END, 0, end))


def _delimiter(header: bytes, *, tabs: bool) -> str:
    """The sign that most often stands between the names of a header, outside of quotation marks."""
    outside = b"".join(header.split(b'"')[0::2])
    if tabs and b"\t" in outside:
        return "\t"
    counts = {sign: outside.count(sign.encode()) for sign in _DELIMITERS}
    return max(_DELIMITERS, key=lambda sign: counts[sign])


def _check_header(names: list[str], *, table: str, place: str) -> None:
    """Names that differ and are no numbers: a file without a header would show its first record in messages."""
    numbers = sum(_is_number(name) for name in names)
    if 2 * numbers > len(names):
        reason = f"{numbers} of {len(names)} names of columns are numbers; put a line with the names first"
        raise BadTable(table, reason, place=place)
    check_names(names, table=table, place=place)


def _is_number(text: str) -> bool:
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True


def _checked_split(chunk: bytes, *, delimiter: str, last: bool, table: str, line: int) -> Records:
    try:
        return split(chunk, delimiter=delimiter, last=last)
    except Broken as broken:
        line += chunk.count(_LINE_END, 0, broken.offset)
        raise BadTable(table, broken.reason, place=f"line {line}") from None


def _check_no_nul(chunk: bytes, *, table: str, line: int) -> None:
    if b"\0" in chunk:
        line += chunk.count(_LINE_END, 0, chunk.index(b"\0"))
        raise BadTable(table, "has a NUL byte; it is damaged, no text, or in UTF-16", place=f"line {line}")


def _check_text(chunk: bytes, *, table: str, line: int) -> None:
    """UTF-8 throughout; the chunk cuts no sign in two."""
    try:
        chunk.decode()
    except UnicodeDecodeError as error:
        line += chunk.count(_LINE_END, 0, error.start)
    else:
        return
    raise BadTable(table, "is not in UTF-8; convert it, or save it as 'CSV UTF-8'", place=f"line {line}")


def _ragged_record(
    chunk: bytes, records: Records, layout: _Layout, names: list[str], *, table: str, line: int
) -> BadTable:
    """Which record has not as many fields as the header."""
    counts = field_counts(chunk, records.starts, delimiter=layout.delimiter)
    ragged = np.flatnonzero(counts != len(names))
    if not len(ragged):
        return BadTable(table, "cannot be read as delimited text", place=f"from line {line} on")
    line += chunk.count(_LINE_END, 0, int(records.starts[ragged[0]]))
    return BadTable(
        table,
        f"{counts[ragged[0]]} fields where the header has {len(names)}; a field that contains {_spoken(layout)} "
        "must stand in quotation marks",
        place=f"line {line}",
    )


def _spoken(layout: _Layout) -> str:
    return {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}[layout.delimiter]


def _check_rest(rest: bytes, records: Records, *, last: bool, table: str, line: int) -> None:
    """What is left over after the last complete record of a chunk is the beginning of another, and not too long."""
    if not rest or not (last or len(rest) > _MOST_BYTES):
        return
    if records.open_quote is not None:
        line += rest.count(_LINE_END, 0, records.open_quote - records.end)
        raise BadTable(table, "a quotation mark opens a field here and nothing closes it", place=f"line {line}")
    raise BadTable(table, f"a record is longer than {_MOST_BYTES >> 20} megabytes", place=f"line {line}")


def _parse(chunk: bytes, names: list[str], columns: list[str], *, delimiter: str) -> pa.Table | None:
    """The records as columns of text; None if they have not all as many fields as there are names."""
    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(chunk),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names, use_threads=False, block_size=max(len(chunk) + 1, 1024)
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=columns,
                null_values=[],
                strings_can_be_null=False,
                check_utf8=True,
            ),
        )
    except pa.ArrowInvalid:  # its message quotes the record
        return None
