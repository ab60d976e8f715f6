"""What compute parties tell each other before they compute: that they run the same thing, and what was opened.

Each says what it runs, whether it keeps a share of picks that were opened before, and the hash of a random number. When
inputs are fixed, the numbers are told. The factors of the checksum follow from them: nobody can choose these alone.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Disagreement", "Offer", "checksum_factors", "commitment", "joint_seed", "keepers"]

_NONCE_BYTES = 32
_MOST_LETTERS = 1 << 12
_ENOUGH = 2  # each of the three shares is held by two parties


class Disagreement(ValueError):
    """The compute parties do not want the same thing, or one of them does not keep to the rules."""


@dataclass(frozen=True)
class Offer:
    """What a compute party says first.

    Attributes:
        program: digest of the program, its runtime configuration and the engine.
        settings: digest of the settings.
        inputs: digest of what all parties took for the list of inputs.
        commitment: SHA-256 of the number that it will tell.
        keeps: whether it keeps its share of picks that were opened before.
    """

    program: str
    settings: str
    inputs: str
    commitment: str
    keeps: bool

    def to_text(self) -> str:
        """As it travels."""
        return json.dumps([self.program, self.settings, self.inputs, self.commitment, self.keeps])

    @classmethod
    def from_text(cls, text: str) -> Self:
        """What ``to_text`` wrote.

        Raises:
            Disagreement: it is something else.
        """
        try:
            if len(text) > _MOST_LETTERS:
                raise ValueError
            program, settings, inputs, committed, keeps = json.loads(text)
            words = (program, settings, inputs, committed)
            if not all(isinstance(word, str) for word in words) or not isinstance(keeps, bool):
                raise TypeError
        except (ValueError, TypeError):
            raise Disagreement("a compute party said something else than what it runs") from None
        return cls(program, settings, inputs, committed, keeps)


def keepers(offers: Sequence[Offer]) -> list[int]:
    """The ranks that keep their share of picks that were opened before; nobody if the computation is to begin.

    Raises:
        Disagreement: they run different programs, settings or inputs; or picks were opened, and too few shares of them
            are left.
    """
    for name in ("program", "settings", "inputs"):
        if len({getattr(offer, name) for offer in offers}) != 1:
            raise Disagreement(f"the compute parties do not have the same {name}")
    ranks = [rank for rank, offer in enumerate(offers) if offer.keeps]
    if ranks and len(ranks) < _ENOUGH:
        raise Disagreement("picks were opened before, and only one party has kept its share of them")
    return ranks


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


def checksum_factors(seed: bytes, words: int) -> NDArray[np.int64]:
    """One factor of 64 bits for each word of a row and its label."""
    stream = hashlib.shake_256(b"likeset split checksum" + seed).digest(8 * words)
    return np.frombuffer(stream, dtype="<i8").astype(np.int64)
