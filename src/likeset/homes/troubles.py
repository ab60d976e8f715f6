"""What waits at a home because of a fault of its own machine: what is wrong, since when, and when it is tried again."""

import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from likeset.errors import LikesetError
from likeset.files import keep_private_bytes
from likeset.homes.home import Home, stamp

ERRORS_FILE = "errors.log"
LONGEST_PAUSE: Final = timedelta(minutes=10)
_FIRST_PAUSE = timedelta(seconds=5)
_MOST_DOUBLED = 7
_MOST_KEPT = 1 << 16  # characters of ``errors.log``

_COLUMNS = "digest, folder, name, at, tries, again, reason"


@dataclass(frozen=True, slots=True)
class Trouble:
    digest: bytes = field(repr=False)  # of the terms of its run
    folder: str  # of the mailbox, and the name of the file that waits; empty if it is the periodic work of the run
    name: str
    at: str  # since when
    tries: int
    again: float  # when it is tried again
    reason: str  # and the remedy


class Troubles:
    """The table ``troubles``. It survives a restart, so that a sync by cron does not repeat costly work each minute."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def all(self) -> list[Trouble]:
        with self._home.database.snapshot() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM troubles ORDER BY at")  # noqa: S608
            return [Trouble(*row) for row in rows]

    def of(self, digest: bytes) -> list[str]:
        return [trouble.reason for trouble in self.all() if trouble.digest == digest]

    def tries(self, folder: str, name: str) -> int:
        return sum(trouble.tries for trouble in self.all() if (trouble.folder, trouble.name) == (folder, name))

    def pausing(self) -> Iterator[Trouble]:
        """Those that are not tried again yet. A clock that was wrong must not make them wait for long."""
        now = self._home.clock()
        latest = (now + LONGEST_PAUSE).timestamp()
        return (trouble for trouble in self.all() if now.timestamp() < trouble.again <= latest)

    def add(self, digest: bytes, folder: str, name: str, error: Exception) -> str:
        """Record that something failed; returns why, in words."""
        reason, now = self.reason(error), self._home.clock()
        with suppress(LikesetError, OSError), self._home.deciding() as t:  # a full disk may be the trouble
            query = "SELECT tries FROM troubles WHERE folder = ? AND name = ? AND digest = ?"
            (tries,) = t.connection.execute(query, (folder, name, digest)).fetchone() or (0,)
            again = now + min(_FIRST_PAUSE * 2 ** min(tries, _MOST_DOUBLED), LONGEST_PAUSE)
            t.connection.execute(
                f"INSERT INTO troubles ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "  # noqa: S608
                "tries = excluded.tries, again = excluded.again, reason = excluded.reason",
                (digest, folder, name, stamp(now), tries + 1, again.timestamp(), reason),
            )
        return reason

    def over(self, digest: bytes) -> None:
        """The periodic work of a run was done again."""
        with self._home.deciding() as t:
            t.connection.execute("DELETE FROM troubles WHERE folder = '' AND digest = ?", (digest,))

    def reason(self, error: Exception) -> str:
        """Why something failed, in words without values of rows; the frames of an error in likeset are kept."""
        if isinstance(error, LikesetError):
            return str(error)
        if isinstance(error, MemoryError):
            return "there is not enough memory"
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        self._keep_frames(error)
        return f"an error in likeset ({type(error).__name__}); report it with the file {ERRORS_FILE}, which has no data"

    def _keep_frames(self, error: BaseException | None) -> None:
        """Add types and frames of an error to ``errors.log``, newest first; never its text, which may quote rows."""
        lines = [f"{stamp(self._home.clock())}\n"]
        while error is not None:
            lines += [f"{type(error).__name__}\n", *traceback.format_tb(error.__traceback__)]
            error = error.__cause__ or error.__context__
        path = self._home.folder / ERRORS_FILE
        with suppress(OSError):
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            keep_private_bytes(path, ("".join(lines) + before)[:_MOST_KEPT].encode())
