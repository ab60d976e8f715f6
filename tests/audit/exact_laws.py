"""Epsilon and delta of two laws that can be written out in full: no sampling, no confidence.

A law is a mapping from outcomes to probabilities; outcomes that are missing have probability zero.
"""

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

from likeset.errors import InvalidArgument

Outcome = TypeVar("Outcome", bound=Hashable)
Law = Mapping[Outcome, float]
"""Outcome -> probability."""


def hockey_stick(first: Law[Outcome], second: Law[Outcome], *, epsilon: float) -> float:
    """The smallest delta for which both directions hold at ``epsilon``."""
    _check("first", first)
    _check("second", second)
    outcomes = set(first) | set(second)
    return max(
        math.fsum(max(0.0, p.get(outcome, 0.0) - math.exp(epsilon) * q.get(outcome, 0.0)) for outcome in outcomes)
        for p, q in ((first, second), (second, first))
    )


def pure_epsilon(first: Law[Outcome], second: Law[Outcome]) -> float:
    """The smallest epsilon at delta 0; infinite if one law allows an outcome that the other excludes."""
    _check("first", first)
    _check("second", second)
    worst = 0.0
    for outcome in set(first) | set(second):
        p, q = first.get(outcome, 0.0), second.get(outcome, 0.0)
        if p == q:
            continue
        worst = max(worst, math.inf if min(p, q) == 0 else abs(math.log(p / q)))
    return worst


def _check(argument: str, law: Law[Outcome]) -> None:
    total = math.fsum(law.values())
    if any(not probability >= 0 for probability in law.values()) or abs(total - 1) > 1e-9:
        raise InvalidArgument(argument, f"law of total {total}", "probabilities must not be negative and must sum to 1")
