"""What a compute party puts into the public program, and what comes back at the consumer; nothing here computes."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["ComputeInputs", "OpenedSlots"]


@dataclass(frozen=True, eq=False)
class ComputeInputs:
    """Everything that one party's computation needs. All but the two arrays is public, and alike at all parties.

    Attributes:
        rank: of the party: 0 the curator, 1 the consumer, 2 the witness.
        offers: slots of all owners of the roster, empty ones included.
        target_rows: rows of the target.
        size: picks.
        gamma: width of the kernel.
        lows: for each column the smallest word that a row may have.
        highs: the largest.
        program: digest of the public program, by the terms.
        digest: of what is put in: the roster, and commitments to all shares of the target.
        offer_words: this party's shares of all slots, owner after owner.
        target_words: this party's share of the target.
    """

    rank: int
    offers: int
    target_rows: int
    size: int
    gamma: float
    lows: tuple[int, ...]
    highs: tuple[int, ...]
    program: str
    digest: str
    offer_words: NDArray[np.int64] = field(repr=False)
    target_words: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True, eq=False)
class OpenedSlots:
    """What the computation opens, to the consumer only: for each pick, in order.

    Attributes:
        numbers: of the slots among all, from 0; -1 where no valid slot was left.
        secrets: the four words of r of each.
        checksums: of each one's row.
        factors: of the checksums, one for each column.
    """

    numbers: NDArray[np.int64]
    secrets: NDArray[np.int64] = field(repr=False)
    checksums: NDArray[np.int64] = field(repr=False)
    factors: NDArray[np.int64] = field(repr=False)
