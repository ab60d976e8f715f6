"""Kinds of privacy loss and what they add up to. Proofs: docs/proofs/accounting.md.

Every mechanism that is priced here is one of three kinds: *pure* (the loss never exceeds epsilon), *bounded
range* (the loss lies in a window of known width), *normal* (the loss is that of Gaussian noise, up to a small
statistical distance).
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from likeset.privacy import bounded_range

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = [
    "BoundedRange",
    "ComposedLosses",
    "Normal",
    "PrivacyLoss",
    "Pure",
    "epsilon_of_rho",
    "rounding_distance",
]

# Any order gives a valid bound; the grid is fine enough that the best of them is within 1e-4 of the best of
# all.
_ORDERS: NDArray[np.float64] = 1.0 + np.geomspace(0.02, 1e6, 1000)
# Below this delta the error of floating-point convolutions could show.
_LEAST_DELTA_FOR_CONVOLUTION = 1e-10
_LOSS_STEP = 1e-4
# A convolution is an array of losses in such steps, and a binomial law one of all outcomes: beyond these sizes the
# bound by Rényi divergences has to do, whoever wrote the numbers.
_WIDEST_CONVOLVED = 100.0
_MOST_RESPONSES = 1 << 17
_HALVINGS = 60
_ROUNDING = 1e-13


@dataclass(frozen=True, slots=True)
class Pure:
    """The privacy loss is at most ``pure`` in absolute value."""

    pure: float

    @property
    def rho(self) -> float:
        """Pure privacy is concentrated: epsilon²/2 (Bun and Steinke 2016, Prop. 3.3), at most epsilon."""
        return min(self.pure**2 / 2.0, self.pure)


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """The privacy loss lies in some window of this width that contains zero."""

    width: float

    @property
    def pure(self) -> float:
        """A window that contains zero reaches no further than its width."""
        return self.width

    @property
    def rho(self) -> float:
        """By Hoeffding's lemma: width²/8 (Cesar and Rogers 2021, Lemma 3.2), at most the width."""
        return min(self.width**2 / 8.0, self.width)


@dataclass(frozen=True, slots=True)
class Normal:
    """Discrete Gaussian noise: ``shift`` is sensitivity over sigma.

    ``distance`` bounds the statistical distance from continuous noise that was rounded to the lattice.
    """

    shift: float
    distance: float

    @property
    def pure(self) -> float:
        """Gaussian noise is not purely private."""
        return math.inf

    @property
    def rho(self) -> float:
        """Discrete noise is as concentrated as continuous (Canonne, Kamath and Steinke 2020, Theorem 4)."""
        return self.shift**2 / 2.0


PrivacyLoss = Pure | BoundedRange | Normal


