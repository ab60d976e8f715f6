"""How the curator selects: exactly, on what it was sent, by the consumer's wishes, of which no owner hears."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.greedy import PickProgress, match
from likeset.geometry.imputation import ClassScores, class_scores, impute
from likeset.geometry.joint import LARGEST_LABEL_WEIGHT, joint_rows, joint_target, largest_shares, supply
from likeset.geometry.kernels import kernel_means, median_gamma, rbf_kernel
from likeset.geometry.number_labels import NUMBER_WEIGHT, surprise, surprising_rows, unsurprising_target
from likeset.geometry.refine import swap
from likeset.geometry.weights import weights

__all__ = ["LARGEST_EXPONENT", "Selected", "Selection", "is_usable_width"]

LARGEST_EXPONENT = 1e37
"""Of a kernel: within what single precision can hold."""

_FEWEST_LABELLED = 50  # offers; fewer cannot tell how well they tell labels
_FEWEST_OF_CLASS = 5  # offers, of at least two classes: there is nothing to tell apart otherwise
_MOST_CLASSES = 50
_MIX_ROWS = 250  # picks that show the mix of classes which rows alone would give; more would cost time only
_JUDGED_ROWS = 512  # picks that are judged at a time


@dataclass(frozen=True, eq=False)
class Selected:
    """Rows selected from a pool, in order of selection, with what each pick was worth.

    Attributes:
        indices: of the rows in the pool.
        weights: what each row counts; fitted to what was matched, labels included if these were.
        gains: what each row was worth when it was picked, by rows alone: whatever its label, how it helps the summary
            to look like the target.
        squared_mmds: to the target after each pick, by rows alone.
        label_weight: how much labels counted in the selection; 0 where they did not.
        label_skill: how well rows told labels near the target; 0 where that was not tried.
    """

    indices: NDArray[np.int64]
    weights: NDArray[np.float64]
    gains: NDArray[np.float64]
    squared_mmds: NDArray[np.float64]
    label_weight: float = 0.0
    label_skill: float = 0.0


@dataclass(frozen=True, eq=False)
class _Matching:
    """What greedy and swaps work on: rows, or rows with columns for their classes."""

    pool: Rows
    target: Rows
    target_weights: NDArray[np.float64] | None = None
    label_weight: float = 0.0
    label_skill: float = 0.0


@dataclass(frozen=True, slots=True)
class Selection:
    """The kernel of the selection and what to do with it.

    Attributes:
        gamma: the kernel's width; by the median of the target's squared distances if not given. It may depend on the
            target because no owner ever hears it.
        weighted: whether to weigh the selected rows so that they match better still.
        labels: whether to match rows together with their labels, where rows tell them; where labels are numbers, to
            keep away rows whose number the others contradict.
        swaps: how many times to go through the selected rows and replace those for which there is a better one.
        folds: of the target, on which likeness is measured (``cross_fitting``); 0 for not at all.
    """

    gamma: float | None = None
    weighted: bool = False
    labels: Literal["match", "ignore"] = "match"
    swaps: int = 2
    folds: int = 0

    def kernel_width(self, target: Rows) -> float:
        """The gamma used for this target."""
        if self.gamma is not None:
            return self.gamma
        return median_gamma(target, scale=1.0, coins=np.random.default_rng(0))

    def select(
        self,
        pool: Rows,
        target: Rows,
        size: int,
        *,
        labels: NDArray[Any] | None = None,
        scored: ClassScores | None = None,
        progress: PickProgress | None = None,
    ) -> Selected:
        """Greedy on the exact kernel, then swaps; fewer rows than wanted where the pool has fewer."""
        gamma = self.kernel_width(target)
        matching = self._matching(pool, target, labels, gamma=gamma, size=size, scored=scored)
        wanted, shares = matching.target, matching.target_weights
        matched = match(
            matching.pool, wanted, min(size, len(pool)), gamma=gamma, target_weights=shares, progress=progress
        )
        chosen = swap(matching.pool, wanted, matched.indices, gamma=gamma, passes=self.swaps, target_weights=shares)
        judged = replace(self.judge(pool[chosen], target), indices=chosen)
        if self.weighted:
            judged = replace(judged, weights=weights(matching.pool[chosen], wanted, gamma=gamma, target_weights=shares))
        return replace(judged, label_weight=matching.label_weight, label_skill=matching.label_skill)

    def scores(self, pool: Rows, target: Rows, labels: NDArray[Any] | None) -> ClassScores | None:
        """What is dear about matching labels, for several selections from one pool; None where it is not done."""
        codes = self._codes(labels)
        return None if codes is None else class_scores(pool, codes, target, gamma=self.kernel_width(target))

    def _codes(self, labels: NDArray[Any] | None) -> NDArray[np.int64] | None:
        if labels is None or self.labels == "ignore" or len(labels) < _FEWEST_LABELLED or _are_numbers(labels):
            return None
        return _classes(labels)

    def _matching(
        self,
        pool: Rows,
        target: Rows,
        labels: NDArray[Any] | None,
        *,
        gamma: float,
        size: int,
        scored: ClassScores | None,
    ) -> _Matching:
        """Labels count as much as rows near the target surely tell them, and not at all where that is nothing.

        They count less where the pool has hardly enough rows of the target's classes.
        """
        if labels is not None and self.labels != "ignore" and len(labels) >= _FEWEST_LABELLED and _are_numbers(labels):
            return _number_matching(pool, target, labels, gamma=gamma)
        codes = self._codes(labels)
        if codes is None:
            return _Matching(pool, target)
        alone = match(pool, target, min(size, len(pool), _MIX_ROWS), gamma=gamma).indices
        imputed = impute(pool, codes, target, gamma=gamma, matched_alone=alone, scored=scored)
        if imputed.least_skill == 0.0:
            return _Matching(pool, target, label_skill=imputed.skill)
        chances, shares = imputed.chances, largest_shares(imputed.chances)
        weight = min(imputed.least_skill, LARGEST_LABEL_WEIGHT) * supply(codes, shares, size=size)
        wanted, weights_of_rows = joint_target(target, chances, label_weight=weight, gamma=gamma, shares=shares)
        rows = joint_rows(pool, codes, classes=chances.shape[1], label_weight=weight, gamma=gamma)
        return _Matching(rows, wanted, weights_of_rows, label_weight=weight, label_skill=imputed.skill)

    def judge(self, rows: Rows, target: Rows) -> Selected:
        """Rows that were selected otherwise, in their order: what each was worth under the exact kernel."""
        gamma = self.kernel_width(target)
        wide = rows.astype(np.float64)
        within_target = float(kernel_means(target.astype(np.float64), target, gamma=gamma).mean())
        sums = _sums_before(len(wide), lambda part: rbf_kernel(wide[part], wide[: part.stop], gamma=gamma))
        return _judgement(kernel_means(wide, target, gamma=gamma), *sums, within_target)


def is_usable_width(gamma: float, largest_squared_norm: float) -> bool:
    """Whether the width, and exponents of a kernel of rows of that size, are numbers in single precision."""
    return 0.0 < gamma <= LARGEST_EXPONENT and 4.0 * gamma * largest_squared_norm <= LARGEST_EXPONENT


def _are_numbers(labels: NDArray[Any]) -> bool:
    """Whether labels have decimals; whole numbers are names of classes."""
    return bool(labels.dtype.kind == "f")


def _number_matching(pool: Rows, target: Rows, labels: NDArray[Any], *, gamma: float) -> _Matching:
    """Rows whose number the others contradict are kept away, as far as rows tell numbers."""
    told = surprise(pool, labels.astype(np.float64), target, gamma=gamma)
    if not told.usable:
        return _Matching(pool, target, label_skill=told.skill)
    weight = NUMBER_WEIGHT * told.skill
    rows = surprising_rows(pool, told.numbers, weight=weight, gamma=gamma)
    return _Matching(rows, unsurprising_target(target), label_weight=weight, label_skill=told.skill)


def _classes(labels: NDArray[Any]) -> NDArray[np.int64] | None:
    """The number of each row's class; None where they are all alike.

    The rarest of very many classes count as one: else an owner who invents labels could end the matching of them.
    """
    names, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if np.count_nonzero(counts >= _FEWEST_OF_CLASS) < 2:
        return None
    by_size = np.argsort(-counts, kind="stable")
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[by_size] = np.arange(len(names))
    return np.asarray(np.minimum(ranks, _MOST_CLASSES - 1)[codes])


def _sums_before(picks: int, kernel: Callable[[slice], Rows]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The kernel of each pick with those before it, summed, and with itself; never all pairs at once."""
    before, own = np.empty(picks), np.empty(picks)
    for first in range(0, picks, _JUDGED_ROWS):
        part = slice(first, min(first + _JUDGED_ROWS, picks))
        values = kernel(part)
        before[part] = np.tril(values, k=first - 1).sum(axis=1)
        own[part] = np.diagonal(values, offset=first)
    return before, own


def _judgement(
    attraction: NDArray[np.float64],
    repulsion: NDArray[np.float64],
    own: NDArray[np.float64],
    within_target: float,
) -> Selected:
    """Gains and squared MMDs of picks in a given order, from their kernel with the target and with one another."""
    number = np.arange(1, len(attraction) + 1)
    pairs = np.cumsum(2.0 * repulsion + own)
    objectives = 2.0 * np.cumsum(attraction) / number - pairs / number**2
    return Selected(
        indices=np.arange(len(attraction)),
        weights=np.full(len(attraction), 1.0 / len(attraction)),
        gains=attraction - repulsion / number,
        squared_mmds=np.maximum(0.0, within_target - objectives),
    )
