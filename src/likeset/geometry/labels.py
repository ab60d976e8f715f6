"""Rows matched together with their classes, where labelled rows (the pool) tell the classes of an unlabelled target.

1. *Chances*: kernel ridge regression on all rows of the pool gives scores (``ridge``). A soft maximum of scaled scores
   turns them into chances; the scale is the one under which left-out rows near the target are likeliest.
2. *Evidence*: the share of the variance of classes that these chances explain on left-out rows near the target, less
   two standard errors. It is the label weight w. Below one half labels are ignored.
3. *Mix*: chances hold for the mix of classes near the target. Expectation maximisation finds the mix that fits the
   target's rows best, so that a class that is merely confused with others gets next to nothing. That takes the rows of
   a class to be alike in pool and target. The less sure labels are, the more of the mix near the target is kept: the
   part ``(1 - w)² / ((1 - w)² + w²)``.
4. *Matching*: the joint kernel is ``k(x, x') * ((1 - w) + w [y = y'])``.

Two things keep that from harm. A class of few target rows counts for as many as it may well have: models lose more by
too few rows of a class than by too many. And labels count less where the pool has hardly enough rows of the target's
classes: a kernel that sees little but classes finds nothing to choose by among the others.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.kernels import KernelColumns, blocks, kernel_means

# Kernel ridge regression from rows to class indicators, each row predicted without itself.
#
# The kernel is projected on the span of at most 500 of the rows (Nyström). With ``U`` the projected rows in the basis
# of its eigenvectors, of eigenvalues ``s``, the fitted values are ``U (s + c)⁻¹ U'Y`` for the ridge c. A row's value
# without itself is ``y - (y - fitted) / (1 - leverage)``, so no fit is repeated. The ridge with the smallest such
# errors is used.

_LANDMARKS = 500
_RIDGES = (0.01, 0.1, 1.0, 10.0)  # the kernel of a row with itself is 1
_JITTER = 1e-8  # rows that are nearly equal make a kernel singular

Scores = NDArray[np.float64]


def ridge_scores(rows: Rows, indicators: Scores, others: Rows, *, gamma: float) -> tuple[Scores, Scores]:
    """Fit indicators of classes on rows, and predict them for others: about 1 in the column of the right class.

    The scores of the rows, each without itself, and of the others.
    """
    from scipy.linalg import solve_triangular  # late: loading it takes longer than most fits

    means = indicators.mean(axis=0)
    centred = indicators - means
    # By their positions, and so of each owner as many as its part of the rows: they depend on no seed.
    landmarks = rows[np.linspace(0, len(rows) - 1, min(len(rows), _LANDMARKS)).round().astype(np.int64)]
    columns = KernelColumns(landmarks, gamma=gamma, dtype=np.dtype(np.float64))
    root = np.linalg.cholesky(columns(landmarks) + _JITTER * np.eye(len(landmarks)))
    products, sums = np.zeros(root.shape), np.zeros((len(root), centred.shape[1]))
    for part in blocks(len(rows), width=len(root)):
        kernel = columns(rows[part])
        products += kernel.T @ kernel
        sums += kernel.T @ centred[part]
    half = solve_triangular(root, products, lower=True)
    spectrum, vectors = np.linalg.eigh(solve_triangular(root, half.T, lower=True))
    basis = solve_triangular(root, vectors, lower=True, trans="T")
    shrunk = [1.0 / (np.maximum(spectrum, 0.0) + ridge) for ridge in _RIDGES]
    fits = [shrink[:, None] * (basis.T @ sums) for shrink in shrunk]
    errors = np.empty((len(_RIDGES), *centred.shape))
    for part in blocks(len(rows), width=len(root)):
        projected = columns(rows[part]) @ basis
        fitted = (projected @ np.concatenate(fits, axis=1)).reshape(len(projected), len(fits), -1)
        leverages = projected**2 @ np.stack(shrunk, axis=1)
        errors[:, part] = ((centred[part][:, None] - fitted) / (1.0 - leverages)[:, :, None]).transpose(1, 0, 2)
    best = int(np.argmin((errors**2).mean(axis=(1, 2))))
    weights = basis @ fits[best]
    predicted = [columns(others[part]) @ weights for part in blocks(len(others), width=len(root))]
    return indicators - errors[best], np.concatenate(predicted) + means


_FEWEST_LABELLED = 50  # rows; fewer cannot tell how well they tell classes
_FEWEST_OF_CLASS = 5  # rows, in each of at least two classes
_MOST_CLASSES = 50
_LEAST_SKILL = 0.5
_LARGEST_WEIGHT = 0.99  # at 1 rows of different classes would be infinitely far apart
_ERRORS = 2.0  # standard errors by which skill may be less than it seems, and a count more
_SCALES = np.exp(np.linspace(-1.0, 4.0, 13))
_STEPS, _CLOSE = 200, 1e-6
_FEWEST_CHANCE = 0.01  # of a class that a row of the target counts with; half of an even share of all classes at least
_PLENTY = 2.0  # rows of the pool for each that is wanted of a class
_OUT_OF_REACH = 1e-30
_SMALLEST = 1e-9

Chances = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClassChances:
    """What a pool says about the classes of a target's rows.

    ``codes`` are the classes of the pool's rows, ``near_mix`` the share of each class near the target, and ``chances``
    those of each row of the target, if the target had that mix. ``skill`` is the share of the variance of classes that
    is explained on left-out rows near the target; ``weight`` is 0 where that is too little.
    """

    codes: Codes
    near_mix: Chances
    chances: Chances
    skill: float
    weight: float

    def part(self, rows: NDArray[np.int64]) -> "ClassChances":
        return replace(self, chances=self.chances[rows])

    def mixed(self, size: int) -> tuple[Chances, Chances, float]:
        """What to match in a summary of that size.

        The chances of each row of the target under the mix of classes that it is taken to have, what each class is to
        count, and the label weight.
        """
        densities = self.chances / np.maximum(self.near_mix, _SMALLEST)
        before, mix = self.near_mix, self.chances.mean(axis=0)
        for _ in range(_STEPS):
            if np.abs(mix - before).max() < _CLOSE:
                break
            before, mix = mix, _scaled(densities * mix).mean(axis=0)
        kept = (1.0 - self.weight) ** 2 / ((1.0 - self.weight) ** 2 + self.weight**2)
        chances = _scaled(densities * ((1.0 - kept) * mix + kept * self.near_mix))
        counts = chances.sum(axis=0)
        shares = counts + _ERRORS * np.sqrt(np.maximum(counts - 1.0, 0.0))
        shares /= shares.sum()
        held = np.bincount(self.codes, minlength=len(shares))
        supply = min(1.0, float(np.minimum(shares, held / (_PLENTY * size)).sum()))
        return chances, shares, self.weight * supply


def class_codes(labels: NDArray[Any]) -> Codes | None:
    """The number of each row's class; None if they are numbers with decimals, or too few in a second class.

    The rarest of very many classes count as one: else an owner who invents labels could end the matching of them.
    """
    if len(labels) < _FEWEST_LABELLED or labels.dtype.kind == "f":
        return None
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if np.count_nonzero(counts >= _FEWEST_OF_CLASS) < 2:
        return None
    ranks = np.argsort(np.argsort(-counts, kind="stable"))
    return np.asarray(np.minimum(ranks, _MOST_CLASSES - 1)[codes])


def class_chances(pool: Rows, codes: Codes, target: Rows, *, gamma: float) -> ClassChances:
    """Impute the classes of a target's rows from the ``codes`` of the pool's."""
    nearness = kernel_means(pool, target.astype(np.float64), gamma=gamma)
    # Rows beyond the reach of the kernel carry no information; a very distant one would cost the others precision.
    near = nearness > _OUT_OF_REACH
    indicators = np.eye(int(codes.max()) + 1)[codes]
    chances, mix = np.zeros((len(target), indicators.shape[1])), np.zeros(indicators.shape[1])
    if not near.any():
        return ClassChances(codes, mix, chances, skill=0.0, weight=0.0)
    present = indicators[near].any(axis=0)
    known, relevance = indicators[near][:, present], nearness[near] ** 2 / float((nearness[near] ** 2).sum())
    left_out, predicted = ridge_scores(pool[near], known, target, gamma=gamma)
    right = known.astype(bool)
    losses = [-float(relevance @ np.log(np.maximum(_soft(left_out, scale)[right], _SMALLEST))) for scale in _SCALES]
    scale = _SCALES[int(np.argmin(losses))]
    own = _soft(left_out, scale)
    whole = ((relevance @ known - known) ** 2).sum(axis=1)
    explained = whole - ((own - known) ** 2).sum(axis=1)
    variance = max(float(relevance @ whole), _SMALLEST)
    skill = float(relevance @ explained) / variance
    error = float(np.sqrt(relevance**2 @ (explained - skill * whole) ** 2)) / variance
    sure = skill - _ERRORS * error
    chances[:, present], mix[present] = _soft(predicted, scale), relevance @ own
    weight = min(sure, _LARGEST_WEIGHT) if sure >= _LEAST_SKILL else 0.0
    return ClassChances(codes, mix, chances, skill=max(skill, 0.0), weight=weight)


def joint_attraction(
    rows: Rows, target: KernelColumns, chances: ClassChances, *, size: int
) -> tuple[NDArray[np.float64], float]:
    """The mean joint kernel of each row of the pool with the target, whose rows have each class by chance; the weight.

    Each class has its share, independently of the sum of the chances of the target's rows.
    """
    mixed, shares, weight = chances.mixed(size)
    kept = np.where(mixed >= _FEWEST_CHANCE, mixed, 0.0)
    parts = kept * (shares / np.maximum(kept.sum(axis=0), _SMALLEST))
    parts /= parts.sum()
    attraction = np.empty(len(rows))
    for part in blocks(len(rows), width=len(target)):
        sums = target(rows[part]) @ parts
        own = sums[np.arange(len(sums)), chances.codes[part]]
        attraction[part] = (1.0 - weight) * sums.sum(axis=1) + weight * own
    return attraction, weight


def _soft(scores: Chances, scale: float) -> Chances:
    return _scaled(np.exp(scale * (scores - scores.max(axis=1, keepdims=True))))


def _scaled(rows: Chances) -> Chances:
    return np.asarray(rows / np.maximum(rows.sum(axis=1, keepdims=True), _SMALLEST))
