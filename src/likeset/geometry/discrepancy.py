"""How far two sets of rows are apart: Maximum Mean Discrepancy, the paper's objective, and its marginal gain."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import KernelColumns, blocks

__all__ = ["SubmodularityMargin", "marginal_gain", "objective", "squared_mmd", "submodularity_margin"]


def squared_mmd(a: ArrayLike, b: ArrayLike, *, gamma: float, weights: ArrayLike | None = None) -> float:
    """Squared Maximum Mean Discrepancy between two sets of rows (paper eq. 1; the biased estimate, never below zero).

    Args:
        a: rows of the first set.
        b: rows of the second set.
        gamma: width of the kernel ``exp(-gamma * ||x - y||²)``.
        weights: one non-negative weight per row of ``a``, summing to 1; equal weights if not given.
    """
    first, second = arguments.matrix("a", a), arguments.matrix("b", b)
    arguments.same_columns("a", first, "b", second)
    first_weights = _weights(weights, len(first))
    second_weights = np.full(len(second), 1.0 / len(second))
    within_first = _mean_kernel(first, first_weights, first, first_weights, gamma=gamma)
    within_second = _mean_kernel(second, second_weights, second, second_weights, gamma=gamma)
    between = _mean_kernel(first, first_weights, second, second_weights, gamma=gamma)
    squared = within_first + within_second - 2.0 * between
    if not math.isfinite(squared):
        raise InvalidArgument("gamma", gamma, "is too large for these rows: gamma times a squared distance overflows")
    return max(0.0, squared)


def objective(summary: ArrayLike, target: ArrayLike, *, gamma: float) -> float:
    """The paper's objective J (eq. 2): mean kernel of the target with itself, less the squared MMD."""
    chosen, wanted = arguments.matrix("summary", summary), arguments.matrix("target", target)
    arguments.same_columns("summary", chosen, "target", wanted)
    equal = np.full(len(chosen), 1.0 / len(chosen))
    wanted_equal = np.full(len(wanted), 1.0 / len(wanted))
    between = _mean_kernel(chosen, equal, wanted, wanted_equal, gamma=gamma)
    return 2.0 * between - _mean_kernel(chosen, equal, chosen, equal, gamma=gamma)


def marginal_gain(candidates: ArrayLike, summary: ArrayLike, target: ArrayLike, *, gamma: float) -> NDArray[np.float64]:
    """What each candidate would add to J, up to terms that are the same for every candidate.

    ``gain(x) = mean_v k(v, x) - q/(q+1) * mean_s k(s, x)`` with q rows in the summary, which may be empty. The paper's
    Algorithm 3 prints it with the sign and the factor swapped. The change of J itself is ``2/(q+1) * gain(x)`` plus
    a term without x.
    """
    rows, wanted = arguments.matrix("candidates", candidates), arguments.matrix("target", target)
    chosen = arguments.matrix("summary", summary, allow_empty=True)
    arguments.same_columns("candidates", rows, "target", wanted)
    arguments.same_columns("candidates", rows, "summary", chosen)
    double = np.dtype(np.float64)
    gain = KernelColumns(wanted, gamma=gamma, dtype=double).sums(rows) / len(wanted)
    if len(chosen):
        gain -= KernelColumns(chosen, gamma=gamma, dtype=double).sums(rows) / (len(chosen) + 1)
    return gain


@dataclass(frozen=True)
class SubmodularityMargin:
    """How far a data set is from the condition under which Theorem 1 of the paper calls J submodular.

    Attributes:
        largest_kernel: the largest kernel value between two different rows.
        allowed_kernel: what the theorem allows, ``1 / (N³ + 3N² + N)`` for N rows.
        shortest_distance: the smallest distance between two different rows.
        required_distance: the smallest distance that the theorem allows at this gamma.
    """

    largest_kernel: float
    allowed_kernel: float
    shortest_distance: float
    required_distance: float

    @property
    def holds(self) -> bool:
        """Whether the condition is met."""
        return self.shortest_distance >= self.required_distance

    @property
    def excess(self) -> float:
        """By what factor the largest kernel value exceeds what is allowed (at most 1 where the condition holds)."""
        return self.largest_kernel / self.allowed_kernel


def submodularity_margin(rows: ArrayLike, *, gamma: float) -> SubmodularityMargin:
    """Check the condition of Theorem 1 on all rows of the system (owners' and target's together).

    The theorem asks for an off-diagonal kernel of at most ``1 / (N³ + 3N² + N)``. Where it holds, J(S) is about
    ``-1/|S|``, which is negative: the approximation guarantee that the paper derives does not follow either way.
    """
    array = arguments.matrix("rows", rows)
    number = len(array)
    if number < 2:
        raise InvalidArgument("rows", f"array of shape {array.shape}", "at least two rows are needed")
    arguments.positive("gamma", gamma)
    shortest = _shortest_squared_distance(array)
    log_allowed = -float(np.log(number**3 + 3.0 * number**2 + number))
    return SubmodularityMargin(
        largest_kernel=float(np.exp(-gamma * shortest)),
        allowed_kernel=float(np.exp(log_allowed)),
        shortest_distance=float(np.sqrt(shortest)),
        required_distance=float(np.sqrt(-log_allowed / gamma)),
    )


def _shortest_squared_distance(rows: Rows) -> float:
    moved = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    squared_norms = np.einsum("ij,ij->i", moved, moved)
    shortest = np.inf
    for part in blocks(len(moved), width=len(moved)):
        distances = squared_norms[part, None] + squared_norms - 2.0 * (moved[part] @ moved.T)
        distances[np.arange(distances.shape[0]), np.arange(part.start, part.stop)] = np.inf
        shortest = min(shortest, float(distances.min()))
    return max(0.0, shortest)


def _mean_kernel(
    a: Rows, a_weights: NDArray[np.float64], b: Rows, b_weights: NDArray[np.float64], *, gamma: float
) -> float:
    """The weighted mean of the kernel over all pairs, in double precision: differences of these are small numbers."""
    columns = KernelColumns(b, gamma=gamma, dtype=np.dtype(np.float64))
    total = 0.0
    for part in blocks(len(a), width=len(b)):
        total += float(a_weights[part] @ (columns(a[part]) @ b_weights))
    return total


def _weights(weights: ArrayLike | None, length: int) -> NDArray[np.float64]:
    if weights is None:
        return np.full(length, 1.0 / length)
    return arguments.shares("weights", weights, length=length)
