"""One SQLite file: durable writes, checked on opening, safe for several processes."""

import glob
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from likeset.errors import InvalidArgument, LedgerUnavailable, LedgerUnreadable
from likeset.files import keep_private, locked, sync_folder

_APPLICATION_ID = 0x4C_53_4C_31  # "LSL1": somebody else's database is never written to


def _separate_states(connection: sqlite3.Connection) -> None:
    """Why, how it ended and how far it is were one column of a run, and decisions were columns of it."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchall():
        return
    columns = "digest, party, name, role, mailbox, signed, acceptance, ends, at"
    old = f"{columns}, due, reviewed, data, smallest_group, state, detail, decided, decided_by, decided_at, reason"
    rows = connection.execute(f"SELECT {old} FROM runs ORDER BY rowid").fetchall()  # noqa: S608
    connection.execute("DROP TABLE runs")
    connection.execute(
        """CREATE TABLE runs (
        digest BLOB PRIMARY KEY NOT NULL, party TEXT NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
        mailbox TEXT NOT NULL, signed BLOB NOT NULL, acceptance BLOB NOT NULL, ends REAL NOT NULL, at TEXT NOT NULL,
        state TEXT NOT NULL, reason TEXT NOT NULL, ended TEXT NOT NULL, progress TEXT NOT NULL, due REAL,
        reviewed INTEGER NOT NULL, data TEXT NOT NULL, smallest_group INTEGER
    )"""
    )
    connection.execute("CREATE INDEX runs_by_name ON runs (name)")
    connection.execute("CREATE INDEX runs_by_end ON runs (ends, state, digest)")
    connection.execute("CREATE INDEX runs_by_state ON runs (state, due, ends)")
    connection.execute(
        """CREATE TABLE decisions (
        number INTEGER PRIMARY KEY, run BLOB NOT NULL, what TEXT NOT NULL, who TEXT NOT NULL, how TEXT NOT NULL,
        made TEXT NOT NULL, why TEXT NOT NULL
    )"""
    )
    connection.execute("CREATE INDEX decisions_by_run ON decisions (run)")
    for *kept, due, reviewed, data, smallest, state, detail, decided, who, made, why in rows:
        digest, role, reason, ended, progress = kept[0], kept[3], detail, "", ""
        if state in ("closed", "cancelled", "expired", "failed") or (role, state) == ("curator", "answered"):
            ended, _, reason = detail.partition(": ")
        elif role == "owner" and state in ("accepted", "begun") and detail:
            state = "stopped"
        elif state == "begun":
            reason, progress = "", detail
        elif decided == "denied":
            reason = ""
        row = (*kept, state, reason, ended, progress, due, reviewed, data, smallest)
        connection.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
        how = "rules" if who == "owner.yaml" else ""
        made_by = [(decided, who, how, why)] if decided else []
        made_by += [("withdrawn", reason.removeprefix("by "), "", "")] if ended == "withdrawn" else []
        for what, person, way, because in made_by:
            decision = (digest, what, person, way, made, because)
            connection.execute(
                "INSERT INTO decisions (run, what, who, how, made, why) VALUES (?, ?, ?, ?, ?, ?)", decision
            )


def _add_troubles(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'letters'").fetchone():
        connection.execute(
            """CREATE TABLE troubles (
            digest BLOB NOT NULL, folder TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL, tries INTEGER NOT NULL,
            again REAL NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (folder, name, digest)
            )"""
        )


OLDEST_VERSION = 9
"""Of the tables. Files of this version and of each later one are migrated when they are opened."""
MIGRATIONS: tuple[Callable[[sqlite3.Connection], object], ...] = (_separate_states, _add_troubles)
"""Each takes the tables one version further, by ``execute`` alone; a ledger that is no home has fewer tables.

