"""The entries in their file: appended one after the other, checked link by link, folded into books."""

import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likeset.errors import ChargeRefused, LedgerTampered, LedgerUnreadable
from likeset.ledger.books import FORMAT, Books
from likeset.ledger.chain import START, Entry, Head, Problem, canonical, check, link
from likeset.ledger.store import Layout, Store

__all__ = ["Append", "Log", "Verification"]

Append = Callable[[str, str, dict[str, Any]], Entry]
"""Appends an entry: kind, key, body."""

_SELECT = "SELECT number, kind, key, body, previous, hash FROM entries"
_INSERT = "INSERT INTO entries (number, kind, key, body, previous, hash) VALUES (?, ?, ?, ?, ?, ?)"
_LAYOUT = Layout(
    what="ledger",
    application_id=0x4C_53_4C_31,  # "LSL1"
    version=1,
    statements=(
        """CREATE TABLE entries (
            number INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            key TEXT NOT NULL,
            body TEXT NOT NULL,
            previous BLOB NOT NULL,
            hash BLOB NOT NULL
        )""",
        "CREATE UNIQUE INDEX one_answer_per_request ON entries (key) WHERE kind = 'commit'",
        # The chain finds what was changed; these keep honest code from changing it by mistake.
        """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
            WHEN NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM entries)
                OR NEW.number > 1 AND NEW.previous <> (SELECT hash FROM entries ORDER BY number DESC LIMIT 1)
            BEGIN SELECT raise(ABORT, 'an entry must follow the last one'); END""",
        """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
            BEGIN SELECT raise(ABORT, 'entries are never removed'); END""",
        """CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
            BEGIN SELECT raise(ABORT, 'entries are never changed'); END""",
    ),
)
_TRIGGERS = {"entries_follow", "entries_stay", "entries_keep"}


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of the whole ledger found.

    Attributes:
        head: the last entry's number and hash.
        problems: what does not hold.
    """

    head: Head
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


class Log:
    """The chain of entries in a SQLite file, and the books that they add up to.

    Args:
        path: the file.
        now: tells the time, as text, that entries carry.
        read_only: look at an existing file without changing it.
        patience: seconds to wait for another process's lock.
    """

    def __init__(self, path: Path, *, now: Callable[[], str], read_only: bool, patience: float) -> None:
        self.path = path
        self._now = now
        self._books = Books()
        self._lock = threading.RLock()
        self._store = Store(path, layout=_LAYOUT, read_only=read_only, patience=patience, fill=self._write_first_entry)

    @contextmanager
    def reading(self) -> Iterator[Books]:
        """The books as they are now."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            yield self._books

    @contextmanager
    def writing(self) -> Iterator[tuple[Books, Append]]:
        """The books, which nobody else can change meanwhile, and a way to append to them.

        What is appended is durable when the block ends, and undone if it raises. Nothing is appended that the
        books would not take in again.
        """
        with self._lock:
            known = self._books.head
            try:
                with self._store.writing() as connection:
                    self._catch_up(connection)
                    known = self._books.head

                    def append(kind: str, key: str, document: dict[str, Any]) -> Entry:
                        body = canonical({**document, "at": self._now()})
                        entry = link(self._books.head, kind=kind, key=key, body=body)
                        problem = self._books.apply(entry)
                        if problem is not None:
                            self._books = Books()
                            raise ChargeRefused(f"ledger {self.path}: {problem}")
                        _insert(connection, entry)
                        return entry

                    yield self._books, append
            except BaseException:
                if self._books.head != known:
                    self._books = Books()  # they may be ahead of the file
                raise

    def entries(self) -> tuple[Entry, ...]:
        """Every entry, oldest first."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            return tuple(Entry(*row) for row in connection.execute(f"{_SELECT} ORDER BY number"))

    def verify(self, head: Head | None) -> Verification:
        """Check the file, every entry, every link and every sum, and that a head kept elsewhere is in it."""
        seen: dict[int, bytes] = {START.number: START.hash}
        problems: list[Problem] = []
        books = Books()
        try:
            with self._store.reading() as connection:
                problems += _check_file(connection)
                books, found = self._walk(connection, Books(), seen)
                if not books.surely_within_limits():
                    books, found = self._walk(connection, Books(checking=True), seen)
                problems += found
        except LedgerUnreadable as error:
            problems.append(Problem(0, str(error)))
        if head is not None and seen.get(head.number) != head.hash:
            problems.append(
                Problem(0, f"entry {head.number} of the head is gone: cut off, rolled back or written anew")
            )
        if len(seen) == 1:
            problems.append(Problem(0, "not even the entry that opens the ledger is there"))
        return Verification(books.head, tuple(problems))

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def _walk(
        self, connection: sqlite3.Connection, books: Books, seen: dict[int, bytes]
    ) -> tuple[Books, list[Problem]]:
        """Fold all entries into books; notes the hash of each, and what does not hold."""
        problems = []
        for item in check(connection.execute(f"{_SELECT} ORDER BY number")):
            problem = item if isinstance(item, Problem) else books.apply(item)
            if problem is not None:
                problems.append(problem)
            if isinstance(item, Entry):
                seen[item.number] = item.hash
        return books, problems

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Fold in what other processes wrote since the last look, checking every link on the way."""
        books = self._books
        # From the last known entry on: a file that was put back under a running process shows here.
        rows = connection.execute(f"{_SELECT} WHERE number >= ? ORDER BY number", (books.head.number,)).fetchall()
        if books.head != START:
            if not rows or rows[0][5] != books.head.hash:
                raise LedgerTampered(f"ledger {self.path}: entry {books.head.number} is not what it was")
            del rows[0]
        for item in check(rows, books.head):
            problem = item if isinstance(item, Problem) else books.apply(item)
            if problem is not None:
                self._books = Books()  # what was folded in so far is not to be trusted either
                raise LedgerTampered(f"ledger {self.path}: {problem}; nothing can be charged to it")

    def _write_first_entry(self, connection: sqlite3.Connection) -> None:
        # A random identity: no two ledgers share a head, and a journal knows whose it is.
        body = canonical({"format": FORMAT, "identity": secrets.token_hex(16), "at": self._now()})
        _insert(connection, link(START, kind="open", key="", body=body))


def _insert(connection: sqlite3.Connection, entry: Entry) -> None:
    columns = (entry.number, entry.kind, entry.key, entry.body, entry.previous, entry.hash)
    connection.execute(_INSERT, columns)


def _check_file(connection: sqlite3.Connection) -> list[Problem]:
    """What is wrong with the file itself."""
    problems = []
    if [row[0] for row in connection.execute("PRAGMA integrity_check(3)")] != ["ok"]:
        problems.append(Problem(0, "the file is damaged (SQLite's own check)"))
    triggers = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    if triggers != _TRIGGERS:
        problems.append(Problem(0, "the triggers that keep entries from being changed are not all there"))
    return problems
