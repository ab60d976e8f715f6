"""Counts durable writes: transactions of any SQLite file of likeset that changed something."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from likeset.ledger.sqlite_file import SqliteFile


@contextmanager
def durable_writes() -> Iterator[list[str]]:
    """The name of the file for each write in the block, in their order."""
    writing, files = SqliteFile.writing, list[str]()

    @contextmanager
    def counted(self: SqliteFile) -> Iterator[Any]:
        before = 0
        with writing(self) as connection:
            before = connection.total_changes
            yield connection
        if self._connection.total_changes > before:
            files.append(Path(self.path).name)

    with patch.object(SqliteFile, "writing", counted):
        yield files
