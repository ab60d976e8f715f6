"""One claim put to the test: a pair of neighbouring inputs, observed through a channel, against an epsilon.

A channel is what the observer gets to see. Some defects do not show in a single answer: they show in how long
it took, in a second answer to the same request, or in what a restarted process says. Every channel starts
processes through a function, asks them, and writes down what came back as rows of numbers.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from likeset.arguments import count
from likeset.audit.bounds import LowerBound, lower_bounds
from likeset.audit.neighbours import Neighbours
from likeset.audit.partitions import Score
from likeset.audit.power import Power, power
from likeset.privacy.accounting import guarantee
from likeset.privacy.events import Event, Relation
from likeset.privacy.noise import Noise

__all__ = [
    "SMALL_DELTA",
    "Channel",
    "Claim",
    "Observe",
    "Process",
    "Trial",
    "TrialVerdict",
    "claim_at",
    "claims",
    "draws",
    "repeated_answers",
    "restarted_answers",
    "run_trial",
    "trial_of",
]

SMALL_DELTA = 1e-5
"""Every claim is also audited at this delta: what is sent rarely, or depends on rows in a bit, shows there."""


class Channel(StrEnum):
    """What the observer sees."""

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
    """What a trial showed about one of its claims.

    Attributes:
        trial: what was observed.
        claim: the claim.
        bound: the lower bound on epsilon.
        power: what would have been found.
        seconds: how long it took to observe and to bound, for all claims of the trial together.
    """

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
    """Observe both inputs and bound epsilon from below: one verdict for each claim, from the same observations.

    Args:
        trial: what to observe.
        samples: replaces the trial's own number.
    """
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
    *,
    claims: tuple[Claim, ...],
    noise: Noise,
    samples: int,
    unseen: str,
    relation: Relation,
    channel: Channel = Channel.OUTPUT,
    score: Score | None = None,
) -> Trial:
    """A trial of a pair, with the words that the pair and the noise have for themselves."""
    return Trial(
        mechanism=mechanism,
        pair=pair.words,
        relation=relation,
        channel=channel,
        noise="secret" if noise.private else "simulated",
        claims=claims,
        observe=observe,
        samples=samples,
        unseen=unseen,
        score=score,
    )


def claim_at(delta: float, event: Event, relation: Relation) -> Claim:
    """What the accountant says about an event."""
    return Claim(guarantee(event, relation=relation, delta=delta).epsilon, delta)


def claims(event: Event, *, delta: float, relation: Relation) -> tuple[Claim, ...]:
    """What the accountant says about an event at ``delta`` and at ``SMALL_DELTA``."""
    return tuple(claim_at(level, event, relation) for level in dict.fromkeys((delta, SMALL_DELTA)))


class Process(Protocol):
    """Something that was started on one of the inputs and answers requests about it."""

    def answer(self, request: int) -> ArrayLike:
        """The answer to a request; the same number is the same request, asked again."""


Start = Callable[[int], Process]
"""Starts a process on one of the two inputs (0 or 1)."""


def draws(draw: Callable[[int], ArrayLike]) -> Observe:
    """From a function that runs the mechanism once on input 0 or 1, run as often as needed."""
    return lambda side, size: [_numbers(draw(side)) for _ in range(size)]


def repeated_answers(start: Start, *, times: int) -> Observe:
    """One process, every request asked ``times`` times; an observation is all its answers side by side."""

    def observe(side: int, size: int) -> ArrayLike:
        process = start(side)
        return [
            [number for _ in range(times) for number in _numbers(process.answer(request))] for request in range(size)
        ]

    return observe


def restarted_answers(start: Start) -> Observe:
    """A newly started process for every observation, asked once: what memory held before is gone."""
    return lambda side, size: [_numbers(start(side).answer(0)) for _ in range(size)]


def _numbers(answer: ArrayLike) -> list[float]:
    numbers: list[float] = np.asarray(answer, dtype=np.float64).ravel().tolist()
    return numbers
