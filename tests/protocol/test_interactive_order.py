"""Owners and the curator keep to the order of rounds; what it means to miss a step, or to be one too few."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from interactive_options import GAUSSIAN, INTERACTIVE, OPTIONS, sent_by
from numpy.typing import NDArray
from protocol_world import THRESHOLD, CountingNoise, carry, ledger_on_disk, rows, terms, world

from likeset.errors import IllegalMessage, InvalidArgument, QuorumMissed
from likeset.privacy.guarantee import View
from likeset.privacy.noise import Integers
from likeset.protocol.interactive import InteractiveCurator
from likeset.protocol.wire import Asked, Bid, Body, Message, SummaryRelease, TargetRelease


def test_all_rows_of_a_run_are_charged_before_the_first_leaves_and_only_once() -> None:
    agreed = terms(**INTERACTIVE)
    with ledger_on_disk(agreed, rows=agreed.size) as ledger:
        made = world(agreed, ledger)
        carry(made)
        carry(made)
        accounts = {account.view: account for account in ledger.accounts()}
        assert {accounts[View.curator(name)].rows for name in agreed.owners} == {agreed.size}


def test_an_owner_keeps_to_the_order_of_rounds_and_takes_nothing_else() -> None:
    made = world(terms(**GAUSSIAN, seed_rows=1))
    curator, owner = made.curator(), made.owner("a")
    calls = [call for call in made.first_words(curator) if call.receiver == "a"]
    opening, first = calls
    with pytest.raises(IllegalMessage):
        owner.take(first)  # before the release of the target
    assert owner.take(opening) == ()
    with pytest.raises(IllegalMessage):
        owner.take(replace(first, body=Asked(asked=True)))  # before any bid
    with pytest.raises(IllegalMessage):
        owner.take(replace(first, round=2))
    nothing = np.empty(0, dtype=np.int64)
    for coordinates, values in (
        (np.array([16]), np.zeros(1)),
        (np.array([-1]), np.zeros(1)),
        (np.array([1, 1]), np.zeros(2)),
        (np.array([1]), np.zeros(2)),
        (np.array([1]), np.full(1, np.inf)),
        (nothing, np.zeros(1)),
    ):
        with pytest.raises(IllegalMessage):
            owner.take(replace(first, body=SummaryRelease(coordinates=coordinates, values=values)))
    with pytest.raises(IllegalMessage):
        owner.take(replace(opening, body=TargetRelease(release=np.ones(16))))  # another one in its place
    (bid,) = owner.take(first)
    (again,) = owner.take(first)
    assert bid is again
    assert isinstance(bid.body, Bid)


@pytest.mark.parametrize(
    ("options", "number"),
    [(INTERACTIVE, 1), (INTERACTIVE, 2), ({**INTERACTIVE, "seed_rows": 3}, 1), (GAUSSIAN, 1)],
    ids=["none", "none, later", "none, with seed rows", "gaussian, before there is a summary"],
)
@pytest.mark.parametrize("values", [np.zeros(1), np.ones(1), np.empty(0)], ids=["zero", "one", "coordinate alone"])
def test_an_owner_refuses_a_release_about_the_summary_that_the_terms_do_not_announce(
    options: dict[str, Any], number: int, values: NDArray[np.float64]
) -> None:
    """By directions of its choice a curator would learn rows that it never asks for, feature by feature."""
    made = world(terms(**options))
    owner = made.owner("a")

    def say(round_number: int, body: Body) -> Sequence[Message]:
        sender = "hospital" if isinstance(body, TargetRelease) else "curator"
        return owner.take(Message(made.terms.run, made.terms.digest, sender, "a", round_number, body))

    nothing = SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))
    say(0, TargetRelease(release=np.ones(16)))
    for before in range(1, number):
        say(before, nothing)
        say(before, Asked(asked=False))
    with pytest.raises(IllegalMessage, match="announce no release"):
        say(number, SummaryRelease(coordinates=np.array([3]), values=values))
    (bid,) = say(number, nothing)
    assert isinstance(bid.body, Bid)


def test_an_owner_who_misses_a_step_may_take_part_in_the_next_and_late_answers_are_discarded() -> None:
    made = world(terms(**INTERACTIVE))
    curator = made.curator()
    owners = made.owners()
    held_back: list[Message] = []

    def answers(calls: tuple[Message, ...]) -> list[Message]:
        return [reply for call in calls for reply in owners[call.receiver].take(call)]

    bids = answers(made.first_words(curator))
    held_back.append(bids[1])
    curator.take(bids[0])
    curator.take(bids[2])
    asks = curator.give_up("b")  # from bidding in round 1
    assert curator.take(held_back[0]) == ()
    assert curator.party.late == 1
    deliveries = answers(asks)
    assert {one.sender for one in deliveries} == {"a", "c"}
    held_back.append(deliveries[0])
    curator.take(deliveries[1])
    second = answers(curator.give_up("a"))  # from delivering in round 1
    assert {one.sender for one in second} == {"a", "b", "c"}
    before = curator.party.rows_seen
    assert curator.take(held_back[1]) == ()  # late in the next round, and its sender is waited for
    assert (curator.party.late, curator.party.rows_seen) == (2, before + 1)  # discarded, but seen
    assert curator.party.waiting_for == {"a", "b", "c"}
    assert curator.give_up("nobody") == ()


def test_too_few_owners_end_the_run() -> None:
    made = world(terms(**INTERACTIVE, quorum=3))
    del made.data["b"]
    with pytest.raises(QuorumMissed):
        carry(made)
    made = world(terms(**INTERACTIVE, quorum=2))
    del made.data["b"]
    assert carry(made).summary.absent.tolist() == [1]


@pytest.mark.parametrize("release", ["gaussian", "mwem"])
def test_rounds_without_a_row_still_count(release: str) -> None:
    """Nobody is asked in the first two rounds: releases go on, the divisor is the public number of the round."""

    class LowAtFirst(CountingNoise):
        asked = 0

        def discrete_laplace(self, scale: float, size: int) -> Integers:
            if scale != 1.0 / 8.0:
                return super().discrete_laplace(scale, size)
            self.asked += 1
            return np.full(size, -9 if self.asked <= 2 else 0)

    options = {"gaussian": OPTIONS["threshold-gaussian"], "mwem": {**OPTIONS["mwem"], **THRESHOLD, "seed_rows": 0}}
    made = world(terms(**options[release], size=5))
    made.noise = LowAtFirst()
    outcome = carry(made)
    assert len(outcome.summary.rows) == 3
    assert len(outcome.summary.flagged) == 0
    assert not outcome.refused


def test_an_owner_who_misses_a_step_is_out_where_something_is_released_about_the_summary() -> None:
    made = world(terms(**GAUSSIAN, size=5))
    made.data["b"] = made.target[:12].copy()
    outcome = carry(made, replies_of={"b": lambda _heard, replies: [one for one in replies if one.round != 2]})
    assert outcome.summary.owners.tolist().count(1) <= 1  # what joined the summary before it went
    asked = {m.round: m.body.asked for m in sent_by(outcome, "curator", Asked) if m.receiver == "b"}  # type: ignore[union-attr]
    assert asked == {1: True, 3: False, 4: False, 5: False}  # to a bid that did not come there is no answer


@pytest.mark.parametrize("seeds", [None, rows(1, 2), rows(1, 3)[:, :2], np.full((3, 3), np.nan), rows(98, 3)])
def test_seed_rows_must_be_those_of_the_terms(seeds: Any) -> None:
    with pytest.raises(InvalidArgument, match="seed_rows"):
        InteractiveCurator(
            terms(**INTERACTIVE, seed_rows=3),
            noise=CountingNoise(),
            seed_rows=seeds,
        )
