"""The demo between organisations: five owner nodes, a curator and a consumer, each a process with a certificate.

All on this machine and on loopback, with NVFlare's own start-up kits. One owner denies, one is killed while its steward
reads the terms, and comes back. The first job therefore misses the quorum; the second resumes the run, and owners who
had answered send the same bytes again.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from likeset import documents
from likeset.engines.flare_network import LoopbackNetwork
from likeset.engines.flare_quiet import QuietEngine, hushed
from likeset.errors import LikesetError, RunCancelled
from likeset.jobs.consumer_home import ConsumerHome, NetworkRun, expiry, make_consumer_home
from likeset.jobs.job import Job
from likeset.jobs.run import Render
from likeset.node import outbox
from likeset.node.budgets import spent_by_run
from likeset.node.curating import CuratorHome, make_curator_home
from likeset.node.home import make_home
from likeset.node.owner_node import OwnerNode
from likeset.node.receipts import key_in, read_receipt
from likeset.node.transcripts import compare, of_node
from likeset.studies.market import digits_market
from likeset.studies.showcase import EPSILON, SEED, SIZE, write_market

__all__ = ["CONSUMER", "RUN", "NetworkDemo", "run_network_demo"]

RUN, CONSUMER = "digits", "clinic"
_APPROVER = "the demo's automatic approver"
_REGISTERED = "Successfully registered client"  # as a site of NVFlare says it
_SECONDS_PER_CALL = 25.0  # the first one loads the numerical libraries, in seven processes at once
_SECONDS = 150.0  # that a job may take before the demo gives up

Tell = Callable[[str, str], None]
"""Called with who does something, and what."""


@dataclass(frozen=True, eq=False)
class NetworkDemo:
    """What came of it.

    Attributes:
        result: as in ``result.json``.
        out: the directory of the result.
        seconds: how long the run itself took when everybody was there, without NVFlare's start.
        checks: what was checked afterwards, and whether it holds.
    """

    result: Mapping[str, Any]
    out: Path
    seconds: float
    checks: tuple[tuple[str, bool], ...]


@dataclass
class _Place:
    """Where everything lies."""

    folder: Path
    owners: Mapping[str, str]
    schema: Path
    target: Path

    def node(self, name: str) -> Path:
        return self.folder / "owners" / name

    @property
    def denying(self) -> str:
        return list(self.owners)[-1]

    @property
    def killed(self) -> str:
        return list(self.owners)[-2]

    @property
    def curator(self) -> CuratorHome:
        return CuratorHome(self.folder / "curator")

    @property
    def consumer(self) -> ConsumerHome:
        return ConsumerHome(self.folder / CONSUMER)


def run_network_demo(out: Path, *, render: Render, tell: Tell) -> NetworkDemo:
    """Set everything up, run it, and check what each side kept.

    Args:
        out: a directory.
        render: makes the report.
        tell: called as things happen.
    """
    market = write_market(out / "data", digits_market(coins=np.random.default_rng(SEED)))
    place = _Place(out.resolve(), market["owners"], Path(market["schema"]), Path(market["target"]))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # many processes share the cores
    with LoopbackNetwork(place.folder / "network", (*place.owners, CONSUMER), environment) as network:
        _set_up(network, place, tell)
        run = place.consumer.invite(_job(place), expires=expiry(7))
        tell(
            CONSUMER, f"drafts terms {run.terms.digest[:12]}: {SIZE} rows, epsilon = {EPSILON:g}, four owners at least"
        )
        engine = _engine(network)
        _first_job(network, place, run, tell=tell)
        seconds = _second_job(network, place, run, tell=tell)
        run.ended(engine)
    done = run.collect(render=render)
    return NetworkDemo(done.result, done.out, seconds, _checks(place, run))


def _job(place: _Place) -> Job:
    return Job.of(
        schema=str(place.schema),
        target=str(place.target),
        owners={name: f"network:{name}" for name in place.owners},
        size=SIZE,
        epsilon=EPSILON,
        quorum=len(place.owners) - 1,
        consumer=CONSUMER,
        purpose="to recognise handwritten 3s and 4s",
        run=RUN,
    )


def _set_up(network: LoopbackNetwork, place: _Place, tell: Tell) -> None:
    """Kits with certificates, a directory for each party, and all processes started."""
    tell("network", "makes certificates and start-up kits for seven sites")
    network.provision()
    make_curator_home(place.curator.folder).add_schema(place.schema)
    engine = _engine(network)
    make_consumer_home(place.consumer.folder, name=CONSUMER, kit=str(engine.kit), user=engine.user)
    for name, rows in place.owners.items():
        _make_node(place, name, rows)
        network.settle(name, factory="likeset.node.site:owner", folder=place.node(name))
    network.settle(CONSUMER, factory="likeset.jobs.consumer_home:consumer", folder=place.consumer.folder)
    network.settle(
        network.server,
        factory="likeset.node.curating:curator",
        folder=place.curator.folder,
        seconds_per_call=_SECONDS_PER_CALL,
        seconds_for_decisions=90.0,
    )
    sites = (*place.owners, CONSUMER)
    network.start(network.server, *sites)
    _wait_for(network, *sites)
    tell("network", f"seven processes are connected to port {network.port} of this machine, each with its certificate")


def _engine(network: LoopbackNetwork) -> QuietEngine:
    found = network.engine()
    return QuietEngine(found.kit, found.user)


def _wait_for(network: LoopbackNetwork, *sites: str) -> None:
    with hushed():
        network.wait_until_connected(*sites, seconds=120.0)


def _make_node(place: _Place, name: str, rows: str) -> None:
    """An owner's node with a policy for this demo; a person (here: the approver) decides about each run."""
    place.node(name).parent.mkdir(exist_ok=True)
    home = make_home(place.node(name), name=name)
    policy = {
        "likeset": "owner",
        "version": 1,
        "name": name,
        "consumers": [CONSUMER],
        "purposes": ["to recognise *"],
        "columns": ["image", "digit"],
        "smallest_group": 1,
        "per_run": {"epsilon": 0.0, "delta": 1e-5, "rows": 500},
        "total": {"epsilon": 0.0, "delta": 1e-5, "rows": 500},
    }
    documents.write(home.policy, policy)
    with OwnerNode(home.folder) as node:
        node.registry.add("images", str(Path(rows).resolve()), schema=place.schema)
    (home.folder / "curator.pub").write_bytes(place.curator.public_key.read_bytes())


