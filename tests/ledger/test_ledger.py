"""Reserve, run, commit; resend, never redraw; accounts that count what reaches them."""

import logging
import math
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ledger_world import AUCTION, CURATOR, ROWS, TARGET, charge, commit, gaussian, laplace, limit, opened, reserve

from likeset import errors
from likeset.errors import BudgetExceeded, InvalidArgument, LikesetError
from likeset.ledger.budget import Charge, Limit, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy import accounting, events
from likeset.privacy.accounting import Basis
from likeset.privacy.events import (
    ROW,
    Composition,
    NoRelease,
    Norm,
    Observer,
    PrivacyUnit,
    PublicSize,
    Relation,
    Release,
    RowSum,
    Simulated,
    ThresholdAuction,
    View,
)

CLOSE = 1e-3  # a single pure charge is priced exactly, and delta takes a little off its epsilon


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        yield ledger


def ask(place: int = 0, kind: str = "mean", content: bytes = b"") -> Request:
    return Request("run", place, kind, content)


class TestCharging:
    def test_a_refused_charge_leaves_no_trace(self, ledger: Ledger) -> None:
        before = ledger.head()
        with pytest.raises(errors.BudgetExceeded) as refused:
            reserve(ledger, TARGET, gaussian(sigma=1.0), request=ask())
        assert refused.value.spent == 0.0
        assert refused.value.limit == 1.0
        plan = accounting.guarantee(gaussian(sigma=1.0), relation=Relation.REPLACE_ONE, delta=1e-5)
        assert refused.value.requested == pytest.approx(plan.epsilon)
        assert ledger.head() == before
        reserve(ledger, TARGET, gaussian(), request=ask())  # the key is still free

    def test_the_limit_is_that_of_a_filter_over_everything_ever_reserved(self, ledger: Ledger) -> None:
        """Each Gaussian has rho = (2/40)²/2 = 1/800; epsilon at 1e-5 reaches 1 between 24/800 and 25/800."""
        for place in range(24):
            reserve(ledger, TARGET, gaussian(), request=ask(place))
        with pytest.raises(errors.BudgetExceeded):
            reserve(ledger, TARGET, gaussian(), request=ask(24))
        spent = ledger.accounts()[0].epsilon
        filtered = accounting.Filter.empty(relation=Relation.REPLACE_ONE, delta=1e-5)
        for _ in range(24):
            filtered = filtered.add(gaussian())
        assert spent == filtered.epsilon
        assert filtered.add(gaussian()).epsilon > 1.0

    def test_pure_charges_may_use_the_whole_limit_despite_rounding(self, ledger: Ledger) -> None:
        for place in range(10):
            reserve(ledger, TARGET, laplace(0.1), request=ask(place))
        with pytest.raises(errors.BudgetExceeded):
            reserve(ledger, TARGET, laplace(0.001), request=ask(10))

    def test_an_uncommitted_reservation_stays_spent(self, ledger: Ledger, tmp_path: Path) -> None:
        reserve(ledger, CURATOR, ROWS, request=ask(kind="rows"), rows=600)
        ledger.close()
        with Ledger(tmp_path / "ledger.sqlite") as again:
            assert again.accounts()[1].rows == 600
            with pytest.raises(errors.BudgetExceeded) as refused:
                reserve(again, CURATOR, ROWS, request=ask(1, "rows"), rows=401)
        assert (refused.value.spent, refused.value.requested, refused.value.limit) == (600, 401, 1000)
        assert refused.value.unit == "rows"

    def test_a_view_without_an_account_is_refused(self, ledger: Ledger) -> None:
        with pytest.raises(errors.ChargeRefused, match="no account"):
            reserve(ledger, View.owners("clinic-b"), gaussian(), request=ask())

    def test_rows_are_not_disclosed_without_a_limit_on_rows(self, ledger: Ledger) -> None:
        ledger.set_limit(TARGET, Limit(2.0, 1e-5, events.Relation.REPLACE_ONE))
        with pytest.raises(errors.BudgetExceeded, match="rows"):
            reserve(ledger, TARGET, gaussian(), request=ask(), rows=1)

    def test_a_quote_says_what_a_charge_would_do_and_charges_nothing(self, ledger: Ledger) -> None:
        head = ledger.head()
        ((before, after),) = ledger.quote(charge(CURATOR, ROWS, rows=2000))
        assert (before.rows, after.rows) == (0, 2000)
        assert ledger.head() == head

    @pytest.mark.parametrize("rows", [0, 20])
    def test_a_changed_limit_counts_what_was_spent_before(self, ledger: Ledger, rows: int) -> None:
        ledger.set_limit(TARGET, limit(rows=10))
        reserve(ledger, TARGET, gaussian(), request=ask())
        reserve(ledger, TARGET, laplace(0.1), request=ask(2), rows=7)
        before = ledger.accounts()[0]
        spent = before.epsilon
        assert spent is not None
        ledger.set_limit(TARGET, limit(spent / 2, rows=rows))
        after = ledger.accounts()[0]
        assert (after.epsilon, after.rows, after.charges) == (spent, 7, 2)
        with pytest.raises(errors.BudgetExceeded):
            reserve(ledger, TARGET, laplace(1e-6), request=ask(1))

    def test_many_limits_are_set_in_one_write_and_each_is_an_entry_of_the_chain(self, ledger: Ledger) -> None:
        views = [View.owners(f"clinic-{place}") for place in range(5)]
        before = ledger.head().number
        ledger.set_limits({view: limit() for view in views} | {TARGET: limit()})
        assert ledger.head().number == before + 5  # the target's limit is what it was
        ledger.set_limit(TARGET, limit())
        assert ledger.head().number == before + 5
        assert [entry.kind for entry in ledger.entries()[-5:]] == ["limit"] * 5
        assert {account.view for account in ledger.accounts()} >= set(views)
        assert ledger.verify().ok

    def test_limits_are_set_all_or_none(self, ledger: Ledger) -> None:
        class Impossible:
            """No limit at all."""

        head, clinic = ledger.head(), View.owners("clinic-a")
        limits: Any = {clinic: limit(), View.owners("clinic-b"): Impossible()}
        with pytest.raises(AttributeError):
            ledger.set_limits(limits)
        assert ledger.head() == head
        assert clinic not in {account.view for account in ledger.accounts()}


