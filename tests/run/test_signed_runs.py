"""Runs that are signed and not released: the ledger counts none of them, so whoever signs hears what all would cost."""

import contextlib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from remote_world import hold, make_world, write_job

from likeset.errors import LikesetError
from likeset.homes.consumer_home import ConsumerHome, KeptRun
from likeset.ledger.ledger import Ledger
from likeset.protocol.notices import Notice
from likeset.run.job import Job
from likeset.run.runs import invite, notes_on, signed_together


@pytest.fixture
def home(tmp_path: Path) -> ConsumerHome:
    return make_world(tmp_path)


def invited(home: ConsumerHome, run: str, **changes: Any) -> KeptRun:
    job = Job.load(write_job(home.folder.parent, run=run, release_gamma=1.0, **changes))
    return invite(home, job, expires="2099-01-01")


def told(home: ConsumerHome, run: KeptRun) -> list[Notice]:
    return [note for note in notes_on(home, run) if note.kind == "signed-runs-exceed-budget"]


def test_two_runs_that_fit_one_by_one_and_not_together(home: ConsumerHome) -> None:
    """The ledger's limit is the first run's epsilon, 8: a second signature promises what it will not pay for."""
    first = invited(home, "run-1")
    assert told(home, first) == []
    second = invited(home, "run-2")
    (note,) = told(home, second)
    assert note.details["runs"] == ("run-1", "run-2")
    assert note.details["limit"] == 8.0
    epsilon = note.details["epsilon"]
    assert 8.0 < epsilon < 16.0, "Gaussian releases compose for less than their sum"
    assert f"likeset ledger limit {home.ledger} --of new-clinic --epsilon {epsilon + 0.005:.2f}" in note.text
    with Ledger(home.ledger, read_only=True) as ledger:
        assert all(account.epsilon == 0.0 for account in ledger.accounts()), "a signature reserves nothing"


def test_the_run_that_is_released_last_is_refused(home: ConsumerHome, tmp_path: Path) -> None:
    """So the budget holds without a word at the signature."""
    first, second = invited(home, "run-1"), invited(home, "run-2")
    assert hold(tmp_path, first.name).ended == "done"
    assert told(home, second) == [], "the first has been paid for, and is no promise any more"
    with contextlib.suppress(LikesetError):
        hold(tmp_path, second.name)
    assert not second.summary_path.exists(), "it was signed, and is not paid for"
    with Ledger(home.ledger, read_only=True) as ledger:
        (about_target,) = [account for account in ledger.accounts() if account.view.protected == "new-clinic"]
    assert about_target.limit.epsilon == 8.0
    assert about_target.epsilon is not None
    assert 0.0 < about_target.epsilon <= 8.0


@pytest.mark.parametrize("ended", ["cancelled", "over", "expired"])
def test_runs_that_can_no_longer_be_released_do_not_count(home: ConsumerHome, ended: str) -> None:
    first, second = invited(home, "run-1"), invited(home, "run-2")
    assert told(home, second) != []
    today = date(2026, 1, 1)
    if ended == "cancelled":
        first.cancel()
    elif ended == "over":
        first.result.mkdir()
    else:
        today = date(2099, 1, 2)
    assert signed_together(home, today=today) == ()


def test_uniform_runs_tell_nothing_and_add_nothing(home: ConsumerHome) -> None:
    invited(home, "run-1")
    assert told(home, invited(home, "run-2", epsilon=0.0, offers="uniform")) == []


def test_a_home_that_never_signed_anything_has_nothing_to_tell(home: ConsumerHome) -> None:
    assert signed_together(home) == ()
