"""The parties of a run by mailbox, each life of each a process of its own, and where a life can end.

A step is whatever changes something that lasts: the end of a database's transaction (and, if asked for, each statement
of it, which is undone if nothing follows), a file that is renamed or removed, a request to an SFTP server. A life can
be killed before each step and after it.
"""

import contextlib
import hashlib
import os
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np
import paramiko
from kill_world import CONSUMER, OWNERS, folder_of, note_keys

import likeset
from likeset.ledger.ledger import Ledger
from likeset.privacy.noise import SecretNoise, SimulatedNoise
from likeset.protocol.party import CURATOR
from likeset.transports.desks import MailDesk, consumer_desk, curator_desk, owner_desk
from likeset.transports.posts import Look
from likeset.transports.stores import Store, open_store

PARTIES = (CONSUMER, CURATOR, *OWNERS)
WIRE = "wire"
"""The folder with every file that was ever left in the mailbox."""

_CHANGES = ("INSERT", "UPDATE", "DELETE", "CREATE")
_REQUESTS = ("mkdir", "chmod", "posix_rename", "remove")
_PACKAGE = str(Path(likeset.__file__).parent)
_MOST_SECONDS = 600.0


def role_of(name: str) -> str:
    """Owners are alike."""
    return "owner" if name in OWNERS else name


class Mortal:
    """Decides at each step of a process whether that is its end; this one lives.

    Args:
        statements: count each statement of a database that changes something.
    """

    def __init__(self, *, statements: bool = True) -> None:
        self.statements = statements
        self.steps = 0

    def __call__(self, when: str) -> None:
        """A step is about to be done, or was done."""
        self.steps += 1
        if self.dies(when):
            os.kill(os.getpid(), signal.SIGKILL)

    def dies(self, when: str) -> bool:
        """Whether this step is the last."""
        del when
        return False


class NthStep(Mortal):
    """Ends at the step of a number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def dies(self, when: str) -> bool:
        """See ``Mortal``."""
        del when
        return self.steps == self._number


class EveryPlace(Mortal):
    """Ends at the first place in the package's code where nobody of this role ended before.

    A place is a way through the package's own functions to a step, before it or after it.

    Args:
        known: a file with the places where somebody ended; this one adds its own.
        within: count only ways through a module of this name; all if empty.
        statements: see ``Mortal``.
    """

    def __init__(self, known: Path, within: str = "", *, statements: bool = False) -> None:
        super().__init__(statements=statements)
        self._known = known
        self._within = within
        self._places = set(known.read_text().splitlines()) if known.exists() else set[str]()

    def dies(self, when: str) -> bool:
        """See ``Mortal``."""
        way = list(_way(sys._getframe(2)))
        if self._within and not any(module == self._within for module, _ in way):
            return False
        place = f"{when} " + " ".join(f"{module}:{line}" for module, line in reversed(way))
        if place in self._places:
            return False
        descriptor = os.open(self._known, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{place}\n".encode())
        return True


def _way(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            yield Path(frame.f_code.co_filename).stem, frame.f_lineno
        frame = frame.f_back


def _watch(step: Mortal) -> None:
    """From now on this process's steps are counted."""
    connect, statements = sqlite3.connect, step.statements

    class Watched(sqlite3.Connection):
        writes = False

        def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
            if statement.startswith("BEGIN"):
                self.writes = statement == "BEGIN IMMEDIATE"
            ends = self.writes and statement == "COMMIT"
            if not ends and not (statements and statement.startswith(_CHANGES)):
                return super().execute(statement, *given)
            with _around(step):
                return super().execute(statement, *given)

    sqlite3.connect = lambda *given, **options: connect(*given, **options, factory=Watched)  # type: ignore[assignment]
    for module, names in (
        (Path, ("replace",)),
        (os, ("rename", "unlink")),
        (paramiko.SFTPClient, _REQUESTS),
        (paramiko.SFTPFile, ("write",)),
    ):
        for name in names:
            setattr(module, name, _watched(getattr(module, name), step))


def _watched(work: Callable[..., Any], step: Mortal) -> Callable[..., Any]:
    def watched(*given: Any, **options: Any) -> Any:
        with _around(step):
            return work(*given, **options)

    return watched


