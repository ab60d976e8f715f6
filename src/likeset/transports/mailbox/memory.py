"""What a home remembers of a mailbox: what it took there, what it left there, and which runs travel by it.

One file beside the home's letter book. An owner or a consumer who loses it loses nothing: what is heard again is
answered as before, and what is written again has the same name. A curator cannot do without it: it keeps no letter, so
that after a restart it hears them again from the mailbox, and the order in which it did and gave owners up stands here.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from likeset.errors import LedgerUnavailable
from likeset.homes.mail import utc_now
from likeset.ledger.sqlite_file import Layout, SqliteFile
from likeset.trust.letters import PostKind

MEMORY_FILE = "mail.sqlite"
_LOCK_FILE = "mail.lock"
_PATIENCE = 30.0  # seconds: another process of this home looks at a mailbox
_LAYOUT = Layout(
    what="memory of mailboxes",
    application_id=0x4C_53_4D_31,  # "LSM1"
    version=1,
    statements=(
        """CREATE TABLE taken (
            mailbox TEXT, folder TEXT, name TEXT, terms BLOB NOT NULL, fate TEXT NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (mailbox, folder, name)
        ) WITHOUT ROWID""",
        """CREATE TABLE posted (
            mailbox TEXT, folder TEXT, name TEXT, terms BLOB NOT NULL, kind TEXT NOT NULL, party TEXT NOT NULL,
            number INTEGER NOT NULL, paper BLOB NOT NULL, document BLOB, at REAL NOT NULL, put_back INTEGER NOT NULL,
            gone INTEGER NOT NULL, PRIMARY KEY (mailbox, folder, name)
        ) WITHOUT ROWID""",
        "CREATE INDEX posted_by_terms ON posted (mailbox, terms, paper)",
        """CREATE TABLE runs (
            mailbox TEXT, terms BLOB, invitation BLOB NOT NULL, ends REAL NOT NULL, ended TEXT NOT NULL,
            detail TEXT NOT NULL, due REAL, applied INTEGER NOT NULL, closed INTEGER NOT NULL,
            PRIMARY KEY (mailbox, terms)
        ) WITHOUT ROWID""",
        """CREATE TABLE answers (
            mailbox TEXT, terms BLOB, party TEXT, word TEXT NOT NULL, document BLOB NOT NULL,
            PRIMARY KEY (mailbox, terms, party)
        ) WITHOUT ROWID""",
        """CREATE TABLE steps (
            number INTEGER PRIMARY KEY AUTOINCREMENT, mailbox TEXT NOT NULL, terms BLOB NOT NULL, what TEXT NOT NULL,
            party TEXT NOT NULL, folder TEXT NOT NULL, name TEXT NOT NULL
        )""",
        "CREATE INDEX steps_by_terms ON steps (mailbox, terms)",
    ),
)

Fate = Literal["heard", "refused", "stranger"]
StepKind = Literal["hears", "gives up"]


@dataclass(frozen=True, slots=True)
class PostedFile:
    """A file that this home left.

    Attributes:
        folder: where.
        name: of the file.
        terms: that it belongs to, by their digest.
        kind: of the post.
        party: for whom it is, by the name in the terms.
        number: of the letter, where it is one of this home's own; -1 if not.
        paper: the digest of the letter, or of the document.
        document: itself, where the letter book does not have it.
        at: when it was left.
        put_back: how often somebody else had removed it.
        gone: whether this home took it away again.
    """

    folder: str
    name: str
    terms: bytes
    kind: PostKind
    party: str
    number: int
    paper: bytes
    document: bytes | None = field(repr=False)
    at: float
    put_back: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run that travels by the mailbox.

    Attributes:
        terms: by their digest.
        invitation: the terms as the consumer signed them.
        ends: when the terms end.
        ended: how the run ended here, in a word; empty if it has not.
        detail: what else is said of that.
        due: when something must be done although nothing comes.
        applied: the last step of a curator that was carried to its end.
        closed: whether all was said that there is to say after the end.
    """

    terms: bytes
    invitation: bytes = field(repr=False)
    ends: datetime
    ended: str = ""
    detail: str = ""
    due: datetime | None = None
    applied: int = 0
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody said last about taking part: a word, and perhaps the document that goes with it."""

    word: str
    document: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class RunStep:
    """What a curator did in a run, in order.

    Attributes:
        number: counts all steps of the home.
        what: whether it heard a letter or gave somebody up.
        party: whose letter, or whom.
        folder: where the letter lies; empty if it is none.
        name: of its file.
    """

    number: int
    what: StepKind
    party: str
    folder: str = ""
    name: str = ""


class MailMemory:
    """What a home remembers of one mailbox.

    Args:
        folder: the home.
        mailbox: the mailbox's address.
        clock: tells the time.
        read_only: to look at it alone.
    """

    def __init__(
        self, folder: Path, mailbox: str, *, clock: Callable[[], datetime] = utc_now, read_only: bool = False
    ) -> None:
        self._store = SqliteFile(folder / MEMORY_FILE, layout=_LAYOUT, read_only=read_only)
        self._lock = folder / _LOCK_FILE
        self._mailbox = mailbox
        self._clock = clock

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process of this home at a time; a lock that ends with the process that holds it."""
        with closing(sqlite3.connect(self._lock, isolation_level=None, timeout=_PATIENCE)) as connection:
            self._lock.chmod(0o600)
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error:
                reason = f"{self._lock}: another process of this home has looked at mailboxes for {_PATIENCE:g} s"
                raise LedgerUnavailable(f"{reason}; wait for it, or stop it") from None
            yield

    # What came.

    def taken(self, folder: str) -> dict[str, Fate]:
        """What became of the files of a folder that were dealt with, by name."""
        return dict(self._rows("SELECT name, fate FROM taken WHERE mailbox = ? AND folder = ?", folder))

    def take(self, folder: str, name: str, *, terms: bytes, fate: Fate) -> None:
        self._write("INSERT OR REPLACE INTO taken VALUES (?, ?, ?, ?, ?, ?)", folder, name, terms, fate, self._now())

    def forget_files(self, folder: str, names: Iterable[str]) -> None:
        with self._store.writing() as connection:
            connection.executemany(
                "DELETE FROM taken WHERE mailbox = ? AND folder = ? AND name = ?",
                [(self._mailbox, folder, name) for name in names],
            )

    def count_strangers(self, folder: str) -> int:
        query = "SELECT count(*) FROM taken WHERE mailbox = ? AND folder = ? AND fate = 'stranger'"
        return int(self._rows(query, folder)[0][0])

    # What was left.

    def posted(
        self,
        *,
        folder: str | None = None,
        terms: bytes | None = None,
        kind: PostKind | None = None,
        party: str | None = None,
    ) -> list[PostedFile]:
        """Files that this home left and has not taken away: of what is named, or all."""
        columns = "folder, name, terms, kind, party, number, paper, document, at, put_back, gone"
        query = f"SELECT {columns} FROM posted WHERE mailbox = ? AND gone = 0"  # noqa: S608 (our own words only)
        chosen = {"folder": folder, "terms": terms, "kind": kind, "party": party}
        given = {column: value for column, value in chosen.items() if value is not None}
        query += "".join(f" AND {column} = ?" for column in given)
        return [PostedFile(*row) for row in self._rows(query, *given.values())]

    def was_posted(self, folder: str, name: str) -> bool:
        """Whether this home ever left that file."""
        return bool(self._rows("SELECT 1 FROM posted WHERE mailbox = ? AND folder = ? AND name = ?", folder, name))

    def papers(self, terms: bytes) -> frozenset[bytes]:
        """All that was ever left under terms, by digest."""
        query = "SELECT paper FROM posted WHERE mailbox = ? AND terms = ?"
        return frozenset(bytes(paper) for (paper,) in self._rows(query, terms))

    def post(self, file: PostedFile) -> None:
        row = (file.folder, file.name, file.terms, file.kind, file.party, file.number, file.paper, file.document)
        self._write(
            f"INSERT OR REPLACE INTO posted VALUES ({', '.join('?' * 12)})",  # noqa: S608
            *row,
            file.at,
            file.put_back,
            0,
        )

    def unpost(self, folder: str, name: str) -> None:
        """Remember that this home takes a file away: said before it is done, so that nobody puts it back."""
        self._write("UPDATE posted SET gone = 1 WHERE mailbox = ? AND folder = ? AND name = ?", folder, name)

    def put_back(self, folder: str, name: str) -> None:
        """Remember that somebody else removed a file, which is there again."""
        self._write(
            "UPDATE posted SET put_back = put_back + 1 WHERE mailbox = ? AND folder = ? AND name = ?", folder, name
        )

    # Runs.

    def add_run(self, terms: bytes, *, invitation: bytes, ends: datetime) -> None:
        self._write(
            "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, '', '', NULL, 0, 0)", terms, invitation, ends.timestamp()
        )

    def runs(self) -> list[KnownRun]:
        query = "SELECT terms, invitation, ends, ended, detail, due, applied, closed FROM runs WHERE mailbox = ?"
        return [
            KnownRun(terms, invitation, _time(ends), ended, detail, _maybe(due), applied, bool(closed))
            for terms, invitation, ends, ended, detail, due, applied, closed in self._rows(query)
        ]

    def end_run(self, terms: bytes, word: str, detail: str = "") -> None:
        query = "UPDATE runs SET ended = ?2, detail = ?3 WHERE mailbox = ?1 AND terms = ?4 AND ended = ''"
        self._write(query, word, detail, terms)

    def close_run(self, terms: bytes) -> None:
        self._write("UPDATE runs SET closed = 1 WHERE mailbox = ? AND terms = ?", terms)

    def set_due(self, terms: bytes, due: datetime | None) -> None:
        """When something must be done although nothing comes."""
        stamp = None if due is None else due.timestamp()
        self._write("UPDATE runs SET due = ?2 WHERE mailbox = ?1 AND terms = ?3 AND due IS NOT ?2", stamp, terms)

    def forget_run(self, terms: bytes) -> None:
        with self._store.writing() as connection:
            for table in ("runs", "answers", "steps", "posted", "taken"):
                connection.execute(
                    f"DELETE FROM {table} WHERE mailbox = ? AND terms = ?",  # noqa: S608 (our own words only)
                    (self._mailbox, terms),
                )

    def answers(self, terms: bytes) -> dict[str, Answer]:
        """What was said last about taking part under terms, by who said it."""
        query = "SELECT party, word, document FROM answers WHERE mailbox = ? AND terms = ?"
        return {party: Answer(word, document) for party, word, document in self._rows(query, terms)}

    def answer_of(self, terms: bytes, party: str) -> Answer | None:
        """What somebody said last about taking part under terms; None if nothing."""
        query = "SELECT word, document FROM answers WHERE mailbox = ? AND terms = ? AND party = ?"
        return next((Answer(word, document) for word, document in self._rows(query, terms, party)), None)

    def answer(self, terms: bytes, party: str, answer: Answer) -> None:
        """Remember what somebody says about taking part."""
        self._write("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", terms, party, answer.word, answer.document)

    # What a curator did.

    def steps(self, terms: bytes, *, after: int = 0) -> list[RunStep]:
        query = (
            "SELECT number, what, party, folder, name FROM steps WHERE mailbox = ? AND terms = ? AND number > ? "
            "ORDER BY number"
        )
        return [RunStep(*row) for row in self._rows(query, terms, after)]

    def add_step(self, terms: bytes, what: StepKind, party: str, *, folder: str = "", name: str = "") -> RunStep:
        """Remember what is about to be done, and that the run is due; a letter that is heard is not taken again."""
        with self._store.writing() as connection:
            number = connection.execute(
                "INSERT INTO steps (mailbox, terms, what, party, folder, name) VALUES (?, ?, ?, ?, ?, ?)",
                (self._mailbox, terms, what, party, folder, name),
            ).lastrowid
            connection.execute(
                "UPDATE runs SET due = ? WHERE mailbox = ? AND terms = ?", (self._now(), self._mailbox, terms)
            )
            if name:
                connection.execute(
                    "INSERT OR REPLACE INTO taken VALUES (?, ?, ?, ?, 'heard', ?)",
                    (self._mailbox, folder, name, terms, self._now()),
                )
        return RunStep(int(number or 0), what, party, folder, name)

    def drop_step(self, number: int) -> None:
        """A letter that was heard was refused: it is as if it had not come, and is not needed again."""
        self._write("DELETE FROM steps WHERE mailbox = ? AND number = ?", number)

    def applied(self, terms: bytes) -> int:
        """The last step that was carried to its end."""
        rows = self._rows("SELECT applied FROM runs WHERE mailbox = ? AND terms = ?", terms)
        return int(rows[0][0]) if rows else 0

    def apply(self, terms: bytes, number: int) -> None:
        self._write("UPDATE runs SET applied = max(applied, ?2) WHERE mailbox = ?1 AND terms = ?3", number, terms)

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._store.reading() as connection:
            return connection.execute(query, (self._mailbox, *values)).fetchall()

    def _write(self, statement: str, *values: object) -> None:
        with self._store.writing() as connection:
            connection.execute(statement, (self._mailbox, *values))

    def _now(self) -> float:
        return self._clock().timestamp()


def _time(stamp: float) -> datetime:
    return datetime.fromtimestamp(stamp, UTC)


def _maybe(stamp: float | None) -> datetime | None:
    return None if stamp is None else _time(stamp)