None is ever changed or removed. None touches ``log``: its entries are chained, and stay readable as they are.
"""
_UNREADABLE = ("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_FORMAT")
_PRIVATE = 0o600
_RETRY_SECONDS = 0.02
_LOG_BYTES = 4 << 20
_PRAGMAS = (
    "synchronous=FULL",
    "fullfsync=ON",  # on macOS a plain sync does not reach the disk
    "checkpoint_fullfsync=ON",
    "secure_delete=ON",
    # SQLite before 3.51.3 can lose commits if it empties the log while another process writes (its "WAL-reset
    # bug"). By itself it does that without the write lock; empty_log takes the lock.
    "wal_autocheckpoint=0",
)


class SqliteFile:
    """A SQLite file of ours, readable by its owner only.

    A new file gets its tables by ``statements`` and its first rows by ``fill``, in one transaction.
    """

    def __init__(
        self,
        path: Path,
        *,
        statements: Sequence[str],
        fill: Callable[[sqlite3.Connection], None],
        read_only: bool = False,
        patience: float = 30.0,
    ) -> None:
        self.path = path
        self._patience = patience
        self._process = os.getpid()
        # Threads share one connection; SQLite would serialise calls, but not whole transactions.
        self._lock = threading.RLock()
        self._version = OLDEST_VERSION + len(MIGRATIONS)
        with self._plain_words():
            self._check_file(read_only=read_only)
            self._connection = self._opened(read_only=read_only)
            try:
                self._prepare(statements, fill, read_only=read_only)
                self._check_private()  # last: a file of something else is named as that
            except BaseException:
                self.close()
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, to this thread alone, within one consistent snapshot; or within its block of ``writing``."""
        with self._lock:
            if self._process == os.getpid() and self._is_in_block():
                yield self._connection
                return
            with self._transaction("BEGIN") as connection:
                yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection, to this thread and process alone; durable at the end, undone if the block fails."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection
        self._shorten_log()

    def empty_log(self) -> bool:
        """Move everything from the log into the file and empty the log; false if a reader prevents it."""
        with self._lock, self._plain_words():
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

    def give_back_room(self) -> None:
        """Let the file take no more room than its content; a reader only puts that off."""
        with self._lock, suppress(sqlite3.OperationalError):
            self._connection.executescript("PRAGMA incremental_vacuum")  # ``execute`` would free a single page

    def remove_copies(self) -> None:
        """Remove the copies that were kept before migrations: they hold what was deleted since."""
        for copy in self.path.parent.glob(f"{glob.escape(self.path.name)}.version-*"):
            copy.unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            if self._process == os.getpid():
                self._connection.close()

    def __del__(self) -> None:  # Python 3.13 warns of a connection that nobody closed
        if hasattr(self, "_connection"):
            self.close()

    def _shorten_log(self) -> None:
        log = self.path.with_name(self.path.name + "-wal")
        # What was just written is durable in the log, whatever becomes of this.
        with suppress(OSError, LedgerUnavailable):
            if log.stat().st_size > _LOG_BYTES:
                self.empty_log()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if self._process != os.getpid():
            # SQLite connections must not cross a fork: both processes would release each other's locks.
            raise LedgerUnavailable(f"{self._name}: was opened before a fork; open it again in the new process")
        with self._lock, self._plain_words():
            if self._is_in_block():
                # What the inner block returned from would count as durable, and is not before the outer one ends.
                raise LedgerUnavailable(f"{self._name}: is being written already; a write cannot begin within another")
            self._connection.execute(begin)
            try:
                self._version_found()  # a later likeset may have migrated the file under this process
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _is_in_block(self) -> bool:
        return self._connection.in_transaction

    def _opened(self, *, read_only: bool) -> sqlite3.Connection:
        if not read_only:
            try:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _PRIVATE))
                sync_folder(self.path.parent)
            except FileExistsError:
                pass
            except OSError as error:
                raise LedgerUnavailable(f"{self._name}: cannot be created: {error.strerror}") from error
        connection = sqlite3.connect(
            f"file:{quote(str(self.path.absolute()))}?mode={'ro' if read_only else 'rw'}",
            uri=True,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
        )
        return _with_text(connection)

    def _prepare(
        self, statements: Sequence[str], fill: Callable[[sqlite3.Connection], None], *, read_only: bool
    ) -> None:
        with self.reading():  # one snapshot: another process may be filling the file just now
            found = self._version_found()
        if read_only:
            if not found:
                raise LedgerUnreadable(f"{self._name}: is empty")
            if found < self._version:
                self._migrate_in_memory(found)
            return
        if not found:
            self._connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # before anything is written
        self._write_ahead()
        for pragma in _PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        if found == self._version:
            return
        with self.writing() as connection:
            found = self._version_found()  # another process may have been faster
            if not found:
                for statement in statements:
                    connection.execute(statement)
                fill(connection)
                connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            elif found < self._version:
                self._keep_copy(found)
            self._migrate(connection, found or self._version)

    def _migrate(self, connection: sqlite3.Connection, found: int) -> None:
        for migrate in MIGRATIONS[found - OLDEST_VERSION :]:
            migrate(connection)
        connection.execute(f"PRAGMA user_version={self._version}")

    def _migrate_in_memory(self, found: int) -> None:
        memory = _with_text(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
        with closing(self._connection) as file:
            file.backup(memory)
        self._connection = memory
        self._migrate(memory, found)

    def _keep_copy(self, found: int) -> None:
        """Keep what is committed, as it was, until ``remove_copies``."""

        def write(partial: Path) -> None:
            with closing(self._opened(read_only=True)) as source, closing(sqlite3.connect(partial)) as target:
                source.backup(target)

        try:
            keep_private(self.path.with_name(f"{self.path.name}.version-{found}"), write)
        except OSError as error:
            reason = f"no copy could be kept before it is migrated, so it is as it was: {error.strerror or error}"
            raise LedgerUnavailable(f"{self._name}: {reason}") from error

    def _version_found(self) -> int:
        """The version of the tables; 0 for a new file."""
        application_id = self._connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if application_id == _APPLICATION_ID and version:
            if version > self._version:
                raise LedgerUnreadable(
                    f"{self._name}: has format {version}, of a later likeset, and this one reads formats up to "
                    f"{self._version}; install that likeset again (`likeset --version` where it worked)"
                )
            if version < OLDEST_VERSION:
                raise LedgerUnreadable(
                    f"{self._name}: has format {version}, and this likeset reads formats from {OLDEST_VERSION} on; use "
                    "the likeset version that wrote it, or start a new ledger with limits reduced by what was spent"
                )
            return version
        if application_id or version or self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise LedgerUnreadable(f"{self._name}: is a SQLite file of something else")
        return 0

    def _write_ahead(self) -> None:
        # Changing the mode of a new file takes a lock that SQLite does not wait for by itself.
        deadline = time.monotonic() + self._patience
        while True:
            try:
                (mode,) = self._connection.execute("PRAGMA journal_mode=WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if _code(error) != "SQLITE_BUSY" or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
        if mode != "wal":
            raise LedgerUnavailable(f"{self._name}: SQLite cannot keep a write-ahead log on this file system")

    @contextmanager
    def _plain_words(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:  # what SQLite says about a damaged name quotes it
            raise LedgerUnreadable(f"{self._name}: the file is damaged") from error
        except sqlite3.DatabaseError as error:
            code = _code(error)
            if code.startswith(_UNREADABLE):
                raise LedgerUnreadable(f"{self._name}: is damaged, or not a ledger; restore it from a copy") from error
            if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                reason = f"another process kept it locked for over {self._patience:g} s; try again"
            elif code.startswith(("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")):
                reason = f"the disk of {self.path.parent} is full; nothing was recorded"
            else:
                reason = f"cannot be used: {error} ({code}); the file and its directory must be writable"
            raise LedgerUnavailable(f"{self._name}: {reason}") from error

    @property
    def _name(self) -> str:
        return f"ledger {self.path}"

    def _check_file(self, *, read_only: bool) -> None:
        if self.path.is_dir():
            raise InvalidArgument("path", str(self.path), "is a directory; name the ledger file in it")
        if not self.path.exists():
            if read_only:
                raise InvalidArgument("path", str(self.path), "there is no such ledger")
        elif not self.path.stat().st_size:
            self._check_private()  # before anything is written into it

    def _check_private(self) -> None:
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if mode & 0o077:
            raise LedgerUnavailable(f"{self._name}: other users can read it (mode {mode:04o}); chmod 600 it")


@contextmanager
def one_at_a_time(lock: Path, *, patience: float) -> Iterator[None]:
    """Hold the lock of a file that processes and threads take turns with; created if it does not exist."""
    deadline = time.monotonic() + patience
    with ExitStack() as held:
        try:
            while held.enter_context(locked(lock)) is None:
                if time.monotonic() > deadline:
                    raise LedgerUnavailable(f"lock {lock}: another draw held it for over {patience:g} s")
                held.close()
                time.sleep(_RETRY_SECONDS)
        except OSError as error:
            raise LedgerUnavailable(f"lock {lock}: cannot be opened: {error.strerror}") from error
        yield


def _code(error: sqlite3.Error) -> str:
    return str(getattr(error, "sqlite_errorname", "") or "")


def _with_text(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.text_factory = _text
    return connection


def _text(stored: bytes) -> str | bytearray:
    """Text as stored; what is not UTF-8 becomes a type that no column has, for the chain to stumble over."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return bytearray(stored)
