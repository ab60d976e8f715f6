"""Runs between organisations over a real NVFlare network on this machine; says as JSON how long each run took."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from loopback import LoopbackNetwork

from likeset.app.demo.network import CONSUMER, MailWorld
from likeset.app.demo.showcase import write_market
from likeset.run.job import Job
from likeset.run.runs import expiry, invite, start
from likeset.simulation import digits_market
from likeset.transports.desks import whereabouts
from likeset.transports.stores import open_store

_CURATOR = "curator"
_SECONDS = 600.0


class CourierWorld(MailWorld):
    """The homes of a market; each has a courier's folder of its own in place of one mailbox for all."""

    network: LoopbackNetwork

    def address(self, name: str) -> str:
        return f"courier://{self.network.mailbox(name)}"

    def serve(self, *names: str) -> None:
        for name in names:
            curator = ("curator", "serve", "--home", self.curator.folder)
            owner = ("owner", "serve", "--node", self.node(name))
            self.spawn(name, *(curator if name == _CURATOR else owner), "--mailbox", self.address(name))


def letters_in(log: Path) -> int:
    """How many letters came and went at a party, by its log."""
    return sum(map(int, re.findall(r"(\d+) letters? (?:came|went)", log.read_text(encoding="utf-8"))))


def run_over_courier(world: CourierWorld, name: str, target: str, **wishes: Any) -> dict[str, Any]:
    """One run: seconds from the terms to the summary."""
    job = Job.of(
        schema=str(world.schema),
        target=target,
        owners={owner: f"network:{owner}" for owner in world.owners},
        consumer=CONSUMER,
        purpose="to recognise handwritten digits",
        run=name,
        **wishes,
    )
    before = letters_in(world.log(next(iter(world.owners))))
    run = invite(world.consumer, job, expires=expiry(7))
    start(run, open_store(world.address(CONSUMER)).address)
    began = time.monotonic()
    world.spawn(CONSUMER, "run", "watch", name, "--home", world.consumer.folder)
    try:
        world.processes.pop(CONSUMER).wait(_SECONDS)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"run {name} took too long; see {world.folder}") from None
    seconds = time.monotonic() - began
    # Owners are asked side by side: the letters from and to one of them follow each other.
    letters = letters_in(world.log(next(iter(world.owners)))) - before
    ended = whereabouts(world.consumer, run).ended
    return {"ended": ended, "seconds": seconds, "letters": letters, "seconds per letter": seconds / letters}


def main(folder: Path) -> dict[str, Any]:
    market = digits_market(coins=np.random.default_rng(1))
    files = write_market(folder / "data", market)
    owners = dict(list(files["owners"].items())[:3])
    world = CourierWorld(
        folder / "world", owners, Path(files["schema"]), ("image", "digit"), manual_approval=False, epsilon=99.0
    )
    world.folder.mkdir()
    world.set_up()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    world.network = LoopbackNetwork(folder / "network", (*owners, _CURATOR, CONSUMER), environment)
    world.network.provision()
    world.network.settle()
    found = {}
    with world.network, world:
        world.network.start(world.network.server, *world.network.clients)
        world.serve(_CURATOR, *owners)
        found["sealed"] = run_over_courier(world, "one", files["target"], size=50, epsilon=4.0)
        more = ("ledger", "limit", world.consumer.ledger, "--of", CONSUMER, "--epsilon", "8")
        world.spawn("limit", *more)
        world.processes.pop("limit").wait()
        found["interactive"] = run_over_courier(
            world, "two", files["target"], size=50, epsilon=4.0, protocol="interactive"
        )
    return found


if __name__ == "__main__":
    Path(sys.argv[1], "outcome.json").write_text(json.dumps(main(Path(sys.argv[1]))))
