"""Split runs by mailbox with real workers behind TLS links; parties and workers are killed. Skipped without workers."""

import os
import random
import sys
import time
from pathlib import Path

import pytest
from between_world import OWNERS
from home_world import CONSUMER
from split_homes import COMPUTING
from split_processes import RUN, Processes, run_of
from split_world import needs_engine

from chance import SEED
from likeset.homes.consumer import Consumer
from likeset.homes.home import Home
from likeset.homes.mail import Mail
from likeset.homes.owner import open_owner
from likeset.homes.review import verify
from likeset.homes.runs import Ending
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS

pytestmark = [pytest.mark.soak, needs_engine]

KILLS = int(os.environ.get("LIKESET_SPLIT_KILLS", "5"))
_KILLS_IN_A_RUN = 10
_LONGEST_PAUSE = 6.0


def receipts_came(place: Path) -> bool:
    for name in OWNERS:
        with open_owner(place / name) as owner:
            (run,) = owner.mail.runs()
            if owner.mail.receipt(run) is None:
                return False
    return True


def only_records_are_left(place: Path, party: str) -> bool:
    files = [path for path in (place / party / "split").rglob("*") if path.is_file()]
    return [(path.name, path.stat().st_size) for path in files] == [("opening.share", 0)]


def check_run(processes: Processes) -> Ending:
    """Everything that must hold when a run is over, however it ended."""
    place = processes.place
    with Home(place / CONSUMER) as home:
        consumer = Consumer(Mail(home))
        run = consumer.run(RUN)
        ended = consumer.progress(run).ended
        assert ended in (Ending.DONE, Ending.UNFINISHED), (consumer.progress(run), processes.killed)
        assert home.database.verify().ok
        if ended is not Ending.DONE:
            return Ending.UNFINISHED
        summary, terms = consumer.folder(RUN).summary(run.terms), run.terms
    processes.wait(lambda: receipts_came(place), "receipts do not come")
    for party in (CURATOR, WITNESS):
        processes.wait(lambda party=party: only_records_are_left(place, party), f"{party} keeps its share")  # type: ignore[misc]
    assert len(summary.rows) == terms.size
    assert len(set(zip(summary.owners.tolist(), summary.handles.tolist(), strict=True))) == terms.size
    assert len(summary.absent) == len(summary.flagged) == 0
    for name in OWNERS:
        with open_owner(place / name) as owner:
            assert verify(owner)[0] == []
            assert sum(charge["rows"] for charge in owner.spent_by_run()) == terms.rows_per_owner
    return ended


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to find a party's worker")
def test_a_run_survives_kills_of_parties_and_workers_at_random_moments(tmp_path: Path) -> None:
    """``LIKESET_SPLIT_KILLS`` asks for more kills. Victims and pauses follow from the seed."""
    coins, killed, number, ends = random.Random(SEED), 0, 0, list[Ending]()  # noqa: S311 - moments of kills
    victims = [*COMPUTING, *OWNERS, *(f"worker of {name}" for name in COMPUTING)]
    while killed < KILLS:
        with run_of(tmp_path / f"run-{number}") as processes:
            for _ in range(3 * _KILLS_IN_A_RUN):
                if processes.running[CONSUMER].poll() is not None or len(processes.killed) >= _KILLS_IN_A_RUN:
                    break
                time.sleep(coins.uniform(0.0, _LONGEST_PAUSE))
                processes.kill(coins.choice(victims))
            processes.wait(lambda: processes.running[CONSUMER].poll() is not None, "the consumer does not end")
            ends.append(check_run(processes))
            killed += len(processes.killed)
        number += 1
    sys.stdout.write(f"{killed} kills in {number} runs, seed {SEED}: {', '.join(ends)}\n")
    assert Ending.DONE in ends
