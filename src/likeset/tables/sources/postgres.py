"""``postgres://HOST/DATABASE?query=SELECT ...``: rows of a Postgres server, read once into a private copy.

Needs the extra ``likeset[postgres]``. The query runs in a transaction that can only read. A password stands in no
name and no message; better still, keep it in ``~/.pgpass`` or ``PGPASSWORD``, out of the address.
"""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from likeset.errors import BadTable
from likeset.tables.sources.private_copies import Spool, spool_rows
from likeset.tables.sources.row_blocks import Source
from likeset.tables.sources.sqlite import split_address

__all__ = ["open_postgres"]

_ONLY_READS = re.compile(r"(?is)^\s*(select|with|values|table)\b")
_WAIT_SECONDS = 15


def open_postgres(address: str, *, name: str) -> Source:
    """The rows of a table or query of a Postgres server."""
    uri, kind, what = split_address(address, name=name)
    query = f"TABLE {_as_identifiers(what)}" if kind == "table" else what
    if not _ONLY_READS.match(query):
        raise BadTable(name, "must be exactly one SELECT; nothing else is run")
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise BadTable(name, "needs the Postgres driver; install it with: pip install 'likeset[postgres]'") from None
    spool = Spool(table=name)
    try:
        if "connect_timeout=" not in uri:
            uri += f"{'&' if '?' in uri else '?'}connect_timeout={_WAIT_SECONDS}"
        try:
            with dbapi.connect(uri) as connection, connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
                cursor.execute(query)
                reader = cursor.fetch_record_batch()
                return spool_rows(_batches(reader, dbapi.Error, name=name), reader.schema, name=name, spool=spool)
        except dbapi.Error as error:
            raise BadTable(name, _reason(error)) from None
    except BaseException:
        spool.remove()
        raise


def _as_identifiers(table: str) -> str:
    """``schema.table`` as identifiers."""
    return ".".join('"' + word.replace('"', '""') + '"' for word in table.split("."))


def _batches(reader: pa.RecordBatchReader, failure: type[Exception], *, name: str) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (failure, pa.ArrowException, OSError):  # the server's words may show a value
            reason = "the query failed while it ran, or the server broke off; check its casts and arithmetic"
            raise BadTable(name, reason) from None
        yield batch


def _reason(error: Any) -> str:
    """What went wrong, by the server's code; its own words only where they are about the query, never about rows."""
    code = getattr(error, "sqlstate", None) or ""
    if code.startswith("42"):
        said = re.search(r"ERROR:\s*([^\n]*)", str(error))
        return f"the query is refused: {said.group(1)}" if said else "the query is refused by the server"
    if code.startswith("25006"):
        return "the query would write; only reading is allowed"
    if code.startswith("22"):
        return f"the query failed on a value (code {code}); check its casts and arithmetic"
    if code:
        return f"the query failed (code {code})"
    return _refusal(str(error))


def _refusal(said: str) -> str:
    """Why there is no connection; the server gives no code for it."""
    if re.search(r'database "[^"]*" does not exist', said):
        return "there is no such database on the server"
    if re.search(r'authentication failed|role "[^"]*" does not exist|no password supplied|pg_hba', said):
        return "the server refused the user or the password; check both, and ~/.pgpass"
    return "the server cannot be reached; check host, port and whether it runs"
