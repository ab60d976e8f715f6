"""Runs between organisations over a real NVFlare network on this machine; says as JSON how long each run took."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from loopback import LoopbackNetwork

from likeset.app.demo import write_market
from likeset.homes import review
from likeset.homes.consumer import Consumer
from likeset.homes.curator import Curator
from likeset.homes.home import Home, make_home
from likeset.homes.mail import Mail
from likeset.homes.owner import make_owner_home, open_owner, put
from likeset.run.job import Job
from likeset.run.runs import invite, times_of_terms
from likeset.simulation import digits_market
from likeset.trust.cards import Role

CONSUMER, CURATOR = "clinic", "curator"
_LIKESET = (sys.executable, "-c", "from likeset.app.start import main; main()")
_SECONDS = 600.0
_POLICY = f"""\
likeset: owner
version: 1
consumers: [{CONSUMER}]
purposes: ["to recognise *"]
columns: [image, digit]
smallest_group: 1
per_run: {{epsilon: 99, rows: 500}}
total: {{epsilon: 99, rows: 500}}
manual_approval: false
"""


class CourierWorld:
    """The homes of a market; the mailbox of each is its courier's folder."""

    network: LoopbackNetwork

    def __init__(self, folder: Path, owners: dict[str, str], schema: Path) -> None:
        self.folder, self.owners, self.schema = folder.resolve(), owners, schema
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.folder.mkdir()
        with make_home(self.home(CURATOR), name=CURATOR, roles=("curator",)) as curator:
            Curator(Mail(curator)).add_schema(schema)
        make_home(self.home(CONSUMER), name=CONSUMER, roles=("consumer",)).close()
        for name, rows in owners.items():
            make_owner_home(self.home(name), name=name).close()
            with open_owner(self.home(name)) as owner:
                put(owner, _POLICY, by="the test")
                review.register(owner, "images", str(Path(rows).resolve()), schema=schema)
            self.pin(name, CONSUMER, "consumer")
            self.pin(name, CURATOR, "curator")
            self.pin(CONSUMER, name, "owner")
        self.pin(CONSUMER, CURATOR, "curator")
        self.pin(CURATOR, CONSUMER, "consumer")

    def home(self, name: str) -> Path:
        return self.folder / name

    def pin(self, name: str, other: str, role: Role) -> None:
        with Home(self.home(name)) as home, Home(self.home(other)) as seen:
            home.pins.pin(seen.card, role, by="the test")

    def address(self, name: str) -> str:
        return f"courier://{self.network.mailbox(name)}"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def serve(self, *names: str) -> None:
        for name in names:
            self.spawn(name, "up", self.home(name), "--no-console", "--mailbox", self.address(name))

    def spawn(self, name: str, *words: object) -> None:
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(  # noqa: S603 (our own command)
                [*_LIKESET, *map(str, words)], stdout=log, stderr=log
            )

    def stop(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(_SECONDS)

    def start(self, run: str, target: str, **settings: Any) -> None:
        """Sign the terms of a run; the consumer's next sync posts them."""
        job = Job.of(
            schema=str(self.schema),
            target=target,
            owners={owner: f"network:{owner}" for owner in self.owners},
            consumer=CONSUMER,
            purpose="to recognise handwritten digits",
            run=run,
            **settings,
        )
        with Home(self.home(CONSUMER)) as home:
            consumer = Consumer(Mail(home))
            consumer.start_run(invite(consumer, job, **times_of_terms(7)), self.address(CONSUMER))


def letters_in(log: Path) -> int:
    """How many letters came and went at a party, by its log."""
    return sum(map(int, re.findall(r"(\d+) letters? (?:came|went)", log.read_text(encoding="utf-8"))))


def run_over_courier(world: CourierWorld, name: str, target: str, **settings: Any) -> dict[str, Any]:
    """One run: seconds from the terms to the summary."""
    one = next(iter(world.owners))
    before = letters_in(world.log(one))
    world.start(name, target, **settings)
    began = time.monotonic()
    world.spawn(CONSUMER, "run", "watch", name, "--home", world.home(CONSUMER))
    try:
        world.processes.pop(CONSUMER).wait(_SECONDS)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"run {name} took too long; see {world.folder}") from None
    seconds = time.monotonic() - began
    # Owners are asked side by side: the letters from and to one of them follow each other.
    letters = letters_in(world.log(one)) - before
    with Home(world.home(CONSUMER)) as home:
        consumer = Consumer(Mail(home))
        ended = consumer.progress(consumer.run(name)).ended
    return {"ended": ended, "seconds": seconds, "letters": letters, "seconds per letter": seconds / letters}


def market_files(folder: Path, count: int) -> tuple[Any, dict[str, str]]:
    """The files of a market with so many owners."""
    files = write_market(folder / "data", digits_market(coins=np.random.default_rng(1)))
    return files, dict(list(files["owners"].items())[:count])


def main(folder: Path) -> dict[str, Any]:
    files, owners = market_files(folder, 3)
    world = CourierWorld(folder / "world", owners, Path(files["schema"]))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    world.network = LoopbackNetwork(folder / "network", (*owners, CURATOR, CONSUMER), environment)
    world.network.provision()
    world.network.settle()
    found = {}
    with world.network:
        world.network.start(world.network.server, *world.network.clients)
        try:
            world.serve(CURATOR, *owners)
            found["sealed"] = run_over_courier(world, "one", files["target"], size=50, epsilon=4.0)
            database = world.home(CONSUMER) / "home.sqlite"
            world.spawn("limit", "ledger", "limit", database, "--of", CONSUMER, "--epsilon", "8")
            world.processes.pop("limit").wait()
            found["interactive"] = run_over_courier(
                world, "two", files["target"], size=50, epsilon=4.0, protocol="interactive"
            )
        finally:
            world.stop()
    return found


if __name__ == "__main__":
    Path(sys.argv[1], "outcome.json").write_text(json.dumps(main(Path(sys.argv[1]))))