class TestRelations:
    REMOVED = Relation.ADD_OR_REMOVE

    @pytest.mark.parametrize("event", [gaussian(), laplace(0.01), PublicSize(), Simulated(gaussian())])
    def test_an_account_of_another_relation_refuses_by_name_and_nothing_is_charged(
        self, ledger: Ledger, event: events.Event
    ) -> None:
        """Whatever is accepted by name: a relation is no part without a proof, it is another promise."""
        accepted = ("simulated", "gaussian", "laplace", "public-size")
        ledger.set_limit(TARGET, Limit(100.0, 1e-5, self.REMOVED, accept_unproven=accepted))
        head = ledger.head()
        with pytest.raises(errors.OtherRelation) as refused:
            reserve(ledger, TARGET, Composition((NoRelease(), event)), request=ask())
        assert (refused.value.account, refused.value.planned) == ("add-or-remove", "replace-one")
        assert "ask for relation add-or-remove" in str(refused.value)
        with pytest.raises(errors.ChargeRefused):
            ledger.quote(charge(TARGET, event))
        assert ledger.head() == head
        reserve(ledger, TARGET, gaussian(relation=self.REMOVED), request=ask())

    def test_a_limit_does_not_change_its_relation_under_what_was_charged(self, ledger: Ledger) -> None:
        """Also where only the number of rows was told: it is what add-or-remove protects."""
        other = View.owners("clinic-a")
        ledger.set_limit(other, limit())
        reserve(ledger, TARGET, PublicSize(), request=ask())
        reserve(ledger, other, NoRelease(), request=ask(1))
        head = ledger.head()
        with pytest.raises(errors.OtherRelation):
            ledger.set_limits({TARGET: Limit(1.0, 1e-5, self.REMOVED)})
        assert ledger.head() == head
        ledger.set_limit(other, Limit(1.0, 1e-5, self.REMOVED))

    @pytest.mark.parametrize("relation", list(Relation))
    def test_what_holds_under_each_relation_is_charged_under_each(self, ledger: Ledger, relation: Relation) -> None:
        ledger.set_limit(TARGET, Limit(2.0, 1e-5, relation))
        asked = ThresholdAuction(epsilon=1.0, observer=Observer.COALITION, rounds=1, summary_released=False)
        reserve(ledger, TARGET, asked, request=ask())
        assert ledger.accounts()[0].epsilon == pytest.approx(math.log(1 + math.e), rel=CLOSE)

    def test_an_account_of_rows_has_no_relation(self, ledger: Ledger) -> None:
        for place, relation in enumerate(Relation):
            reserve(ledger, CURATOR, gaussian(relation=relation), request=ask(place), rows=1)

    def test_an_account_counts_charges_for_one_unit_of_privacy(self, ledger: Ledger) -> None:
        """That of its first charge with a unit; how many rows of an id take part may differ from run to run."""

        def per(unit: PrivacyUnit) -> events.Event:
            quantity = RowSum(Norm.EUCLIDEAN, 1.0, unit, Relation.REPLACE_ONE)
            return events.Gaussian(sigma=100.0 * unit.rows, quantity=quantity, coordinates=2, spacing=1e-4)

        reserve(ledger, TARGET, PublicSize(), request=ask())
        assert ledger.accounts()[0].unit is None
        for place, rows in enumerate((2, 1), start=1):
            reserve(ledger, TARGET, per(PrivacyUnit(rows, "patient")), request=ask(place))
        assert ledger.accounts()[0].unit == "id in column 'patient'"
        head = ledger.head()
        for other, words in (
            (ROW, "row"),
            (PrivacyUnit(2, "visit"), "id in column 'visit'"),
            (PrivacyUnit(3, ""), "group of 3 rows"),
        ):
            with pytest.raises(errors.OtherUnit) as refused:
                reserve(ledger, TARGET, Simulated(per(other)), request=ask(5))
            assert (refused.value.account, refused.value.planned) == ("id in column 'patient'", words)
        assert ledger.head() == head
        with pytest.raises(errors.OtherUnit), Ledger(ledger.path) as anew:
            reserve(anew, TARGET, per(ROW), request=ask(5))
        reserve(ledger, CURATOR, per(ROW), request=ask(6), rows=1)

    def test_one_draw_is_planned_under_one_relation(self, ledger: Ledger) -> None:
        other = View.owners("clinic-a")
        ledger.set_limit(other, Limit(1.0, 1e-5, self.REMOVED))
        with pytest.raises(errors.InvalidArgument, match=r"^events"):
            reserve(ledger, TARGET, gaussian(), request=ask(), also=[(other, gaussian(relation=self.REMOVED))])


