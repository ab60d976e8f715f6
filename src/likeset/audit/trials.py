"""One claim put to the test: a pair of neighbouring inputs, observed through a channel, against an epsilon.

A channel is what the observer gets to see. Some defects do not show in a single answer: they show in how long
it took, in a second answer to the same request, or in what a restarted process says. Every channel starts
processes through a function, asks them, and writes down what came back as rows of numbers.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.arguments import count
from likeset.audit.auditor import LowerBound, Power, Score, lower_bounds, power
from likeset.privacy import width_choice
from likeset.privacy.accounting import guarantee
from likeset.privacy.auction import Bids
from likeset.privacy.events import Event, Relation
from likeset.privacy.noise import Integers, Noise

Data = TypeVar("Data", covariant=True)
Rows = NDArray[np.float64]

_TOP, _BOTTOM = 1e6, -1e6


@dataclass(frozen=True)
class Neighbours(Generic[Data]):
    """Two inputs that differ in one unit's rows, or in one owner's bid; ``words`` say how."""

    words: str
    first: Data
    second: Data

    def __getitem__(self, side: int) -> Data:
        return (self.first, self.second)[side]


def opposite_signs(rows: int, changed: int = 1) -> Neighbours[Integers]:
    """Numbers in {-1, +1}: the sum moves by 2 for each changed row, and additive noise knows only the distance."""
    first = np.ones(rows, dtype=np.int64)
    second = first.copy()
    second[:changed] = -1
    return Neighbours(f"{_rows(changed)} negated", first, second)


def removed_signs(rows: int, changed: int = 1) -> Neighbours[Integers]:
    """Numbers in {-1, +1}, all alike: the sum moves by 1 for each removed row."""
    return Neighbours(
        f"{_rows(changed)} removed", np.ones(rows, dtype=np.int64), np.ones(rows - changed, dtype=np.int64)
    )


def opposite_rows(rows: int, dimension: int, changed: int = 1) -> Neighbours[Rows]:
    """Unit rows: some point the other way, so the sum moves by a diameter, 2, for each of them.

    Gaussian noise is alike in all directions, so the direction does not matter.
    """
    first = np.tile(np.full(dimension, 1 / math.sqrt(dimension)), (rows, 1))
    second = first.copy()
    second[:changed] *= -1
    return Neighbours(f"{_rows(changed, 'unit row')} negated", first, second)


def opposite_axis_rows(rows: int, dimension: int, axis: int) -> Neighbours[Rows]:
    """Unit rows along one axis, one of them negated: all that moves is one coordinate, by 2."""
    first = np.zeros((rows, dimension))
    first[:, axis] = 1.0
    second = first.copy()
    second[0] *= -1
    return Neighbours(f"a row along axis {axis} is negated", first, second)


def removed_rows(rows: int, dimension: int, changed: int = 1) -> Neighbours[Rows]:
    """Unit rows that all point the same way: the sum moves by 1 for each removed row."""
    first = opposite_rows(rows, dimension).first
    return Neighbours(f"{_rows(changed, 'unit row')} removed", first, first[changed:])


def opposite_corners(dimension: int, bound: float, changed: int = 1) -> Neighbours[Rows]:
    """Rows with coordinates in [-bound, bound]: one coordinate of the sum rises while all others fall.

    A choice by the size of a coordinate folds signs, so a row that is merely negated does not move it. On
    top of as many other rows in a corner, the replaced rows move every coordinate's sum from 0 to 2 * bound (for each
    of them) or back: the scores of the choice move as far as they can, one against all others, and so does the sum
    that is measured.
    """
    first = np.full((2 * changed, dimension), bound)
    second = first.copy()
    first[:changed, 0] = -bound
    second[:changed, 1:] = -bound
    return Neighbours(f"{_rows(changed)} moved to the opposite corner", first, second)


def removed_corners(dimension: int, bound: float, changed: int = 1) -> Neighbours[Rows]:
    """The first of ``opposite_corners``, and the same without its changed rows: every sum moves by bound for each."""
    first = opposite_corners(dimension, bound, changed).first
    return Neighbours(f"{_rows(changed)} in a corner removed", first, first[changed:])


def opposite_scores(candidates: int, sensitivity: int) -> Neighbours[Integers]:
    """Scores that all move as far as they may, one of them against all others.

    The loss at that one is log(k / (1 + (k-1) e^(-2 rate sensitivity))) for k candidates, which tends to the
    supremum, 2 * rate * sensitivity, as k grows.
    """
    first = np.zeros(candidates, dtype=np.int64)
    second = np.full(candidates, -sensitivity, dtype=np.int64)
    second[0] = sensitivity
    return Neighbours("one score rises, all others fall", first, second)


def owner_is_overtaken(owners: int, rank: int) -> Neighbours[Bids]:
    """Owner 0 has this rank, until the last owner's bid jumps from the bottom to the top.

    At the rank of the threshold's offset, being asked is exactly randomised response with the claimed
    epsilon.
    """
    middle = tuple(float(rank - owner) for owner in range(1, owners - 1))
    # Owner 0 bids 0.5; exactly rank - 1 of the others bid 1 or more.
    return _bids("a rival's bid jumps to the top", (0.5, *middle, _BOTTOM), (0.5, *middle, _TOP))


def coalition_is_split(owners: int, rank: int) -> Neighbours[Bids]:
    """Owners 0 and 1 hold this rank and the next, until the last owner's bid comes between them.

    Asked the one and not the other means one value of the threshold, or two: below the offset the
    probabilities are in the ratio 1 to 1 + e^epsilon, the claim for coalitions.
    """
    above = tuple(_TOP + step for step in range(rank - 1))
    below = tuple(_BOTTOM - step for step in range(owners - rank - 2))
    coalition = (3.0, 1.0)
    return _bids(
        "a rival's bid comes between two allies",
        (*coalition, *above, *below, 2 * _BOTTOM),
        (*coalition, *above, *below, 2.0),
    )


def tie_is_lost(owners: int, rank: int) -> Neighbours[Bids]:
    """The last owner has this rank until owner 0, which a public rule prefers, raises its bid to a tie."""
    others = tuple(float(rank - owner) for owner in range(1, owners - 1))
    return _bids("a rival draws level, and ties go to it", (_BOTTOM, *others, 0.5), (0.5, *others, 0.5))


def absent_owner_appears(owners: int, rank: int) -> Neighbours[Bids]:
    """Owner 0 has this rank among those present until an absent owner appears with the highest bid."""
    pair = owner_is_overtaken(owners, rank)
    absent = (*pair.first.values[:-1], None)
    return _bids("an absent rival appears at the top", absent, pair.second.values)


def distance_collapses(candidates: int, changed: int = 1) -> Neighbours[Rows]:
    """Pairs of rows in one column; a row moves onto its partner, and one distance falls from large to zero.

    With one changed row there are four pairs. The other distances are zero, just above the first ``candidates`` of the
    grid, and large. So the count of distances rises by 1 at every candidate: from 1 to 2 of 4 at the first ones, whose
    score rises by 2, from 2 to 3 at all others, whose score falls by 2. That a rising one is chosen tells the more, the
    fewer they are: up to all of ``2 * rate * 2``. With more changed rows there are as many times more of everything.
    """
    grid = width_choice.grid(1)
    between = math.sqrt((grid[candidates - 1] + grid[candidates]) / 2)
    far = 10 * math.sqrt(grid[-1])
    first = np.zeros((8 * changed, 1))
    first[1::2, 0] = np.repeat([far, 0.0, between, far], changed)
    second = first.copy()
    second[1 : 2 * changed : 2, 0] = 0.0
    return Neighbours(f"{_rows(changed)} moved onto a partner", first, second)


def _rows(changed: int, row: str = "row") -> str:
    return f"a {row} is" if changed == 1 else f"{changed} {row}s are"


def _bids(words: str, first: tuple[float | None, ...], second: tuple[float | None, ...]) -> Neighbours[Bids]:
    """Nobody has waited: the patience of the paper's auction is not what is tried here."""
    waited = (1,) * len(first)
    return Neighbours(words, Bids(first, waited), Bids(second, waited))


