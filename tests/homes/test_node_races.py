"""Several processes of one node at once: a decision that was made holds for whatever has not left yet."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from node_world import Clock, approve, call, charged, hear, killed_before_on_record, logged, make_node, script, terms

from likeset.errors import InvalidArgument
from likeset.homes.owner import budgets, outbox
from likeset.homes.owner.datasets import DataSet, OpenedData
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.review import review, status_of
from likeset.homes.transcripts import compare
from likeset.privacy.view import View
from likeset.protocol.messages import Message, encode
from likeset.protocol.owner import Owner
from likeset.protocol.steps import Step


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(tmp_path: Path, clock: Clock) -> Iterator[OwnerNode]:
    with OwnerNode(make_node(tmp_path), clock=clock) as opened:
        yield opened


@pytest.fixture
def steward(node: OwnerNode, clock: Clock) -> Iterator[OwnerNode]:
    """At another terminal: another process, as far as the files are concerned."""
    with OwnerNode(node.home.folder, clock=clock) as opened:
        yield opened


def terms_end(clock: Clock) -> None:
    """No terms of these tests last that long."""
    clock.now += timedelta(days=400)


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Something happens while the answer is drawn: after all that is asked beforehand, before anything leaves."""
    drawn = Owner.receive

    def receive(self: Owner, message: Message) -> Step:
        step = drawn(self, message)
        work()
        return step

    monkeypatch.setattr(Owner, "receive", receive)


