"""Reserve, draw, commit; send stored bytes again, never draw again; several writes in one transaction."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger_world import CURATOR, ROWS, TARGET, Died, charge, commit, gaussian, laplace, opened, reserve

from durable_writes import durable_writes
from likeset import errors
from likeset.ledger.budget import Charge, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import NoRelease, Release

MEAN, SEVEN, FREE = charge(TARGET, gaussian()), charge(CURATOR, ROWS, rows=7), charge(CURATOR, NoRelease())
OFFER = Request("run", 0, "offer")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with opened(Ledger(path)) as ledger:
        yield ledger


def ask(place: int = 0, kind: str = "mean", content: bytes = b"") -> Request:
    return Request("run", place, kind, content)


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.entries()]


def drawn(message: bytes, release: Release[Any] | None = None) -> Callable[[], tuple[bytes, Release[Any] | None]]:
    return lambda: (message, release)


def dies() -> tuple[bytes, None]:
    raise Died


def test_a_repeated_request_gets_the_same_bytes_and_no_new_draw_charge_or_write(ledger: Ledger) -> None:
    draws = iter([b"first", b"second"])
    with durable_writes() as writes:
        for _ in range(3):
            assert ledger.draw(MEAN, lambda: (next(draws), None), request=ask(content=b"q")) == b"first"
    assert writes == ["ledger.sqlite"] * 2
    assert (kinds(ledger)[3:], ledger.accounts()[0].charges) == (["reserve", "commit"], 1)


def test_another_request_under_the_same_key_is_refused(ledger: Ledger) -> None:
    ledger.draw(MEAN, drawn(b"m"), request=ask(content=b"one"))
    others = [(gaussian(), b"two %d" % place) for place in range(20)]  # digests that are smaller, and larger
    for event, content in (*others, (gaussian(sigma=41.0), b"one")):
        with pytest.raises(errors.DifferentRequest):
            reserve(ledger, TARGET, event, request=ask(content=content), repeatable=True)
    with pytest.raises(errors.DifferentRequest):
        ledger.draw(SEVEN, drawn(b"m"), request=ask(content=b"one"))


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_second_answer_to_a_reservation_is_refused(ledger: Ledger, path: Path, repeatable: bool) -> None:
    """Also where two processes took a repeatable one up at once."""
    reservation = reserve(ledger, CURATOR, ROWS, request=ask(), rows=7, repeatable=repeatable)
    with Ledger(path) as other:
        if repeatable:
            assert reserve(other, CURATOR, ROWS, request=ask(), rows=7, repeatable=True) == reservation
        assert commit(ledger, reservation, b"m") == b"m"
        assert commit(other, reservation, b"m") == b"m"
        with pytest.raises(errors.DifferentRequest):
            commit(other, reservation, b"n")
    assert (ledger.accounts()[1].rows, ledger.verify().ok) == (7, True)


def test_a_reservation_of_another_ledger_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    with opened(Ledger(tmp_path / "other.sqlite")) as other:
        elsewhere = reserve(other, TARGET, gaussian(), request=ask())
    with pytest.raises(errors.ChargeRefused):
        commit(ledger, elsewhere, b"m")


def test_a_draw_must_be_the_event_that_was_reserved(ledger: Ledger) -> None:
    with pytest.raises(errors.ChargeRefused, match="another event"):
        ledger.draw(MEAN, drawn(b"m", Release(1.0, gaussian(sigma=20.0))), request=ask())


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_purged_answer_is_refused_and_never_drawn_again(ledger: Ledger, repeatable: bool) -> None:
    ledger.draw(FREE, drawn(b"m"), request=ask(), repeatable=repeatable)
    assert ledger.purge(run="run") == 1
    with pytest.raises(errors.MessagePurged):
        ledger.draw(FREE, dies, request=ask(), repeatable=repeatable)
    assert (ledger.verify().ok, kinds(ledger)[-1]) == (True, "purge")


def test_a_stored_message_that_was_changed_is_not_sent(ledger: Ledger) -> None:
    ledger.draw(MEAN, drawn(b"m"), request=ask())
    for message in range(20):  # digests that are smaller, and larger
        with ledger.deciding() as transaction:
            transaction.connection.execute("UPDATE drawn SET message = ?", (bytes([message]),))
        with pytest.raises(errors.LedgerTampered):
            ledger.draw(MEAN, dies, request=ask())
        with pytest.raises(errors.LedgerTampered):
            ledger.messages()
        assert not ledger.verify().ok


def test_without_the_key_of_the_fingerprints_nothing_is_answered(ledger: Ledger) -> None:
    ledger.draw(MEAN, drawn(b"m"), request=ask())
    for statement, error in (
        ("UPDATE about SET value = x'00'", errors.DifferentRequest),
        ("DELETE FROM about", errors.LedgerUnreadable),
    ):
        with ledger.deciding() as transaction:
            transaction.connection.execute(statement)
        with pytest.raises(error):
            ledger.draw(MEAN, dies, request=ask())


class TestInterrupted:
    def test_a_draw_that_fails_leaves_the_charge_and_is_not_made_again(self, ledger: Ledger, path: Path) -> None:
        """How it was reserved is on record: nobody takes it up as repeatable later, in another process either."""
        with pytest.raises(Died):
            ledger.draw(MEAN, dies, request=ask())
        spent = ledger.head()
        for repeatable in (False, True):
            with Ledger(path) as again, pytest.raises(errors.UnfinishedRequest):
                again.draw(MEAN, drawn(b"m"), request=ask(), repeatable=repeatable)
        assert (ledger.head(), ledger.accounts()[0].charges) == (spent, 1)

    def test_a_repeatable_draw_is_made_again_for_the_same_charge(self, ledger: Ledger) -> None:
        """Also if the budget is empty by now."""
        everything = charge(CURATOR, ROWS, rows=1000)
        with pytest.raises(Died):
            ledger.draw(everything, dies, request=ask(), repeatable=True)
        with pytest.raises(errors.UnfinishedRequest):
            ledger.draw(everything, drawn(b"rows"), request=ask())
        assert ledger.draw(everything, drawn(b"rows"), request=ask(), repeatable=True) == b"rows"
        assert (ledger.accounts()[1].rows, ledger.verify().ok) == (1000, True)

    def test_a_release_is_not_repeatable(self, ledger: Ledger) -> None:
        """Also not at the first attempt: it would come out only after a crash."""
        for _ in range(2):
            with pytest.raises(errors.ChargeRefused, match="not repeatable"):
                ledger.draw(MEAN, drawn(b"m", Release(0.5, gaussian())), request=ask(), repeatable=True)
        assert ledger.messages() == ()

    @pytest.mark.parametrize("call", [1, 2])
    def test_the_condition_holds_in_both_writes(self, ledger: Ledger, call: int) -> None:
        """A run is withdrawn before the charge, or between the charge and the answer."""
        calls: list[bool] = []

        def check() -> None:
            calls.append(True)
            assert ledger._store._connection.in_transaction
            if len(calls) == call:
                raise errors.IllegalMessage("withdrawn")

        with pytest.raises(errors.IllegalMessage):
            ledger.draw(MEAN, drawn(b"m"), request=ask(), check=check)
        assert (ledger.messages(), ledger.accounts()[0].charges) == ((), call - 1)


class TestTurns:
    def test_one_of_several_threads_draws_and_the_others_get_its_bytes(self, path: Path, ledger: Ledger) -> None:
        answers: list[bytes] = []
        begun, draws = threading.Barrier(4), iter([b"first", b"second"])

        def slow() -> tuple[bytes, None]:
            threading.Event().wait(0.05)
            return next(draws), None

        def draw() -> None:
            with Ledger(path) as own:
                begun.wait()
                answers.append(own.draw(MEAN, slow, request=ask()))

        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [b"first"] * 4
        assert (ledger.accounts()[0].charges, ledger.verify().ok) == (1, True)

    def test_a_draw_that_does_not_end_is_not_waited_for_without_end(self, path: Path, ledger: Ledger) -> None:
        def other() -> tuple[bytes, None]:
            with Ledger(path, patience=0.05) as second:
                with pytest.raises(errors.LedgerUnavailable, match="another draw"):
                    second.draw(MEAN, dies, request=ask(1))
                assert second.draw(SEVEN, drawn(b"rows"), request=ask(2), repeatable=True) == b"rows"
            return b"m", None

        assert ledger.draw(MEAN, other, request=ask()) == b"m"
        assert path.with_name("ledger.sqlite.lock").stat().st_mode & 0o777 == 0o600


class TestFreeAndRepeatable:
    def test_it_takes_one_write_and_a_repetition_none(self, ledger: Ledger) -> None:
        with durable_writes() as writes:
            assert ledger.draw(FREE, drawn(b"bid"), request=OFFER, repeatable=True) == b"bid"
            assert ledger.draw(FREE, drawn(b"never asked for"), request=OFFER, repeatable=True) == b"bid"
        assert (writes, kinds(ledger)[3:]) == (["ledger.sqlite"], ["reserve", "commit"])

    @pytest.mark.parametrize(
        ("cost", "repeatable"), [(SEVEN, True), (charge(TARGET, laplace(0.25)), True), (FREE, False)]
    )
    def test_everything_else_is_charged_before_it_is_drawn(
        self, ledger: Ledger, cost: Charge, repeatable: bool
    ) -> None:
        def run() -> tuple[bytes, None]:
            assert kinds(ledger)[-1] == "reserve"
            return b"drawn", None

        ledger.draw(cost, run, request=OFFER, repeatable=repeatable)

    def test_two_processes_that_compute_it_at_once_send_what_was_stored_first(self, ledger: Ledger, path: Path) -> None:
        def slow() -> tuple[bytes, None]:
            with Ledger(path) as other:
                assert other.draw(FREE, drawn(b"first"), request=OFFER, repeatable=True) == b"first"
            return b"second", None

        assert ledger.draw(FREE, slow, request=OFFER, repeatable=True) == b"first"
        assert kinds(ledger).count("commit") == 1


class TestTransactions:
    TABLES = {"letters": "CREATE TABLE letters (name TEXT PRIMARY KEY, data BLOB)"}  # noqa: RUF012

    def test_charges_answers_entries_and_rows_of_a_home_are_one_write(self, path: Path) -> None:
        with opened(Ledger(path, tables=self.TABLES)) as ledger, durable_writes() as writes:
            with ledger.deciding() as transaction:
                reply = transaction.answer(SEVEN, b"rows", None, request=OFFER)
                transaction.append("sent", "run", {})
                transaction.connection.execute("INSERT INTO letters VALUES ('offer', ?)", (reply,))
                with ledger.snapshot() as connection:
                    assert connection.execute("SELECT data FROM letters").fetchall() == [(b"rows",)]
                assert (kinds(ledger)[3:], ledger.accounts()[1].rows) == (["reserve", "commit", "sent"], 7)
                assert [stored.message for stored in ledger.messages()] == [b"rows"]
            assert writes == ["ledger.sqlite"]
            before = ledger.head()
            with pytest.raises(Died), ledger.deciding() as transaction:  # noqa: PT012 - a block
                transaction.answer(SEVEN, b"rows", None, request=ask())
                transaction.connection.execute("DELETE FROM letters")
                raise Died
            assert (ledger.head(), len(ledger.messages()), ledger.accounts()[1].rows) == (before, 1, 7)
        with Ledger(path, read_only=True) as looked, looked.snapshot() as connection:
            assert connection.execute("SELECT name FROM letters").fetchall() == [("offer",)]
            assert looked.verify().ok

    def test_each_charge_is_checked_against_those_before_it_and_if_one_fails_none_is_made(self, ledger: Ledger) -> None:
        before = ledger.head()
        with pytest.raises(errors.BudgetExceeded), ledger.deciding() as transaction:  # noqa: PT012 - a block
            transaction.append("began", "run", {})
            for place in range(2):
                reserve(transaction, CURATOR, ROWS, request=ask(place), rows=600)
        assert (ledger.head(), ledger.accounts()[1].rows) == (before, 0)

    def test_no_other_process_writes_meanwhile(self, ledger: Ledger, path: Path) -> None:
        with Ledger(path, patience=0.05) as other, ledger.deciding() as transaction:
            reserve(transaction, CURATOR, ROWS, request=OFFER, rows=7)
            with pytest.raises(errors.LedgerUnavailable, match="locked"):
                other.append("withdrawn", "run", {})
            assert other.accounts()[1].rows == 0
        assert kinds(ledger)[-1] == "reserve"

    @pytest.mark.parametrize("way", ["draw", "append", "deciding"])
    def test_no_other_write_begins_in_a_block(self, ledger: Ledger, way: str) -> None:
        """It would return as if it were durable."""
        with ledger.deciding() as transaction:
            transaction.append("began", "run", {})
            with pytest.raises(errors.LedgerUnavailable, match="within another"):  # noqa: PT012 - a block
                if way == "draw":
                    ledger.draw(SEVEN, dies, request=OFFER)
                elif way == "append":
                    ledger.append("sent", "run", {})
                else:
                    ledger.deciding().__enter__()
        assert kinds(ledger)[-1] == "began"

    def test_noise_needs_a_durable_charge(self, ledger: Ledger) -> None:
        with pytest.raises(errors.ChargeRefused, match="on the disk"), ledger.deciding() as transaction:  # noqa: PT012 - a block
            mean = reserve(transaction, TARGET, gaussian(), request=ask())
            transaction.commit(mean, b"drawn", release=Release([1.0], gaussian()))
        assert "reserve" not in kinds(ledger)

    def test_an_answer_is_found_in_the_block_that_it_is_committed_in(self, ledger: Ledger) -> None:
        with ledger.deciding() as transaction:
            assert transaction.answer(SEVEN, b"rows", None, request=OFFER) == b"rows"
            assert transaction.answer(SEVEN, b"other rows", None, request=OFFER) == b"rows"
        assert [message.message for message in ledger.messages()] == [b"rows"]
