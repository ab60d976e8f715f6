"""The audit log of a node: what was asked, decided, refused and sent, by whom and when; append-only and hash-chained.

It is kept like the ledger (``likeset.ledger.chain``), in a file of its own, and what a node may do follows from it: a
run is approved because an entry says so. No entry holds a value of a row, a bid or a misfit.
"""

import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from likeset.errors import LedgerTampered
from likeset.ledger.chain import START, Entry, Head, Problem, canonical, check, link
from likeset.ledger.entry_table import SELECT, chain_layout, file_problems, insert
from likeset.ledger.store import Store

__all__ = ["Append", "Logbook"]

Append = Callable[[str, str, dict[str, Any]], Entry]
"""Writes an entry: kind, key, document."""

_LAYOUT = chain_layout("audit log", 0x4C_53_41_31)  # "LSA1"


class Logbook:
    """The log in its file, which several processes may share.

    Args:
        path: the file; created if it is not there.
        clock: tells the time that entries carry.
        read_only: look at an existing log without changing it.
        taken_in: called with every entry in its order, each once: those that are there, and those that come.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        read_only: bool = False,
        taken_in: Callable[[Entry], None] | None = None,
    ) -> None:
        self.path = path
        self._clock = clock
        self._taken_in = taken_in
        self._head = START
        self._lock = threading.RLock()
        self._store = Store(path, layout=_LAYOUT, read_only=read_only, fill=self._write_first_entry)

    def append(self, kind: str, key: str, document: dict[str, Any]) -> Entry:
        """Write an entry; durable when this returns.

        Args:
            kind: what happened.
            key: the run or data set that it happened to.
            document: what is to be said about it; never a value of a row.
        """
        with self.deciding() as append:
            return append(kind, key, document)

    @contextmanager
    def deciding(self) -> Iterator[Append]:
        """What others wrote is taken in, and nobody else writes until the block ends: what is decided on stays so.

        What is appended in the block is durable when it ends, and undone if it raises. In it, no other method of this
        log may be called.
        """
        with self._lock:
            written: list[Entry] = []
            with self._store.writing() as connection:
                self._catch_up(connection)

                def append(kind: str, key: str, document: dict[str, Any]) -> Entry:
                    head = Head(written[-1].number, written[-1].hash) if written else self._head
                    entry = link(head, kind=kind, key=key, body=self._body(document))
                    insert(connection, entry)
                    written.append(entry)
                    return entry

                yield append
            for entry in written:
                self._take(entry)

    def refresh(self) -> None:
        """Take in what other processes wrote."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)

    def entries(self) -> tuple[Entry, ...]:
        """Every entry, oldest first, unchecked."""
        with self._lock, self._store.reading() as connection:
            return tuple(Entry(*row) for row in connection.execute(f"{SELECT} ORDER BY number"))

    def verify(self, *, head: Head | None = None) -> tuple[Head, tuple[Problem, ...]]:
        """Check every entry and link, and that a head that was kept elsewhere is still in the history."""
        seen, last = {START.number: START.hash}, START
        with self._lock, self._store.reading() as connection:
            problems = file_problems(connection)
            for item in check(connection.execute(f"{SELECT} ORDER BY number")):
                if isinstance(item, Problem):
                    problems.append(item)
                else:
                    last = Head(item.number, item.hash)
                    seen[item.number] = item.hash
        if len(seen) == 1:
            problems.append(Problem(0, "not even the entry that opens the log is there"))
        if head is not None and seen.get(head.number) != head.hash:
            problems.append(Problem(0, f"entry {head.number} of the head is gone: cut off, rolled back or rewritten"))
        return last, tuple(problems)

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _body(self, document: dict[str, Any]) -> str:
        return canonical({**document, "at": self._clock().astimezone(UTC).isoformat(timespec="microseconds")})

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(f"{SELECT} WHERE number >= ? ORDER BY number", (self._head.number,)).fetchall()
        if self._head != START:
            if not rows or rows[0][5] != self._head.hash:
                raise LedgerTampered(f"audit log {self.path}: entry {self._head.number} is not what it was")
            del rows[0]
        for item in check(rows, self._head):
            if isinstance(item, Problem):
                raise LedgerTampered(f"audit log {self.path}: {item}; nothing is done until it is restored")
            self._take(item)

    def _take(self, entry: Entry) -> None:
        self._head = Head(entry.number, entry.hash)
        if self._taken_in is not None:
            self._taken_in(entry)

    def _write_first_entry(self, connection: sqlite3.Connection) -> None:
        # A random identity: no two logs share a head.
        body = self._body({"format": 1, "identity": secrets.token_hex(16)})
        insert(connection, link(START, kind="open", key="", body=body))
