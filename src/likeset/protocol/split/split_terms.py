"""What terms say about a split curator: who computes, which public program, by which kernel, and what may be opened."""

import math
from dataclasses import dataclass, field

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.protocol.term_parts import is_digest, keep_checked

__all__ = [
    "LARGEST_SPLIT_ENTRY",
    "MOST_SPLIT_SLOTS",
    "MOST_SPLIT_TARGET",
    "SplitShape",
    "SplitTerms",
    "largest_split",
    "largest_split_gamma",
]

MOST_SPLIT_SLOTS = 1 << 20
"""Slots of all owners together: what the public program takes."""
MOST_SPLIT_TARGET = 1 << 14
"""Rows of the target."""
LARGEST_SPLIT_ENTRY = 256.0
"""No number of a row may be larger in size: what the public program takes."""
_SMALLEST_GAMMA, _LARGEST_GAMMA = 1e-6, 1e6
# Gamma times the largest squared distance from the middle of all ranges: the public program takes 2^11, of ranges that
# are rounded up to whole words.
_FARTHEST = 2000.0


def largest_split(gamma: float, columns: int) -> float:
    """How large numbers of rows may be so that 64 bits hold their distances, in units of the kernel's width."""
    return min(LARGEST_SPLIT_ENTRY, math.sqrt(_FARTHEST / (gamma * columns)))


def largest_split_gamma(largest: float, columns: int) -> float:
    """The other way round: the narrowest kernel for rows whose numbers may be so large."""
    return _FARTHEST / (columns * largest**2) * (1.0 - 1e-9)


@dataclass(frozen=True, slots=True)
class SplitShape:
    """What is known of a split run before anything is drawn.

    Attributes:
        program: digest of the public program; every compute party builds it from its own files.
        openings: how many rows may be opened to the consumer in all: as many as the summary has.
    """

    program: str
    openings: int

    def __post_init__(self) -> None:
        if not isinstance(self.program, str) or not is_digest(self.program):
            raise InvalidArgument("split.program", "other text", "must be the digest of the public program")
        keep_checked(self, openings=arguments.count("split.openings", self.openings, most=MOST_SPLIT_SLOTS))

    def drawn(self, *, gamma: float) -> "SplitTerms":
        """The same with the kernel's width."""
        return SplitTerms(self.program, self.openings, gamma=gamma)


@dataclass(frozen=True, slots=True)
class SplitTerms(SplitShape):
    """What all parties of a split run agree on.

    Attributes:
        gamma: width of the selection's kernel. Public: it must not be read off the target.
    """

    gamma: float = field(kw_only=True)

    def __post_init__(self) -> None:
        SplitShape.__post_init__(self)
        keep_checked(self, gamma=arguments.positive("split.gamma", self.gamma))
        if not _SMALLEST_GAMMA <= self.gamma <= _LARGEST_GAMMA:
            reason = f"must lie between {_SMALLEST_GAMMA:g} and {_LARGEST_GAMMA:g}; scale the columns"
            raise InvalidArgument("split.gamma", self.gamma, reason)
