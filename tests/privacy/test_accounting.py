"""What events cost, alone and one after another: known values, enumeration, bounds that must order, and refusals."""

import itertools
import math
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from priced_events import COORDINATE, REPLACE, auction, concentrated_price, gaussian, pure_price
from scipy.stats import norm

from chance import examples
from likeset.errors import InvalidArgument
from likeset.privacy import accounting
from likeset.privacy.accounting import Basis, Filter, Guarantee, guarantee, guess_probability, obstacles
from likeset.privacy.events import (
    ROW,
    Composition,
    Event,
    ExponentialChoice,
    Laplace,
    NearPairs,
    NoRelease,
    Norm,
    Observer,
    PaperAuction,
    PublicSize,
    Relation,
    Repeated,
    RowSum,
    SelectionSum,
    Simulated,
    ThresholdAuction,
    Unbounded,
)

REMOVE = Relation.ADD_OR_REMOVE
REMOVED = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=REMOVE)


def test_laplace_noise_on_a_replaced_row_costs_twice_what_it_costs_on_a_removed_one() -> None:
    """Scale 100 on a sum of numbers in [-1, 1]: sensitivity 2, hence 0.02; removed: 1, hence 0.01."""
    replaced, removed = (Laplace(scale=100.0, quantity=quantity) for quantity in (COORDINATE, REMOVED))
    assert guarantee(replaced, relation=REPLACE, delta=0.0).epsilon == pytest.approx(0.02)
    assert guarantee(removed, relation=REMOVE, delta=0.0).epsilon == pytest.approx(0.01)


@pytest.mark.parametrize(
    "event",
    [
        PublicSize(),
        gaussian(8.0),
        Laplace(scale=100.0, quantity=COORDINATE),
        ExponentialChoice(rate=1.0, quantity=NearPairs(unit=ROW)),
        Repeated(
            ExponentialChoice(
                rate=1.0, quantity=SelectionSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=REPLACE)
            ),
            3,
        ),
    ],
)
def test_what_was_planned_under_one_relation_has_no_price_under_the_other(event: Event) -> None:
    """The number of rows is public in such a plan, and its noise covers what a replaced row moves."""
    assert guarantee(event, relation=REPLACE, delta=1e-5).basis is Basis.PROVEN
    for whole in (event, Composition((NoRelease(), event))):
        answer = guarantee(whole, relation=REMOVE, delta=1e-5)
        assert (answer.epsilon, answer.basis) == (math.inf, Basis.NONE)
        assert "planned under replace-one" in answer.note
        assert pure_price(whole, REMOVE) == concentrated_price(whole, REMOVE) == math.inf


@pytest.mark.parametrize("relation", list(Relation))
def test_an_auction_costs_the_same_under_each_relation(relation: Relation) -> None:
    """Any two data sets are compared: docs/proofs/threshold-auction.md."""
    asked = auction(epsilon=1.0, observer=Observer.COALITION, rounds=1)
    assert pure_price(asked, relation) == pytest.approx(math.log(1 + math.e))


def test_a_public_size_costs_nothing_where_it_is_taken_for_granted() -> None:
    assert guarantee(PublicSize(), relation=REPLACE, delta=0.0).epsilon == 0.0
    assert Filter.empty(relation=REPLACE, delta=1e-5).add(PublicSize()).epsilon == 0.0


def test_a_choice_costs_four_times_its_rate_under_replace_one() -> None:
    """Rate r, sensitivity 2: the loss lies in a window of width 2*r*2; rho = (2 r)²/2."""
    event = ExponentialChoice(rate=0.01, quantity=COORDINATE)
    assert pure_price(event, REPLACE) == pytest.approx(0.04)
    assert concentrated_price(event, REPLACE) == pytest.approx(0.02**2 / 2)


