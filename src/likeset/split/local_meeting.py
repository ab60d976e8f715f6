"""All compute parties in one process, each with a worker of its own: for tests, studies and one house.

Nothing is private here: whoever runs it has all shares.
"""

import os
import tempfile
import threading
from pathlib import Path

from likeset.errors import NoAnswer
from likeset.split.engine.settings import PARTIES
from likeset.split.party import Attempt
from likeset.split.worker_process import WorkerProcess

__all__ = ["LocalMeeting"]


class LocalMeeting:
    """Where the parties of one process meet; ``at(rank)`` is what each of them is given."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._here: dict[int, WorkerProcess] = {}
        self._workers: dict[int, WorkerProcess] = {}
        self._attempt: Path | None = None
        self._refused: set[str] = set()
        self._folder = tempfile.TemporaryDirectory(prefix="likeset-")

    def at(self, rank: int) -> "LocalSeat":
        """The meeting as one party has it."""
        return LocalSeat(self, rank)

    def close(self) -> None:
        """Remove the sockets."""
        self._folder.cleanup()

    def join(self, rank: int, timeout: float, worker: WorkerProcess) -> Attempt:
        """See ``Meeting``."""
        with self._turn:
            self._here[rank] = worker
            if len(self._here) == PARTIES:
                self._workers, self._here = self._here, {}
                self._attempt = Path(tempfile.mkdtemp(dir=self._folder.name))
                self._turn.notify_all()
            elif not self._turn.wait_for(lambda: self._workers.get(rank) is worker, timeout):
                self._here.pop(rank, None)
                raise NoAnswer("another compute party did not come in time")
            folder = self._attempt or Path(os.devnull)
            return Attempt(folder.name, tuple(f"unix:{folder}/{number}" for number in range(PARTIES)))

    def leave(self, attempt: Attempt, *, how: str) -> None:
        """See ``Meeting``."""
        with self._turn:
            if how != "done" and self._attempt is not None and self._attempt.name == attempt.name:
                self._refused |= {attempt.name} if how == "refused" else set()
                for worker in self._workers.values():
                    worker.kill()

    def was_refused(self, attempt: Attempt) -> bool:
        """See ``Meeting``."""
        with self._turn:
            return attempt.name in self._refused


class LocalSeat:
    """A party's place at a meeting."""

    def __init__(self, meeting: LocalMeeting, rank: int) -> None:
        self._meeting, self._rank = meeting, rank

    def join(self, timeout: float, worker: WorkerProcess) -> Attempt:
        """See ``Meeting``."""
        return self._meeting.join(self._rank, timeout, worker)

    def leave(self, attempt: Attempt, *, how: str) -> None:
        """See ``Meeting``."""
        self._meeting.leave(attempt, how=how)

    def was_refused(self, attempt: Attempt) -> bool:
        """See ``Meeting``."""
        return self._meeting.was_refused(attempt)
