"""How long runs between organisations take, and where the time goes.

Five owner nodes, a curator and a consumer, each a process with a certificate, on loopback; and the same parties with
the same terms in one process, without NVFlare. Writes ``benchmarks/results/network.md``.

    python benchmarks/network.py            a sealed run, and an interactive one of 200 rounds (minutes)
    python benchmarks/network.py --quick    an interactive one of 10 rounds: does everything work?
    python benchmarks/network.py --alone    an interactive one of 50 rounds in one process only: what is our own
"""

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from likeset.app.demo.network import CONSUMER
from likeset.app.demo.showcase import EPSILON, SEED, SIZE, write_market
from likeset.homes import curator_home
from likeset.homes.consumer import site as consumer_site
from likeset.homes.consumer_home import KeptRun
from likeset.homes.mail import ConsumerRun, CuratorRun, Invitation, SiteRun
from likeset.homes.owner import site
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import MOST_BYTES
from likeset.run.job import Job
from likeset.run.runs import expiry, invite
from likeset.run.submission import ending_of, submit
from likeset.simulation import digits_market
from likeset.transports.letter_parcels import LetterCurator, parcel_reader
from likeset.transports.nvflare.run_report import RunReport
from likeset.transports.pump import EachAlone, Parcel, Pump
from network_world import NetworkWorld

PAGE = Path(__file__).parent / "results" / "network.md"
_ENDED = "FINISHED"
_TARGET_EPSILON = {"sealed": EPSILON, "interactive": 2000.0}  # 200 rounds of noise; the time does not depend on it
_LIMIT = 10_000.0


@dataclass(frozen=True)
class OwnTime:
    """Seconds on the clock of a run in which parties work one after another, with nothing between them but letters."""

    curator: float
    owners: Sequence[float]

    @property
    def all(self) -> float:
        """Of everybody."""
        return self.curator + sum(self.owners)

    @property
    def apart(self) -> float:
        """Where every owner has a machine of its own, and they work at the same time."""
        return self.curator + max(self.owners)


@dataclass(frozen=True)
class NetworkMeasurement:
    """One run, over the network and in one process."""

    terms: Terms
    report: RunReport
    before: float
    own: OwnTime

    @property
    def rounds(self) -> int:
        """How often the curator spoke to all owners."""
        return self.terms.size if self.terms.protocol == "interactive" else 1


def main() -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds; the page is printed, not written")
    parser.add_argument("--alone", action="store_true", help="in one process only; printed, not written")
    options = parser.parse_args()
    quick = options.quick
    if options.alone:
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.write(_alone(Path(folder), rounds=50))
        return
    with tempfile.TemporaryDirectory() as folder:
        measurements = measure(Path(folder), rounds=10 if quick else 200)
    text = "\n".join(_page(measurements)) + "\n"
    if not quick:
        PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def measure(folder: Path, *, rounds: int) -> list[NetworkMeasurement]:
    """Both protocols, one after the other, in the same network."""
    files = write_market(folder / "data", digits_market(coins=np.random.default_rng(SEED)))
    schema = Path(files["schema"])
    measurements = []
    columns = ("image", "digit")
    with NetworkWorld(
        folder, files["owners"], schema, columns, most_rows=5000, epsilon=100.0, manual_approval=False
    ) as world:
        world.set_up()
        world.start()
        _open_account(world)
        for protocol, size in (("sealed", SIZE), ("interactive", rounds)):
            run = invite(world.consumer, _job(world, files["target"], protocol=protocol, size=size), expires=expiry(1))
            copy = folder / f"copy-{protocol}"
            for party in ("owners", "curator", CONSUMER):
                shutil.copytree(folder / party, copy / party, ignore=shutil.ignore_patterns("*.sock"))
            report, before = _over_network(world, run)
            measurements.append(NetworkMeasurement(run.terms, report, before, _in_one_process(copy, run.invitation)))
    return measurements


def _alone(folder: Path, *, rounds: int) -> str:
    """What a round takes where nothing is between the parties but their letters; all of them on one machine."""
    files = write_market(folder / "data", digits_market(coins=np.random.default_rng(SEED)))
    schema, columns = Path(files["schema"]), ("image", "digit")
    world = NetworkWorld(folder, files["owners"], schema, columns, most_rows=5000, epsilon=100.0, manual_approval=False)
    world.set_up()
    _open_account(world)
    run = invite(world.consumer, _job(world, files["target"], protocol="interactive", size=rounds), expires=expiry(1))
    own = _in_one_process(folder, run.invitation)
    each, apart = 1000 * own.all / rounds, 1000 * own.apart / rounds
    return (
        f"{rounds} rounds of interactive with five owners in one process: {each:.0f} ms a round, one after "
        f"another; {apart:.0f} ms for the curator and the slowest owner (load average {os.getloadavg()[0]:.1f})\n"
    )


def _open_account(world: NetworkWorld) -> None:
    """An account of the consumer that no benchmark empties."""
    with Ledger(world.consumer.ledger) as ledger:
        ledger.set_limit(View.owners(CONSUMER), Limit(10 * _TARGET_EPSILON["interactive"], 1e-5, Relation.REPLACE_ONE))


