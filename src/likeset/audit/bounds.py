"""A lower bound on epsilon from what was observed under two neighbouring inputs.

(epsilon, delta)-differential privacy says P(E) <= e^epsilon Q(E) + delta for every event E, where P and Q are
the laws of the observation under the two inputs, and the same with P and Q exchanged. So every event gives a
lower bound log((P(E) - delta) / Q(E)). One half of the observations chooses the event; the other half, which
the choice has not seen, bounds P(E) from below and Q(E) from above by Clopper and Pearson's exact intervals.

What the bound shows and what it does not: docs/proofs/auditor.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from likeset.arguments import matrix, positive, same_columns
from likeset.audit.partitions import Observations, Partition, Score
from likeset.audit.scores import Candidate, candidates
from likeset.errors import InvalidArgument

__all__ = ["ERROR", "LowerBound", "clopper_pearson", "epsilons", "lower_bound", "lower_bounds"]

ERROR = 1e-9
"""Probability that one bound exceeds the truth. A thousand bounds together stay below 1e-6."""


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
    """The best lower bound on epsilon at ``delta`` that was found; see ``lower_bounds``."""
    return lower_bounds(first, second, deltas=[delta], error=error, score=score)[0]


def lower_bounds(
    first: ArrayLike,
    second: ArrayLike,
    *,
    deltas: Sequence[float],
    error: float = ERROR,
    score: Score | None = None,
) -> tuple[LowerBound, ...]:
    """The best lower bound on epsilon that was found at each delta, in either direction of the pair.

    Args:
        first: observations under one input, one per row, independent of one another. They need not be
            independent of ``second``: both may come from the same coins.
        second: observations under the neighbouring input.
        deltas: the deltas of the claims.
        error: probability that a bound exceeds the truth, over both directions and all four proportions; for each
            bound by itself.
        score: where more is known about the likelihood ratio, numbers that sort observations by it. What
            ``scores.candidates`` lists is always tried.

    Raises:
        InvalidArgument: unusable samples, delta or error.
    """
    inputs = _observations("first", first), _observations("second", second)
    same_columns("first", inputs[0], "second", inputs[1])
    for delta in deltas:
        if not 0 <= delta < 1:
            raise InvalidArgument("delta", delta, "must be at least 0 and below 1")
    if positive("error", error) >= 1:
        raise InvalidArgument("error", error, "must be below 1")

    # Row i of both inputs falls into the same half, so that shared coins cannot tie the two halves together.
    samples = min(len(rows) for rows in inputs)
    choosing = [rows[: samples // 2] for rows in inputs]
    judging = [rows[samples // 2 : samples] for rows in inputs]
    share = error / 4  # two directions, two proportions each
    tried = list(candidates(choosing[0], choosing[1], score))
    best = [LowerBound(epsilon=0.0, delta=delta, event="none", samples=samples, error=error) for delta in deltas]
    for likelier, rarer, words in ((0, 1, "likelier under the first"), (1, 0, "likelier under the second")):
        events = _best_events(tried, likelier, deltas=deltas, error=share)
        for index, (event, delta) in enumerate(zip(events, deltas, strict=True)):
            if event is None:
                continue
            hits, misses = event.count(judging[likelier]), event.count(judging[rarer])
            epsilon = float(epsilons(hits, misses, trials=len(judging[0]), delta=delta, error=share)[0])
            if epsilon > best[index].epsilon:
                told = f"{event.partition.words}, {words}"
                best[index] = LowerBound(epsilon=epsilon, delta=delta, event=told, samples=samples, error=error)
    return tuple(best)


def _observations(argument: str, value: ArrayLike) -> Observations:
    array = np.asarray(value)
    rows = matrix(argument, array[:, None] if array.ndim == 1 else array).astype(np.float64, copy=False)
    if len(rows) < 4:
        raise InvalidArgument(argument, f"{len(rows)} observations", "at least 4 are needed: two halves")
    return rows


def _best_events(
    tried: Sequence[Candidate], likelier: int, *, deltas: Sequence[float], error: float
) -> list[_Event | None]:
    """For each delta the event with the best bound on the choosing half, among unions of cells of any partition.

    None where no event shows anything.
    """
    best = [0.0] * len(deltas)
    winners: list[_Event | None] = [None] * len(deltas)
    for candidate in tried:
        size = candidate.partition.size
        hits, misses = candidate.counts[likelier], candidate.counts[1 - likelier]
        # By Neyman and Pearson the best events collect cells by falling likelihood ratio; half-lines are
        # tried as well because the estimated ratio is noisy where the observations are few.
        by_ratio = np.argsort(-(hits + 0.5) / (misses + 0.5), kind="stable")
        ascending = np.arange(size)
        orders = np.stack([by_ratio, ascending, ascending[::-1]])
        collected = np.cumsum(hits[orders], axis=1).ravel(), np.cumsum(misses[orders], axis=1).ravel()
        proportions = _proportions(*collected, trials=int(hits.sum()), error=error)
        for index, delta in enumerate(deltas):
            bounds = _logarithms(*proportions, delta=delta)
            if bounds.max() > best[index]:
                order, length = divmod(int(np.argmax(bounds)), size)
                inside = np.zeros(size, dtype=np.bool_)
                inside[orders[order, : length + 1]] = True
                best[index], winners[index] = float(bounds.max()), _Event(candidate.partition, inside)
    return winners


def epsilons(
    hits: NDArray[np.int_], misses: NDArray[np.int_], *, trials: int, delta: float, error: float
) -> Observations:
    """log((P(E) - delta) / Q(E)), P(E) bounded from below, Q(E) from above; -inf if P(E) may be delta.

    Args:
        hits: how many of the trials under P fell into E.
        misses: how many of those under Q did.
        trials: how many there were under either.
        delta: the delta of the claim.
        error: of each of the two bounds.
    """
    return _logarithms(*_proportions(hits, misses, trials=trials, error=error), delta=delta)


def _proportions(
    hits: NDArray[np.int_], misses: NDArray[np.int_], *, trials: int, error: float
) -> tuple[Observations, Observations]:
    below, above = _every_count(trials, error)
    return below[hits], above[misses]


@lru_cache(maxsize=32)
def _every_count(trials: int, error: float) -> tuple[Observations, Observations]:
    """The bounds for 0 to ``trials`` hits: thousands of events are weighed, and many trials have the same size."""
    return clopper_pearson(np.arange(trials + 1), trials, error=error)


def _logarithms(below: Observations, above: Observations, *, delta: float) -> Observations:
    surplus = np.maximum(below - delta, 0.0)
    return np.log(surplus / above, out=np.full(len(surplus), -math.inf), where=surplus > 0)