@pytest.mark.parametrize("sigma", [8.0, 1.6, 0.8])
def test_one_gaussian_release_is_priced_exactly(sigma: float) -> None:
    """The price lies on the known curve of Gaussian noise (Balle and Wang 2018), at mu = 2/sigma.

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu). The price must lie on it, at any
    epsilon that is in use: rounding to the lattice adds 140 * 0.121 * (1 + e^epsilon) / (sigma * 2^30)², below 1e-12.
    """
    answer = guarantee(gaussian(sigma), relation=REPLACE, delta=1e-5)
    mu, epsilon = 2.0 / sigma, answer.epsilon
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert 0.99999e-5 < delta < 1e-5
    assert answer.note == "Gaussian, exact"


def test_on_a_coarse_lattice_the_continuous_curve_is_not_used() -> None:
    """Spacing 1/16: what rounding could add to delta exceeds it, so only the concentrated bound is left.

    rho = (2/8)²/2 = 1/32; the best order gives the epsilon that ``epsilon_of_rho`` finds.
    """
    answer = guarantee(gaussian(8.0, spacing=1 / 16), relation=REPLACE, delta=1e-5)
    assert answer.note == "Rényi divergences"
    assert answer.epsilon == pytest.approx(accounting.epsilon_of_rho(1 / 32, 1e-5))
    assert answer.epsilon > guarantee(gaussian(8.0), relation=REPLACE, delta=1e-5).epsilon * 1.05


def test_gaussian_releases_add_up_in_squares() -> None:
    """Four releases at sigma cost what one costs at sigma/2."""
    four = guarantee(Repeated(gaussian(16.0), 4), relation=REPLACE, delta=1e-5).epsilon
    assert four == pytest.approx(guarantee(gaussian(8.0), relation=REPLACE, delta=1e-5).epsilon, rel=1e-3)


def test_the_rounding_of_every_release_adds_to_delta() -> None:
    """Spacing 1/20 and ten thousand releases: what one adds to delta is below it, what all add is not."""
    event = gaussian(800.0, spacing=0.05)
    one, all_of_them = (guarantee(Repeated(event, times), relation=REPLACE, delta=1e-5) for times in (1, 10_000))
    assert (one.note, all_of_them.note) == ("Gaussian, exact", "Rényi divergences")


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 5.0, 20.0])
def test_the_distance_between_discrete_and_rounded_noise_is_within_its_bound(sigma: float) -> None:
    """Summed exactly over the lattice: at least an eighth of the bound, which adds up over coordinates."""
    points = np.arange(-200, 201)
    weights = np.exp(-(points**2) / (2 * sigma**2))
    rounded = norm.cdf((points + 0.5) / sigma) - norm.cdf((points - 0.5) / sigma)
    distance = 0.5 * np.abs(weights / weights.sum() - rounded).sum()
    assert accounting.rounding_distance(1, sigma) / 8 < distance <= accounting.rounding_distance(1, sigma)
    assert accounting.rounding_distance(140, sigma) == pytest.approx(140 * accounting.rounding_distance(1, sigma))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1), 1.0),
        (auction(epsilon=1.0, observer=Observer.COALITION, rounds=1), math.log(1 + math.e)),
        (auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=7), 7 * math.log(1 + math.e)),
        (auction(epsilon=0.5, observer=Observer.COALITION, rounds=7), 7 * math.log(1 + math.exp(0.5))),
        (Repeated(auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1), 7), 7 * math.log(1 + math.e)),
    ],
)
def test_threshold_auctions(event: Event, expected: float) -> None:
    answer = guarantee(event, relation=REPLACE, delta=0.0)
    assert answer.epsilon == pytest.approx(expected)
    assert answer.basis is Basis.PROVEN


