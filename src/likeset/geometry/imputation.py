"""Which class each row of an unlabelled target belongs to, as far as labelled rows (the pool) tell.

Four steps, each of which was chosen by comparison (figures: docs/decisions/0020-labels-at-the-curator.md):

1. *Scores*: kernel ridge regression on all rows of the pool (``ridge``). A few rows near the target know which classes
   it has, but not how to tell many classes apart; all rows know the latter.
2. *Chances*: a soft maximum of scaled scores with an offset for each class, fitted on left-out rows of the pool that
   count by the square of their mean kernel with the target. So chances are as sure as cross-validation is near the
   target.
3. *Shares*: the target's mix of classes is not the pool's. Chances are turned to the mix that fits the target's rows
   best, as far as these demand it and there is evidence (``class_mix``): a class that is only confused with others
   gets next to nothing, so that no class need be left out by a threshold, and one that is there has no less than
   without labels.
4. *Evidence*: how well left-out rows near the target are predicted (``skill``), and what that is at the least: two
   standard errors less. Where that is nothing, labels say nothing that a summary should follow.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.class_mix import MixFit, class_kernels, mix_ratios
from likeset.geometry.kernels import kernel_means
from likeset.geometry.ridge import LANDMARKS, MOST_EXACT_ROWS, RidgeScores, evenly_spread, ridge_scores

__all__ = ["ClassScores", "Imputation", "class_scores", "impute"]

_ERRORS = 2.0  # standard errors by which skill may be less than it seems
_SMALLEST = 1e-9
_OUT_OF_REACH = 1e-30
_OFFSET_PENALTY = 1.0
_LOG_SCALES = (-2.0, 5.0)
_LARGEST_OFFSET = 8.0

Chances = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Imputation:
    """Classes of a target's rows.

    Attributes:
        chances: for each row of the target the chance of each class.
        skill: share of the variance of class indicators that is explained on left-out rows near the target; 0 to 1.
        least_skill: the same, two standard errors less; 0 where it cannot be told from nothing.
    """

    chances: Chances
    skill: float
    least_skill: float


@dataclass(frozen=True, eq=False)
class ClassScores:
    """What ridge regression on a pool says about classes: the part of an imputation that no target row has a say in.

    Attributes:
        near: the rows of the pool that are within reach of the target.
        codes: for each of these the number of its class, among those that they have.
        present: these classes, as the pool numbers them.
        classes: how many the pool has.
        scores: of these rows without themselves, and of the target.
        kernels: mean kernel between rows of two classes.
    """

    near: NDArray[np.bool_]
    codes: NDArray[np.int64]
    present: NDArray[np.int64]
    classes: int
    scores: RidgeScores
    kernels: Chances

    def part(self, rows: NDArray[np.int64]) -> "ClassScores":
        """The same for some rows of the target."""
        return replace(self, scores=replace(self.scores, predicted=self.scores.predicted[rows]))


def class_scores(pool: Rows, codes: NDArray[np.int64], target: Rows, *, gamma: float) -> ClassScores | None:
    """The scores of a target's rows; None where no row of the pool is within reach.

    Args:
        pool: labelled rows.
        codes: for each of them the number of its class, from 0.
        target: rows without labels.
        gamma: width of the kernel.
    """
    nearness = kernel_means(pool, target.astype(np.float64), gamma=gamma)
    # Rows beyond the reach of the kernel tell nothing; one that is very far would cost all others their digits.
    near = nearness > _OUT_OF_REACH
    if not near.any():
        return None
    present, within = np.unique(codes[near], return_inverse=True)
    landmarks = None if np.count_nonzero(near) <= MOST_EXACT_ROWS else evenly_spread(nearness[near], LANDMARKS)
    scores = ridge_scores(pool[near], np.eye(len(present))[within], target, gamma=gamma, landmarks=landmarks)
    kernels = class_kernels(pool[near], within, gamma=gamma)
    return ClassScores(near, within, present, int(codes.max()) + 1, scores, kernels)


def impute(
    pool: Rows,
    codes: NDArray[np.int64],
    target: Rows,
    *,
    gamma: float,
    matched_alone: NDArray[np.int64],
    scored: ClassScores | None = None,
) -> Imputation:
    """Impute the target's classes.

    Args:
        pool: labelled rows.
        codes: for each of them the number of its class, from 0.
        target: rows without labels.
        gamma: width of the kernel.
        matched_alone: rows of the pool that were matched to the target without labels.
        scored: the target's scores, if they are known already.
    """
    scored = scored or class_scores(pool, codes, target, gamma=gamma)
    if scored is None:
        classes = int(codes.max()) + 1
        return Imputation(np.full((len(target), classes), 1.0 / classes), skill=0.0, least_skill=0.0)
    nearness = kernel_means(pool[scored.near], target.astype(np.float64), gamma=gamma)
    usual = np.bincount(codes[matched_alone], minlength=scored.classes)[scored.present] / max(1, len(matched_alone))
    counts = np.bincount(scored.codes)
    fit = MixFit(
        scored.kernels,
        with_target=np.bincount(scored.codes, weights=nearness) / counts,
        within_target=_mean_of_pairs(target, gamma),
        shares=counts / counts.sum(),
    )
    imputed = _impute_from(scored, nearness, usual, fit)
    chances = np.zeros((len(target), scored.classes))
    chances[:, scored.present] = imputed.chances
    return replace(imputed, chances=chances)


def _mean_of_pairs(rows: Rows, gamma: float) -> float:
    """The mean kernel between different rows; 1 of a single row."""
    count = len(rows)
    sums = kernel_means(rows.astype(np.float64), rows.astype(np.float64), gamma=gamma) * count
    return float((sums.sum() - count) / (count * (count - 1))) if count > 1 else 1.0


def _impute_from(
    scored: ClassScores, nearness: NDArray[np.float64], matched_alone: NDArray[np.float64], fit: MixFit
) -> Imputation:
    """The same among rows that are within reach, and classes that have one."""
    from scipy.special import log_softmax  # late: loading it takes longer than most matches

    scores, codes = scored.scores, scored.codes
    indicators = np.eye(len(scored.present))[codes]
    relevance = nearness**2 / max(float((nearness**2).sum()), _OUT_OF_REACH**2)
    scale, offsets = _calibrate(scores.left_out, codes, relevance * len(codes))
    own = np.exp(log_softmax(scale * scores.left_out + offsets, axis=1))
    chances = np.exp(log_softmax(scale * scores.predicted + offsets, axis=1))
    whole = (relevance @ indicators - indicators) ** 2
    part = whole - (own - indicators) ** 2
    told = _skills(part, whole, relevance)[1]
    corrected = chances * mix_ratios(chances, np.maximum(relevance @ own, _SMALLEST), matched_alone, told, fit)
    skill, least = _skills(part.sum(axis=1, keepdims=True), whole.sum(axis=1, keepdims=True), relevance)
    return Imputation(corrected / corrected.sum(axis=1, keepdims=True), float(skill[0]), float(least[0]))


def _skills(
    part: Chances, whole: Chances, relevance: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of explained variance, and the same less two standard errors, each from 0 to 1; one for each column.

    Each is a ratio of two means over rows; its error is that of the mean of ``part - skill * whole``, over the whole.
    Where there is no variance, there is no skill.
    """
    variances = relevance @ whole
    skills = np.where(variances > _SMALLEST, relevance @ part / np.maximum(variances, _SMALLEST), 0.0)
    errors = np.sqrt((relevance**2) @ (part - skills * whole) ** 2) / np.maximum(variances, _SMALLEST)
    return np.clip(skills, 0.0, 1.0), np.clip(skills - _ERRORS * errors, 0.0, 1.0)


def _calibrate(
    scores: Chances, codes: NDArray[np.int64], relevance: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Scale and offsets of the soft maximum under which the known classes are likeliest; offsets are held near 0."""
    from scipy.optimize import minimize  # late: as above
    from scipy.special import log_softmax

    indicators = np.eye(scores.shape[1])[codes]
    places = np.arange(len(codes))

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scale, offsets = np.exp(parameters[0]), parameters[1:]
        logs = log_softmax(scale * scores + offsets, axis=1)
        excess = relevance[:, None] * (np.exp(logs) - indicators)
        value = -float(relevance @ logs[places, codes]) + 0.5 * _OFFSET_PENALTY * float(offsets @ offsets)
        slopes = excess.sum(axis=0) + _OFFSET_PENALTY * offsets
        return value, np.append(scale * float((excess * scores).sum()), slopes)

    classes = scores.shape[1]
    bounds = [_LOG_SCALES] + [(-_LARGEST_OFFSET, _LARGEST_OFFSET)] * classes
    fitted = minimize(loss, np.append(1.0, np.zeros(classes)), jac=True, method="L-BFGS-B", bounds=bounds)
    return float(np.exp(fitted.x[0])), np.asarray(fitted.x[1:])
