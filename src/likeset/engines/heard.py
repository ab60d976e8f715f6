"""What a site has answered, on disk: after a restart no other message is taken in the place of one that was answered.

A ledger keeps what was drawn. That is not enough where an answer depends on all that was heard before, as in
``interactive``: an owner that starts anew, and is told other releases than the first time, would send other rows, and
none of them would be charged. So a site remembers the fingerprint of every message that it answered, for ever.
"""

import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from likeset.errors import IllegalMessage, LedgerUnavailable
from likeset.protocol.messages import Message, encode

__all__ = ["HEARD_FILE", "Heard"]

HEARD_FILE = "heard.sqlite"

_TABLE = """CREATE TABLE IF NOT EXISTS heard (
    terms TEXT, receiver TEXT, sender TEXT, round INTEGER, kind TEXT, fingerprint BLOB NOT NULL,
    PRIMARY KEY (terms, receiver, sender, round, kind)
) WITHOUT ROWID"""


class Heard:
    """Fingerprints of the messages that a site answered.

    Args:
        folder: the site's own.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / HEARD_FILE

    def check(self, message: Message) -> None:
        """Refuse a message in whose place another one was answered."""
        found = self._do(
            "SELECT fingerprint FROM heard WHERE (terms, receiver, sender, round, kind) = (?, ?, ?, ?, ?)",
            _place(message),
        )
        if found and bytes(found[0][0]) != _fingerprint(message):
            raise IllegalMessage(
                f"{message.body.kind} message of {message.sender}, round {message.round}: "
                "another one in its place was answered before"
            )

    def keep(self, message: Message) -> None:
        """On disk when this returns; call it before the answer leaves."""
        values = (*_place(message), _fingerprint(message))
        self._do("INSERT OR IGNORE INTO heard VALUES (?, ?, ?, ?, ?, ?)", values)

    def _do(self, statement: str, values: tuple[object, ...]) -> list[tuple[bytes]]:
        try:
            if not self._path.exists():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
            with closing(sqlite3.connect(self._path)) as connection, connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(_TABLE)
                return connection.execute(statement, values).fetchall()
        except (OSError, sqlite3.Error) as error:
            raise LedgerUnavailable(f"{self._path} cannot be read or written; nothing is answered") from error


def _place(message: Message) -> tuple[object, ...]:
    return message.terms, message.receiver, message.sender, message.round, message.body.kind


def _fingerprint(message: Message) -> bytes:
    return hashlib.sha256(encode(message)).digest()
