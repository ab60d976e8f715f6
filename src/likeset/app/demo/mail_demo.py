"""The demo between organisations by mailbox: five owners, a curator and a consumer, each a process, and a folder.

No ports, no certificates: what passes between them lies in the folder, sealed. One owner denies. One is killed after it
said that it takes part; the others' rows come, the curator waits for it, and when it is back the run goes on.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from likeset.app.demo.market_homes import CONSUMER, WITNESS_NAME, MarketHomes
from likeset.app.demo.showcase import EPSILON, SEED, SIZE, with_baselines, write_market
from likeset.app.demo.story import (
    RUN,
    SECONDS,
    NetworkDemo,
    Tell,
    checks,
    decide,
    denying_owner,
    job_between,
    killed_owner,
)
from likeset.errors import RunCancelled
from likeset.homes.consumer.home import KeptRun
from likeset.homes.owner import kept_receipts
from likeset.homes.owner.node import OwnerNode
from likeset.run.mailbox_runs import start, whereabouts
from likeset.run.publish import Render
from likeset.run.remote import collect, conclude, expiry, invite
from likeset.simulation import digits_market
from likeset.split.environment import split_python
from likeset.transports.mailbox.progress import PartyState, RunProgress
from likeset.transports.mailbox.stores import open_store

__all__ = ["CONSUMER", "MailWorld", "run_mail_demo"]

_CURATOR = "curator"
_LIKESET = (sys.executable, "-c", "from likeset.app.cli import main; main()")
_SECONDS_BETWEEN_LOOKS = "0.5"


@dataclass
class MailWorld(MarketHomes):
    """The homes of a market, the folder of their mailbox, and a process for each; arguments as ``MarketHomes``."""

    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)

    @property
    def mailbox(self) -> Path:
        """The folder where letters lie."""
        return self.folder / "mailbox"

    def log(self, name: str) -> Path:
        """Where a process writes what it does."""
        return self.folder / "logs" / f"{name}.log"

    def set_up(self) -> None:
        """A directory for each party, and an empty mailbox."""
        self.make_homes()
        for place in (self.mailbox, self.log(_CURATOR).parent):
            place.mkdir(mode=0o700)

    def serve(self, *names: str) -> None:
        """Let owners, or the curator, look into the mailbox."""
        for name in names:
            home = ("curator", "serve", "--home", self.curator.folder)
            node = ("owner", "serve", "--node", self.node(name))
            third = ("witness", "serve", "--home", self.witness.folder)
            place = ("--mailbox", self.mailbox.as_uri(), "--every", _SECONDS_BETWEEN_LOOKS)
            self.spawn(name, *{_CURATOR: home, WITNESS_NAME: third}.get(name, node), *place)

    def spawn(self, name: str, *words: object) -> None:
        """A process that calls likeset."""
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # many processes share the cores
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(  # noqa: S603 (our own command)
                [*_LIKESET, *map(str, words)], stdout=log, stderr=log, env=environment
            )

    def kill(self, name: str) -> None:
        """Without a warning."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End all processes as an administrator would."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def run_mail_demo(out: Path, *, render: Render, tell: Tell, split: bool = False) -> NetworkDemo:
    """Set everything up, run it, and check what each side kept.

    Args:
        out: a directory.
        render: makes the report.
        tell: called as things happen.
        split: whether the curator computes on shares, with the consumer and a witness.

    Raises:
        InvalidArgument: the curator is to be split, and there is no environment for workers.
    """
    if split:
        split_python()
    market = digits_market(coins=np.random.default_rng(SEED))
    files = write_market(out / "data", market)
    with MailWorld(out, files["owners"], Path(files["schema"]), ("image", "digit"), with_witness=split) as world:
        world.set_up()
        count = "eight" if split else "seven"
        tell("homes", f"{count} directories, a card for each party, and an empty folder for their letters")
        world.serve(_CURATOR, *world.owners)
        if split:
            world.serve(WITNESS_NAME)
            tell("processes", "five owners, a curator and a witness look into that folder; nobody reads a row but")
            tell(CONSUMER, f"who buys it, and only the {SIZE} that it buys: the three compute on shares")
        else:
            tell("processes", "five owners and a curator look into that folder; nobody listens on a port")
        run = invite(world.consumer, job_between(world, files["target"]), expires=expiry(7))
        start(run, open_store(world.mailbox.as_uri()).address)
        words = f"{SIZE} rows, epsilon = {EPSILON:g}, four owners at least"
        tell(CONSUMER, f"leaves terms {run.terms.digest[:12]} there: {words}")
        began = time.monotonic()
        world.spawn(CONSUMER, "run", "watch", RUN, "--home", world.consumer.folder)
        _hold(world, run, tell)
        seconds = time.monotonic() - began
        _wait(world, lambda: _receipts_came(world))
    result = with_baselines(collect(run), market, tell=lambda what: tell("beside it", what))
    done = conclude(world.consumer, run, result, render=render)
    return NetworkDemo(done.result, done.out, seconds, checks(world, run))


def _hold(world: MailWorld, run: KeptRun, tell: Tell) -> None:
    """From the terms to the summary, with one that denies and one that is killed."""
    killed = killed_owner(world)
    _decided(world, killed, tell)
    _wait_for(world, run, lambda progress: progress.parties[killed] is PartyState.TAKES_PART)
    world.kill(killed)
    tell(killed, "is killed (kill -9) after it said that it takes part")
    for name in world.owners:
        if name != killed:
            _decided(world, name, tell)
    progress = _wait_for(world, run, lambda progress: progress.waited_for == (killed,))
    tell(
        "watch",
        f"all have answered, the run has begun; {killed} is waited for, until {progress.until:%F %H:%M} UTC",
    )
    world.serve(killed)
    tell(killed, "is back, finds its letter, and answers")
    progress = _wait_for(world, run, lambda progress: progress.ended is not None)
    if not progress.done:
        raise RunCancelled(f"the demo's run ended otherwise than it should: {progress.ended}")
    tell(CONSUMER, f"has its summary; {denying_owner(world)} did not take part, and nobody was told why")


def _decided(world: MailWorld, name: str, tell: Tell) -> None:
    """Wait until terms are in an owner's inbox, and let its steward decide."""

    def so() -> bool:
        with OwnerNode(world.node(name)) as node:
            return decide(world, node, tell)

    _wait(world, so)


def _receipts_came(world: MailWorld) -> bool:
    """Whether all owners who took part have their receipt."""
    for name in world.owners:
        with OwnerNode(world.node(name)) as node:
            if name != denying_owner(world) and kept_receipts.check(node, RUN).receipt is None:
                return False
    return True


def _wait_for(world: MailWorld, run: KeptRun, so: Callable[[RunProgress], bool]) -> RunProgress:
    """Wait until the consumer knows something."""
    last: list[RunProgress] = []

    def known() -> bool:
        last[:] = [whereabouts(world.consumer, run)]
        return so(last[0])

    _wait(world, known)
    return last[0]


def _wait(world: MailWorld, so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not so():
        ended = [name for name, process in world.processes.items() if process.poll()]
        if ended:
            raise RunCancelled(f"{ended[0]} ended; {world.log(ended[0])} says why")
        if time.monotonic() > end:
            raise RunCancelled(f"the demo waited {SECONDS:.0f} s in vain; this machine may be too busy")
        time.sleep(0.2)
