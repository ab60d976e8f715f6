"""The demo between organisations by mailbox: five owners, a curator and a consumer, each a process, and a folder.

No ports, no certificates: what passes between them lies in the folder, sealed. One owner denies. One is killed after it
said that it takes part; the others' rows come, the curator waits for it, and when it is back the run goes on.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from likeset import documents
from likeset.app.demo.showcase import EPSILON, SEED, SIZE, with_baselines, write_market
from likeset.errors import RunCancelled
from likeset.homes import owner_node, review
from likeset.homes.consumer_home import ConsumerHome, KeptRun, make_consumer_home
from likeset.homes.curator_home import CuratorHome, make_curator_home
from likeset.homes.home import PartyHome
from likeset.homes.owner_node import Home, OwnerNode, make_home, spent_by_run
from likeset.homes.pinning import pins_to_change
from likeset.homes.witness_home import WitnessHome, make_witness_home
from likeset.run.job import Job
from likeset.run.runs import Render, collect, conclude, expiry, invite, start
from likeset.simulation import digits_market
from likeset.split.host import split_python
from likeset.transports.desks import PartyState, RunProgress, whereabouts
from likeset.transports.stores import open_store
from likeset.trust.cards import Role

CONSUMER = "clinic"
WITNESS_NAME = "university"
_LISTEN = "127.0.0.1:0"
_BY = "the demo"
RUN = "digits"
SECONDS = 600.0
"""That anything may take before the demo gives up."""
_APPROVER = "the demo's automatic approver"
Tell = Callable[[str, str], None]
"""Called with who does something, and what."""
_CURATOR = "curator"
_LIKESET = (sys.executable, "-c", "from likeset.app.cli import main; main()")
_SECONDS_BETWEEN_LOOKS = "0.5"


@dataclass
class MarketHomes:
    """Where everything lies.

    Args:
        folder: a directory.
        owners: the table of each owner.
        schema: of all tables.
        columns: that may leave an owner.
        most_rows: that may leave an owner, in a run and in total.
        epsilon: what the others may learn about an owner's rows, in a run and in total.
        manual_approval: whether somebody decides about each run at each owner.
        with_witness: whether there is a witness, and the curator is split; its tunnels listen on this machine alone.
    """

    folder: Path
    owners: Mapping[str, str]
    schema: Path
    columns: tuple[str, ...]
    most_rows: int = 500
    epsilon: float = 0.0
    manual_approval: bool = True
    with_witness: bool = False

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()

    def node(self, name: str) -> Path:
        return self.folder / "owners" / name

    @property
    def curator(self) -> CuratorHome:
        return CuratorHome(self.folder / "curator")

    @property
    def consumer(self) -> ConsumerHome:
        return ConsumerHome(self.folder / CONSUMER)

    @property
    def witness(self) -> WitnessHome:
        return WitnessHome(self.folder / WITNESS_NAME)

    def make_homes(self) -> None:
        """A directory for each party, and everybody's card pinned where it must be."""
        listen = _LISTEN if self.with_witness else ""
        make_curator_home(self.curator.folder, listen=listen).add_schema(self.schema)
        make_consumer_home(self.consumer.folder, name=CONSUMER, listen=listen)
        if self.with_witness:
            make_witness_home(self.witness.folder, name=WITNESS_NAME, listen=listen)
        for name in self.owners:
            self._make_node(name)
        self._introduce()

    def _make_node(self, name: str) -> None:
        """An owner's node; its policy names the consumer and bounds what may leave."""
        self.node(name).parent.mkdir(exist_ok=True)
        home = make_home(self.node(name), name=name)
        limits = {"epsilon": self.epsilon, "delta": 1e-5, "rows": self.most_rows}
        policy: dict[str, Any] = {
            "likeset": "owner",
            "version": 1,
            "name": name,
            "consumers": [CONSUMER],
            "purposes": ["to recognise *"],
            "columns": list(self.columns),
            "smallest_group": 1,
            "per_run": dict(limits),
            "total": limits,
            "manual_approval": self.manual_approval,
        }
        documents.write(home.policy, policy)
        with OwnerNode(home.folder) as node:
            node.registry.add("images", str(Path(self.owners[name]).resolve()), schema=self.schema)

    def _introduce(self) -> None:
        """Pin everybody's card at everybody else's; between houses people compare fingerprints by telephone first."""
        owners = [Home(self.node(name)) for name in self.owners]
        for owner in owners:
            _pin(owner, self.consumer, "consumer")
            _pin(owner, self.curator, "curator")
            _pin(self.consumer, owner, "owner")
        _pin(self.consumer, self.curator, "curator")
        _pin(self.curator, self.consumer, "consumer")
        if self.with_witness:
            _pin(self.witness, self.consumer, "consumer")
            _pin(self.witness, self.curator, "curator")
            for home in (self.consumer, *owners):
                _pin(home, self.witness, "witness")


