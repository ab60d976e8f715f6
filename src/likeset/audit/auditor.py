"""A lower bound on epsilon from what was observed under two neighbouring inputs, and what a trial consists of.

(epsilon, delta)-differential privacy says P(E) <= e^epsilon Q(E) + delta for every event E, where P and Q are
the laws of the observation under the two inputs, and the same with P and Q exchanged. So every event gives a
lower bound log((P(E) - delta) / Q(E)). One half of the observations chooses the event; the other half, which
the choice has not seen, bounds P(E) from below and Q(E) from above by Clopper and Pearson's exact intervals.

What the bound shows and what it does not: docs/proofs/auditor.md.
``power`` says what a bound could have shown.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from likeset.arguments import count, matrix, positive, same_columns
from likeset.audit.neighbours import Neighbours
from likeset.errors import InvalidArgument
from likeset.privacy.accounting import guarantee
from likeset.privacy.events import Event, Relation, relation_of
from likeset.privacy.noise import Integers, Noise

Observations = NDArray[np.float64]
"""One observation per row."""

Score = Callable[[Observations], Observations]
"""From observations to one or more numbers each."""

_MOST_ATOMS = 512
_REPEATED = 3  # so often must a value come again to be a cell where not every value can be one
_EVEN_LEVELS = 64
_TAIL = 8  # a tail cell holds at least about this many of the observations it was cut from


@dataclass(frozen=True)
class Partition:
    """``size`` cells, what they are cut by in ``words``, and the map from observations to the numbers of cells."""

    words: str
    size: int
    cells: Callable[[Observations], NDArray[np.intp]]


def atoms(observations: Observations, words: str = "the value observed") -> Partition | None:
    """One cell per distinct observation, or per repeated one if there are too many; the last cell is the rest.

    None if there are too many and none is repeated: no value has a probability of its own that would show.
    """
    values, counts = np.unique(_fingerprints(observations), return_counts=True)
    if len(values) > _MOST_ATOMS:
        repeated = counts >= _REPEATED
        values, counts = values[repeated], counts[repeated]
        values = np.sort(values[np.argsort(-counts, kind="stable")[:_MOST_ATOMS]])
    if len(values) == 0:
        return None

    def cells(rows: Observations) -> NDArray[np.intp]:
        wanted = _fingerprints(rows)
        cell = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
        return np.where(values[cell] == wanted, cell, len(values)).astype(np.intp)

    return Partition(words, len(values) + 1, cells)


def quantile_edges(scored: Observations) -> Observations:
    """Where the intervals begin; a value that is an edge belongs to the interval above it."""
    tails = 0.5 ** np.arange(1, max(2, int(np.log2(max(len(scored) / _TAIL, 2))) + 1))
    levels = np.concatenate([np.arange(1, _EVEN_LEVELS) / _EVEN_LEVELS, tails, 1 - tails])
    ordered = np.sort(scored, kind="stable")  # fast where the parts are in order already
    return np.unique(ordered[np.ceil(levels * len(ordered)).astype(np.intp) - 1])


def atoms_apart(values: Partition, rest: Partition) -> Partition:
    """The cells of ``values``, and those of ``rest`` for what is in the last cell of ``values``.

    A raw value that is sometimes sent and noise that is too small are seen together that way.
    """
    other = values.size - 1

    def cells(rows: Observations) -> NDArray[np.intp]:
        cell = values.cells(rows)
        return np.where(cell < other, cell, other + rest.cells(rows))

    return Partition(f"{rest.words}, repeated values apart", other + rest.size, cells)


def _fingerprints(rows: Observations) -> NDArray[np.uint64]:
    """One number per observation. Should two observations share one, their cell holds both: still an event."""
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # adding zero makes -0.0 and 0.0 the same
    code = np.zeros(len(rows), dtype=np.uint64)
    for column in bits.T:
        code = (code ^ column) * np.uint64(0x9E3779B97F4A7C15)  # wraps around, and is one-to-one in each column
        code ^= code >> np.uint64(29)
    return code


# By what observations are sorted before events are cut from them.
#
# ``candidates`` is everything that is tried on every pair: values that come again, single coordinates, their
# distances from the middle, products of two, a linear and a quadratic discriminant, and the lowest bits. A trial that
# knows more brings a score of its own: ``distances`` to what would be sent without noise, ``lattice_bits`` where the
# lattice is known.
#
# All of it sees the choosing half only. However many scores there are, the judging half is asked about one event.

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
    return lambda rows: np.concatenate([_columns(score(rows)) for score in scores], axis=1)


def candidates(p: Observations, q: Observations, score: Score | None) -> Iterator[Candidate]:
    """Every partition that is tried on a pair, cut from ``p`` and ``q``, the choosing halves of both inputs."""
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


ERROR = 1e-9
"""Probability that one bound exceeds the truth. A thousand bounds together stay below 1e-6."""


@dataclass(frozen=True)
class LowerBound:
    """What the observations prove: no mechanism with a smaller epsilon at ``delta`` behaves like this."""

    epsilon: float  # 0 where nothing is shown
    delta: float
    event: str  # that shows it, in words
    samples: int  # under each of the two inputs, both halves counted
    error: float  # probability that ``epsilon`` exceeds the mechanism's true epsilon for this pair


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

    Observations under an input must be independent of one another; both inputs may share their coins. ``error`` is the
    probability that a bound, by itself, exceeds the truth. What ``candidates`` lists is tried beside the ``score``.
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
            partition, inside = event
            hits, misses = (np.array([inside[partition.cells(judging[side])].sum()]) for side in (likelier, rarer))
            epsilon = float(epsilons(hits, misses, trials=len(judging[0]), delta=delta, error=share)[0])
            if epsilon > best[index].epsilon:
                told = f"{partition.words}, {words}"
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
) -> list[tuple[Partition, NDArray[np.bool_]] | None]:
    """For each delta the event with the best bound on the choosing half, among unions of cells of any partition.

    An event is a partition and which of its cells it has; None where no event shows anything.
    """
    best = [0.0] * len(deltas)
    winners: list[tuple[Partition, NDArray[np.bool_]] | None] = [None] * len(deltas)
    for candidate in tried:
        size = candidate.partition.size
        hits, misses = candidate.counts[likelier], candidate.counts[1 - likelier]
        # By Neyman and Pearson the best events collect cells by falling likelihood ratio; half-lines are
        # tried as well because the estimated ratio is noisy where the observations are few.
        by_ratio = np.argsort(-(hits + 0.5) / (misses + 0.5), kind="stable")
        ascending = np.arange(size)
        orders = np.stack([by_ratio, ascending, ascending[::-1]])
        collected = np.cumsum(hits[orders], axis=1).ravel(), np.cumsum(misses[orders], axis=1).ravel()
        for index, delta in enumerate(deltas):
            bounds = epsilons(*collected, trials=int(hits.sum()), delta=delta, error=error)
            if bounds.max() > best[index]:
                order, length = divmod(int(np.argmax(bounds)), size)
                inside = np.zeros(size, dtype=np.bool_)
                inside[orders[order, : length + 1]] = True
                best[index], winners[index] = float(bounds.max()), (candidate.partition, inside)
    return winners


def epsilons(
    hits: NDArray[np.int_], misses: NDArray[np.int_], *, trials: int, delta: float, error: float
) -> Observations:
    """log((P(E) - delta) / Q(E)), P(E) bounded from below, Q(E) from above; -inf if P(E) may be delta.

    ``hits`` of the trials under P fell into E, and ``misses`` of those under Q; ``error`` is that of each bound.
    """
    below, above = _every_count(trials, error)
    surplus = np.maximum(below[hits] - delta, 0.0)
    return np.log(surplus / above[misses], out=np.full(len(surplus), -math.inf), where=surplus > 0)


@lru_cache(maxsize=32)
def _every_count(trials: int, error: float) -> tuple[Observations, Observations]:
    """The bounds for 0 to ``trials`` hits: thousands of events are weighed, and many trials have the same size."""
    return clopper_pearson(np.arange(trials + 1), trials, error=error)


# What a bound could have shown: how large a violation must be before so many observations find it.
#
# A claim that is not refuted says little unless one knows what would have refuted it. Two violations are weighed, both
# the easiest of their kind, so that smaller ones cannot be found by any event:
#
# * too large an epsilon in a likely event: with probability delta the input is told, else randomised response;
# * a raw value (or anything else that the other input excludes) that is sent now and then.

_DEVIATIONS = 4.0  # what is called found is found unless luck is this bad: once in 30 000 times
_LARGEST = 40.0
_STEPS = 40


@dataclass(frozen=True)
class Power:
    """The smallest violations that would be found, but for bad luck of 4 standard deviations; infinite if none is."""

    epsilon: float  # the true epsilon from which on a claim is refuted, at best
    leak: float  # the probability from which on a raw value is noticed


def power(claimed: float, *, delta: float, samples: int) -> Power:
    """What could refute (``claimed``, ``delta``) with so many observations of either input, both halves counted."""
    trials = samples - samples // 2

    def refutes(likelier: float, rarer: float) -> bool:
        # Both counts as unlucky as we allow for; the exact bound is then computed as if they had been seen.
        unlucky = [_DEVIATIONS * math.sqrt(trials * share * (1 - share)) for share in (likelier, rarer)]
        hits = np.array([max(0, math.floor(trials * likelier - unlucky[0]))])
        misses = np.array([min(trials, math.ceil(trials * rarer + unlucky[1]))])
        return bool(epsilons(hits, misses, trials=trials, delta=delta, error=ERROR / 4)[0] > claimed)

    def response(epsilon: float) -> bool:
        truth = 1 / (1 + math.exp(-epsilon))
        return refutes(delta + (1 - delta) * truth, (1 - delta) * (1 - truth))

    return Power(
        epsilon=_least(response, claimed, claimed + _LARGEST),
        leak=_least(lambda share: refutes(share, 0.0), 0.0, 1.0),
    )


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest value that is enough, by bisection; infinite if the largest is not."""
    if not enough(high):
        return math.inf
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# Trials: a claim, a pair of neighbouring inputs, and a way to observe both. They are made in ``sound_trials`` and
# ``broken_trials``.

