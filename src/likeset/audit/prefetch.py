"""Secret noise drawn in blocks, so that a mechanism can be run tens of thousands of times in a few seconds.

Calling OpenDP costs about 0.3 ms, a value within a call about 0.02 ms. The auditor therefore hands mechanisms
a noise that fetches a block and serves it value by value. The law is the same and no value is served twice.
It is for auditing only: values wait in memory before they are used.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from likeset.privacy.noise import Integers, Noise

__all__ = ["PrefetchedNoise"]

_BLOCK = 4096


class PrefetchedNoise:
    """The same laws as ``source``, in the same interface; Laplace and Gaussian values come from blocks."""

    def __init__(self, source: Noise) -> None:
        self._source = source
        self._waiting: dict[tuple[str, float], Integers] = {}

    @property
    def private(self) -> bool:
        """As private as what it was fetched from."""
        return self._source.private

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """Integers k with probability proportional to exp(-|k| / scale)."""
        return self._serve(("laplace", scale), size, lambda block: self._source.discrete_laplace(scale, block))

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        """Integers k with probability proportional to exp(-k² / (2 sigma²))."""
        return self._serve(("gaussian", sigma), size, lambda block: self._source.discrete_gaussian(sigma, block))

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        """A place i with probability proportional to exp(rate * scores[i]); not prefetched."""
        return self._source.exponential_choice(scores, rate)

    def bernoulli(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Independent coins, each true with its probability; not prefetched."""
        return self._source.bernoulli(probabilities)

    def rounding(self, fractions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Independent coins for rounding up; not prefetched."""
        return self._source.rounding(fractions)

    def _serve(self, law: tuple[str, float], size: int, fetch: Callable[[int], Integers]) -> Integers:
        waiting = self._waiting.get(law, np.empty(0, dtype=np.int64))
        if len(waiting) < size:
            waiting = np.concatenate([waiting, fetch(max(_BLOCK, size))])
        self._waiting[law] = waiting[size:]
        return waiting[:size].copy()
