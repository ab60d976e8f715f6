"""What a site has answered, on disk: after a restart no other message is taken in the place of one that was answered.

A ledger keeps what was drawn. That is not enough where an answer depends on all that was heard before, as in
``interactive``: an owner that starts anew, and is told other releases than the first time, would send other rows, and
none of them would be charged. So a site remembers the fingerprint of every message that it answered, for ever.
"""

import hashlib
import os
import sqlite3
import weakref
from pathlib import Path

from likeset.errors import IllegalMessage, LedgerUnavailable
from likeset.private_files import make_private_folder
from likeset.protocol.messages import Message

__all__ = ["HEARD_FILE", "Heard"]

HEARD_FILE = "heard.sqlite"

_TABLE = """CREATE TABLE IF NOT EXISTS heard (
    terms TEXT, receiver TEXT, sender TEXT, round INTEGER, kind TEXT, fingerprint BLOB NOT NULL,
    PRIMARY KEY (terms, receiver, sender, round, kind)
) WITHOUT ROWID"""
_FIND = "SELECT fingerprint FROM heard WHERE (terms, receiver, sender, round, kind) = (?, ?, ?, ?, ?)"
_ADD = "INSERT OR IGNORE INTO heard VALUES (?, ?, ?, ?, ?, ?)"


class Heard:
    """Fingerprints of the messages that a site answered.

    Not for several threads at once; several processes of one site may share a folder.

    Args:
        folder: the site's own.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / HEARD_FILE
        self._connection: sqlite3.Connection | None = None

    def check(self, message: Message) -> None:
        """Refuse a message in whose place another one was answered."""
        self._compare(message, self._do(_FIND, _place(message)))

    def keep(self, message: Message) -> None:
        """On disk when this returns; call it before the answer leaves. Of two processes the first one wins."""
        self._do(_ADD, (*_place(message), _fingerprint(message)))
        self.check(message)

    def _compare(self, message: Message, found: list[tuple[bytes]]) -> None:
        if found and bytes(found[0][0]) != _fingerprint(message):
            raise IllegalMessage(
                f"{message.body.kind} message of {message.sender}, round {message.round}: "
                "another one in its place was answered before"
            )

    def _do(self, statement: str, values: tuple[object, ...]) -> list[tuple[bytes]]:
        try:
            if self._connection is None:
                self._connection = self._opened()
            return self._connection.execute(statement, values).fetchall()
        except (OSError, sqlite3.Error) as error:
            raise LedgerUnavailable(f"{self._path} cannot be read or written; nothing is answered") from error

    def _opened(self) -> sqlite3.Connection:
        if not self._path.exists():
            make_private_folder(self._path.parent)
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
        # Every statement commits at once; callers take turns, in whatever thread they are.
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30.0)
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", _TABLE):
            connection.execute(statement).fetchall()
        weakref.finalize(self, connection.close)
        return connection


def _place(message: Message) -> tuple[object, ...]:
    return message.terms, message.receiver, message.sender, message.round, message.body.kind


def _fingerprint(message: Message) -> bytes:
    return hashlib.sha256(message.data).digest()