def before_it_begins(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Something happens while the rows are opened: after all that is asked beforehand, before anything is charged."""
    opened = DataSet.guarded

    def guarded(self: DataSet, *arguments: Any, **words: Any) -> OpenedData:
        work()
        return opened(self, *arguments, **words)

    monkeypatch.setattr(DataSet, "guarded", guarded)


def rows_spent(node: OwnerNode) -> int:
    (account,) = [one for one in node.ledger.accounts() if one.view == View.curator("a")]
    return account.rows


def test_once_a_withdrawal_has_returned_nothing_leaves(
    node: OwnerNode, steward: OwnerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = terms()
    approve(node, run)
    meanwhile(monkeypatch, lambda: steward.withdraw("run-1", by="Ada"))
    assert hear(node, encode(call(run))) == "abstains"
    assert "withdrawn" in logged(node, "refused")[-1]["reason"]
    assert logged(node, "sent") == []
    assert rows_spent(node) == 0, "no row left, and none is charged"
    assert hear(node, encode(call(run))) == "abstains", "nor when it is asked for again"
    assert outbox.verify(node) == ([], [])
    assert outbox.messages_that_left(node) == [], "nor is it kept"


def test_what_a_crash_and_a_withdrawal_held_back_is_not_shown_as_what_left(node: OwnerNode, steward: OwnerNode) -> None:
    run = terms()
    approve(node, run)
    with killed_before_on_record("node/heard-"):
        hear(node, encode(call(run)))
    steward.withdraw("run-1", by="Ada")
    assert hear(node, encode(call(run))) == "abstains"
    problems, notes = outbox.verify(node)
    assert problems == []
    assert any("never sent" in note for note in notes)
    assert [(one.line.rows, one.sent) for one in outbox.messages_that_left(node, "run-1")] == [(12, False)]
    found = outbox.rows_that_left(node, "run-1")
    assert (found.count, found.table, found.held_back) == (0, None, 12)
    own = node.transcript("run-1")
    assert [line.way for line in own.lines] == ["to owner"]
    assert compare(own, own) == ([], []), "what an honest curator signs, who heard nothing"
    words = dict(review(node, "run-1").lines)
    assert "Did the curator acknowledge what left?" not in words
    assert words["What was held back?"].startswith("12 rows")


def test_a_run_whose_rows_were_held_back_when_its_terms_ended_began_and_no_rows_left(
    node: OwnerNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = terms()
    approve(node, run)
    meanwhile(monkeypatch, lambda: terms_end(clock))
    assert hear(node, encode(call(run))) == "abstains"
    assert status_of(node, "run-1") == "began"


def test_what_was_sent_is_not_sent_again_once_a_withdrawal_has_returned(
    node: OwnerNode, steward: OwnerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = terms()
    approve(node, run)
    assert isinstance(hear(node, encode(call(run))), list)
    meanwhile(monkeypatch, lambda: steward.withdraw("run-1", by="Ada"))
    assert hear(node, encode(call(run))) == "abstains"
    assert len(logged(node, "sent")) == 1


def test_terms_that_end_while_an_answer_is_drawn_let_nothing_out(
    node: OwnerNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = terms()
    approve(node, run)
    meanwhile(monkeypatch, lambda: terms_end(clock))
    assert hear(node, encode(call(run))) == "abstains"
    assert "TermsExpired" in logged(node, "refused")[-1]["reason"]
    assert logged(node, "sent") == []


@pytest.mark.parametrize("decision", ["withdraw", "deny", "approve other terms"])
def test_a_decision_while_the_rows_are_opened_keeps_the_run_from_beginning_and_costs_nothing(
    node: OwnerNode, steward: OwnerNode, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    run, changed = terms(), terms(size=5)
    approve(node, run)
    if decision == "approve other terms":
        node.invite(changed.to_json())
    before = charged(node)

    def decide() -> None:
        if decision == "withdraw":
            steward.withdraw("run-1", by="Ada")
        elif decision == "deny":
            steward.deny("run-1", by="Ada", reason="no")
        elif not steward.record_of("run-1").decided(changed.digest):
            assert steward.approve("run-1", changed.digest, by="Ada").accepted

    with monkeypatch.context() as patched:
        before_it_begins(patched, decide)
        assert hear(node, encode(call(run))) == "abstains"
    assert charged(node) == before
    assert (logged(node, "began"), logged(node, "sent")) == ([], [])
    if decision == "approve other terms":
        assert isinstance(hear(node, encode(call(changed))), list), "and the other one begins as if nothing had been"


def test_while_an_answer_is_drawn_nobody_approves_other_terms_or_denies(
    node: OwnerNode, steward: OwnerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, changed = terms(), terms(size=5)
    approve(node, run)
    steward.invite(changed.to_json())

    def decide() -> None:
        with pytest.raises(InvalidArgument, match="begun under other terms"):
            steward.approve("run-1", changed.digest, by="Ada")
        with pytest.raises(InvalidArgument, match="begun"):
            steward.deny("run-1", by="Ada", reason="no")

    meanwhile(monkeypatch, decide)
    assert isinstance(hear(node, encode(call(run))), list)


def test_after_a_crash_while_it_began_other_terms_can_be_approved_and_begin(
    node: OwnerNode, steward: OwnerNode
) -> None:
    """What the crash left was never on record: it does not count as begun, nor stand in another beginning's way."""
    run, changed = terms(), terms(size=5)
    approve(node, run)
    steward.invite(changed.to_json())
    before = charged(node)
    with killed_before_on_record(budgets.BEGIN):
        hear(node, encode(call(run)))
    assert (charged(node), logged(node, "began")) == (before, [])
    assert steward.approve("run-1", changed.digest, by="Ada").accepted
    assert hear(node, encode(call(run))) == "abstains"
    assert isinstance(hear(node, encode(call(changed))), list)
    assert rows_spent(node) == 10


@pytest.mark.parametrize("moment", [2, 3, 5, 8])
def test_every_answer_that_left_stands_in_the_log_before_the_withdrawal(
    node: OwnerNode, steward: OwnerNode, moment: int
) -> None:
    """Whenever it comes: the curator has exactly what the log says was sent, and all of that before."""
    run = terms(protocol="interactive", size=6)
    approve(node, run)
    heard: list[object] = []
    begun = threading.Event()

    def curator() -> None:
        for place, message in enumerate(script(run)):
            if place == moment:
                begun.set()
            heard.append(hear(node, encode(message)))

    asking = threading.Thread(target=curator)
    asking.start()
    assert begun.wait(600)
    steward.withdraw("run-1", by="Ada")
    asking.join()
    got = [one for answer in heard if isinstance(answer, list) for one in answer]
    assert got == [one.data for one in outbox.messages_that_left(node, "run-1") if one.sent]
    kinds = [entry.kind for entry in node.log.entries()]
    assert "sent" not in kinds[kinds.index("withdrawn") :]


def begin_at_once(folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Four runs in four processes, none of which begins before all of them were told that they may; which did."""
    runs, gate = [terms(run=f"run-{place}") for place in range(4)], threading.Barrier(4)
    before_it_begins(monkeypatch, lambda: gate.wait(600))
    with ExitStack() as stack:
        nodes = [stack.enter_context(OwnerNode(folder, clock=clock)) for _ in runs]
        for run in runs:
            approve(nodes[0], run)
        answers: list[object] = [None] * len(runs)

        def begin(place: int) -> None:
            answers[place] = hear(nodes[place], encode(call(runs[place])), job=runs)

        threads = [threading.Thread(target=begin, args=(place,)) for place in range(len(runs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not gate.broken
    return [isinstance(one, list) for one in answers]


@pytest.mark.parametrize("allowed", [1, 2])
def test_of_several_processes_only_as_many_begin_runs_as_a_month_allows(
    tmp_path: Path, clock: Clock, allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_node(tmp_path, runs_per_month=allowed, total={"epsilon": 0, "rows": 1000})
    assert sum(begin_at_once(folder, clock, monkeypatch)) == allowed
    with OwnerNode(folder, clock=clock) as node:
        assert len(budgets.began(node.ledger)) == len(logged(node, "began")) == allowed
        assert sum("runs this month" in one["reason"] for one in logged(node, "refused")) == 4 - allowed


def test_of_several_processes_no_more_rows_leave_than_the_total(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_node(tmp_path, total={"epsilon": 0, "rows": 30})
    assert sum(begin_at_once(folder, clock, monkeypatch)) == 2
    with OwnerNode(folder, clock=clock) as node:
        assert rows_spent(node) == sum(one["rows"] for one in logged(node, "sent")) == 24
