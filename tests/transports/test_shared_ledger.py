"""Parties who share a ledger: one write for all of a round, and nobody answers for another."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from protocol_world import open_accounts, terms, world

from likeset.errors import ChargeRefused
from likeset.ledger.budget import Charge, Limit, Request
from likeset.ledger.ledger import Ledger, Transaction
from likeset.privacy.events import Event, NoRelease, Unbounded, View
from likeset.protocol.party import ChargeWanted, Draw, Step
from likeset.transports.local import ChargedParty, run_local, take_together

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
        result = run_local(made.curator(), made.owners(), made.consumer())
        assert ledger.verify().ok
        return ledger.writes - before, result


def test_the_deliveries_of_a_round_are_one_write(tmp_path: Path) -> None:
    """What costs something is reserved and committed alone: the target's release, and each of three owners' rows."""
    writes, result = _interactive(tmp_path)
    assert len(result.summary.rows) == ROUNDS
    assert writes == 2 + 2 * 3 + ROUNDS


def test_what_has_a_price_is_never_charged_together_with_its_answer(tmp_path: Path) -> None:
    """Its charge must be on the disk before it is drawn."""
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_limits({View.curator(name): Limit.rows_only(5) for name in "ab"})
        drawn: list[int] = []

        def draw() -> tuple[bytes, None]:
            drawn.append(sum(entry.kind == "reserve" for entry in ledger.entries()))
            return b"row", None

        assert take_together([(_asking(name, ledger, draw, rows=1), _MESSAGE) for name in "ab"]) == [(), ()]
        assert drawn == [1, 2], "how many charges were on the disk at each draw"


def test_one_who_is_refused_takes_nobody_along(tmp_path: Path) -> None:
    """Two answer in one write, and no account answers for the second: neither is charged, and the first goes on."""
    with _Counting(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_limit(View.curator("a"), Limit.rows_only(5))
        before = ledger.writes
        asked = [(_asking(name, ledger, lambda: (b"row", None)), _MESSAGE) for name in "ab"]
        replies, refused = take_together(asked)
        assert replies == ()
        assert isinstance(refused, ChargeRefused)
        assert [entry.kind for entry in ledger.entries()] == ["open", "limit", "reserve", "commit"]
        assert len(ledger.messages()) == 1
        assert ledger.writes - before == 3, "one for both, which is undone, and one for each"


_MESSAGE: Any = None


def _asking(name: str, ledger: Ledger, draw: Draw, *, rows: int = 0) -> ChargedParty[Any]:
    """A party that wants one draw charged and says nothing."""
    event: Event = Unbounded("rows are shown") if rows else NoRelease()
    wanted = ChargeWanted(
        charge=Charge(((View.curator(name), event),), rows),
        asked=Request("run", 1, f"row-{name}"),
        draw=draw,
        repeatable=True,
    )
    party: Any = SimpleNamespace(receive=lambda _: Step(wanted, _go_on=lambda *_: Step()))
    return ChargedParty(party, ledger)
