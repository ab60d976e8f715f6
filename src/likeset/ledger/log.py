"""The entries in their file: appended one after the other, checked link by link, folded into state."""

import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likeset.errors import ChargeRefused, LedgerTampered, LedgerUnreadable
from likeset.ledger.chain import START, Entry, Head, Problem, canonical, check, link
from likeset.ledger.entry_table import SELECT, chain_layout, file_problems, insert
from likeset.ledger.ledger_state import FORMAT, LedgerState
from likeset.ledger.store import Store

__all__ = ["Append", "Log", "Verification"]

Append = Callable[[str, str, dict[str, Any]], Entry]
"""Appends an entry: kind, key, body."""

_LAYOUT = chain_layout(
    "ledger",
    0x4C_53_4C_31,  # "LSL1"
    indices=("CREATE UNIQUE INDEX one_answer_per_request ON entries (key) WHERE kind = 'commit'",),
)


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
    """The chain of entries in a SQLite file, and the state that they add up to.

    Args:
        path: the file.
        now: tells the time, as text, that entries carry.
        read_only: look at an existing file without changing it.
        patience: seconds to wait for another process's lock.
    """

    def __init__(self, path: Path, *, now: Callable[[], str], read_only: bool, patience: float) -> None:
        self.path = path
        self._now = now
        self._state = LedgerState()
        self._lock = threading.RLock()
        self._store = Store(path, layout=_LAYOUT, read_only=read_only, patience=patience, fill=self._write_first_entry)

    @contextmanager
    def reading(self) -> Iterator[LedgerState]:
        """The state as it is now."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            yield self._state

    @contextmanager
    def writing(self) -> Iterator[tuple[LedgerState, Append]]:
        """The state, which nobody else can change meanwhile, and a way to append to it.

        What is appended is durable when the block ends, and undone if it raises. Nothing is appended that the
        state would not take in again.
        """
        with self._lock:
            known = self._state.head
            try:
                with self._store.writing() as connection:
                    self._catch_up(connection)
                    known = self._state.head

                    def append(kind: str, key: str, document: dict[str, Any]) -> Entry:
                        body = canonical({**document, "at": self._now()})
                        entry = link(self._state.head, kind=kind, key=key, body=body)
                        problem = self._state.apply(entry)
                        if problem is not None:
                            self._state = LedgerState()
                            raise ChargeRefused(f"ledger {self.path}: {problem}")
                        insert(connection, entry)
                        return entry

                    yield self._state, append
            except BaseException:
                if self._state.head != known:
                    self._state = LedgerState()  # they may be ahead of the file
                raise

    def entries(self) -> tuple[Entry, ...]:
        """Every entry, oldest first."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            return tuple(Entry(*row) for row in connection.execute(f"{SELECT} ORDER BY number"))

    def verify(self, head: Head | None) -> Verification:
        """Check the file, every entry, every link and every sum, and that a head kept elsewhere is in it."""
        seen: dict[int, bytes] = {START.number: START.hash}
        problems: list[Problem] = []
        state = LedgerState()
        try:
            with self._store.reading() as connection:
                problems += file_problems(connection)
                state, found = self._walk(connection, LedgerState(), seen)
                if not state.surely_within_limits():
                    state, found = self._walk(connection, LedgerState(checking=True), seen)
                problems += found
        except LedgerUnreadable as error:
            problems.append(Problem(0, str(error)))
        if head is not None and seen.get(head.number) != head.hash:
            problems.append(
                Problem(0, f"entry {head.number} of the head is gone: cut off, rolled back or written anew")
            )
        if len(seen) == 1:
            problems.append(Problem(0, "not even the entry that opens the ledger is there"))
        return Verification(state.head, tuple(problems))

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def _walk(
        self, connection: sqlite3.Connection, state: LedgerState, seen: dict[int, bytes]
    ) -> tuple[LedgerState, list[Problem]]:
        """Fold all entries into state; notes the hash of each, and what does not hold."""
        problems = []
        for item in check(connection.execute(f"{SELECT} ORDER BY number")):
            problem = item if isinstance(item, Problem) else state.apply(item)
            if problem is not None:
                problems.append(problem)
            if isinstance(item, Entry):
                seen[item.number] = item.hash
        return state, problems

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Fold in what other processes wrote since the last look, checking every link on the way."""
        state = self._state
        # From the last known entry on: a file that was put back under a running process shows here.
        rows = connection.execute(f"{SELECT} WHERE number >= ? ORDER BY number", (state.head.number,)).fetchall()
        if state.head != START:
            if not rows or rows[0][5] != state.head.hash:
                raise LedgerTampered(f"ledger {self.path}: entry {state.head.number} is not what it was")
            del rows[0]
        for item in check(rows, state.head):
            problem = item if isinstance(item, Problem) else state.apply(item)
            if problem is not None:
                self._state = LedgerState()  # what was folded in so far is not to be trusted either
                raise LedgerTampered(f"ledger {self.path}: {problem}; nothing can be charged to it")

    def _write_first_entry(self, connection: sqlite3.Connection) -> None:
        # A random identity: no two ledgers share a head, and a journal knows whose it is.
        body = canonical({"format": FORMAT, "identity": secrets.token_hex(16), "at": self._now()})
        insert(connection, link(START, kind="open", key="", body=body))
