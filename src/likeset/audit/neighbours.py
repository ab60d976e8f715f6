"""The worst pairs of neighbouring inputs that we know, for each mechanism.

A lower bound is only as good as the pair it was observed on: an easy pair makes a broken mechanism look
sound. Each function says why nothing is harder, or how near the pair comes to the claim.
"""

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from likeset.privacy import width_choice
from likeset.privacy.auction import Bids
from likeset.privacy.noise import Integers

Data = TypeVar("Data", covariant=True)
Rows = NDArray[np.float64]

_TOP, _BOTTOM = 1e6, -1e6


@dataclass(frozen=True)
class Neighbours(Generic[Data]):
    """Two inputs that differ in one unit's rows, or in one owner's bid.

    Attributes:
        words: how they differ.
        first: one input.
        second: the other.
    """

    words: str
    first: Data
    second: Data

    def __getitem__(self, side: int) -> Data:
        """Input 0 or input 1."""
        return (self.first, self.second)[side]


def opposite_signs(rows: int, changed: int = 1) -> Neighbours[Integers]:
    """Numbers in {-1, +1}: the sum moves by 2 for each changed row, and additive noise knows only the distance."""
    first = np.ones(rows, dtype=np.int64)
    second = first.copy()
    second[:changed] = -1
    return Neighbours(f"{_rows(changed)} negated", first, second)


def removed_signs(rows: int, changed: int = 1) -> Neighbours[Integers]:
    """Numbers in {-1, +1}, all alike: the sum moves by 1 for each removed row."""
    return Neighbours(
        f"{_rows(changed)} removed", np.ones(rows, dtype=np.int64), np.ones(rows - changed, dtype=np.int64)
    )


def opposite_rows(rows: int, dimension: int, changed: int = 1) -> Neighbours[Rows]:
    """Unit rows: some point the other way, so the sum moves by a diameter, 2, for each of them.

    Gaussian noise is alike in all directions, so the direction does not matter.
    """
    first = np.tile(np.full(dimension, 1 / math.sqrt(dimension)), (rows, 1))
    second = first.copy()
    second[:changed] *= -1
    return Neighbours(f"{_rows(changed, 'unit row')} negated", first, second)


def opposite_axis_rows(rows: int, dimension: int, axis: int) -> Neighbours[Rows]:
    """Unit rows along one axis, one of them negated: all that moves is one coordinate, by 2."""
    first = np.zeros((rows, dimension))
    first[:, axis] = 1.0
    second = first.copy()
    second[0] *= -1
    return Neighbours(f"a row along axis {axis} is negated", first, second)


def removed_rows(rows: int, dimension: int, changed: int = 1) -> Neighbours[Rows]:
    """Unit rows that all point the same way: the sum moves by 1 for each removed row."""
    first = opposite_rows(rows, dimension).first
    return Neighbours(f"{_rows(changed, 'unit row')} removed", first, first[changed:])


def opposite_corners(dimension: int, bound: float, changed: int = 1) -> Neighbours[Rows]:
    """Rows with coordinates in [-bound, bound]: one coordinate of the sum rises while all others fall.

    A choice by the size of a coordinate folds signs, so a row that is merely negated does not move it. On
    top of as many other rows in a corner, the replaced rows move every coordinate's sum from 0 to 2 * bound (for each
    of them) or back: the scores of the choice move as far as they can, one against all others, and so does the sum
    that is measured.
    """
    first = np.full((2 * changed, dimension), bound)
    second = first.copy()
    first[:changed, 0] = -bound
    second[:changed, 1:] = -bound
    return Neighbours(f"{_rows(changed)} moved to the opposite corner", first, second)


def removed_corners(dimension: int, bound: float, changed: int = 1) -> Neighbours[Rows]:
    """The first of ``opposite_corners``, and the same without its changed rows: every sum moves by bound for each."""
    first = opposite_corners(dimension, bound, changed).first
    return Neighbours(f"{_rows(changed)} in a corner removed", first, first[changed:])


