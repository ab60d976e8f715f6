"""What a mailbox costs: CPU time of all homes in a sealed run through one directory, and of a look that finds nothing.

Every party is a real home with a desk; they look in turn until nothing happens. What parties do themselves (an owner's
node that judges, scans and answers, a curator that selects) is measured apart: the rest is letters and polling.

    python benchmarks/mailboxes.py [--owners 10 100] [--out benchmarks/results/mailboxes.md]
"""

import argparse
import csv
import platform
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from likeset.homes.consumer_home import ConsumerHome, make_consumer_home
from likeset.homes.curator_home import CuratorHome, make_curator_home
from likeset.homes.mail import Shell, utc_now
from likeset.homes.owner_node import OwnerNode, make_home
from likeset.homes.pinning import home_in, pins_to_change
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.run.job import Job
from likeset.run.runs import invite
from likeset.transports.desks import consumer_desk, curator_desk, owner_desk, progress_of
from likeset.transports.posts import Desk
from likeset.transports.stores import open_store
from likeset.trust.cards import Role

ALLOWED_FOR_ALL, ALLOWED_OWNERS = 60.0, 100
IDLE_LOOKS = 20
RUN, CONSUMER, ROWS = "run-1", "new-clinic", 200
SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 120]}
  dose: {kind: numeric, bounds: [0, 1000]}
  sex: {kind: category, values: [f, m]}
"""
POLICY = """\
likeset: owner
version: 1
name: NAME
consumers: [new-clinic]
purposes: ["research*"]
columns: [age, dose, sex]
manual_approval: false
smallest_group: 1
per_run: {epsilon: 99, delta: 1.0e-5, rows: 999}
total: {epsilon: 999, delta: 1.0e-5, rows: 9999}
runs_per_month: 99
"""


@dataclass
class Cost:
    """CPU seconds of a run.

    Attributes:
        owners: how many there are.
        looks: by kind of party.
        all: likewise, with what parties do themselves.
        own: what parties do themselves, altogether.
        idle: of one look that finds nothing, by kind of party.
    """

    owners: int
    looks: Counter[str] = field(default_factory=Counter)
    all: Counter[str] = field(default_factory=Counter)
    own: float = 0.0
    idle: dict[str, float] = field(default_factory=dict)

    @property
    def carrying(self) -> float:
        """Letters and polling."""
        return self.all.total() - self.own


def write_rows(path: Path, seed: int) -> None:
    """A table."""
    coins = random.Random(seed)  # noqa: S311 (rows of a benchmark)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("age", "dose", "sex"))
        writer.writerows((coins.randint(20, 90), coins.randint(0, 1000), coins.choice("fm")) for _ in range(ROWS))


def pin(home: Path, others: Sequence[Path], role: Role) -> None:
    """In one home the cards of others; at once, since a home looks at all of its pins before the first."""
    with pins_to_change(home_in(home), by="benchmark") as pins:
        for other in others:
            pins.pin(home_in(other).card(), role, fingerprint=None)


def make_homes(place: Path, owners: int) -> tuple[CuratorHome, ConsumerHome, list[Path]]:
    """All homes, which know each other."""
    schema = place / "schema.yaml"
    schema.write_text(SCHEMA)
    curator = make_curator_home(place / "curator")
    curator.add_schema(schema)
    consumer = make_consumer_home(place / "consumer", name=CONSUMER)
    with Ledger(consumer.ledger) as ledger:
        ledger.set_limit(View.owners(CONSUMER), Limit(9999.0, 1e-5, Relation.REPLACE_ONE))
    pin(consumer.folder, [curator.folder], "curator")
    pin(curator.folder, [consumer.folder], "consumer")
    folders = []
    for number in range(owners):
        name = f"owner-{number:03d}"
        folder, rows = place / name, place / f"{name}.csv"
        make_home(folder, name=name)
        (folder / "owner.yaml").write_text(POLICY.replace("NAME", name))
        write_rows(rows, number)
        with OwnerNode(folder) as node:
            node.registry.add("patients", str(rows), schema=schema)
        pin(folder, [consumer.folder], "consumer")
        pin(folder, [curator.folder], "curator")
        folders.append(folder)
    pin(consumer.folder, folders, "owner")
    return curator, consumer, folders


def start_run(place: Path, consumer: ConsumerHome, owners: list[Path], mailbox: str) -> None:
    """A run of the consumer's that travels by mailbox."""
    write_rows(place / "target.csv", -1)
    job = Job.of(
        run=RUN,
        schema=str(place / "schema.yaml"),
        target=str(place / "target.csv"),
        owners={folder.name: f"network:{folder.name}" for folder in owners},
        consumer=CONSUMER,
        purpose="Research on sepsis",
        epsilon=30.0,
        release_gamma=0.4,
        size=50,
        offer_factor=4.0,
        quorum=1,
    )
    now = utc_now()
    run = invite(consumer, job, expires=(now + timedelta(days=30)).date().isoformat())
    run.keep_travel(mailbox, now=now)


