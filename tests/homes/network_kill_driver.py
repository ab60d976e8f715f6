"""Kills sites of a network of NVFlare while runs are under way, resumes the runs, and looks at everything: prints JSON.

Every site is a process with a certificate of its own, and behind it are real nodes. A program of its own: NVFlare's
client library changes logging and starts threads.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kill_looks as looks
import psutil  # type: ignore[import-untyped]
from forked_work import apart
from kill_parties import SITES, Hub
from kill_world import CONSUMER, OWNERS, folder_of, homes, make_network

from likeset.errors import LikesetError
from likeset.homes.consumer_home import KeptRun
from likeset.protocol.party import CURATOR
from likeset.protocol.wire import Message, decode
from likeset.run import submission
from likeset.transports.nvflare.loopback import LoopbackNetwork
from likeset.transports.nvflare.quiet_client import QuietEngine, quiet_output

ROUNDS = 8
_AUCTIONS: dict[str, Any] = {"auction": "threshold", "auction_epsilon": 1.0}
_KINDS: tuple[dict[str, Any], ...] = (
    {"protocol": "interactive", "size": ROUNDS, **_AUCTIONS},
    {"protocol": "interactive", "size": ROUNDS},
    {"protocol": "interactive", "size": ROUNDS, "summary_release": "gaussian", "owner_epsilon": 8.0},
)
_VICTIMS = ("server", "consumer", "site", "job", "server")
_LINES = 12 * ROUNDS  # about what is heard in a run, by all parties together
_SECONDS = 90.0
_KILLS_IN_A_RUN = 3
_MOST_JOBS = 4


@dataclass
class Network:
    """Sites, and what is heard of them.

    Args:
        place: a folder for all of it.
        coins: decide about kills.
    """

    place: Path
    coins: random.Random

    def __post_init__(self) -> None:
        paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
        self.net = LoopbackNetwork(self.place / "network", SITES, environment)

    @property
    def world(self) -> Path:
        """Where the parties' directories are."""
        return self.place / "world"

    @property
    def twin(self) -> Path:
        """The same, where everybody stays alive."""
        return self.place / "twin"

    def settle(self) -> None:
        """Kits, with the settings that name each site's party."""
        self.net.provision()
        for site in SITES:
            self.net.settle(site, factory="kill_world:teed", folder=folder_of(self.world, site))
        self.net.settle(
            self.net.server,
            factory="kill_world:teed",
            folder=folder_of(self.world, CURATOR),
            seconds_per_call=10.0,
            seconds_after_auction=0.0,
        )

    def up(self) -> None:
        """Start what is down, and wait for it."""
        self.net.start(self.net.server, *SITES)
        with quiet_output():
            self.net.wait_until_connected(*SITES, seconds=120.0)

    def heard(self, run: str) -> list[dict[str, Any]]:
        """All that parties heard and said in a run, each line with who it is."""
        found = []
        for party in (CURATOR, *SITES):
            path = self.world / f"wire-{party}"
            for line in path.read_text().splitlines() if path.exists() else ():
                one = json.loads(line)
                if one["run"] == run:
                    found.append({"party": party, **one})
        return found

    def count(self, run: str) -> int:
        """How many messages were heard in a run so far."""
        paths = [self.world / f"wire-{party}" for party in (CURATOR, *SITES)]
        return sum(path.read_bytes().count(f'"run": "{run}"'.encode()) for path in paths if path.exists())

    def kill(self, victim: str) -> None:
        """End a site with its jobs, as a power cut would; or only the process in which an owner answers."""
        if victim.startswith("job of "):
            path = self.world / f"wire-{victim.removeprefix('job of ')}"
            _until(path.exists, _SECONDS)
            _end(json.loads(path.read_text().splitlines()[-1])["pid"])
            return
        jobs = psutil.Process(self.net.pid(victim)).children(recursive=True)  # each in a process group of its own
        self.net.kill(victim)
        for one in jobs:
            _end(one.pid)

    def victim(self, kind: str) -> str:
        """Somebody of a kind."""
        names = {"server": self.net.server, "consumer": CONSUMER, "site": self.coins.choice(OWNERS)}
        return names.get(kind) or f"job of {self.coins.choice(OWNERS)}"


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _until(what: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _ended(run: KeptRun, engine: QuietEngine) -> tuple[str, dict[str, str]]:
    """How the job that was submitted last ended, as ``likeset run watch`` would say."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        try:
            seen = submission.look(run, engine)
        except LikesetError as error:
            return f"no word of it: {type(error).__name__}", {}
        if not seen.is_open:
            return seen.text, dict(seen.sites)
        time.sleep(0.5)
    return "it did not end", {}


def disturbed(network: Network, run: KeptRun, engine: QuietEngine, kind: str) -> dict[str, Any]:
    """One job of a run, in the midst of which somebody is killed, and comes back."""
    victim, after = network.victim(kind), network.coins.randint(1, _LINES)
    before, began = network.count(run.name), time.monotonic()
    submission.submit(run, engine)
    hit = _until(lambda: network.count(run.name) >= before + after, _SECONDS)
    network.kill(victim)
    network.up()
    outcome, sites = _ended(run, engine)
    blow = f"{victim}, when {after} messages were heard"
    seconds = round(time.monotonic() - began, 1)
    return {"run": run.name, "blow": blow, "hit": hit, "outcome": outcome, "sites": sites, "seconds": seconds}


def resumed(run: KeptRun, engine: QuietEngine) -> dict[str, Any]:
    """One job of a run, with everybody there."""
    began = time.monotonic()
    submission.submit(run, engine)
    outcome, sites = _ended(run, engine)
    return {"run": run.name, "outcome": outcome, "sites": sites, "seconds": round(time.monotonic() - began, 1)}


def whole(job: dict[str, Any]) -> bool:
    """Whether a run came to its end with everybody."""
    return bool(job["outcome"] == "done" and set(job["sites"].values()) == {"done"})


def _messages(lines: list[dict[str, Any]]) -> list[tuple[Message, bytes]]:
    """What parties said; of owners that is what left."""
    found = [bytes.fromhex(data) for line in lines for data in line["said"]]
    return [(decode(data), data) for data in found]


def look(network: Network, run: KeptRun) -> list[str]:
    """What is wrong with what a run left behind; beside it lies a world in which nobody was disturbed."""
    messages, terms, place = _messages(network.heard(run.name)), run.terms, network.world
    spent, usual = looks.accounts(place, terms), looks.accounts(network.twin, terms)
    complaints = looks.repeated(messages) + looks.ledgers(place, terms) + looks.undercounted(spent, usual)
    complaints += looks.charged(spent, usual, messages, terms)
    return complaints + looks.at_owners(place, terms, messages, done=True)


def driven(network: Network, names: list[str], kills: int) -> list[dict[str, Any]]:
    """All jobs: up to three kills in a run, which is then resumed until it has ended with everybody."""
    jobs: list[dict[str, Any]] = []
    home = homes(network.world)[1]
    with network.net:
        network.up()
        connection = network.net.engine()
        engine = QuietEngine(connection.kit, connection.user)
        for place, name in enumerate(names):
            run = home.run(name)
            for number in range(place * _KILLS_IN_A_RUN, min(kills, (place + 1) * _KILLS_IN_A_RUN)):
                kind = _VICTIMS[number] if number < len(_VICTIMS) else network.coins.choice(_VICTIMS)
                jobs.append(disturbed(network, run, engine, kind))
            for _ in range(_MOST_JOBS):
                if whole(jobs[-1]):
                    break
                jobs.append(resumed(run, engine))
    return jobs


def drive(place: Path, kills: int, seed: int) -> None:
    """Everything but the look afterwards."""
    network = Network(place, random.Random(seed))  # noqa: S311 - no secret
    count = -(-kills // _KILLS_IN_A_RUN)
    runs = {f"run-{number}": _KINDS[number % len(_KINDS)] for number in range(count)}
    apart(lambda: len(make_network(network.world, runs)))
    shutil.copytree(network.world, network.twin)
    network.settle()
    (place / "jobs.json").write_text(json.dumps(driven(network, list(runs), kills), indent=1))


def look_at(place: Path) -> None:
    """In a process that never spoke to NVFlare, since it forks."""
    network, found = Network(place, random.Random()), list[str]()  # noqa: S311 - no coins are tossed
    runs = homes(network.world)[1].runs()
    assert runs
    for run in runs:
        ended = Hub(network.twin, run.invitation).job()
        assert ended.report is not None
        assert ended.report["outcome"] == "done", ended.report
    for run in runs:
        found += [f"{run.name}: {one}" for one in look(network, run)]
    (place / "complaints.json").write_text(json.dumps(found, indent=1))


def main(what: str, place: Path, *numbers: int) -> int:
    """The exit code."""
    try:
        drive(place, *numbers) if what == "drive" else look_at(place)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the sites are stopped, too
    code = main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
    sys.stderr.flush()
    os._exit(code)  # threads of NVFlare may still wait for a server that is gone
