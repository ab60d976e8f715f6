"""Charges, answers and entries of audit that are written together: all or nothing, and in few writes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from ledger_world import (
    CURATOR,
    ROWS,
    TARGET,
    Died,
    answer,
    death_between_journal_and_ledger,
    gaussian,
    laplace,
    opened,
    reserve,
)

from durable_writes import durable_writes
from likeset import errors
from likeset.ledger.ledger import Entry, Ledger, Request, Unfinished
from likeset.privacy.events import NoRelease, Release

LEDGER, JOURNAL = "ledger.sqlite", "ledger.sqlite.messages"
FREE = NoRelease()
BEGIN, OFFER, HEARD = Request("run", 0, "begin"), Request("run", 0, "offer"), Request("run", 0, "heard", b"call")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / LEDGER


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with opened(Ledger(path)) as ledger:
        ledger.messages()  # makes their file
        yield ledger


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.entries()]


def shell(ledger: Ledger, draw: bytes = b"rows") -> bytes:
    """What an owner's shell writes from the first message of a run to its reply."""
    with ledger.deciding() as transaction:
        begin = reserve(transaction, TARGET, laplace(0.25), request=BEGIN, unfinished="resume")
        offer = reserve(transaction, CURATOR, ROWS, request=OFFER, rows=7, unfinished="resume")
        if "began" not in kinds(ledger):
            transaction.append("began", "run", {"data": "d"})
    if offer.answer is not None:
        return offer.answer
    with ledger.deciding() as transaction:
        transaction.commit(begin, b"fingerprint of the data")
        reply = transaction.commit(offer, draw)
        transaction.append("sent", "run", {"entry": offer.number})
    return reply


def test_an_owner_answers_the_first_message_of_a_run_in_three_writes_and_a_repetition_in_none(ledger: Ledger) -> None:
    """Charges with the note that it began; both answers in the journal; both on record with the note that it left."""
    with durable_writes() as writes:
        assert shell(ledger) == b"rows"
    assert writes == [LEDGER, JOURNAL, LEDGER]
    assert kinds(ledger)[3:] == ["reserve", "reserve", "began", "commit", "commit", "sent"]
    with durable_writes() as writes:
        assert shell(ledger) == b"rows"
    assert writes == []
    assert ledger.verify(messages=True).ok


class TestSeveralChargesAtOnce:
    def test_if_one_cannot_be_paid_none_is_made(self, ledger: Ledger) -> None:
        before = ledger.head()
        with pytest.raises(errors.BudgetExceeded), ledger.deciding() as transaction:  # noqa: PT012 - a block
            transaction.append("began", "run", {})
            reserve(transaction, TARGET, laplace(0.25), request=BEGIN)
            reserve(transaction, CURATOR, ROWS, request=OFFER, rows=1001)
        assert ledger.head() == before
        assert ledger.accounts()[0].epsilon == 0.0

    def test_each_is_checked_against_those_before_it(self, ledger: Ledger) -> None:
        with pytest.raises(errors.BudgetExceeded), ledger.deciding() as transaction:  # noqa: PT012 - a block
            for place in range(2):
                reserve(transaction, CURATOR, ROWS, request=Request("run", place, "offer"), rows=600)
        assert ledger.accounts()[1].rows == 0

    def test_what_is_decided_on_cannot_change_meanwhile(self, ledger: Ledger, path: Path) -> None:
        with Ledger(path, patience=0.05) as other, ledger.deciding() as transaction:
            reserve(transaction, CURATOR, ROWS, request=OFFER, rows=7)
            with pytest.raises(errors.LedgerUnavailable, match="locked"):
                other.append("withdrawn", "run", {})
            assert other.accounts()[1].rows == 0
        assert kinds(ledger)[-1] == "reserve"

    def test_it_can_be_read_meanwhile_with_what_was_appended(self, ledger: Ledger) -> None:
        with ledger.deciding() as transaction:
            reserve(transaction, CURATOR, ROWS, request=OFFER, rows=7)
            assert (kinds(ledger)[-1], ledger.accounts()[1].rows) == ("reserve", 7)

    @pytest.mark.parametrize("way", ["reserve", "append", "deciding"])
    def test_no_other_write_begins_meanwhile(self, ledger: Ledger, way: str) -> None:
        """It would return as if it were durable."""
        with ledger.deciding() as transaction:
            transaction.append("began", "run", {})
            with pytest.raises(errors.LedgerUnavailable, match="within another"):  # noqa: PT012 - a block
                if way == "reserve":
                    reserve(ledger, CURATOR, ROWS, request=OFFER, rows=7)
                elif way == "append":
                    ledger.append("sent", "run", {})
                else:
                    ledger.deciding().__enter__()
        assert kinds(ledger)[-1] == "began"


