"""Real homes with a folder as their mailbox, for a console in a real browser: a steward's house, and the others."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chance import pinned_coins
from likeset import documents
from likeset.homes.consumer import Consumer
from likeset.homes.curator import Curator
from likeset.homes.home import Home, make_home
from likeset.homes.mail import Mail
from likeset.homes.owner import Owner, make_owner_home, open_owner
from likeset.homes.runs import Run
from likeset.ledger.budget import Limit
from likeset.privacy.events import Relation, View
from likeset.run.job import Job
from likeset.run.runs import invite, times_of_terms
from likeset.transports.stores import open_store
from likeset.transports.sync import Sync
from likeset.trust.cards import Role

PATIENCE = 120.0
"""Seconds after which something hangs; it ends a test, and is never measured."""

LIKESET = (sys.executable, "-c", "from likeset.app.start import main; main()")
COLUMNS = ("age", "creatinine", "lactate", "sex", "ward", "sepsis")
SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 120]}
  creatinine: {kind: numeric, bounds: [0, 1000]}
  lactate: {kind: numeric, bounds: [0, 30]}
  sex: {kind: category, values: [f, m]}
  ward: {kind: category, values: [intensive, surgery, medicine, burns]}
label: {column: sepsis, values: ["no", "yes"]}
"""


def table(seed: int, count: int, *, burns: int = 0) -> str:
    """Rows of a hospital, as CSV; so many of them of a ward that few have been in."""
    coins = pinned_coins(seed)
    lines = [",".join(COLUMNS)]
    for place in range(count):
        ill = coins.random() < 0.3
        numbers = (coins.integers(20, 95), coins.normal(120 if ill else 80, 15), coins.gamma(4 if ill else 1.5))
        age, creatinine, lactate = numbers
        ward = coins.choice(["intensive", "surgery", "medicine"]) if place >= burns else "burns"
        words = (coins.choice(["f", "m"]), ward, "yes" if ill else "no")
        lines.append(f"{age},{max(creatinine, 1.0):.1f},{lactate:.2f},{','.join(words)}")
    return "\n".join(lines) + "\n"


def waited(so: Callable[[], bool]) -> None:
    """Until something is so."""
    end = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


@dataclass
class Homes:
    """A consumer, a curator and two owners; nobody at the first of them has done anything yet.

    Args:
        place: of all their directories.
    """

    place: Path

    def __post_init__(self) -> None:
        self.mailbox.mkdir()
        (self.place / "schema.yaml").write_text(SCHEMA)
        for name, seed, count in (("st-mary", 1, 400), ("west-lab", 2, 300), ("target", 3, 60)):
            (self.place / f"{name}.csv").write_text(table(seed, count, burns=4 if name == "st-mary" else 0))
        box = [self.mailbox.as_uri()]
        with make_home(self.place / "curator", name="curator", roles=("curator",), mailboxes=box) as home:
            Curator(Mail(home)).add_schema(self.place / "schema.yaml")
        with make_home(self.place / "clinic", name="new-clinic", roles=("consumer",), mailboxes=box) as home:
            # Room for several runs.
            home.database.set_limit(View.owners("new-clinic"), Limit(9999.0, 1e-5, Relation.REPLACE_ONE))
        with make_owner_home(self.steward, name="st-mary") as home:
            Owner(Mail(home)).put_policy_in_force()
        self._make_west_lab()
        for at, party, role in (
            ("clinic", "curator", "curator"),
            ("clinic", "west-lab", "owner"),
            ("clinic", "st-mary", "owner"),
            ("curator", "clinic", "consumer"),
            ("west-lab", "clinic", "consumer"),
            ("west-lab", "curator", "curator"),
        ):
            self._pin(at, party, role)  # type: ignore[arg-type]

    def _pin(self, at: str, party: str, role: Role) -> None:
        with Home(self.place / at) as home, Home(self.place / party) as other:
            home.pins.pin(other.card, role, by="Ada")

    def _make_west_lab(self) -> None:
        """An owner whose rules decide by themselves."""
        folder = self.place / "west-lab"
        make_owner_home(folder, name="west-lab", mailboxes=[self.mailbox.as_uri()]).close()
        limits = {"epsilon": 0, "delta": 1e-5, "rows": 999}
        rules = {
            "likeset": "owner",
            "version": 1,
            "consumers": ["*"],
            "purposes": ["*"],
            "columns": list(COLUMNS),
            "smallest_group": 1,
            "per_run": dict(limits),
            "total": limits,
            "manual_approval": False,
        }
        documents.write(folder / "owner.yaml", rules)
        with open_owner(folder) as owner:
            owner.registry.add("samples", str(self.place / "west-lab.csv"), schema=self.place / "schema.yaml")

    @property
    def mailbox(self) -> Path:
        return self.place / "mailbox"

    @property
    def steward(self) -> Path:
        """The home whose console is looked at."""
        return self.place / "st-mary"

    @contextmanager
    def consumer(self) -> Iterator[Consumer]:
        with Home(self.place / "clinic") as home:
            yield Consumer(Mail(home))

    def card_of(self, party: str) -> tuple[Path, str]:
        """The file of somebody's card, and its fingerprint, as read out by telephone."""
        with Home(self.place / party) as home:
            return home.card_file, home.card.fingerprint

    def asks(self, run: str, purpose: str) -> Run:
        """The consumer signs terms and leaves them in the mailbox."""
        wished: dict[str, Any] = {
            "run": run,
            "schema": str(self.place / "schema.yaml"),
            "target": str(self.place / "target.csv"),
            "owners": {name: f"network:{name}" for name in ("st-mary", "west-lab")},
            "consumer": "new-clinic",
            "purpose": purpose,
            "epsilon": 8.0,
            "release_gamma": 0.4,
            "dimension": 16,
            "size": 20,
            "offer_factor": 3.0,
            "quorum": 1,
            "price_per_row": 2.0,
        }
        with self.consumer() as consumer:
            signed = invite(consumer, Job.of(**wished), **times_of_terms(30))
            return consumer.start_run(signed, open_store(self.mailbox.as_uri()).address)

    @contextmanager
    def others(self) -> Iterator[Callable[[], None]]:
        """All but the steward look into the mailbox once, each time this is called."""
        with ExitStack() as stack:
            syncs: list[Sync] = []
            for party in ("clinic", "curator", "west-lab"):
                store = open_store(self.mailbox.as_uri())
                stack.callback(store.close)
                home = stack.enter_context(Home(self.place / party))
                syncs.append(stack.enter_context(Sync(home, store)))

            def look() -> None:
                for sync in syncs:
                    sync.once()

            yield look

    def is_done(self, run: Run) -> bool:
        """Whether the consumer has its summary."""
        with self.consumer() as consumer:
            return consumer.progress(run).done


@contextmanager
def served(*words: object, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A process of likeset that prints a link; the link."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"}
    with log.open("wb") as output:
        process = subprocess.Popen([*LIKESET, *map(str, words)], stdout=output, stderr=output, env=environment)  # noqa: S603
    try:
        found: list[str] = []

        def told() -> bool:
            found[:] = re.findall(r"http://\S+/enter\?token=\S+", log.read_text())
            assert process.poll() is None, log.read_text()
            return bool(found)

        waited(told)
        yield process, found[0].rstrip('",')
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(PATIENCE)
