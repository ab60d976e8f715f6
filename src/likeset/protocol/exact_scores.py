"""Scores that are the same for everybody, to the last bit.

What is proven about releases of the summary (docs/proofs/summary-stream.md) assumes that owners and curator rank rows
by one public order. Sums of products in floating point depend on the order of summation, and so on the place of a row
in its table. Here features and directions are whole numbers (in units of ``2**-20``) held in floating point: products
and sums of them stay below ``2**53`` and are exact in any order. What follows is arithmetic on single numbers, which
IEEE 754 fixes.
"""

import numpy as np
from numpy.typing import NDArray

from likeset.errors import IllegalMessage

__all__ = [
    "STEPS",
    "direction_on_lattice",
    "exact_sums",
    "features_on_lattice",
    "gains",
    "in_own_units",
    "within_bounds",
]

STEPS = 2.0**20
"""Lattice steps per unit."""

_LONGEST = 2.0**11  # of a direction: products of a *difference* of two with features of length sqrt(2) stay below 2**53
_LARGEST = 16.0  # of a coordinate: up to 2**14 of them stay within the longest
_NEAR_ONE = 1.0 - 1e-6
_CHUNK = 1 << 16


def features_on_lattice(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features as whole numbers of steps; a float32 holds them exactly."""
    return np.asarray(np.rint(features * np.float32(STEPS)))


def direction_on_lattice(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """A released mean as whole numbers of steps.

    A coordinate of a mean is at most 1; one beyond 16 is noise that has drowned it, and is cut off there. Everybody
    cuts alike, coordinate by coordinate, and what is done to a release afterwards costs nothing.

    Raises:
        IllegalMessage: it is so long that products with it would not be exact.
    """
    within = np.clip(direction, -_LARGEST, _LARGEST)
    if not float(np.linalg.norm(within)) <= _LONGEST:
        raise IllegalMessage("a released mean has more coordinates than can be added up exactly")
    return np.rint(within * STEPS)


def exact_sums(direction: NDArray[np.float64], lines: NDArray[np.float32]) -> NDArray[np.float64]:
    """For each row the sum over coordinates of direction times feature; ``lines`` has one line per coordinate."""
    total = np.empty(lines.shape[1])
    for first in range(0, lines.shape[1], _CHUNK):
        total[first : first + _CHUNK] = direction @ lines[:, first : first + _CHUNK].astype(np.float64)
    return total


def gains(attraction: NDArray[np.float64], repulsion: NDArray[np.float64], *, summary_size: int) -> NDArray[np.float64]:
    """``attraction - q/(q+1) * repulsion``, number by number."""
    share = summary_size / (summary_size + 1)
    return attraction - share * repulsion


def in_own_units(score: float) -> float:
    """A score as an inner product of features and direction."""
    return score / (STEPS * STEPS)


def within_bounds(features: NDArray[np.float64], *, paired: bool) -> NDArray[np.float32]:
    """One row's lattice features as they enter a released sum: within the bounds that its noise was made for.

    A function of this row alone: features computed anew, in one product with other rows, would differ in their last
    bits with the rows around them.

    Args:
        features: of one row, in lattice steps.
        paired: whether the bound is on their length (1) or on each coordinate (``sqrt(2/d)``).
    """
    own = features / STEPS
    if not paired:
        bound = np.sqrt(2.0 / len(own))
        return np.clip(own, -bound, bound).astype(np.float32)
    # Short of 1 by more than float32 rounds: whoever checks the length finds it below 1 in any order of summation.
    length = float(np.sqrt(own @ own))
    return (own * (_NEAR_ONE / max(length, _NEAR_ONE))).astype(np.float32)
