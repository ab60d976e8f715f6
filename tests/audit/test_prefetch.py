"""Prefetching changes when values are drawn, never which."""

import numpy as np

from likeset.audit.trials import PrefetchedNoise
from likeset.privacy.noise import Integers, SecretNoise, SimulatedNoise


class Counting(SimulatedNoise):
    """Serves 0, 1, 2, ... so that a value served twice shows."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        super().__init__(0)
        self.next = 0

    def discrete_laplace(self, scale: float, size: int) -> Integers:  # noqa: ARG002 - the interface has a scale
        self.next += size
        return np.arange(self.next - size, self.next, dtype=np.int64)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return self.discrete_laplace(sigma, size)


def test_no_value_is_served_twice_whatever_the_sizes() -> None:
    noise = PrefetchedNoise(Counting())
    sizes = [1, 7, 4096, 3, 9000, 1, 1]
    served = np.concatenate([noise.discrete_laplace(1.0, size) for size in sizes])
    assert served.tolist() == list(range(sum(sizes)))


def test_laws_and_scales_do_not_share_a_block() -> None:
    noise = PrefetchedNoise(Counting())
    blocks = [
        noise.discrete_laplace(1.0, 10),
        noise.discrete_laplace(2.0, 10),
        noise.discrete_gaussian(1.0, 10),
    ]
    assert len(set(np.concatenate(blocks).tolist())) == 30


def test_it_is_as_private_as_its_source() -> None:
    assert PrefetchedNoise(SecretNoise()).private
    assert not PrefetchedNoise(SimulatedNoise(1)).private


def test_choices_and_coins_pass_through() -> None:
    noise, source = PrefetchedNoise(SimulatedNoise(1)), SimulatedNoise(1)
    scores, half = np.array([0, 3, 1], dtype=np.int64), np.full(20, 0.5)
    assert noise.exponential_choice(scores, 0.3) == source.exponential_choice(scores, 0.3)
    assert noise.bernoulli(half).tolist() == source.bernoulli(half).tolist()
    assert noise.rounding(half).tolist() == source.rounding(half).tolist()
