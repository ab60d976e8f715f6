"""By what observations are sorted before events are cut from them.

``candidates`` is everything that is tried on every pair: values that come again, single coordinates, their
distances from the middle, products of two, a linear and a quadratic discriminant, and the lowest bits. A trial that
knows more brings a score of its own: ``distances`` to what would be sent without noise, ``lattice_bits`` where the
lattice is known.

All of it sees the choosing half only. However many scores there are, the judging half is asked about one event.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.audit.partitions import Observations, Partition, Score, atoms, atoms_apart, quantile_edges

__all__ = ["Candidate", "candidates", "distances", "joint_score", "lattice_bits"]

Counts = NDArray[np.intp]

_RIDGE = 1e-9  # relative; so small that a direction without noise (a sign of reused noise) still stands out
_PRODUCTS = 16  # so many pairs of coordinates are cut into cells: those whose mean products differ most
_RESIDUES = 8  # the lowest three bits
_FEW = 16
_LARGEST_STEP = 2.0**53  # beyond it doubles have no lowest bit left to look at


@dataclass(frozen=True)
class Candidate:
    """A partition, and how much of the choosing half lies in each cell under either input."""

    partition: Partition
    counts: tuple[Counts, Counts]

    @classmethod
    def of(cls, partition: Partition, p: Observations, q: Observations) -> Self:
        """From the partition and the choosing half."""
        first, second = (np.bincount(partition.cells(rows), minlength=partition.size) for rows in (p, q))
        return cls(partition, (first, second))


def distances(first: ArrayLike, second: ArrayLike) -> Score:
    """How far an observation is from either input's raw value: what was hardly noised lies near one of them."""
    raw = [np.asarray(value, dtype=np.float64).ravel() for value in (first, second)]
    return lambda rows: np.stack([np.linalg.norm(rows - value, axis=1) for value in raw], axis=1)


def lattice_bits(spacing: float) -> Score:
    """The lowest bits of each coordinate, counted in steps of a known lattice, and the parity of all together."""
    return lambda rows: _residues(np.rint(rows / spacing))


def joint_score(*scores: Score) -> Score:
    """All of these scores, side by side."""
    return lambda rows: np.concatenate([_columns(score(rows)) for score in scores], axis=1)


def candidates(p: Observations, q: Observations, score: Score | None) -> Iterator[Candidate]:
    """Every partition that is tried on a pair, cut from the choosing half of both inputs.

    Args:
        p: the choosing half of the observations under one input.
        q: the same under the other.
        score: what the trial knows about the likelihood ratio.
    """
    pooled = np.concatenate([p, q])
    values = atoms(pooled)
    if values is not None:
        everything = Candidate.of(values, p, q)
        yield everything
        if values.size <= _FEW and sum(int(counts[-1]) for counts in everything.counts) == 0:
            return  # every event is a set of these few values
    for words, sorted_by in _scores(p, q, score):
        for cut in _cuts(words, sorted_by, p, q):
            yield cut
            if values is not None and words.endswith("discriminant"):
                yield Candidate.of(atoms_apart(values, cut.partition), p, q)
    if pooled.shape[1] > 1:
        for column in range(pooled.shape[1]):
            alone = atoms(pooled[:, [column]], f"the value of coordinate {column}")
            if alone is not None:
                yield Candidate.of(_of_column(alone, column), p, q)


def _scores(p: Observations, q: Observations, score: Score | None) -> Iterator[tuple[str, Score]]:
    pooled = np.concatenate([p, q])
    middle = pooled.mean(axis=0)
    if score is not None:
        yield "given score", score
    if pooled.shape[1] > 1:
        yield "linear discriminant", _linear(p, q)
    yield "coordinate", lambda rows: rows
    yield "distance from the middle in coordinate", lambda rows: np.abs(rows - middle)
    yield "quadratic discriminant", _quadratic(p, q)
    if pooled.shape[1] > 1:
        yield "product of two coordinates,", _products(p, q, middle)
    yield "lowest bits of the lattice point in coordinate", _dyadic_bits(pooled)
    yield "lowest bits of the double in coordinate", _mantissa_bits


def _cuts(words: str, score: Score, p: Observations, q: Observations) -> Iterator[Candidate]:
    """One candidate for each column of the score that is not constant."""
    first, second = (np.sort(_columns(score(rows)), axis=0) for rows in (p, q))
    for column, (mine, yours) in enumerate(zip(first.T, second.T, strict=True)):
        edges = quantile_edges(np.concatenate([mine, yours]))
        if len(edges) == 1 and min(mine[0], yours[0]) == max(mine[-1], yours[-1]):
            continue
        counts = [np.diff(np.searchsorted(rows, edges), prepend=0, append=len(rows)) for rows in (mine, yours)]
        numbered = words if words.endswith("discriminant") else f"{words} {column}"
        partition = Partition(numbered, len(edges) + 1, _intervals(score, column, edges))
        yield Candidate(partition, (counts[0], counts[1]))


