"""One claim put to the test: a pair of neighbouring inputs, observed through a channel, against an epsilon.

A channel is what the observer gets to see. Some defects do not show in a single answer: they show in how long
it took, in a second answer to the same request, or in what a restarted process says. Every channel starts
processes through a function, asks them, and writes down what came back as rows of numbers.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from likeset.arguments import count
from likeset.audit.bounds import LowerBound, lower_bound
from likeset.audit.partitions import Score

__all__ = [
    "Channel",
    "Finding",
    "Observe",
    "Process",
    "Trial",
    "draws",
    "repeated_answers",
    "restarted_answers",
    "run",
]


class Channel(StrEnum):
    """What the observer sees."""

    OUTPUT = "output"
    TRACE = "output and timing trace"
    REPEATED = "repeated request"
    RESTARTED = "restarted process"


Observe = Callable[[int, int], ArrayLike]
"""(which of the two inputs: 0 or 1, how many) -> that many independent observations, one per row."""


@dataclass(frozen=True)
class Trial:
    """A claim and how to observe it.

    Attributes:
        mechanism: what is audited.
        pair: the two neighbouring inputs, in words.
        channel: what the observer sees.
        noise: which noise was drawn, "secret" or "simulated".
        epsilon: the claim.
        delta: the delta of the claim.
        observe: draws observations.
        samples: how many observations under each input, unless told otherwise.
        score: where the likelihood ratio is known, a function that sorts observations by it.
    """

    mechanism: str
    pair: str
    channel: Channel
    noise: str
    epsilon: float
    delta: float
    observe: Observe
    samples: int
    score: Score | None = None


@dataclass(frozen=True)
class Finding:
    """What a trial showed.

    Attributes:
        trial: the claim.
        bound: the lower bound on epsilon.
        seconds: how long it took to observe and to bound.
    """

    trial: Trial
    bound: LowerBound
    seconds: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted (wrongly so with probability at most ``bound.error``)."""
        return self.bound.epsilon > self.trial.epsilon


def run(trial: Trial, *, samples: int | None = None) -> Finding:
    """Observe both inputs and bound epsilon from below; ``samples`` replaces the trial's own number."""
    size = trial.samples if samples is None else count("samples", samples, least=4)
    started = time.perf_counter()
    first, second = trial.observe(0, size), trial.observe(1, size)
    bound = lower_bound(first, second, delta=trial.delta, score=trial.score)
    return Finding(trial, bound, time.perf_counter() - started)


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
