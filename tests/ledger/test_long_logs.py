"""What makes a long log quick says the same as the slow way: an index of keys, and sums that are added up once."""

import sqlite3
from pathlib import Path

import pytest
from ledger_world import CURATOR, ROWS, TARGET, charge, laplace, opened, reserve

from likeset.errors import LedgerTampered
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Entry, Head, Ledger, Request, link
from likeset.privacy.events import NoRelease, Relation

NAMES = ("run", "run-1", "run-10", "run/1", "r", "run@x")


def filled(path: Path) -> Ledger:
    """Entries about runs whose names begin alike, in turn: of audit, charges and answers."""
    ledger = opened(Ledger(path))
    for name in NAMES:
        ledger.append("invited", name, {"about": name})
    for name in (*NAMES, *NAMES):
        request = Request(name, len(ledger.entries()), "heard")
        ledger.draw(charge(CURATOR, NoRelease()), lambda: (b"words", None), request=request, repeatable=True)
        ledger.append("reviewed", name, {})
    return ledger


def about(entries: tuple[Entry, ...], name: str) -> list[int]:
    """The slow way: every entry is looked at."""
    return [entry.number for entry in reversed(entries) if entry.key == name or entry.key.startswith(f'["{name}",')]


def test_entries_about_a_run_are_those_that_a_look_at_every_entry_finds(tmp_path: Path) -> None:
    with filled(tmp_path / "ledger.sqlite") as ledger:
        entries = ledger.entries()
        for name in (*NAMES, "nobody", "", '["run"', "run,"):
            expected = about(entries, name)
            found = ledger.entries_about(name, before=len(entries) + 1, most=99)
            assert [entry.number for entry in found] == expected, name
        last = about(entries, "run-1")
        assert [entry.number for entry in ledger.entries_about("run-1", before=last[2], most=2)] == last[3:5]
        for entry in ledger.entries_about("run", before=99, most=99):
            assert entry in entries


def test_sums_under_limits_that_somebody_thinks_of_grow_with_each_charge(tmp_path: Path) -> None:
    """Asked between charges, and by one who never asked before: the same accounts, whatever was kept meanwhile."""
    path = tmp_path / "ledger.sqlite"
    thought = [Limit(epsilon, 1e-6, Relation.REPLACE_ONE, 5) for epsilon in range(1, 12)]  # more than are kept
    with opened(Ledger(path)) as ledger:
        for number in range(6):
            reserve(ledger, TARGET, laplace(0.125), request=Request("run", number, "a"))
            reserve(ledger, CURATOR, ROWS, request=Request("run", number, "b"), rows=1)
            request = Request("run", number, "c")
            ledger.draw(charge(CURATOR, NoRelease()), lambda: (b"", None), request=request, repeatable=True)
            for limit in thought:
                asked = ledger.accounts(limits={TARGET: limit})
                with Ledger(path) as other:
                    assert asked == other.accounts(limits={TARGET: limit})
                assert {account.view: account.charges for account in asked}[TARGET] == number + 1
        ledger.set_limit(TARGET, thought[3])
        with Ledger(path) as other:
            assert ledger.accounts() == other.accounts()
        assert ledger.verify().ok


@pytest.mark.parametrize("body", ["", "{", '{"at":"x"} ', "null null"])
def test_an_entry_that_says_nothing_readable_is_found_when_the_log_is_opened(tmp_path: Path, body: str) -> None:
    """Somebody appended it with a hash that fits; of audit, which budgets do not depend on."""
    path = tmp_path / "ledger.sqlite"
    with filled(path) as ledger:
        head = ledger.head()
    with sqlite3.connect(path) as connection:
        entry = link(Head(head.number, head.hash), kind="reviewed", key="run", body=body)
        connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", entry)
    connection.close()
    with (
        pytest.raises(LedgerTampered, match=f"entry {entry.number}: .*not JSON"),
        Ledger(path) as ledger,
    ):
        ledger.head()
    with Ledger(path) as ledger:
        assert [problem.number for problem in ledger.verify().problems] == [entry.number]