SMALL_DELTA = 1e-5
"""Every claim is also audited at this delta: what is sent rarely, or depends on rows in a bit, shows there."""


class Channel(StrEnum):
    OUTPUT = "output"
    TRACE = "output and timing trace"
    REPEATED = "repeated request"
    RESTARTED = "restarted process"


Observe = Callable[[int, int], ArrayLike]
"""(which of the two inputs: 0 or 1, how many) -> that many independent observations, one per row."""


@dataclass(frozen=True)
class Claim:
    """What is claimed: (epsilon, delta)-differential privacy."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Trial:
    """Claims about one mechanism and how to observe it.

    Attributes:
        mechanism: what is audited.
        pair: the two neighbouring inputs, in words.
        relation: by which relation they are neighbours.
        channel: what the observer sees.
        noise: which noise was drawn, "secret" or "simulated".
        claims: what is claimed; all are put to the same observations.
        observe: draws observations.
        samples: how many observations under each input, unless told otherwise.
        unseen: what this trial does not look at, in words; ``TrialVerdict.power`` says how small a violation it misses.
        score: where more is known about the likelihood ratio, a function that sorts observations by it.
    """

    mechanism: str
    pair: str
    relation: Relation
    channel: Channel
    noise: str
    claims: tuple[Claim, ...]
    observe: Observe
    samples: int
    unseen: str
    score: Score | None = None


@dataclass(frozen=True)
class TrialVerdict:
    """What a trial showed about one of its claims; ``seconds`` are those of all claims of the trial together."""

    trial: Trial
    claim: Claim
    bound: LowerBound
    power: Power
    seconds: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted (wrongly so with probability at most ``bound.error``)."""
        return self.bound.epsilon > self.claim.epsilon


