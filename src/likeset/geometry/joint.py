"""Rows together with their classes, as rows: matching these matches the joint distribution.

The joint kernel is ``k(x, x') * ((1 - w) + w [y = y'])`` with the label weight w. With a column for each class that
holds ``sqrt(-log(1 - w) / (2 gamma))`` where the class is the row's own and 0 elsewhere, rows of different classes lie
``-log(1 - w) / gamma`` further apart (squared), so the kernel of the longer rows *is* the joint kernel. Whatever works
on rows (greedy, swaps, weights) works on them as it is, and nothing holds a matrix of pairs.

Two things keep that from harm. A class of few rows counts for as many as it may well have (``largest_shares``): models
lose more by too few rows of a class than by too many. And labels count less where the pool has hardly enough rows of
the target's classes (``supply``): a kernel that sees little but classes finds nothing to choose by among the others.
"""

import numpy as np
from numpy.typing import NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument

__all__ = ["LARGEST_LABEL_WEIGHT", "joint_rows", "joint_target", "largest_shares", "supply"]

LARGEST_LABEL_WEIGHT = 0.99
"""At 1 rows of different classes would be infinitely far apart."""

_FEWEST_CHANCE = 0.01  # of a class that a row of the target counts with
_DEVIATIONS = 2.0  # standard deviations of a count that it may well be larger by
_PLENTY = 2.0  # rows of the pool for each that is wanted of a class


def joint_rows(rows: Rows, codes: NDArray[np.int64], *, classes: int, label_weight: float, gamma: float) -> Rows:
    """The rows with columns for their classes.

    Args:
        rows: without them.
        codes: for each row the number of its class, below ``classes``.
        classes: how many there are.
        label_weight: 0 leaves classes out of the kernel; at most 0.99.
        gamma: width of the kernel.
    """
    if not 0.0 <= label_weight <= LARGEST_LABEL_WEIGHT:
        raise InvalidArgument("label_weight", label_weight, f"must lie between 0 and {LARGEST_LABEL_WEIGHT}")
    apart = np.sqrt(-np.log1p(-label_weight) / (2.0 * arguments.positive("gamma", gamma)))
    columns = np.zeros((len(rows), classes), dtype=rows.dtype)
    columns[np.arange(len(rows)), codes] = apart
    return np.concatenate([rows, columns], axis=1)


def joint_target(
    target: Rows,
    chances: NDArray[np.float64],
    *,
    label_weight: float,
    gamma: float,
    shares: NDArray[np.float64] | None = None,
) -> tuple[Rows, NDArray[np.float64]]:
    """The target with uncertain classes: each row once for each class that it may have, and weights that sum to 1.

    Classes of a chance below 0.01 are left out, and the row's others take their part.

    Args:
        target: its rows.
        chances: for each row the chance of each class.
        label_weight: 0 leaves classes out of the kernel; at most 0.99.
        gamma: width of the kernel.
        shares: what each class counts in all; by its chances if not given.
    """
    # Half of an even share: rounding must not leave a row without a class.
    kept = np.where(chances >= min(_FEWEST_CHANCE, 0.5 / chances.shape[1]), chances, 0.0)
    kept /= kept.sum(axis=1, keepdims=True)
    numbers, codes = np.nonzero(kept)
    weights = kept[numbers, codes] / len(target)
    if shares is not None:
        weights *= shares[codes] / kept.mean(axis=0)[codes]
        weights /= weights.sum()
    rows = joint_rows(target[numbers], codes, classes=chances.shape[1], label_weight=label_weight, gamma=gamma)
    return rows, weights


def largest_shares(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each class the share of the target that it may well have, scaled so that they sum to 1.

    That is two standard deviations of its count more than is expected; none for a class of which one row or less is
    expected, which may be mere confusion.
    """
    counts = chances.sum(axis=0)
    largest = counts + _DEVIATIONS * np.sqrt(np.maximum(counts - 1.0, 0.0))
    return np.asarray(largest / largest.sum())


def supply(codes: NDArray[np.int64], shares: NDArray[np.float64], *, size: int) -> float:
    """How far the pool has two rows of each class for each one that a summary of that size wants: 1 for plenty.

    Args:
        codes: for each row of the pool the number of its class.
        shares: of the classes in the target.
        size: rows wanted.
    """
    held = np.bincount(codes, minlength=len(shares))
    return min(1.0, float(np.minimum(shares, held / (_PLENTY * size)).sum()))  # shares sum to 1, but for rounding
