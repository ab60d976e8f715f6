"""Runs between organisations over a real NVFlare network on this machine; prints the time for each letter."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from between_world import OWNERS, Market
from home_world import CONSUMER, Clock
from loopback import LoopbackNetwork

from likeset.homes.home import DATABASE_FILE
from likeset.ledger.budget import Limit
from likeset.privacy.events import View
from likeset.protocol.party import CURATOR

_LIKESET = (sys.executable, "-c", "from likeset.app.start import main; main()")
_SECONDS = 600.0


class CourierWorld(Market):
    """A market where the mailbox of each home is its courier's folder; NVFlare's sites are named as the homes."""

    def __init__(self, folder: Path, **options: Any) -> None:
        place = folder.resolve() / "world"
        place.mkdir()
        super().__init__(place, clock=Clock(datetime.now(UTC)))
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        options = {"environment": environment, **options}
        self.network = LoopbackNetwork(place.parent / "network", (*OWNERS, CURATOR, CONSUMER), **options)
        self.network.provision()
        self.network.settle()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def courier(self, name: str) -> str:
        return f"courier://{self.network.mailbox(name)}"

    def spawn(self, name: str, *words: object) -> None:
        with (self.place / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(  # noqa: S603 (our own command)
                [*_LIKESET, *map(str, words)], stdout=log, stderr=log
            )

    def stop(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(_SECONDS)

    def begin(self, run: str, **job: Any) -> None:
        """Sign the terms of a run; the consumer's next sync posts them."""
        invited = self.invite(run=run, epsilon=4.0, **job)
        limit = Limit(9.0, 1e-5, invited.terms.relation)  # room for another run
        self.consumer.home.database.set_limit(View.owners(CONSUMER), limit)
        self.consumer.start_run(invited, self.courier(CONSUMER))
        self.drop()

    def letters(self) -> int:
        """How many letters all homes wrote."""
        count = 0
        for name in (*OWNERS, CURATOR, CONSUMER):
            with closing(sqlite3.connect(self.place / name / DATABASE_FILE)) as database:
                query = "SELECT count(*) FROM letters WHERE way = 'out' AND post = 'letter'"
                count += database.execute(query).fetchone()[0]
        return count

    def ended(self, name: str, **job: Any) -> str:
        """How a run ends."""
        self.begin(name, **job)
        began, before = time.monotonic(), self.letters()
        self.spawn(CONSUMER, "run", "watch", name, "--home", self.place / CONSUMER)
        self.processes.pop(CONSUMER).wait(_SECONDS)
        seconds, letters = time.monotonic() - began, self.letters() - before
        print(f"{name}: {letters} letters, {1000 * seconds / letters:.0f} ms each")  # noqa: T201
        ended = self.consumer.progress(self.consumer.run(name)).ended
        self.drop()
        return str(ended)


def main(folder: Path) -> dict[str, Any]:
    world = CourierWorld(folder)
    with world.network:
        world.network.start(world.network.server, *world.network.clients)
        try:
            for name in (CURATOR, *OWNERS):
                world.spawn(name, "up", world.place / name, "--no-console", "--mailbox", world.courier(name))
            runs = {name: world.ended(name, size=50, protocol=name) for name in ("sealed", "interactive")}
        finally:
            world.stop()
    return runs


if __name__ == "__main__":
    Path(sys.argv[1], "outcome.json").write_text(json.dumps(main(Path(sys.argv[1]))))
