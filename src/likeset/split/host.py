"""A party's side of a computation on shares: the worker's environment and process, and the record of an opening."""

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from likeset.errors import IllegalMessage, InvalidArgument, NoAnswer, PartyFailed
from likeset.files import keep_private_bytes, make_private_folder
from likeset.protocol.split_run import ComputeInputs, OpenedSlots
from likeset.split.engine.agreement import (
    CONSUMER,
    ENGINE_VERSION,
    PARTIES,
    RUNTIME_FIELDS,
    BadFrame,
    BadSettings,
    Frame,
    ProgramSettings,
    Task,
    checksum_factors,
    pack,
    read_frame,
    unpack,
)

ENGINE_FOLDER = Path(__file__).parent / "engine"
LOCK_FILE = Path(__file__).parent / "requirements-split.lock"


def program_digest(*, folder: Path = ENGINE_FOLDER, lock: Path = LOCK_FILE) -> str:
    """SHA-256 in hexadecimal letters.

    Args:
        folder: where the program's files are.
        lock: names every package of the worker's environment with its hashes.
    """
    whole = hashlib.sha256()
    configuration = json.dumps(RUNTIME_FIELDS, sort_keys=True, separators=(",", ":"))
    named = [("configuration", configuration.encode("ascii")), ("engine", ENGINE_VERSION.encode("ascii"))]
    named += [("lock", lock.read_bytes())]
    named += [(path.name, path.read_bytes()) for path in sorted(folder.glob("*.py"))]
    for part in (b"likeset split program 1", *(piece for name, data in named for piece in (name.encode(), data))):
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


PYTHONS = ("3.10", "3.11")
PYTHON_VARIABLE: Final = "LIKESET_SPLIT_PYTHON"
"""Names the interpreter of a worker's environment that lies somewhere else."""

_PROJECT = Path(__file__).parents[3]
_NEEDED = " or ".join(PYTHONS)
_SETUP = "make it with `likeset split setup`"
_INSTALL_SECONDS = 1800


def split_python() -> Path:
    """The interpreter of the environment that workers are started from here.

    That of the variable ``LIKESET_SPLIT_PYTHON``; else of ``.venv-split`` beside the project's source; else of the
    place that `likeset split setup` makes.

    Raises:
        InvalidArgument: there is no environment, or it is half made.
    """
    return worker_python(environment_folder())


def environment_folder() -> Path:
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        return Path(named).parent.parent
    beside = _PROJECT / ".venv-split"
    return beside if beside.is_dir() and (_PROJECT / "pyproject.toml").is_file() else usual_folder()


