"""How far each row's number label is from what the other rows say, for summaries that models of numbers train on.

With classes, a target row counts with the class that it is likely to have. With numbers the same idea (the imputed
number as one more column to match) helped less than a simpler one: prefer rows whose number is what the other rows
predict for them. A column holds a row's *surprise*, its number less its prediction without itself; the target has 0
there. Models of a mean then learn from fewer odd numbers. What it costs: the numbers of a summary scatter less around
their mean than those of the pool (figures: docs/number-labels.md).

Numbers are replaced by the normal scores of their ranks, so that a few enormous ones move nothing but themselves.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.geometry.kernels import kernel_means
from likeset.geometry.ridge import LANDMARKS, MOST_EXACT_ROWS, evenly_spread, ridge_scores

__all__ = ["NUMBER_WEIGHT", "Surprise", "surprise", "surprising_rows", "unsurprising_target"]

NUMBER_WEIGHT = 0.3
"""How much a squared surprise of one standard deviation counts in the exponent of the kernel, at a skill of 1."""

_LEAST_SKILL = 0.05
_OUT_OF_REACH = 1e-30
_SMALLEST = 1e-9


@dataclass(frozen=True, eq=False)
class Surprise:
    """What the pool's numbers say about one another.

    Attributes:
        numbers: for each row its normal score less what the other rows predict; 0 beyond the reach of the target.
        skill: share of the variance of scores that is explained on left-out rows near the target; 0 to 1.
    """

    numbers: NDArray[np.float64]
    skill: float

    @property
    def usable(self) -> bool:
        """Whether rows tell numbers at all."""
        return self.skill >= _LEAST_SKILL


def surprise(pool: Rows, labels: NDArray[np.float64], target: Rows, *, gamma: float) -> Surprise:
    """Predict each row's number without itself.

    Args:
        pool: labelled rows.
        labels: their numbers; rows whose number is missing (NaN) are not judged.
        target: rows whose neighbourhood counts.
        gamma: width of the kernel.
    """
    from scipy.special import ndtri  # late: loading it takes longer than most matches
    from scipy.stats import rankdata

    nearness = kernel_means(pool, target.astype(np.float64), gamma=gamma)
    known = np.isfinite(labels) & (nearness > _OUT_OF_REACH)
    surprises = np.zeros(len(pool))
    if np.count_nonzero(known) < 2 or np.ptp(labels[known]) == 0.0:
        return Surprise(surprises, 0.0)
    count = int(np.count_nonzero(known))
    scores = ndtri((rankdata(labels[known]) - 0.5) / count)
    scores = (scores - scores.mean()) / scores.std()
    landmarks = None if count <= MOST_EXACT_ROWS else evenly_spread(nearness[known], LANDMARKS)
    fitted = ridge_scores(pool[known], scores[:, None], target[:1], gamma=gamma, landmarks=landmarks)
    surprises[known] = scores - fitted.left_out[:, 0]
    relevance = nearness[known] ** 2 / float((nearness[known] ** 2).sum())
    spread = float(relevance @ (scores - relevance @ scores) ** 2)
    unexplained = float(relevance @ surprises[known] ** 2)
    skill = 1.0 - unexplained / spread if spread > _SMALLEST else 0.0
    return Surprise(surprises, float(np.clip(skill, 0.0, 1.0)))


def surprising_rows(rows: Rows, numbers: NDArray[np.float64], *, weight: float, gamma: float) -> Rows:
    """The rows with a column for a surprise r: their kernel with the target is multiplied by ``exp(-weight r^2)``."""
    column = np.sqrt(weight / arguments.positive("gamma", gamma)) * numbers
    return np.concatenate([rows, column[:, None].astype(rows.dtype)], axis=1)


def unsurprising_target(target: Rows) -> Rows:
    """The target beside such rows: nothing surprises."""
    return np.concatenate([target, np.zeros((len(target), 1), dtype=target.dtype)], axis=1)
