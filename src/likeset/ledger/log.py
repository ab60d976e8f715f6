"""The chained log in its file: entries of budgets and of audit side by side, appended in order, checked link by link.

One file, one chain, one head. What follows from the entries is never stored: whoever opens the file folds them, each
once and in their order, and leaves out what does not concern him.
"""

import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from likeset.errors import ChargeRefused, InvalidArgument, LedgerTampered, LedgerUnreadable
from likeset.ledger.chain import START, Entry, Head, Problem, canonical, check, link
from likeset.ledger.ledger_state import FORMAT, LedgerState
from likeset.ledger.store import Layout, Store

__all__ = ["Append", "ChainedLog", "Reader", "Verification", "timestamp"]

Append = Callable[[str, str, dict[str, Any]], Entry]
"""Appends an entry: kind, key (the run or data set that it is about), document; never with a value of a row."""

Reader = Callable[[Entry, Any], None]
"""Called with every entry once it is durable, in order, each once: those that are there, and those that come; with what
its body says."""

_SELECT = "SELECT number, kind, key, body, previous, hash FROM entries"
_BETWEEN = "WHERE number BETWEEN ? AND ? ORDER BY number"
_NUMBERS = "SELECT number FROM entries WHERE key"  # by the index of keys
_ABOUT = f"WHERE number < ? AND number IN ({_NUMBERS} = ? UNION ALL {_NUMBERS} BETWEEN ? AND ?)"
_INSERT = "INSERT INTO entries (number, kind, key, body, previous, hash) VALUES (?, ?, ?, ?, ?, ?)"
_TABLE = """CREATE TABLE entries (
            number INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            key TEXT NOT NULL,
            body TEXT NOT NULL,
            previous BLOB NOT NULL,
            hash BLOB NOT NULL
        )"""
# The chain finds what was changed; these keep honest code from changing it by mistake.
_TRIGGERS = {
    "entries_follow": """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
            WHEN NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM entries)
                OR NEW.number > 1 AND NEW.previous <> (SELECT hash FROM entries ORDER BY number DESC LIMIT 1)
            BEGIN SELECT raise(ABORT, 'an entry must follow the last one'); END""",
    "entries_stay": """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
            BEGIN SELECT raise(ABORT, 'entries are never removed'); END""",
    "entries_keep": """CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
            BEGIN SELECT raise(ABORT, 'entries are never changed'); END""",
}
_LAYOUT = Layout(
    what="ledger",
    application_id=0x4C_53_4C_31,  # "LSL1"
    version=2,
    statements=(
        _TABLE,
        "CREATE UNIQUE INDEX one_answer_per_request ON entries (key) WHERE kind = 'commit'",
        *_TRIGGERS.values(),
    ),
    indexes={"entries_by_key": "CREATE INDEX entries_by_key ON entries (key)"},
)


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of the whole log found.

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