class _Approver(threading.Thread):
    """Does for the stewards what they would do by hand: looks into the inbox, and approves or denies."""

    def __init__(self, place: _Place, names: list[str], tell: Tell) -> None:
        super().__init__(daemon=True)
        self._place, self._left, self._tell = place, set(names), tell
        self._halt = threading.Event()
        self.trouble: Exception | None = None

    def run(self) -> None:
        try:
            while self._left and not self._halt.wait(0.5):
                for name in sorted(self._left):
                    with OwnerNode(self._place.node(name)) as node:
                        if self._decided(node):
                            self._left.discard(name)
        except LikesetError as error:
            self.trouble = error

    def _decided(self, node: OwnerNode) -> bool:
        for record in node.runs.waiting():
            terms = record.latest
            if node.name == self._place.denying:
                node.deny(record.run, by=_APPROVER, reason="no contract with this consumer yet")
                self._tell(node.name, f"{_APPROVER} denies; the others hear only that it does not take part")
                return True
            verdict = node.approve(record.run, terms.digest, by=_APPROVER)
            said = (
                f"approves {terms.rows_per_owner} rows at most" if verdict.accepted else "finds it against the policy"
            )
            self._tell(node.name, f"{_APPROVER} {said}, terms {terms.digest[:12]}")
            return True
        return False

    def __enter__(self) -> "_Approver":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._halt.set()
        self.join()
        if self.trouble is not None:
            raise self.trouble


