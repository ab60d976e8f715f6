"""Which class each row of an unlabelled target belongs to, as far as labelled rows (the pool) tell.

Four steps, each of which was chosen by comparison (figures: docs/decisions/0020-labels-at-the-curator.md):

1. *Scores*: kernel ridge regression on all rows of the pool (``ridge``). A few rows near the target know which classes
   it has, but not how to tell many classes apart; all rows know the latter.
2. *Chances*: a soft maximum of scaled scores with an offset for each class, fitted on left-out rows of the pool that
   count by the square of their mean kernel with the target. So chances are as sure as cross-validation is near the
   target.
3. *Shares*: the target's mix of classes is not the pool's. Expectation maximisation finds the mix by which the chances
   fit the target's rows best; a class that is only confused with others gets next to nothing, so that no class need be
   left out by a threshold. Where the mix explains the rows little better, it stays near its first step: rows that
   count for the first step are added, the more the weaker the evidence.
4. *Evidence*: how well left-out rows near the target are predicted (``skill``), and by how much the mix explains the
   target's rows better than the pool's mix does (``shift``). Where both are small, labels say nothing that a summary
   should follow: matched all the same, they made rare classes rarer and models no better.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import entropy

from likeset.arguments import Rows
from likeset.geometry.kernels import kernel_means
from likeset.geometry.ridge import LANDMARKS, MOST_EXACT_ROWS, RidgeScores, evenly_spread, ridge_scores

__all__ = ["ClassScores", "Imputation", "class_scores", "impute"]

_ENOUGH_SKILL = 0.5
_ENOUGH_SHIFT = 0.12
_FEWEST_SHIFTING = 3  # two classes shift in their proportion only, which chances that are a little wrong do, too
_HELD = 0.3  # rows that hold the mix to its first step, as a share of the target's, at a shift of 1
_STEPS = 500
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
        shift: log-likelihood that the target's own mix gains over the pool's, per row, less what chance would gain.
    """

    chances: Chances
    skill: float
    shift: float

    @property
    def usable(self) -> bool:
        """Whether a summary should follow it: classes can be told apart, or the target clearly has others."""
        classes = np.count_nonzero(self.chances.any(axis=0))
        shifted = classes >= _FEWEST_SHIFTING and self.shift >= _ENOUGH_SHIFT and self.skill > 0.0
        return self.skill >= _ENOUGH_SKILL or bool(shifted)


@dataclass(frozen=True, eq=False)
class ClassScores:
    """What ridge regression on a pool says about classes: the part of an imputation that no target row has a say in.

    Attributes:
        near: the rows of the pool that are within reach of the target.
        codes: for each of these the number of its class, among those that they have.
        present: these classes, as the pool numbers them.
        classes: how many the pool has.
        scores: of these rows without themselves, and of the target.
    """

    near: NDArray[np.bool_]
    codes: NDArray[np.int64]
    present: NDArray[np.int64]
    classes: int
    scores: RidgeScores

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
    return ClassScores(near, within, present, int(codes.max()) + 1, scores)


def impute(
    pool: Rows, codes: NDArray[np.int64], target: Rows, *, gamma: float, scored: ClassScores | None = None
) -> Imputation:
    """Impute the target's classes.

    Args:
        pool: labelled rows.
        codes: for each of them the number of its class, from 0.
        target: rows without labels.
        gamma: width of the kernel.
        scored: the target's scores, if they are known already.
    """
    scored = scored or class_scores(pool, codes, target, gamma=gamma)
    if scored is None:
        classes = int(codes.max()) + 1
        return Imputation(np.full((len(target), classes), 1.0 / classes), skill=0.0, shift=0.0)
    nearness = kernel_means(pool[scored.near], target.astype(np.float64), gamma=gamma)
    imputed = _impute_from(scored, nearness)
    chances = np.zeros((len(target), scored.classes))
    chances[:, scored.present] = imputed.chances
    return replace(imputed, chances=chances)


def _impute_from(scored: ClassScores, nearness: NDArray[np.float64]) -> Imputation:
    """The same among rows that are within reach, and classes that have one."""
    scores, codes = scored.scores, scored.codes
    indicators = np.eye(len(scored.present))[codes]
    relevance = nearness**2 / max(float((nearness**2).sum()), _OUT_OF_REACH**2)
    scale, offsets = _calibrate(scores.left_out, codes, relevance * len(codes))
    own = np.exp(log_softmax(scale * scores.left_out + offsets, axis=1))
    chances = np.exp(log_softmax(scale * scores.predicted + offsets, axis=1))
    mix, shift = _target_mix(chances, np.maximum(relevance @ own, _SMALLEST))
    explained = relevance @ ((own - indicators) ** 2).sum(axis=1)
    unexplained = relevance @ ((relevance @ indicators - indicators) ** 2).sum(axis=1)
    skill = 1.0 - explained / unexplained if unexplained > _SMALLEST else 0.0
    corrected = chances * mix
    return Imputation(corrected / corrected.sum(axis=1, keepdims=True), float(np.clip(skill, 0.0, 1.0)), shift)


def _calibrate(
    scores: Chances, codes: NDArray[np.int64], relevance: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Scale and offsets of the soft maximum under which the known classes are likeliest; offsets are held near 0."""
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


def _target_mix(chances: Chances, pool_mix: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """How much likelier each class is in the target than in the pool, and what the target's own mix explains."""
    first = chances.mean(axis=0)
    free = _maximise(chances, pool_mix, first, held=0.0)
    gain = float(np.log((chances * (free / pool_mix)).sum(axis=1)).mean())
    # Akaike: each free share gains one in all by chance. Classes count as far as there are any near the target: else
    # whoever invents classes would hide a shift.
    classes = float(np.exp(entropy(pool_mix)))
    shift = gain - (classes - 1.0) / len(chances)
    mix = first if shift <= 0.0 else _maximise(chances, pool_mix, first, held=_HELD / shift)
    return mix / pool_mix, shift


def _maximise(
    chances: Chances, pool_mix: NDArray[np.float64], first: NDArray[np.float64], *, held: float
) -> NDArray[np.float64]:
    """Expectation maximisation of the mix, from its first step, with ``held`` rows of the first step for each row."""
    mix = first
    for _ in range(_STEPS):
        weighted = chances * (mix / pool_mix)
        expected = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
        following = (expected + held * first) / (1.0 + held)
        if float(np.abs(following - mix).max()) < 1e-7:
            break
        mix = following
    return np.asarray(following)
