"""A compute party: curator, consumer or witness. It holds shares and runs a worker, again after a failure.

It knows a session, its rank and how to meet the others; not whose rows it computes on.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import numpy as np
from numpy.typing import NDArray

from likeset.errors import IllegalMessage, InvalidArgument, NoAnswer
from likeset.split.digest import program_digest
from likeset.split.engine.framing import unpack
from likeset.split.engine.settings import CONSUMER, PARTIES, ProgramSettings
from likeset.split.engine.task import Task
from likeset.split.opening import Opening
from likeset.split.worker_process import Ended, Progress, WorkerProcess

__all__ = ["Attempt", "Meeting", "OpenedPicks", "SplitParty"]

_PAUSE = 0.2  # seconds between two attempts
_SILENCE = 300  # seconds without a message after which the engine gives an attempt up


@dataclass(frozen=True)
class Attempt:
    """One attempt at computing together.

    Attributes:
        name: alike at all parties, never used again.
        addresses: for each rank where this party's engine reaches it: ``unix:`` and a path.
    """

    name: str
    addresses: tuple[str, ...]


class Meeting(Protocol):
    """How compute parties find each other."""

    def join(self, timeout: float, worker: WorkerProcess) -> Attempt:
        """Wait until all parties are there, and begin an attempt with them.

        Args:
            timeout: seconds to wait at most.
            worker: is killed when another party leaves the attempt before it is done.

        Raises:
            NoAnswer: somebody did not come.
        """

    def leave(self, attempt: Attempt, *, how: str) -> None:
        """This party's part in an attempt ended; unless it is done, the attempt is over for the others at once.

        Args:
            attempt: that ended.
            how: ``done``, ``failed`` or ``refused``, as the worker said.
        """

    def was_refused(self, attempt: Attempt) -> bool:
        """Whether a party refused this attempt, which would happen again."""


@dataclass(frozen=True)
class OpenedPicks:
    """What only the consumer gets: for each pick, in order, which slot it was and what opens its envelope.

    Attributes:
        numbers: of the slots, from 0; -1 where no valid offer was left.
        secrets: four words for each pick: the 32 bytes r_i.
        checksums: of each pick's row and label, by the factors that ``seed`` gives.
        seed: drawn by all compute parties after inputs were fixed; see ``checksum_factors``.
    """

    numbers: NDArray[np.int64]
    secrets: NDArray[np.int64]
    checksums: NDArray[np.int64]
    seed: bytes


class SplitParty:
    """A compute party of one session.

    Args:
        rank: 0 the curator, 1 the consumer, 2 the witness.
        settings: of the program, alike at all parties.
        program: digest that the terms name; must be that of the files here.
        inputs: digest of the list of inputs that all parties agreed on.
        folder: for its share of the picks; this party's own, and the same after a restart.
        python: interpreter of the worker's environment.
        meeting: how to find the others.
        log: where what the engine prints goes; nowhere if not given.

    Raises:
        InvalidArgument: the program is another one than the digest says, or there is no such rank.
    """

    def __init__(
        self,
        rank: int,
        settings: ProgramSettings,
        *,
        program: str,
        inputs: str,
        folder: Path,
        python: Path,
        meeting: Meeting,
        log: IO[bytes] | None = None,
    ) -> None:
        if not 0 <= rank < PARTIES:
            raise InvalidArgument("rank", rank, f"must lie between 0 and {PARTIES - 1}")
        if program != program_digest():
            reason = "is not the digest of the program here: the terms name another version of likeset"
            raise InvalidArgument("program", program, reason)
        self.rank, self.settings = rank, settings
        self._program, self._inputs = program, inputs
        self._python, self._meeting, self._log = python, meeting, log
        self._opening = Opening(folder)
        self._shares: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self.worker: WorkerProcess | None = None

    def put_shares(self, offers: NDArray[np.int64], target: NDArray[np.int64]) -> None:
        """This party's additive shares; the same ones after a restart.

        Args:
            offers: for each slot the words of its row, its label (one-hot), its bit ``valid``, and its secret.
            target: for each row of the target its words, and the chance of each class in words of 16 bits.

        Raises:
            InvalidArgument: they have another shape or type than the settings say.
        """
        settings = self.settings
        for name, words, shape in (
            ("offers", offers, (settings.offers, settings.offer_words)),
            ("target", target, (settings.target_rows, settings.target_words)),
        ):
            if words.shape != shape or words.dtype != np.int64:
                raise InvalidArgument(name, words.shape, f"must be words of 64 bits in the shape {shape}")
        self._shares = (offers, target)

    def run(self, *, progress: Progress | None = None, patience: float = 600.0) -> OpenedPicks | None:
        """Compute with the others until picks are opened: the consumer gets them, all others None.

        A computation that stops before its opening begins anew with the same inputs. What was opened is sent again.

        Args:
            progress: told (stage, done, of).
            patience: seconds without any progress after which it gives up; it may be called again.

        Raises:
            NoAnswer: another party did not come back in time.
            IllegalMessage: the parties do not run the same thing.
            PartyFailed: picks were opened, and this party has lost its share of them.
        """
        if self.opened is not None:
            return self.opened
        if self._shares is None:
            raise InvalidArgument("offers", None, "must be put in before the computation is run")
        moved = time.monotonic()

        def told(stage: str, done: int, of: int) -> None:
            nonlocal moved
            moved = time.monotonic()
            if progress is not None:
                progress(stage, done, of)

        while True:
            ended = self._attempt(told, patience)
            if ended.how == "done":
                return self.opened
            if ended.how == "refused":
                raise IllegalMessage(f"the compute parties cannot work together: {ended.reason}")
            if time.monotonic() - moved > patience:
                raise NoAnswer(f"the computation stopped: {ended.reason}; call again")
            time.sleep(_PAUSE)

    @property
    def opened(self) -> OpenedPicks | None:
        """What was opened to this party; None at all but the consumer, and before the end."""
        data = self._opening.picks()
        if data is None or self.rank != CONSUMER:
            return None
        seed, words = unpack(data).parts
        payloads = np.frombuffer(words, dtype="<i8").astype(np.int64).reshape(self.settings.size, -1)
        return OpenedPicks(payloads[:, 0] - 1, payloads[:, 1:-1], payloads[:, -1], seed)

    def stop(self) -> None:
        """End the worker."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def _attempt(self, progress: Progress, patience: float) -> Ended:
        if self._shares is None:
            raise AssertionError
        self._opening.share()  # without it nothing is computed
        self.worker = WorkerProcess(self._python, log=self._log)
        try:
            attempt = self._meeting.join(patience, self.worker)
            ended = Ended("failed", "this party stopped")
            try:
                offers, target = self._shares
                ended = self.worker.serve(
                    self._task(attempt), opening=self._opening, offers=offers, target=target, progress=progress
                )
            finally:
                self._meeting.leave(attempt, how=ended.how)
            if ended.how == "failed" and self._meeting.was_refused(attempt):
                return Ended("refused", "another of them refused this attempt, and its own log says why")
            return ended
        finally:
            self.stop()

    def _task(self, attempt: Attempt) -> Task:
        return Task(
            settings=self.settings,
            rank=self.rank,
            program=self._program,
            inputs=self._inputs,
            attempt=attempt.name,
            addresses=attempt.addresses,
            timeout=_SILENCE,
        )
