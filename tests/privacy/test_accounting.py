"""What events cost: known values, bounds that must order, and refusals."""

import itertools
import math
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from chance import examples
from likeset.errors import InvalidArgument
from likeset.privacy import bounded_range, loss
from likeset.privacy.accounting import Filter, concentrated_price, guarantee, obstacles, pure_price
from likeset.privacy.events import (
    Composition,
    Event,
    ExponentialChoice,
    Gaussian,
    Laplace,
    NoRelease,
    Observer,
    PaperAuction,
    PublicSize,
    Repeated,
    Simulated,
    ThresholdAuction,
    Unbounded,
)
from likeset.privacy.guarantee import Basis, Guarantee
from likeset.privacy.relation import InRange, Norm, PairSplit, Relation, RowSum, SelectionSum

REPLACE = Relation.REPLACE_ONE
REMOVE = Relation.ADD_OR_REMOVE
COORDINATE = RowSum(norm=Norm.COORDINATE, radius=1.0, rows=1, relation=REPLACE)
REMOVED = RowSum(norm=Norm.COORDINATE, radius=1.0, rows=1, relation=REMOVE)


def _gaussian(sigma: float, spacing: float = 2.0**-30, relation: Relation = REPLACE) -> Gaussian:
    quantity = RowSum(norm=Norm.EUCLIDEAN, radius=1.0, rows=1, relation=relation)
    return Gaussian(sigma=sigma, quantity=quantity, coordinates=140, spacing=spacing)


def _auction(*, epsilon: float, observer: Observer, rounds: int, summary_released: bool = False) -> ThresholdAuction:
    return ThresholdAuction(epsilon=epsilon, observer=observer, rounds=rounds, summary_released=summary_released)


def test_nothing_released_costs_nothing() -> None:
    answer = guarantee(Composition((NoRelease(), Repeated(NoRelease(), 5))), relation=REPLACE, delta=0.0)
    assert (answer.epsilon, answer.basis) == (0.0, Basis.PROVEN)


def test_laplace_noise_on_a_replaced_row_costs_twice_what_it_costs_on_a_removed_one() -> None:
    """Scale 100 on a sum of numbers in [-1, 1]: sensitivity 2, hence 0.02; removed: 1, hence 0.01."""
    replaced, removed = (Laplace(scale=100.0, quantity=quantity) for quantity in (COORDINATE, REMOVED))
    assert guarantee(replaced, relation=REPLACE, delta=0.0).epsilon == pytest.approx(0.02)
    assert guarantee(removed, relation=REMOVE, delta=0.0).epsilon == pytest.approx(0.01)


