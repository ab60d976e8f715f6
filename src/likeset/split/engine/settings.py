"""What the public program is told before it starts, alike at every compute party: sizes, ranges, the kernel.

The engine computes in a ring of 64 bits with 24 of them behind the point. Its truncation is right only below 2^62,
so the settings are refused where a sum of squares could come near to that.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Self

__all__ = [
    "CONSUMER",
    "FEWEST_SQUARES",
    "MOST_COLUMNS",
    "PARTIES",
    "SECRET_WORDS",
    "TAYLOR",
    "WORD_BITS",
    "BadSettings",
    "ProgramSettings",
]

WORD_BITS = 16
"""A number x is shared as the word round(x * 2^16)."""
SECRET_WORDS = 4
"""Words of an offer's 32 secret bytes, which open its envelope."""
CONSUMER = 1
"""The rank that gets picks opened. Rank 0 is the curator, rank 2 the witness."""
PARTIES = 3
"""Curator, consumer and witness."""
TAYLOR = 6.0
"""e^6z has whole coefficients up to z^4: sums, where products would be rounded."""
FEWEST_SQUARES = 3
"""So many times at least is the series of an exponential squared; exponents are counted in TAYLOR times 2 to that."""
MOST_COLUMNS = 1 << 13
"""The rounding of a norm grows with columns; up to so many it is below a hundredth (docs/proofs/split.md, Lemma 2)."""
_MOST_BYTES = 1 << 22
_WIDEST = 1 << 24  # half of a range, in words: 256.0
_FARTHEST = 1 << 11  # gamma times the largest squared distance from the middle of all ranges


class BadSettings(ValueError):
    """The program cannot be run so."""


@dataclass(frozen=True)
class ProgramSettings:
    """Everything that the program depends on besides shares. All of it is public.

    Attributes:
        offers: slots of all owners together, empty ones included.
        target_rows: rows of the target.
        size: picks, at most ``offers``.
        gamma: width of the kernel ``exp(-gamma * ||x - y||²)``.
        lows: for each column the smallest word that its declared range has.
        highs: the largest.
        classes: how many classes the label has; 0 matches rows without labels.
        label_weight: lambda of ``k(x, x') * ((1 - lambda) + lambda [y = y'])``.
    """

    offers: int
    target_rows: int
    size: int
    gamma: float
    lows: tuple[int, ...]
    highs: tuple[int, ...]
    classes: int = 0
    label_weight: float = 0.0

    def __post_init__(self) -> None:
        # One over the number of target rows has 24 bits: with more of them it would be off by more than a thousandth.
        for name, most in (("offers", 1 << 20), ("target_rows", 1 << 14), ("size", 1 << 20)):
            if not 1 <= getattr(self, name) <= most:
                raise BadSettings(f"{name} must lie between 1 and {most}")
        if self.size > self.offers:
            raise BadSettings("size must be at most the number of offers")
        if not 1 <= len(self.lows) <= MOST_COLUMNS:
            raise BadSettings(f"rows must have between 1 and {MOST_COLUMNS} columns")
        if len(self.lows) != len(self.highs):
            raise BadSettings("lows and highs must have one word for each column")
        halves = [high - low for low, high in zip(self.lows, self.highs, strict=True)]
        if min(halves) < 0 or max(map(abs, (*self.lows, *self.highs))) > _WIDEST:
            raise BadSettings(f"each low must be at most its high, and both within {_WIDEST} words of zero")
        if not 1e-6 <= self.gamma <= 1e6:
            raise BadSettings("gamma must lie between 1e-6 and 1e6")
        if self.gamma * sum((half / 2 / (1 << WORD_BITS)) ** 2 for half in halves) > _FARTHEST:
            raise BadSettings("rows can be too far apart for 64 bits: scale the columns down, or take a smaller gamma")
        if self.classes < 0 or not 0.0 <= self.label_weight <= 1.0 or bool(self.label_weight) > self.classes:
            raise BadSettings("label_weight must lie between 0 and 1, and be 0 without classes")

    @property
    def columns(self) -> int:
        """Of a row, without its label."""
        return len(self.lows)

    @property
    def farthest(self) -> float:
        """The largest exponent of a kernel: gamma times the squared distance between the ends of all ranges."""
        pairs = zip(self.lows, self.highs, strict=True)
        return self.gamma * sum(((high - low) / (1 << WORD_BITS)) ** 2 for low, high in pairs)

    @property
    def offer_words(self) -> int:
        """Words that are shared of a slot: its row, its label, whether it is filled, its secret."""
        return self.columns + self.classes + 1 + SECRET_WORDS

    @property
    def target_words(self) -> int:
        """Words that are shared of a row of the target: the row, and the chance of each class."""
        return self.columns + self.classes

    def to_bytes(self) -> bytes:
        """In their one form."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":")).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What ``to_bytes`` wrote.

        Raises:
            BadSettings: it is something else.
        """
        try:
            named = dict(json.loads(data)) if len(data) <= _MOST_BYTES else {}
            settings = cls(**{**named, "lows": tuple(named["lows"]), "highs": tuple(named["highs"])})
            if settings.to_bytes() == data:
                return settings
        except BadSettings:
            raise
        except (ValueError, TypeError, KeyError):
            pass
        raise BadSettings("these bytes are no settings of the program in their one form")

    def digest(self) -> str:
        """SHA-256 of ``to_bytes``, in hexadecimal letters."""
        return hashlib.sha256(self.to_bytes()).hexdigest()
