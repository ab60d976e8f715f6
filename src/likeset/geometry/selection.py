"""How a curator selects rows, exactly, and how alike summary and target are on rows that a selection did not see."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.greedy import Similarity, pick, swap_rows
from likeset.geometry.kernels import (
    KernelColumns,
    LabelledKernel,
    PoolKernel,
    blocks,
    kernel_means,
    median_gamma,
    precise_enough,
    rbf_kernel,
)
from likeset.geometry.labels import ClassChances, class_chances, class_codes, joint_attraction

LARGEST_EXPONENT = 1e37
"""Of a kernel: within what single precision can hold."""

_JUDGED_ROWS = 512  # picks that are judged at a time


@dataclass(frozen=True, eq=False)
class Selected:
    """Rows selected from a pool, in order of selection, with what each pick was worth.

    ``gains`` and ``squared_mmds`` depend on rows, not on labels. ``label_weight`` is 0 if labels were not matched,
    ``label_skill`` is 0 if matching was not tried.
    """

    indices: NDArray[np.int64]
    gains: NDArray[np.float64]
    squared_mmds: NDArray[np.float64]
    label_weight: float = 0.0
    label_skill: float = 0.0


@dataclass(frozen=True, slots=True)
class Selection:
    """The kernel of the selection and what to do with it.

    Without ``gamma`` the width follows from the median of the target's squared distances: it may depend on the target
    because no owner ever hears it. ``swaps`` is how often to go through the selected rows and replace those for which
    there is a better one; ``folds`` of the target measure the distance (``cross_fit``), 0 for not at all.
    """

    gamma: float | None = None
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
        kernel: PoolKernel | None = None,
    ) -> Selected:
        """Greedy on the exact kernel, then swaps; fewer rows than wanted where the pool has fewer.

        ``labels`` of the pool are matched where they are classes that rows tell; ``chances`` and ``kernel`` are given
        where known already.
        """
        chances = chances or self.class_chances(pool, target, labels)
        kernel = kernel or self.pool_kernel(pool, target)
        columns = KernelColumns(target, gamma=kernel.gamma, dtype=kernel.rows.dtype)
        similarity: Similarity = kernel
        if chances is not None and chances.weight > 0.0:
            attraction, label_weight = joint_attraction(kernel.rows, columns, chances, size=size)
            similarity = LabelledKernel(kernel, chances.codes, label_weight)
        else:
            attraction, label_weight = columns.means(kernel.rows), 0.0
        picked = pick(attraction, similarity, min(size, len(pool))).indices
        chosen = swap_rows(attraction, similarity, picked, passes=self.swaps)
        skill = 0.0 if chances is None else chances.skill
        judged = self.judge(pool[chosen], target)
        return replace(judged, indices=chosen, label_weight=label_weight, label_skill=skill)

    def pool_kernel(self, pool: Rows, target: Rows) -> PoolKernel:
        """The kernel among the rows of a pool, for all selections from it."""
        gamma = self.kernel_width(target)
        rows = precise_enough(pool, gamma=gamma, centre=target.mean(axis=0, dtype=np.float64))
        return PoolKernel(rows, gamma=gamma)

    def class_chances(self, pool: Rows, target: Rows, labels: NDArray[Any] | None) -> ClassChances | None:
        """The target's classes as the pool predicts them; None if labels are not matched."""
        codes = None if labels is None else class_codes(labels)
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
        gains=attraction - repulsion / number,
        squared_mmds=np.maximum(0.0, within_target - objectives),
    )


FEWEST_ROWS = 20
"""Fewest target rows for which folds are made."""

_FINEST = 1e-5  # the smallest rounding step of an estimate