def run_trial(trial: Trial, *, samples: int | None = None) -> tuple[TrialVerdict, ...]:
    """Observe both inputs and bound epsilon from below: one verdict for each claim, from the same observations."""
    size = trial.samples if samples is None else count("samples", samples, least=4)
    started = time.perf_counter()
    first, second = trial.observe(0, size), trial.observe(1, size)
    bounds = lower_bounds(first, second, deltas=[claim.delta for claim in trial.claims], score=trial.score)
    seconds = time.perf_counter() - started
    return tuple(
        TrialVerdict(trial, claim, bound, power(claim.epsilon, delta=claim.delta, samples=size), seconds)
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
    unseen: str,
    delta: float = 0.0,
    relation: Relation = Relation.REPLACE_ONE,
    channel: Channel = Channel.OUTPUT,
    score: Score | None = None,
) -> Trial:
    """A trial of a pair. Of an event, what the accountant says is claimed, at ``delta`` and at ``SMALL_DELTA``."""
    held_to = claimed if isinstance(claimed, tuple) else claims(claimed, (delta, SMALL_DELTA), relation)
    kind = "secret" if noise.private else "simulated"
    return Trial(mechanism, pair.words, relation, channel, kind, held_to, observe, samples, unseen, score)


def claims(event: Event, deltas: Iterable[float], relation: Relation) -> tuple[Claim, ...]:
    return tuple(
        Claim(guarantee(event, relation=relation, delta=delta).epsilon, delta) for delta in dict.fromkeys(deltas)
    )


class Process(Protocol):
    """Something that was started on one of the inputs and answers requests about it."""

    def answer(self, request: int) -> ArrayLike:
        """The same number is the same request, asked again."""


def draws(draw: Callable[[int], ArrayLike]) -> Observe:
    """From a function that runs the mechanism once on input 0 or 1, run as often as needed."""
    return lambda side, size: [_numbers(draw(side)) for _ in range(size)]


def repeated_answers(start: Callable[[int], Process], *, times: int) -> Observe:
    """One process, every request asked ``times`` times; an observation is all its answers side by side."""

    def observe(side: int, size: int) -> ArrayLike:
        process = start(side)
        return [
            [number for _ in range(times) for number in _numbers(process.answer(request))] for request in range(size)
        ]

    return observe


def restarted_answers(start: Callable[[int], Process]) -> Observe:
    """A newly started process for every observation, asked once: what memory held before is gone."""
    return lambda side, size: [_numbers(start(side).answer(0)) for _ in range(size)]


def _numbers(answer: ArrayLike) -> list[float]:
    numbers: list[float] = np.asarray(answer, dtype=np.float64).ravel().tolist()
    return numbers


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
# that way is a mechanism that remembers one run in the next: channels that ask again or restart are for that.


class RunsAtOnce(WrappedNoise):
    """The same laws as ``source``; additive noise comes with one row for each of ``runs`` runs."""

    def __init__(self, source: Noise, runs: int) -> None:
        super().__init__(source)
        self._runs = runs

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        return self.source.discrete_laplace(scale, self._runs * size).reshape(self._runs, size)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return self.source.discrete_gaussian(sigma, self._runs * size).reshape(self._runs, size)

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        raise NotImplementedError("a choice is made for one run")

    def bernoulli(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        raise NotImplementedError("coins are tossed for one run")

    def rounding(self, fractions: NDArray[np.float64]) -> NDArray[np.bool_]:
        raise NotImplementedError("coins are tossed for one run")


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
