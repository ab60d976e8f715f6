"""The cost of a mailbox: CPU time of all homes in a sealed run through one directory, and of a quiet look.

Every party is a real home; all look in turn, in this process, until nothing happens.

    python benchmarks/mailboxes.py [--owners 10 100]
    python benchmarks/mailboxes.py --owners 400 --open-runs 40

With open runs: quiet looks of consumer and curator, while these runs of the same owners wait for all offers.
"""

import argparse
import random
import resource
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from likeset.homes.consumer import Consumer
from likeset.homes.curator import Curator
from likeset.homes.home import Home, make_home
from likeset.homes.mail import Mail
from likeset.homes.owner import Owner
from likeset.homes.runs import Run
from likeset.ledger.budget import Limit
from likeset.privacy.events import Relation, View
from likeset.protocol.wire import READS
from likeset.run.between import invite
from likeset.run.job import Job
from likeset.transports.stores import open_store
from likeset.transports.sync import Sync
from likeset.trust.cards import CardSecret, SealingSecret
from likeset.trust.letters import Acceptance, Post, file_name, pair_of

RUN, CONSUMER, ROWS, IDLE_LOOKS = "run-1", "new-clinic", 200, 20
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
consumers: [new-clinic]
purposes: ["research*"]
columns: [age, dose, sex]
manual_approval: false
smallest_group: 1
per_run: {epsilon: 99, delta: 1.0e-5, rows: 999}
total: {epsilon: 999, delta: 1.0e-5, rows: 9999}
runs_per_month: 99
"""


def write_rows(path: Path, seed: int) -> None:
    coins = random.Random(seed)  # noqa: S311 (rows of a benchmark)
    rows = (f"{coins.randint(20, 90)},{coins.randint(0, 1000)},{coins.choice('fm')}" for _ in range(ROWS))
    path.write_text("\n".join(["age,dose,sex", *rows]) + "\n")


def make_homes(place: Path, owners: int) -> dict[str, Home]:
    """All homes, which pinned each other's cards."""
    schema = place / "schema.yaml"
    schema.write_text(SCHEMA)
    consumer = make_home(place / CONSUMER, name=CONSUMER, roles=("consumer",))
    consumer.database.set_limit(View.owners(CONSUMER), Limit(9999.0, 1e-5, Relation.REPLACE_ONE))
    curator = make_home(place / "curator", name="curator", roles=("curator",))
    Curator(Mail(curator)).add_schema(schema)
    consumer.pins.pin(curator.card, "curator")
    curator.pins.pin(consumer.card, "consumer")
    homes = {CONSUMER: consumer, "curator": curator}
    for number in range(owners):
        name = f"owner-{number:04d}"
        home = homes[name] = make_home(place / name, name=name, roles=("owner",))
        (home.folder / "owner.yaml").write_text(POLICY)
        write_rows(place / f"{name}.csv", number)
        Owner(Mail(home)).registry.add("patients", str(place / f"{name}.csv"), schema=schema)
        home.pins.pin(consumer.card, "consumer")
        home.pins.pin(curator.card, "curator")
        consumer.pins.pin(home.card, "owner")
    return homes


def ask(consumer: Consumer, name: str, owners: list[str], place: Path, mailbox: str) -> Run:
    write_rows(place / "target.csv", -1)
    wished = {"run": name, "schema": str(place / "schema.yaml"), "target": str(place / "target.csv"), "size": 50}
    wished |= {"owners": {owner: f"network:{owner}" for owner in owners}, "consumer": CONSUMER, "epsilon": 30.0}
    wished |= {"purpose": "research", "release_gamma": 0.4, "dimension": 64, "auction": "everyone"}
    return consumer.start_run(invite(consumer, Job.of(**wished), expires="2099-01-01"), mailbox)


def quiet_looks(owners: int, runs: int) -> dict[str, float]:
    """CPU seconds of a look of consumer and curator at open runs, in which owners accepted and are silent."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        homes = make_homes(place, 0)
        (place / "mailbox").mkdir()
        store = open_store((place / "mailbox").as_uri())
        secrets = {f"owner-{number:04d}": CardSecret.generate(f"owner-{number:04d}") for number in range(owners)}
        for secret in secrets.values():
            homes[CONSUMER].pins.pin(secret.card, "owner")
        key = SealingSecret.generate().public
        consumer = Consumer(Mail(homes[CONSUMER]))
        for number in range(runs):
            run = ask(consumer, f"run-{number}", list(secrets), place, store.address)
            for name, secret in secrets.items():
                run_id = bytes.fromhex(run.terms.run_id)
                accepted = Acceptance(run_id, run.digest, "owner", name, secret.card, key, READS)
                way = pair_of(secret, homes[CONSUMER].card).outgoing
                data = way.wrap(Post("acceptance", run.digest, accepted.signed_by(secret).to_bytes()))
                store.write(way.folder, file_name(data), data)
        syncs = {name: stack.enter_context(Sync(home, store)) for name, home in homes.items()}
        while sum(sync.once().something_happened for sync in syncs.values()):
            pass
        waiting = sum(run.state == "begun" for run in syncs["curator"].mail.runs())
        assert waiting == runs, f"{waiting} of {runs} runs wait"  # noqa: S101 - else another thing is measured
        spent = {}
        for name, sync in syncs.items():
            start = time.process_time()
            for _ in range(IDLE_LOOKS):
                sync.once()
            spent[name] = (time.process_time() - start) / IDLE_LOOKS
        for home in homes.values():
            home.close()
        return spent


def measure(owners: int) -> tuple[Counter[str], float]:
    """CPU seconds of a run by kind of party, and of a quiet look of an owner."""
    with tempfile.TemporaryDirectory() as folder:
        return _measured(Path(folder), owners)


def _measured(place: Path, owners: int) -> tuple[Counter[str], float]:
    homes, spent = make_homes(place, owners), Counter[str]()
    (place / "mailbox").mkdir()
    store = open_store((place / "mailbox").as_uri())
    names = [name for name in homes if name not in (CONSUMER, "curator")]
    consumer = Consumer(Mail(homes[CONSUMER]))
    run = ask(consumer, RUN, names, place, store.address)
    with ExitStack() as stack:
        syncs = {name: stack.enter_context(Sync(home, store)) for name, home in homes.items()}
        happened = True
        while happened:
            happened = False
            for name, sync in syncs.items():
                start = time.process_time()
                happened |= sync.once().something_happened
                spent[name if name in (CONSUMER, "curator") else "owners"] += time.process_time() - start
        assert consumer.progress(run).done, consumer.progress(run)  # noqa: S101 - else there is nothing to measure
        start = time.process_time()
        for _ in range(IDLE_LOOKS):
            syncs[names[0]].once()
        idle = (time.process_time() - start) / IDLE_LOOKS
    for home in homes.values():
        home.close()
    return spent, idle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--owners", type=int, nargs="+", default=[10, 100], help="how many owners; repeatable")
    parser.add_argument("--open-runs", type=int, default=0, help="measure quiet looks while so many runs are open")
    asked = parser.parse_args()
    for owners in asked.owners:
        if asked.open_runs:
            looks = quiet_looks(owners, asked.open_runs).items()
            parts = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in looks)
            print(f"{owners:5d} owners, {asked.open_runs} open runs: a quiet look takes {parts} of CPU")
            continue
        spent, idle = measure(owners)
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in spent.items())
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        cost = f"{spent.total():.1f} s of CPU ({parts}); quiet look {1000 * idle:.1f} ms; {memory:.0f} MB"
        print(f"{owners:5d} owners: {cost}")


if __name__ == "__main__":
    main()
