"""A lower bound on epsilon from what was observed under two neighbouring inputs.

(epsilon, delta)-differential privacy says P(E) <= e^epsilon Q(E) + delta for every event E, where P and Q are
the laws of the observation under the two inputs, and the same with P and Q exchanged. So every event gives a
lower bound log((P(E) - delta) / Q(E)). One half of the observations chooses the event; the other half, which
the choice has not seen, bounds P(E) from below and Q(E) from above by Clopper and Pearson's exact intervals.

What the bound shows and what it does not: docs/proofs/auditor.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from likeset.arguments import matrix, positive, same_columns
from likeset.audit.partitions import Observations, Partition, Score, atoms, quantile_cells
from likeset.errors import InvalidArgument

__all__ = ["ERROR", "LowerBound", "clopper_pearson", "lower_bound"]

ERROR = 1e-9
"""Probability that one bound exceeds the truth. A thousand bounds together stay below 1e-6."""

_COORDINATES = 16  # coordinates beyond this are not looked at one by one; the discriminant sees them all
_RIDGE = 1e-9  # relative; so small that a direction without noise (a sign of reused noise) still stands out


@dataclass(frozen=True)
class LowerBound:
    """What the observations prove, up to ``error``.

    Attributes:
        epsilon: no mechanism with a smaller epsilon at ``delta`` behaves like this; 0 where nothing is shown.
        delta: the delta at which it was asked.
        event: the event that shows it, in words.
        samples: observations under each of the two inputs, both halves counted.
        error: probability that ``epsilon`` exceeds the mechanism's true epsilon for this pair.
    """

    epsilon: float
    delta: float
    event: str
    samples: int
    error: float


@dataclass(frozen=True)
class _Event:
    """A set of cells of a partition, as a lookup table."""

    partition: Partition
    inside: NDArray[np.bool_]

    def count(self, observations: Observations) -> NDArray[np.int_]:
        return np.array([self.inside[self.partition.cells(observations)].sum()])


def clopper_pearson(hits: ArrayLike, trials: int, *, error: float) -> tuple[Observations, Observations]:
    """Exact bounds on a probability, below and above, each wrong with probability at most ``error``."""
    seen = np.asarray(hits, dtype=np.float64)
    # The clipped entries are the two ends, where the beta law degenerates and the bound is 0 or 1.
    some, not_all = np.maximum(seen, 1), np.minimum(seen, trials - 1)
    lower = np.where(seen > 0, betaincinv(some, trials - some + 1, error), 0.0)
    upper = np.where(seen < trials, betainccinv(not_all + 1, trials - not_all, error), 1.0)
    return lower, upper


def lower_bound(
    first: ArrayLike, second: ArrayLike, *, delta: float, error: float = ERROR, score: Score | None = None
) -> LowerBound:
    """The best lower bound on epsilon at ``delta`` that was found, in either direction of the pair.

    Args:
        first: observations under one input, one per row, independent of one another. They need not be
            independent of ``second``: both may come from the same coins.
        second: observations under the neighbouring input.
        delta: the delta of the claim.
        error: probability that the result exceeds the truth, over both directions and all four proportions.
        score: where the likelihood ratio is known, a function of the observation that sorts by it. Single
            coordinates, a linear discriminant and, if the observation takes few values, the values themselves
            are always tried.

    Raises:
        InvalidArgument: unusable samples, delta or error.
    """
    inputs = _observations("first", first), _observations("second", second)
    same_columns("first", inputs[0], "second", inputs[1])
    if not 0 <= delta < 1:
        raise InvalidArgument("delta", delta, "must be at least 0 and below 1")
    if positive("error", error) >= 1:
        raise InvalidArgument("error", error, "must be below 1")

    # Row i of both inputs falls into the same half, so that shared coins cannot tie the two halves together.
    samples = min(len(rows) for rows in inputs)
    choosing = [rows[: samples // 2] for rows in inputs]
    judging = [rows[samples // 2 : samples] for rows in inputs]
    partitions = list(_partitions(choosing[0], choosing[1], score))
    share = error / 4  # two directions, two proportions each
    best = LowerBound(epsilon=0.0, delta=delta, event="none", samples=samples, error=error)
    for likelier, rarer, words in ((0, 1, "likelier under the first"), (1, 0, "likelier under the second")):
        event = _chosen(partitions, choosing[likelier], choosing[rarer], delta=delta, error=share)
        hits, misses = event.count(judging[likelier]), event.count(judging[rarer])
        epsilon = float(_epsilons(hits, misses, trials=len(judging[0]), delta=delta, error=share)[0])
        if epsilon > best.epsilon:
            words = f"{event.partition.words}, {words}"
            best = LowerBound(epsilon=epsilon, delta=delta, event=words, samples=samples, error=error)
    return best


def _observations(argument: str, value: ArrayLike) -> Observations:
    array = np.asarray(value)
    rows = matrix(argument, array[:, None] if array.ndim == 1 else array).astype(np.float64, copy=False)
    if len(rows) < 4:
        raise InvalidArgument(argument, f"{len(rows)} observations", "at least 4 are needed: two halves")
    return rows


def _partitions(p: Observations, q: Observations, score: Score | None) -> Iterator[Partition]:
    pooled = np.concatenate([p, q])
    if (values := atoms(pooled)) is not None:
        yield values
    if score is not None:
        for column in range(score(pooled[:2]).reshape(2, -1).shape[1]):
            yield quantile_cells(pooled, _column(score, column), f"given score {column}")
    if pooled.shape[1] > 1:
        direction = _discriminant(p, q)
        yield quantile_cells(pooled, lambda rows: rows @ direction, "linear discriminant")
    for column in range(min(pooled.shape[1], _COORDINATES)):
        yield quantile_cells(pooled, _column(lambda rows: rows, column), f"coordinate {column}")


def _column(score: Score, column: int) -> Score:
    return lambda rows: score(rows).reshape(len(rows), -1)[:, column]


def _discriminant(p: Observations, q: Observations) -> Observations:
    """Fisher's direction: along it lies the likelihood ratio of two normal laws with a common covariance."""
    spread = np.cov(np.concatenate([p - p.mean(axis=0), q - q.mean(axis=0)]), rowvar=False)
    ridge = _RIDGE * max(float(np.trace(spread)) / len(spread), 1e-300)
    apart = p.mean(axis=0) - q.mean(axis=0)
    direction: Observations = np.linalg.solve(spread + ridge * np.eye(len(spread)), apart)
    return direction


