"""Classes of a target's rows by a ridge regression of low rank that secret shares can do: sums, products, one maximum.

Written once for numpy (how good it is) and for JAX on shares (what it costs); see ``split_labels.py``. The consumer
knows its target, so it brings two small matrices: ``T``, whose rows are its target's rows in the leading directions of
their own kernel matrix, and ``W``, which maps the kernel of an offer with all target rows to the same directions. What
only the offers know is computed on shares: a regression of classes on these directions, by Newton's iteration for the
inverse of a matrix of that rank; its skill on offers left out, half by half; and for each target row its best class.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

RIDGE = 1.0
"""Added to the sum over offers."""
_SMALLEST_EIGENVALUE = 0.03  # below it numbers of W grow beyond what 16 bits behind the point tell apart
_NEWTON_STEPS = 18  # the smallest eigenvalue is RIDGE over the number of offers; each step doubles what is right

Array = Any  # of numpy, or traced by JAX
BestOfRows = Callable[[Array], Array]


def directions(kernel: NDArray[np.float64], rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``T`` and ``W`` of a target whose kernel matrix that is."""
    values, vectors = np.linalg.eigh(kernel)
    kept = np.argsort(-values)[:rank]
    kept = kept[values[kept] > _SMALLEST_EIGENVALUE]
    roots = np.sqrt(values[kept])
    return vectors[:, kept] * roots, vectors[:, kept] / roots


def imputed(
    kernel: Array, indicators: Array, target: Array, whitening: Array, *, best: BestOfRows, xp: Any = np
) -> tuple[Array, Array]:
    """For each row of the target its class as a one-hot row, and the skill near the target, 1 at the most.

    Args:
        kernel: between offers and target rows.
        indicators: of the offers' classes.
        target: ``T``.
        whitening: ``W``.
        best: makes a one-hot row of each row.
        xp: numpy or JAX's.
    """
    count = kernel.shape[0]
    offers, means = kernel @ whitening, xp.sum(indicators, axis=0) * (1.0 / count)
    centred = indicators - means[None, :]
    scores = target @ _fitted(offers, centred, xp) + means[None, :]
    half = count // 2
    left_out = xp.concatenate(
        [
            offers[:half] @ _fitted(offers[half:], centred[half:], xp),
            offers[half:] @ _fitted(offers[:half], centred[:half], xp),
        ]
    )
    nearness = xp.sum(kernel, axis=1) * (1.0 / kernel.shape[1])
    relevance = nearness * nearness
    # Sums over offers are means here, and the whole is far from 0 where there are two classes near the target.
    share = (relevance @ centred) * (1.0 / count)
    total = xp.sum(relevance) * (1.0 / count)
    about = centred - (share / total)[None, :]
    wrong = centred - left_out
    whole = xp.sum(relevance * xp.sum(about * about, axis=1)) * (1.0 / count)
    rest = xp.sum(relevance * xp.sum(wrong * wrong, axis=1)) * (1.0 / count)
    return best(scores), 1.0 - rest / whole


def _fitted(offers: Array, centred: Array, xp: Any) -> Array:
    """The ridge regression's coefficients; offers have norms of at most 1, so Newton may begin with the identity."""
    count, rank = offers.shape
    one = np.eye(rank, dtype=np.float32)
    matrix = (offers.T @ offers) * (1.0 / count) + one * (RIDGE / count)
    inverse = one + xp.zeros_like(matrix)
    for _ in range(_NEWTON_STEPS):
        inverse = inverse @ (2.0 * one - matrix @ inverse)
    return inverse @ ((offers.T @ centred) * (1.0 / count))