class TestAnswersUnderACondition:
    def test_if_the_decision_does_not_stand_nothing_is_kept_and_nothing_on_record(self, ledger: Ledger) -> None:
        offer = reserve(ledger, CURATOR, ROWS, request=OFFER, rows=7, unfinished="resume")
        before = ledger.head()
        with pytest.raises(errors.IllegalMessage), ledger.deciding() as transaction:  # noqa: PT012 - a block
            transaction.commit(offer, b"rows")
            transaction.append("sent", "run", {"entry": offer.number})
            raise errors.IllegalMessage("withdrawn")
        assert (ledger.head(), ledger.messages()) == (before, ())
        assert ledger.accounts()[1].rows == 7, "what was charged stays charged"

    @pytest.mark.parametrize("unfinished", ["refuse", "charge"])
    def test_what_is_drawn_with_coins_needs_a_charge_on_the_disk_first(
        self, ledger: Ledger, unfinished: Unfinished
    ) -> None:
        with pytest.raises(errors.ChargeRefused, match="on the disk"), ledger.deciding() as transaction:  # noqa: PT012 - a block
            mean = reserve(transaction, TARGET, gaussian(), request=Request("run", 0, "mean"), unfinished=unfinished)
            transaction.commit(mean, b"drawn", release=Release([1.0], gaussian()))
        assert "reserve" not in kinds(ledger)

    def test_an_answer_is_found_in_the_block_that_it_is_committed_in(self, ledger: Ledger) -> None:
        with ledger.deciding() as transaction:
            offer = reserve(transaction, CURATOR, ROWS, request=OFFER, rows=7, unfinished="resume")
            assert transaction.commit(offer, b"rows") == b"rows"
            assert transaction.commit(offer, b"rows") == b"rows"
            again = reserve(transaction, CURATOR, ROWS, request=OFFER, rows=7, unfinished="resume")
            assert again.answer == b"rows"
            with pytest.raises(errors.DifferentRequest):
                transaction.commit(offer, b"other rows")
        assert [message.message for message in ledger.messages()] == [b"rows"]


