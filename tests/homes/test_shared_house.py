"""Parties who share a ledger: one write for all of a round, and nobody answers for another."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from protocol_world import open_accounts, terms, world

from likeset.errors import ChargeRefused
from likeset.ledger.budget import Charge, Limit
from likeset.ledger.ledger import Ledger, Repeatable, Request, Transaction
from likeset.privacy.events import ROW, Event, NoRelease, Relation
from likeset.privacy.guarantee import View
from likeset.transports.local import LocalEngine

ROUNDS = 4


class _Counting(Ledger):
    """Counts its writes."""

    writes = 0

    @contextmanager
    def deciding(self) -> Iterator[Transaction]:
        self.writes += 1
        with super().deciding() as transaction:
            yield transaction


def _interactive(folder: Path, **options: Any) -> tuple[int, Any]:
    agreed = terms(protocol="interactive", size=ROUNDS, **options)
    with _Counting(folder / "ledger.sqlite") as ledger:
        open_accounts(ledger, agreed)
        made = world(agreed, ledger)
        before = ledger.writes
        result = LocalEngine().run(made.curator(), made.owners(), made.consumer())
        assert ledger.verify(messages=True).ok
        return ledger.writes - before, result


def test_the_deliveries_of_a_round_are_one_write(tmp_path: Path) -> None:
    """What costs something is reserved and committed alone: the target's release, and each of three owners' rows."""
    writes, result = _interactive(tmp_path)
    assert len(result.summary.rows) == ROUNDS
    assert writes == 2 + 2 * 3 + ROUNDS


def test_what_has_a_price_is_never_charged_together_with_its_answer(tmp_path: Path) -> None:
    """Its charge must be on the disk before a coin is tossed."""
    from likeset.privacy.events import Laplace, Norm, RowSum

    event: Event = Laplace(
        scale=1.0, quantity=RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
    )
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_limit(View.owners("a"), Limit(100.0, 0.1, Relation.REPLACE_ONE))
        wanted = Repeatable(Request("run", 1, "draw"), Charge(((View.owners("a"), event),), 0, None), _never)
        with pytest.raises(ChargeRefused, match="before it is drawn"):
            ledger.answer_together([wanted])
        assert not [entry for entry in ledger.entries() if entry.kind == "reserve"]


def test_one_who_is_refused_takes_nobody_along(tmp_path: Path) -> None:
    """Two answer in one write, and no account answers for the second: neither is charged, and the first goes on."""
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_limit(View.curator("a"), Limit.rows_only(5))
        wanted = [_row_of("a"), _row_of("b")]
        with pytest.raises(ChargeRefused):
            ledger.answer_together(wanted)
        assert not [entry for entry in ledger.entries() if entry.kind in ("reserve", "commit")]
        assert ledger.messages() == ()
        assert ledger.answer_together(wanted[:1]) == [b"row of a"]
        assert len(ledger.messages()) == 1


def _row_of(owner: str) -> Repeatable:
    charge = Charge(((View.curator(owner), NoRelease()),), 0, None)
    return Repeatable(Request("run", 1, f"delivery-{owner}"), charge, lambda: (f"row of {owner}".encode(), None))


def _never() -> tuple[bytes, None]:
    raise AssertionError("it must not be drawn")