@pytest.mark.parametrize("position", ["last", "followed", "followed by nothing", "followed in a repetition"])
def test_one_owner_s_auction_is_cheap_only_while_nothing_follows(position: str) -> None:
    """What follows may depend on who else was asked: the owner then hears about the others too."""
    asked = auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1)
    together = math.log(1 + math.e)
    other = Laplace(scale=20.0, quantity=COORDINATE)
    cases: dict[str, tuple[Event, float]] = {
        "last": (Composition((other, asked)), 0.1 + 1.0),
        "followed": (Composition((asked, other)), together + 0.1),
        "followed by nothing": (Composition((Composition((asked, NoRelease())), Repeated(NoRelease(), 3))), 1.0),
        "followed in a repetition": (Repeated(Composition((other, asked)), 2), 2 * (0.1 + together)),
    }
    whole, expected = cases[position]
    assert pure_price(whole, REPLACE) == pytest.approx(expected)
    assert concentrated_price(Composition((asked, other)), REPLACE) == pytest.approx((together**2 + 0.1**2) / 2)


def _advantage(event: Event) -> float:
    """What the printed probability says about the statistical distance."""
    right = guess_probability(event, relation=REPLACE)
    assert right is not None
    return 2.0 * right - 1.0


@pytest.mark.parametrize("mu", [0.1, 0.9167, 3.0])
def test_a_guess_by_gaussian_noise_is_right_as_often_as_the_normal_law_says(mu: float) -> None:
    """Phi(mu / 2), and next to nothing for the lattice: 67.7% at 0.9167."""
    right = guess_probability(gaussian(2.0 / mu), relation=REPLACE)
    assert right is not None
    assert 0.0 <= right - norm.cdf(mu / 2.0) < 1e-6


@pytest.mark.parametrize(("mu", "width"), [(0.8, 0.77), (0.2, 0.2), (1.45, 1.4), (3.0, 0.5)])
def test_a_guess_by_a_choice_and_gaussian_noise_is_bounded_by_loss_distributions(mu: float, width: float) -> None:
    """Every mechanism with two outcomes in a window of that width, composed with the noise by another library."""
    choice = ExponentialChoice(rate=width / 4.0, quantity=COORDINATE)  # the range is 2 * rate * 2
    found = _advantage(Composition((choice, gaussian(2.0 / mu))))
    noise = pld.from_gaussian_mechanism(1.0 / mu)
    worst = 0.0
    for first in np.linspace(0.0, width, 9)[1:-1]:
        chance = math.expm1(first - width) / math.expm1(-width)
        upper = {0: math.log(chance), 1: math.log1p(-chance)}
        lower = {0: upper[0] - first, 1: upper[1] + width - first}
        pair = pld.from_two_probability_mass_functions(lower, upper)
        worst = max(worst, pair.compose(noise).get_delta_for_epsilon(0.0))
    assert -1e-4 < found - worst < 1e-3  # the library rounds losses up to 1e-4


def test_a_guess_by_randomised_responses_and_noise_is_bounded_by_loss_distributions() -> None:
    """Discrete Laplace noise of scale b is worth 2/b; three times 0.5, and then Gaussian noise as well."""
    steps = Repeated(Laplace(scale=4.0, quantity=COORDINATE), 3)
    single = pld.from_randomized_response(2.0 / (1.0 + math.exp(0.5)), 2)
    for event, noise in (
        (steps, pld.identity()),
        (Composition((steps, gaussian(4.0))), pld.from_gaussian_mechanism(2.0)),
    ):
        expected = noise.compose(single.self_compose(3)).get_delta_for_epsilon(0.0)
        assert _advantage(event) == pytest.approx(expected, abs=3e-4)


UNPRICED: list[Event] = [
    Unbounded(reason="raw rows"),
    PaperAuction(epsilon=0.01, owners=5, rounds=1, patience=3),
    auction(epsilon=1.0, observer=Observer.COALITION, rounds=2, summary_released=True),
    auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1, summary_released=True),
    Simulated(gaussian(8.0)),
    Simulated(NoRelease()),
]