def _chosen(
    partitions: list[Partition], likelier: Observations, rarer: Observations, *, delta: float, error: float
) -> _Event:
    """The event with the best bound on the choosing half, among unions of cells of any partition."""
    # The sure event shows nothing; it is judged where no other event has a bound at all.
    best, winner = -math.inf, _Event(partitions[0], np.ones(partitions[0].size, dtype=np.bool_))
    for partition in partitions:
        hits = np.bincount(partition.cells(likelier), minlength=partition.size)
        misses = np.bincount(partition.cells(rarer), minlength=partition.size)
        # By Neyman and Pearson the best events collect cells by falling likelihood ratio; half-lines are
        # tried as well because the estimated ratio is noisy where the observations are few.
        by_ratio = np.argsort(-(hits + 0.5) / (misses + 0.5), kind="stable")
        ascending = np.arange(partition.size)
        for order in (by_ratio, ascending, ascending[::-1]):
            collected = np.cumsum(hits[order]), np.cumsum(misses[order])
            bounds = _epsilons(*collected, trials=len(likelier), delta=delta, error=error)
            length = int(np.argmax(bounds))
            if bounds[length] > best:
                inside = np.zeros(partition.size, dtype=np.bool_)
                inside[order[: length + 1]] = True
                best, winner = float(bounds[length]), _Event(partition, inside)
    return winner


def _epsilons(
    hits: NDArray[np.int_], misses: NDArray[np.int_], *, trials: int, delta: float, error: float
) -> Observations:
    """log((P(E) - delta) / Q(E)), P(E) bounded from below, Q(E) from above; -inf if P(E) may be delta."""
    below, _ = clopper_pearson(hits, trials, error=error)
    _, above = clopper_pearson(misses, trials, error=error)
    surplus = np.maximum(below - delta, 0.0)
    return np.log(surplus / above, out=np.full(len(surplus), -math.inf), where=surplus > 0)
