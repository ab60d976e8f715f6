"""The demo over NVFlare: five owner nodes, a curator and a consumer, each a process with a certificate.

All on this machine and on loopback, with NVFlare's own start-up kits. One owner denies, one is killed while its steward
reads the terms, and comes back. The first job therefore misses the quorum; the second resumes the run, and owners who
had answered send the same bytes again.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from likeset.app.demo.network_world import CONSUMER, NetworkWorld
from likeset.app.demo.showcase import EPSILON, SEED, SIZE, with_baselines, write_market
from likeset.app.demo.story import (
    RUN,
    SECONDS,
    NetworkDemo,
    Tell,
    checks,
    decide,
    job_between,
    killed_owner,
)
from likeset.errors import LikesetError, RunCancelled
from likeset.homes.consumer.home import KeptRun
from likeset.homes.owner.node import OwnerNode
from likeset.run.publish import Render
from likeset.run.remote import collect, conclude, expiry, invite
from likeset.run.submission import Whereabouts, ending_of, look, submit
from likeset.simulation import digits_market
from likeset.transports.nvflare.quiet_client import QuietEngine
from likeset.transports.outcomes import SiteState

__all__ = ["CONSUMER", "RUN", "run_network_demo"]

_REGISTERED = "Successfully registered client"  # as a site of NVFlare says it


def run_network_demo(out: Path, *, render: Render, tell: Tell) -> NetworkDemo:
    """Set everything up, run it, and check what each side kept.

    Args:
        out: a directory.
        render: makes the report.
        tell: called as things happen.
    """
    market = digits_market(coins=np.random.default_rng(SEED))
    files = write_market(out / "data", market)
    with NetworkWorld(out, files["owners"], Path(files["schema"]), ("image", "digit")) as world:
        tell("network", "makes certificates and start-up kits for seven sites, and a card for each party")
        world.set_up()
        world.start()
        port = world.network.port
        tell("network", f"seven processes are connected to port {port} of this machine, each with its certificate")
        run = invite(world.consumer, job_between(world, files["target"]), expires=expiry(7))
        tell(
            CONSUMER, f"drafts terms {run.terms.digest[:12]}: {SIZE} rows, epsilon = {EPSILON:g}, four owners at least"
        )
        with world.engine() as engine:
            _first_job(world, run, engine, tell=tell)
            seconds = _second_job(world, run, engine, tell=tell)
    result = with_baselines(collect(run), market, tell=lambda what: tell("beside it", what))
    done = conclude(world.consumer, run, result, render=render)
    return NetworkDemo(done.result, done.out, seconds, checks(world, run))


class _Approver(threading.Thread):
    """Does for the stewards what they would do by hand: looks into the inbox, and approves or denies."""

    def __init__(self, world: NetworkWorld, names: list[str], tell: Tell) -> None:
        super().__init__(daemon=True)
        self._world, self._left, self._tell = world, set(names), tell
        self._halt = threading.Event()
        self.trouble: Exception | None = None

    def run(self) -> None:
        try:
            while self._left and not self._halt.wait(0.5):
                for name in sorted(self._left):
                    with OwnerNode(self._world.node(name)) as node:
                        if decide(self._world, node, self._tell):
                            self._left.discard(name)
        except LikesetError as error:
            self.trouble = error

    def __enter__(self) -> "_Approver":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._halt.set()
        self.join()
        if self.trouble is not None:
            raise self.trouble


def _first_job(world: NetworkWorld, run: KeptRun, engine: QuietEngine, *, tell: Tell) -> None:
    """Ends without a quorum: one denies, and one is killed before anybody has decided there."""
    submit(run, engine)
    tell(CONSUMER, "submits the run; every owner finds it in its inbox")
    _wait(
        run,
        engine,
        lambda whereabouts: all(whereabouts.sites.get(name) is SiteState.WAITING for name in world.owners),
        tell,
    )
    tell(killed_owner(world), "is killed (kill -9) while its steward reads the terms")
    world.network.kill(killed_owner(world))
    with _Approver(world, [name for name in world.owners if name != killed_owner(world)], tell):
        state = _wait(run, engine, lambda whereabouts: not whereabouts.is_open, tell)
    tell("curator", f"ends the first job: {state}")


def _second_job(world: NetworkWorld, run: KeptRun, engine: QuietEngine, *, tell: Tell) -> float:
    """Resumes the run with the owner that came back; returns the seconds from the first call to the last."""
    world.network.start(killed_owner(world))
    console = world.network.folder / f"{killed_owner(world)}.txt"  # the server still believes that it never left
    _wait_until(lambda: console.read_text(encoding="utf-8", errors="replace").count(_REGISTERED) > 1)
    tell(killed_owner(world), "is back")
    with _Approver(world, [killed_owner(world)], tell):
        _wait_until(lambda: _is_approved(world, killed_owner(world)))
    submit(run, engine)
    tell(CONSUMER, "resumes the run: who answered before sends the same bytes again")
    state = _wait(run, engine, lambda whereabouts: not whereabouts.is_open, tell)
    report = ending_of(run, engine)
    if report is None or not report.done:
        raise RunCancelled(f"the demo's run ended otherwise than it should: {state}")
    return report.seconds


def _is_approved(world: NetworkWorld, name: str) -> bool:
    with OwnerNode(world.node(name)) as node:
        record = node.runs.by_name.get(RUN)
        return record is not None and record.decision is not None


def _wait(run: KeptRun, engine: QuietEngine, until: Callable[[Whereabouts], bool], tell: Tell) -> str:
    """Look until something is so; tells what changed."""
    end, last = time.monotonic() + SECONDS, ""
    while time.monotonic() < end:
        whereabouts = look(run, engine)
        words = ", ".join(f"{site} {said}" for site, said in whereabouts.sites.items())
        if words and words != last:
            tell("watch", f"{whereabouts.text}: {words}")
        last = words or last
        if until(whereabouts):
            return whereabouts.text
        time.sleep(0.5)
    raise RunCancelled(f"the demo waited {SECONDS:.0f} s in vain; this machine may be too busy")


def _wait_until(so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not so():
        if time.monotonic() > end:
            raise RunCancelled(f"the demo waited {SECONDS:.0f} s in vain; this machine may be too busy")
        time.sleep(0.3)
