"""What a party's own process and its worker ask of each other. The worker has neither files nor keys."""

import json
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from .settings import ProgramSettings

__all__ = ["AGAIN", "Keeper", "Task", "Words"]

AGAIN = "sending again what was opened"
"""What a worker tells in place of a stage where another party asked for what was opened before."""
Words = NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """What a party's own process asks of its worker.

    Attributes:
        settings: of the program.
        rank: of this party.
        program: digest of the program.
        inputs: digest of what was agreed about inputs.
        attempt: names the links of this attempt, alike at all parties.
        addresses: for each rank where to reach it: ``unix:`` and a path.
        timeout: seconds after which silence is a failure.
    """

    settings: ProgramSettings
    rank: int
    program: str
    inputs: str
    attempt: str
    addresses: tuple[str, ...]
    timeout: int

    def to_bytes(self) -> bytes:
        """As it goes through the pipe."""
        plain = [self.rank, self.program, self.inputs, self.attempt, list(self.addresses), self.timeout]
        return json.dumps([self.settings.to_bytes().decode("ascii"), *plain]).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What ``to_bytes`` wrote.

        Raises:
            ValueError: it is something else, or an address is none of a socket in the file system.
        """
        settings, rank, program, inputs, attempt, addresses, timeout = json.loads(data)
        if not all(address.startswith("unix:/") for address in addresses):
            raise ValueError("the engine is reached by sockets in the file system only")
        wanted = ProgramSettings.from_bytes(settings.encode("ascii"))
        return cls(wanted, rank, program, inputs, attempt, tuple(addresses), timeout)


class Keeper(Protocol):
    """The party's own process, as its worker sees it."""

    def inputs(self) -> tuple[Words, Words]:
        """The party's additive shares of all offers and of the target."""

    def kept(self) -> bytes:
        """The party's share of picks that were opened before; empty if none were."""

    def keep(self, share: bytes) -> None:
        """Return when the party's share of the picks is on disk: only then may it leave."""

    def give(self, seed: bytes, payloads: Words) -> None:
        """Return when what was opened is on disk; the consumer's only."""

    def tell(self, stage: str, done: int, of: int) -> None:
        """How far it is."""
