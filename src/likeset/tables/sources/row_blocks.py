"""Rows in blocks: what every source of rows has in common, wherever they lie.

A source is a row of parts. A part knows how to read its own rows; everything else is done here, once: cutting into
blocks, reading ahead, fetching by row number, checking the asked columns.
"""

import difflib
import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.errors import BadTable, InvalidArgument

__all__ = [
    "BLOCK_ROWS",
    "UNCOUNTED",
    "Block",
    "Part",
    "Source",
    "Stamp",
    "ahead",
    "check_names",
    "checked_columns",
    "in_blocks",
    "unreadable",
]

BLOCK_ROWS = 65536
UNCOUNTED = -1
_READ_AHEAD = 2
_NAMES_SHOWN = 5

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows that follow each other.

    Attributes:
        first_row: the number of its first row in the whole source, counted from 0.
        table: the asked columns, in the asked order.
        place: where a row of the whole source lies, in words.
    """

    first_row: int
    table: pa.Table
    place: Callable[[int], str] = field(repr=False)

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows

    def locate(self, offset: int) -> str:
        """Where the row at this offset of the block lies, for a message: ``line 17``."""
        if not 0 <= offset < len(self):
            raise InvalidArgument("offset", offset, f"must be a row of this block: 0 to {len(self) - 1}")
        return self.place(self.first_row + int(offset))


@dataclass(frozen=True)
class Stamp:
    """By what a file is known again: another size or time of change is another file."""

    size: int
    modified: int

    @classmethod
    def of(cls, file: Path) -> Self:
        """The stamp that the file has now."""
        status = file.stat()
        return cls(status.st_size, status.st_mtime_ns)

    def check(self, file: Path, *, table: str, place: str = "") -> None:
        """Nothing if the file is still the same; otherwise an error."""
        try:
            same = Stamp.of(file) == self
        except OSError:
            same = False
        if not same:
            raise BadTable(
                table,
                "the file was changed while it was being read; start again when nothing writes to it any more",
                place=place,
            )


@dataclass(frozen=True, eq=False)
class Part(ABC):
    """A share of a source that can be read on its own, also in another process: it can be pickled.

    Attributes:
        table: the source's name, for messages.
        path: the file that holds the rows; None for rows in memory.
        schema: names and types of all columns.
        first_row: the number of its first row in the whole source.
        row_count: how many rows it has; ``UNCOUNTED`` until it is read for the first time, where no file says it.
    """

    table: str
    path: Path | None
    schema: pa.Schema
    first_row: int
    row_count: int

    def blocks(self, columns: Sequence[str], *, rows: int = BLOCK_ROWS) -> Iterator[Block]:
        """Its rows in order, ``rows`` at a time; the last block has what is left."""
        names = checked_columns(columns, self.schema, table=self.table)
        rows = arguments.count("rows", rows)
        return ahead(self.cut(names, rows))

    def cut(self, columns: list[str], rows: int) -> Iterator[Block]:
        """As ``blocks``, in the caller's own thread and without checks."""
        first = self.first_row
        for table in in_blocks(self.read(columns, rows), rows):
            yield Block(first, table, self.place)
            first += table.num_rows
        if self.row_count not in (first - self.first_row, UNCOUNTED):
            raise BadTable(self.table, f"{first - self.first_row} rows came where {self.row_count} were announced")

    def with_words(self, columns: Iterable[str]) -> "Part":  # noqa: ARG002 - for those that can
        """The same part; where it is cheaper, these columns of text come as dictionaries."""
        return self

    @abstractmethod
    def read(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """Its rows in order, in pieces of about this many rows."""

    @abstractmethod
    def pick(self, numbers: NDArray[np.int64], columns: list[str]) -> Iterator[pa.Table]:
        """Rows of these numbers, which count from the part's first row, rise, and occur once."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row of this part lies, by its number in the whole source."""


class Source:
    """A table that is read in blocks, by the number of its rows, or part by part.

    Args:
        name: as the user wrote it, without secrets.
        schema: names and types of its columns.
        parts: finds the parts when they are first needed.
        fingerprint: computes the digest of the data.
        first: parts for whoever reads all rows in order before anything else was read, each to its end before the next:
            what takes a pass over the file to know (the number of rows, the digest) is noted on the way. None once it
            is known.
        close: gives back what the source holds.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        *,
        parts: Callable[[], tuple[Part, ...]],
        fingerprint: Callable[[], str],
        first: Callable[[], Iterator[Part] | None] = lambda: None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self._find_parts = parts
        self._find_fingerprint = fingerprint
        self._find_first = first
        self._close = close
        self._closed = False

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what was written for this source; it cannot be read afterwards. Harmless when repeated."""
        self._closed = True
        if self._close is not None:
            self._close()

    def _check_open(self) -> None:
        if self._closed:
            raise BadTable(self.name, "the source was closed; open it again")

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Shares of the source, in order, for workers: the same ones every time."""
        return self._find_parts()

    @property
    def counted(self) -> bool:
        """Whether it takes no pass over the rows to know how many there are."""
        return self._find_first() is None

    @cached_property
    def row_count(self) -> int:
        """How many rows there are; 0 is possible."""
        return sum(part.row_count for part in self.parts)

    def blocks(self, columns: Sequence[str], *, rows: int = BLOCK_ROWS, words: Sequence[str] = ()) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time; no block reaches over the end of a part.

        Args:
            columns: what is read.
            rows: of a block.
            words: columns of text that come as dictionaries where that is cheaper.
        """
        self._check_open()
        names = checked_columns(columns, self.schema, table=self.name)
        rows = arguments.count("rows", rows)
        parts = self._find_first() or iter(self.parts)
        return ahead(self._cut(part.with_words(words).cut(names, rows) for part in parts))

    def _cut(self, parts: Iterable[Iterator[Block]]) -> Iterator[Block]:
        """Holds the source, and so the private copy of a query's answer, until the last block was taken."""
        for blocks in parts:
            yield from blocks

    def fetch(self, row_numbers: ArrayLike, columns: Sequence[str]) -> pa.Table:
        """The rows of these numbers in this order, as often as they are named; reads only what is needed for them."""
        self._check_open()
        names = checked_columns(columns, self.schema, table=self.name)
        wanted = arguments.row_numbers("row_numbers", row_numbers)
        if len(wanted) and int(wanted.max()) >= self.row_count:
            raise InvalidArgument("row_numbers", int(wanted.max()), f"must be below {self.row_count}, the row count")
        numbers, places = np.unique(wanted, return_inverse=True)
        tables = [pa.schema([self.schema.field(name) for name in names]).empty_table()]
        for part in self.parts:
            inside = numbers[np.searchsorted(numbers, part.first_row) :]
            inside = inside[: np.searchsorted(inside, part.first_row + part.row_count)] - part.first_row
            if len(inside):
                tables.extend(part.pick(inside, names))
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks().take(pa.array(places))

    def place(self, row: int) -> str:
        """Where the row of this number lies, in words: ``line 17``.

        Raises:
            InvalidArgument: there is no such row.
        """
        for part in self.parts:
            if part.first_row <= row < part.first_row + part.row_count:
                return part.place(row)
        raise InvalidArgument("row", row, f"must be one of 0 to {self.row_count - 1}")

    def fingerprint(self) -> str:
        """A digest that stays the same as long as the data do; it holds no value, but is the owner's own business."""
        return self._find_fingerprint()


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


def ahead(items: Iterator[Item], *, depth: int = _READ_AHEAD) -> Iterator[Item]:
    """The same items, a few of them made ahead in a thread, which ends when the caller stops for whatever reason."""
    made: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(kind: str, value: Any) -> bool:
        while not stop.is_set():
            try:
                made.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:  # the caller raises it
            put("error", error)
        finally:
            if isinstance(items, Iterator) and hasattr(items, "close"):
                items.close()

    reader = threading.Thread(target=work, name="likeset-reader", daemon=True)
    reader.start()
    try:
        while True:
            kind, value = made.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stop.set()
        reader.join()


def checked_columns(columns: Sequence[str], schema: pa.Schema, *, table: str) -> list[str]:
    """The asked columns if the table has all of them and none is asked for twice."""
    if isinstance(columns, str):
        raise InvalidArgument("columns", repr(columns), f"must be a list of names: [{columns!r}]")
    names = list(columns)
    for name in names:
        if name not in schema.names:
            raise BadTable(table, _no_such_column(str(name), schema.names), column=str(name))
    if len(set(names)) != len(names):
        raise InvalidArgument("columns", names, "must name each column once")
    if not names:
        raise InvalidArgument("columns", names, "must name at least one column")
    return names


def _no_such_column(name: str, names: Sequence[str]) -> str:
    by_small_letters = {other.strip().casefold(): other for other in names}
    near = difflib.get_close_matches(name.strip().casefold(), by_small_letters, n=3, cutoff=0.6)
    if near:
        return f"there is no such column; nearest names: {', '.join(repr(by_small_letters[other]) for other in near)}"
    shown = ", ".join(repr(other) for other in names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"there is no such column; the table has {shown}{more}"


def check_names(names: Sequence[str], *, table: str, place: str = "") -> None:
    """An error if there is no column, or two have one name."""
    if not names:
        raise BadTable(table, "has no columns", place=place)
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if name in seen:
            reason = f"columns {names.index(name) + 1} and {number} have the same name; rename one of them"
            raise BadTable(table, reason, place=place, column=name)
        seen.add(name)


def unreadable(table: str, error: OSError, *, place: str = "") -> BadTable:
    """What the operating system says about a file, with what to do."""
    if isinstance(error, FileNotFoundError):
        reason = "there is no such file; check the spelling and the directory"
    elif isinstance(error, PermissionError):
        reason = "permission denied; ask its owner to let you read it"
    else:
        reason = f"cannot be read: {os.strerror(error.errno) if error.errno else 'the system gave no reason'}"
    return BadTable(table, reason, place=place)
