"""The estimator against pairs whose epsilon is known exactly. Seeds are public: a failure repeats itself."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from chance import pinned_coins
from likeset.audit.auditor import (
    ERROR,
    atoms,
    clopper_pearson,
    lower_bound,
    lower_bounds,
    power,
)
from likeset.errors import InvalidArgument

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


def test_a_claim_that_no_observation_can_refute_says_so() -> None:
    """An event that 2000 observations never show may have probability 22/2000: log(2000/22) = 4.5 is the most."""
    blind = power(4.6, delta=0.0, samples=4_000)
    assert blind.epsilon == math.inf
    assert blind.leak == math.inf
    assert math.isfinite(power(4.0, delta=0.0, samples=4_000).epsilon)


def randomized_response(
    epsilon: float, samples: int, coins: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return coins.random(samples) < truth, coins.random(samples) >= truth


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


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_randomized_response_is_bounded_from_below_and_nearly_reached(epsilon: float) -> None:
    """Two values, so the event is never in doubt and only the intervals cost.

    With n = 100000 judging observations each interval is about 6.2 standard errors wide (error 2.5e-10):
    6.2 sqrt((1-p)/(p n)) for the log of the likelier proportion, 6.2 sqrt(p/((1-p) n)) for that of the rarer.
    The observed proportions themselves stray by as much again at worst.
    """
    first, second = randomized_response(epsilon, 200_000, pinned_coins(3))
    found = lower_bound(first, second, delta=0.0)
    rarer = 1 / (1 + math.exp(epsilon))
    width = 6.2 * (math.sqrt(rarer / (1 - rarer)) + math.sqrt((1 - rarer) / rarer)) / math.sqrt(100_000)
    assert found.epsilon < epsilon
    assert found.epsilon > epsilon - 2.2 * width
    assert found.samples == 200_000


def test_the_error_probability_is_kept_at_a_large_error() -> None:
    """With error 0.1 at most a tenth of 400 bounds may exceed the truth; 76 is six deviations more."""
    coins = pinned_coins(5)
    exceeded = sum(
        lower_bound(*randomized_response(0.5, 400, coins), delta=0.0, error=0.1).epsilon > 0.5 for _ in range(400)
    )
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


def test_a_given_score_is_used_where_nothing_linear_helps() -> None:
    """Points on a ring against points inside it: the radius tells them apart, no line does."""
    coins = pinned_coins(11)
    angle = coins.uniform(0, 2 * math.pi, size=(2, 20_000))
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    first, second = circle[0] * 1.1, circle[1]
    radius = lower_bound(first, second, delta=0.0, score=lambda rows: np.linalg.norm(rows, axis=1))
    assert radius.epsilon > 5
    assert radius.event.startswith("given score")


def test_events_need_not_be_half_lines() -> None:
    """N(0, 1) against an equal mixture of N(-4, 1) and N(4, 1): the middle shows the difference, no tail."""
    coins = pinned_coins(13)
    first = coins.normal(size=40_000)
    second = coins.normal(size=40_000) + 4 * coins.choice([-1, 1], size=40_000)
    assert lower_bound(first, second, delta=0.0).epsilon > 2.5


@pytest.mark.parametrize("columns", [1, 5])
def test_equal_laws_show_nothing(columns: int) -> None:
    coins = pinned_coins(17)
    for _ in range(20):
        first, second = coins.normal(size=(2, 2000, columns))
        for bound in lower_bounds(first, second, deltas=[0.0, 1e-5, 0.1]):
            assert bound.epsilon == 0


def test_either_direction_of_the_pair_is_found() -> None:
    """An event of probability 0.3 that the other input excludes: infinite one way, log(1/0.7) the other."""
    coins = pinned_coins(19)
    sometimes, never = coins.random(20_000) < 0.3, np.zeros(20_000)
    there, back = lower_bound(sometimes, never, delta=0.0), lower_bound(never, sometimes, delta=0.0)
    assert min(there.epsilon, back.epsilon) > 4.5
    assert there.event.endswith("under the first")
    assert back.event.endswith("under the second")


def test_shared_coins_between_the_two_inputs_keep_the_bound_valid() -> None:
    """Each proportion is bounded on its own, so the pair may share its noise: only the halves must not."""
    coins = pinned_coins(23)
    noise = coins.normal(size=200_000)
    assert lower_bound(noise, noise + 1, delta=0.1).epsilon < gaussian_epsilon(1.0, 0.1)


def test_a_repeated_value_is_a_cell_even_where_most_values_are_not() -> None:
    coins = pinned_coins(1)
    rows = coins.normal(size=(2000, 2))
    rows[:3] = 0.25, -0.0
    partition = atoms(rows)
    assert partition is not None
    assert partition.size == 2
    assert partition.cells(np.array([[0.25, 0.0], [0.25, 1.0]])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("first", "second", "delta", "error", "argument"),
    [
        (np.zeros(3), np.zeros(9), 0.0, ERROR, "first"),
        (np.zeros((9, 2)), np.zeros((9, 3)), 0.0, ERROR, "second"),
        (np.full(9, np.nan), np.zeros(9), 0.0, ERROR, "first"),
        (np.zeros(9), np.zeros(9), 1.0, ERROR, "delta"),
        (np.zeros(9), np.zeros(9), -0.1, ERROR, "delta"),
        (np.zeros(9), np.zeros(9), 0.0, 1.0, "error"),
        (np.zeros(9), np.zeros(9), 0.0, 0.0, "error"),
    ],
)
def test_unusable_arguments_are_named(
    first: NDArray[np.float64], second: NDArray[np.float64], delta: float, error: float, argument: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        lower_bound(first, second, delta=delta, error=error)
    assert caught.value.argument == argument