def _first_job(network: LoopbackNetwork, place: _Place, run: NetworkRun, *, tell: Tell) -> None:
    """Ends without a quorum: one denies, and one is killed before anybody has decided there."""
    engine = _engine(network)
    run.submit(engine)
    tell(CONSUMER, "submits the run; every owner finds it in its inbox")
    _wait(run, engine, lambda _, sites: all(sites.get(name) == "waiting" for name in place.owners), tell)
    tell(place.killed, "is killed (kill -9) while its steward reads the terms")
    network.kill(place.killed)
    with _Approver(place, [name for name in place.owners if name != place.killed], tell):
        state = _wait(run, engine, lambda state, _: state not in ("starting", "running", "waiting for decisions"), tell)
    tell("curator", f"ends the first job: {state}")


def _second_job(network: LoopbackNetwork, place: _Place, run: NetworkRun, *, tell: Tell) -> float:
    """Resumes the run with the owner that came back; returns the seconds from the first call to the last."""
    engine = _engine(network)
    network.start(place.killed)
    console = network.folder / f"{place.killed}.txt"  # the server still believes that it never left
    _wait_until(lambda: console.read_text(encoding="utf-8", errors="replace").count(_REGISTERED) > 1)
    tell(place.killed, "is back")
    with _Approver(place, [place.killed], tell):
        _wait_until(lambda: _is_approved(place, place.killed))
    run.submit(engine)
    tell(CONSUMER, "resumes the run: who answered before sends the same bytes again")
    state = _wait(run, engine, lambda state, _: state not in ("starting", "running", "waiting for decisions"), tell)
    report = run.ended(engine)
    if report is None or not report.done:
        raise RunCancelled(f"the demo's run ended otherwise than it should: {state}")
    return report.seconds


def _is_approved(place: _Place, name: str) -> bool:
    with OwnerNode(place.node(name)) as node:
        record = node.runs.by_name.get(RUN)
        return record is not None and record.decision is not None


def _wait(run: NetworkRun, engine: QuietEngine, until: Callable[[str, dict[str, str]], bool], tell: Tell) -> str:
    """Look until something is so; tells what changed."""
    end, last = time.monotonic() + _SECONDS, ""
    while time.monotonic() < end:
        state, sites = run.look(engine)
        words = ", ".join(f"{site} {said}" for site, said in sites.items())
        if words and words != last:
            tell("watch", f"{state}: {words}")
        last = words or last
        if until(state, sites):
            return state
        time.sleep(0.5)
    raise RunCancelled(f"the demo waited {_SECONDS:.0f} s in vain; this machine may be too busy")


def _wait_until(so: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not so():
        if time.monotonic() > end:
            raise RunCancelled(f"the demo waited {_SECONDS:.0f} s in vain; this machine may be too busy")
        time.sleep(0.3)


def _checks(place: _Place, run: NetworkRun) -> tuple[tuple[str, bool], ...]:
    """What a suspicious reader would look at: transcripts, logs, and whether rows left once."""
    key, rows = key_in(place.curator.public_key), run.terms.rows_per_owner
    found: dict[str, bool] = {"transcripts agree": True, "audit logs hold": True, "rows were charged once": True}
    with ExitStack() as stack:
        for name in place.owners:
            node = stack.enter_context(OwnerNode(place.node(name)))
            problems, _ = outbox.verify(node)
            found["audit logs hold"] &= not problems
            spent = sum(one.rows for one in spent_by_run(node.ledger))
            found["rows were charged once"] &= spent == (0 if name == place.denying else rows)
            path = place.curator.folder / "receipts" / RUN / f"{name}.json"
            if name != place.denying:
                receipt = read_receipt(path)
                agree = receipt.fault(key) is None and not compare(of_node(node, RUN), receipt.transcript)[0]
                found["transcripts agree"] &= agree and receipt.transcript.rows == rows
    return tuple(found.items())
