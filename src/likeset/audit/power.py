"""What a bound could have shown: how large a violation must be before so many observations find it.

A claim that is not refuted says little unless one knows what would have refuted it. Two violations are weighed, both
the easiest of their kind, so that smaller ones cannot be found by any event:

* too large an epsilon in a likely event: with probability delta the input is told, else randomised response;
* a raw value (or anything else that the other input excludes) that is sent now and then.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from likeset.audit.bounds import ERROR, epsilons

__all__ = ["Power", "power"]

_DEVIATIONS = 4.0  # what is called found is found unless luck is this bad: once in 30 000 times
_LARGEST = 40.0
_STEPS = 40


@dataclass(frozen=True)
class Power:
    """The smallest violations that would be found, but for bad luck of 4 standard deviations.

    Attributes:
        epsilon: the true epsilon from which on a claim is refuted, at best; infinite if no epsilon is enough.
        leak: the probability from which on a raw value is noticed; infinite if not even certainty is enough.
    """

    epsilon: float
    leak: float


def power(claimed: float, *, delta: float, samples: int, error: float = ERROR) -> Power:
    """What could refute (``claimed``, ``delta``) with so many observations of either input, both halves counted."""
    trials = samples - samples // 2

    def refutes(likelier: float, rarer: float) -> bool:
        # Both counts as unlucky as we allow for; the exact bound is then computed as if they had been seen.
        unlucky = [_DEVIATIONS * math.sqrt(trials * share * (1 - share)) for share in (likelier, rarer)]
        hits = np.array([max(0, math.floor(trials * likelier - unlucky[0]))])
        misses = np.array([min(trials, math.ceil(trials * rarer + unlucky[1]))])
        return bool(epsilons(hits, misses, trials=trials, delta=delta, error=error / 4)[0] > claimed)

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
