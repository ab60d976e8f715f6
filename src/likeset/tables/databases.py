"""Queries and databases, read once into a private copy.

The copy is in its own directory below the system's directory for temporary files (``TMPDIR``), for this user
only. It is removed when the source is closed or garbage-collected, or when the program ends.
"""

import glob
import os
import re
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa

from likeset.errors import BadTable, missing_extra
from likeset.tables.sources import BLOCK_ROWS, File, Source, ValueDigest, check_names, in_blocks, open_arrow

_BATCH_BYTES = 1 << 20  # approximate size of a batch of the copy: fetching one row reads one batch
_NO_ROOM = "its temporary copy cannot be written: {why}; make room, or set TMPDIR to a directory with more of it"


def open_database(scheme: str, address: str, *, name: str) -> Source:
    spool = Spool(name)
    try:
        if scheme == "sql":
            return _open_query(address[len("sql:") :], name=name, spool=spool)
        if scheme == "sqlite":
            return _open_sqlite(address[len("sqlite:") :], name=name, spool=spool)
        return _open_postgres(address, name=name, spool=spool)
    except BaseException:
        spool.remove()
        raise


class Spool:
    """A private directory that is removed together with the object that holds it."""

    def __init__(self, table: str) -> None:
        self._table = table
        try:
            self.directory = Path(tempfile.mkdtemp(prefix="likeset-"))
        except OSError as error:
            raise self._no_room(error) from None
        self._end = weakref.finalize(self, _remove, self.directory, os.getpid())

    def remove(self) -> None:
        self._end()

    def keep(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Source:
        check_names(schema.names, table=self._table)
        file, digest = self.directory / "rows.arrow", ValueDigest(schema)
        tables = (pa.Table.from_batches([batch]) for batch in batches)
        try:
            with (
                pa.OSFile(str(file), "wb") as sink,
                pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer,
            ):
                for table in in_blocks(tables, BLOCK_ROWS):
                    digest.update(table)
                    rows = max(1, table.num_rows * _BATCH_BYTES // max(table.nbytes, 1))
                    writer.write_table(table.combine_chunks(), max_chunksize=rows)
        except OSError as error:
            raise self._no_room(error) from None
        return open_arrow(file, name=self._table, close=self.remove, digest=digest.hexdigest())

    def _no_room(self, error: OSError) -> BadTable:
        why = os.strerror(error.errno) if error.errno else "the disk refused it"
        return BadTable(self._table, _NO_ROOM.format(why=why))


def _remove(directory: Path, process: int) -> None:
    """Only by the process that made it: children of it end earlier."""
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)


def _split_address(address: str, *, name: str) -> tuple[str, str, str]:
    """``FILE?query=SELECT ...`` as place, ``query`` or ``table``, and what follows it up to the end, as written."""
    found = re.search(r"[?&](query|table)=", address)
    if found is None:
        raise BadTable(name, "says not what to read; end it with ?table=NAME or ?query=SELECT ...")
    what = address[found.end() :].strip().rstrip("; \n")
    if not what:
        raise BadTable(name, f"nothing stands after {found.group(1) + '='!r}; give a name or a SELECT")
    return address[: found.start()], found.group(1), what


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# sql: one SELECT by DuckDB, on the files that it names or matches by a pattern; no network, extensions or variables.
# It runs in one thread, so that the same files give the same rows in the same order.

_QUOTED = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")
_GLOB = re.compile(r"[*?\[]")
_DATA_FILE = re.compile(r"(?i)\.(csv|tsv|parquet|pq|json|jsonl|ndjson)(\.gz|\.zst)?$")
_MEMORY = "512MB"
_ABOUT_THE_QUERY = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.SyntaxException)


def _open_query(query: str, *, name: str, spool: Spool) -> Source:
    try:
        query.encode()
    except UnicodeEncodeError:
        raise BadTable(name, "the query is not in UTF-8; rename files whose names are not") from None
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "threads": "1",
        "memory_limit": _MEMORY,
        "temp_directory": str(spool.directory / "spill"),
    }
    names: list[str] = []
    with duckdb.connect(":memory:", config=settings) as connection:
        connection.execute("SET allowed_paths = $1", [_named_files(query)])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            statements = connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise BadTable(name, "must be exactly one SELECT; nothing else is run")
            # A SELECT may write too, by a COPY in its WITH clause; below another SELECT the database refuses that.
            connection.execute("SELECT * FROM query($1) LIMIT 0", [query])
            relation = connection.sql(query)
            names = list(relation.columns)
            reader = relation.to_arrow_reader(BLOCK_ROWS)
            return spool.keep(_batches(reader, (duckdb.Error,)), reader.schema)
        except _ABOUT_THE_QUERY as error:
            raise BadTable(name, f"the query is refused: {str(error).strip().splitlines()[0]}") from None
        except (duckdb.Error, _Failed) as error:
            raise BadTable(name, _query_fault(str(error), names)) from None


