"""Many runs of a mechanism in one call, where its arithmetic is the same for one row of noise and for many.

A mechanism that adds noise to a sum does so by numpy's broadcasting: handed the noise of ``runs`` runs, one row each,
it returns one row per run. It is the mechanism's own code that is observed, a hundred times faster. What cannot show
that way is a mechanism that remembers one run in the next: channels that ask again or restart are for that.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.audit.trials import Observe
from likeset.privacy.noise import Integers, Noise

__all__ = ["RunsAtOnce", "batched_draws"]


class RunsAtOnce:
    """The same laws as ``source``; additive noise comes with one row for each of ``runs`` runs."""

    def __init__(self, source: Noise, runs: int) -> None:
        self._source = source
        self._runs = runs

    @property
    def private(self) -> bool:
        """As private as its source."""
        return self._source.private

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """Integers k with probability proportional to exp(-|k| / scale), ``size`` of them for each run."""
        return self._source.discrete_laplace(scale, self._runs * size).reshape(self._runs, size)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        """Integers k with probability proportional to exp(-k² / (2 sigma²)), ``size`` of them for each run."""
        return self._source.discrete_gaussian(sigma, self._runs * size).reshape(self._runs, size)

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        """Not for many runs at once."""
        raise NotImplementedError("a choice is made for one run")

    def bernoulli(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Not for many runs at once."""
        raise NotImplementedError("coins are tossed for one run")

    def rounding(self, fractions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Not for many runs at once."""
        raise NotImplementedError("coins are tossed for one run")


def batched_draws(release: Callable[[int, Noise], ArrayLike], noise: Noise) -> Observe:
    """From a function that runs the mechanism on input 0 or 1 with some noise: all observations from one call."""

    def observe(side: int, size: int) -> ArrayLike:
        rows = np.asarray(release(side, RunsAtOnce(noise, size)), dtype=np.float64)
        if rows.shape[0] != size or rows.ndim != 2:
            raise AssertionError("the mechanism does not keep runs apart")
        return rows

    return observe
