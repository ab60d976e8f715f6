"""A party says what must be charged, and waits; one whose step is not carried to its end says nothing more."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol_world import CONSUMER, THRESHOLD, CountingNoise, World, carry, ledger_on_disk, terms, world

from likeset.errors import BudgetExceeded, IllegalMessage, PartyFailed, QuorumMissed
from likeset.ledger.budget import Limit
from likeset.privacy.events import Unbounded
from likeset.privacy.guarantee import View
from likeset.privacy.noise import Integers
from likeset.protocol.terms import Budget
from likeset.protocol.wire import Message, Offer, encode
from likeset.transports.local import ChargedParty

GAUSSIAN: dict[str, Any] = {
    "protocol": "interactive",
    "size": 2,
    "summary_release": "gaussian",
    "owner_budget": Budget(2.0, 1e-5),
}


def _target(made: World) -> Message:
    return made.consumer().start()[0]


def _call(made: World) -> Message:
    return made.first_words(made.curator())[0]


def test_a_step_names_its_charge_and_has_no_replies_before_its_end() -> None:
    made = world(terms())
    owner, call = made.owner("a").party, _call(made)
    step = owner.receive(call)
    wanted = step.charge
    assert wanted is not None
    assert step.replies == ()
    assert wanted.costs == ((View.curator("a"), Unbounded("rows are seen by the curator")),)
    assert (wanted.run, wanted.round, wanted.kind, wanted.content) == ("run-1", 1, "a/offer", encode(call))
    assert (wanted.rows, wanted.repeatable) == (made.terms.rows_per_owner, True)
    data, release = wanted.draw()
    assert release is None
    end = step.go_on(data)
    assert end.charge is None
    assert [encode(reply) for reply in end.replies] == [data]


def test_what_is_said_is_what_was_kept_and_not_what_was_drawn_now() -> None:
    made = world(terms())
    owner, call = made.owner("a").party, _call(made)
    kept = Message("run-1", made.terms.digest, "a", "curator", 1, Offer(**_one_row()))
    (reply,) = owner.receive(call).go_on(encode(kept)).replies
    assert encode(reply) == encode(kept)
    assert owner.rows_disclosed == 1


def _one_row() -> dict[str, Any]:
    return {"rows": np.zeros((1, 3), np.float32), "labels": np.empty(0), "handles": np.ones(1, np.uint64)}


def test_nothing_is_drawn_before_it_is_charged() -> None:
    made = world(terms())
    step = made.consumer().party.start()
    assert step.charge is not None
    assert not step.charge.repeatable
    assert made.noise.calls == 0
    step.charge.draw()
    assert made.noise.calls == 1


def test_one_message_may_want_several_charges_one_after_the_other() -> None:
    """The last bid of a round: an auction, and with nobody asked at once the release of the next round."""
    agreed = terms(**{**GAUSSIAN, **THRESHOLD, "accept_unproven": ("summary-release",), "seed_rows": 2})
    made = world(agreed)
    curator, owners = made.curator(), made.owners()
    bids = [reply for call in made.first_words(curator) for reply in owners[call.receiver].take(call)]
    for bid in bids[:-1]:
        curator.take(bid)
    step = curator.party.receive(bids[-1])
    assert step.charge is not None
    assert step.charge.kind == "curator/auction"
    step = step.go_on(b"\0")  # nobody is asked
    assert step.charge is not None
    assert (step.charge.kind, step.charge.round) == ("curator/summary-release", 2)
    step = step.go_on(step.charge.draw()[0])
    assert [reply.body.kind for reply in step.replies] == ["asked"] * 3 + ["summary-release"] * 3


# How a party fails.


def _refuses_everything(party: Any, *messages: Message) -> None:
    assert party.failed
    for message in messages:
        with pytest.raises(PartyFailed, match="make it anew"):
            party.receive(message)


def test_an_illegal_message_does_not_make_a_party_fail() -> None:
    made = world(terms())
    owner, call = made.owner("a"), _call(made)
    for wrong in (replace(call, sender="b"), replace(call, round=7), replace(call, run="other")):
        with pytest.raises(IllegalMessage):
            owner.take(wrong)
    assert not owner.party.failed
    assert len(owner.take(call)) == 1


def test_a_party_whose_charge_is_refused_says_nothing_more() -> None:
    agreed = terms()
    with ledger_on_disk(agreed) as ledger:
        ledger.set_limit(View.curator("a"), Limit.rows_only(1))
        made = world(agreed, ledger)
        owner, call = made.owner("a"), _call(made)
        with pytest.raises(BudgetExceeded):
            owner.take(call)
        _refuses_everything(owner.party, call, replace(call, round=7))
        ledger.set_limit(View.curator("a"), Limit.rows_only(1000))
        with pytest.raises(PartyFailed):
            owner.take(call)
        assert len(made.owner("a").take(call)) == 1


class _NoNoise(CountingNoise):
    """Its machine goes down."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        del sigma, size
        raise KeyboardInterrupt

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        del scale, size
        raise KeyboardInterrupt