def _named_files(query: str) -> list[str]:
    """Files that stand in quotation marks in the query, and patterns with the files that they match."""
    files: list[str] = []
    for single, double in _QUOTED.findall(query):
        text = single.replace("''", "'") or double.replace('""', '"')
        if not _DATA_FILE.search(text) or "://" in text:
            continue
        if _GLOB.search(text):
            matched = glob.iglob(text, recursive=True, include_hidden=True)  # noqa: PTH207 - names as DuckDB makes them
            files += [text, *(path for path in matched if Path(path).is_file())]
        elif Path(text).is_file():
            files.append(text)
    return files


_REMEDIES = {
    "permission error": "it may read only files that exist and stand in it in quotation marks, and no network address",
    "conversion error": "use TRY_CAST, and for a text file read_csv('FILE', all_varchar=true)",
    "out of memory error": f"it needs more than {_MEMORY} of memory or too much disk; ask for less at once",
}


def _query_fault(message: str, columns: Sequence[str]) -> str:
    """What kind of thing went wrong; the database's own words may show values of rows."""
    kind = message.split(":")[0].strip().lower()
    # Of the database's words only a name that the query's own columns have: the others may be a row's.
    about = next((f" in column {column}" for column in columns if f'converting column "{column}"' in message), "")
    return f"the query failed ({kind}{about}); {_REMEDIES.get(kind, 'check the files and types that it names')}"


class _Failed(Exception):
    """A query failed while it ran. Not shown: its words may hold values."""


def _batches(reader: pa.RecordBatchReader, failures: tuple[type[Exception], ...]) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (*failures, pa.ArrowException, OSError) as error:
        raise _Failed(str(error)) from None


# sqlite: opened for reading only. SQLite types values, not columns: a column has whole numbers, numbers, text or bytes
# if all its values have; text and numbers together come as text.

_FETCHED_ROWS = 16384
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
_TYPES = {b"blob": pa.binary(), b"integer": pa.int64(), b"real": pa.float64(), b"text": pa.string()}


def _open_sqlite(address: str, *, name: str, spool: Spool) -> Source:
    file, kind, what = _split_address(address, name=name)
    File.of(Path(file), table=name)
    uri = f"file:{quote(str(Path(file).absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            connection.text_factory = bytes  # text that is no UTF-8 would otherwise show up in a message
            connection.execute("BEGIN")  # the second reading sees the same rows
            query = f"SELECT * FROM {_identifier(what)}" if kind == "table" else what  # noqa: S608 - it can only read
            connection.set_authorizer(lambda action, *_: int(action not in _READING))
            schema = _sqlite_schema(connection, query, name=name)
            return spool.keep(_sqlite_batches(connection.execute(query), schema, name=name), schema)
    except sqlite3.Error as error:
        ran = getattr(error, "sqlite_errorname", "") == "SQLITE_ERROR"
        broken = "cannot be read as an SQLite database; it is damaged, locked, or none"
        reason = "the query failed while it ran; check its functions and casts" if ran else broken
        raise BadTable(name, reason) from None


def _sqlite_schema(connection: sqlite3.Connection, query: str, *, name: str) -> pa.Schema:
    try:
        # No row is looked at here, so that the database's words are about the query alone.
        connection.execute(f"SELECT * FROM (\n{query}\n) LIMIT 0")  # noqa: S608 (the connection can only read)
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        if getattr(error, "sqlite_errorname", "SQLITE_ERROR") not in ("SQLITE_ERROR", "SQLITE_AUTH"):
            raise
        reason = f"the query is refused (it must be one SELECT, and nothing may follow it): {error}"
        raise BadTable(name, reason) from None
    # Of the query itself: within another one, SQLite would rename columns of the same name.
    names = [column[0] for column in connection.execute(query).description]
    check_names(names, table=name)
    columns = [f"c{place}" for place in range(len(names))]
    kinds = [f"nullif(typeof({column}), 'null')" for column in columns]
    asked = ", ".join(f"min({kind}), max({kind})" for kind in kinds)
    seen = iter(*connection.execute(f"WITH q({', '.join(columns)}) AS (\n{query}\n) SELECT {asked} FROM q"))  # noqa: S608
    fields = []
    for column in names:  # by the names of kinds, in their order: blob, integer, real, text
        least, most = next(seen), next(seen)
        if least != most and least == b"blob":
            raise BadTable(name, "holds bytes in some rows and text or numbers in others; use one kind", column=column)
        fields.append((column, _TYPES.get(most, pa.string())))
    return pa.schema(fields)


