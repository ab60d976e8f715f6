"""What events cost: known values, bounds that must order, and refusals."""

import math
from collections.abc import Callable
from functools import partial

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
    NoRelease,
    Norm,
    Observer,
    PairSplit,
    PaperAuction,
    PublicSize,
    Relation,
    Repeated,
    RowSum,
    SelectionSum,
    Simulated,
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
        ExponentialChoice(rate=1.0, quantity=PairSplit(unit=ROW)),
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


def test_one_gaussian_release_is_priced_exactly() -> None:
    """The price lies on the known curve of Gaussian noise (Balle and Wang 2018), at mu = 2/8.

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu). The price must lie on it, up
    to what rounding to the lattice adds: 140 * 3.7 / (8 * 2^30 * 2.5) = 2.4e-8, a quarter of a percent of
        delta.
    """
    answer = guarantee(gaussian(8.0), relation=REPLACE, delta=1e-5)
    mu, epsilon = 0.25, answer.epsilon
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert 0.99e-5 < delta < 1e-5
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
    """Spacing 1e-6 and ten thousand releases: what one adds to delta is below it, what all add is not."""
    event = gaussian(800.0, spacing=1e-6)
    one, all_of_them = (guarantee(Repeated(event, times), relation=REPLACE, delta=1e-5) for times in (1, 10_000))
    assert (one.note, all_of_them.note) == ("Gaussian, exact", "Rényi divergences")


@pytest.mark.parametrize("sigma", [2.0, 5.0])
def test_the_distance_between_discrete_and_rounded_noise_is_within_its_bound(sigma: float) -> None:
    """Summed exactly over the lattice; the bound is 1/(sigma sqrt(2 pi)), and adds up over coordinates."""
    points = np.arange(-200, 201)
    weights = np.exp(-(points**2) / (2 * sigma**2))
    rounded = norm.cdf((points + 0.5) / sigma) - norm.cdf((points - 0.5) / sigma)
    distance = 0.5 * np.abs(weights / weights.sum() - rounded).sum()
    assert 0 < distance <= accounting.rounding_distance(1, sigma)
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