def _job(world: NetworkWorld, target: str, *, protocol: str, size: int) -> Job:
    asked: dict[str, Any] = {"protocol": protocol, "size": size, "epsilon": _TARGET_EPSILON[protocol]}
    return Job.of(
        schema=str(world.schema),
        target=target,
        owners={name: f"network:{name}" for name in world.owners},
        consumer=CONSUMER,
        purpose="to recognise handwritten digits",
        run=f"measured-{protocol}",
        **asked,
    )


def _over_network(world: NetworkWorld, run: KeptRun) -> tuple[RunReport, float]:
    """How the run ended, and the seconds that were not the run's: NVFlare's start and end of the job."""
    with world.engine() as engine:
        began = time.monotonic()
        job = submit(run, engine)
        while not engine.state(job).startswith(_ENDED):
            time.sleep(0.5)
        took = time.monotonic() - began
        report = ending_of(run, engine)
    if report is None or not report.done or report.unanswered:
        raise SystemExit(f"the run ended otherwise than it should: {report}")
    return report, took - report.seconds


def _in_one_process(folder: Path, invitation: Invitation) -> OwnTime:
    """The same parties, from copies of their directories, one after another."""
    transport = _Letters.among(folder, invitation)
    began = time.perf_counter()
    Pump(LetterCurator(transport.curator, transport.parcel), transport, transport.parcel, workers=1).run()
    took = time.perf_counter() - began
    return OwnTime(took - transport.seconds.total(), list(transport.seconds.values()))


@dataclass
class _Letters(EachAlone):
    """Letters that are handed over by calls of functions."""

    curator: CuratorRun
    consumer: ConsumerRun
    sites: Mapping[str, SiteRun]
    parcel: Callable[[bytes], Parcel]
    done: bool = False
    seconds: Counter[str] = field(default_factory=Counter)

    @classmethod
    def among(cls, folder: Path, invitation: Invitation) -> Self:
        """The parties whose directories lie in a folder."""
        sites: dict[str, SiteRun] = {}
        for name in invitation.terms.owners:
            seat = site.owner(invitation, name, folder / "owners" / name)
            assert seat is not None  # noqa: S101 - the policy decides
            sites[name] = seat
        return cls(
            curator_home.curator(invitation, CURATOR, folder / "curator"),
            consumer_site.consumer(invitation, CONSUMER, folder / CONSUMER),
            sites,
            parcel_reader(invitation.terms, most_bytes=MOST_BYTES),
        )

    @property
    def owners(self) -> Collection[str]:
        """All of them can be reached."""
        return self.sites.keys()

    def start(self) -> Sequence[bytes]:
        """What the consumer writes first."""
        return self.consumer.begin([run.acceptance() for run in (*self.sites.values(), self.curator)])

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        """What an owner answers."""
        began = time.perf_counter()
        try:
            return self.sites[owner].hear(data)
        finally:
            self.seconds[owner] += time.perf_counter() - began

    def hand_over(self, data: bytes) -> Sequence[bytes]:
        """The summary comes to the consumer."""
        replies = self.consumer.hear(data)
        self.done = not replies
        return replies

    def give_back(self, writer: str, data: bytes) -> None:
        """Nobody writes twice here."""


def _page(measurements: list[NetworkMeasurement]) -> Iterator[str]:
    yield "# What a run between organisations takes\n"
    yield (
        f"Written by `benchmarks/network.py` on {datetime.now(UTC).date()}, on a virtual machine with "
        f"{os.cpu_count()} cores ({platform.machine()}; load average {os.getloadavg()[0]:.1f}\nat the end). Five owner "
        "nodes with their ledgers and audit logs on disk, a curator and a consumer: seven processes with\ncertificates "
        "that talk over mutual TLS on loopback, NVFlare's own processes beside them. Beside it what is our own: the "
        "same parties with the same\nterms in one process, one after another, with letters and durable writes and "
        "nothing else. Seconds on the clock.\n"
    )
    over = ("run", "rounds", "run s", "per round ms", "calls", "mean call ms", "start and end s")
    heads = (*over, "our own, per round ms: all parties", "the curator", "an owner", "curator and slowest owner")
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for measurement in measurements:
        terms, report, rounds = measurement.terms, measurement.report, measurement.rounds
        own, owners = measurement.own, len(terms.owners)
        parts = (own.all, own.curator, sum(own.owners) / owners, own.apart)
        yield (
            f"| {terms.protocol}, {terms.size} rows, {owners} owners | {rounds} "
            f"| {report.seconds:.1f} | {1000 * report.seconds / rounds:.0f} "
            f"| {report.calls} | {1000 * report.seconds_in_calls / report.calls:.0f} | {measurement.before:.1f} | "
            + " | ".join(f"{1000 * part / rounds:.0f}" for part in parts)
            + " |"
        )
    yield ""
    yield (
        "*run*: from the curator's first call to its last, as its report says; processes have loaded their libraries "
        "before. *start and end*:\nwhat NVFlare takes to start a job's processes at every site, and to end them. A "
        "round of `interactive` is two calls to every owner, which go\nout to all of them at the same time; what a "
        "round takes beyond these is the curator's own work. *curator and slowest owner*: what is our own where\nevery "
        "owner has a machine; here seven parties and NVFlare share two cores."
    )


if __name__ == "__main__":
    main()
