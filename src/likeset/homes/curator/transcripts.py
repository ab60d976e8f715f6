"""The curator's copies of what passed between it and owners: a line for each message, in one file for all runs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from likeset.homes.transcripts import Line, Transcript, line_of
from likeset.ledger.store import Layout, Store
from likeset.protocol.messages import Message, encode
from likeset.protocol.party import CURATOR

__all__ = ["CuratorTranscripts"]

_LAYOUT = Layout(
    what="transcripts",
    application_id=0x4C_53_54_31,  # "LST1"
    version=1,
    statements=(
        """CREATE TABLE lines (
            terms TEXT, run TEXT NOT NULL, owner TEXT, way TEXT, round INTEGER, kind TEXT,
            digest TEXT NOT NULL, bytes INTEGER NOT NULL, rows INTEGER NOT NULL,
            PRIMARY KEY (terms, owner, way, round, kind)
        ) WITHOUT ROWID""",
    ),
)
_ADD = "INSERT OR IGNORE INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FIND = "SELECT terms, owner, round, way, kind, digest, bytes, rows FROM lines WHERE run = ?"


class CuratorTranscripts:
    """On disk before a message is answered or leaves.

    Args:
        path: the file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._store = Store(path, layout=_LAYOUT)

    def keep(self, messages: Iterable[Message]) -> None:
        """Write messages down, all or none; one that is there already is left as it is."""
        values = []
        for message in messages:
            owner = message.receiver if message.sender == CURATOR else message.sender
            line = line_of(encode(message), owner=owner)
            place = (message.terms, message.run, owner, line.way, line.round, line.kind)
            values.append((*place, line.digest, line.bytes, line.rows))
        if values:
            with self._store.writing() as connection:
                connection.executemany(_ADD, values)

    def of_run(self, run: str) -> list[Transcript]:
        """The copies of a run, owner by owner; of several versions of its terms one after the other."""
        found: dict[tuple[str, str], list[Line]] = {}
        with self._store.reading() as connection:
            for terms, owner, *line in connection.execute(_FIND, (run,)):
                found.setdefault((terms, owner), []).append(Line(*line))
        return [Transcript(run, terms, owner, tuple(sorted(lines))) for (terms, owner), lines in sorted(found.items())]

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