def _pin(home: PartyHome, other: PartyHome, role: Role) -> None:
    with pins_to_change(home, by=_BY) as pins:
        pins.pin(other.card(), role, fingerprint=None)


@dataclass(frozen=True, eq=False)
class NetworkDemo:
    """What came of it.

    Attributes:
        result: as in ``result.json``.
        out: the directory of the result.
        seconds: how long the run itself took.
        checks: what was checked afterwards, and whether it holds.
    """

    result: Mapping[str, Any]
    out: Path
    seconds: float
    checks: tuple[tuple[str, bool], ...]


def denying_owner(world: MarketHomes) -> str:
    return list(world.owners)[-1]


def killed_owner(world: MarketHomes) -> str:
    return list(world.owners)[-2]


def job_between(world: MarketHomes, target: str) -> Job:
    return Job.of(
        schema=str(world.schema),
        target=target,
        owners={name: f"network:{name}" for name in world.owners},
        size=SIZE,
        epsilon=EPSILON,
        quorum=len(world.owners) - 1,
        consumer=CONSUMER,
        purpose="to recognise handwritten 3s and 4s",
        run=RUN,
        **({"curator": "split", "witness": WITNESS_NAME} if world.with_witness else {}),
    )


def decide(world: MarketHomes, node: OwnerNode, tell: Tell) -> bool:
    """Do for a steward what it would do by hand: approve or deny what waits; whether anything did."""
    for record in node.runs.waiting():
        terms = record.latest
        if node.name == denying_owner(world):
            node.deny(record.run, by=_APPROVER, reason="no contract with this consumer yet")
            tell(node.name, f"{_APPROVER} denies; the others hear only that it does not take part")
            return True
        verdict = node.approve(record.run, terms.digest, by=_APPROVER)
        said = f"approves {terms.rows_per_owner} rows at most" if verdict.accepted else "finds it against the policy"
        tell(node.name, f"{_APPROVER} {said}, terms {terms.digest[:12]}")
        return True
    return False


def checks(world: MarketHomes, run: KeptRun) -> tuple[tuple[str, bool], ...]:
    """What a suspicious reader would look at: transcripts, logs, and whether rows left once."""
    rows = run.terms.rows_per_owner
    held: dict[str, bool] = {"transcripts agree": True, "audit logs hold": True, "rows were charged once": True}
    with ExitStack() as stack:
        for name in world.owners:
            node = stack.enter_context(OwnerNode(world.node(name)))
            problems, _ = review.verify(node)
            held["audit logs hold"] &= not problems
            spent = sum(run_charge.rows for run_charge in spent_by_run(node.ledger))
            held["rows were charged once"] &= spent == (0 if name == denying_owner(world) else rows)
            if name != denying_owner(world):
                # The owner's own receipt, which came to it when the run ended.
                kept = owner_node.check(node, RUN)
                agree = not (kept.problems or kept.contradictions or kept.aside)
                held["transcripts agree"] &= agree and kept.receipt is not None and kept.receipt.transcript.rows == rows
    return tuple(held.items())


@dataclass
class MailWorld(MarketHomes):
    """The homes of a market, the folder of their mailbox, and a process for each; arguments as ``MarketHomes``."""

    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)

    @property
    def mailbox(self) -> Path:
        return self.folder / "mailbox"

    def log(self, name: str) -> Path:
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
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # many processes share the cores
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(  # noqa: S603 (our own command)
                [*_LIKESET, *map(str, words)], stdout=log, stderr=log, env=environment
            )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
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


def run_network_demo(out: Path, *, render: Render, tell: Tell, split: bool = False) -> NetworkDemo:
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
    for name in world.owners:
        with OwnerNode(world.node(name)) as node:
            if name != denying_owner(world) and owner_node.check(node, RUN).receipt is None:
                return False
    return True


def _wait_for(world: MailWorld, run: KeptRun, so: Callable[[RunProgress], bool]) -> RunProgress:
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
