"""Measures a ratio of CPU times, both sides in turns."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

Sides = tuple[Callable[[], object], Callable[[], object]]
"""What is measured, and what it is compared with."""

_FEWEST, _MOST = 5, 40
_SECONDS = 6.0  # on the clock, for a ratio that is within its band ...
_SECONDS_OVER = 20.0  # ... and for one that is not


@dataclass(frozen=True)
class Measured:
    """The least CPU seconds of both sides."""

    name: str
    meaning: str
    upper: float
    lower: float

    @property
    def ratio(self) -> float:
        """Of the one over the other."""
        return self.upper / self.lower


def measure(name: str, meaning: str, sides: Sides, *, limit: float | None) -> Measured:
    """Take turns until the time is up; longer as long as the ratio is over its limit."""
    started, least = time.monotonic(), [float("inf"), float("inf")]
    for turn in range(_MOST):
        for place, side in enumerate(sides):
            before = _cpu_seconds()
            side()
            least[place] = min(least[place], _cpu_seconds() - before)
        over = limit is not None and least[0] / least[1] > limit
        if turn + 1 >= _FEWEST and time.monotonic() - started > (_SECONDS_OVER if over else _SECONDS):
            break
    return Measured(name, meaning, least[0], least[1])


def _cpu_seconds() -> float:
    """User and system time of this process and of the children that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
