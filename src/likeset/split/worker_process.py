"""A worker as its party's own process sees it: frames to it and from it, until it is done or gone."""

import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from likeset.errors import InvalidArgument
from likeset.split.digest import ENGINE_FOLDER
from likeset.split.engine.framing import BadFrame, Frame, pack, read_frame
from likeset.split.engine.task import Task
from likeset.split.environment import check_environment
from likeset.split.opening import Opening

__all__ = ["Ended", "Progress", "WorkerProcess", "try_worker"]

Progress = Callable[[str, int, int], None]
"""Told (stage, done, of): offers prepared, then picks made; or ``AGAIN``."""


@dataclass(frozen=True)
class Ended:
    """How a worker ended.

    Attributes:
        how: ``done``; ``failed``, which can be tried again; ``refused``, which cannot.
        reason: in words, without any value of a run.
    """

    how: str
    reason: str = ""


@dataclass(frozen=True)
class _Store:
    opening: Opening
    offers: NDArray[np.int64]
    target: NDArray[np.int64]
    progress: Progress


_VARIABLES = {
    "OMP_THREAD_LIMIT": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(1 << 26),
}
"""Of a worker, all of them. Threads would wait for each other in a loop at every small product of matrices, and memory
that is given back to the system after each operation comes back as pages to be cleared."""


class WorkerProcess:
    """A running worker.

    Args:
        python: interpreter of the worker's environment.
        log: where what the engine prints goes; nowhere if not given.
    """

    def __init__(self, python: Path, *, log: IO[bytes] | None = None) -> None:
        self._python = python
        # Nothing of our environment: several variables make jax or the engine write down what they compute.
        self._process = subprocess.Popen(  # noqa: S603 - our own file, in the environment that the lock file made
            [str(python), "-I", str(ENGINE_FOLDER / "start.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log or subprocess.DEVNULL,
            env=dict(_VARIABLES),
        )
        _keep_no_dump(self._process.pid)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """End it, and wait until it is gone."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()

    def hello(self) -> dict[str, str]:
        """What a worker says first: the versions of what it is made of; raises as ``try_worker``."""
        told = self._process.stdout
        try:
            frame = None if told is None else read_frame(told)
        except BadFrame:
            frame = None
        if frame is None or frame.kind != "hello":
            reason = "does not start a worker; remove its environment, and make it with `likeset split setup`"
            raise InvalidArgument("python", self._python, reason)
        versions: dict[str, str] = json.loads(frame.parts[0])
        check_environment(versions)
        return versions

    def serve(
        self,
        task: Task,
        *,
        opening: Opening,
        offers: NDArray[np.int64],
        target: NDArray[np.int64],
        progress: Progress,
    ) -> Ended:
        """Give the worker its task, and what it asks for, until it ends.

        Args:
            task: what it computes.
            opening: where its share of the picks is kept.
            offers: this party's additive shares of the offers.
            target: of the target.
            progress: is told how far it is.
        """
        store = _Store(opening, offers, target, progress)
        told = self._process.stdout
        if told is None:
            raise AssertionError
        try:
            while (frame := read_frame(told)) is not None:
                if frame.kind in ("done", "failed", "refused"):
                    return Ended(frame.kind, frame.parts[0].decode("ascii", "replace") if frame.parts else "")
                if frame.kind == "hello":
                    check_environment(json.loads(frame.parts[0]))
                    self._say(pack("task", task.to_bytes()))
                else:
                    self._say(_answered(frame, store))
        except (BrokenPipeError, BadFrame):
            pass
        return Ended("failed", "the worker ended")

    def _say(self, frame: bytes) -> None:
        if self._process.stdin is not None and frame:
            self._process.stdin.write(frame)
            self._process.stdin.flush()


def _keep_no_dump(pid: int) -> None:
    """A worker that crashes leaves no copy of its memory, and with it of shares, on any disk.

    At a limit of 1 byte neither the kernel nor a program that collects dumps keeps any; 0 binds the kernel alone.
    """
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
            most = min(hard, 1) if hard >= 0 else 1  # nobody may raise what is 0
            resource.prlimit(pid, resource.RLIMIT_CORE, (most, most))


def try_worker(python: Path) -> dict[str, str]:
    """Start a worker, let it say what it is made of, and end it: versions by name.

    Raises:
        InvalidArgument: it does not start, or is made of something else than the lock file says.
    """
    worker = WorkerProcess(python)
    try:
        return worker.hello()
    finally:
        worker.close()


def _answered(frame: Frame, store: _Store) -> bytes:
    """What a worker gets for what it said; empty for progress."""
    match frame.kind, frame.parts:
        case "inputs wanted", ():
            shapes = json.dumps([store.offers.shape, store.target.shape]).encode("ascii")
            words = (array.astype("<i8").tobytes() for array in (store.offers, store.target))
            return pack("inputs", shapes, *words)
        case "kept wanted", ():
            return pack("share", store.opening.share())
        case "keep", (share,):
            store.opening.keep_share(share)
            return pack("kept")
        case "opened", (_, _):
            store.opening.keep_picks(pack(frame.kind, *frame.parts))
            return pack("kept")
        case "progress", (stage, done, of):
            store.progress(stage.decode("ascii"), int(done), int(of))
            return b""
    raise BadFrame("a worker said something that none says")
