"""One party's part in a computation on shares: the worker's environment, its process, and the opening of picks.

A home gives ``SplitParty`` what the party puts in, an ``OpeningFile`` that stores the record of an opening with the
party's share, and a ``Meeting`` that finds the others: ``likeset.split.links.TunnelMeeting`` between organisations.
``run`` returns what is opened. ``compute_here`` does all of it for three parties of one process.
"""

import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from likeset.errors import IllegalMessage, InvalidArgument, NoAnswer, PartyFailed
from likeset.files import keep_private_bytes, make_private_folder
from likeset.protocol.split import ComputeInputs, OpenedSlots
from likeset.split.engine.agreement import (
    PARTIES,
    BadFrame,
    BadSettings,
    Frame,
    ProgramSettings,
    Task,
    checksum_factors,
    pack,
    read_frame,
)
from likeset.trust.shares import ComputeRole

ENGINE_FOLDER = Path(__file__).parent / "engine"
LOCK_FILE = Path(__file__).parent / "requirements-split.lock"


def program_digest() -> str:
    """SHA-256 of all files of the worker, runtime configuration included, and of the lock file of its environment."""
    whole = hashlib.sha256()
    named = [("lock", LOCK_FILE), *((path.name, path) for path in sorted(ENGINE_FOLDER.glob("*.py")))]
    pieces = (piece for name, path in named for piece in (name.encode(), path.read_bytes()))
    for part in (b"likeset split program 2", *pieces):
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


# The worker's environment.

PYTHONS = ("3.10", "3.11")
PYTHON_VARIABLE: Final = "LIKESET_SPLIT_PYTHON"
"""Names the interpreter of a worker's environment that lies somewhere else."""

_PROJECT = Path(__file__).parents[3]
_SETUP = "make it with `likeset split setup`"
_INSTALL_SECONDS = 1800


def split_python() -> Path:
    """The interpreter that workers are started with; ``InvalidArgument`` if there is no whole environment."""
    return worker_python(environment_folder())


def environment_folder() -> Path:
    """Of ``LIKESET_SPLIT_PYTHON``; else ``.venv-split`` beside the source; else what `likeset split setup` makes.

    That one belongs to this user, and to this version of the lock file.
    """
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        return Path(named).parent.parent
    beside = _PROJECT / ".venv-split"
    if beside.is_dir() and (_PROJECT / "pyproject.toml").is_file():
        return beside
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "likeset" / f"split-{hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()[:12]}"


def worker_python(folder: Path) -> Path:
    path = folder / "bin" / "python"
    if not path.is_file():
        raise InvalidArgument("environment", folder, f"is not an environment for workers; {_SETUP}")
    missing = _missing(folder)
    if missing:
        reason = f"is half made: {len(missing)} of its packages are missing or of another version; {_SETUP}"
        raise InvalidArgument("environment", folder, reason)
    return path


def _missing(folder: Path) -> list[str]:
    """Packages of the lock file that are not there, or not to their last file: an installer writes its record last."""
    records = {path.parent.name.lower() for path in folder.glob("lib/python3*/site-packages/*.dist-info/RECORD")}
    wanted = {name: f"{name.replace('-', '_')}-{version}.dist-info" for name, version in locked_versions().items()}
    return [name for name, record in wanted.items() if record.lower() not in records]


