"""The RBF kernel ``k(x, y) = exp(-gamma * ||x - y||²)``, in blocks so that memory stays bounded, and squared MMD."""

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument

BLOCK_ENTRIES = 1 << 18
"""Kernel entries that are held at once: 1 MB in float32, small enough for the caches to help."""
_CONTAINER_LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Of control groups, versions 2 and 1."""
_LARGEST_ERROR = 1e-3  # of an exponent, and so of a kernel value
_MEDIAN_ROWS = 1000
_FEWEST_TOGETHER, _MOST_TOGETHER = 16, 64  # rows of a kernel that are computed at a time ...
_TOGETHER_ENTRIES = 1 << 22  # ... and about their values
_WORTH = 5  # rows that are computed together in the time of one alone, about
_FAR = 100.0  # squared distance of the mean from zero, in units of the rows' own spread, that calls for a copy


def rbf_kernel(a: ArrayLike, b: ArrayLike, *, gamma: float) -> Rows:
    first, second = arguments.matrix("a", a), arguments.matrix("b", b)
    arguments.same_columns("a", first, "b", second)
    return KernelColumns(second, gamma=gamma, dtype=np.result_type(first, second))(first)


def kernel_means(rows: ArrayLike, others: ArrayLike, *, gamma: float) -> NDArray[np.float64]:
    first, second = arguments.matrix("rows", rows), arguments.matrix("others", others)
    arguments.same_columns("rows", first, "others", second)
    return KernelColumns(second, gamma=gamma, dtype=np.result_type(first, second)).sums(first) / len(second)


def median_gamma(rows: ArrayLike, *, scale: float, coins: np.random.Generator) -> float:
    """Median heuristic: ``scale`` over the median squared distance between two different rows.

    The median is taken over the pairs of at most 1,000 rows, drawn by ``coins``.
    """
    array = arguments.matrix("rows", rows)
    arguments.positive("scale", scale)
    if len(array) < 2:
        raise InvalidArgument(
            "rows",
            f"array of shape {array.shape}",
            "at least two rows are needed for a median; give more rows, or the width gamma",
        )
    chosen = np.sort(coins.choice(len(array), size=min(_MEDIAN_ROWS, len(array)), replace=False))
    kept = array[chosen].astype(np.float64)
    kept -= kept.mean(axis=0)
    squared_norms = np.einsum("ij,ij->i", kept, kept)
    distances = squared_norms[:, None] + squared_norms[None, :] - 2.0 * (kept @ kept.T)
    median = float(np.median(distances[np.triu_indices(len(kept), k=1)]))
    # Rounding leaves about 1e-16 of the norms where rows are equal; that is no distance.
    if median <= 1e-12 * float(squared_norms.max(initial=0.0)) or median <= 0.0:
        raise InvalidArgument(
            "rows",
            f"array of shape {array.shape}",
            "most rows are equal, so the median distance is zero; give gamma",
        )
    return scale / median


def blocks(rows: int, *, width: int) -> Iterator[slice]:
    """Slices of ``rows`` such that a block of ``width`` columns stays within the block budget."""
    step = max(1, BLOCK_ENTRIES // max(1, width))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def precise_enough(pool: Rows, *, gamma: float, centre: NDArray[np.float64]) -> Rows:
    """The pool in a precision in which its kernel is: float32, unless rows lie many kernel widths apart.

    ``||x||² + ||y||² - 2 x.y`` has the rounding error of its largest part, which then is no small exponent.
    """
    if pool.dtype == np.float64:
        return pool
    farthest = 0.0
    for part in blocks(len(pool), width=pool.shape[1]):
        moved = pool[part] - centre.astype(np.float32)
        farthest = max(farthest, float(np.einsum("ij,ij->i", moved, moved).max()))
    return pool.astype(np.float64) if gamma * farthest * 2.0**-24 > _LARGEST_ERROR else pool


class KernelColumns:
    """Kernel values against a fixed set of rows, prepared once.

    Rows are moved so that the fixed set has mean zero: distances do not change, and the cancellation in
    ``||x||² + ||y||² - 2 x.y`` loses no more digits than the spread of the data demands.
    """

    def __init__(self, rows: Rows, *, gamma: float, dtype: np.dtype[Any]) -> None:
        self._gamma = arguments.positive("gamma", gamma)
        self.dtype = np.dtype(dtype)
        self._centre = rows.mean(axis=0, dtype=np.float64).astype(self.dtype)
        moved = np.asarray(rows, dtype=self.dtype) - self._centre
        own = (self._gamma * np.einsum("ij,ij->i", moved, moved)).astype(self.dtype)
        self._fixed = _fold((2.0 * self._gamma * moved).astype(self.dtype), own)

    def __len__(self) -> int:
        return len(self._fixed)

    def __call__(self, rows: Rows) -> Rows:
        block = np.ones((len(rows), self._fixed.shape[1]), dtype=self.dtype)
        self._fill(rows, block)
        exponent: Rows = self._fixed @ block.T
        return np.exp(exponent, out=exponent).T

    def sums(self, rows: Rows, *, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """For each of ``rows`` the (weighted) sum of its kernel values with the fixed set, in blocks."""
        return _folded_sums(self._fixed, len(rows), lambda part, block: self._fill(rows[part], block), weights=weights)

    def means(self, rows: Rows, *, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """For each of ``rows`` the mean of its kernel values with the fixed set; weights, if given, sum to 1."""
        return self.sums(rows) / len(self) if weights is None else self.sums(rows, weights=weights)

    def _fill(self, rows: Rows, block: Rows) -> None:
        moved = block[:, :-2]
        np.subtract(rows, self._centre, out=moved, dtype=self.dtype, casting="unsafe")
        np.multiply(np.einsum("ij,ij->i", moved, moved), self._gamma, out=block[:, -2])


class PoolKernel:
    """The kernel among the rows of one pool: row by row, as they are asked for, and stored.

    Kernel rows are computed several at a time, by one matrix product, because a product with a single row takes nearly
    as long. At most ``stored_bytes`` of them are stored, by default an eighth of the memory of the machine or the
    container; new ones replace the oldest.

    The pool itself is not copied unless its mean lies so far from zero that float32 products would lose digits.
    """

    def __init__(self, rows: Rows, *, gamma: float, stored_bytes: int | None = None) -> None:
        self.gamma = self._gamma = arguments.positive("gamma", gamma)
        centre = rows.mean(axis=0, dtype=np.float64)
        self._offset = np.empty(len(rows), dtype=rows.dtype)  # gamma * ||x - centre||²
        for part in blocks(len(rows), width=rows.shape[1]):
            moved = rows[part] - centre.astype(rows.dtype)
            self._offset[part] = self._gamma * np.einsum("ij,ij->i", moved, moved)
        far = self._gamma * float(centre @ centre) > _FAR * max(float(self._offset.mean(dtype=np.float64)), 1e-30)
        self.rows = rows
        self._rows = rows - centre.astype(rows.dtype) if far else rows
        self._centre = np.zeros(rows.shape[1]) if far else centre
        count = len(rows)
        self._together = min(count, max(_FEWEST_TOGETHER, min(_MOST_TOGETHER, _TOGETHER_ENTRIES // count)))
        limit = _an_eighth_of_memory() if stored_bytes is None else stored_bytes
        places = min(count, max(2 * self._together, limit // (count * rows.itemsize)))
        self._stored = np.empty((places, count), dtype=rows.dtype)  # takes memory as it is filled
        self._row_at = np.full(places, -1)
        self._place_of = np.full(count, -1)
        self._asked = np.zeros(places, dtype=bool)
        self._next = 0
        self._used, self._alone = self._together, 0  # rows of the last product that were asked for; rows to do alone

    def row(self, position: int, likely: NDArray[np.float64]) -> Rows:
        """The kernel of every row with the given one; rows with large ``likely`` are expected to be asked for next.

        The values are overwritten some calls later.
        """
        if self._place_of[position] < 0:
            self._compute(position, likely)
        place = self._place_of[position]
        assert place >= 0, "likely holds something that is no number"  # noqa: S101 - another row would be returned
        self._used += not self._asked[place]
        self._asked[place] = True
        values: Rows = self._stored[place]
        return values

    def _compute(self, position: int, likely: NDArray[np.float64]) -> None:
        """Compute the row and the likeliest next ones, or for a while the row alone if too few of these were used."""
        wanted = np.array([position])
        if not self._alone and self._used * _WORTH < self._together:
            self._alone = self._together
        if self._alone:
            self._alone -= 1
        else:
            order = np.where(self._place_of < 0, likely, -np.inf)
            order[position] = np.inf
            wanted = np.argpartition(order, len(order) - self._together)[len(order) - self._together :]
            wanted = np.sort(wanted[order[wanted] > -np.inf])
            self._used = 0
        if self._next + len(wanted) > len(self._stored):
            self._next = 0
        part = slice(self._next, self._next + len(wanted))
        replaced = self._row_at[part]
        self._place_of[replaced[replaced >= 0]] = -1
        self._asked[part] = False
        self._row_at[part], self._place_of[wanted] = wanted, np.arange(part.start, part.stop)
        self._next = part.stop
        kernel = self._stored[part]
        others = self._rows[wanted] - self._centre  # in double precision
        scaled = 2.0 * self._gamma * others
        shift = scaled @ self._centre + self._offset[wanted]
        # x.scaled - shift - offset(x) = -gamma ||x - y||²
        np.matmul(scaled.astype(self._rows.dtype), self._rows.T, out=kernel)
        for columns in blocks(len(self._offset), width=len(wanted)):
            values = kernel[:, columns]
            values -= self._offset[columns]
            values -= shift.astype(kernel.dtype)[:, None]
            np.exp(values, out=values)


@dataclass(frozen=True)
class LabelledKernel:
    """The joint kernel ``k(x, y) ((1 - w) + w [same class])`` among the rows of a pool."""

    kernel: PoolKernel
    codes: NDArray[np.int64]
    weight: float

    def row(self, position: int, likely: NDArray[np.float64]) -> Rows:
        values = self.kernel.row(position, likely)
        factors = np.where(self.codes == self.codes[position], 1.0, 1.0 - self.weight)
        return np.asarray(values * factors.astype(values.dtype))


def _an_eighth_of_memory() -> int:
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # there is no such file outside of containers, or it says max
            limits.append(int(path.read_text()))
    return min(limits) // 8


def _fold(scaled: Rows, shift: Rows) -> Rows:
    """Two more columns, so that the product with ``(x, own(x), 1)`` is the whole exponent ``-gamma ||x - y||²``."""
    return np.column_stack([scaled, np.full_like(shift, -1.0), -shift])


def _folded_sums(
    fixed: Rows,
    rows: int,
    fill: Callable[[slice, Rows], None],
    *,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Sums over fixed rows that are folded; ``fill`` writes ``(x, own(x))`` for the rows of a block.

    To copy the rows costs less than to go twice more over the kernel values, if there are more of these.
    """
    number, width = fixed.shape
    parts = list(blocks(rows, width=number + width))
    block = np.ones((parts[0].stop if parts else 0, width), dtype=fixed.dtype)

    def exponents(part: slice, out: Rows) -> None:
        fill(part, block[: out.shape[1]])
        np.matmul(fixed, block[: out.shape[1]].T, out=out)

    return _kernel_sums(exponents, parts, fixed, weights=weights)


