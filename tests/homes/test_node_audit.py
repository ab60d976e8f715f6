"""The audit log: whole or found out; it agrees with what left, and holds no value of a row."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from node_world import (
    CANARY,
    Clock,
    approve,
    call,
    hear,
    held,
    killed_before_on_record,
    logged,
    make_node,
    rows_text,
    terms,
)

from likeset.errors import BadMessage, ChargeRefused, LedgerTampered, LedgerUnreadable
from likeset.homes import owner_node
from likeset.homes import review as outbox
from likeset.homes.owner_node import OwnerNode
from likeset.homes.review import review
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Head, Ledger, journal_path
from likeset.privacy.events import Unbounded
from likeset.privacy.guarantee import View
from likeset.protocol.party import ChargeWanted
from likeset.protocol.wire import encode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A node with one run that is over."""
    folder = make_node(tmp_path)
    with OwnerNode(folder, clock=Clock()) as node:
        approve(node, terms())
        assert isinstance(hear(node, encode(call(terms()))), list)
    return folder


def checked(folder: Path) -> list[str]:
    with OwnerNode(folder, clock=Clock()) as node:
        return [str(problem) for problem in outbox.verify(node)[0]]


def altered(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in ("DROP TRIGGER IF EXISTS entries_keep", "DROP TRIGGER IF EXISTS entries_stay", *statements):
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_an_untouched_node_holds(folder: Path) -> None:
    assert checked(folder) == []


def test_messages_of_another_version_are_refused_in_clear_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likeset.protocol.wire._VERSION", 200)
    with OwnerNode(folder, clock=Clock()) as node:
        with pytest.raises(BadMessage, match="not a message of version 200"):
            outbox.messages_that_left(node)
        problems, _ = outbox.verify(node)
        assert any("not a message of version 200" in str(problem) for problem in problems)
        assert hear(node, encode(call(terms()))) == "abstains", "a run does not go on in another format"


def test_a_node_whose_log_was_altered_does_nothing_any_more(folder: Path) -> None:
    altered(folder / "ledger.sqlite", "UPDATE entries SET body = replace(body, 'Ada', 'Eve') WHERE kind = 'approved'")
    with pytest.raises(LedgerTampered, match="was altered"):
        OwnerNode(folder)
    with Ledger(folder / "ledger.sqlite", read_only=True) as ledger:
        assert len(ledger.verify().problems) == 2, "the entry, and the triggers"


def test_an_entry_of_no_known_kind_is_not_written(folder: Path) -> None:
    with OwnerNode(folder, clock=Clock()) as node:
        with pytest.raises(ChargeRefused, match="no known kind"):
            node.note("waved through", "run-1", by="Eve")
        assert logged(node, "waved through") == []
    assert checked(folder) == []


def test_a_home_with_an_audit_log_of_its_own_is_refused_in_clear_words(folder: Path) -> None:
    connection = sqlite3.connect(folder / "ledger.sqlite")
    connection.execute("PRAGMA user_version=1")
    connection.close()
    with pytest.raises(LedgerUnreadable, match="format 1, of an older likeset"):
        OwnerNode(folder)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET message = zeroblob(9) WHERE run = 'run-1'",
        "DELETE FROM messages WHERE run = 'run-1'",
    ],
)
def test_an_outbox_that_was_altered_or_lost_is_found(folder: Path, statement: str) -> None:
    altered(journal_path(folder / "ledger.sqlite"), statement)
    assert checked(folder)


def test_a_log_that_was_put_back_is_found_by_the_messages_that_left(tmp_path: Path) -> None:
    """The log as it was before the run holds by itself; the messages remember how far it had come."""
    folder = make_node(tmp_path)
    with OwnerNode(folder, clock=Clock()) as node:
        approve(node, terms())
    before = (folder / "ledger.sqlite").read_bytes()
    with OwnerNode(folder, clock=Clock()) as node:
        assert isinstance(hear(node, encode(call(terms()))), list)
    (folder / "ledger.sqlite").write_bytes(before)
    assert any("is not the one that stood there" in problem for problem in checked(folder))


def test_a_head_kept_elsewhere_shows_that_the_end_was_cut_off(folder: Path) -> None:
    with OwnerNode(folder, clock=Clock()) as node:
        head = node.ledger.verify().head
    altered(folder / "ledger.sqlite", f"DELETE FROM entries WHERE number = {head.number}")  # noqa: S608 - a test
    with Ledger(folder / "ledger.sqlite", read_only=True) as ledger:
        problems = ledger.verify(head=head).problems
        assert any("is gone" in problem.what for problem in problems)
        assert ledger.verify(head=Head(1, ledger.entries()[0].hash)).problems != problems


