"""Several processes of one node at once: a decision that was made holds for whatever has not left yet."""

import dataclasses
import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from node_world import (
    Clock,
    approve,
    call,
    charged,
    hear,
    invite,
    killed_before_on_record,
    logged,
    make_node,
    script,
    terms,
)

from likeset.errors import InvalidArgument
from likeset.homes import owner_node
from likeset.homes import review as outbox
from likeset.homes.data import DataSet, OpenedData
from likeset.homes.mail import compare
from likeset.homes.owner_node import OwnerNode
from likeset.homes.review import review, status_of
from likeset.privacy.guarantee import View
from likeset.protocol.party import Step
from likeset.protocol.sealed import Owner, SealedOwner
from likeset.protocol.wire import Message, encode

_WIDE = {"epsilon": 99, "rows": 1000}


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
    assert [(one.rows, one.sent) for one in outbox.messages_that_left(node, "run-1")] == [(12, False)]
    found = outbox.rows_that_left(node, "run-1")
    assert (found.count, found.table, found.held_back) == (0, None, 12)
    own = node.transcript("run-1")
    assert own.lines == (), "the release came from the consumer"
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


@pytest.mark.parametrize("decision", ["withdraw", "deny", "approve other terms", "approve other data"])
def test_a_decision_while_the_rows_are_opened_keeps_the_run_from_beginning_and_costs_nothing(
    node: OwnerNode, steward: OwnerNode, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    run, changed = terms(), terms(size=5)
    approve(node, run)
    if decision == "approve other terms":
        invite(node, changed)
    before = charged(node)

    def decide() -> None:
        if decision == "withdraw":
            steward.withdraw("run-1", by="Ada")
        elif decision == "deny":
            steward.deny("run-1", by="Ada", reason="no")
        elif decision == "approve other data":
            place = steward.home.folder.parent
            steward.registry.add("others", str(place / "a.csv"), schema=place / "schema.yaml")
            assert steward.approve("run-1", run.digest, by="Ada", data="others").accepted
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
    invite(steward, changed)

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
    invite(steward, changed)
    before = charged(node)
    with killed_before_on_record(owner_node.BEGIN):
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
    kinds = [entry.kind for entry in node.ledger.entries()]
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
        assert len(owner_node.began(node.ledger)) == len(logged(node, "began")) == allowed
        assert sum("runs this month" in one["reason"] for one in logged(node, "refused")) == 4 - allowed


def test_of_several_processes_no_more_rows_leave_than_the_total(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_node(tmp_path, total={"epsilon": 0, "rows": 30})
    assert sum(begin_at_once(folder, clock, monkeypatch)) == 2
    with OwnerNode(folder, clock=clock) as node:
        assert rows_spent(node) == sum(one["rows"] for one in logged(node, "sent")) == 24


def node_and_copy(place: Path, clock: Clock) -> tuple[Path, Path]:
    """A node's directory, and a copy of it with the same key, rows and decisions."""
    run, folder = terms(protocol="interactive", size=6), make_node(place)
    with OwnerNode(folder, clock=clock) as node:
        approve(node, run)
    shutil.copytree(folder, place / "copy")
    return folder, place / "copy"


@pytest.mark.parametrize("turns", ["abba", "aab", "abb", "aaabbb"])
def test_two_processes_that_take_turns_answer_as_one_does(tmp_path: Path, clock: Clock, turns: str) -> None:
    """Each knows what the other answered: no row is bid again that left by the other's hand."""
    run = terms(protocol="interactive", size=6)
    folder, copy = node_and_copy(tmp_path, clock)
    with OwnerNode(copy, clock=clock) as alone:
        wanted = [hear(alone, encode(message)) for message in script(run)]
    assert all(isinstance(answer, list) for answer in wanted)
    with OwnerNode(folder, clock=clock) as first, OwnerNode(folder, clock=clock) as second:
        nodes = itertools.cycle([{"a": first, "b": second}[turn] for turn in turns])
        assert [hear(next(nodes), encode(message)) for message in script(run)] == wanted
        assert outbox.verify(first) == ([], [])
    with OwnerNode(folder, clock=clock) as anew:
        assert hear(anew, encode(script(run)[-1])) == wanted[-1], "its past repeats itself"


def test_what_another_process_answers_meanwhile_is_heard_before_anything_follows_it(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = terms(protocol="interactive", size=6)
    opening, bid, asked, next_bid, next_asked, *_ = map(encode, script(run))
    folder, copy = node_and_copy(tmp_path, clock)
    with OwnerNode(copy, clock=clock) as alone:
        wanted = [hear(alone, data) for data in (opening, bid, asked, next_bid, next_asked)]
    with OwnerNode(folder, clock=clock) as first, OwnerNode(folder, clock=clock) as second:
        for data in (opening, bid):
            assert hear(first, data) == hear(second, data)
        with monkeypatch.context() as patched:
            once = iter([lambda: hear(second, asked)])
            meanwhile(patched, lambda: next(once, lambda: None)())
            assert hear(first, next_bid) == "abstains", "it was computed from a past that is not the run's"
        assert [hear(first, data) for data in (next_bid, next_asked)] == wanted[3:]


def test_an_answer_that_a_crash_left_is_not_sent_to_somebody_who_said_more_in_between(
    tmp_path: Path, clock: Clock
) -> None:
    """It was computed from a past that is not the run's: the row in it has left since."""
    run = terms(protocol="interactive", size=6)
    opening, bid, asked, next_bid, next_asked, *_ = map(encode, script(run))
    folder, copy = node_and_copy(tmp_path, clock)
    with OwnerNode(copy, clock=clock) as alone:
        wanted = [hear(alone, data) for data in (opening, bid, asked, next_bid, next_asked)]
    with OwnerNode(folder, clock=clock) as node:
        assert [hear(node, data) for data in (opening, bid)] == wanted[:2]
        with killed_before_on_record("node/heard-"):
            hear(node, next_bid)
        assert [hear(node, data) for data in (asked, next_bid)] == wanted[2:4]
        assert outbox.verify(node)[0] == []
    with OwnerNode(folder, clock=clock) as anew:
        assert hear(anew, next_asked) == wanted[4]
        lines = anew.transcript("run-1").lines
        assert len({line.slot for line in lines}) == len(lines)


def test_only_one_of_two_answers_that_two_processes_found_ever_leaves(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an answer does not repeat itself to the bit, as on another machine."""
    run = terms(auction="threshold", auction_epsilon=8.0, auction_offset=2, owners=("a", "b", "c"), size=2)
    folder, misfits = make_node(tmp_path, per_run=_WIDE, total=dict(_WIDE)), itertools.count(1.0)
    exact = SealedOwner._weigh
    monkeypatch.setattr(SealedOwner, "_weigh", lambda *given: dataclasses.replace(exact(*given), misfit=next(misfits)))
    with OwnerNode(folder, clock=clock) as first, OwnerNode(folder, clock=clock) as second:
        approve(first, run)
        others: list[object] = []
        with monkeypatch.context() as patched:
            once = iter([lambda: others.append(hear(second, encode(call(run)), job=[run]))])
            meanwhile(patched, lambda: next(once, lambda: None)())
            assert [hear(first, encode(call(run)))] == others
        assert isinstance(others[0], list)
        assert hear(first, encode(call(run))) in (*others, "abstains")
