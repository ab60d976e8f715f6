"""The paper's three schedules by name: how many steps of which epsilon each mean release takes.

``theorem`` is what its main theorem states, ``proof`` what the appendix computes with, ``experiment`` what
Section 4 ran. They differ, and none of them is a guarantee: the accountant prices what a schedule does.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from likeset.arguments import count, one_of, positive
from likeset.errors import InvalidArgument
from likeset.privacy.events import Composition, Event, ExponentialChoice, Laplace, Quantity, Repeated

NAMES = ("theorem", "proof", "experiment")
CHANGING = ("theorem", "proof")
"""Schedules whose releases of the summary differ from round to round, each with a price of its own."""

DIMENSION, GAMMA = 140, 0.1
"""Of the release's features in the paper's experiments."""


@dataclass(frozen=True, slots=True)
class Steps:
    """One run of Algorithm 2.

    Args:
        iterations: the paper's T.
        epsilon: the paper's eps of each choice and each measurement.
    """

    iterations: int
    epsilon: float

    def event(self, quantity: Quantity) -> Event:
        choice = ExponentialChoice(rate=self.epsilon, quantity=quantity)
        measurement = Laplace(scale=1.0 / self.epsilon, quantity=quantity)
        return Repeated(Composition((choice, measurement)), self.iterations)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule for one run of the paper's protocol.

    Args:
        name: one of ``NAMES``.
        size: how many rounds it is for (the paper's p).
        target: the one release of the target mean (eps_v).
        _round: steps of the release of the summary mean in a given round.
    """

    name: str
    size: int
    target: Steps
    _round: Callable[[int], Steps]

    def summary(self, round_number: int) -> Steps:
        """The release of the summary mean in a round, counted from 1 (the paper's eps_{l,T})."""
        return self._round(count("round_number", round_number, most=self.size, most_is="the size"))


def schedule(name: str, *, dimension: int, size: int, epsilon: float, delta: float) -> Schedule:
    """One of the paper's schedules.

    Args:
        name: ``theorem``, ``proof`` or ``experiment``.
        dimension: the paper's d.
        size: the paper's p, at least 2.
        epsilon: the epsilon that the theorem promises; ``experiment`` has numbers of its own and does not use
            it.
        delta: the delta that the theorem promises; not used by ``experiment``.
    """
    one_of("name", name, NAMES)
    count("dimension", dimension)
    count("size", size, least=2)
    positive("epsilon", epsilon)
    if not 0.0 < delta < 1.0 / math.e:
        raise InvalidArgument("delta", delta, "must be above 0 and below 1/e, as in the paper")
    if name == "experiment":
        later = Steps(iterations=5, epsilon=0.01 / math.sqrt(5.0 * size))
        first = Steps(iterations=math.floor(dimension**1.5), epsilon=0.05)
        target = Steps(iterations=first.iterations, epsilon=0.01)
        return Schedule(name, size, target, lambda number: first if number == 1 else later)
    iterations = dimension**2
    factor = 16.0 if name == "theorem" else 36.0
    # The theorem divides by 16 T where the appendix takes the root of it: 1/(16 T) can only be a misprint.
    divisor = 16.0 * iterations if name == "theorem" else math.sqrt(16.0 * iterations)
    shrink = factor * iterations * math.log(1.0 / delta) * math.log(size)
    return Schedule(
        name,
        size,
        Steps(iterations=iterations, epsilon=epsilon / divisor),
        lambda number: Steps(iterations=iterations, epsilon=epsilon / math.sqrt(shrink * number)),
    )


def auction_epsilon(*, owners: int, epsilon: float, delta: float) -> float:
    """The paper's eps_auc = eps / (3 sqrt(2) log(1/delta)) * K^(-1/3)."""
    shrink = 3.0 * math.sqrt(2.0) * math.log(1.0 / delta) * math.cbrt(count("owners", owners))
    return positive("epsilon", epsilon) / shrink


def auction_patience(owners: int) -> int:
    """The paper's tau = K^(2/3), rounded up to a whole number of rounds."""
    # 1e-9 keeps an exact power such as 8^(2/3) = 4 from being rounded up by floating point.
    return math.ceil(math.cbrt(count("owners", owners)) ** 2 - 1e-9)