def usual_folder() -> Path:
    """The place that `likeset split setup` makes: of this user, and of this version of the lock file."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "likeset" / f"split-{hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()[:12]}"


def worker_python(folder: Path) -> Path:
    """The interpreter of a worker's environment.

    Raises:
        InvalidArgument: there is none, or it is half made.
    """
    path = folder / "bin" / "python"
    if not path.is_file():
        raise InvalidArgument("environment", folder, f"is no environment for workers; {_SETUP}")
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

    Args:
        folder: where it goes; what is there must be an environment that was half made, and is made anew.
        python: an interpreter of version 3.10 or 3.11.

    Raises:
        InvalidArgument: the interpreter is of another version, something else is in the folder, or packages cannot be
            had.
    """
    if folder.exists() and not ((folder / "pyvenv.cfg").is_file() and _missing(folder)):
        raise InvalidArgument("environment", folder, "is there already; remove it first, or name another directory")
    version = _told([python, "-I", "-c", "import sys; print('{}.{}'.format(*sys.version_info))"], "python", python)
    if version.strip() not in PYTHONS:
        raise InvalidArgument(
            "python", python, f"is of version {version.strip()}; workers need {_NEEDED}: name one with --python"
        )
    if folder.exists():
        shutil.rmtree(folder)
    _told([python, "-I", "-m", "venv", str(folder)], "environment", str(folder))
    path = folder / "bin" / "python"
    install = [str(path), "-I", "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(LOCK_FILE)]
    _told(install, "environment", str(folder))
    return worker_python(folder)


def locked_versions() -> dict[str, str]:
    lines = LOCK_FILE.read_text(encoding="ascii").splitlines()
    return {match[1]: match[2] for line in lines if (match := re.match(r"([\w.-]+)==([\w.]+)", line))}


def check_environment(versions: dict[str, str]) -> None:
    """What a worker says about its environment is what the lock file says.

    Raises:
        InvalidArgument: it is not.
    """
    locked = locked_versions()
    for name, version in sorted(versions.items()):
        if name == "python":
            if version not in PYTHONS:
                reason = f"has Python {version}; workers need {_NEEDED}; remove it and {_SETUP}"
                raise InvalidArgument("environment", version, reason)
        elif locked.get(name) != version:
            reason = f"has another {name} than the lock file ({locked.get(name)}); remove it and {_SETUP}"
            raise InvalidArgument("environment", version, reason)


def _told(command: list[str], argument: str, value: str) -> str:
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


_SHARE, _PICKS = "opening.share", "opened.frame"


class Opening:
    """Of one run.

    Args:
        folder: the party's own for the run; made when something is kept.

    Attributes:
        record: the file of the party's share; empty when the share is gone.
    """

    def __init__(self, folder: Path) -> None:
        self.record, self._picks = folder / _SHARE, folder / _PICKS

    @property
    def began(self) -> bool:
        return self.record.exists()

    def share(self) -> bytes:
        """This party's share of the picks; empty if nothing was opened.

        Raises:
            PartyFailed: picks were opened, and the share is gone.
        """
        if not self.began:
            return b""
        share = self.record.read_bytes()
        if not share:
            raise PartyFailed("picks were opened already, and this party no longer has its share of them")
        return share

    def keep_share(self, share: bytes) -> None:
        """On disk when this returns, for good.

        Raises:
            PartyFailed: another one is kept.
        """
        if self.began:
            raise PartyFailed("picks were opened already, and nothing else may be opened")
        make_private_folder(self.record.parent)
        keep_private_bytes(self.record, share)

    def picks(self) -> bytes | None:
        """What was opened to this party; the consumer's only."""
        return self._picks.read_bytes() if self._picks.exists() else None

    def keep_picks(self, frame: bytes) -> None:
        if self.picks() is None:
            keep_private_bytes(self._picks, frame)

    def forget_share(self) -> None:
        if self.began:
            keep_private_bytes(self.record, b"")


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
        return self._process.pid

    def kill(self) -> None:
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

    def was_refused(self, attempt: Attempt) -> bool: ...


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
        data = self._opening.picks()
        if data is None or self.rank != CONSUMER:
            return None
        seed, words = unpack(data).parts
        payloads = np.frombuffer(words, dtype="<i8").astype(np.int64).reshape(self.settings.size, -1)
        return OpenedPicks(payloads[:, 0] - 1, payloads[:, 1:-1], payloads[:, -1], seed)

    def stop(self) -> None:
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


def program_settings(inputs: ComputeInputs) -> ProgramSettings:
    """What the public program is told before it starts.

    Raises:
        InvalidArgument: the program does not take such numbers.
    """
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


def computing_party(
    inputs: ComputeInputs, *, folder: Path, python: Path, meeting: Meeting, log: IO[bytes] | None = None
) -> SplitParty:
    """The party that computes on these inputs; ``run`` it, and give what it returns to ``opened_slots``.

    Args:
        inputs: of ``ComputeParty.inputs``.
        folder: for its share of the picks; this party's own, and the same after a restart.
        python: interpreter of the worker's environment.
        meeting: how to find the others.
        log: where what the engine prints goes; nowhere if not given.

    Raises:
        InvalidArgument: the program here is another one than the terms name, or does not take such numbers.
    """
    party = SplitParty(
        inputs.rank,
        program_settings(inputs),
        program=inputs.program,
        inputs=inputs.digest,
        folder=folder,
        python=python,
        meeting=meeting,
        log=log,
    )
    party.put_shares(inputs.offer_words, inputs.target_words)
    return party


def opened_slots(picks: OpenedPicks, inputs: ComputeInputs) -> OpenedSlots:
    """What the computation opened, as the consumer's party takes it."""
    factors = checksum_factors(picks.seed, len(inputs.lows)).astype(np.int64)
    return OpenedSlots(picks.numbers, picks.secrets, picks.checksums, factors)


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
        return LocalSeat(self, rank)

    def close(self) -> None:
        self._folder.cleanup()

    def join(self, rank: int, timeout: float, worker: WorkerProcess) -> Attempt:
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
        with self._turn:
            if how != "done" and self._attempt is not None and self._attempt.name == attempt.name:
                self._refused |= {attempt.name} if how == "refused" else set()
                for worker in self._workers.values():
                    worker.kill()

    def was_refused(self, attempt: Attempt) -> bool:
        with self._turn:
            return attempt.name in self._refused


class LocalSeat:
    """A party's place at a meeting."""

    def __init__(self, meeting: LocalMeeting, rank: int) -> None:
        self._meeting, self._rank = meeting, rank

    def join(self, timeout: float, worker: WorkerProcess) -> Attempt:
        return self._meeting.join(self._rank, timeout, worker)

    def leave(self, attempt: Attempt, *, how: str) -> None:
        self._meeting.leave(attempt, how=how)

    def was_refused(self, attempt: Attempt) -> bool:
        return self._meeting.was_refused(attempt)
