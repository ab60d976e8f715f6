"""Carries out a home's part of a split run's computation, beside whatever else the home does.

A computation runs in a thread of its own, with a worker process and tunnels to the other compute parties. If it stops
before its opening, it begins anew with the same inputs. What was opened is kept until the run is forgotten, so that it
is opened once.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from likeset.errors import IllegalMessage, LikesetError, NoAnswer, PartyFailed
from likeset.homes.compute_folder import ComputeFolder, Reach
from likeset.homes.tunnel_address import TunnelPlace
from likeset.protocol.split.compute_inputs import ComputeInputs, OpenedSlots
from likeset.split.certificates import RunCertificate
from likeset.split.engine.task import AGAIN
from likeset.split.environment import split_python
from likeset.split.session import computing_party, opened_slots
from likeset.split.tunnel_meeting import TunnelMeeting
from likeset.split.tunnels import TunnelPeer
from likeset.split.worker_process import Progress

__all__ = ["Computation", "ComputeJob", "ComputeRoom", "ComputeStatus", "WorkerComputation"]

PATIENCE: Final = 60.0
"""Seconds without progress after which a computation looks whether it is to go on waiting."""
_LAST_SECONDS = 15.0


@dataclass(frozen=True, eq=False)
class ComputeJob:
    """One party's part.

    Attributes:
        inputs: what it puts in.
        folder: for its share of the picks.
        own: its certificate.
        host: that its tunnels listen on.
        port: likewise.
        peers: the others, by rank.
        progress: told (stage, done, of), or ``AGAIN`` when it is asked for what was opened before.
    """

    inputs: ComputeInputs
    folder: Path
    own: RunCertificate
    host: str
    port: int
    peers: Mapping[int, TunnelPeer]
    progress: Progress


class Computation(Protocol):
    """A party's part, at work."""

    def run(self) -> OpenedSlots | None:
        """Compute with the others until picks are opened: to the consumer, and None at the others.

        Raises:
            NoAnswer: another party is not there; it may be called again.
            LikesetError: it cannot be computed.
        """

    def stop(self) -> None:
        """End it, from any thread. Asked again, nothing happens."""


class WorkerComputation:
    """With a worker process, and tunnels to the others.

    Args:
        job: the party's part.

    Raises:
        InvalidArgument: there is no environment for workers, or the terms name another program.
    """

    def __init__(self, job: ComputeJob) -> None:
        inputs = job.inputs
        self._job, python = job, split_python()
        self._stopping, self._is_stopped = threading.Lock(), False
        self._meeting = TunnelMeeting(
            inputs.rank, session=bytes.fromhex(inputs.digest), own=job.own, host=job.host, port=job.port
        )
        try:
            self._party = computing_party(inputs, folder=job.folder, python=python, meeting=self._meeting)
        except BaseException:
            self._meeting.stop()
            raise
        self._meeting.start(job.peers)

    def run(self) -> OpenedSlots | None:
        """See ``Computation``."""
        picks = self._party.run(progress=self._job.progress, patience=PATIENCE)
        return None if picks is None else opened_slots(picks, self._job.inputs)

    def stop(self) -> None:
        """See ``Computation``."""
        with self._stopping:
            if not self._is_stopped:
                self._is_stopped = True
                worker = self._party.worker
                if worker is not None:
                    worker.kill()
                self._meeting.stop()


@dataclass(frozen=True, slots=True)
class ComputeStatus:
    """How far a computation is.

    Attributes:
        state: ``waiting`` for other compute parties, ``computing``, ``done``; ``failed`` for good; ``hindered`` by
            something here that can be mended; ``elsewhere`` where another process of this home computes.
        stage: of the computation: offers are prepared, then picks are made.
        done: of the stage.
        of: in all.
        reason: why it waits or failed, in words without any value of a run.
    """

    state: Literal["waiting", "computing", "done", "failed", "hindered", "elsewhere"]
    stage: str = ""
    done: int = 0
    of: int = 0
    reason: str = ""

    def __str__(self) -> str:
        """In words."""
        match self.state:
            case "computing":
                return f"computing: {self.stage} {self.done:,} of {self.of:,}"
            case "waiting":
                return "waiting for the other compute parties to serve"
            case "elsewhere":
                return "another process of this home computes"
            case "failed" | "hindered":
                return f"cannot compute: {self.reason}"
            case _:
                return "computed"


