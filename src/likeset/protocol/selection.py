"""How the curator selects: exactly, on what it was sent, by the consumer's wishes, of which no owner hears."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.greedy import PickProgress, exact_greedy, swap
from likeset.geometry.kernels import kernel_means, median_gamma, rbf_kernel
from likeset.geometry.labels import ClassChances, class_chances, class_codes, joint_rows
from likeset.geometry.weights import weights

LARGEST_EXPONENT = 1e37
"""Of a kernel: within what single precision can hold."""

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


@dataclass(frozen=True, slots=True)
class Selection:
    """The kernel of the selection and what to do with it.

    Attributes:
        gamma: the kernel's width; by the median of the target's squared distances if not given. It may depend on the
            target because no owner ever hears it.
        weighted: whether to weigh the selected rows so that they match better still.
        swaps: how many times to go through the selected rows and replace those for which there is a better one.
        folds: of the target, on which the distance is measured (``cross_fitting``); 0 for not at all.
    """

    gamma: float | None = None
    weighted: bool = False
    swaps: int = 2
    folds: int = 0

    def kernel_width(self, target: Rows) -> float:
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
        chances: ClassChances | None = None,
        progress: PickProgress | None = None,
    ) -> Selected:
        """Greedy on the exact kernel, then swaps; fewer rows than wanted where the pool has fewer.

        Args:
            pool: rows to select from.
            target: rows to match.
            size: how many rows to select.
            labels: of the pool, to be matched where they are classes that rows tell; None to ignore them.
            chances: ``class_chances`` of pool and target, if they are known already.
            progress: is told of each pick.
        """
        gamma = self.kernel_width(target)
        chances = chances or self.class_chances(pool, target, labels)
        rows, wanted, shares, label_weight = pool, target, None, 0.0
        if chances is not None and chances.weight > 0.0:
            rows, wanted, shares, label_weight = joint_rows(pool, target, chances, size=size, gamma=gamma)
        matched = exact_greedy(
            rows, wanted, min(size, len(pool)), gamma=gamma, target_weights=shares, progress=progress
        )
        chosen = swap(rows, wanted, matched.indices, gamma=gamma, passes=self.swaps, target_weights=shares)
        judged = replace(self.judge(pool[chosen], target), indices=chosen)
        if self.weighted:
            judged = replace(judged, weights=weights(rows[chosen], wanted, gamma=gamma, target_weights=shares))
        return replace(judged, label_weight=label_weight, label_skill=0.0 if chances is None else chances.skill)

    def class_chances(self, pool: Rows, target: Rows, labels: NDArray[Any] | None) -> ClassChances | None:
        """What the pool says about the target's classes; None where labels are not matched."""
        codes = class_codes(labels)
        return None if codes is None else class_chances(pool, codes, target, gamma=self.kernel_width(target))

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