def make_environment(folder: Path, *, python: str = sys.executable) -> Path:
    """Make the environment from the lock file, checking every hash, and return its interpreter.

    What is in the folder must be an environment that was half made, and is made anew.
    """
    if folder.exists() and not ((folder / "pyvenv.cfg").is_file() and _missing(folder)):
        raise InvalidArgument("environment", folder, "already exists; remove it first, or name another directory")
    version = _output_of([python, "-I", "-c", "import sys; print('{}.{}'.format(*sys.version_info))"], "python", python)
    if version.strip() not in PYTHONS:
        reason = f"is of version {version.strip()}; workers need {' or '.join(PYTHONS)}: name one with --python"
        raise InvalidArgument("python", python, reason)
    if folder.exists():
        shutil.rmtree(folder)
    _output_of([python, "-I", "-m", "venv", str(folder)], "environment", str(folder))
    path = folder / "bin" / "python"
    install = [str(path), "-I", "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(LOCK_FILE)]
    _output_of(install, "environment", str(folder))
    return worker_python(folder)


def locked_versions() -> dict[str, str]:
    lines = LOCK_FILE.read_text(encoding="ascii").splitlines()
    return {match[1]: match[2] for line in lines if (match := re.match(r"([\w.-]+)==([\w.]+)", line))}


def _output_of(command: list[str], argument: str, value: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user named, with our own arguments
            command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidArgument(argument, value, f"cannot be used: {type(error).__name__}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InvalidArgument(argument, value, f"cannot be used: {last}")
    return done.stdout


# The opening of picks.


@dataclass(frozen=True)
class OpeningFile:
    """Stores, for one party and one run, that picks were opened: the file is the record, and holds the party's share.

    ``store`` returns when both are durable; only then is the share sent. A repeated request gets the stored bytes. A
    share is never computed or stored again: ``store`` refuses a second one, and a record without a share ends the run.
    """

    folder: Path

    @property
    def record(self) -> Path:
        return self.folder / "opening.share"

    @property
    def began(self) -> bool:
        return self.record.exists()

    def share(self) -> bytes:
        """The stored share; empty if nothing was opened. ``PartyFailed`` if there is a record without a share."""
        if not self.began:
            return b""
        share = self.record.read_bytes()
        if not share:
            raise PartyFailed("picks were opened already, and this party no longer has its share of them")
        return share

    def store(self, share: bytes) -> None:
        if self.began:
            raise PartyFailed("picks were opened already, and nothing else may be opened")
        make_private_folder(self.folder)
        keep_private_bytes(self.record, share)

    def forget_share(self) -> None:
        if self.began:
            keep_private_bytes(self.record, b"")


# A worker.

Progress = Callable[[str, int, int], None]
"""Told (stage, done, of): offers prepared, then picks made; or ``AGAIN``."""

_VARIABLES = {
    "OMP_THREAD_LIMIT": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(1 << 26),
}
"""Of a worker, all of them. Threads would wait for each other in a loop at every small product of matrices, and memory
that is given back to the system after each operation comes back as pages to be cleared."""


class WorkerProcess:
    """A running worker; what the engine prints goes nowhere."""

    def __init__(self, python: Path) -> None:
        self._python = python
        # Nothing of our environment: several variables make jax or the engine write down what they compute.
        self._process = subprocess.Popen(  # noqa: S603 - our own file, in the environment that the lock file made
            [str(python), "-I", str(ENGINE_FOLDER / "start.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(_VARIABLES),
        )
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        _keep_no_dump(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()

    def hello(self) -> dict[str, str]:
        """What a worker says first: its versions, which ``worker_python`` compared with the lock file."""
        try:
            frame = read_frame(self._stdout)
        except BadFrame:
            frame = None
        if frame is None or frame.kind != "hello":
            reason = "does not start a worker; remove its environment, and make it with `likeset split setup`"
            raise InvalidArgument("python", self._python, reason)
        versions: dict[str, str] = json.loads(frame.parts[0])
        return versions

    def serve(self, task: Task, answer: Callable[[Frame], bytes]) -> tuple[str, str]:
        """Give the worker its task, and an answer to what it says, until it ends: how, and why.

        How: ``done``; ``failed``, which can be tried again; ``refused``, which cannot. Why has no value of a run.
        """
        with contextlib.suppress(BrokenPipeError, BadFrame):
            self._say(pack("task", task.to_bytes()))
            while (frame := read_frame(self._stdout)) is not None:
                if frame.kind in ("done", "failed", "refused"):
                    return frame.kind, b"".join(frame.parts).decode("ascii", "replace")
                self._say(answer(frame))
        return "failed", "the worker ended"

    def _say(self, frame: bytes) -> None:
        self._stdin.write(frame)
        self._stdin.flush()


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
    with contextlib.closing(WorkerProcess(python)) as worker:
        return worker.hello()


# A party.

_PAUSE = 0.2  # seconds between two attempts
_SILENCE = 300  # seconds without a message after which the engine gives an attempt up
LAST_SECONDS = 300.0  # that a party that is done waits for the others


@dataclass(frozen=True)
class Attempt:
    """One attempt at computing together: its name, alike at all parties and never used again, and addresses by rank."""

    name: str
    addresses: tuple[str, ...]  # where this party's engine reaches each rank: ``unix:`` and a path


class Meeting(Protocol):
    def join(self, timeout: float, worker: WorkerProcess) -> Attempt:
        """Begin an attempt when all parties are there; ``NoAnswer`` if one does not come in so many seconds.

        The worker is killed when another party leaves the attempt before it is done.
        """

    def leave(self, how: str) -> str:
        """This party's worker ended, ``done``, ``failed`` or ``refused``; returns how the attempt ended for all.

        Unless it is done, the attempt is over for the others at once. Where it is done, this returns when the others
        are done as well, or one of them has stopped: until then they may be reading what the worker sent last.
        """


class SplitParty:
    """A compute party of one run; it has the same inputs after a restart."""

    def __init__(self, inputs: ComputeInputs, *, opening: OpeningFile, python: Path, meeting: Meeting) -> None:
        if inputs.program != program_digest():
            reason = "is not the digest of the program here: the terms name another version of likeset"
            raise InvalidArgument("program", inputs.program, reason)
        self._settings, self._inputs = _program_settings(inputs), inputs
        self._opening, self._python, self._meeting = opening, python, meeting
        self._opened: OpenedSlots | None = None
        self.worker: WorkerProcess | None = None

    def run(self, *, progress: Progress | None = None, patience: float = 600.0) -> OpenedSlots | None:
        """Compute with the others until picks are opened: the consumer gets them, all others None.

        A computation that stops before its opening begins anew with the same inputs. What was opened is sent again.
        After ``patience`` seconds without any progress it gives up, and may be called again.
        """
        moved = time.monotonic()

        def note_progress(stage: str, done: int, of: int) -> None:
            nonlocal moved
            moved = time.monotonic()
            if progress is not None:
                progress(stage, done, of)

        while True:
            how, reason = self._attempt(note_progress, patience)
            if how == "done":
                return self._opened
            if how == "refused":
                raise IllegalMessage(f"the compute parties cannot work together: {reason}")
            if time.monotonic() - moved > patience:
                raise NoAnswer(f"the computation stopped: {reason}; call again")
            time.sleep(_PAUSE)

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def _attempt(self, progress: Progress, patience: float) -> tuple[str, str]:
        self._opening.share()  # a record without a share: nothing is computed
        self.worker = WorkerProcess(self._python)
        try:
            self.worker.hello()
            attempt = self._meeting.join(patience, self.worker)
            inputs, how, reason = self._inputs, "failed", "this party stopped"
            public = inputs.rank, inputs.program, inputs.digest
            task = Task(self._settings, *public, attempt.name, attempt.addresses, _SILENCE)
            try:
                how, reason = self.worker.serve(task, lambda frame: self._answer(frame, progress))
            finally:
                ended = self._meeting.leave(how)
            if self._opened is not None:
                return "done", ""
            if how == "refused" or how == ended:
                return how, reason
            if ended == "refused":
                return ended, "another of them refused this attempt, and its own log says why"
            return ended, "another of them stopped"
        finally:
            self.stop()

    def _answer(self, frame: Frame, progress: Progress) -> bytes:
        """What a worker gets for what it said; empty for progress."""
        match frame.kind, frame.parts:
            case "inputs wanted", ():
                words = self._inputs.offer_words, self._inputs.target_words
                shapes = json.dumps([array.shape for array in words]).encode("ascii")
                return pack("inputs", shapes, *(array.astype("<i8").tobytes() for array in words))
            case "share wanted", ():
                return pack("share", self._opening.share())
            case "store", (share,):
                self._opening.store(share)
                return pack("stored")
            case "opened", (seed, data):
                payloads = np.frombuffer(data, dtype="<i8").astype(np.int64).reshape(self._settings.size, -1)
                factors = checksum_factors(seed, self._settings.columns)
                self._opened = OpenedSlots(payloads[:, 0] - 1, payloads[:, 1:-1], payloads[:, -1], factors)
                return pack("taken")
            case "progress", (stage, done, of):
                progress(stage.decode("ascii"), int(done), int(of))
                return b""
        raise BadFrame("a worker said something that none says")


def _program_settings(inputs: ComputeInputs) -> ProgramSettings:
    try:
        return ProgramSettings(
            offers=inputs.offers,
            target_rows=inputs.target_rows,
            size=inputs.size,
            gamma=inputs.gamma,
            lows=inputs.lows,
            highs=inputs.highs,
        )
    except BadSettings as error:
        raise InvalidArgument("terms", "split", f"cannot be computed: {error}") from None


# Three parties in one process.


class LocalMeeting:
    """Where the parties of one process meet; their engines reach each other's sockets directly."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._here: list[WorkerProcess] = []
        self._workers: list[WorkerProcess] = []
        self._attempt, self._ended, self._done = Attempt("", ()), "", 0
        self._folder = tempfile.TemporaryDirectory(prefix="likeset-")

    def close(self) -> None:
        self._folder.cleanup()

    def join(self, timeout: float, worker: WorkerProcess) -> Attempt:
        with self._turn:
            self._here.append(worker)
            if len(self._here) == PARTIES:
                folder = Path(tempfile.mkdtemp(dir=self._folder.name))
                self._attempt = Attempt(folder.name, tuple(f"unix:{folder}/{rank}" for rank in range(PARTIES)))
                self._workers, self._here, self._ended, self._done = self._here, [], "", 0
                self._turn.notify_all()
            elif not self._turn.wait_for(lambda: worker in self._workers, timeout):
                self._here.remove(worker)
                raise NoAnswer("another compute party did not come in time")
            return self._attempt

    def leave(self, how: str) -> str:
        with self._turn:
            self._turn.notify_all()
            if how == "done":
                self._done += 1
                self._turn.wait_for(lambda: self._done == PARTIES or self._ended, LAST_SECONDS)
                return self._ended or how
            self._ended = self._ended or how
            for worker in self._workers:
                worker.kill()
            return self._ended


def compute_here(inputs: Mapping[ComputeRole, ComputeInputs], *, progress: Progress | None = None) -> OpenedSlots:
    """Compute with a worker for each party, all on this machine; returns what is opened to the consumer."""
    python, meeting = split_python(), LocalMeeting()
    with tempfile.TemporaryDirectory(prefix="likeset-split-") as folder, contextlib.closing(meeting):
        parties = [
            SplitParty(each, opening=OpeningFile(Path(folder) / str(each.rank)), python=python, meeting=meeting)
            for each in inputs.values()
        ]
        with ThreadPoolExecutor(PARTIES) as threads:
            first, *others = parties
            runs = [threads.submit(first.run, progress=progress), *(threads.submit(party.run) for party in others)]
        (opened,) = [slots for slots in [run.result() for run in runs] if slots is not None]
        return opened
