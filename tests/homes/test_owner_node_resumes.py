"""An owner's node that is restarted, or whose party failed, goes on with what it began with, to the bit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_world import Clock, approve, call, door, hear, logged, make_node, script, terms, write_policy
from owner_answers import abstained, answered, refused, rows_spent

from likeset.errors import LedgerUnavailable
from likeset.homes.owner_node import ExchangeRecord, OwnerNode
from likeset.homes.review import rehearse
from likeset.ledger.ledger import Ledger
from likeset.protocol.interactive import InteractiveOwner
from likeset.protocol.wire import Message, TargetRelease, decode, encode


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(tmp_path: Path, clock: Clock) -> Iterator[OwnerNode]:
    with OwnerNode(make_node(tmp_path), clock=clock) as opened:
        yield opened


def test_a_second_release_for_the_same_round_is_refused_also_after_a_restart(node: OwnerNode, clock: Clock) -> None:
    run = terms()
    approve(node, run)
    answered(node, call(run))
    other = call(run, release=np.full(16, 0.2))
    assert "another one came in its place" in refused(node, other)
    with OwnerNode(node.home.folder, clock=clock) as again:
        assert hear(again, encode(other)) == "abstains"
        assert "another one came in its place" in logged(again, "refused")[-1]["reason"]
    assert rows_spent(node) == 12


@pytest.mark.parametrize("lives", [1, 3, 7])
def test_a_node_that_is_restarted_between_any_two_messages_goes_on_to_the_bit(
    tmp_path: Path, clock: Clock, lives: int
) -> None:
    """The same key, the same rows, the same messages: however often it is restarted, the same bytes."""
    run = terms(protocol="interactive", size=3)
    folder = make_node(tmp_path)
    with OwnerNode(folder, clock=clock) as node:
        approve(node, run)
        expected = rehearse(node, run, release=_release(call(run))).messages
    got: list[bytes] = []
    heard = script(run)
    for start in range(0, len(heard), lives):
        with OwnerNode(folder, clock=clock) as node:
            for message in heard[start : start + lives]:
                got += answered(node, message)
    assert [one for one in got if decode(one).body.kind == "delivery"] == list(expected)
    with OwnerNode(folder, clock=clock) as node:
        assert rows_spent(node) == 3


def _release(message: Message) -> Any:
    assert isinstance(message.body, TargetRelease)
    return message.body.release


def test_a_run_does_not_go_on_with_other_data_than_it_began_with(tmp_path: Path, clock: Clock) -> None:
    run = terms()
    folder = make_node(tmp_path)
    with OwnerNode(folder, clock=clock) as node:
        approve(node, run)
        answered(node, call(run))
    text = (tmp_path / "a.csv").read_text()
    (tmp_path / "a.csv").write_text(text + "50,999.4242,f,no\n")
    with OwnerNode(folder, clock=clock) as node:
        assert "is not what it was when the run began" in abstained(node, call(run))


def test_a_run_goes_on_with_the_smallest_group_that_it_began_with(tmp_path: Path, clock: Clock) -> None:
    run = terms()
    folder = make_node(tmp_path, rare=3)
    with OwnerNode(folder, clock=clock) as node:
        approve(node, run)
        first = answered(node, call(run))
    write_policy(folder, "a", smallest_group=5)
    with OwnerNode(folder, clock=clock) as node:
        assert answered(node, call(run)) == first
        assert rehearse(node, run).withheld == 0
        other = terms(run="run-2")
        assert rehearse(node, other).withheld == 3, "those that have not begun are under the new one"
        approve(node, other)
        answered(node, call(other))
        assert [one["smallest_group"] for one in logged(node, "began")] == [1, 5]


def test_a_purged_answer_is_never_drawn_again(node: OwnerNode, clock: Clock) -> None:
    run = terms()
    approve(node, run)
    answered(node, call(run))
    with Ledger(node.home.ledger) as ledger:
        assert ledger.purge(run="run-1") > 0
    assert hear(node, encode(call(run))) == "abstains", "nor sent by a process that still has it"
    with OwnerNode(node.home.folder, clock=clock) as again:
        assert hear(again, encode(call(run))) == "abstains"
        assert "MessagePurged" in logged(again, "refused")[-1]["reason"]
        assert rows_spent(again) == 12


@pytest.mark.parametrize("what", ["charge", "rows"])
@pytest.mark.parametrize("failing", [0, 2, 4], ids=["at the opening", "at the first row", "at the second row"])
def test_a_party_that_failed_is_made_anew_from_what_is_on_record_and_the_run_goes_on(
    node: OwnerNode, monkeypatch: pytest.MonkeyPatch, failing: int, what: str
) -> None:
    """A charge that cannot be written, or rows that cannot be read, leave half a step; the ledger has those before."""
    run = terms(protocol="interactive", size=3)
    approve(node, run)
    site, said = door(node, run), list[list[bytes]]()
    for place, message in enumerate(script(run)):
        if place == failing:
            with monkeypatch.context() as locked:
                if what == "charge":
                    locked.setattr(ExchangeRecord, "charge", _locked)
                else:
                    locked.setattr(InteractiveOwner, "_open_rows" if failing == 0 else "_delivery", _locked)
                assert site.hear(encode(message)) == "abstains"
            assert "LedgerUnavailable" in logged(node, "refused")[-1]["reason"]
        answer = site.hear(encode(message))
        assert isinstance(answer, list), logged(node, "refused")[-1:]
        said.append(answer)
    assert [len(answer) for answer in said] == [0, 1, 1, 1, 1, 1, 1]
    assert len({decode(answer[0]).body.handle for answer in said[2::2]}) == 3  # type: ignore[union-attr]
    assert rows_spent(node) == 3
    assert [site.hear(encode(message)) for message in script(run)] == said


def _locked(*_: object, **__: object) -> bytes:
    raise LedgerUnavailable("another process has it")
