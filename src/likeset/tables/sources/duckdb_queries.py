"""``sql:SELECT ... FROM 'file.parquet'``: a DuckDB query over files, run once into a private copy.

The query may only read: one SELECT, on the files that it names or matches by a pattern, with no network, no extensions
and no variables of the program. It runs in one thread, so that the same files give the same rows in the same order.
"""

import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from likeset.errors import BadTable
from likeset.tables.sources.private_copies import Spool, spool_rows
from likeset.tables.sources.row_blocks import BLOCK_ROWS, Source

__all__ = ["open_query"]

_QUOTED = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")
_GLOB = re.compile(r"[*?\[]")
_DATA_FILE = re.compile(r"(?i)\.(csv|tsv|parquet|pq|json|jsonl|ndjson)(\.gz|\.zst)?$")
_MEMORY = "512MB"
_ABOUT_THE_QUERY = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.SyntaxException)


def open_query(query: str, *, name: str) -> Source:
    """The rows that a query over files gives."""
    try:
        query.encode()
    except UnicodeEncodeError:
        raise BadTable(name, "the query is not in UTF-8; rename files whose names are not") from None
    spool = Spool(table=name)
    try:
        connection = _connection(query, spool=spool)
        try:
            reader = _start_query(connection, query, name=name)
            return spool_rows(_batches(reader, name=name), reader.schema, name=name, spool=spool)
        finally:
            connection.close()
    except BaseException:
        spool.remove()
        raise


def _connection(query: str, *, spool: Spool) -> duckdb.DuckDBPyConnection:
    """A database in memory that reaches the files of this query and nothing else."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "threads": "1",
            "memory_limit": _MEMORY,
            "temp_directory": str(spool.directory / "spill"),
        },
    )
    connection.execute("SET allowed_paths = $1", [_named_files(query)])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _named_files(query: str) -> list[str]:
    """Files that stand in quotation marks in the query, and patterns with the files that they match."""
    files: list[str] = []
    for single, double in _QUOTED.findall(query):
        text = single.replace("''", "'") or double.replace('""', '"')
        if not _DATA_FILE.search(text) or "://" in text:
            continue
        if _GLOB.search(text):
            matched = glob.iglob(text, recursive=True, include_hidden=True)  # noqa: PTH207 - names as the database makes them
            files += [text, *(path for path in matched if Path(path).is_file())]
        elif Path(text).is_file():
            files.append(text)
    return files


def _start_query(connection: duckdb.DuckDBPyConnection, query: str, *, name: str) -> pa.RecordBatchReader:
    names: list[str] = []
    try:
        statements = connection.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise BadTable(name, "must be exactly one SELECT; nothing else is run")
        # A SELECT may write too, by a COPY in its WITH clause; below another SELECT the database refuses that.
        connection.execute("SELECT * FROM query($1) LIMIT 0", [query])
        relation = connection.sql(query)
        names = list(relation.columns)
        reader = relation.to_arrow_reader(BLOCK_ROWS)
    except _ABOUT_THE_QUERY as error:
        raise BadTable(name, f"the query is refused: {_first_line(error)}") from None
    except (duckdb.Error, OSError) as error:
        raise BadTable(name, _reason(error, names)) from None
    if reader is None or not names:
        raise BadTable(name, "the query gives no columns")
    return reader


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _reason(error: Exception, columns: Sequence[str]) -> str:
    """What kind of thing went wrong; the database's own words may show values of rows."""
    kind = str(error).split(":")[0].strip().lower()
    if kind == "permission error":
        return (
            "the query may read only files that exist and that it names in quotation marks, and no network address; "
            "check their names"
        )
    if kind == "conversion error":
        # Of the database's words only a name that the query's own columns have: the others may be a row's.
        about = next(
            (f" of column {column}" for column in columns if f'converting column "{column}"' in str(error)), ""
        )
        return (
            f"the query failed: a value{about} cannot be converted to the type that the query asks for, or that was "
            "guessed from the first rows; use TRY_CAST, and for a text file read_csv('FILE', all_varchar=true)"
        )
    if kind == "out of memory error":
        return f"the query needs more than {_MEMORY} of memory or too much disk; ask for less at once"
    if kind == "io error" and "No files found" in str(error):
        return "no file matches a pattern that the query names; check its path"
    if kind in ("invalid input error", "io error", "out of range error"):
        return f"the query failed ({kind}); check the files and types that it names"
    return "the query failed while it ran; check the files and types that it names"


def _batches(reader: pa.RecordBatchReader, *, name: str) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, duckdb.Error, OSError) as error:
            raise BadTable(name, _reason(error, reader.schema.names)) from None
        yield batch
