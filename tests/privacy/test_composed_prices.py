"""Charges that are chosen one after another, and exact prices of many steps, against enumeration and closed forms."""

import itertools
import math
import tracemalloc
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from priced_events import COORDINATE, REPLACE, auction, gaussian

from likeset.privacy import accounting
from likeset.privacy.accounting import Basis, Filter, guarantee
from likeset.privacy.events import Composition, ExponentialChoice, NoRelease, Observer, Repeated, ThresholdAuction


def test_the_filter_prices_a_single_charge_as_a_plan_and_several_by_what_survives_adaptive_choice() -> None:
    """One: exact. Two: rho adds up to 2 * (2/8)²/2 = 1/16."""
    account = Filter.empty(relation=REPLACE, delta=1e-5)
    assert account.epsilon == 0.0
    one = account.add(gaussian(8.0))
    assert one.epsilon == guarantee(gaussian(8.0), relation=REPLACE, delta=1e-5).epsilon
    assert one.add(NoRelease()).epsilon == one.epsilon
    assert one.add(gaussian(8.0)).epsilon == pytest.approx(accounting.epsilon_of_rho(1 / 16, 1e-5))


def test_the_filter_takes_the_pure_sum_where_that_is_smaller() -> None:
    """Two auctions at 0.1 against one owner: 0.2 in pure privacy, where rho = 0.01 amounts to more."""
    account = Filter.empty(relation=REPLACE, delta=1e-5)
    for _ in range(2):
        account = account.add(auction(epsilon=0.1, observer=Observer.ONE_OWNER, rounds=1))
    assert account.epsilon == pytest.approx(0.2)
    assert accounting.epsilon_of_rho(0.01, 1e-5) > 0.2


def test_a_pure_account_refuses_gaussian_noise() -> None:
    assert Filter.empty(relation=REPLACE, delta=0.0).add(gaussian(8.0)).epsilon == math.inf


@given(rho=st.floats(1e-6, 5), delta=st.floats(1e-12, 0.1))
def test_epsilon_of_rho_is_near_the_best_order(rho: float, delta: float) -> None:
    """No order does better by more than a thousandth; and the simpler textbook bound is never smaller."""
    orders = 1.0 + np.geomspace(0.02, 1e6, 20011)
    curve = rho * orders + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    found = accounting.epsilon_of_rho(rho, delta)
    assert found <= max(0.0, float(curve.min())) * 1.001 + 1e-9
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) * 1.001


@pytest.mark.parametrize("delta", [0.2, 0.1, 0.01])
def test_one_bounded_range_choice_has_its_closed_form(delta: float) -> None:
    """The worst t in (1 - e^(t-w))(1 - e^(x-t))/(1 - e^-w) is (x + w)/2.

    Hence delta = (1 - e^((x-w)/2))²/(1 - e^-w).
    Solved for x; the grid may only be above it, by at most one step of w/12.
    """
    width = 1.0
    exact = width + 2 * math.log1p(-math.sqrt(delta * -math.expm1(-width)))
    found = accounting.bounded_range_epsilon(delta, width=width, times=1, pure=(), reach=2.0)
    assert exact <= found <= exact + 1.3 * width / 12


def test_two_adaptive_choices_by_brute_force() -> None:
    """The recursion against a fine search over two thresholds, the second depending on the first."""
    width, x = 0.8, 0.5
    thresholds = np.linspace(0, width, 801)

    def chance(t: float) -> float:
        return math.expm1(t - width) / math.expm1(-width)

    def once(y: float) -> float:
        return max(
            chance(t) * max(0.0, 1 - math.exp(y - t)) + (1 - chance(t)) * max(0.0, 1 - math.exp(y - t + width))
            for t in thresholds
        )

    twice = max(chance(t) * once(x - t) + (1 - chance(t)) * once(x - t + width) for t in thresholds[::20])
    table = accounting._bound(width, 2, (), 0.0, 40)
    found = float(np.interp(x, width / 12 * np.arange(40), table))
    assert twice <= found <= twice * 1.02 + 1e-4


def test_many_small_choices_tend_to_gaussian_noise_of_the_same_concentration() -> None:
    """Width w, k of them: rho = k w²/8; the limit is the Gaussian curve at mu² = 2 rho, below Rényi's bound.

    With k = 400 and w = 0.05, mu = 0.5.
    """
    event = Repeated(ExponentialChoice(rate=0.0125, quantity=COORDINATE), 400)
    exact = guarantee(event, relation=REPLACE, delta=1e-3, exact_choices=True)
    limit = guarantee(gaussian(4.0), relation=REPLACE, delta=1e-3).epsilon
    assert exact.note == "exact worst case of choices"
    assert limit * 0.995 <= exact.epsilon <= limit * 1.03
    assert exact.epsilon < guarantee(event, relation=REPLACE, delta=1e-3).epsilon * 0.95


