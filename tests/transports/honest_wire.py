"""Parties in this process behind a wire, for a pump: honest, until a test says otherwise."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from protocol_world import World

from likeset.protocol.wire import decode, encode
from likeset.transports.pump import EachAlone


@dataclass
class HonestWire(EachAlone):
    """Everybody says what its party says."""

    world: World

    def __post_init__(self) -> None:
        self.parties = self.world.owners()
        self.consumer = self.world.consumer()

    @property
    def owners(self) -> Collection[str]:
        return self.parties

    @property
    def done(self) -> bool:
        return self.consumer.party.summary is not None

    def start(self) -> Sequence[bytes]:
        return [encode(message) for message in self.consumer.start()]

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        return [encode(reply) for reply in self.parties[owner].take(decode(data))]

    def hand_over(self, data: bytes) -> Sequence[bytes]:
        return [encode(reply) for reply in self.consumer.take(decode(data))]

    def give_back(self, writer: str, data: bytes) -> None:
        raise AssertionError(f"{writer} is shown {len(data)} bytes that it wrote")
