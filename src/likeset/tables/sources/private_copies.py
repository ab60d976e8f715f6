"""A private copy of rows that come only once, or in no fixed order: compressed files, queries and databases.

It lies in a directory of its own below the system's place for temporary files (``TMPDIR``), which nobody else may
enter, and is removed when the source is closed, forgotten, or the program ends. An unpacked text takes as much disk
as its text; rows of a database take about what an Arrow file with LZ4 compression takes.
"""

import gzip
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from likeset.errors import BadTable
from likeset.tables.sources.arrow_files import open_arrow
from likeset.tables.sources.delimited import open_delimited
from likeset.tables.sources.row_blocks import BLOCK_ROWS, Source, check_names, in_blocks, unreadable
from likeset.tables.sources.table_digests import ValueDigest

__all__ = ["Spool", "open_packed", "spool_rows"]

_COPIED_BYTES = 1 << 20
_BATCH_BYTES = 1 << 20  # of a copy, about: who fetches a single row reads so many


class Spool:
    """A private directory that goes away.

    Attributes:
        directory: where it is.
    """

    def __init__(self, *, table: str) -> None:
        try:
            self.directory = Path(tempfile.mkdtemp(prefix="likeset-"))
        except OSError as error:
            raise _no_room(table, error) from None
        self._end = weakref.finalize(self, _remove, self.directory, os.getpid())

    def remove(self) -> None:
        """Remove it with everything in it. Harmless when repeated."""
        self._end()

    def new_file(self, name: str) -> Path:
        """An empty file that only this user may read and write."""
        path = self.directory / name
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return path


def _remove(directory: Path, process: int) -> None:
    """Only by the process that made it: children of it end earlier."""
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)


def _no_room(table: str, error: OSError) -> BadTable:
    why = os.strerror(error.errno) if error.errno else "the disk refused it"
    return BadTable(
        table, f"its temporary copy cannot be written: {why}; make room, or set TMPDIR to a directory with more of it"
    )


def spool_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, name: str, spool: Spool) -> Source:
    """A source of the rows that these batches bring; the spool goes with it, or at once if there is an error."""
    try:
        check_names(schema.names, table=name)
        file = spool.new_file("rows.arrow")
        digest, counts = ValueDigest(schema), list[int]()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        tables = (pa.Table.from_batches([batch]) for batch in batches)
        try:
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
                for table in in_blocks(tables, BLOCK_ROWS):
                    digest.update(table)
                    rows = max(1, table.num_rows * _BATCH_BYTES // max(table.nbytes, 1))
                    for piece in in_blocks([table.combine_chunks()], rows):
                        writer.write_table(piece)
                        counts.append(piece.num_rows)
        except OSError as error:
            raise _no_room(name, error) from None
        return open_arrow(file, name=name, close=spool.remove, digest=digest.hexdigest(), batch_rows=counts)
    except BaseException:
        spool.remove()
        raise


def open_packed(file: Path, *, name: str, tabs: bool) -> Source:
    """A CSV or TSV file that gzip compressed: unpacked once, then read as any other."""
    spool = Spool(table=name)
    try:
        text = spool.new_file("rows.csv")
        _unpack(file, text, name=name)
        source = open_delimited(text, name=name, tabs=tabs, close=spool.remove)
    except BaseException:
        spool.remove()
        raise
    return source


def _unpack(file: Path, text: Path, *, name: str) -> None:
    try:
        packed = file.open("rb")
    except OSError as error:
        raise unreadable(name, error) from None
    with packed, gzip.GzipFile(fileobj=packed) as unpacked, text.open("wb") as copy:
        while True:
            try:
                piece = unpacked.read(_COPIED_BYTES)
            except gzip.BadGzipFile:
                raise BadTable(name, "is not compressed by gzip, or damaged; pack it again") from None
            except (EOFError, zlib.error):
                raise BadTable(name, "the compressed file is damaged or was cut short; pack it again") from None
            except OSError as error:
                raise unreadable(name, error) from None
            if not piece:
                return
            try:
                copy.write(piece)
            except OSError as error:
                raise _no_room(name, error) from None
