"""The parties of a split run by mailbox, each a process of the command line with a worker of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kill_world import CONSUMER, folder_of
from mail_homes import RUN
from split_homes import make_split_homes
from split_world import PYTHON

from likeset.homes.consumer_home import ConsumerHome
from likeset.homes.mail import utc_now
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS
from likeset.split.host import PYTHON_VARIABLE
from likeset.transports.stores import open_store

OWNERS = ("a", "b")
COMPUTING = (CURATOR, CONSUMER, WITNESS)
_MOST_SECONDS = 900.0
_LIKESET = (sys.executable, "-c", "from likeset.app.cli import main; main()")


@dataclass
class Processes:
    """The parties of one run, each a process.

    Attributes:
        place: of their homes.
        mailbox: its address.
        command: for each party, begins the command line.
        killed: who was, in order; a worker as ``worker of`` its party.
    """

    place: Path
    mailbox: str
    command: Callable[[str], tuple[str, ...]] = lambda _: _LIKESET
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)

    def start(self, name: str) -> None:
        """A party's process, which says what it says into a file."""
        folder = str(folder_of(self.place, name))
        words = {
            CONSUMER: ("run", "watch", RUN, "--home", folder),
            CURATOR: ("curator", "serve", "--home", folder),
            WITNESS: ("witness", "serve", "--home", folder),
        }.get(name, ("owner", "serve", "--node", folder))
        place = () if name == CONSUMER else ("--mailbox", self.mailbox, "--every", "1")
        with (self.place / f"log-{name}").open("ab") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - our own command
                [*self.command(name), *words, *place],
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
            return
        process = self.running[victim]
        if process.poll() is None:
            process.kill()
            process.wait()
            self.killed.append(victim)
            self.start(victim)

    def workers(self, name: str) -> list[int]:
        """The processes that a party started."""
        children: list[int] = []
        for thread in Path(f"/proc/{self.running[name].pid}/task").glob("*/children"):
            try:
                children += [int(word) for word in thread.read_text(encoding="ascii").split()]
            except OSError:
                continue  # it ended meanwhile
        return children

    def stop(self) -> None:
        """End all of them."""
        for process in self.running.values():
            process.kill()
            process.wait()

    def wait(self, so: Callable[[], bool], what: str) -> None:
        """Until something is so; fails, in these words, when it is not after a long time."""
        end = time.monotonic() + _MOST_SECONDS
        while not so():
            assert time.monotonic() < end, f"{what}; after {self.killed}; logs in {self.place}"
            time.sleep(0.2)


@contextmanager
def run_of(
    place: Path,
    *,
    command: Callable[[str], tuple[str, ...]] = lambda _: _LIKESET,
    make_homes: Callable[..., None] = make_split_homes,
) -> Iterator[Processes]:
    """All parties of a run that every owner has approved, at work; they are stopped at the end.

    Args:
        place: for everything.
        command: for each party, begins the command line.
        make_homes: makes everybody's homes, as ``make_split_homes`` does.
    """
    place.mkdir()
    (place / "mailbox").mkdir()
    mailbox = open_store((place / "mailbox").as_uri()).address
    make_homes(place, OWNERS, mailbox=mailbox, now=utc_now())
    run = ConsumerHome(folder_of(place, CONSUMER)).known(RUN)
    for name in OWNERS:
        with OwnerNode(folder_of(place, name)) as node:
            node.take_invitation(run.invitation.to_bytes())
            assert node.approve(RUN, run.terms.digest, by="Ada").accepted
    processes = Processes(place, mailbox, command)
    try:
        for name in (*COMPUTING, *OWNERS):
            processes.start(name)
        yield processes
    finally:
        processes.stop()
