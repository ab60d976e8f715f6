"""The parties of a split run by mailbox, each a process of the command line with a worker of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from between_world import OWNERS, Market
from home_world import CONSUMER, Clock
from split_homes import COMPUTING, listen_here
from split_world import PYTHON

from likeset.protocol.terms import WITNESS
from likeset.run import between
from likeset.split.host import PYTHON_VARIABLE

RUN = "run-1"
_MOST_SECONDS = 900.0
_LIKESET = (sys.executable, "-c", "from likeset.app.start import main; main()")

Command = Callable[[str], tuple[str, ...]]


@dataclass
class Processes:
    """The parties of one run.

    Attributes:
        command: for each party, begins the command line.
        killed: who was, in order; a worker as ``worker of`` its party.
    """

    place: Path
    command: Command = lambda _: _LIKESET
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)

    def start(self, name: str) -> None:
        home = str(self.place / name)
        words = ("up", home, "--no-console", "--every", "1")
        if name == CONSUMER:
            words = ("run", "watch", RUN, "--home", home)
        with (self.place / f"log-{name}").open("ab") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - our own command
                [*self.command(name), *words],
                stdout=log,
                stderr=log,
                env={**os.environ, PYTHON_VARIABLE: str(PYTHON), "OPENBLAS_NUM_THREADS": "1"},
            )

    def kill(self, victim: str) -> None:
        """End a party, which comes back at once, or its worker."""
        if victim.startswith("worker of "):
            children = self.workers(victim.removeprefix("worker of "))
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            self.killed += [victim] if children else []
        elif self.running[victim].poll() is None:
            self.running[victim].kill()
            self.running[victim].wait()
            self.killed.append(victim)
            self.start(victim)

    def workers(self, name: str) -> list[int]:
        children: list[int] = []
        for thread in Path(f"/proc/{self.running[name].pid}/task").glob("*/children"):
            try:
                children += [int(word) for word in thread.read_text(encoding="ascii").split()]
            except OSError:
                continue  # it ended meanwhile
        return children

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def wait(self, so: Callable[[], bool], what: str) -> None:
        """Until something is so; fails, in these words, when it is not after a long time."""
        end = time.monotonic() + _MOST_SECONDS
        while not so():
            assert time.monotonic() < end, f"{what}; after {self.killed}; logs in {self.place}"
            time.sleep(0.2)


def split_market(place: Path) -> Market:
    return Market(place, witness=True, clock=Clock(datetime.now(UTC)))


@contextmanager
def run_of(
    place: Path, *, command: Command = lambda _: _LIKESET, make: Callable[[Path], Market] = split_market, **job: Any
) -> Iterator[Processes]:
    """All parties of a run at work, with homes by ``make`` and what differs in the job; they are stopped at the end."""
    place.mkdir()
    with pytest.MonkeyPatch.context() as patched, make(place) as market:
        patched.setattr(between, "split_python", lambda: None)
        listen_here(place)
        run = market.invite(witness=WITNESS, quorum=1, **job)
        market.consumer.start_run(run, market.address)
    processes = Processes(place, command)
    try:
        for name in (*COMPUTING, *OWNERS):
            processes.start(name)
        yield processes
    finally:
        processes.stop()
