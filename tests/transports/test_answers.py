"""An answer is one message to the curator: who sends anything else fails alone, and nobody else is asked for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from honest_wire import HonestWire
from protocol_world import CONSUMER, THRESHOLD, World, carry, same_summary, terms, world

from likeset.errors import IllegalMessage
from likeset.protocol.wire import Bid, Message, TargetRelease, decode, encode
from likeset.transports.plain_messages import PlainCurator, read_parcel
from likeset.transports.pump import Pump

OTHERS = ("b", "c", CONSUMER)
PROTOCOLS: list[dict[str, Any]] = [{}, THRESHOLD, {"protocol": "interactive"}]
Says = Callable[[Message, list[Message]], list[Message]]
"""What is heard and what would honestly be answered; to what is said."""


def _honest(_heard: Message, replies: list[Message]) -> list[Message]:
    return replies


@dataclass
class _Wire(HonestWire):
    """Owner ``a`` and the consumer may say anything; whatever owners are asked is kept."""

    owner_says: Says = _honest
    consumer_says: Says = _honest
    asked: list[Message] = field(default_factory=list)

    def start(self) -> Sequence[bytes]:
        words = list(self.consumer.start())
        return [encode(one) for one in self.consumer_says(words[0], words)]

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        heard = decode(data)
        self.asked.append(heard)
        assert len(self.asked) < 200, "owners are asked for ever"
        replies = list(self.parties[owner].take(heard))
        return [encode(one) for one in (self.owner_says(heard, replies) if owner == "a" else replies)]

    def hand_over(self, data: bytes) -> Sequence[bytes]:
        heard = decode(data)
        return [encode(one) for one in self.consumer_says(heard, list(self.consumer.take(heard)))]


def _pumped(made: World, *, owner_says: Says = _honest, consumer_says: Says = _honest) -> tuple[Pump, _Wire]:
    wire = _Wire(made, owner_says, consumer_says)
    return Pump(PlainCurator(made.curator()), wire, read_parcel, workers=1), wire


def _without_the_first(options: dict[str, Any]) -> World:
    made = world(terms(**options))
    del made.data["a"]
    return made


@pytest.mark.parametrize("options", PROTOCOLS)
@pytest.mark.parametrize("receiver", OTHERS)
@pytest.mark.parametrize("form", ["beside its own", "before its own", "alone", "what it heard"])
def test_an_owner_who_writes_to_somebody_else_is_given_up_and_nobody_else_is(
    options: dict[str, Any], receiver: str, form: str
) -> None:
    def says(heard: Message, replies: list[Message]) -> list[Message]:
        other = [replace(one, receiver=receiver) for one in replies]
        if form == "what it heard":
            return [replace(heard, sender="a", receiver=receiver)]  # the consumer's release, or the curator's words
        return other if form == "alone" else replies + other if form == "beside its own" else other + replies

    pump, wire = _pumped(world(terms(**options)), owner_says=says)
    pump.run()
    assert set(pump.failures) == {"a"}
    assert wire.consumer.party.summary is not None
    assert same_summary(wire.consumer.party.summary, carry(_without_the_first(options)).summary)
    assert {heard.sender for heard in wire.asked} <= {"curator", CONSUMER}
    assert all(heard.sender == "curator" or isinstance(heard.body, TargetRelease) for heard in wire.asked)
    assert len(wire.asked) == len({(heard.receiver, heard.round, heard.body.kind) for heard in wire.asked})


@pytest.mark.parametrize("options", PROTOCOLS)
def test_of_several_messages_none_is_heard_if_one_is_bad(options: dict[str, Any]) -> None:
    """A good answer first, then others: a copy, another round, another kind."""
    changes: list[Callable[[Message], Message]] = [
        lambda one: one,
        lambda one: replace(one, round=77),
        lambda one: replace(one, body=Bid(gain=1.0, handle=1)),
    ]
    for change in changes:

        def says(_heard: Message, replies: list[Message], change: Any = change) -> list[Message]:
            return [*replies, *map(change, replies)]

        pump, wire = _pumped(world(terms(**options)), owner_says=says)
        pump.run()
        assert set(pump.failures) == {"a"}
        assert "2 messages where at most 1 may come" in pump.failures["a"]
        assert wire.consumer.party.summary is not None
        assert same_summary(wire.consumer.party.summary, carry(_without_the_first(options)).summary)


@pytest.mark.parametrize("options", [THRESHOLD, {"protocol": "interactive"}])
def test_an_owner_who_repeats_itself_does_not_make_the_others_repeat_themselves(options: dict[str, Any]) -> None:
    """The curator says to a message that it knows what it said before: to everybody, and so without end."""
    made = world(terms(**options, owners=("b", "a")))
    said: list[Message] = []

    def says(_heard: Message, replies: list[Message]) -> list[Message]:
        said.extend(replies)
        return said[:1]

    pump, wire = _pumped(made, owner_says=says)
    pump.run()
    assert set(pump.failures) == {"a"}
    assert "taken before" in pump.failures["a"]
    assert wire.consumer.party.summary is not None
    places = [(heard.receiver, heard.round, heard.body.kind) for heard in wire.asked]
    assert len(places) == len(set(places))


_Changed = Callable[[list[Message]], list[Message]]
NO_OPENINGS: dict[str, _Changed] = {
    "nothing for the curator": lambda words: words[1:],
    "the target twice": lambda words: [words[0], *words],
    "two releases for one owner": lambda words: [*words, replace(words[1], body=TargetRelease(release=np.ones(16)))],
    "to itself": lambda words: [*words, replace(words[0], receiver=CONSUMER)],
    "to a stranger": lambda words: [*words, replace(words[1], receiver="d")],
    "in the curator's name": lambda words: [words[0], *(replace(one, sender="curator") for one in words[1:])],
    "in an owner's name": lambda words: [replace(words[0], sender="a"), *words[1:]],
}


@pytest.mark.parametrize("options", PROTOCOLS)
@pytest.mark.parametrize("change", NO_OPENINGS.values(), ids=NO_OPENINGS)
def test_a_consumer_begins_with_one_message_to_the_curator_and_one_to_each_owner_or_nobody_is_asked(
    options: dict[str, Any], change: _Changed
) -> None:
    pump, wire = _pumped(world(terms(**options)), consumer_says=lambda _, words: change(words))
    with pytest.raises(IllegalMessage, match=CONSUMER):
        pump.run()
    assert wire.asked == []
    assert pump.failures == {}


@pytest.mark.parametrize("options", PROTOCOLS)
def test_the_curator_hears_of_the_target_before_owners_do_in_whatever_order_the_consumer_speaks(
    options: dict[str, Any],
) -> None:
    pump, wire = _pumped(world(terms(**options)), consumer_says=lambda _, words: words[::-1])
    pump.run()
    assert pump.failures == {}
    assert wire.consumer.party.summary is not None
    assert same_summary(wire.consumer.party.summary, carry(world(terms(**options))).summary)


@pytest.mark.parametrize("options", PROTOCOLS)
def test_an_owner_to_whom_the_consumer_says_nothing_is_given_up(options: dict[str, Any]) -> None:
    def says(_heard: Message, words: list[Message]) -> list[Message]:
        return [one for one in words if one.receiver != "a"]

    pump, wire = _pumped(world(terms(**options)), consumer_says=says)
    pump.run()
    assert wire.consumer.party.summary is not None
    assert same_summary(wire.consumer.party.summary, carry(_without_the_first(options)).summary)


def test_a_consumer_who_answers_the_summary_with_a_message_to_an_owner_ends_its_own_run() -> None:
    made = world(terms())

    def says(heard: Message, replies: list[Message]) -> list[Message]:
        return replies if heard.sender == CONSUMER else [replace(heard, sender=CONSUMER, receiver="a")]

    pump, wire = _pumped(made, consumer_says=says)
    with pytest.raises(IllegalMessage, match="somebody else than the curator"):
        pump.run()
    assert len(wire.asked) == 3
