"""Real homes with a folder as their mailbox, for a console in a real browser: a steward's house, and the others."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from between_world import Market
from home_world import CONSUMER, POLICY, Clock, rows_text

from likeset.homes.home import Home, make_home
from likeset.homes.mail import Mail
from likeset.homes.owner import Owner
from likeset.homes.runs import Run
from likeset.ledger.budget import Limit
from likeset.privacy.events import Relation, View
from likeset.run.between import invite, times_of_terms
from likeset.run.job import Job

PATIENCE = 120.0
"""Seconds after which something hangs; it ends a test, and is never measured."""

LIKESET = (sys.executable, "-c", "from likeset.app.start import main; main()")
COLUMNS = POLICY["columns"]


def waited(so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


class Homes(Market):
    """A market and one owner more, in whose home nobody has done anything yet."""

    def __init__(self, place: Path) -> None:
        super().__init__(place, clock=Clock(datetime.now(UTC)))
        (place / "st-mary.csv").write_text(rows_text(5, 400, rare=4))
        with make_home(self.steward, name="st-mary", roles=("owner",)) as home:
            Owner(Mail(home)).put_policy_in_force()
            self.consumer.home.pins.pin(home.card, "owner", by="Ada")
        limit = Limit(9999.0, 1e-5, Relation.REPLACE_ONE)  # room for several runs
        self.consumer.home.database.set_limit(View.owners(CONSUMER), limit)

    @property
    def mailbox(self) -> Path:
        return self.place / "mailbox"

    @property
    def steward(self) -> Path:
        return self.place / "st-mary"

    def card_of(self, party: str) -> tuple[Path, str]:
        with Home(self.place / party) as home:
            return home.card_file, home.card.fingerprint

    def asks(self, run: str, purpose: str) -> Run:
        """The consumer signs terms and leaves them in the mailbox."""
        owners = {name: f"network:{name}" for name in ("st-mary", "a")}
        job = self.write_job(run=run, purpose=purpose, owners=owners, size=20, offer_factor=3.0, quorum=1)
        signed = invite(self.consumer, Job.load(job), **times_of_terms(30))
        return self.consumer.start_run(signed, self.address)

    def others_look(self) -> None:
        """All but the steward look into the mailbox once."""
        self.clock.now = datetime.now(UTC)
        self.turn(CONSUMER, "curator", "a")

    def is_done(self, run: Run) -> bool:
        return self.consumer.progress(run).done


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
