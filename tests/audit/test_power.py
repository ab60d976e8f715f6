"""What is said to be found is found, and a little less is not: by counting on pairs whose epsilon is known."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import pinned_coins
from likeset.audit.auditor import lower_bound, power

SAMPLES = 8_000


def told_or_response(epsilon: float, delta: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """With probability delta the input is told (2 or 3), else randomised response (0 or 1)."""
    coins = pinned_coins(seed)
    sides = []
    for side in (0, 1):
        truth = coins.random(SAMPLES) < 1 / (1 + math.exp(-epsilon))
        told = coins.random(SAMPLES) < delta
        sides.append(np.where(told, 2 + side, np.where(truth, side, 1 - side)))
    return sides[0], sides[1]


@pytest.mark.parametrize(("claimed", "delta"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.05), (2.5, 1e-5)])
def test_an_epsilon_that_large_is_found_and_the_claim_itself_is_not(claimed: float, delta: float) -> None:
    least = power(claimed, delta=delta, samples=SAMPLES).epsilon
    assert claimed < least < claimed + 1.5
    for seed in range(10):
        assert lower_bound(*told_or_response(least, delta, seed), delta=delta).epsilon > claimed
        assert lower_bound(*told_or_response(claimed, delta, seed), delta=delta).epsilon <= claimed


def leaking(share: float, seed: int) -> NDArray[np.bool_]:
    return pinned_coins(seed).random(SAMPLES) < share


def test_a_leak_that_large_is_found_and_half_of_it_is_not() -> None:
    least = power(1.0, delta=1e-5, samples=SAMPLES).leak
    never = np.zeros(SAMPLES, dtype=np.bool_)
    for seed in range(10):
        assert lower_bound(leaking(least, seed), never, delta=1e-5).epsilon > 1
        assert lower_bound(leaking(least / 2, seed), never, delta=1e-5).epsilon < 1


def test_observations_buy_power() -> None:
    few, many = (power(1.0, delta=1e-5, samples=samples) for samples in (4_000, 40_000))
    assert many.epsilon < few.epsilon
    assert many.leak < few.leak / 5


def test_a_claim_that_no_observation_can_refute_says_so() -> None:
    """An event that 2000 observations never show may have probability 22/2000: log(2000/22) = 4.5 is the most."""
    blind = power(4.6, delta=0.0, samples=4_000)
    assert blind.epsilon == math.inf
    assert blind.leak == math.inf
    assert math.isfinite(power(4.0, delta=0.0, samples=4_000).epsilon)
