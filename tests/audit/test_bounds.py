"""The estimator against pairs whose epsilon is known exactly. Seeds are public: a failure repeats itself."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from chance import pinned_coins
from likeset.audit.auditor import ERROR, clopper_pearson, lower_bound, power

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


def test_a_claim_that_no_observation_can_refute_says_so() -> None:
    """An event that 2000 observations never show may have probability 22/2000: log(2000/22) = 4.5 is the most."""
    blind = power(4.6, delta=0.0, samples=4_000)
    assert blind.epsilon == math.inf
    assert blind.leak == math.inf
    assert math.isfinite(power(4.0, delta=0.0, samples=4_000).epsilon)


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Smallest epsilon of N(0, 1) against N(shift, 1) at delta (Balle and Wang, 2018), by bisection."""
    low, high = 0.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        far, near = -middle / shift + shift / 2, -middle / shift - shift / 2
        reached = norm.cdf(far) - math.exp(middle) * norm.cdf(near)
        low, high = (middle, high) if reached > delta else (low, middle)
    return high


@pytest.mark.parametrize("hits", [0, 1, 37, 999, 1000])
def test_clopper_pearson_inverts_the_binomial_tail(hits: int) -> None:
    """At the lower bound ``hits`` or more has probability ``error``; at the upper one ``hits`` or fewer."""
    lower, upper = (float(bound) for bound in clopper_pearson(hits, 1000, error=ERROR))
    if hits == 0:
        assert lower == 0
    else:
        assert binom.sf(hits - 1, 1000, lower) == pytest.approx(ERROR, rel=1e-6)
    if hits == 1000:
        assert upper == 1
    else:
        assert binom.cdf(hits, 1000, upper) == pytest.approx(ERROR, rel=1e-6)


def test_the_error_probability_is_kept_at_a_large_error() -> None:
    """With error 0.1 at most a tenth of 400 bounds may exceed the truth; 76 is six deviations more."""
    coins = pinned_coins(5)
    truth, exceeded = math.exp(0.5) / (1 + math.exp(0.5)), 0
    for _ in range(400):
        sides = coins.random(400) < truth, coins.random(400) >= truth
        exceeded += lower_bound(*sides, delta=0.0, error=0.1).epsilon > 0.5
    assert exceeded <= 76


@pytest.mark.parametrize(("delta", "distance"), [(1e-5, 2.4), (1e-2, 0.6), (0.1, 0.25)])
def test_gaussian_pair_is_bounded_from_below_and_approached(delta: float, distance: float) -> None:
    """Small deltas live in the far tail, where 100000 observations see little: the distance says so."""
    coins = pinned_coins(7)
    found = lower_bound(coins.normal(size=200_000), 1 + coins.normal(size=200_000), delta=delta)
    truth = gaussian_epsilon(1.0, delta)
    assert truth - distance < found.epsilon < truth


def test_a_direction_hidden_in_many_coordinates_is_learned() -> None:
    """The shift of norm 1 is spread over 40 correlated coordinates; none of them alone shows much."""
    coins = pinned_coins(9)
    mixing = coins.normal(size=(40, 40))
    shift = mixing @ np.full(40, 1 / math.sqrt(40))
    first, second = (coins.normal(size=(24_000, 40)) @ mixing.T for _ in range(2))
    found = lower_bound(first, second + shift, delta=0.05)
    truth = gaussian_epsilon(1.0, 0.05)
    assert truth - 0.9 < found.epsilon < truth
    assert "discriminant" in found.event