def test_the_worst_case_of_choices_is_a_probability_and_given_up_where_it_would_take_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """36 grid points, 12 updates for each of 10 choices and one for each of 5 responses: 4,500 updates.

    At epsilon 0 with losses up to 10.5: 138 grid points, and as if there were 15 choices, 24,840 updates.
    """
    assert accounting._bound(6.0, 30, (), 0.0, 60).max() <= 1.0
    asked: dict[str, Any] = {"width": 1.0, "times": 10, "pure": ((0.1, 5),)}
    for most, finite in ((4_500, True), (4_499, False)):
        monkeypatch.setattr(accounting, "_MOST_WORK", most)
        assert math.isfinite(accounting.bounded_range_epsilon(0.5, reach=2.0, **asked)) == finite
    for most, known in ((24_840, True), (24_839, False)):
        monkeypatch.setattr(accounting, "_MOST_WORK", most)
        assert (accounting.bounded_range_advantage(shift=0.0, **asked) < 1.0) == known


@pytest.mark.parametrize("epsilon", [0.3, 0.33])
def test_randomised_response_added_to_choices_by_enumeration(epsilon: float) -> None:
    """One window of width w and one pure step e, a multiple of the grid's step or none, against every outcome."""
    width, x = 0.6, 0.2
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    best = 0.0
    for t in np.linspace(0, width, 601):
        p = math.expm1(t - width) / math.expm1(-width)
        total = 0.0
        for (first, a), (second, b) in itertools.product(
            [(p, t), (1 - p, t - width)], [(keep, epsilon), (1 - keep, -epsilon)]
        ):
            total += first * second * max(0.0, 1 - math.exp(x - a - b))
        best = max(best, total)
    table = accounting._bound(width, 1, ((epsilon, 1),), 0.0, 40)
    found = float(np.interp(x, width / 12 * np.arange(40), table))
    assert best <= found <= best * 1.05


# Randomised responses, exactly, and the conversion from Rényi divergences.


def _auctions(epsilon: float, rounds: int) -> ThresholdAuction:
    """Each round is pure with log(1 + e^epsilon), as a coalition sees it."""
    return ThresholdAuction(epsilon=epsilon, observer=Observer.COALITION, rounds=rounds, summary_released=False)


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.1, 1), (0.5, 7), (1.0, 50), (3.0, 12)])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
def test_equal_pure_steps_cost_what_every_outcome_of_responses_adds_up_to(
    epsilon: float, rounds: int, delta: float
) -> None:
    """By hand, delta at x: over all numbers k of responses in favour, max(0, P(k) - e^x Q(k))."""
    pure_step = math.log1p(math.exp(epsilon))
    priced = guarantee(_auctions(epsilon, rounds), relation=REPLACE, delta=delta)

    def left_out(bound: float) -> Decimal:
        keep = 1 / (1 + Decimal(-pure_step).exp())
        chances = [math.comb(rounds, k) * keep**k * (1 - keep) ** (rounds - k) for k in range(rounds + 1)]
        losses = zip(chances, reversed(chances), strict=True)
        return sum((max(Decimal(0), p - Decimal(bound).exp() * q) for p, q in losses), start=Decimal(0))

    assert left_out(priced.epsilon) <= Decimal(delta)
    assert left_out(priced.epsilon * 0.999) > Decimal(delta)


@pytest.mark.parametrize("delta", [1e-300, 1e-9, 1e-5, 0.3])
def test_renyi_divergences_are_converted_as_the_library_does(delta: float) -> None:
    from dp_accounting.rdp import compute_epsilon

    for rho in (1e-12, 1e-6, 1e-3, 0.5, 30.0, 1e6):
        expected = compute_epsilon(accounting._ORDERS.tolist(), (rho * accounting._ORDERS).tolist(), delta)[0]
        assert accounting.epsilon_of_rho(rho, delta) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("event", [_auctions(700.0, 1_000), _auctions(1e4, 10), _auctions(1.0, 10**9)])
def test_odd_auctions_have_a_price_that_takes_no_room(event: ThresholdAuction) -> None:
    """A convolution of the first would be an array of billions of losses."""
    tracemalloc.start()
    try:
        priced = guarantee(event, relation=REPLACE, delta=1e-5)
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()
    assert priced.epsilon <= event.rounds * (event.epsilon + math.log1p(math.exp(-event.epsilon)))


def test_pure_steps_of_several_sizes_that_are_too_wide_to_convolve_are_priced_all_the_same() -> None:
    both = Composition((_auctions(800.0, 3), _auctions(1.0, 5)))
    assert guarantee(both, relation=REPLACE, delta=1e-5).note != "privacy loss distribution"
    assert guarantee(both, relation=REPLACE, delta=1e-5).basis is Basis.PROVEN


@pytest.mark.parametrize(("shift", "delta"), [(1e-9, 1e-5), (1e-17, 1e-5), (1e-300, 1e-9)])
def test_noise_that_drowns_everything_costs_no_epsilon_where_delta_covers_it(shift: float, delta: float) -> None:
    assert accounting._gaussian_epsilon(shift, delta) == 0.0


def test_a_tiny_distance_is_not_taken_for_none() -> None:
    """At epsilon 0 laws that are 1e-17 apart have delta 0.4e-17, which is no part of 1e-100."""
    assert accounting._gaussian_epsilon(1e-17, 1e-100) > 0.0