def _sqlite_batches(cursor: sqlite3.Cursor, schema: pa.Schema, *, name: str) -> Iterator[pa.RecordBatch]:
    first = 0
    while rows := cursor.fetchmany(_FETCHED_ROWS):
        arrays = []
        for values, field in zip(zip(*rows, strict=True), schema, strict=True):
            try:
                arrays.append(pa.array(values, field.type))
            except (pa.ArrowException, TypeError, ValueError):  # numbers among texts, or text that is no UTF-8
                arrays.append(_converted(values, field, first=first, name=name))
        yield pa.record_batch(arrays, schema=schema)
        first += len(rows)


def _converted(values: Sequence[Any], field: pa.Field, *, first: int, name: str) -> pa.Array:
    cells: list[Any] = []
    try:
        for value in values:
            text = str(value) if not isinstance(value, bytes) else value.decode()
            cells.append(None if value is None else float(value) if field.type == pa.float64() else text)
    except UnicodeDecodeError:
        raise BadTable(name, "is not in UTF-8", place=f"row {first + len(cells)}", column=field.name) from None
    return pa.array(cells, field.type)


# postgres: by the extra likeset[postgres], in a transaction that can only read. A password stands in no name and no
# message; better still, keep it in ~/.pgpass or PGPASSWORD, out of the address.

_ONLY_READS = re.compile(r"(?is)^\s*(select|with|values|table)\b")
_WAIT_SECONDS = 15


def _open_postgres(address: str, *, name: str, spool: Spool) -> Source:
    uri, kind, what = _split_address(address, name=name)
    query = f"TABLE {'.'.join(map(_identifier, what.split('.')))}" if kind == "table" else what
    if not _ONLY_READS.match(query):
        raise BadTable(name, "must be exactly one SELECT; nothing else is run")
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise BadTable(name, missing_extra("postgres")) from None
    if "connect_timeout=" not in uri:
        uri += f"{'&' if '?' in uri else '?'}connect_timeout={_WAIT_SECONDS}"
    try:
        with dbapi.connect(uri) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            schema = cursor.adbc_execute_schema(query)
            check_names(schema.names, table=name)
            casts = [_cast(field.type) for field in schema]
            if any(casts):
                columns = (_identifier(column) + cast for column, cast in zip(schema.names, casts, strict=True))
                query = f"SELECT {', '.join(columns)} FROM (\n{query}\n) AS q"  # noqa: S608 (can only read)
            cursor.execute(query)
            reader = cursor.fetch_record_batch()
            return spool.keep(_batches(reader, (dbapi.Error,)), reader.schema.remove_metadata())
    except _Failed:  # the server's words may show a value
        reason = "the query failed while it ran, or the server broke off; check its casts and arithmetic"
        raise BadTable(name, reason) from None
    except dbapi.Error as error:
        raise BadTable(name, _server_fault(error)) from None


def _cast(kind: pa.DataType) -> str:
    """How the server converts what Arrow has no type for: exact numbers to numbers, everything else to text."""
    if pa.types.is_list(kind):
        inner = _cast(kind.value_type)
        return f"{inner}[]" if inner else ""
    if isinstance(kind, pa.OpaqueType) and kind.type_name == "numeric":
        return "::float8"
    return "::text" if isinstance(kind, pa.BaseExtensionType) or pa.types.is_interval(kind) else ""


def _server_fault(error: Any) -> str:
    """What went wrong, by the server's code; its own words only where they are about the query, never about rows."""
    code, words = getattr(error, "sqlstate", None) or "", re.search(r"ERROR:\s*([^\n]*)", str(error))
    if code.startswith("42") and words:
        return f"the query is refused: {words.group(1)}"
    if code:
        return f"the query failed (code {code}); check its casts and arithmetic, and that it only reads"
    return (
        "the server cannot be reached, has no such database, or refused the user or the password; check the address, "
        "whether the server runs, and ~/.pgpass"
    )
