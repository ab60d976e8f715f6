"""Networks that duplicate, lose, delay and mangle messages, and parties that are killed and started again.

The transport is assumed to do what every transport between organisations does: a message that was not taken is sent
again, and a party that starts anew is sent again what it was sent before.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from protocol_world import (
    CONSUMER,
    PAPER,
    THRESHOLD,
    CountingNoise,
    World,
    carry,
    ledger_on_disk,
    same_summary,
    terms,
    world,
)

from chance import EXAMPLES
from likeset.errors import DifferentRequest, IllegalMessage, LikesetError
from likeset.privacy.noise import Integers
from likeset.protocol.terms import Budget, Terms
from likeset.protocol.wire import Delivery, Message, Offer, Summary, decode, encode
from likeset.transports.local import ChargedParty

INTERACTIVE: dict[str, Any] = {"protocol": "interactive", "size": 2, "owners": ("a", "b")}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "uniform": {"offers": "uniform"},
    "threshold": THRESHOLD,
    "interactive": INTERACTIVE,
    "gaussian": {**INTERACTIVE, "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)},
    "interactive-threshold": {**INTERACTIVE, **THRESHOLD, "auction_offset": 1},
    "paper": {**PAPER, **INTERACTIVE},
}
each_configuration = pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)


@dataclass
class Network:
    """Carries messages of one world in any order, again and again, and remembers what it carried.

    Attributes:
        log: everything that was ever sent to each party, in order.
        places: for each (sender, receiver, round, kind), the different messages that were sent.
    """

    world: World
    parties: dict[str, ChargedParty[Any]] = field(init=False)
    bag: list[bytes] = field(default_factory=list)
    log: dict[str, list[bytes]] = field(default_factory=dict)
    places: dict[tuple[str, str, int, str], set[bytes]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    taken: dict[str, list[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = self.world
        self.parties = {"curator": made.curator(), CONSUMER: made.consumer(), **made.owners()}
        self.start()

    @property
    def summary(self) -> Summary | None:
        consumer = self.parties[CONSUMER]
        summary: Summary | None = consumer.party.summary
        return summary

    def start(self) -> None:
        consumer = self.parties[CONSUMER]
        self.send(consumer.start())

    def send(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            data = encode(message)
            place = (message.sender, message.receiver, message.round, message.body.kind)
            self.places.setdefault(place, set()).add(data)
            self.bag.append(data)

    def deliver(self, data: bytes) -> bool:
        """Whether the message was taken; one that was not, is sent again."""
        message = decode(data)
        self.log.setdefault(message.receiver, []).append(data)
        try:
            self.send(self.parties[message.receiver].take(message))
        except LikesetError as error:
            self.refused.append(str(error))
            self.mend(message.receiver)
            return False
        self.taken.setdefault(message.receiver, []).append(data)
        return True

    def mend(self, name: str) -> None:
        """A party that has failed is thrown away, and made anew from what it took; it need not send that again."""
        if self.parties[name].party.failed:
            self.parties[name] = self.new(name)
            for data in self.taken.get(name, []):
                with suppress(LikesetError):  # what came late to a curator who waits again, comes again
                    self.parties[name].take(decode(data))

    def new(self, name: str) -> ChargedParty[Any]:
        """A party that has heard nothing."""
        made = self.world
        if name == CONSUMER:
            return made.consumer()
        return made.curator() if name == "curator" else made.owner(name)

    def restart(self, name: str) -> None:
        """Kill a party and start it again: it has its ledger, and is sent again what it was sent before."""
        self.parties[name] = self.new(name)
        self.taken[name] = []
        if name == CONSUMER:
            self.start()
        again, self.log[name] = self.log.get(name, []), []
        for data in again:
            self.deliver(data)

    def finish(self, choose: Callable[[int], int] = lambda _count: 0) -> Summary:
        """Deliver what is left, in the order that ``choose`` says."""
        for _ in range(1000):
            if self.summary is not None:
                return self.summary
            assert self.bag, "nothing is left to deliver and there is no summary"
            data = self.bag.pop(choose(len(self.bag)))
            if not self.deliver(data):
                self.bag.append(data)
        raise AssertionError(self.refused[-3:])

    def assert_nothing_twice(self) -> None:
        """One message for each place, ever; each row under one handle; no more rows than announced."""
        for place, sent in self.places.items():
            assert len(sent) == 1, place
        handles: dict[str, dict[int, bytes]] = {}
        for (sender, *_), sent in self.places.items():
            for data in sent:
                body = decode(data).body
                rows = handles.setdefault(sender, {})
                if isinstance(body, Offer):
                    rows.update(zip(body.handles.tolist(), (row.tobytes() for row in body.rows), strict=True))
                if isinstance(body, Delivery):
                    assert body.handle not in rows
                    rows[body.handle] = body.rows.tobytes()
        for name in self.world.terms.owners:
            assert len(handles.get(name, {})) <= self.world.terms.rows_per_owner
            assert len(set(handles.get(name, {}).values())) == len(handles.get(name, {}))


@dataclass(frozen=True)
class Expected:
    """What a run without faults comes to."""

    summary: Summary
    draws: int
    heard: dict[str, list[bytes]]

    @property
    def messages(self) -> int:
        return sum(len(heard) for heard in self.heard.values())


def _expected(agreed: Terms) -> Expected:
    made = world(agreed)
    outcome = carry(made)
    assert not outcome.refused
    return Expected(outcome.summary, made.noise.calls, outcome.heard)


@each_configuration
@pytest.mark.parametrize("seed", range(3))
def test_in_any_order_and_many_times_the_summary_is_the_same(options: dict[str, Any], seed: int) -> None:
    agreed = terms(**options)
    expected = _expected(agreed)
    coins = random.Random(seed)  # noqa: S311
    network = Network(world(agreed))

    def choose(count: int) -> int:
        place = coins.randrange(count)
        if coins.random() < 0.3 and len(network.bag) < 60:
            network.bag.append(network.bag[place])
        return place

    assert same_summary(network.finish(choose), expected.summary)
    refused = len(network.refused)
    for data in [data for log in network.log.values() for data in log]:
        network.deliver(data)  # all of it once more, at the end
    assert len(network.refused) == refused
    assert network.world.noise.calls == expected.draws
    network.assert_nothing_twice()


@each_configuration
def test_whichever_message_is_lost_for_good_the_others_come_to_a_summary(options: dict[str, Any]) -> None:
    agreed = terms(**options)
    expected = _expected(agreed)
    for lost in range(1, expected.messages - 1):  # all but the target and the summary
        made = world(agreed)
        counted = iter(range(10_000))
        outcome = carry(made, tamper=lambda message, at=lost, counted=counted: [message] * (next(counted) != at))  # type: ignore[misc]
        assert len(outcome.summary.rows) > 0
        assert len(outcome.summary.flagged) == 0
        assert made.noise.calls <= expected.draws


@pytest.mark.slow
@each_configuration
@pytest.mark.parametrize("victim", ["curator", "b", CONSUMER, "all"])
def test_whoever_is_killed_at_whatever_step_the_summary_is_the_same(options: dict[str, Any], victim: str) -> None:
    agreed = terms(**options)
    expected = _expected(agreed)
    for step in range(len(victim) % 3, expected.messages, 3 if EXAMPLES == 1 else 1):  # the soak tries each
        network = Network(world(agreed))
        for _ in range(step):
            assert network.deliver(network.bag.pop(0))
        for name in list(network.parties) if victim == "all" else [victim]:
            network.restart(name)
        assert same_summary(network.finish(), expected.summary)
        assert network.world.noise.calls == expected.draws
        network.assert_nothing_twice()


@pytest.mark.parametrize("name", ["sealed", "threshold", "gaussian"])
def test_a_run_that_is_killed_and_begun_again_on_disk_draws_and_charges_nothing_anew(name: str) -> None:
    """Everything in flight is lost, all parties are new: only the ledger is left."""
    agreed = terms(**CONFIGURATIONS[name])
    expected = _expected(agreed)
    for step in range(1, expected.messages, 4):
        with ledger_on_disk(agreed) as ledger:
            made = world(agreed, ledger)
            network = Network(made)
            for _ in range(step):
                network.deliver(network.bag.pop(0))
            assert same_summary(carry(made).summary, expected.summary)
            assert made.noise.calls == expected.draws
            charged = ledger.accounts()
            assert same_summary(carry(made).summary, expected.summary)
            assert ledger.accounts() == charged
            assert ledger.verify().ok


class _Interrupted(BaseException):
    """Stands for the machine going down."""


class _DyingNoise(CountingNoise):
    """Goes down at one draw, once; whatever was drawn by then is lost."""

    left = 1

    def _maybe_die(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise _Interrupted

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        drawn = super().discrete_gaussian(sigma, size)
        self._maybe_die()
        return drawn

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        drawn = super().discrete_laplace(scale, size)
        if scale == 1.0 / THRESHOLD["auction_epsilon"]:
            self._maybe_die()
        return drawn


FIVE_ROUNDS: dict[str, Any] = {**INTERACTIVE, "size": 5}
INTERRUPTED: dict[str, tuple[dict[str, Any], int]] = {
    "release": ({}, 1),
    "auction": ({**THRESHOLD, "offers": "uniform"}, 1),
    # The first draw is the target's release; round 1 of a summary release has seed rows only, or none.
    **{
        f"{kind} {draw}": ({**FIVE_ROUNDS, **options}, draw)
        for kind, options in (
            ("summary release", {"summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)}),
            ("auction of a round", {**THRESHOLD, "auction_offset": 1, "owner_budget": Budget(20.0, 1e-5)}),
        )
        for draw in (2, 4, 5)
    },
}


@pytest.mark.parametrize(("options", "draw"), INTERRUPTED.values(), ids=INTERRUPTED)
def test_a_draw_that_was_interrupted_is_not_drawn_again_in_silence(options: dict[str, Any], draw: int) -> None:
    """Charged, nothing sent: going on would be a second draw, which is a new charge that somebody must want."""
    agreed = terms(**options)
    with ledger_on_disk(agreed) as ledger:
        made = world(agreed, ledger)
        made.noise = _DyingNoise()
        made.noise.left = draw
        with pytest.raises(_Interrupted):
            carry(made)
        charged, draws = ledger.accounts(), made.noise.calls
        with pytest.raises((LikesetError, AssertionError)):
            carry(made)
        assert made.noise.calls == draws
        assert ledger.accounts() == charged
        assert any(account.charges for account in charged)


def test_a_second_run_under_a_known_name_with_other_terms_is_refused() -> None:
    agreed = terms()
    with ledger_on_disk(agreed) as ledger:
        carry(world(agreed, ledger))
        other = world(terms(size=5), ledger)
        with pytest.raises(DifferentRequest):
            other.consumer().start()
        assert other.noise.calls == 0


@each_configuration
def test_an_illegal_message_leaves_a_party_as_it_was(options: dict[str, Any]) -> None:
    """Every message of the run, from a stranger, to every party: refused, and nothing moved."""
    agreed = terms(**options)
    expected = _expected(agreed)
    sent = [decode(data) for heard in expected.heard.values() for data in heard]
    network = Network(world(agreed))
    for message in sent:
        for party in network.parties.values():
            strange = replace(message, receiver=party.name, sender="stranger")
            with pytest.raises(IllegalMessage):
                party.take(strange)
    assert same_summary(network.finish(), expected.summary)
    assert network.world.noise.calls == expected.draws