@pytest.mark.parametrize(
    "event",
    [
        PublicSize(),
        _gaussian(8.0),
        Laplace(scale=100.0, quantity=COORDINATE),
        ExponentialChoice(rate=1.0, quantity=PairSplit(rows=1)),
        Repeated(
            ExponentialChoice(
                rate=1.0, quantity=SelectionSum(norm=Norm.COORDINATE, radius=1.0, rows=1, relation=REPLACE)
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
        assert Filter.empty(relation=REMOVE, delta=1e-5, limit=1.0).add(whole).epsilon == math.inf


@pytest.mark.parametrize("relation", list(Relation))
def test_an_auction_and_a_share_cost_the_same_under_each_relation(relation: Relation) -> None:
    """Any two data sets are compared: docs/proofs/threshold-auction.md and docs/proofs/shares.md."""
    asked = _auction(epsilon=1.0, observer=Observer.COALITION, rounds=1)
    assert pure_price(asked, relation) == pytest.approx(math.log(1 + math.e))
    assert pure_price(Laplace(scale=2.0, quantity=InRange(0.0, 1.0)), relation) == 0.5


def test_a_public_size_costs_nothing_where_it_is_taken_for_granted() -> None:
    assert guarantee(PublicSize(), relation=REPLACE, delta=0.0).epsilon == 0.0
    assert Filter.empty(relation=REPLACE, delta=1e-5).add(PublicSize()).epsilon == 0.0


def test_a_choice_costs_four_times_its_rate_under_replace_one() -> None:
    """Rate r, sensitivity 2: the loss lies in a window of width 2*r*2; rho = (2 r)²/2."""
    event = ExponentialChoice(rate=0.01, quantity=COORDINATE)
    assert pure_price(event, REPLACE) == pytest.approx(0.04)
    assert concentrated_price(event, REPLACE) == pytest.approx(0.02**2 / 2)


def test_a_share_with_noise() -> None:
    event = Laplace(scale=2.0, quantity=InRange(lower=0.0, upper=1.0))
    assert guarantee(event, relation=REPLACE, delta=0.0).epsilon == pytest.approx(0.5)


def test_one_gaussian_release_is_priced_exactly() -> None:
    """The price lies on the known curve of Gaussian noise (Balle and Wang 2018), at mu = 2/8.

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu). The price must lie on it, up
    to what rounding to the lattice adds: 140 * 3.7 / (8 * 2^30 * 2.5) = 2.4e-8, a quarter of a percent of
        delta.
    """
    answer = guarantee(_gaussian(8.0), relation=REPLACE, delta=1e-5)
    mu, epsilon = 0.25, answer.epsilon
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert 0.99e-5 < delta < 1e-5
    assert answer.note == "Gaussian, exact"


def test_on_a_coarse_lattice_the_continuous_curve_is_not_used() -> None:
    """Spacing 1/16: what rounding could add to delta exceeds it, so only the concentrated bound is left.

    rho = (2/8)²/2 = 1/32; the best order gives the epsilon that ``epsilon_of_rho`` finds.
    """
    answer = guarantee(_gaussian(8.0, spacing=1 / 16), relation=REPLACE, delta=1e-5)
    assert answer.note == "Rényi divergences"
    assert answer.epsilon == pytest.approx(loss.epsilon_of_rho(1 / 32, 1e-5))
    assert answer.epsilon > guarantee(_gaussian(8.0), relation=REPLACE, delta=1e-5).epsilon * 1.05


def test_gaussian_releases_add_up_in_squares() -> None:
    """Four releases at sigma cost what one costs at sigma/2."""
    four = guarantee(Repeated(_gaussian(16.0), 4), relation=REPLACE, delta=1e-5).epsilon
    assert four == pytest.approx(guarantee(_gaussian(8.0), relation=REPLACE, delta=1e-5).epsilon, rel=1e-3)


@pytest.mark.parametrize("sigma", [2.0, 5.0])
def test_the_distance_between_discrete_and_rounded_noise_is_within_its_bound(sigma: float) -> None:
    """Summed exactly over the lattice; the bound is 1/(sigma sqrt(2 pi))."""
    points = np.arange(-200, 201)
    weights = np.exp(-(points**2) / (2 * sigma**2))
    rounded = norm.cdf((points + 0.5) / sigma) - norm.cdf((points - 0.5) / sigma)
    distance = 0.5 * np.abs(weights / weights.sum() - rounded).sum()
    assert 0 < distance <= loss.rounding_distance(1, sigma)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (_auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1), 1.0),
        (_auction(epsilon=1.0, observer=Observer.COALITION, rounds=1), math.log(1 + math.e)),
        (_auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=7), 7 * math.log(1 + math.e)),
        (_auction(epsilon=0.5, observer=Observer.COALITION, rounds=7), 7 * math.log(1 + math.exp(0.5))),
        (Repeated(_auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1), 7), 7 * math.log(1 + math.e)),
    ],
)
def test_threshold_auctions(event: Event, expected: float) -> None:
    answer = guarantee(event, relation=REPLACE, delta=0.0)
    assert answer.epsilon == pytest.approx(expected)
    assert answer.basis is Basis.PROVEN


@pytest.mark.parametrize("position", ["last", "followed", "followed by nothing", "followed in a repetition"])
def test_one_owner_s_auction_is_cheap_only_while_nothing_follows(position: str) -> None:
    """What follows may depend on who else was asked: the owner then hears about the others too."""
    asked = _auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1)
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


UNPRICED: list[Event] = [
    Unbounded(reason="raw rows"),
    PaperAuction(epsilon=0.01, owners=5, rounds=1, patience=3),
    _auction(epsilon=1.0, observer=Observer.COALITION, rounds=2, summary_released=True),
    _auction(epsilon=1.0, observer=Observer.ONE_OWNER, rounds=1, summary_released=True),
    Simulated(_gaussian(8.0)),
    Simulated(NoRelease()),
]


@pytest.mark.parametrize("event", UNPRICED)
def test_what_is_not_proven_has_no_price_alone_or_in_company(event: Event) -> None:
    for whole in (event, Repeated(event, 2), Composition((_gaussian(8.0), event))):
        answer = guarantee(whole, relation=REPLACE, delta=1e-5)
        assert (answer.epsilon, answer.basis) == (math.inf, Basis.NONE)
        assert answer.note
        assert obstacles(whole)
        assert Filter.empty(relation=REPLACE, delta=1e-5).add(whole).epsilon == math.inf


def test_simulated_noise_is_named_in_the_note() -> None:
    assert "simulated" in guarantee(Simulated(_gaussian(8.0)), relation=REPLACE, delta=1e-5).note


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
    st.floats(2, 50).map(lambda sigma: lambda relation: _gaussian(sigma, relation=relation)),
    st.just(lambda _: _auction(epsilon=0.5, observer=Observer.COALITION, rounds=1)),
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
    one = account.add(_gaussian(8.0))
    assert one.epsilon == guarantee(_gaussian(8.0), relation=REPLACE, delta=1e-5).epsilon
    assert one.add(NoRelease()).epsilon == one.epsilon
    assert one.add(_gaussian(8.0)).epsilon == pytest.approx(loss.epsilon_of_rho(1 / 16, 1e-5))