@contextmanager
def own_work_apart(cost: Cost) -> Iterator[None]:
    """What parties do themselves is counted: a node that lets a run in or answers, a party that takes a message."""

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        depth = [0]

        def called(*arguments: Any, **options: Any) -> Any:
            depth[0] += 1
            began = time.process_time()
            try:
                return work(*arguments, **options)
            finally:
                depth[0] -= 1
                cost.own += (time.process_time() - began) * (depth[0] == 0)

        return called

    with ExitStack() as patches:
        for owner, name in ((OwnerNode, "take_invitation"), (OwnerNode, "take"), (Shell, "take")):
            patches.enter_context(patch.object(owner, name, timed(getattr(owner, name))))
        yield


def measure(owners: int) -> Cost:
    """A run, and looks that find nothing."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        place, cost = Path(folder), Cost(owners)
        (place / "mailbox").mkdir()
        store = open_store(str(place / "mailbox"))
        curator, consumer, folders = make_homes(place, owners)
        start_run(place, consumer, folders, store.address)
        desks: list[tuple[str, Desk]] = [
            ("consumer", opened.enter_context(consumer_desk(consumer.folder, store))),
            ("curator", opened.enter_context(curator_desk(curator.folder, store))),
            *(("owners", opened.enter_context(owner_desk(owner, store))) for owner in folders),
        ]
        happened = True
        with own_work_apart(cost):
            while happened:
                happened = False
                for kind, desk in desks:
                    began = time.process_time()
                    happened |= desk.look().something_happened
                    cost.all[kind] += time.process_time() - began
                    cost.looks[kind] += 1
        if not progress_of(consumer, consumer.known(RUN)).done:
            raise SystemExit(f"the run did not come to its end: {progress_of(consumer, consumer.known(RUN))}")
        for kind in ("consumer", "curator", "owners"):
            desk = next(desk for other, desk in desks if other == kind)
            began = time.process_time()
            for _ in range(IDLE_LOOKS):
                desk.look()
            cost.idle[kind] = (time.process_time() - began) / IDLE_LOOKS
        return cost


def page(costs: list[Cost]) -> str:
    """The table."""
    machine = f"Python {platform.python_version()}, {platform.machine()}"
    idle_looks = ", ".join(("consumer", "curator", "an owner"))
    columns = ("owners", "looks", "letters and polling, s", "for each owner, ms", "parties' own work, s")
    lines = [
        "# What a mailbox costs",
        "",
        f"`benchmarks/mailboxes.py`, {machine}: CPU seconds of one sealed run through one directory,",
        "all homes together, from the terms to the receipts. What parties do themselves stands apart.",
        "",
        f"| {' | '.join(columns)} | a look that finds nothing ({idle_looks}), ms |",
        "|---|---|---|---|---|---|",
    ]
    for cost in costs:
        idle = ", ".join(f"{cost.idle[kind] * 1e3:.1f}" for kind in ("consumer", "curator", "owners"))
        each = cost.carrying / cost.owners * 1e3
        lines.append(
            f"| {cost.owners} | {cost.looks.total()} | {cost.carrying:.2f} | {each:.1f} | {cost.own:.2f} | {idle} |"
        )
    lines += ["", f"Allowed for {ALLOWED_OWNERS} owners: {ALLOWED_FOR_ALL:.0f} s of letters and polling.", ""]
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--owners", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "mailboxes.md")
    options = parser.parse_args()
    measure(2)  # loads what the first run would
    text = page([measure(owners) for owners in options.owners])
    options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
