"""Epsilon and delta of two laws that can be written out in full: no sampling, no confidence.

A law is a mapping from outcomes to probabilities; outcomes that are missing have probability zero.
"""

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

Outcome = TypeVar("Outcome", bound=Hashable)
Law = Mapping[Outcome, float]
"""Outcome -> probability."""


def hockey_stick(first: Law[Outcome], second: Law[Outcome], *, epsilon: float) -> float:
    """The smallest delta for which both directions hold at ``epsilon``."""
    outcomes = set(first) | set(second)
    return max(
        math.fsum(max(0.0, p.get(outcome, 0.0) - math.exp(epsilon) * q.get(outcome, 0.0)) for outcome in outcomes)
        for p, q in ((first, second), (second, first))
    )


def pure_epsilon(first: Law[Outcome], second: Law[Outcome]) -> float:
    """The smallest epsilon at delta 0; infinite if one law allows an outcome that the other excludes."""
    worst = 0.0
    for outcome in set(first) | set(second):
        p, q = first.get(outcome, 0.0), second.get(outcome, 0.0)
        if p == q:
            continue
        worst = max(worst, math.inf if min(p, q) == 0 else abs(math.log(p / q)))
    return worst
