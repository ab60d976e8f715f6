"""All parties in one process: the run goes on without those who cannot or will not, and can be resumed."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from protocol_world import PAPER, THRESHOLD, World, carry, ledger_on_disk, same_summary, terms, world

from likeset.errors import QuorumMissed, TermsExpired
from likeset.ledger.budget import Limit
from likeset.privacy.events import View
from likeset.protocol.party import Step
from likeset.protocol.sealed import SealedOwner
from likeset.protocol.wire import Asked, Bid, Body, Message, Misfit
from likeset.tables.scan import MemoryScan
from likeset.transports.local import ChargedParty, RunResult, run_local

OPTIONS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "threshold": THRESHOLD,
    "interactive": {"protocol": "interactive"},
    "paper": PAPER,
}
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def _run(made: World, **options: Any) -> RunResult:
    return run_local(made.curator(), made.owners(), made.consumer(), **options)


@each_option
def test_the_engine_comes_to_what_the_protocol_comes_to(options: dict[str, Any]) -> None:
    agreed = terms(**options)
    outcome = carry(world(agreed))
    result = _run(world(agreed))
    assert same_summary(result.summary, outcome.summary)
    assert result.messages == sum(len(heard) for heard in outcome.heard.values())
    assert result.bytes_sent == sum(len(data) for heard in outcome.heard.values() for data in heard)
    assert result.failures == {}


@each_option
def test_owners_who_are_not_there_are_given_up(options: dict[str, Any]) -> None:
    made = world(terms(**options))
    del made.data["b"]
    result = _run(made)
    assert result.summary.absent.tolist() == [1]
    assert 1 not in result.summary.owners
    made = world(terms(**options, quorum=3))
    del made.data["b"]
    with pytest.raises(QuorumMissed):
        _run(made)


@each_option
def test_an_owner_who_cannot_answer_abstains_and_the_first_reason_is_kept(options: dict[str, Any]) -> None:
    agreed = terms(**options)
    with ledger_on_disk(agreed) as ledger:
        ledger.set_limit(View.curator("a"), Limit.rows_only(1))
        result = _run(world(agreed, ledger))
    assert "budget exceeded" in result.failures["a"]
    assert set(result.failures) == {"a"}
    assert 0 not in result.summary.owners
    assert len(result.summary.rows) > 0


def _run_with_liar(made: World, body: Body) -> RunResult:
    def lied(step: Step) -> Step:
        if step.charge is not None:
            return replace(step, _go_on=lambda _, data: lied(step.go_on(data)))
        return replace(step, replies=tuple(replace(honest, body=body) for honest in step.replies))

    class Liar(SealedOwner):
        def receive(self, message: Message) -> Step:
            return lied(super().receive(message))

    liar = Liar(made.terms, "a", scan=MemoryScan(made.data["a"]), key=1000)
    owners: dict[str, ChargedParty[Any]] = {**made.owners(), "a": ChargedParty(liar, made.ledger)}
    return run_local(made.curator(), owners, made.consumer())


STRANGE: list[Body] = [Bid(gain=1.0, handle=1), Misfit(misfit=1.0), Asked(asked=True)]


@pytest.mark.parametrize("body", STRANGE)
def test_an_owner_who_says_what_nobody_expects_does_not_stop_the_run(body: Body) -> None:
    made = world(terms())
    result = _run_with_liar(made, body)
    assert 0 in result.summary.absent
    assert "a" in result.failures
    assert set(result.summary.owners.tolist()) <= {1, 2}
    assert len(result.summary.rows) == 4


def test_failures_hold_no_data() -> None:
    made = world(terms())
    made.data["a"] = np.full((5, 3), 123456.789, dtype=np.float32)
    result = _run_with_liar(made, Misfit(misfit=123456.789))
    assert "123456" not in result.failures["a"]
    assert not any("123456" in str(reason) for reason in result.summary.reasons)


@pytest.mark.parametrize(("now", "over"), [("2098-12-31T23:59:59", False), ("2099-01-01T00:00:01", True)])
def test_terms_that_have_ended_release_nothing(now: str, over: bool) -> None:
    """The terms of these tests end with the year 2098, UTC."""
    place, clock = world(terms()), lambda: datetime.fromisoformat(now).replace(tzinfo=UTC)
    if not over:
        assert len(_run(place, clock=clock).summary.rows)
        return
    with pytest.raises(TermsExpired, match="2099-01-01"):
        _run(place, clock=clock)
    assert place.noise.calls == 0
