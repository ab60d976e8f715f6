"""What is written to SQLite files and to others, and whether certain bytes are in it.

A *write transaction* is one that takes the write lock from its start (``BEGIN IMMEDIATE``), whatever it comes to; one
that begins as a reader and changes something; or a statement by itself that changes something.
"""

import builtins
import io
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

__all__ = ["Writes", "counted_writes"]

_LOCKING = ("IMMEDIATE", "EXCLUSIVE")
_SQLITE = b"SQLite format 3\x00"


@dataclass
class Writes:
    """What was written.

    Attributes:
        transactions: write transactions of SQLite.
        files: how often a plain file was opened to be written.
        values: everything that statements put into a SQLite file.
        folder: plain files below it are looked at for bytes that they hold.
    """

    folder: Path
    transactions: int = 0
    files: int = 0
    values: list[bytes] = field(default_factory=list)

    def reset(self) -> None:
        """Count from here on."""
        self.transactions = self.files = 0
        self.values.clear()
        self._plain_before = dict(self._plain())

    def copies(self, data: bytes) -> int:
        """How often these bytes were written since the last reset."""
        before = self._plain_before
        in_files = sum(text.count(data) - before.get(path, b"").count(data) for path, text in self._plain())
        return in_files + sum(value.count(data) for value in self.values)

    def _plain(self) -> Iterator[tuple[Path, bytes]]:
        """Files that are no databases; what goes into those, and their logs, is seen in statements."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and not path.name.endswith(("-wal", "-shm", "-journal")):
                data = path.read_bytes()
                if not data.startswith(_SQLITE):
                    yield path, data


@contextmanager
def counted_writes(folder: Path) -> Iterator[Writes]:
    """Count what is written within ``with``, by connections that are opened within it."""
    writes = Writes(folder)
    writes.reset()
    connect, open_file, open_handle = sqlite3.connect, io.open, os.open

    class Connection(sqlite3.Connection):
        _counted = False

        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            before = (self.in_transaction, self.total_changes)
            cursor = super().execute(sql, parameters)
            self._noted(sql, [parameters], *before)
            return cursor

        def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
            before, rows = (self.in_transaction, self.total_changes), list(parameters)
            cursor = super().executemany(sql, rows)
            self._noted(sql, rows, *before)
            return cursor

        def cursor(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("a cursor's statements are not counted: teach counted_writes.py to count them")

        executescript = cursor

        def _noted(self, sql: str, rows: list[Any], was_in_transaction: bool, changes: int) -> None:
            if not was_in_transaction:
                self._counted = False
            locks = (
                self.in_transaction and not was_in_transaction and sql.upper().split()[1:2] in ([w] for w in _LOCKING)
            )
            if locks or (self.total_changes > changes and not self._counted):
                writes.transactions += 1
                self._counted = True
            if self.total_changes > changes:
                for row in rows:
                    cells = row.values() if isinstance(row, dict) else row
                    writes.values += [_bytes(cell) for cell in cells]

    def connecting(*given: Any, **named: Any) -> sqlite3.Connection:
        named.setdefault("factory", Connection)
        connection: sqlite3.Connection = connect(*given, **named)
        return connection

    def opening(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        writes.files += not isinstance(file, int) and any(sign in mode for sign in "wax+")
        return open_file(file, mode, *given, **named)

    def handing(path: Any, flags: int, *given: Any, **named: Any) -> int:
        writes.files += bool(flags & (os.O_WRONLY | os.O_RDWR))
        return open_handle(path, flags, *given, **named)

    with ExitStack() as stack:
        stack.enter_context(patch.object(sqlite3, "connect", connecting))
        stack.enter_context(patch.object(io, "open", opening))
        stack.enter_context(patch.object(builtins, "open", opening))
        stack.enter_context(patch.object(os, "open", handing))
        yield writes


def _bytes(cell: Any) -> bytes:
    return cell.encode() if isinstance(cell, str) else bytes(cell) if isinstance(cell, bytes | memoryview) else b""