def test_the_filter_takes_the_pure_sum_where_that_is_smaller() -> None:
    """Two auctions at 0.1 against one owner: 0.2 in pure privacy, where rho = 0.01 amounts to more."""
    account = Filter.empty(relation=REPLACE, delta=1e-5)
    for _ in range(2):
        account = account.add(_auction(epsilon=0.1, observer=Observer.ONE_OWNER, rounds=1))
    assert account.epsilon == pytest.approx(0.2)
    assert loss.epsilon_of_rho(0.01, 1e-5) > 0.2


def test_with_its_limit_fixed_the_filter_adds_pure_and_concentrated_charges_well() -> None:
    """Gaussian noise worth 1.09 when concentrated, and a coalition's auction worth 1.31: within 3.0 together, not 6.6.

    At the order of the limit, Gaussian noise costs order * rho and the auction at most its epsilon.
    """
    charges = (_gaussian(7.47), _auction(epsilon=1.0, observer=Observer.COALITION, rounds=1))
    spent = []
    for limit in (None, 3.0):
        account = Filter.empty(relation=REPLACE, delta=1e-5, limit=limit)
        for charge in charges:
            account = account.add(charge)
        spent.append(account.epsilon)
    assert spent[0] > 6.0
    assert 2.4 < spent[1] <= 3.0


@given(limit=st.floats(0.1, 8), delta=st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_at_the_limit_the_fixed_order_allows_for_as_much_as_concentrated_privacy_does(
    limit: float, delta: float
) -> None:
    """So fixing the limit never refuses what the concentrated filter alone would have allowed."""
    order = loss.best_order(limit, delta)
    most = (limit - loss.epsilon_at_order(0.0, order, delta)) / order
    assert loss.epsilon_of_rho(most, delta) == pytest.approx(limit, rel=1e-6)


def test_a_pure_account_refuses_gaussian_noise() -> None:
    assert Filter.empty(relation=REPLACE, delta=0.0).add(_gaussian(8.0)).epsilon == math.inf


@given(rho=st.floats(1e-6, 5), delta=st.floats(1e-12, 0.1))
def test_epsilon_of_rho_is_near_the_best_order(rho: float, delta: float) -> None:
    """No order does better by more than a thousandth; and the simpler textbook bound is never smaller."""
    orders = 1.0 + np.geomspace(0.02, 1e6, 20011)
    curve = rho * orders + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    found = loss.epsilon_of_rho(rho, delta)
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
    found = bounded_range.epsilon_at(delta, width=width, times=1, pure=(), reach=2.0)
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
    table = bounded_range._bound(width, 2, (), 40)
    found = float(np.interp(x, width / 12 * np.arange(40), table))
    assert twice <= found <= twice * 1.02 + 1e-4


def test_many_small_choices_tend_to_gaussian_noise_of_the_same_concentration() -> None:
    """Width w, k of them: rho = k w²/8; the limit is the Gaussian curve at mu² = 2 rho, below Rényi's bound.

    With k = 400 and w = 0.05, mu = 0.5.
    """
    event = Repeated(ExponentialChoice(rate=0.0125, quantity=COORDINATE), 400)
    exact = guarantee(event, relation=REPLACE, delta=1e-3, exact_choices=True)
    limit = guarantee(_gaussian(4.0), relation=REPLACE, delta=1e-3).epsilon
    assert exact.note == "exact worst case of choices"
    assert limit * 0.995 <= exact.epsilon <= limit * 1.03
    assert exact.epsilon < guarantee(event, relation=REPLACE, delta=1e-3).epsilon * 0.95


def test_randomised_response_added_to_choices_by_enumeration() -> None:
    """One window of width w and one pure step e against every outcome written out."""
    width, epsilon, x = 0.6, 0.3, 0.2
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
    table = bounded_range._bound(width, 1, ((epsilon, 1),), 40)
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


def test_equal_pure_steps_cost_no_more_than_their_convolution_and_almost_as_much() -> None:
    exact = loss._responses_epsilon(0.3, 40, 1e-6)
    convolved = loss._convolved_epsilon(((0.3, 40),), 0.0, 1e-6)
    assert exact <= convolved <= exact + 40 * loss._LOSS_STEP


@pytest.mark.parametrize("delta", [1e-300, 1e-9, 1e-5, 0.3])
def test_renyi_divergences_are_converted_as_the_library_does(delta: float) -> None:
    from dp_accounting.rdp import compute_epsilon

    for rho in (1e-12, 1e-6, 1e-3, 0.5, 30.0, 1e6):
        expected = compute_epsilon(loss._ORDERS.tolist(), (rho * loss._ORDERS).tolist(), delta)[0]
        assert loss.epsilon_of_rho(rho, delta) == pytest.approx(expected, rel=1e-12)


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
    assert loss._gaussian_epsilon(shift, delta) == 0.0


def test_a_tiny_distance_is_not_taken_for_none() -> None:
    """At epsilon 0 laws that are 1e-17 apart have delta 0.4e-17, which is no part of 1e-100."""
    assert loss._gaussian_epsilon(1e-17, 1e-100) > 0.0
