"""Pairs of neighbouring inputs, as hard for a mechanism as they can be."""

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from likeset.privacy import width_choice
from likeset.privacy.auction import Bids
from likeset.privacy.noise import Integers

Rows = NDArray[np.float64]
Data = TypeVar("Data")
Array = TypeVar("Array", Rows, Integers)

_TOP, _BOTTOM = 1e6, -1e6


@dataclass(frozen=True)
class Neighbours(Generic[Data]):
    """Two inputs that differ in one unit's rows, or in one owner's bid; ``words`` say how."""

    words: str
    first: Data
    second: Data

    def __getitem__(self, side: int) -> Data:
        return (self.first, self.second)[side]


def negated(rows: Array, changed: int = 1, what: str = "row") -> Neighbours[Array]:
    """The first rows change their sign: the sum moves by twice a row for each of them."""
    second = rows.copy()
    second[:changed] *= -1
    return Neighbours(f"{_counted(changed, what)} negated", rows, second)


def removed(rows: Array, changed: int = 1, what: str = "row") -> Neighbours[Array]:
    """The first rows are missing: the sum moves by a row for each of them."""
    return Neighbours(f"{_counted(changed, what)} removed", rows, rows[changed:])


def signs(rows: int) -> Integers:
    """Rows of one number each; additive noise knows only how far their sum moves."""
    return np.ones(rows, dtype=np.int64)


def unit_rows(rows: int, dimension: int, axis: int | None = None) -> Rows:
    """Equal rows of length 1, along one axis or along the diagonal; Gaussian noise is alike in all directions."""
    direction = np.full(dimension, 1 / math.sqrt(dimension)) if axis is None else np.eye(dimension)[axis]
    return np.tile(direction, (rows, 1))


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
    return Neighbours(f"{_counted(changed, 'row')} moved to the opposite corner", first, second)


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


def pair_moves_apart(changed: int = 1) -> Neighbours[Rows]:
    """Pairs of rows in one column; a row leaves its partner, and one squared distance becomes a large one.

    With one changed row there are three pairs, all near the first two candidates of the grid. One of them comes near
    the last two: two scores fall from 3 to 2, and two rise from 0 to 1. At rate 1 the probability of the last two
    changes from .043 to .225, which is 1.65 of the 2 that are claimed. With more changed rows there are as many times
    more of everything.
    """
    grid = width_choice.grid(1)
    first = np.zeros((6 * changed, 1))
    first[1::2, 0] = math.sqrt(2.0 * grid[0])
    second = first.copy()
    second[1 : 2 * changed : 2, 0] = math.sqrt(2.0 * grid[-2])
    return Neighbours(f"{_counted(changed, 'row')} moved away from a partner", first, second)


def _counted(changed: int, row: str) -> str:
    return f"a {row} is" if changed == 1 else f"{changed} {row}s are"


def _bids(words: str, first: tuple[float | None, ...], second: tuple[float | None, ...]) -> Neighbours[Bids]:
    """Nobody has waited: the patience of the paper's auction is not what is tried here."""
    waited = (1,) * len(first)
    return Neighbours(words, Bids(first, waited), Bids(second, waited))
