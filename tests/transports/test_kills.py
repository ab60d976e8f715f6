"""Parties of a run as processes that are killed at random moments: the run ends, and nothing happens twice."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from home_world import CONSUMER, Network, terms
from test_sync import POLICIES, ROUNDS

from likeset.protocol.party import CURATOR

_LOOK = """
import sys
from pathlib import Path
from home_world import Clock
from likeset.homes.home import Home
from likeset.transports.stores import open_store
from likeset.transports.sync import Sync
home, address = Path(sys.argv[1]), sys.argv[2]
while True:
    with Home(home, clock=Clock()) as opened, Sync(opened, open_store(address)) as sync:
        for _ in range(20):
            sync.once()
"""
_MOST_SECONDS = 900


def _start(network: Network, name: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", _LOOK, str(network.place / name), network.address]
    return subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)})  # noqa: S603 - our own script


@pytest.mark.soak
@pytest.mark.parametrize("changes", [{}, ROUNDS], ids=["sealed", "interactive"])
def test_a_run_whose_parties_are_killed_at_random_ends_and_nothing_happens_twice(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    kills, seed = int(os.environ.get("LIKESET_MAIL_KILLS", "6")), int(os.environ.get("LIKESET_SEED", "8"))
    chance, agreed = random.Random(seed), terms(**changes)  # noqa: S311 - when to kill
    with Network(tmp_path, policies=POLICIES) as network:
        run = network.approved(agreed)
        names = (CONSUMER, CURATOR, "a", "b")
        running = {name: _start(network, name) for name in names}
        try:
            end = time.monotonic() + _MOST_SECONDS
            while not network.consumer.progress(run).done:
                assert time.monotonic() < end, network.consumer.progress(run)
                time.sleep(chance.uniform(0.2, 2.0))
                if kills:
                    kills -= 1
                    name = chance.choice(names)
                    running[name].send_signal(signal.SIGKILL)
                    running[name].wait()
                    running[name] = _start(network, name)
        finally:
            for process in running.values():
                process.kill()
                process.wait()
        for name in names:
            ledger = network.sync(name).home.database
            assert ledger.verify().ok
            charged = [entry.key for entry in ledger.entries() if entry.kind == "reserve"]
            answered = [entry.key for entry in ledger.entries() if entry.kind == "commit"]
            assert len(charged) == len(set(charged))
            assert sorted(charged) == sorted(answered), "a run that ended has no interrupted draw"
        for name in ("a", "b"):
            mail = network.owner(name).mail
            (mine,) = mail.runs()
            sent = [row for row in mail.letters(mine) if row.way == "out" and row.post == "letter"]
            assert len({(row.round, row.kind) for row in sent}) == len(sent)
            assert sum(row.rows for row in sent) <= agreed.rows_per_owner