def test_a_party_whose_draw_is_lost_says_nothing_more() -> None:
    made = world(terms())
    made.noise = _NoNoise()
    consumer = made.consumer()
    with pytest.raises(KeyboardInterrupt):
        consumer.start()
    assert consumer.party.failed
    with pytest.raises(PartyFailed):
        consumer.start()


def test_a_curator_whose_auction_is_lost_does_not_go_on_with_half_a_step() -> None:
    """It has taken the last misfit and drawn nothing: were it asked on, it would wait for nobody, for ever."""
    made = world(terms(**THRESHOLD))
    curator = made.curator()
    calls = made.first_words(curator)
    misfits = [made.owner(call.receiver).take(call)[0] for call in calls]
    for misfit in misfits[:-1]:
        curator.take(misfit)
    curator.party._noise = _NoNoise()
    with pytest.raises(KeyboardInterrupt):
        curator.take(misfits[-1])
    _refuses_everything(curator.party, *misfits)
    with pytest.raises(PartyFailed):
        curator.give_up("a")


def test_the_next_message_while_a_step_is_open_ends_it() -> None:
    made = world(terms())
    owner, call = made.owner("a").party, _call(made)
    step = owner.receive(call)
    assert not owner.failed
    with pytest.raises(PartyFailed, match="before a step was at its end"):
        owner.receive(call)
    _refuses_everything(owner, call)
    assert step.charge is not None
    with pytest.raises(PartyFailed):
        step.go_on(step.charge.draw()[0])


@pytest.mark.parametrize("which", ["ended", "gone on"])
def test_a_step_goes_on_once(which: str) -> None:
    made = world(terms())
    owner, call = made.owner("a").party, _call(made)
    step = owner.receive(call)
    assert step.charge is not None
    data, _ = step.charge.draw()
    end = step.go_on(data)
    with pytest.raises(PartyFailed):
        (end if which == "ended" else step).go_on(data)


def test_a_step_that_is_at_its_end_cannot_be_abandoned() -> None:
    made = world(terms())
    owner, call = made.owner("a").party, _call(made)
    step = owner.receive(call)
    assert step.charge is not None
    end = step.go_on(step.charge.draw()[0])
    for old in (step, end):
        old.abandon()
    assert not owner.failed
    assert owner.receive(call).replies == end.replies


def test_a_curator_that_missed_its_quorum_is_done_for() -> None:
    made = world(terms(quorum=2))
    curator = made.curator()
    target = _target(made)
    curator.take(target)
    curator.give_up("a")
    curator.give_up("b")
    with pytest.raises(QuorumMissed):
        curator.give_up("c")
    _refuses_everything(curator.party, target)


@pytest.mark.parametrize(
    ("options", "victim", "charges"),
    [
        ({}, "a", 1),  # its offer
        (THRESHOLD, "curator", 1),  # the auction
        (GAUSSIAN, "a", 3),  # all rows, and one in each round
        (GAUSSIAN, "curator", 1),  # the release before the second round
    ],
)
def test_a_party_made_anew_hears_what_it_heard_and_says_what_it_said(
    options: dict[str, Any], victim: str, charges: int
) -> None:
    """Whoever fails at each of its charges, is thrown away and made anew over the same ledger: it comes to the same."""
    agreed = terms(**options)
    expected = carry(world(agreed)).heard
    made = world(agreed)
    parties: dict[str, Any] = {"curator": made.curator(), CONSUMER: made.consumer(), **made.owners()}
    parties[victim] = fails = _FailsAtEachCharge(made, victim)
    assert carry(made, parties=parties).heard == expected
    assert fails.failures == charges


class _FailsAtEachCharge(ChargedParty[Any]):
    """Its first try at each charge fails; it is made anew from what it took."""

    def __init__(self, made: World, name: str) -> None:
        def new() -> Any:
            return made.curator().party if name == "curator" else made.owner(name).party

        self._new = new
        super().__init__(self._new(), made.ledger)
        self._taken: list[Message] = []
        self.failures = 0

    def take(self, message: Message) -> tuple[Message, ...]:
        step = self.party.receive(message)
        if step.charge is not None:
            self.failures += 1
            step.abandon()
            assert self.party.failed
            self.party = self._new()
            for heard in self._taken:
                super().take(heard)
        self._taken.append(message)
        return super().take(message)
