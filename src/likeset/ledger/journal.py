"""The bytes of the messages that were sent, so that they can be sent again: kept apart from the ledger.

The ledger is for showing around: digests, events, releases. The journal is not: its messages may hold data
rows. It is a file of its own beside the ledger, readable by its owner only, and its messages are removed by
command.

What the ledger knows about a message is a *salted* digest, and the salt lives here: a bare digest of a
message with few possible contents could be matched by trying them all, even after the message is purged.

A message is known by its request, and is here before the ledger has it on record: one that the ledger does not know
was never sent. Whoever writes here holds the ledger's lock.
"""

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from likeset.errors import DifferentRequest, LedgerUnavailable, LedgerUnreadable
from likeset.ledger.store import Layout, Store

__all__ = ["Journal", "StoredMessage", "journal_path"]

_SALT_BYTES = 32
_LAYOUT = Layout(
    what="journal",
    application_id=0x4C_53_4A_31,  # "LSJ1"
    version=2,
    statements=(
        "CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
        """CREATE TABLE messages (
            key TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            run TEXT NOT NULL,
            at TEXT NOT NULL,
            after TEXT NOT NULL,
            salt BLOB NOT NULL,
            message BLOB NOT NULL,
            release TEXT,
            UNIQUE (key, fingerprint)
        )""",
    ),
    indexes={"messages_by_run": "CREATE INDEX messages_by_run ON messages (run)"},
)


def journal_path(ledger: Path) -> Path:
    """Where the journal of a ledger lies."""
    return ledger.with_name(ledger.name + ".messages")


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One stored message.

    Attributes:
        key: of the request that it answers.
        fingerprint: of the request: two under the same key are answered apart, and only one of them can be on record.
        attempt: the how-manieth charge for that request it was drawn under.
        at: when it was stored (UTC).
        after: the ledger's head when it was stored: a ledger without it is not the one that this belongs to.
        message: the bytes; not shown when printed.
        release: what the ledger will record of it, as JSON text; not shown when printed.
        salt: makes the digest say nothing to those who do not have it.
    """

    key: str
    fingerprint: str
    attempt: int
    at: str
    after: str
    message: bytes = field(repr=False)
    release: str | None = field(repr=False, default=None)
    salt: bytes = field(repr=False, default_factory=lambda: secrets.token_bytes(_SALT_BYTES))

    @property
    def run(self) -> str:
        """The run that it belongs to."""
        return str(json.loads(self.key)[0])

    @property
    def kind(self) -> str:
        """Of the request."""
        return str(json.loads(self.key)[2])

    @property
    def digest(self) -> str:
        """What the ledger records of the bytes."""
        return hashlib.sha256(b"likeset message 1\n" + self.salt + self.message).hexdigest()


class Journal:
    """The messages of one ledger.

    Args:
        path: the file; created with mode 0600.
        ledger: the ledger's identity: messages of one ledger are never mistaken for another's.
        read_only: look at an existing journal without changing it.
        patience: seconds to wait for another process's lock.
    """

    def __init__(self, path: Path, *, ledger: str, read_only: bool = False, patience: float = 30.0) -> None:
        _refuse_if_others_may_read(path)

        def fill(connection: sqlite3.Connection) -> None:
            about = [("ledger", ledger.encode()), ("key", secrets.token_bytes(_SALT_BYTES))]
            connection.executemany("INSERT INTO about VALUES (?, ?)", about)

        self._store = Store(path, layout=_LAYOUT, read_only=read_only, patience=patience, fill=fill)
        try:
            with self._store.reading() as connection:
                about = dict(connection.execute("SELECT name, value FROM about"))
            if about.get("ledger") != ledger.encode():
                raise LedgerUnreadable(f"journal {path}: belongs to another ledger")
            self._key = bytes(about["key"])
        except BaseException:
            self._store.close()
            raise

    def fingerprint(self, content: bytes) -> str:
        """A digest of a request, to recognise it by; it says nothing to those who do not have the journal."""
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()

    def keep(self, messages: Iterable[StoredMessage]) -> None:
        """Store messages durably, all or none.

        Raises:
            DifferentRequest: a message is already stored for one of the requests.
        """
        with self._store.writing() as connection:
            for stored in messages:
                if _find(connection, stored.key, stored.fingerprint) is not None:
                    raise DifferentRequest(f"run {stored.run}, {stored.kind}: has another answer: it is sent again")
                connection.execute(_INSERT, (*(getattr(stored, name) for name in _COLUMNS), stored.run))

    def find(self, key: str, fingerprint: str) -> StoredMessage | None:
        """The answer to a request, if it is (still) there."""
        with self._store.reading() as connection:
            return _find(connection, key, fingerprint)

    def messages(self, *, run: str | None = None) -> tuple[StoredMessage, ...]:
        """All stored messages, or those of one run, oldest first."""
        with self._store.reading() as connection:
            which, words = ("", ()) if run is None else ("WHERE run = ?", (run,))
            rows = connection.execute(f"{_SELECT} {which} ORDER BY rowid", words).fetchall()
        return tuple(_message(row) for row in rows)

    def purge(self, *, run: str | None, before: str | None) -> int:
        """Remove the messages of a run, or those stored before a time (UTC), or both; returns how many.

        SQLite overwrites the removed content with zeros; the log that still holds it is emptied as well. If no message
        is left, the file becomes small again.

        Raises:
            LedgerUnavailable: they are removed, but another process still holds the log with their bytes.
        """
        with self._store.writing() as connection:
            removed = connection.execute(_DELETE, (run, before)).rowcount
            empty = connection.execute("SELECT 1 FROM messages LIMIT 1").fetchone() is None
        if (
            removed and empty
        ):  # otherwise the next messages take the room; a copy of those that stay would lie elsewhere
            self._store.give_back_room()
        if not self._store.empty_log():
            raise LedgerUnavailable(
                f"journal {self._store.path}: {removed} messages are removed, but another process still "
                "reads the log that holds their bytes; run the purge again when it has ended"
            )
        return removed

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_COLUMNS = ("key", "fingerprint", "attempt", "at", "after", "message", "release", "salt")
_SELECT = "SELECT key, fingerprint, attempt, at, after, message, release, salt FROM messages"
_INSERT = """INSERT INTO messages (key, fingerprint, attempt, at, after, message, release, salt, run)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_DELETE = "DELETE FROM messages WHERE (?1 IS NULL OR run = ?1) AND (?2 IS NULL OR at < ?2)"
_TYPES = (str, str, int, str, str, bytes)


def _find(connection: sqlite3.Connection, key: str, fingerprint: str) -> StoredMessage | None:
    row = connection.execute(f"{_SELECT} WHERE key = ? AND fingerprint = ?", (key, fingerprint)).fetchone()
    return None if row is None else _message(row)


def _message(row: tuple[Any, ...]) -> StoredMessage:
    types = tuple(type(value) for value in row)
    if types not in ((*_TYPES, str, bytes), (*_TYPES, type(None), bytes)) or not _is_key(row[0]):
        raise LedgerUnreadable("journal: a message is damaged")
    return StoredMessage(*row)


def _is_key(text: str) -> bool:
    try:
        run, number, kind = json.loads(text)
    except (ValueError, TypeError):
        return False
    return isinstance(run, str) and isinstance(number, int) and isinstance(kind, str)


def _refuse_if_others_may_read(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return
    if os.name == "posix" and mode & 0o077:
        raise LedgerUnavailable(
            f"journal {path}: other users can read it (mode {mode:04o}), and it holds messages; chmod 600 it"
        )
