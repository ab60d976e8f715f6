"""A party is stopped before or after anything durable that it does: nothing is paid twice, and the run ends."""

from pathlib import Path
from typing import Any

import pytest
from kill_world import CONSUMER
from mail_homes import Crash, MailHomes, copy_of, counted, homes_in

from likeset.protocol.party import CURATOR
from likeset.transports.posts import Ending

JOBS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "rounds": {"protocol": "interactive", "size": 2},
    "auction": {"auction": "threshold", "auction_epsilon": 30.0},
}
STRIDE = 61
"""Of the steps of a run, so many are left out between two that the quick test tries."""


def prepared(place: Path, kind: str) -> MailHomes:
    """All have the terms, and all stewards approve."""
    homes = homes_in(place, owners=("a", "b"), **JOBS[kind])
    homes.look()
    homes.approve()
    return homes


def run_with_crash(homes: MailHomes, stop_at: int = 0) -> int:
    """Looks in turn; whoever is stopped begins anew. Returns how many steps there were."""
    with counted(homes, stop_at) as steps:
        for _ in range(60):
            happened = False
            for party in homes.parties:
                try:
                    happened |= homes.look(party).something_happened
                except Crash:
                    homes.desks.pop(party, None)  # nothing is closed in order
                    happened = True
            if not happened:
                return steps.done
    raise AssertionError("something still happens")


def check_ended(homes: MailHomes, paid: dict[str, int]) -> None:
    """Either everything was paid once, or the run ended for a charge without a draw, and nobody paid more."""
    homes.drop()
    ended, now = homes.progress.ended, homes.charges()
    if ended is Ending.UNFINISHED:
        assert all(now[party] <= paid[party] for party in now)
        return
    assert ended in (Ending.DONE, Ending.QUORUM_MISSED)
    if not homes.run.terms.auction_epsilon:  # whom an auction asks, and with it what owners send, coins decide
        assert ended is Ending.DONE
        assert now == paid
    assert now[CONSUMER] == paid[CONSUMER]


def try_crashes(tmp_path: Path, kind: str, *, first: int, stride: int) -> None:
    ready = prepared(tmp_path / "ready", kind)
    homes = copy_of(ready, tmp_path / "whole")
    count = run_with_crash(homes)
    check_ended(homes, homes.charges())
    paid = homes.charges()
    for stop_at in range(first, count, stride):
        homes = copy_of(ready, tmp_path / str(stop_at))
        run_with_crash(homes, stop_at)
        check_ended(homes, paid)


@pytest.mark.parametrize("kind", JOBS)
def test_a_party_that_is_stopped_at_some_step_goes_on(tmp_path: Path, kind: str) -> None:
    try_crashes(tmp_path, kind, first=7, stride=STRIDE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", JOBS)
def test_a_party_that_is_stopped_at_any_of_many_steps_goes_on(tmp_path: Path, kind: str) -> None:
    try_crashes(tmp_path, kind, first=1, stride=17)


def test_the_curator_is_stopped_between_writing_down_a_step_and_taking_it(tmp_path: Path) -> None:
    homes = prepared(tmp_path, "sealed")
    homes.look("a", "b", CONSUMER, CURATOR, "a", "b")
    desk = homes.desk(CURATOR)
    desk.memory.apply = _crash  # type: ignore[method-assign, assignment]
    with pytest.raises(Crash):
        desk.look()
    homes.desks.pop(CURATOR)
    homes.settle()
    assert homes.progress.done


def _crash(*_: object) -> None:
    raise Crash