def test_honest_code_cannot_change_the_log(folder: Path) -> None:
    connection = sqlite3.connect(folder / "ledger.sqlite")
    for statement in ("DELETE FROM entries", "UPDATE entries SET kind = 'x'"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            connection.execute(statement)
    connection.close()


def test_an_answer_that_a_crash_left_is_not_taken_for_the_one_that_was_sent_in_its_place(tmp_path: Path) -> None:
    """Nothing was sent for the first message; another one came in its place, and that one was answered."""
    run = terms()
    lost, heard = call(run), replace(call(run), terms="0" * 64)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_limit(View.curator("a"), Limit.rows_only(0))
        with killed_before_on_record("node/heard-"), ledger.deciding() as transaction:
            owner_node.ExchangeRecord(transaction, "a", lost, b"").keep(())
        with ledger.deciding() as transaction:
            record = owner_node.ExchangeRecord(transaction, "a", heard, b"")
            record.keep(())
        stored = [(exchange.heard, exchange.entry) for exchange in owner_node.exchanges(ledger)]
    assert stored == [(encode(lost), 0), (encode(heard), record.entry)]


def test_an_exchange_with_coins_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    """Its charge would have to be on the disk before the draw; an owner's answers follow from its key."""
    heard, view = call(terms()), View.curator("a")
    wanted = ChargeWanted(
        costs=((view, Unbounded("rows are seen by the curator")),),
        draw=lambda: (b"drawn", None),
        run=heard.run,
        round=heard.round,
        kind="a/offer",
        content=b"",
        rows=1,
    )
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_limit(view, Limit.rows_only(5))
        with pytest.raises(ChargeRefused, match="not on the disk yet"), ledger.deciding() as transaction:
            owner_node.ExchangeRecord(transaction, "a", heard, b"").charge(wanted)
        assert ([account.rows for account in ledger.accounts()], ledger.messages()) == ([0], ())
        with ledger.deciding() as transaction:
            owner_node.ExchangeRecord(transaction, "a", heard, b"").charge(replace(wanted, repeatable=True))
        assert [account.rows for account in ledger.accounts()] == [1]


def test_two_processes_share_one_log(folder: Path) -> None:
    with OwnerNode(folder, clock=Clock()) as one, OwnerNode(folder, clock=Clock()) as other:
        for number in range(5):
            one.note("data", "", number=number)
            other.note("data", "", number=number)
        assert len(logged(one, "data")) == 10
    assert checked(folder) == []


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[str, OwnerNode]]:
    first, second = make_node(tmp_path, "a"), make_node(tmp_path, "b", seed=2)
    # A value that the schema does not know, after everything was checked.
    (tmp_path / "b.csv").write_text(rows_text(2) + f"30,777.4242,{CANARY}-secret,no\n")
    with OwnerNode(first, clock=Clock()) as one, OwnerNode(second, clock=Clock()) as other:
        yield {"a": one, "b": other}


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_no_value_of_a_row_is_in_a_log_an_error_or_what_others_are_told(
    nodes: dict[str, OwnerNode], tmp_path: Path, protocol: str
) -> None:
    """One owner answers, the other has a row that cannot be used: all that the curator hears of it is one word."""
    run = terms(protocol=protocol)
    for node in nodes.values():
        approve(node, run)
    summary, said = held(run, nodes, tmp_path / "curator")
    assert summary is not None
    assert summary.absent.tolist() == [1]
    assert {said for said in said if not isinstance(said, list)} == {"abstains"}
    assert "line 62" in logged(nodes["b"], "refused")[0]["reason"], "the owner itself is told where"
    for node in nodes.values():
        review(node, "run-1")
        node.ledger.close()
        node.ledger.close()
        for name in ("ledger.sqlite", "ledger.sqlite-wal"):
            path = node.home.folder / name
            content = path.read_bytes() if path.exists() else b""
            assert CANARY.encode() not in content
            assert b".4242" not in content
    assert not (tmp_path / "node-a" / "abstentions.jsonl").exists()


def test_an_error_that_is_not_ours_is_logged_without_its_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"row 17 holds {CANARY}")

    monkeypatch.setattr("likeset.homes.owner_node.RunAnswers.answer", broken)
    with OwnerNode(folder, clock=Clock()) as node:
        assert hear(node, encode(call(terms()))) == "abstains"
        assert [one["reason"] for one in logged(node, "refused")] == ["RuntimeError"]


def test_a_full_disk_sounds_like_any_other_refusal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OwnerNode(folder, clock=Clock()) as node:

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(node.ledger, "append", full)
        assert hear(node, b"nonsense") == "abstains"
