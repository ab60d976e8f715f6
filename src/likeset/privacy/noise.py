"""The only secret randomness: integer noise, drawn exactly, from the system's secure generator.

``SecretNoise`` protects; ``SimulatedNoise`` has the same interface and laws, is seeded and fast, and protects
nobody: every release made with it says so, because mechanisms build releases with ``make_release``.
"""

import math
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import count, positive
from likeset.errors import InvalidArgument, NoiseUnavailable
from likeset.privacy.events import Event, Release, Simulated

Integers = NDArray[np.int64]
Value = TypeVar("Value")

_COIN_BITS = 53  # as many as a float64 probability has


class Noise(Protocol):
    @property
    def private(self) -> bool: ...

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """Integers k with probability proportional to exp(-|k| / scale)."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        """Integers k with probability proportional to exp(-k² / (2 sigma²))."""

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        """A place i with probability proportional to exp(rate * scores[i])."""

    def bernoulli(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Independent coins, each true with its probability."""

    def rounding(self, fractions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Independent coins for rounding up, each true with probability ``fractions``, many at once."""


class SecretNoise:
    """Noise from OpenDP's exact samplers; ``NoiseUnavailable`` if the secure generator gives nothing."""

    __slots__ = ()

    def __init__(self) -> None:
        self.bernoulli(np.array([0.5]))
        self.rounding(np.array([0.5]))

    @property
    def private(self) -> bool:
        return True

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        sampler = _laplace(positive("scale", scale))
        return np.asarray(_draw(sampler, [0] * count("size", size)), dtype=np.int64)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        sampler = _gaussian(positive("sigma", sigma))
        return np.asarray(_draw(sampler, [0] * count("size", size)), dtype=np.int64)

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        return int(_draw(_choice(1.0 / positive("rate", rate)), _checked_scores(scores).tolist()))

    def bernoulli(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        flat = _checked_probabilities(probabilities).ravel().tolist()
        # The sampler keeps an answer with a probability of at least one half: ask it about the likelier side.
        coins = [_draw(_response(max(p, 1.0 - p)), p >= 0.5) for p in flat]
        return np.asarray(coins, dtype=np.bool_).reshape(np.shape(probabilities))

    def rounding(self, fractions: NDArray[np.float64]) -> NDArray[np.bool_]:
        # Privacy does not rest on the exact law of these coins, only on every row having coins of its own, so
        # 53 bits straight from the system do, and they are a thousand times faster.
        wanted = _checked_probabilities(fractions)
        bits = _random_words(wanted.size) >> np.uint64(64 - _COIN_BITS)
        below: NDArray[np.bool_] = bits.reshape(wanted.shape).astype(np.float64) < wanted * 2.0**_COIN_BITS
        return below


class SimulatedNoise:
    """The same laws from a seeded generator, for studies: not private, and every release says so."""

    __slots__ = ("_coins",)

    def __init__(self, seed: int) -> None:
        self._coins = np.random.default_rng(count("seed", seed, least=0))

    @property
    def private(self) -> bool:
        return False

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        # The difference of two geometric numbers.
        success = -math.expm1(-1.0 / positive("scale", scale))
        drawn = self._coins.geometric(success, size=(2, count("size", size)))
        return np.asarray(drawn[0] - drawn[1], dtype=np.int64)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        # By rejection from discrete Laplace noise (Canonne, Kamath and Steinke 2020, Algorithm 3), in floating point.
        scale = math.floor(positive("sigma", sigma)) + 1.0
        kept: list[Integers] = []
        missing = count("size", size)
        while missing > 0:
            proposed = self.discrete_laplace(scale, 2 * missing + 16)
            log_kept = -((np.abs(proposed) - sigma**2 / scale) ** 2) / (2.0 * sigma**2)
            kept.append(proposed[self._coins.random(len(proposed)) < np.exp(log_kept)][:missing])
            missing -= len(kept[-1])
        return np.concatenate(kept)

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        checked = _checked_scores(scores)
        return int(np.argmax(positive("rate", rate) * checked + self._coins.gumbel(size=len(checked))))

    def bernoulli(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        checked = _checked_probabilities(probabilities)
        below: NDArray[np.bool_] = self._coins.random(checked.shape) < checked
        return below

    def rounding(self, fractions: NDArray[np.float64]) -> NDArray[np.bool_]:
        return self.bernoulli(fractions)


def random_order(size: int, noise: Noise) -> Integers:
    """Places 0 to ``size`` - 1 in an order that is secret and uniform; as they are where the noise is simulated.

    Whatever depends on the order of rows is private for a *set* of rows only if that order tells nothing about them: a
    file may be sorted. Two keys are equal with a probability below size² / 2^129.
    """
    if not noise.private:
        return np.arange(size)
    return np.lexsort(tuple(_random_words(2 * size).reshape(2, size))).astype(np.int64)


def _random_words(count: int) -> NDArray[np.uint64]:
    try:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    except (NotImplementedError, OSError) as error:
        raise NoiseUnavailable("the system has no secure generator") from error


def make_release(value: Value, event: Event, noise: Noise) -> Release[Value]:
    """A release that says what was done, and that it protects nobody if the noise was not secret."""
    return Release(value, event if noise.private else Simulated(event))


def _checked_scores(scores: Integers) -> Integers:
    if scores.ndim != 1 or scores.size == 0 or scores.dtype != np.int64:
        raise InvalidArgument("scores", f"array of shape {scores.shape}", "must be a vector of 64-bit integers")
    return scores


def _checked_probabilities(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    if not np.all((probabilities >= 0.0) & (probabilities <= 1.0)):
        raise InvalidArgument("probabilities", f"array of shape {probabilities.shape}", "must lie in [0, 1]")
    return probabilities


def _draw(sampler: Callable[[Any], Any], argument: Any) -> Any:
    """One draw; a failure of the secure generator is reported as such."""
    from opendp.mod import OpenDPException

    try:
        return sampler(argument)
    except OpenDPException as error:
        raise NoiseUnavailable(f"the sampler failed ({error.variant}); nothing was drawn") from error


@lru_cache(maxsize=64)
def _laplace(scale: float) -> Callable[[Any], Any]:
    from opendp import domains, measurements, metrics

    _enable()
    return measurements.make_laplace(_integer_vector(domains), metrics.l1_distance(T="i64"), scale=scale)


@lru_cache(maxsize=64)
def _gaussian(sigma: float) -> Callable[[Any], Any]:
    from opendp import domains, measurements, metrics

    _enable()
    return measurements.make_gaussian(_integer_vector(domains), metrics.l2_distance(T="f64"), scale=sigma)


@lru_cache(maxsize=64)
def _choice(scale: float) -> Callable[[Any], Any]:
    from opendp import domains, measurements, measures, metrics

    _enable()
    # Under this measure the sampler adds Gumbel noise, which is the exponential mechanism itself; under pure
    # privacy it would add exponential noise, another law (permute-and-flip) without the bounded range.
    return measurements.make_noisy_max(
        _integer_vector(domains),
        metrics.linf_distance(T="i64"),
        measures.zero_concentrated_divergence(),
        scale=scale,
    )


@lru_cache(maxsize=4096)
def _response(probability: float) -> Callable[[Any], Any]:
    from opendp import measurements

    _enable()
    return measurements.make_randomized_response_bool(probability)


def _integer_vector(domains: Any) -> Any:
    return domains.vector_domain(domains.atom_domain(T="i64"))


def _enable() -> None:
    """Allow what OpenDP calls ``contrib``: every sampler that we use is still filed under it."""
    from opendp.mod import enable_features

    enable_features("contrib")
