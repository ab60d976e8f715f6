"""A run begins with the one message that may begin it; anything else is refused, and costs nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_world import Clock, approve, call, hear, logged, make_node, script, terms

from likeset.homes.owner import budgets
from likeset.homes.owner.node import OwnerNode
from likeset.protocol.messages import Asked, Message, SummaryRelease, TargetRelease, encode
from likeset.protocol.terms import Terms

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
    "a question": (lambda _, one: replace(one, body=Asked(asked=True)), "may not come now"),
    "a question of round 2": (lambda _, one: replace(one, round=2, body=Asked(asked=True)), "may not come now"),
    "a release of the summary": (
        lambda _, one: replace(
            one, round=1, body=SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))
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
    "a message of another owner": (lambda _, one: replace(one, sender="b"), "hears the curator only"),
    "a message of the consumer": (lambda _, one: replace(one, sender="new-clinic"), "hears the curator only"),
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
    before = node.ledger.head()
    with monkeypatch.context() as patched:
        patched.delattr("likeset.homes.owner.datasets.DataSet.open_source")
        assert hear(node, encode(change(run, call(run)))) == "abstains"
    assert reason in logged(node, "refused")[-1]["reason"]
    assert node.ledger.head() == before
    assert (budgets.began(node.ledger), logged(node, "began")) == ({}, [])
    for message in script(run):
        assert isinstance(hear(node, encode(message)), list), logged(node, "refused")[-1:]
    assert len(logged(node, "began")) == 1


def test_a_run_that_was_charged_and_killed_before_it_was_noted_goes_on(node: OwnerNode) -> None:
    """The charge is there, the audit log does not say so yet: the first message comes again, and costs nothing more."""
    run = terms(**AUCTION)
    approve(node, run)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("likeset.ledger.Ledger.head", _killed)  # asked for after the charge, for the log
        with pytest.raises(KeyboardInterrupt):
            hear(node, encode(call(run)))
    charged = [account.epsilon for account in node.ledger.accounts()]
    assert max(one or 0.0 for one in charged) > 0.0
    assert isinstance(hear(node, encode(call(run))), list)
    assert [account.epsilon for account in node.ledger.accounts()] == charged


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