@pytest.mark.parametrize("event", UNPRICED)
def test_what_is_not_proven_has_no_price_alone_or_in_company(event: Event) -> None:
    for whole in (event, Repeated(event, 2), Composition((gaussian(8.0), event))):
        answer = guarantee(whole, relation=REPLACE, delta=1e-5)
        assert (answer.epsilon, answer.basis) == (math.inf, Basis.NONE)
        assert answer.note
        assert obstacles(whole)
        assert guess_probability(whole, relation=REPLACE) is None
        assert Filter.empty(relation=REPLACE, delta=1e-5).add(whole).epsilon == math.inf


def test_a_guarantee_without_a_basis_shows_no_number() -> None:
    with pytest.raises(InvalidArgument):
        Guarantee(epsilon=1.0, delta=1e-5, relation=REPLACE, basis=Basis.NONE, note="")
    with pytest.raises(InvalidArgument):
        Guarantee(epsilon=math.inf, delta=1e-5, relation=REPLACE, basis=Basis.PROVEN, note="")


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, math.nan])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(InvalidArgument):
        guarantee(NoRelease(), relation=REPLACE, delta=delta)


def _laplace(scale: float, relation: Relation) -> Laplace:
    return Laplace(scale=scale, quantity=COORDINATE if relation is REPLACE else REMOVED)


def _choice(rate: float, relation: Relation) -> ExponentialChoice:
    return ExponentialChoice(rate=rate, quantity=COORDINATE if relation is REPLACE else REMOVED)


# Each step as a function of the relation that it is planned under.
_Step = Callable[[Relation], Event]
_steps: st.SearchStrategy[_Step] = st.one_of(
    st.floats(2, 200).map(lambda scale: partial(_laplace, scale)),
    st.floats(0.005, 0.5).map(lambda rate: partial(_choice, rate)),
    st.floats(2, 50).map(lambda sigma: lambda relation: gaussian(sigma, relation=relation)),
    st.just(lambda _: auction(epsilon=0.5, observer=Observer.COALITION, rounds=1)),
)


@settings(max_examples=examples(15))
@given(steps=st.lists(_steps, min_size=1, max_size=4), delta=st.sampled_from([1e-3, 1e-5]))
def test_prices_order_as_they_must(steps: list[_Step], delta: float) -> None:
    """More is never cheaper, nor is a smaller delta.

    A removed row never costs more than a replaced one, a plan never more than the filter charges for its
    steps.
    """
    replaced, removed = ([step(relation) for step in steps] for relation in (REPLACE, REMOVE))
    whole = Composition(tuple(replaced))
    price = guarantee(whole, relation=REPLACE, delta=delta).epsilon
    slack = 1 + 1e-9
    assert guarantee(Composition(tuple(replaced[1:])), relation=REPLACE, delta=delta).epsilon <= price * slack
    assert guarantee(Composition(tuple(removed)), relation=REMOVE, delta=delta).epsilon <= price * slack
    assert price <= guarantee(whole, relation=REPLACE, delta=delta / 10).epsilon * slack
    account = Filter.empty(relation=REPLACE, delta=delta)
    for step in replaced:
        account = account.add(step)
    assert price <= account.epsilon * slack


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


@pytest.mark.parametrize("times", [30, 3000])
def test_steps_of_two_sizes_cost_more_than_those_of_one_size_and_less_than_equal_ones(times: int) -> None:
    """Between the exact prices of so many steps of the smaller size, and of one more, all of the larger size."""
    smaller, larger = (Laplace(scale=scale * math.sqrt(times), quantity=COORDINATE) for scale in (2.0, 1.8))
    plans = Repeated(smaller, times), Composition((Repeated(smaller, times), larger)), Repeated(larger, times + 1)
    found = [guarantee(plan, relation=REPLACE, delta=1e-5) for plan in plans]
    assert [one.note for one in found] == ["randomised responses, exact", "privacy loss distribution", found[0].note]
    assert found[0].epsilon < found[1].epsilon < found[2].epsilon
