"""A run begins with the one message that may begin it; anything else is refused, and costs nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_world import Clock, approve, call, charged, hear, killed_before_on_record, logged, make_node, script, terms

from likeset.homes import owner_node
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Asked, Message, SummaryRelease, TargetRelease, encode

AUCTION: dict[str, Any] = {
    "owners": ("a", "b", "c"),
    "auction": "threshold",
    "auction_epsilon": 8.0,
    "auction_offset": 2,
    "size": 2,
}
RUNS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "uniform": {"offers": "uniform"},
    "threshold": AUCTION,
    "interactive": {"protocol": "interactive", "size": 2},
}
GENEROUS: dict[str, Any] = {"per_run": {"epsilon": 9, "rows": 36}, "total": {"epsilon": 9, "rows": 36}}

Change = Callable[[Terms, Message], Message]
FIRST_MESSAGES: dict[str, tuple[Change, str]] = {
    "an earlier or later round": (lambda _, one: replace(one, round=1 - one.round), "may not come now"),
    "a round far away": (lambda _, one: replace(one, round=7), "may not come now"),
    "a question": (lambda _, one: replace(one, sender=CURATOR, body=Asked(asked=True)), "may not come now"),
    "a question of round 2": (
        lambda _, one: replace(one, sender=CURATOR, round=2, body=Asked(asked=True)),
        "may not come now",
    ),
    "a release of the summary": (
        lambda _, one: replace(
            one,
            sender=CURATOR,
            round=1,
            body=SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0)),
        ),
        "may not come now",
    ),
    "another number of coordinates": (
        lambda _, one: replace(one, body=TargetRelease(release=np.zeros(17))),
        "shape of the terms",
    ),
    "what is no number": (
        lambda run, one: replace(one, body=TargetRelease(release=np.full(run.kernel.dimension, np.nan))),
        "shape of the terms",
    ),
    "a message for another owner": (lambda _, one: replace(one, receiver="b"), "is for b, not for a"),
    "a release of another owner": (lambda _, one: replace(one, sender="b"), "and from the consumer"),
    "a release of the curator": (lambda _, one: replace(one, sender=CURATOR), "and from the consumer"),
    "a question of the consumer": (lambda _, one: replace(one, body=Asked(asked=True)), "all else from the curator"),
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OwnerNode]:
    with OwnerNode(make_node(tmp_path, **GENEROUS), clock=Clock()) as opened:
        yield opened


@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize(("change", "reason"), FIRST_MESSAGES.values(), ids=FIRST_MESSAGES)
def test_what_cannot_begin_a_run_charges_nothing_and_reads_nothing(
    node: OwnerNode, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], change: Change, reason: str
) -> None:
    run = terms(**options)
    approve(node, run)
    before = charged(node)
    with monkeypatch.context() as patched:
        patched.delattr("likeset.homes.data.DataSet.open_source")
        assert hear(node, encode(change(run, call(run)))) == "abstains"
    assert reason in logged(node, "refused")[-1]["reason"]
    assert charged(node) == before
    assert (owner_node.began(node.ledger), logged(node, "began")) == ({}, [])
    for message in script(run):
        assert isinstance(hear(node, encode(message)), list), logged(node, "refused")[-1:]
    assert len(logged(node, "began")) == 1


def test_a_run_whose_owner_was_killed_while_it_began_begins_when_it_comes_again(node: OwnerNode) -> None:
    """The charge and the note that it began are one write: none of them is there, or both."""
    run = terms(**AUCTION)
    approve(node, run)
    before = charged(node)
    with killed_before_on_record(owner_node.BEGIN):
        hear(node, encode(call(run)))
    assert (charged(node), logged(node, "began")) == (before, [])
    assert isinstance(hear(node, encode(call(run))), list)
    spent = [account.epsilon or 0.0 for account in node.ledger.accounts()]
    assert (max(spent) > 0.0, len(logged(node, "began"))) == (True, 1)
    assert isinstance(hear(node, encode(call(run))), list)
    assert [account.epsilon or 0.0 for account in node.ledger.accounts()] == spent
