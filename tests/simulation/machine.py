"""Where the simulator meets a process: it hears of each effect on the outside before the effect happens."""

import os
import random
import sqlite3
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from likeset.ledger import ledger as ledger_module
from likeset.ledger import sqlite_file

DATABASE = "home.sqlite"


class Killed(BaseException):
    """The process is dead. Each effect that it still attempts, in ``finally`` for example, raises this again."""


class Listener(Protocol):
    place: Path

    def effect(self, name: str) -> None:
        """An effect is about to happen; raises if it does not."""

    def before_file(self, event: str, paths: list[Path]) -> None: ...

    def draw(self, ledger: Path, request: Any) -> None:
        """Noise is about to be drawn."""


listener: Listener | None = None
locks_held = 0  # of draws: another process would wait for them
_connections: "weakref.WeakSet[Connection]" = weakref.WeakSet()
_connect, _fsync, _draw = sqlite3.connect, os.fsync, ledger_module.Ledger.draw
_one_at_a_time = sqlite_file.one_at_a_time
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Connection(sqlite3.Connection):
    """A home's connection; statements of transactions that write are effects."""

    path = Path()
    writes = False

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self._announce(sql)
        return super().execute(sql, *values)

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self._announce(sql)
        return super().executemany(sql, *values)

    def _announce(self, sql: str) -> None:
        verb, *words = sql.replace("OR REPLACE ", "").split(None, 3)
        if verb == "BEGIN":
            self.writes = words == ["IMMEDIATE"]
        if not self.writes or listener is None:
            return
        if verb in ("BEGIN", "COMMIT"):
            listener.effect(f"sql {verb}")
        elif verb in ("INSERT", "UPDATE", "DELETE"):
            listener.effect(f"sql {verb} {words[0] if verb == 'UPDATE' else words[1]}")


def _connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
    connection: sqlite3.Connection = _connect(*arguments, **{"factory": Connection, **options})
    if isinstance(connection, Connection):
        connection.path = Path(str(arguments[0]).removeprefix("file:").partition("?")[0])
        _connections.add(connection)
    return connection


def in_transaction() -> bool:
    return bool(locks_held) or any(_busy(connection) for connection in _connections)


def _busy(connection: Connection) -> bool:
    with suppress(sqlite3.ProgrammingError):  # closed
        return connection.in_transaction
    return False


def opened_databases(folder: Path) -> bool:
    """Whether some process has a database in this folder open."""
    for connection in _connections:
        with suppress(sqlite3.ProgrammingError):
            _ = connection.total_changes
            if folder in connection.path.parents:
                return True
    return False


def read_only(database: Path) -> sqlite3.Connection:
    """A connection of an observer: it sees what is committed, and nothing else."""
    return _connect(f"file:{database}?mode=ro", uri=True)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Hears of each change of a file of a home, by any library."""
    if listener is None or event not in ("open", "os.rename", "os.remove", "os.mkdir"):
        return
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _CHANGES):
        return
    place, named = str(listener.place), arguments[:2] if event == "os.rename" else arguments[:1]
    paths = [Path(str(each)) for each in named if str(each).startswith(place)]
    if paths and not paths[0].name.startswith((DATABASE, ".lock")):
        listener.before_file(event, paths)


class Disk:
    """What the disks have not confirmed: content of files, and names in folders. Databases are SQLite's own matter."""

    def __init__(self) -> None:
        self.names: list[tuple[Path, bytes | None]] = []  # what each name stood for before, oldest first
        self.torn: set[Path] = set()  # files whose content is not confirmed

    def before(self, event: str, paths: list[Path]) -> None:
        for path in paths:
            if not path.is_dir():
                self.names.append((path, path.read_bytes() if path.exists() else None))
        if event == "open":
            self.torn.add(paths[0])
        elif event == "os.rename" and paths[0] in self.torn:
            self.torn.add(paths[1])

    def confirm(self, path: Path) -> None:
        self.torn.discard(path)
        self.names = [(name, before) for name, before in self.names if name.parent != path]

    def lose_power(self, folder: Path, coins: random.Random) -> None:
        """Each change in a folder that was not confirmed is there, or is not, or is there in part."""
        for path in sorted(self.torn):
            if folder in path.parents and path.exists():
                path.write_bytes(path.read_bytes()[: coins.randrange(path.stat().st_size + 1)])
        for path, before in reversed(self.names):
            if folder in path.parents and coins.random() < 0.5 and path.parent.exists():
                if before is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(before)
        for log in folder.rglob(f"{DATABASE}-wal"):  # the last page of a commit that was never confirmed
            with log.open("ab") as file:
                file.write(coins.randbytes(coins.randrange(5000)))
        self.names, self.torn = [], set()


def replace(place: Any, **values: object) -> None:
    """Replace what a module or class has under these names."""
    for name, value in values.items():
        assert hasattr(place, name), name
        setattr(place, name, value)


def install(disk: Callable[[], Disk | None]) -> None:
    """Watch this process for ever: an audit hook cannot be removed, so a simulator needs a process of its own."""

    def synced(descriptor: int) -> None:
        if (known := disk()) is not None:
            known.confirm(Path(f"/proc/self/fd/{descriptor}").readlink())

    def drawn(self: Any, charge: Any, run: Any, *, request: Any, repeatable: bool = False, **options: Any) -> bytes:
        def watched() -> Any:
            if listener is not None:
                listener.draw(self.path, request)
            return run()

        return _draw(self, charge, run if repeatable else watched, request=request, repeatable=repeatable, **options)

    @contextmanager
    def alone(*arguments: Any, **options: Any) -> Iterator[None]:
        global locks_held
        with _one_at_a_time(*arguments, **options):
            locks_held += 1
            try:
                yield
            finally:
                locks_held -= 1

    replace(sqlite3, connect=_connected)
    # The disk of a test need not be waited for; that transactions ask for it is tested in tests/ledger.
    replace(sqlite_file, _PRAGMAS=("synchronous=OFF", *sqlite_file._PRAGMAS[1:]))
    replace(ledger_module.Ledger, draw=drawn)
    replace(ledger_module, one_at_a_time=alone)
    replace(os, fsync=synced)
    sys.addaudithook(_audit)