def _intervals(score: Score, column: int, edges: Observations) -> Callable[[Observations], NDArray[np.intp]]:
    return lambda rows: np.searchsorted(edges, _columns(score(rows))[:, column], side="right")


def _of_column(alone: Partition, column: int) -> Partition:
    return Partition(alone.words, alone.size, lambda rows: alone.cells(rows[:, [column]]))


def _columns(scored: Observations) -> Observations:
    return scored.reshape(len(scored), -1)


def _linear(p: Observations, q: Observations) -> Score:
    """Fisher's direction: along it lies the likelihood ratio of two normal laws with a common covariance."""
    scale = _scale(p, q)
    centres = p.mean(axis=0), q.mean(axis=0)
    spread = _covariance(np.concatenate([p - centres[0], q - centres[1]]) / scale)
    direction: Observations = np.linalg.solve(spread, (centres[0] - centres[1]) / scale) / scale
    return lambda rows: rows @ direction


def _quadratic(p: Observations, q: Observations) -> Score:
    """The log likelihood ratio of two normal laws that differ in mean and covariance, up to a constant."""
    scale = _scale(p, q)
    near_p, near_q = (_length(rows, scale) for rows in (p, q))
    return lambda rows: np.subtract(near_q(rows), near_p(rows))


def _length(fitted: Observations, scale: Observations) -> Score:
    """The squared distance from the centre of these observations, in units of their own spread (Mahalanobis)."""
    centre = fitted.mean(axis=0)
    inverse = np.linalg.inv(_covariance((fitted - centre) / scale))

    def length(rows: Observations) -> Observations:
        away = (rows - centre) / scale
        return np.asarray(((away @ inverse) * away).sum(axis=1), dtype=np.float64)

    return length


def _scale(p: Observations, q: Observations) -> Observations:
    """The spread of each coordinate, so that units do not matter; 1 for a constant."""
    spread = np.concatenate([p, q]).std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _covariance(centred: Observations) -> Observations:
    spread: Observations = np.atleast_2d(np.cov(centred, rowvar=False)) + _RIDGE * np.eye(centred.shape[1])
    return spread


def _products(p: Observations, q: Observations, middle: Observations) -> Score:
    """Products of two centred coordinates, for the pairs whose mean products differ most between the inputs."""
    moments, errors = zip(*(_mean_products(rows - middle) for rows in (p, q)), strict=True)
    apart = np.abs(moments[0] - moments[1]) / np.sqrt(errors[0] + errors[1] + 1e-300)
    left, right = np.triu_indices(len(middle), k=1)
    chosen = np.argsort(-apart[left, right], kind="stable")[:_PRODUCTS]
    left, right = left[chosen], right[chosen]
    return lambda rows: (rows - middle)[:, left] * (rows - middle)[:, right]


def _mean_products(centred: Observations) -> tuple[Observations, Observations]:
    """Mean product of every two coordinates, and the square of its standard error (from above)."""
    squares = centred**2
    return centred.T @ centred / len(centred), squares.T @ squares / len(centred) ** 2


def _dyadic_bits(pooled: Observations) -> Score:
    """The lowest bits of each coordinate in steps of the coarsest power of two that holds all observations.

    Noise on a lattice is released as multiples of its spacing; where that is a power of two, this finds it.
    """
    steps = [_step(column) for column in pooled.T]
    return lambda rows: _residues(np.rint(rows / steps))


def _step(values: Observations) -> float:
    seen = values[values != 0.0]
    if len(seen) == 0:
        return 1.0
    mantissas, exponents = np.frexp(seen)
    whole = np.abs(mantissas * 2.0**53).astype(np.int64)
    lowest = exponents - 53 + np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    return float(np.ldexp(1.0, max(int(lowest.min()), -1000)))


def _residues(points: Observations) -> Observations:
    """Each lattice point's lowest bits, and in the last column the parity of all points together."""
    bounded = np.where(np.abs(points) < _LARGEST_STEP, points, 0.0)
    residues = np.mod(bounded, _RESIDUES)
    return np.concatenate([residues, np.mod(residues.sum(axis=1, keepdims=True), 2)], axis=1)


def _mantissa_bits(rows: Observations) -> Observations:
    bits = np.ascontiguousarray(rows).view(np.uint64) % np.uint64(_RESIDUES)
    return bits.astype(np.float64)