def opposite_scores(candidates: int, sensitivity: int) -> Neighbours[Integers]:
    """Scores that all move as far as they may, one of them against all others.

    The loss at that one is log(k / (1 + (k-1) e^(-2 rate sensitivity))) for k candidates, which tends to the
    supremum, 2 * rate * sensitivity, as k grows.
    """
    first = np.zeros(candidates, dtype=np.int64)
    second = np.full(candidates, -sensitivity, dtype=np.int64)
    second[0] = sensitivity
    return Neighbours("one score rises, all others fall", first, second)


def owner_is_overtaken(owners: int, rank: int) -> Neighbours[Bids]:
    """Owner 0 has this rank, until the last owner's bid jumps from the bottom to the top.

    At the rank of the threshold's offset, being asked is exactly randomised response with the claimed
    epsilon.
    """
    middle = tuple(float(rank - owner) for owner in range(1, owners - 1))
    # Owner 0 bids 0.5; exactly rank - 1 of the others bid 1 or more.
    return _bids("a rival's bid jumps to the top", (0.5, *middle, _BOTTOM), (0.5, *middle, _TOP))


def coalition_is_split(owners: int, rank: int) -> Neighbours[Bids]:
    """Owners 0 and 1 hold this rank and the next, until the last owner's bid comes between them.

    Asked the one and not the other means one value of the threshold, or two: below the offset the
    probabilities are in the ratio 1 to 1 + e^epsilon, the claim for coalitions.
    """
    above = tuple(_TOP + step for step in range(rank - 1))
    below = tuple(_BOTTOM - step for step in range(owners - rank - 2))
    coalition = (3.0, 1.0)
    return _bids(
        "a rival's bid comes between two allies",
        (*coalition, *above, *below, 2 * _BOTTOM),
        (*coalition, *above, *below, 2.0),
    )


def tie_is_lost(owners: int, rank: int) -> Neighbours[Bids]:
    """The last owner has this rank until owner 0, which a public rule prefers, raises its bid to a tie."""
    others = tuple(float(rank - owner) for owner in range(1, owners - 1))
    return _bids("a rival draws level, and ties go to it", (_BOTTOM, *others, 0.5), (0.5, *others, 0.5))


def absent_owner_appears(owners: int, rank: int) -> Neighbours[Bids]:
    """Owner 0 has this rank among those present until an absent owner appears with the highest bid."""
    pair = owner_is_overtaken(owners, rank)
    absent = (*pair.first.values[:-1], None)
    return _bids("an absent rival appears at the top", absent, pair.second.values)


def distance_collapses(candidates: int, changed: int = 1) -> Neighbours[Rows]:
    """Pairs of rows in one column; a row moves onto its partner, and one distance falls from large to zero.

    With one changed row there are four pairs. The other distances are zero, just above the first ``candidates`` of the
    grid, and large. So the count of distances rises by 1 at every candidate: from 1 to 2 of 4 at the first ones, whose
    score rises by 2, from 2 to 3 at all others, whose score falls by 2. That a rising one is chosen tells the more, the
    fewer they are: up to all of ``2 * rate * 2``. With more changed rows there are as many times more of everything.
    """
    grid = width_choice.grid(1)
    between = math.sqrt((grid[candidates - 1] + grid[candidates]) / 2)
    far = 10 * math.sqrt(grid[-1])
    first = np.zeros((8 * changed, 1))
    first[1::2, 0] = np.repeat([far, 0.0, between, far], changed)
    second = first.copy()
    second[1 : 2 * changed : 2, 0] = 0.0
    return Neighbours(f"{_rows(changed)} moved onto a partner", first, second)


def _rows(changed: int, row: str = "row") -> str:
    return f"a {row} is" if changed == 1 else f"{changed} {row}s are"


def _bids(words: str, first: tuple[float | None, ...], second: tuple[float | None, ...]) -> Neighbours[Bids]:
    """Nobody has waited: the patience of the paper's auction is not what is tried here."""
    waited = (1,) * len(first)
    return Neighbours(words, Bids(first, waited), Bids(second, waited))