class TestViews:
    def test_one_draw_may_concern_several_data_sets(self, ledger: Ledger) -> None:
        views = [View.owners(f"clinic-{name}") for name in "xyz"]
        for view in views:
            ledger.set_limit(view, limit())
        first, *others = [(view, laplace(0.25)) for view in views]
        reserve(ledger, *first, request=ask(), also=others)
        spent = [account.epsilon for account in ledger.accounts()[2:]]
        assert spent == pytest.approx([0.25] * 3, rel=CLOSE)
        ledger.set_limit(views[2], limit(0.3))
        with pytest.raises(errors.BudgetExceeded, match="clinic-z"):
            reserve(ledger, *first, request=ask(1), also=others)
        assert ledger.accounts()[2].charges == 1

    def test_a_draw_that_costs_one_data_set_nothing_is_not_free(self, ledger: Ledger) -> None:
        other = View.owners("clinic-a")
        ledger.set_limit(other, limit())
        for place, costs in enumerate([((TARGET, laplace(0.25)), (other, NoRelease())), ((other, laplace(0.5)),)]):
            assert not Charge(costs).free
            reserve(ledger, *costs[0], request=ask(place), also=costs[1:])
        spent = {account.view: account.epsilon for account in ledger.accounts()}
        assert (spent[TARGET], spent[other]) == pytest.approx((0.25, 0.5), rel=CLOSE)

    def test_a_price_for_one_owner_is_no_charge(self) -> None:
        """Two owners who compare notes learn log(1 + e^0.1) = 0.744 from one threshold, not 2 * 0.1."""
        for_one = ThresholdAuction(0.1, Observer.ONE_OWNER, rounds=1, summary_released=False)
        for event in (for_one, Composition((for_one,)), events.Repeated(for_one, 2), Simulated(for_one)):
            for view in (TARGET, CURATOR):
                with pytest.raises(errors.ChargeRefused, match="single owner"):
                    charge(view, event)

    def test_nothing_is_recorded_that_could_not_be_read_again(self, ledger: Ledger) -> None:
        head = ledger.head()
        with pytest.raises(errors.LedgerUnavailable), ledger.deciding() as transaction:  # noqa: PT012 - a block
            with pytest.raises(errors.ChargeRefused):
                transaction.append("commit", ask().key, {"reservation": 99, "digest": ""})
            transaction.append("began", "run", {})
        assert ledger.verify().ok
        assert ledger.head() == head


