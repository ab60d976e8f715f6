"""Parties of a split run by mailbox, and their workers, are killed at random moments: it goes on, or says why not.

Each party is a process of the command line, with a worker of its own. 5 kills by default, ``LIKESET_SPLIT_KILLS`` asks
for more. Who is killed and after how long follows from a seed; what a process does at that moment depends on its pace,
and what must hold, holds whatever that is.
"""

import os
import random
import sys
import time
from pathlib import Path

import pytest
from kill_world import CONSUMER, folder_of
from mail_homes import RUN
from split_processes import COMPUTING, OWNERS, Processes, run_of
from split_world import needs_engine

from chance import SEED
from likeset.homes import owner_node, review
from likeset.homes.consumer_home import ConsumerHome
from likeset.homes.owner_node import OwnerNode, spent_by_run
from likeset.ledger.ledger import Ledger
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS
from likeset.transports.desks import progress_of
from likeset.transports.posts import Ending

pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    needs_engine,
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to find a party's worker"),
]

KILLS = int(os.environ.get("LIKESET_SPLIT_KILLS", "5"))
_KILLS_IN_A_RUN = 10
_LONGEST_PAUSE = 6.0


def receipts_came(place: Path) -> bool:
    for name in OWNERS:
        with OwnerNode(folder_of(place, name)) as node:
            if owner_node.check(node, RUN).receipt is None:
                return False
    return True


def check_run(processes: Processes) -> Ending:
    """Everything that must hold when a run is over, however it ended."""
    home = ConsumerHome(folder_of(processes.place, CONSUMER))
    run = home.known(RUN)
    progress = progress_of(home, run)
    assert progress.ended in (Ending.DONE, Ending.UNFINISHED), (progress, processes.killed)
    with Ledger(home.ledger) as ledger:
        assert ledger.verify(messages=True).ok
    if progress.ended is not Ending.DONE:
        return progress.ended
    processes.wait(lambda: receipts_came(processes.place), "receipts do not come")
    for party in (CURATOR, WITNESS):
        shares = folder_of(processes.place, party) / "split"
        processes.wait(lambda shares=shares: not any(shares.glob("*")), f"{party} does not forget its shares")  # type: ignore[misc]
    summary = run.summary()
    assert len(summary.rows) == run.terms.size
    assert len(set(zip(summary.owners.tolist(), summary.handles.tolist(), strict=True))) == run.terms.size
    assert len(summary.absent) == len(summary.flagged) == 0
    for name in OWNERS:
        with OwnerNode(folder_of(processes.place, name)) as node:
            problems, _ = review.verify(node)
            verdict = owner_node.check(node, RUN)
            assert problems == []
            assert (verdict.problems, verdict.contradictions, verdict.aside) == ((), (), ())
            assert sum(charge.rows for charge in spent_by_run(node.ledger)) == run.terms.rows_per_owner
    return progress.ended


def test_whoever_is_killed_at_random_workers_included_goes_on_and_no_row_is_bought_or_charged_twice(
    tmp_path: Path,
) -> None:
    coins = random.Random(SEED)  # noqa: S311 - no secret
    victims = [*COMPUTING, *(f"worker of {name}" for name in COMPUTING), *OWNERS]
    killed, ends, number = 0, list[Ending](), 0
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