@dataclass(eq=False)
class _Task:
    thread: threading.Thread | None = None
    status: ComputeStatus = field(default_factory=lambda: ComputeStatus("waiting"))
    computation: Computation | None = None
    result: OpenedSlots | None = None
    stopped: bool = False
    ended: float = 0.0  # when its thread did, by a clock that only goes on


@dataclass(eq=False)
class ComputeRoom:
    """Where a home computes, one thread for each run.

    Args:
        home: the home's directory.
        place: where its tunnels listen.
        begin: starts a computation; tests give another one than workers.
        pause: seconds until it is tried again what hindered a computation, or whether somebody still needs it.
    """

    home: Path
    place: TunnelPlace
    begin: Callable[[ComputeJob], Computation] = WorkerComputation
    pause: float = 20.0
    _tasks: dict[str, _Task] = field(default_factory=dict, init=False)
    _repeats: Counter[str] = field(default_factory=Counter, init=False)

    def start(self, run: str, inputs: ComputeInputs, reaches: Mapping[int, Reach]) -> ComputeStatus:
        """Let a run be computed, if it is not already; returns how far it is.

        Args:
            run: the digest of its terms.
            inputs: what this party puts in.
            reaches: the other compute parties, by rank.
        """
        task = self._tasks.get(run)
        if task is None or self._is_due_again(task):
            task = self._tasks[run] = _Task()
            peers = {rank: reach.peer for rank, reach in reaches.items()}
            arguments = (task, ComputeFolder(self.home, run), inputs, peers)
            task.thread = threading.Thread(target=self._work, args=arguments, daemon=True)
            task.thread.start()
        return task.status

    def _is_due_again(self, task: _Task) -> bool:
        """What hindered it may be mended; and who is done may be needed by a consumer that was killed before it was."""
        over = task.ended and time.monotonic() - task.ended >= self.pause
        is_without_result = task.status.state == "done" and task.result is None
        return bool(over) and (is_without_result or task.status.state in ("hindered", "elsewhere"))

    @property
    def is_busy(self) -> bool:
        """Whether anything is computed now, or waited for."""
        return any(task.status.state in ("waiting", "computing") for task in self._tasks.values())

    def opened(self, run: str) -> OpenedSlots | None:
        """What was opened to this party; None at all but the consumer, and before the end."""
        task = self._tasks.get(run)
        return None if task is None else task.result

    def repeats(self, run: str) -> int:
        """How often this party was asked again for what was opened before, and sent it as it was."""
        return self._repeats[run]

    def end(self, run: str) -> None:
        """Compute a run no more."""
        self._end(self._tasks.pop(run, None))

    def close(self) -> None:
        """End all computations."""
        for task in list(self._tasks.values()):
            self._end(task)
        self._tasks.clear()

    def _end(self, task: _Task | None) -> None:
        if task is None:
            return
        task.stopped = True
        if task.computation is not None:
            task.computation.stop()
        if task.thread is not None:
            task.thread.join(timeout=_LAST_SECONDS)  # it is a daemon, and its worker ends with it

    def _work(self, task: _Task, folder: ComputeFolder, inputs: ComputeInputs, peers: Mapping[int, TunnelPeer]) -> None:
        def progress(stage: str, done: int, of: int) -> None:
            self._repeats[folder.run] += stage == AGAIN
            task.status = ComputeStatus("computing", stage, done, of)

        try:
            with folder.alone() as is_alone:
                if is_alone:
                    self._compute(task, self._job(folder, inputs, peers, progress))
                else:
                    task.status = ComputeStatus("elsewhere")
        except (IllegalMessage, PartyFailed) as error:
            task.status = ComputeStatus("failed", reason=str(error))
        except LikesetError as error:
            task.status = ComputeStatus("hindered", reason=str(error))
        except Exception as error:  # texts of errors that are not likeset's may quote a value
            task.status = ComputeStatus("hindered", reason=type(error).__name__)
        finally:
            task.ended = time.monotonic()

    def _job(
        self, folder: ComputeFolder, inputs: ComputeInputs, peers: Mapping[int, TunnelPeer], progress: Progress
    ) -> ComputeJob:
        port = folder.port(self.place)
        own = folder.certificate(self.place)
        return ComputeJob(inputs, folder.folder, own, self.place.listen.host, port, peers, progress)

    def _compute(self, task: _Task, job: ComputeJob) -> None:
        computation = task.computation = self.begin(job)
        try:
            while not task.stopped:
                try:
                    task.result = computation.run()
                except NoAnswer as error:
                    task.status = ComputeStatus("waiting", reason=str(error))
                else:
                    task.status = ComputeStatus("done")
                    return
        finally:
            computation.stop()