def _kernel_sums(
    exponents: Callable[[slice, Rows], None],
    parts: Iterable[slice],
    fixed: Rows,
    *,
    weights: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """For each row the (weighted) sum over the fixed ones of the exponential of what ``exponents`` writes.

    One line of memory per fixed row, so that the long side lies along memory. The same memory serves all blocks:
    fresh memory for each would cost more than the kernel.
    """
    sums, memory = [np.empty(0)], np.empty(0, dtype=fixed.dtype)
    factors = None if weights is None else weights.astype(fixed.dtype)
    for part in parts:
        number, length = len(fixed), part.stop - part.start
        if len(memory) < number * length:
            memory = np.empty(number * length, dtype=fixed.dtype)
        kernel = memory[: number * length].reshape(number, length)
        exponents(part, kernel)
        np.exp(kernel, out=kernel)
        sums.append(kernel.sum(axis=0) if factors is None else factors @ kernel)
    return np.concatenate(sums)


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


_lock = threading.Lock()
_inside = 0
_before: list[tuple[Any, int]] = []  # the libraries' settings before the first thread came in


@contextmanager
def one_thread_a_product() -> Iterator[None]:
    """While anybody is inside, products of matrices anywhere in the process are done by one thread each.

    A library that shares one product among threads cuts it into other shapes, and so rounds differently with the number
    of threads. Where bits must agree, each product is done by one thread; several may be done at once, by threads of
    our own. ``threadpool_limits`` alone is not enough for that: the first thread to leave would end it for the others.
    """
    global _inside, _before
    shared, own = _libraries()
    own_before = _set_threads((library, 1) for library in own)
    with _lock:
        _inside += 1
        if _inside == 1:
            _before = _set_threads((library, 1) for library in shared)
    try:
        yield
    finally:
        _set_threads(own_before)
        with _lock:
            _inside -= 1
            if _inside == 0:
                _set_threads(_before)


def _set_threads(wanted: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    before = []
    for library, threads in wanted:
        # Since its version 3.8, threadpoolctl lets one thread at a time change a setting of the whole process. Here
        # the first to come and the last to leave do, whichever threads they are.
        release = getattr(library, "clear_controlling_thread", lambda *, force: force)
        release(force=True)
        before.append((library, library.get_num_threads()))
        library.set_num_threads(threads)
        release(force=True)
    return before


@cache
def _libraries() -> tuple[list[Any], list[Any]]:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it has no types

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [
        library for library in libraries if library.internal_api == "openblas" and library.threading_layer == "openmp"
    ]
    return [library for library in libraries if library not in own], own
