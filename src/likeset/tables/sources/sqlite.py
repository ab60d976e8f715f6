"""``sqlite:FILE?table=NAME`` and ``sqlite:FILE?query=SELECT ...``: an SQLite file, read once into a private copy.

The file is opened for reading only, and the statement can do nothing but read. SQLite types values, not columns: a
column has whole numbers, numbers, text or bytes if all its values have; text and numbers together come as text. What
a column has is taken from its first rows. Where a later row does not go with that, the rest is read for the kinds of
its values alone, and the copy is made again: only then the file is read twice.
"""

import difflib
import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from likeset.errors import BadTable
from likeset.tables.sources.private_copies import Spool, spool_rows
from likeset.tables.sources.row_blocks import Source, check_names, unreadable

__all__ = ["open_sqlite", "split_address"]

_FETCHED_ROWS = 16384
_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def split_address(address: str, *, name: str) -> tuple[str, str, str]:
    """``FILE?query=SELECT ...`` as place, ``query`` or ``table``, and what follows it up to the end, as written."""
    matches = [(address.find(sign + word), word) for word in ("query=", "table=") for sign in "?&"]
    matches = sorted((start, word) for start, word in matches if start >= 0)
    if not matches:
        raise BadTable(name, "says not what to read; end it with ?table=NAME or ?query=SELECT ...")
    start, word = matches[0]
    what = address[start + 1 + len(word) :].strip().rstrip("; \n")
    if not what:
        raise BadTable(name, f"nothing stands after {word!r}; give a name or a SELECT")
    return address[:start], word[:-1], what


def open_sqlite(address: str, *, name: str) -> Source:
    """The rows of a table or query of an SQLite file."""
    file, kind, what = split_address(address, name=name)
    path = Path(file)
    try:
        with path.open("rb"):
            pass  # the system's own words if it cannot be opened
    except OSError as error:
        raise unreadable(name, error) from None
    connection = None
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, isolation_level=None)
        connection.text_factory = _Text  # text that is no UTF-8 would otherwise show up in a message
        connection.execute("BEGIN")  # a second copy sees the same rows
        query = _table_query(connection, what, name=name) if kind == "table" else what
        connection.set_authorizer(_only_read)
        columns = _columns(connection, query, name=name)
        return _copy_rows(connection, query, columns, name=name)
    except sqlite3.Error as error:
        ran = getattr(error, "sqlite_errorname", "") == "SQLITE_ERROR"
        broken = "cannot be read as an SQLite database; it is damaged, locked, or none"
        reason = "the query failed while it ran; check its functions and casts" if ran else broken
        raise BadTable(name, reason) from None
    finally:
        if connection is not None:
            connection.close()


class _Text(bytes):
    """Text as it lies in the database, to be told from bytes."""


_KINDS: dict[type, str] = {int: "integer", float: "real", _Text: "text", bytes: "blob", type(None): "null"}


class _OtherKinds(Exception):
    """A column has values of another kind than its first ones.

    Attributes:
        seen: the kinds of all values, by column.
    """

    def __init__(self, seen: list[set[str]]) -> None:
        super().__init__()
        self.seen = seen


def _copy_rows(connection: sqlite3.Connection, query: str, columns: list[str], *, name: str) -> Source:
    """The private copy of what a query gives."""
    pieces = _pieces(connection, query)
    first = next(pieces, [])
    seen = [_kinds_in(values) for values in zip(*first, strict=True)] or [set[str]() for _ in columns]
    pieces = itertools.chain([first] if first else [], pieces)
    while True:
        kinds = [_kind(kinds, column=column, name=name) for kinds, column in zip(seen, columns, strict=True)]
        schema = pa.schema(list(zip(columns, kinds, strict=True)))
        try:
            batches = _batches(pieces, seen, schema, name=name)
            return spool_rows(batches, schema, name=name, spool=Spool(table=name))
        except _OtherKinds as other:
            seen, pieces = other.seen, _pieces(connection, query)


def _pieces(connection: sqlite3.Connection, query: str) -> Iterator[list[Any]]:
    """Some rows of a query at a time."""
    cursor = connection.execute(query)
    while rows := cursor.fetchmany(_FETCHED_ROWS):
        yield rows


def _kinds_in(values: Iterable[Any]) -> set[str]:
    return {_KINDS[kind] for kind in set(map(type, values))} - {"null"}


def _only_read(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _table_query(connection: sqlite3.Connection, table: str, *, name: str) -> str:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
    tables = [row[0].decode(errors="replace") for row in rows]
    if table not in tables:
        near = difflib.get_close_matches(table, tables, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(tables[:10]) or 'none'}"
        raise BadTable(name, f"there is no table {table!r} in the database; {hint}")
    return f"SELECT * FROM {_as_identifier(table)}"  # noqa: S608 (a table that exists)


def _as_identifier(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _columns(connection: sqlite3.Connection, query: str, *, name: str) -> list[str]:
    """The names of the query's columns."""
    try:
        # No row is looked at here, so that the database's words are about the query alone.
        connection.execute(f"SELECT * FROM (\n{query}\n) LIMIT 0")  # noqa: S608 (the connection can only read)
    except (sqlite3.Warning, sqlite3.ProgrammingError, ValueError):  # several statements (until Python 3.11, and since)
        raise BadTable(name, "the query is refused: it must be one SELECT") from None
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorname not in ("SQLITE_ERROR", "SQLITE_AUTH"):
            raise
        raise BadTable(name, f"the query is refused (it must be one SELECT): {error}") from None
    # Of the query itself: within another one, SQLite would rename columns of the same name.
    described = connection.execute(query).description
    names = [column[0] for column in described]
    check_names(names, table=name)
    return names


def _kind(kinds: set[str], *, column: str, name: str) -> pa.DataType:
    if "blob" in kinds and len(kinds) > 1:
        raise BadTable(name, "holds bytes in some rows and text or numbers in others; use one kind", column=column)
    if "blob" in kinds:
        return pa.binary()
    if not kinds or "text" in kinds:
        return pa.string()
    return pa.float64() if "real" in kinds else pa.int64()


def _batches(
    pieces: Iterator[list[Any]], seen: list[set[str]], schema: pa.Schema, *, name: str
) -> Iterator[pa.RecordBatch]:
    """The rows in columns of these types; the kinds of all values, as an exception, if one does not go with them."""
    first = 0
    for rows in pieces:
        columns = list(zip(*rows, strict=True))
        if any(not _kinds_in(values) <= known for values, known in zip(columns, seen, strict=True)):
            every = [set(known) for known in seen]
            for later in itertools.chain([rows], pieces):
                for known, values in zip(every, zip(*later, strict=True), strict=True):
                    known |= _kinds_in(values)
            raise _OtherKinds(every)
        arrays = []
        for values, field in zip(columns, schema, strict=True):
            convert = _CONVERSIONS[field.type]
            try:
                arrays.append(pa.array([None if value is None else convert(value) for value in values], field.type))
            except UnicodeDecodeError:
                bad = next(offset for offset, value in enumerate(values) if not _is_utf8(value))
                raise BadTable(name, "is not in UTF-8", place=f"row {first + bad}", column=field.name) from None
        yield pa.record_batch(arrays, schema=schema)
        first += len(rows)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _is_utf8(value: Any) -> bool:
    try:
        _text(value)
    except UnicodeDecodeError:
        return False
    return True


_CONVERSIONS: dict[pa.DataType, Callable[[Any], Any]] = {
    pa.string(): _text,
    pa.float64(): float,
    pa.int64(): int,
    pa.binary(): bytes,
}