class ChainedLog:
    """The chain of entries in a SQLite file, which several processes may share, and the budgets that they add up to.

    Args:
        path: the file; created if it is not there.
        clock: tells the time that entries carry.
        read_only: look at an existing file without changing it.
        patience: seconds to wait for another process's lock.
        reader: takes in every durable entry, for what else follows from them.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], datetime],
        read_only: bool = False,
        patience: float = 30.0,
        reader: Reader | None = None,
    ) -> None:
        self.path = path
        self._clock = clock
        self._state = LedgerState()
        self._reader = reader
        self._read_until = START.number
        self._lock = threading.RLock()
        self._store = Store(path, layout=_LAYOUT, read_only=read_only, patience=patience, fill=self._write_first_entry)

    @contextmanager
    def reading(self) -> Iterator[LedgerState]:
        """The budgets as they are now; in a block of ``writing``, with what was appended in it."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            yield self._state

    @contextmanager
    def writing(self) -> Iterator[tuple[LedgerState, Append]]:
        """The budgets, which nobody else can change meanwhile, and a way to append.

        What is appended is durable when the block ends, all of it, and undone if it raises. Nothing is appended that
        would not be taken in again. In the block the log may be read, and not be written in another way.
        """
        with self._lock:
            known = self._state.head
            appended: list[tuple[Entry, Any]] = []
            try:
                with self._store.writing() as connection:
                    self._catch_up(connection)
                    known = self._state.head

                    def append(kind: str, key: str, document: dict[str, Any]) -> Entry:
                        entry = link(self._state.head, kind=kind, key=key, body=self._body(document))
                        written = entry.document()
                        problem = self._state.apply(entry, written)
                        if problem is not None:
                            self._state = LedgerState()
                            raise ChargeRefused(f"ledger {self.path}: {problem}")
                        _insert(connection, entry)
                        appended.append((entry, written))
                        return entry

                    yield self._state, append
            except BaseException:
                if self._state.head != known:
                    self._state = LedgerState()  # it may be ahead of the file
                raise
            for entry, written in appended:
                self._tell(entry, written)

    @contextmanager
    def deciding(self) -> Iterator[Append]:
        """What others wrote is taken in, and nobody else writes until the block ends: what is decided on stays so.

        What is appended in the block is durable when it ends, and undone if it raises.
        """
        with self.writing() as (_, append):
            yield append

    def append(self, kind: str, key: str, document: dict[str, Any]) -> Entry:
        """Write an entry; durable when this returns.

        Args:
            kind: what happened; one of ``entry_kinds``.
            key: the run or data set that it happened to.
            document: what is to be said about it; never a value of a row.
        """
        with self.deciding() as append:
            return append(kind, key, document)

    def refresh(self) -> None:
        """Take in what other processes wrote."""
        with self.reading():
            pass

    def entries(self, *, first: int = 1, last: int | None = None) -> tuple[Entry, ...]:
        """Every entry, oldest first; or those between two numbers, both of them among them."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            bounds = (first, self._state.head.number if last is None else last)
            return tuple(Entry(*row) for row in connection.execute(f"{_SELECT} {_BETWEEN}", bounds))

    def entries_about(self, key: str, *, before: int, most: int) -> tuple[Entry, ...]:
        """The last entries about a run or data set before a number, newest first: charges of the run among them."""
        charges = canonical([key])[:-1]  # how the keys of requests begin: ["run",0,"kind"]
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            bounds = (before, key, f"{charges},", f"{charges}-", most)  # a dash comes next after a comma
            found = connection.execute(f"{_SELECT} {_ABOUT} ORDER BY number DESC LIMIT ?", bounds)
            return tuple(Entry(*row) for row in found)

    def verify(self, *, head: Head | None = None) -> Verification:
        """Check the file, every entry, every link and every sum, and that a head kept elsewhere is in it."""
        seen: dict[int, bytes] = {START.number: START.hash}
        problems: list[Problem] = []
        state = LedgerState()
        try:
            with self._lock, self._store.reading() as connection:
                problems += _file_problems(connection)
                state, wrong = _walk(connection, LedgerState(), seen)
                if not state.surely_within_limits():
                    state, wrong = _walk(connection, LedgerState(checking=True), seen)
                problems += wrong
        except LedgerUnreadable as error:
            problems.append(Problem(0, str(error)))
        if head is not None and seen.get(head.number) != head.hash:
            problems.append(
                Problem(0, f"entry {head.number} of the head is gone: cut off, rolled back or written anew")
            )
        if len(seen) == 1:
            problems.append(Problem(0, "not even the entry that opens the ledger is there"))
        return Verification(state.head, tuple(problems))

    def now(self) -> str:
        """The time, as entries carry it."""
        return timestamp(self._clock())

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Fold in what other processes wrote since the last look, checking every link on the way."""
        state = self._state
        # From the last known entry on: a file that was put back under a running process shows here.
        rows = connection.execute(f"{_SELECT} WHERE number >= ? ORDER BY number", (state.head.number,)).fetchall()
        if state.head != START:
            if not rows or rows[0][5] != state.head.hash:
                raise LedgerTampered(f"ledger {self.path}: entry {state.head.number} is not what it was")
            del rows[0]
        for item in check(rows, state.head):
            document, problem = _taken_in(state, item)
            if problem is not None:
                self._state = LedgerState()  # what was folded in so far is not to be trusted either
                raise LedgerTampered(f"ledger {self.path}: {problem}; nothing can be charged to it")
            if isinstance(item, Entry):
                self._tell(item, document)

    def _tell(self, entry: Entry, document: Any) -> None:
        """Pass a durable entry on; once, also where budgets are folded anew after a block that failed."""
        if entry.number > self._read_until:
            if self._reader is not None:
                self._reader(entry, document)
            self._read_until = entry.number

    def _body(self, document: dict[str, Any]) -> str:
        return canonical({**document, "at": self.now()})

    def _write_first_entry(self, connection: sqlite3.Connection) -> None:
        # A random identity: no two ledgers share a head, and a journal knows whose it is.
        body = self._body({"format": FORMAT, "identity": secrets.token_hex(16)})
        _insert(connection, link(START, kind="open", key="", body=body))


def timestamp(moment: datetime) -> str:
    """A time as entries carry it: UTC, so that the texts have the order of the times."""
    if moment.tzinfo is None:
        raise InvalidArgument("before", moment.isoformat(), "needs a time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _insert(connection: sqlite3.Connection, entry: Entry) -> None:
    columns = (entry.number, entry.kind, entry.key, entry.body, entry.previous, entry.hash)
    connection.execute(_INSERT, columns)


def _taken_in(state: LedgerState, item: Entry | Problem) -> tuple[Any, Problem | None]:
    """Fold an entry in; what its body says, and what is wrong with it. A body is parsed once, for a log may be long."""
    if isinstance(item, Problem):
        return None, item
    try:
        document = item.document()
    except ValueError:
        return None, Problem(item.number, "does not say anything that can be read")
    return document, state.apply(item, document)


def _walk(
    connection: sqlite3.Connection, state: LedgerState, seen: dict[int, bytes]
) -> tuple[LedgerState, list[Problem]]:
    """Fold all entries into state; notes the hash of each, and what does not hold."""
    problems = []
    for item in check(connection.execute(f"{_SELECT} ORDER BY number")):
        _, problem = _taken_in(state, item)
        if problem is not None:
            problems.append(problem)
        if isinstance(item, Entry):
            seen[item.number] = item.hash
    return state, problems


def _file_problems(connection: sqlite3.Connection) -> list[Problem]:
    """What is wrong with the file itself."""
    problems = []
    if [row[0] for row in connection.execute("PRAGMA integrity_check(3)")] != ["ok"]:
        problems.append(Problem(0, "the file is damaged (SQLite's own check)"))
    triggers = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    if triggers != set(_TRIGGERS):
        problems.append(Problem(0, "the triggers that keep entries from being changed are not all there"))
    return problems
