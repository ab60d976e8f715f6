"""An answer is one message to the curator: who sends anything else fails alone, and nobody else is asked for it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from protocol_world import CONSUMER, THRESHOLD, World, carry, same_summary, terms, world

from likeset.errors import IllegalMessage
from likeset.protocol.wire import Bid, Message, TargetRelease
from likeset.transports.local import LocalEngine, RunResult, Shell

OTHERS = ("b", "c", CONSUMER)
PROTOCOLS: list[dict[str, Any]] = [{}, THRESHOLD, {"protocol": "interactive"}]
Says = Callable[[Message, list[Message]], list[Message]]
"""What is heard and what would honestly be answered; to what is said."""


def _honest(_heard: Message, replies: list[Message]) -> list[Message]:
    return replies


@dataclass(eq=False)
class _Talker(Shell[Any]):
    """An owner who may say anything; whatever owners are asked is kept."""

    says: Says
    asked: list[Message]

    def take(self, message: Message) -> tuple[Message, ...]:
        self.asked.append(message)
        assert len(self.asked) < 200, "owners are asked for ever"
        return tuple(self.says(message, list(super().take(message))))


class _Speaker(Shell[Any]):
    """A consumer who may say anything."""

    says: Says = staticmethod(_honest)

    def start(self) -> tuple[Message, ...]:
        words = list(super().start())
        return tuple(self.says(words[0], words))

    def take(self, message: Message) -> tuple[Message, ...]:
        return tuple(self.says(message, list(super().take(message))))


@dataclass
class _Held:
    """A run in this process."""

    made: World
    owner_says: Says = _honest
    consumer_says: Says = _honest
    asked: list[Message] = field(default_factory=list)

    def run(self) -> RunResult:
        honest = self.made.consumer()
        consumer = _Speaker(honest.party, honest.charges)
        consumer.says = self.consumer_says
        owners = {
            name: _Talker(owner.party, owner.charges, self.owner_says if name == "a" else _honest, self.asked)
            for name, owner in self.made.owners().items()
        }
        return LocalEngine(workers=1).run(self.made.curator(), owners, consumer)


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

    wire = _Held(world(terms(**options)), owner_says=says)
    result = wire.run()
    assert set(result.failures) == {"a"}
    assert same_summary(result.summary, carry(_without_the_first(options)).summary)
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

        result = _Held(world(terms(**options)), owner_says=says).run()
        assert set(result.failures) == {"a"}
        assert "2 messages where at most 1 may come" in result.failures["a"]
        assert same_summary(result.summary, carry(_without_the_first(options)).summary)


@pytest.mark.parametrize("options", [THRESHOLD, {"protocol": "interactive"}])
def test_an_owner_who_repeats_itself_does_not_make_the_others_repeat_themselves(options: dict[str, Any]) -> None:
    """The curator says to a message that it knows what it said before: to everybody, and so without end."""
    made = world(terms(**options, owners=("b", "a")))
    said: list[Message] = []

    def says(_heard: Message, replies: list[Message]) -> list[Message]:
        said.extend(replies)
        return said[:1]

    wire = _Held(made, owner_says=says)
    result = wire.run()
    assert set(result.failures) == {"a"}
    assert "taken before" in result.failures["a"]
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
    wire = _Held(world(terms(**options)), consumer_says=lambda _, words: change(words))
    with pytest.raises(IllegalMessage, match=CONSUMER):
        wire.run()
    assert wire.asked == []


@pytest.mark.parametrize("options", PROTOCOLS)
def test_the_curator_hears_of_the_target_before_owners_do_in_whatever_order_the_consumer_speaks(
    options: dict[str, Any],
) -> None:
    result = _Held(world(terms(**options)), consumer_says=lambda _, words: words[::-1]).run()
    assert result.failures == {}
    assert same_summary(result.summary, carry(world(terms(**options))).summary)


@pytest.mark.parametrize("options", PROTOCOLS)
def test_an_owner_to_whom_the_consumer_says_nothing_is_given_up(options: dict[str, Any]) -> None:
    def says(_heard: Message, words: list[Message]) -> list[Message]:
        return [one for one in words if one.receiver != "a"]

    result = _Held(world(terms(**options)), consumer_says=says).run()
    assert same_summary(result.summary, carry(_without_the_first(options)).summary)