SMALL_DELTA = 1e-5
"""Every claim is also audited at this delta: what is sent rarely, or depends on rows in a bit, shows there."""


Observe = Callable[[int, int], ArrayLike]
"""(which of the two inputs: 0 or 1, how many) -> that many independent observations, one per row."""


@dataclass(frozen=True)
class Claim:
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Trial:
    """Claims about one mechanism and how to observe it."""

    mechanism: str
    pair: str  # the two neighbouring inputs, in words
    relation: Relation
    noise: str  # "secret" or "simulated"
    claims: tuple[Claim, ...]  # all are put to the same observations
    observe: Observe
    samples: int  # under each input, unless told otherwise
    score: Score | None = None  # where more is known about the likelihood ratio: sorts observations by it


@dataclass(frozen=True)
class TrialVerdict:
    """What a trial showed about one of its claims."""

    trial: Trial
    claim: Claim
    bound: LowerBound
    power: Power

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted (wrongly so with probability at most ``bound.error``)."""
        return self.bound.epsilon > self.claim.epsilon


def run_trial(trial: Trial, *, samples: int | None = None) -> tuple[TrialVerdict, ...]:
    """Observe both inputs and bound epsilon from below: one verdict for each claim, from the same observations."""
    size = trial.samples if samples is None else count("samples", samples, least=4)
    first, second = trial.observe(0, size), trial.observe(1, size)
    bounds = lower_bounds(first, second, deltas=[claim.delta for claim in trial.claims], score=trial.score)
    return tuple(
        TrialVerdict(trial, claim, bound, power(claim.epsilon, delta=claim.delta, samples=size))
        for claim, bound in zip(trial.claims, bounds, strict=True)
    )


def trial_of(
    mechanism: str,
    pair: Neighbours[Any],
    observe: Observe,
    claimed: Event | tuple[Claim, ...],
    noise: Noise,
    *,
    samples: int,
    deltas: Iterable[float] = (0.0, SMALL_DELTA),
    score: Score | None = None,
) -> Trial:
    """A trial of a pair. Of an event, what the accountant says under its own relation is claimed, at each delta."""
    relation = Relation.REPLACE_ONE
    if not isinstance(claimed, tuple):
        relation = relation_of(claimed) or relation
        prices = (guarantee(claimed, relation=relation, delta=delta) for delta in dict.fromkeys(deltas))
        claimed = tuple(Claim(price.epsilon, price.delta) for price in prices)
    kind = "secret" if noise.private else "simulated"
    return Trial(mechanism, pair.words, relation, kind, claimed, observe, samples, score)


def draws(draw: Callable[[int], ArrayLike]) -> Observe:
    """From a function that runs the mechanism once on input 0 or 1, run as often as needed."""
    return lambda side, size: [np.asarray(draw(side), dtype=np.float64).ravel().tolist() for _ in range(size)]


class WrappedNoise:
    """Noise of another source; subclasses do something to it."""

    def __init__(self, source: Noise) -> None:
        self.source = source

    @property
    def private(self) -> bool:
        return self.source.private

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        return self.source.discrete_laplace(scale, size)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return self.source.discrete_gaussian(sigma, size)

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        return self.source.exponential_choice(scores, rate)

    def bernoulli(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        return self.source.bernoulli(probabilities)

    def rounding(self, fractions: NDArray[np.float64]) -> NDArray[np.bool_]:
        return self.source.rounding(fractions)


# Many runs of a mechanism in one call, where its arithmetic is the same for one row of noise and for many.
#
# A mechanism that adds noise to a sum does so by numpy's broadcasting: handed the noise of ``runs`` runs, one row each,
# it returns one row per run. It is the mechanism's own code that is observed, a hundred times faster. What cannot show
# that way is a mechanism that remembers one run in the next.


class RunsAtOnce(WrappedNoise):
    """The same laws as ``source``; additive noise comes with one row for each of ``runs`` runs."""

    def __init__(self, source: Noise, runs: int) -> None:
        super().__init__(source)
        self._runs = runs

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        return self.source.discrete_laplace(scale, self._runs * size).reshape(self._runs, size)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return self.source.discrete_gaussian(sigma, self._runs * size).reshape(self._runs, size)


def batched_draws(release: Callable[[int, Noise], ArrayLike], noise: Noise) -> Observe:
    """From a function that runs the mechanism on input 0 or 1 with some noise: all observations from one call."""

    def observe(side: int, size: int) -> ArrayLike:
        rows = np.asarray(release(side, RunsAtOnce(noise, size)), dtype=np.float64)
        if rows.shape[0] != size or rows.ndim != 2:
            raise AssertionError("the mechanism does not keep runs apart")
        return rows

    return observe


# Secret noise drawn in blocks, so that a mechanism can be run tens of thousands of times in a few seconds.
#
# Calling OpenDP costs about 0.3 ms, a value within a call about 0.02 ms. The auditor therefore hands mechanisms
# a noise that fetches a block and serves it value by value. The law is the same and no value is served twice.
# It is for auditing only: values wait in memory before they are used.

_PREFETCHED = 4096


class PrefetchedNoise(WrappedNoise):
    """The same laws as ``source``; Laplace and Gaussian values come from blocks."""

    def __init__(self, source: Noise) -> None:
        super().__init__(source)
        self._waiting: dict[tuple[str, float], Integers] = {}

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        return self._serve(("laplace", scale), size, lambda block: self.source.discrete_laplace(scale, block))

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return self._serve(("gaussian", sigma), size, lambda block: self.source.discrete_gaussian(sigma, block))

    def _serve(self, law: tuple[str, float], size: int, fetch: Callable[[int], Integers]) -> Integers:
        waiting = self._waiting.get(law, np.empty(0, dtype=np.int64))
        if len(waiting) < size:
            waiting = np.concatenate([waiting, fetch(max(_PREFETCHED, size))])
        self._waiting[law] = waiting[size:]
        return waiting[:size].copy()
