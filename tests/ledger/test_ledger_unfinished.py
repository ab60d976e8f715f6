"""A request that was charged and interrupted: refused, charged once more, or taken up again."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ledger_world import (
    CURATOR,
    ROWS,
    TARGET,
    answer,
    commit,
    death_between_journal_and_ledger,
    gaussian,
    laplace,
    opened,
    reserve,
)

from chance import public_coins
from likeset import errors
from likeset.ledger.ledger import Ledger, Request, Unfinished
from likeset.privacy.events import Release


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        yield ledger


def ask(kind: str = "mean") -> Request:
    return Request("run", 0, kind)


def test_an_interrupted_request_is_charged_again_only_on_demand(ledger: Ledger) -> None:
    reserve(ledger, TARGET, laplace(0.25), request=ask())
    with pytest.raises(errors.UnfinishedRequest):
        reserve(ledger, TARGET, laplace(0.25), request=ask())
    second = reserve(ledger, TARGET, laplace(0.25), request=ask(), unfinished="charge")
    assert second.attempt == 2
    assert ledger.accounts()[0].epsilon == 0.5


def test_a_mechanism_that_fails_leaves_the_charge(ledger: Ledger) -> None:
    def fail() -> tuple[bytes, None]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        answer(ledger, TARGET, laplace(0.25), fail, request=ask())
    assert ledger.accounts()[0].charges == 1
    with pytest.raises(errors.UnfinishedRequest):
        answer(ledger, TARGET, laplace(0.25), fail, request=ask())


def test_two_attempts_that_both_finish_send_the_same_bytes(ledger: Ledger) -> None:
    slow = reserve(ledger, TARGET, laplace(0.25), request=ask())
    fast = reserve(ledger, TARGET, laplace(0.25), request=ask(), unfinished="charge")
    assert commit(ledger, fast, b"fast") == b"fast"
    assert commit(ledger, slow, b"slow") == b"fast"
    assert reserve(ledger, TARGET, laplace(0.25), request=ask()).answer == b"fast"


def test_an_interrupted_request_that_is_resumed_is_charged_once(ledger: Ledger) -> None:
    first = reserve(ledger, CURATOR, ROWS, request=ask(), rows=7, unfinished="resume")
    before = ledger.head()
    second = reserve(ledger, CURATOR, ROWS, request=ask(), rows=7, unfinished="resume")
    assert (second.number, second.attempt, second.answer) == (first.number, 1, None)
    assert ledger.head() == before
    assert commit(ledger, second, b"rows") == b"rows"
    assert ledger.accounts()[1].rows == 7


@pytest.mark.parametrize("reserved", [("refuse",), ("charge",), ("resume", "charge")])
def test_a_draw_with_coins_is_never_taken_up_again(
    ledger: Ledger, tmp_path: Path, reserved: tuple[Unfinished, ...]
) -> None:
    """How it was reserved is on record: whoever asks to resume it later, in another process too, is refused."""
    for unfinished in reserved:
        reserve(ledger, TARGET, gaussian(), request=ask(), unfinished=unfinished)
    spent = ledger.head()
    for one in (ledger, Ledger(tmp_path / "ledger.sqlite")):
        with one, pytest.raises(errors.UnfinishedRequest):
            reserve(one, TARGET, gaussian(), request=ask(), unfinished="resume")
    with Ledger(tmp_path / "ledger.sqlite") as again:
        assert again.head() == spent


def test_an_empty_budget_does_not_stop_what_was_charged_before(ledger: Ledger) -> None:
    reserve(ledger, CURATOR, ROWS, request=ask(), rows=1000, unfinished="resume")
    with pytest.raises(errors.BudgetExceeded):
        reserve(ledger, CURATOR, ROWS, request=ask(), rows=1000, unfinished="charge")
    answer(ledger, CURATOR, ROWS, lambda: (b"rows", None), request=ask(), rows=1000, unfinished="resume")


@pytest.mark.parametrize("late", [b"rows", b"other rows"])
def test_two_processes_that_resume_send_the_same_bytes_or_one_of_them_nothing(
    ledger: Ledger, tmp_path: Path, late: bytes
) -> None:
    """Both took the charge up before either had an answer; the other one may be at any step of its own."""
    first = reserve(ledger, CURATOR, ROWS, request=ask(), rows=7, unfinished="resume")
    with Ledger(tmp_path / "ledger.sqlite") as other:
        second = reserve(other, CURATOR, ROWS, request=ask(), rows=7, unfinished="resume")
        assert commit(ledger, first, b"rows") == b"rows"
        if late == b"rows":
            assert commit(other, second, late) == b"rows"
        else:
            with pytest.raises(errors.DifferentRequest):
                commit(other, second, late)
        assert reserve(other, CURATOR, ROWS, request=ask(), rows=7).answer == b"rows"
    assert (ledger.accounts()[1].rows, ledger.verify(messages=True).ok) == (7, True)


def test_what_another_process_stored_but_did_not_record_is_not_stored_over(ledger: Ledger) -> None:
    first = reserve(ledger, CURATOR, ROWS, request=ask(), rows=7, unfinished="resume")
    with death_between_journal_and_ledger():
        commit(ledger, first, b"rows")
    with pytest.raises(errors.DifferentRequest):
        commit(ledger, first, b"other rows")
    assert commit(ledger, first, b"rows") == b"rows"


def test_a_release_cannot_be_made_under_a_charge_that_may_be_taken_up_again(ledger: Ledger) -> None:
    """Also not at the first attempt: it would come out only after a crash."""
    for _ in range(2):
        with pytest.raises(errors.ChargeRefused, match="cannot be resumed"):
            answer(
                ledger,
                TARGET,
                gaussian(),
                lambda: (b"m", Release(0.5, gaussian())),
                request=ask(),
                unfinished="resume",
            )
    assert ledger.messages() == ()


def test_fresh_coins_that_are_resumed_tell_everything_and_a_charge_for_each_draw_stops_it(ledger: Ledger) -> None:
    """Why a draw with noise must not be taken up again.

    Somebody who sees draws before they are stored, and pulls the plug each time: 400 draws of a noisy 3, whose
    scale is 20 (epsilon 0.1 for a change by 2), have a mean within 6 of it (20 * sqrt(2 / 400) = 1.4) for the
    price of one. Charged for each, an account of epsilon 1 sees 10 of them.
    """
    coins = public_coins(5)

    def seen(unfinished: Unfinished) -> list[float]:
        found: list[float] = []

        def dies() -> tuple[bytes, None]:
            found.append(3.0 + coins.laplace(scale=20.0))
            raise KeyboardInterrupt

        for _ in range(400):
            with pytest.raises((KeyboardInterrupt, errors.BudgetExceeded)):
                answer(ledger, TARGET, laplace(0.1), dies, request=ask(kind=unfinished), unfinished=unfinished)
        return found

    free = seen("resume")
    assert (len(free), ledger.accounts()[0].charges) == (400, 1)
    assert abs(float(np.mean(free)) - 3.0) < 6.0
    assert len(seen("charge")) == 9, "one is spent already"


def test_what_was_stored_but_not_recorded_is_finished_not_drawn_again(ledger: Ledger) -> None:
    """A death between the two writes of a commit: the journal has the message, the ledger has no entry."""
    reservation = reserve(ledger, TARGET, gaussian(), request=ask())
    with death_between_journal_and_ledger():
        commit(ledger, reservation, b"drawn", release=Release([1.5], gaussian()))
    again = reserve(ledger, TARGET, gaussian(), request=ask())
    assert again.answer == b"drawn"
    assert ledger.entries()[-1].document()["release"] == [1.5]
    assert ledger.accounts()[0].charges == 1
