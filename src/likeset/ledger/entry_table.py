"""The table of a chain of entries in its file: the same for the ledger and for an owner's audit log."""

import sqlite3

from likeset.ledger.chain import Entry, Problem
from likeset.ledger.store import Layout

__all__ = ["SELECT", "chain_layout", "file_problems", "insert"]

SELECT = "SELECT number, kind, key, body, previous, hash FROM entries"
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


def chain_layout(what: str, application_id: int, *, indices: tuple[str, ...] = ()) -> Layout:
    """The layout of a file that holds one chain.

    Args:
        what: the kind of file, for messages.
        application_id: by which SQLite files of this kind are known.
        indices: statements that make its own indices.
    """
    statements = (_TABLE, *indices, *_TRIGGERS.values())
    return Layout(what=what, application_id=application_id, version=1, statements=statements)


def insert(connection: sqlite3.Connection, entry: Entry) -> None:
    """Write an entry down."""
    columns = (entry.number, entry.kind, entry.key, entry.body, entry.previous, entry.hash)
    connection.execute(_INSERT, columns)


def file_problems(connection: sqlite3.Connection) -> list[Problem]:
    """What is wrong with the file itself."""
    problems = []
    if [row[0] for row in connection.execute("PRAGMA integrity_check(3)")] != ["ok"]:
        problems.append(Problem(0, "the file is damaged (SQLite's own check)"))
    triggers = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    if triggers != set(_TRIGGERS):
        problems.append(Problem(0, "the triggers that keep entries from being changed are not all there"))
    return problems
