"""What compute parties tell each other before they compute: that they run the same thing, and from which round on.

Each says what it runs, which checkpoints it has, and the hash of a random number. When inputs are fixed, the numbers
are told. From them come the mark of this attempt and the factors of the checksum: nobody can choose either alone.

A checkpoint is known by its round and by the mark of the attempt in which it was made. Only shares of one attempt
belong together: a round that was computed twice is rounded otherwise the second time.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Checkpoint",
    "Disagreement",
    "Offer",
    "attempt_mark",
    "checksum_factors",
    "commitment",
    "joint_seed",
    "latest_common",
]

_NONCE_BYTES = 32
_MOST_LETTERS = 1 << 20


class Disagreement(ValueError):
    """The compute parties do not want the same thing, or one of them does not keep to the rules."""


@dataclass(frozen=True, order=True)
class Checkpoint:
    """A state that can be gone on from.

    Attributes:
        round: picks that were made; 0 is the state before the first.
        mark: of the attempt in which it was made, 32 hexadecimal letters.
        base: of the attempt in which its round 0 was made.
    """

    round: int
    mark: str
    base: str

    def __post_init__(self) -> None:
        for mark in (self.mark, self.base):
            if not isinstance(mark, str) or len(mark) != 32 or set(mark) - set("0123456789abcdef"):
                raise Disagreement("a checkpoint's mark has 32 hexadecimal letters")
        if type(self.round) is not int or self.round < 0 or (self.round == 0 and self.mark != self.base):
            raise Disagreement("a checkpoint has a round, and at round 0 is its own base")


@dataclass(frozen=True)
class Offer:
    """What a compute party says first.

    Attributes:
        program: digest of the program, its runtime configuration and the engine.
        settings: digest of the settings.
        inputs: digest of what all parties took for the list of inputs.
        commitment: SHA-256 of the number that it will tell.
        held: its checkpoints.
    """

    program: str
    settings: str
    inputs: str
    commitment: str
    held: tuple[Checkpoint, ...]

    def to_text(self) -> str:
        """As it travels."""
        held = [[point.round, point.mark, point.base] for point in self.held]
        return json.dumps([self.program, self.settings, self.inputs, self.commitment, held])

    @classmethod
    def from_text(cls, text: str) -> Self:
        """What ``to_text`` wrote.

        Raises:
            Disagreement: it is something else.
        """
        try:
            if len(text) > _MOST_LETTERS:
                raise ValueError
            program, settings, inputs, committed, held = json.loads(text)
            if not all(isinstance(word, str) for word in (program, settings, inputs, committed)):
                raise TypeError
            points = tuple(Checkpoint(number, mark, base) for number, mark, base in held)
        except (ValueError, TypeError):
            raise Disagreement("a compute party said something else than what it runs") from None
        return cls(program, settings, inputs, committed, points)


def latest_common(offers: Sequence[Offer]) -> Checkpoint | None:
    """The last round that all have of one attempt, with the round 0 that it stands on; None to begin with inputs.

    Raises:
        Disagreement: they run different programs, settings or inputs.
    """
    for name in ("program", "settings", "inputs"):
        if len({getattr(offer, name) for offer in offers}) != 1:
            raise Disagreement(f"the compute parties do not have the same {name}")
    common = set.intersection(*(set(offer.held) for offer in offers))
    whole = [point for point in common if Checkpoint(0, point.base, point.base) in common]
    return max(whole, default=None)


def commitment(nonce: bytes) -> str:
    """The hash by which a party binds itself to the number that it will tell."""
    return hashlib.sha256(b"likeset split nonce" + nonce).hexdigest()


def joint_seed(offers: Sequence[Offer], nonces: Sequence[str]) -> bytes:
    """From the numbers that all parties told: 32 bytes.

    Raises:
        Disagreement: a party told another number than it had bound itself to, or one that is not random.
    """
    numbers = []
    for offer, nonce in zip(offers, nonces, strict=True):
        number = bytes.fromhex(nonce) if set(nonce) <= set("0123456789abcdef") and len(nonce) % 2 == 0 else b""
        if len(number) != _NONCE_BYTES or commitment(number) != offer.commitment:
            raise Disagreement("a compute party told another number than it had bound itself to")
        numbers.append(number)
    if len(set(numbers)) != len(numbers):
        raise Disagreement("a compute party repeated another's number")
    return hashlib.sha256(b"likeset split seed" + b"".join(numbers)).digest()


def attempt_mark(seed: bytes) -> str:
    """The mark of an attempt."""
    return hashlib.sha256(b"likeset split attempt" + seed).hexdigest()[:32]


def checksum_factors(seed: bytes, words: int) -> NDArray[np.int64]:
    """One factor of 64 bits for each word of a row and its label."""
    stream = hashlib.shake_256(b"likeset split checksum" + seed).digest(8 * words)
    return np.frombuffer(stream, dtype="<i8").astype(np.int64)