class TestFreeAndTheSameAgain:
    def answered(self, ledger: Ledger, request: Request = HEARD, reply: bytes = b"bid") -> bytes:
        return answer(ledger, CURATOR, FREE, lambda: (reply, None), request=request, unfinished="resume")

    def test_it_takes_two_writes_the_bytes_first(self, ledger: Ledger) -> None:
        with durable_writes() as writes:
            assert self.answered(ledger) == b"bid"
        assert writes == [JOURNAL, LEDGER]
        assert kinds(ledger)[-2:] == ["reserve", "commit"]
        with durable_writes() as writes:
            assert self.answered(ledger, reply=b"never asked for") == b"bid"
        assert writes == []

    @pytest.mark.parametrize("rows", [0, 1])
    def test_what_costs_something_is_charged_before_it_is_run(self, ledger: Ledger, rows: int) -> None:
        event = ROWS if rows else laplace(0.25)
        view = CURATOR if rows else TARGET

        def run() -> tuple[bytes, None]:
            assert kinds(ledger)[-1] == "reserve"
            return b"drawn", None

        answer(ledger, view, event, run, request=OFFER, rows=rows, unfinished="resume")

    @pytest.mark.parametrize("unfinished", ["refuse", "charge"])
    def test_what_is_not_the_same_again_is_reserved_before_it_is_run(
        self, ledger: Ledger, unfinished: Unfinished
    ) -> None:
        def run() -> tuple[bytes, None]:
            assert kinds(ledger)[-1] == "reserve"
            return b"drawn", None

        answer(ledger, CURATOR, FREE, run, request=OFFER, unfinished=unfinished)

    def test_a_death_between_the_two_writes_leaves_a_message_that_was_never_sent(self, ledger: Ledger) -> None:
        before = ledger.head()
        with death_between_journal_and_ledger():
            self.answered(ledger)
        assert ledger.head() == before
        assert [message.message for message in ledger.messages()] == [b"bid"]
        assert ledger.verify(messages=True).ok

    def test_after_that_death_the_same_request_gets_the_same_bytes_without_a_run(
        self, ledger: Ledger, path: Path
    ) -> None:
        with death_between_journal_and_ledger():
            self.answered(ledger)
        with Ledger(path) as again, durable_writes() as writes:
            assert self.answered(again, reply=b"another machine's bid") == b"bid"
            assert kinds(again)[-2:] == ["reserve", "commit"]
            assert again.verify(messages=True).ok
        assert writes == [LEDGER]

    def test_after_that_death_another_request_is_answered_as_if_the_first_had_not_come(self, ledger: Ledger) -> None:
        with death_between_journal_and_ledger():
            self.answered(ledger)
        other = Request("run", 0, "heard", b"another call")
        assert self.answered(ledger, other, b"other bid") == b"other bid"
        with pytest.raises(errors.DifferentRequest):
            self.answered(ledger)
        assert ledger.verify(messages=True).ok

    def test_two_processes_that_compute_it_at_once_send_what_was_stored_first(self, ledger: Ledger, path: Path) -> None:
        def slow() -> tuple[bytes, None]:
            with Ledger(path) as other:
                assert self.answered(other, reply=b"first") == b"first"
            return b"second", None

        assert answer(ledger, CURATOR, FREE, slow, request=HEARD, unfinished="resume") == b"first"
        assert kinds(ledger).count("commit") == 1

    def test_a_purge_between_does_no_harm(self, ledger: Ledger) -> None:
        with death_between_journal_and_ledger():
            self.answered(ledger)
        ledger.purge(run="run")
        assert self.answered(ledger) == b"bid"
        assert ledger.verify(messages=True).ok

    def test_what_a_death_left_may_be_purged_by_its_own_time(self, path: Path) -> None:
        """It is older than the charge that took it up, and a purge goes by its age: that is no tampering."""
        hours = datetime(2026, 3, 5, 12, tzinfo=UTC)
        with opened(Ledger(path, clock=lambda: hours)) as ledger:
            with death_between_journal_and_ledger():
                answer(ledger, CURATOR, FREE, lambda: (b"bid", None), request=HEARD, unfinished="resume")
            hours += timedelta(hours=2)
            assert answer(ledger, CURATOR, FREE, lambda: (b"", None), request=HEARD, unfinished="resume") == b"bid"
            assert ledger.purge(before=hours - timedelta(hours=1)) == 1
            assert ledger.verify(messages=True).problems == ()


class TestReaders:
    def test_every_durable_entry_is_told_once_in_order_and_nothing_that_was_undone(self, path: Path) -> None:
        told: list[Entry] = []
        with opened(Ledger(path, reader=lambda entry, _: told.append(entry))) as ledger, Ledger(path) as other:
            with pytest.raises(Died), ledger.deciding() as transaction:  # noqa: PT012 - a block
                transaction.append("began", "run", {})
                raise Died
            other.append("invited", "run", {})
            with ledger.deciding() as transaction:
                transaction.append("approved", "run", {})
                assert told[-1].kind == "invited", "not yet durable"
            with pytest.raises(errors.ChargeRefused):
                ledger.append("commit", "x", {})
            ledger.refresh()
            assert tuple(told) == ledger.entries()
            assert told[-1].kind == "approved"
