"""The inverse of accounting: the least noise that a budget allows."""

import math
from collections.abc import Callable
from functools import lru_cache

from likeset.arguments import positive
from likeset.errors import InvalidArgument
from likeset.privacy.accounting import guarantee
from likeset.privacy.events import Composition, Event, ExponentialChoice, Gaussian, Laplace, Repeated
from likeset.privacy.guarantee import checked_delta
from likeset.privacy.relation import Relation, RowSum, SelectionSum

__all__ = ["gaussian_sigma", "least_noise", "mwem_epsilon"]

_PRECISION = 1e-6
_WIDEST = 2.0**60


def least_noise(
    make: Callable[[float], Event], *, relation: Relation, epsilon: float, delta: float, start: float
) -> float:
    """The smallest noise, to one part in a million, whose event costs at most ``epsilon`` at ``delta``.

    Args:
        make: the event for a given amount of noise; more noise must never cost more.
        relation: what neighbouring data are.
        epsilon: the budget.
        delta: at which epsilon is wanted.
        start: where to begin looking.
    """
    positive("epsilon", epsilon)
    checked_delta(delta)

    def fits(noise: float) -> bool:
        return guarantee(make(noise), relation=relation, delta=delta).epsilon <= epsilon

    low = high = positive("start", start)
    while not fits(high):
        low, high = high, 2.0 * high
        if high > start * _WIDEST:
            raise InvalidArgument("epsilon", epsilon, f"cannot be met at delta = {delta:g} by any amount of noise")
    while low == high or fits(low):
        low, high = low / 2.0, low
    while high / low > 1.0 + _PRECISION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def gaussian_sigma(
    quantity: RowSum | SelectionSum,
    *,
    coordinates: int,
    spacing: float,
    epsilon: float,
    delta: float,
) -> float:
    """The smallest sigma of one discrete Gaussian release within a budget; ``delta`` must be above zero."""
    return least_noise(
        lambda sigma: Gaussian(sigma=sigma, quantity=quantity, coordinates=coordinates, spacing=spacing),
        relation=quantity.relation,
        epsilon=epsilon,
        delta=delta,
        start=quantity.sensitivity / epsilon,
    )


def mwem_epsilon(quantity: RowSum | SelectionSum, *, iterations: int, epsilon: float, delta: float) -> float:
    """The largest per-step epsilon of the paper's Algorithm 2 (its eps) within a budget."""

    def event(noise: float) -> Event:
        step = ExponentialChoice(rate=1.0 / noise, quantity=quantity), Laplace(scale=noise, quantity=quantity)
        return Repeated(Composition(step), iterations)

    return 1.0 / least_noise(
        event,
        relation=quantity.relation,
        epsilon=epsilon,
        delta=delta,
        start=quantity.sensitivity * math.sqrt(iterations) / epsilon,
    )