def _surcharge(orders: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    return np.asarray(np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class ComposedLosses:
    """A composition, sorted by kind."""

    pure: tuple[tuple[float, int], ...]
    ranges: tuple[tuple[float, int], ...]
    shift: float
    distance: float

    @classmethod
    def of(cls, losses: Iterable[tuple[PrivacyLoss, int]]) -> Self:
        """Collect steps and how often each is taken; Gaussian steps add up to a single one."""
        pure: Counter[float] = Counter()
        ranges: Counter[float] = Counter()
        squares = distance = 0.0
        for part, times in losses:
            match part:
                case Pure(epsilon):
                    pure[epsilon] += times
                case BoundedRange(width):
                    ranges[width] += times
                case Normal():
                    squares += times * part.shift**2
                    distance += times * part.distance
        return cls(tuple(sorted(pure.items())), tuple(sorted(ranges.items())), math.sqrt(squares), distance)

    def epsilon(self, delta: float, *, exact_choices: bool) -> tuple[float, str]:
        """The smallest epsilon that is proven at this delta, and the name of the proof."""
        if not (self.pure or self.ranges or self.shift):
            return 0.0, "nothing released"
        bounds = [(self._sum(), "sum of pure bounds")]
        if delta > 0.0:
            bounds.append((self._renyi(delta), "Rényi divergences"))
            # Both need an upper bound on epsilon, because what rounding adds to delta grows with it.
            left = delta - self.distance * (1.0 + math.exp(min(min(bounds)[0], 700.0)))
            if left > 0.0 and not (self.pure or self.ranges):
                bounds.append((_gaussian_epsilon(self.shift, left), "Gaussian, exact"))
            elif left > _LEAST_DELTA_FOR_CONVOLUTION and not self.ranges:
                bounds += self._exact_responses(left)
            if exact_choices and len(self.ranges) == 1 and not self.shift:
                bounds.append((self._exact_choices(delta), "exact worst case of choices"))
        return min(bounds)

    def _exact_responses(self, delta: float) -> list[tuple[float, str]]:
        """By the worst case of pure steps, which is randomised response; nothing where that would be too large."""
        if len(self.pure) == 1 and not self.shift:
            ((epsilon, times),) = self.pure
            if times <= _MOST_RESPONSES:
                return [(_responses_epsilon(epsilon, times, delta), "randomised responses, exact")]
        if not self._fits_convolution():
            return []
        return [(_convolved_epsilon(self.pure, self.shift, delta), "privacy loss distribution")]

    def _fits_convolution(self) -> bool:
        # Each loss is rounded up to a step at least, so that many tiny ones take as much room as many steps.
        spread = sum(max(epsilon * math.sqrt(times), _LOSS_STEP * times) for epsilon, times in self.pure)
        return self.shift * (1.0 + self.shift) + spread <= _WIDEST_CONVOLVED

    def advantage(self) -> float:
        """An upper bound on the statistical distance between outputs on neighbouring data: delta at epsilon 0."""
        if not (self.pure or self.ranges or self.shift):
            return 0.0
        divergence = float(self._renyi_curve().min())  # of every order above 1, so of order 1 as well
        bounds = [math.sqrt(divergence / 2.0), math.sqrt(-math.expm1(-divergence)), math.tanh(self._sum() / 2.0)]
        rounding = 2.0 * self.distance
        if not (self.pure or self.ranges):
            bounds.append(math.erf(self.shift / math.sqrt(8.0)) + rounding)
        elif len(self.ranges) == 1:
            ((width, times),) = self.ranges
            exact = bounded_range.advantage(width=width, times=times, pure=self.pure, shift=self.shift)
            bounds.append(exact + rounding)
        elif not self.ranges and sum(times for _, times in self.pure) <= _MOST_RESPONSES:
            bounds += [found + rounding for found in self._pure_advantage()]
        return min(1.0, *bounds)

    def _pure_advantage(self) -> list[float]:
        """By randomised responses, with a Gaussian step if there is one; nothing where that would be too large."""
        if len(self.pure) == 1 and not self.shift:
            return [_responses_delta(*self.pure[0], 0.0)]
        if not self._fits_convolution():
            return []
        return [float(_convolved(self.pure, self.shift).get_delta_for_epsilon(0.0))]

    def _exact_choices(self, delta: float) -> float:
        ((width, times),) = self.ranges
        # At this delta nothing is left beyond the grid; the same for all deltas, so that they share one
        # table.
        reach = self._renyi(min(_LEAST_DELTA_FOR_CONVOLUTION, delta * 1e-3))
        return bounded_range.epsilon_at(delta, width=width, times=times, pure=self.pure, reach=reach)

    def _sum(self) -> float:
        if self.shift:
            return math.inf
        return sum(epsilon * times for epsilon, times in self.pure + self.ranges)

    def _renyi(self, delta: float) -> float:
        return _from_renyi(self._renyi_curve(), delta)

    def _renyi_curve(self) -> NDArray[np.float64]:
        linear = self.shift**2 / 2.0 + sum(times * BoundedRange(width).rho for width, times in self.ranges)
        curve = linear * _ORDERS
        for epsilon, times in self.pure:
            curve = curve + times * _response_divergence(epsilon, _ORDERS)
        return curve


def epsilon_of_rho(rho: float, delta: float) -> float:
    """The epsilon that rho-zCDP amounts to (Canonne, Kamath and Steinke 2020, Prop. 12)."""
    if rho == 0.0:
        return 0.0
    if math.isinf(rho) or delta == 0.0:
        return math.inf
    return _from_renyi(rho * _ORDERS, delta)


def rounding_distance(coordinates: int, sigma: float) -> float:
    """How far discrete Gaussian noise can be from continuous noise rounded to the same lattice.

    ``sigma`` counts lattice steps. Per coordinate the statistical distance is at most
    ``1/(sigma*sqrt(2*pi))``: docs/proofs/gaussian-mean.md, lemma 3.
    """
    return coordinates / (sigma * math.sqrt(2.0 * math.pi))


def _from_renyi(curve: NDArray[np.float64], delta: float) -> float:
    """As ``dp_accounting.rdp.compute_epsilon`` (a test compares them), for all orders at once."""
    # Where delta is above sqrt(1 - e^-divergence), epsilon is 0: that root bounds the statistical distance.
    within_delta = delta**2 + np.expm1(-curve) > 0.0
    return max(0.0, float(np.where(within_delta, 0.0, curve + _surcharge(_ORDERS, delta)).min()))


def _response_divergence(epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rényi divergence of randomised response: no purely private mechanism has a larger one.

    With p = e^epsilon / (1 + e^epsilon) and q = 1 - p it is log(p^a q^(1-a) + q^a p^(1-a)) / (a - 1).
    """
    log_q = -epsilon - math.log1p(math.exp(-epsilon))
    log_p = -math.log1p(math.exp(-epsilon))
    total = np.logaddexp(orders * log_p + (1 - orders) * log_q, orders * log_q + (1 - orders) * log_p)
    return np.asarray(np.maximum(total, 0.0) / (orders - 1.0), dtype=np.float64)


@lru_cache(maxsize=256)
def _responses_epsilon(epsilon: float, times: int, delta: float) -> float:
    """The least epsilon of ``times`` randomised responses; the result allows for one part in a million of delta."""
    allowed = delta * (1.0 - 1e-6)
    low, high = 0.0, times * epsilon
    if _responses_delta(epsilon, times, low) <= allowed:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if _responses_delta(epsilon, times, middle) <= allowed else (middle, high)
    return high + _ROUNDING * times * epsilon  # losses themselves are as exact as floating point is at their size


def _responses_delta(epsilon: float, times: int, bound: float) -> float:
    """Delta of ``times`` randomised responses at an epsilon of ``bound``: their losses have a binomial law.

    With k responses in favour the loss is (2k - times) * epsilon, and delta at x is the sum over all losses above x
    of P(k) * (1 - e^(x - loss)) (Kairouz, Oh and Viswanath 2015, Theorem 3.3): a sum of positive terms, which falls
    with x. It is computed to better than one part in a million.
    """
    chances, losses = _response_law(epsilon, times)
    return float(chances @ -np.expm1(np.minimum(bound - losses, 0.0)))


@lru_cache(maxsize=16)
def _response_law(epsilon: float, times: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.special import gammaln

    heads = np.arange(times + 1, dtype=np.float64)
    log_q = -epsilon - math.log1p(math.exp(-epsilon))
    logs = gammaln(times + 1.0) - gammaln(heads + 1.0) - gammaln(times - heads + 1.0) + times * log_q + heads * epsilon
    return np.exp(logs), (2.0 * heads - times) * epsilon


@lru_cache(maxsize=256)
def _gaussian_epsilon(shift: float, delta: float) -> float:
    # Imported late, here and below: loading the library takes seconds that most commands never need.
    from dp_accounting import get_epsilon_gaussian

    # The library solves for epsilon to a relative error of 1e-9 in delta: stay on the safe side of that.
    allowed = delta * (1.0 - 1e-6)
    if math.erf(shift / math.sqrt(8.0)) <= allowed:
        return 0.0  # the statistical distance of two normal laws, which the library takes for 0 where it is tiny
    with np.errstate(divide="ignore"):
        epsilon = float(get_epsilon_gaussian(1.0 / shift, allowed))
    return epsilon if epsilon > 0.0 else math.inf  # 0 cannot be true here: then another bound has to do


@lru_cache(maxsize=256)
def _convolved_epsilon(pure: tuple[tuple[float, int], ...], shift: float, delta: float) -> float:
    return float(_convolved(pure, shift).get_epsilon_for_delta(delta))


@lru_cache(maxsize=8)
def _convolved(pure: tuple[tuple[float, int], ...], shift: float) -> "PrivacyLossDistribution":
    """Convolve the losses of randomised responses and of one Gaussian; the library rounds losses upwards."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    whole = pld.identity(value_discretization_interval=_LOSS_STEP)
    if shift:
        whole = whole.compose(pld.from_gaussian_mechanism(1.0 / shift, value_discretization_interval=_LOSS_STEP))
    for epsilon, times in pure:
        # With two buckets and this parameter the likelihood ratios are exactly e^epsilon and e^-epsilon.
        single = pld.from_randomized_response(
            noise_parameter=2.0 / (1.0 + math.exp(epsilon)),
            num_buckets=2,
            value_discretization_interval=_LOSS_STEP,
        )
        whole = whole.compose(single.self_compose(times))
    return whole