class TestUnproven:
    @pytest.mark.parametrize(
        ("event", "name"),
        [
            (AUCTION, "paper-auction"),
            (Composition((laplace(0.1), AUCTION)), "paper-auction"),
            (Simulated(laplace(0.1)), "simulated"),
            (ROWS, "unbounded"),
            (ThresholdAuction(0.1, Observer.COALITION, rounds=2, summary_released=True), "threshold-auction"),
        ],
    )
    def test_an_event_without_a_proof_is_refused_unless_the_limit_names_it(
        self, ledger: Ledger, event: events.Event, name: str
    ) -> None:
        with pytest.raises(errors.UnprovenPart) as refused:
            reserve(ledger, TARGET, event, request=ask())
        assert refused.value.part == name
        assert ledger.accounts()[0].charges == 0
        ledger.set_limit(TARGET, limit(accept_unproven=(name,)))
        reserve(ledger, TARGET, event, request=ask())

    def test_once_accepted_the_account_has_no_guarantee_any_more(self, ledger: Ledger) -> None:
        """The proven part of the composition still counts: 0.1."""
        ledger.set_limit(TARGET, limit(accept_unproven=("paper-auction",)))
        assert ledger.accounts()[0].basis is Basis.PROVEN
        reserve(ledger, TARGET, Composition((laplace(0.1), AUCTION)), request=ask())
        account = ledger.accounts()[0]
        assert (account.basis, account.unproven) == (Basis.NONE, ("paper-auction",))
        assert account.epsilon == pytest.approx(0.1, rel=CLOSE)
        ledger.set_limit(TARGET, limit())
        assert ledger.accounts()[0].basis is Basis.NONE


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    """1000 rows pay for 10 lots of 100: of 40 threads' requests exactly 10 are granted."""
    granted = []

    def spend(place: int) -> None:
        for turn in range(10):
            try:
                request = Request(f"run-{place}", turn, "rows")
                granted.append(ledger.draw(charge(CURATOR, ROWS, rows=100), lambda: (b"m", None), request=request))
            except errors.BudgetExceeded:
                return

    threads = [threading.Thread(target=spend, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 10
    assert ledger.verify().ok


def test_entries_carry_the_time(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with Ledger(tmp_path / "ledger.sqlite", clock=lambda: moment) as ledger:
        assert ledger.entries()[0].document()["at"] == "2026-01-02T03:04:05.000000+00:00"


def test_a_purge_says_what_it_purges(ledger: Ledger) -> None:
    with pytest.raises(errors.InvalidArgument):
        ledger.purge()
    with pytest.raises(errors.InvalidArgument, match=r"^before"):
        ledger.purge(before=datetime(2026, 1, 1))


@pytest.mark.parametrize(
    "arguments", [(1.0, None, None), (None, 1e-5, None), (1.0, 1e-5, None), (-1.0, 0.1, Relation.REPLACE_ONE)]
)
def test_half_a_limit_is_refused(arguments: tuple[float | None, float | None, Relation | None]) -> None:
    with pytest.raises(errors.InvalidArgument):
        Limit(*arguments)


def test_rows_in_shares_are_counted_apart_from_those_that_somebody_reads(tmp_path: Path) -> None:
    def spend(ledger: Ledger, run: str, *, rows: int, readable: int | None) -> None:
        reserve(ledger, CURATOR, ROWS, request=Request(run, 1, "offer"), rows=rows, readable=readable)

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_limit(CURATOR, Limit.rows_only(100, readable=30))
        spend(ledger, "split", rows=60, readable=20)
        spend(ledger, "trusted", rows=10, readable=None)
        (account,) = ledger.accounts()
        assert (account.rows, account.readable) == (70, 30)
        with pytest.raises(BudgetExceeded, match="rows that one party may read"):
            spend(ledger, "one-more", rows=10, readable=1)
        spend(ledger, "none-to-read", rows=10, readable=0)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:  # as it is on the disk
        (account,) = ledger.accounts()
        assert (account.rows, account.readable, account.limit.readable) == (80, 30, 30)
        ledger.set_limit(CURATOR, Limit.rows_only(100))  # without a limit of its own all rows may be read
        spend(ledger, "trusted-again", rows=20, readable=None)
        assert [account.readable for account in ledger.accounts()] == [50]


def test_no_more_can_be_read_than_leave() -> None:
    with pytest.raises(InvalidArgument, match="readable"):
        charge(CURATOR, ROWS, rows=3, readable=4)


def test_charges_and_limits_of_before_are_read_and_written_as_they_were() -> None:
    before, split, limit = charge(CURATOR, ROWS, rows=3), charge(CURATOR, ROWS, rows=3, readable=2), Limit.rows_only(7)
    assert "readable" not in before.to_json()
    assert "readable" not in limit.to_json()
    assert [Charge.from_json(one.to_json()) for one in (before, split)] == [before, split]
    assert Limit.from_json(limit.to_json()) == limit


CANARY = "CANARY-7391.25"
CANARY_ROW = b'{"patient": "' + CANARY.encode() + b'"}'


def test_no_data_value_leaves_the_stored_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "ledger.sqlite"
    said = []
    with opened(Ledger(path)) as ledger:
        ledger.set_limit(TARGET, limit(accept_unproven=("paper-auction",)))
        rows = Request("run", 0, "rows", CANARY_ROW)
        reservation = reserve(ledger, CURATOR, ROWS, request=rows, rows=1)
        assert commit(ledger, reservation, CANARY_ROW, release=Release(CANARY, ROWS)) == CANARY_ROW
        auction = reserve(ledger, TARGET, AUCTION, request=Request("run", 0, "auction", CANARY_ROW))
        commit(ledger, auction, CANARY_ROW, release=Release([CANARY], AUCTION))
        again = reserve(ledger, CURATOR, ROWS, request=rows, rows=1)
        assert again.answer == CANARY_ROW
        said += [
            repr(reservation),
            repr(again),
            str(again),
            repr(rows),
            repr(ledger.messages()),
            repr(ledger.accounts()),
        ]
        pending = reserve(ledger, TARGET, gaussian(), request=Request("run", 1, "mean", CANARY_ROW))

        def refused(call: object, *arguments: object, **options: object) -> None:
            assert callable(call)
            with pytest.raises(LikesetError) as error:
                call(*arguments, **options)
            said.append("".join(traceback.format_exception(error.value)))

        refused(commit, ledger, reservation, CANARY_ROW + b" ")
        refused(commit, ledger, pending, CANARY_ROW, release=Release(CANARY, gaussian(sigma=20.0)))
        refused(reserve, ledger, CURATOR, ROWS, request=Request("run", 0, "rows", CANARY_ROW + b"?"), rows=1)
        refused(reserve, ledger, TARGET, gaussian(), request=Request("run", 1, "mean", CANARY_ROW))
        refused(reserve, ledger, CURATOR, ROWS, request=Request("run", 2, "rows", CANARY_ROW), rows=10**6)
        refused(Request, CANARY + " is not a name", 0, "rows")
        with ledger.deciding() as transaction:
            transaction.connection.execute("UPDATE drawn SET message = message || x'00'")
        refused(reserve, ledger, CURATOR, ROWS, request=rows, rows=1)
        ledger.purge(run="run")
        assert not [file.name for file in tmp_path.iterdir() if CANARY.encode() in file.read_bytes()]
    out, err = capfd.readouterr()
    said += [out, err, caplog.text]
    assert not [text for text in said if CANARY in text]