@contextlib.contextmanager
def _around(step: Mortal) -> Iterator[None]:
    step("before")
    yield
    step("after")


def repeat_noise() -> None:
    """From now on what a party draws follows from what it is asked: a run that is disturbed can be compared."""
    coins: list[SimulatedNoise] = [SimulatedNoise(0)]
    answer = Ledger.answer

    def answered(ledger: Ledger, *given: Any, request: Any, **options: Any) -> bytes:
        digest = hashlib.sha256(request.key.encode()).digest()
        coins[0] = SimulatedNoise(int.from_bytes(digest[:7], "big"))
        return answer(ledger, *given, request=request, **options)

    Ledger.answer = answered  # type: ignore[method-assign, assignment]
    for name in ("discrete_laplace", "discrete_gaussian", "exponential_choice", "bernoulli", "rounding"):

        def draw(_noise: SecretNoise, *given: Any, name: str = name) -> Any:
            return getattr(coins[0], name)(*given)

        setattr(SecretNoise, name, draw)
    np.random.seed(0)  # noqa: NPY002 - nobody should use it; if anybody does, it is the same


def _desk(place: Path, name: str, store: Store) -> MailDesk:
    folder = folder_of(place, name)
    if name == CURATOR:
        return curator_desk(folder, store, after_auction=timedelta(0))
    return consumer_desk(folder, store) if name == CONSUMER else owner_desk(folder, store)


def _note_posts(store: Store, place: Path) -> None:
    write = store.write

    def noted(folder: str, name: str, data: bytes) -> None:
        (place / WIRE / f"{folder}-{name}").write_bytes(data)
        write(folder, name, data)

    store.write = noted  # type: ignore[method-assign]


@dataclass
class Life:
    """A process of a party, which looks at the mailbox a few times and leaves.

    Args:
        place: the folder of the network.
        name: the party's.
        mailbox: the address.
        mortal: at which step it ends.
        looks: how often it looks.
    """

    place: Path
    name: str
    mailbox: str
    mortal: Mortal
    looks: int = 2
    pid: int = field(default=0, init=False)
    _line: Connection = field(init=False)
    _began: float = field(default=0.0, init=False)

    def start(self) -> "Life":
        """Fork it."""
        here, there = Pipe(duplex=False)
        self._began = time.monotonic()
        self.pid = os.fork()
        if not self.pid:
            self._live(there)
        there.close()
        self._line = here
        return self

    def ended(self, kill_after: float | None = None) -> "Ended":
        """Wait for its end, or bring it about after so many seconds."""
        if not self._line.poll(_MOST_SECONDS if kill_after is None else kill_after):
            if kill_after is None:
                raise RuntimeError(f"{self.name} hangs")
            os.kill(self.pid, signal.SIGKILL)
        said: tuple[list[Look], int, str] = ([], 0, "")
        with contextlib.suppress(EOFError):
            said = self._line.recv()
        self._line.close()
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(
                f"{self.name} ended with {code}: {(self.place / f'stderr-{self.name}').read_text()[-3000:]}"
            )
        how: Literal["left", "killed"] = "left" if code == 0 else "killed"
        return Ended(self.name, how, *said, time.monotonic() - self._began)

    def _live(self, line: Connection) -> None:
        code = 1
        try:
            with (self.place / f"stderr-{self.name}").open("ab") as file:
                os.dup2(file.fileno(), 2)
            note_keys(self.place)
            _watch(self.mortal)
            store = open_store(self.mailbox)
            _note_posts(store, self.place)
            desk = _desk(self.place, self.name, store)
            looks = [desk.look() for _ in range(self.looks)]
            word = next((run.ended for run in desk.memory.runs()), "")
            desk.close()
            line.send((looks, self.mortal.steps, word))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


@dataclass(frozen=True)
class Ended:
    """How a life ended.

    Attributes:
        name: whose.
        how: it left, or was killed.
        looks: what came of its looks.
        steps: how many it did.
        word: how the run ended, as far as it knows.
        seconds: how long it took.
    """

    name: str
    how: Literal["left", "killed"]
    looks: list[Look]
    steps: int
    word: str
    seconds: float

    @property
    def idle(self) -> bool:
        """Whether it lived, and nothing came or went."""
        return self.how == "left" and not any(look.something_happened for look in self.looks)
