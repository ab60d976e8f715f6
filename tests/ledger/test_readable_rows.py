"""Rows that leave and rows that one party may read are two budgets: a split curator reads none, its buyer a few."""

from pathlib import Path

import pytest

from likeset.errors import BudgetExceeded, InvalidArgument
from likeset.ledger.budget import Charge, Limit
from likeset.ledger.ledger import Ledger, Request
from likeset.privacy.events import Unbounded
from likeset.privacy.guarantee import View

VIEW = View.curator("north")
EVENT = Unbounded("rows are offered in shares")


def _charge(ledger: Ledger, run: str, *, rows: int, readable: int | None) -> None:
    charge = Charge(((VIEW, EVENT),), rows, readable)
    ledger.draw(charge, lambda: (b"offer", None), request=Request(run, 1, "offer"))


def test_rows_in_shares_are_counted_apart_from_those_that_somebody_reads(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_limit(VIEW, Limit.rows_only(100, readable=30))
        _charge(ledger, "split", rows=60, readable=20)
        _charge(ledger, "trusted", rows=10, readable=None)
        (account,) = ledger.accounts()
        assert (account.rows, account.readable) == (70, 30)
        with pytest.raises(BudgetExceeded, match="rows that one party may read"):
            _charge(ledger, "one-more", rows=10, readable=1)
        _charge(ledger, "none-to-read", rows=10, readable=0)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:  # as it is on the disk
        (account,) = ledger.accounts()
        assert (account.rows, account.readable, account.limit.readable) == (80, 30, 30)


def test_without_a_limit_of_its_own_all_rows_may_be_read(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_limit(VIEW, Limit.rows_only(100))
        _charge(ledger, "trusted", rows=100, readable=None)
        (account,) = ledger.accounts()
        assert (account.rows, account.readable) == (100, 100)


def test_no_more_can_be_read_than_leave() -> None:
    with pytest.raises(InvalidArgument, match="readable"):
        Charge(((VIEW, EVENT),), 3, 4)


def test_charges_and_limits_of_before_are_read_and_written_as_they_were() -> None:
    charge, limit = Charge(((VIEW, EVENT),), 3), Limit.rows_only(7)
    assert "readable" not in charge.to_json()
    assert "readable" not in limit.to_json()
    assert Charge.from_json(charge.to_json()) == charge
    assert Limit.from_json(limit.to_json()) == limit
    split = Charge(((VIEW, EVENT),), 3, 2)
    assert Charge.from_json(split.to_json()) == split