Curve = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Squared MMD between a summary and its target's population, estimated by cross-fitting, with its standard error.

    All rows of the summary have the same weight. The estimate may be below zero by chance. ``curve`` is the same for
    the first row, the first two and so on.
    """

    squared_mmd: float
    error: float
    curve: Curve

    @property
    def rounded(self) -> Self:
        """Without the curve, to one digit of the error and at most two of the estimate; the error is rounded up.

        The error alone would not do: for a target of isolated rows it is a hundred times smaller than what one row
        outside the summary changes.
        """
        error = max(self.error, _FINEST)
        digits = -math.floor(math.log10(max(error, abs(self.squared_mmd) / 10.0)))
        error = math.ceil(round(error * 10**digits, 9)) / 10**digits
        return replace(self, squared_mmd=round(self.squared_mmd, digits), error=error, curve=np.empty(0))


def cross_fit(
    selection: Selection,
    pool: Rows,
    target: Rows,
    selected: Selected,
    *,
    fold_key: int = 0,
    chances: ClassChances | None = None,
    kernel: PoolKernel | None = None,
) -> HeldOut | None:
    """Estimate the distance of what was selected; None if that is not wanted, or the target has too few rows.

    ``kernel`` is the one that the selection used, if it is at hand. ``fold_key`` seeds the draw of the folds; it is
    secret where the estimate goes to somebody who does not see the pool.
    """
    count = len(target)
    if selection.folds < 2 or count < FEWEST_ROWS or not len(selected.indices):
        return None
    gamma, wide = selection.kernel_width(target), target.astype(np.float64)
    fixed = replace(selection, gamma=gamma, folds=0)
    own, kernel = _mean_kernels(wide, gamma), kernel or fixed.pool_kernel(pool, target)
    everything = np.arange(count)
    in_sample = _levels(pool, selected, wide, gamma)
    in_sample += _within(own, everything, wide, gamma)
    optimism, values = np.zeros(len(in_sample)), np.empty(count)
    folds = np.array_split(np.random.default_rng(fold_key).permutation(count), min(selection.folds, count // 4))
    for fold in folds:
        rest = np.setdiff1d(everything, fold)
        again = fixed.select(
            pool,
            target[rest],
            len(selected.indices),
            chances=None if chances is None else chances.part(rest),
            kernel=kernel,
        )
        levels = _levels(pool, again, wide[rest], gamma) + _within(own, rest, wide, gamma)
        outside = _levels(pool, again, wide[fold], gamma) + float(own.mean())
        optimism += (outside - levels) * (len(rest) / count) * (len(fold) / count)
        values[fold] = 2.0 * (own[fold] - _matched(pool, again, wide[fold], gamma)[:, -1])
    return _estimate(in_sample + optimism, values, _spread_of_mean(wide, gamma))


def _estimate(levels: Curve, values: Curve, spread: float) -> HeldOut:
    error = float(np.sqrt(values.var(ddof=1) / len(values) + spread))
    return HeldOut(float(levels[-1]), error, levels)


def _matched(pool: Rows, selected: Selected, target: Rows, gamma: float) -> Curve:
    """For each row of the target its mean kernel with the first row of the summary, the first two and so on."""
    kernel = rbf_kernel(target, pool[selected.indices].astype(np.float64), gamma=gamma)
    return np.asarray(np.cumsum(kernel, axis=1) / np.arange(1, kernel.shape[1] + 1))


def _levels(pool: Rows, selected: Selected, target: Rows, gamma: float) -> Curve:
    """Squared MMD of the first row of the summary, the first two and so on, less the kernel within the target."""
    rows = pool[selected.indices].astype(np.float64)
    pairs = np.empty(len(rows))
    for part in blocks(len(rows), width=len(rows)):
        kernel = rbf_kernel(rows[part], rows, gamma=gamma)
        pairs[part] = 2.0 * np.tril(kernel, k=part.start - 1).sum(axis=1) + 1.0
    within = np.cumsum(pairs) / np.arange(1, len(rows) + 1) ** 2
    return np.asarray(within - 2.0 * _matched(pool, selected, target, gamma).mean(axis=0))


def _mean_kernels(rows: Rows, gamma: float) -> Curve:
    sums = KernelColumns(rows, gamma=gamma, dtype=np.dtype(np.float64)).sums(rows)
    return np.asarray((sums - 1.0) / (len(rows) - 1))


def _within(own: Curve, part: NDArray[np.int64], rows: Rows, gamma: float) -> float:
    """The mean kernel among some rows of the target, each with itself as well: as an in-sample number counts it."""
    if len(part) == len(rows):
        return float((own.mean() * (len(rows) - 1) + 1.0) / len(rows))
    sums = KernelColumns(rows[part], gamma=gamma, dtype=np.dtype(np.float64)).sums(rows[part])
    return float(sums.mean() / len(part))


def _spread_of_mean(rows: Rows, gamma: float) -> float:
    """The variance of the squared distance between the target's mean embedding and its population's."""
    count = len(rows)
    columns = KernelColumns(rows, gamma=gamma, dtype=np.dtype(np.float64))
    means = columns.sums(rows) / count
    total = 0.0
    for part in blocks(count, width=count):
        centred = columns(rows[part]) - means[part, None] - means + means.mean()
        centred[np.arange(centred.shape[0]), np.arange(part.start, part.stop)] = 0.0
        total += float((centred**2).sum())
    return 2.0 * total / (count * (count - 1)) / count**2
