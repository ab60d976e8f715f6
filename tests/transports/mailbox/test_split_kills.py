"""Parties of a split run by mailbox, and their workers, are killed at random moments: it goes on, or says why not.

Each party is a process of the command line, with a worker of its own. 5 kills by default, ``LIKESET_SPLIT_KILLS`` asks
for more. Who is killed and after how long follows from a seed; what a process does at that moment depends on its pace,
and what must hold, holds whatever that is.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kill_world import CONSUMER, folder_of
from mail_homes import RUN
from split_homes import make_split_homes
from split_world import PYTHON, needs_engine

from chance import SEED
from likeset.homes.consumer.home import ConsumerHome
from likeset.homes.expiry import utc_now
from likeset.homes.owner import kept_receipts, outbox
from likeset.homes.owner.budgets import spent_by_run
from likeset.homes.owner.node import OwnerNode
from likeset.ledger import Ledger
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS
from likeset.split.environment import PYTHON_VARIABLE
from likeset.transports.mailbox.progress import progress_of
from likeset.transports.mailbox.stores import open_store
from likeset.transports.outcomes import Ending

pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    needs_engine,
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to find a party's worker"),
]

KILLS = int(os.environ.get("LIKESET_SPLIT_KILLS", "5"))
OWNERS = ("a", "b")
COMPUTING = (CURATOR, CONSUMER, WITNESS)
_KILLS_IN_A_RUN = 5
_LONGEST_PAUSE = 8.0
_MOST_SECONDS = 900.0
_LIKESET = (sys.executable, "-c", "from likeset.app.cli import main; main()")


@dataclass
class Processes:
    """The parties of one run, each a process.

    Attributes:
        place: of their homes.
        mailbox: its address.
        killed: who was, in order; a worker as ``worker of`` its party.
    """

    place: Path
    mailbox: str
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)

    def start(self, name: str) -> None:
        folder = str(folder_of(self.place, name))
        words = {
            CONSUMER: ("run", "watch", RUN, "--home", folder),
            CURATOR: ("curator", "serve", "--home", folder),
            WITNESS: ("witness", "serve", "--home", folder),
        }.get(name, ("owner", "serve", "--node", folder))
        place = () if name == CONSUMER else ("--mailbox", self.mailbox, "--every", "1")
        with (self.place / f"log-{name}").open("ab") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - our own command
                [*_LIKESET, *words, *place],
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
        for process in self.running.values():
            process.kill()
            process.wait()

    def wait(self, so: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + _MOST_SECONDS
        while not so():
            assert time.monotonic() < end, f"{what}; after {self.killed}; logs in {self.place}"
            time.sleep(0.2)


@contextmanager
def run_of(place: Path) -> Iterator[Processes]:
    place.mkdir()
    (place / "mailbox").mkdir()
    mailbox = open_store((place / "mailbox").as_uri()).address
    make_split_homes(place, OWNERS, mailbox=mailbox, now=utc_now())
    run = ConsumerHome(folder_of(place, CONSUMER)).known(RUN)
    for name in OWNERS:
        with OwnerNode(folder_of(place, name)) as node:
            node.take_invitation(run.invitation.to_bytes())
            assert node.approve(RUN, run.terms.digest, by="Ada").accepted
    processes = Processes(place, mailbox)
    try:
        for name in (*COMPUTING, *OWNERS):
            processes.start(name)
        yield processes
    finally:
        processes.stop()


def receipts_came(place: Path) -> bool:
    for name in OWNERS:
        with OwnerNode(folder_of(place, name)) as node:
            if kept_receipts.check(node, RUN).receipt is None:
                return False
    return True


def check_run(processes: Processes) -> Ending:
    """Everything that must hold when a run is over, however it ended."""
    home = ConsumerHome(folder_of(processes.place, CONSUMER))
    run = home.known(RUN)
    progress = progress_of(home, run)
    assert progress.ended in (Ending.DONE, Ending.UNFINISHED), (progress, processes.killed)
    with Ledger(home.ledger) as ledger:
        assert ledger.verify(messages=True).ok
    if progress.ended is not Ending.DONE:
        return progress.ended
    processes.wait(lambda: receipts_came(processes.place), "receipts do not come")
    for party in (CURATOR, WITNESS):
        shares = folder_of(processes.place, party) / "split"
        processes.wait(lambda shares=shares: not any(shares.glob("*")), f"{party} does not forget its shares")  # type: ignore[misc]
    summary = run.summary()
    assert len(summary.rows) == run.terms.size
    assert len(set(zip(summary.owners.tolist(), summary.handles.tolist(), strict=True))) == run.terms.size
    assert len(summary.absent) == len(summary.flagged) == 0
    for name in OWNERS:
        with OwnerNode(folder_of(processes.place, name)) as node:
            problems, _ = outbox.verify(node)
            verdict = kept_receipts.check(node, RUN)
            assert problems == []
            assert (verdict.problems, verdict.contradictions, verdict.aside) == ((), (), ())
            assert sum(charge.rows for charge in spent_by_run(node.ledger)) == run.terms.rows_per_owner
    return progress.ended


def test_whoever_is_killed_at_random_workers_included_goes_on_and_no_row_is_bought_or_charged_twice(
    tmp_path: Path,
) -> None:
    coins = random.Random(SEED)  # noqa: S311 - no secret
    victims = [*COMPUTING, *(f"worker of {name}" for name in COMPUTING), *OWNERS]
    killed, ends, number = 0, list[Ending](), 0
    while killed < KILLS:
        with run_of(tmp_path / f"run-{number}") as processes:
            for _ in range(3 * _KILLS_IN_A_RUN):
                if processes.running[CONSUMER].poll() is not None or len(processes.killed) >= _KILLS_IN_A_RUN:
                    break
                time.sleep(coins.uniform(0.0, _LONGEST_PAUSE))
                processes.kill(coins.choice(victims))
            processes.wait(lambda: processes.running[CONSUMER].poll() is not None, "the consumer does not end")
            ends.append(check_run(processes))
            killed += len(processes.killed)
        number += 1
    sys.stdout.write(f"{killed} kills in {number} runs, seed {SEED}: {', '.join(ends)}\n")
    assert Ending.DONE in ends
