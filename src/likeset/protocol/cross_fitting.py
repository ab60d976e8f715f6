"""How alike a summary and the target's *population* are: measured on rows of the target that a selection did not see.

A summary fits the very rows that it was selected by better than others of their kind. By how much is found on folds of
the target: selected without a fold, and measured on it. What is estimated is the squared MMD between the summary as it
is, with its weights, and the population that the target was drawn from:

- on the fold, ``w'Kw - 2 mean_v (k(v, S) w) + U`` has no bias; U, the mean kernel of two different rows of the target,
  is a U-statistic;
- its excess over the number on the rows that were selected by is the *optimism*. It goes with one over the number of
  those rows, so it is scaled to the whole target, and added to the in-sample number of the summary itself.

The interval allows for two things: how the target's rows differ in how well they are matched (as for any mean), and how
far the mean embedding of so many rows lies from its population's, which no fold can show: ``2 sum(lambda²) / m²`` with
the eigenvalues of the centred kernel. Offers stay as they are, and owners hear nothing of all this.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.kernels import KernelColumns, blocks, rbf_kernel
from likeset.geometry.labels import ClassChances
from likeset.protocol.selection import Selected, Selection

FEWEST_ROWS = 20
"""Of a target; folds of fewer say nothing."""

_FINEST = 1e-5  # no estimate is told more exactly, however small its error

Curve = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Squared MMD between a summary and its target's population, estimated by cross-fitting.

    Attributes:
        squared_mmd: the estimate; it may be below zero by chance.
        error: its standard error.
        curve: the same for the first rows of the summary alone, counting alike: for one, two and so on.
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
) -> HeldOut | None:
    """Estimate the distance of what was selected; None where that is not wanted, or the target has too few rows.

    Args:
        selection: how it was selected, and in how many folds to do it again.
        pool: rows that it was selected from.
        target: rows that it was selected for.
        selected: what came out.
        fold_key: seeds the draw of the folds; secret where the estimate goes to somebody who does not see the pool.
        chances: what labels of the pool said about the target, where they were used.
    """
    count = len(target)
    if selection.folds < 2 or count < FEWEST_ROWS or not len(selected.indices):
        return None
    gamma, wide = selection.kernel_width(target), target.astype(np.float64)
    fixed = replace(selection, gamma=gamma, folds=0)
    own = _mean_kernels(wide, gamma)
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
        )
        levels = _levels(pool, again, wide[rest], gamma) + _within(own, rest, wide, gamma)
        outside = _levels(pool, again, wide[fold], gamma) + float(own.mean())
        optimism += (outside - levels) * (len(rest) / count) * (len(fold) / count)
        values[fold] = 2.0 * (own[fold] - _matched(pool, again, wide[fold], gamma)[:, 0])
    return _estimate(in_sample + optimism, values, _spread_of_mean(wide, gamma))


def _estimate(levels: Curve, values: Curve, spread: float) -> HeldOut:
    squared_mmd, curve = float(levels[0]), levels[1:]
    error = float(np.sqrt(values.var(ddof=1) / len(values) + spread))
    return HeldOut(squared_mmd, error, curve)


def _matched(pool: Rows, selected: Selected, target: Rows, gamma: float) -> Curve:
    """For each row of the target its mean kernel with the weighted summary, and with its first rows."""
    kernel = rbf_kernel(target, pool[selected.indices].astype(np.float64), gamma=gamma)
    first = np.cumsum(kernel, axis=1) / np.arange(1, kernel.shape[1] + 1)
    return np.concatenate([(kernel @ selected.weights)[:, None], first], axis=1)


def _levels(pool: Rows, selected: Selected, target: Rows, gamma: float) -> Curve:
    """Squared MMD of the weighted summary, and of its first rows, less the kernel within the target."""
    rows = pool[selected.indices].astype(np.float64)
    weighted, pairs = 0.0, np.empty(len(rows))
    for part in blocks(len(rows), width=len(rows)):
        kernel = rbf_kernel(rows[part], rows, gamma=gamma)
        weighted += float(selected.weights[part] @ kernel @ selected.weights)
        pairs[part] = 2.0 * np.tril(kernel, k=part.start - 1).sum(axis=1) + 1.0
    within = np.append(weighted, np.cumsum(pairs) / np.arange(1, len(rows) + 1) ** 2)
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
