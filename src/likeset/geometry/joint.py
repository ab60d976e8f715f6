"""Rows together with their classes, as rows: matching these matches the joint distribution.

The joint kernel is ``k(x, x') * ((1 - w) + w [y = y'])`` with the label weight w. With a column for each class that
holds ``sqrt(-log(1 - w) / (2 gamma))`` where the class is the row's own and 0 elsewhere, rows of different classes lie
``-log(1 - w) / gamma`` further apart (squared), so the kernel of the longer rows *is* the joint kernel. Whatever works
on rows (greedy, swaps, weights) works on them as it is, and nothing holds a matrix of pairs.
"""

import numpy as np
from numpy.typing import NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument

__all__ = ["LARGEST_LABEL_WEIGHT", "joint_rows", "joint_target"]

LARGEST_LABEL_WEIGHT = 0.99
"""At 1 rows of different classes would be infinitely far apart."""

_FEWEST_CHANCE = 0.01  # of a class that a row of the target counts with


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
    target: Rows, chances: NDArray[np.float64], *, label_weight: float, gamma: float
) -> tuple[Rows, NDArray[np.float64]]:
    """The target with uncertain classes: each row once for each class that it may have, and weights that sum to 1.

    Classes of a chance below 0.01 are left out, and the row's others take their part.
    """
    kept = np.where(chances >= min(_FEWEST_CHANCE, 1.0 / chances.shape[1]), chances, 0.0)
    numbers, codes = np.nonzero(kept)
    weights = (kept / kept.sum(axis=1, keepdims=True))[numbers, codes] / len(target)
    rows = joint_rows(target[numbers], codes, classes=chances.shape[1], label_weight=label_weight, gamma=gamma)
    return rows, weights
