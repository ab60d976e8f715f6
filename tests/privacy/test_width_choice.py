"""Tests of the private choice of a kernel's width, which must not follow the order of rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from priced_events import concentrated_price

from chance import public_coins
from likeset.errors import InvalidArgument
from likeset.privacy import width_choice
from likeset.privacy.events import ROW, PrivacyUnit, Relation
from likeset.privacy.noise import Integers, SecretNoise, SimulatedNoise, random_order

REPLACE = Relation.REPLACE_ONE


def _scores(rows: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[int]:
    """The scores by their definition, pair by pair and candidate by candidate."""
    pairs = [(rows[2 * i], rows[2 * i + 1]) for i in range(len(rows) // 2)]
    distances = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x, y in pairs]
    return [sum(t / 4 < d <= 4 * t for d in distances) for t in width_choice.grid(rows.shape[1])]


@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(0, 11))
def test_replacing_one_row_moves_no_score_by_more_than_one(seed: int, size: int, place: int) -> None:
    coins = public_coins(seed)
    rows = coins.normal(scale=10.0 ** coins.integers(-3, 4), size=(size, 3))
    other = rows.copy()
    other[place % size] = coins.normal(scale=10.0 ** coins.integers(-3, 4), size=3)
    moved = np.abs(np.array(_scores(rows)) - np.array(_scores(other))).max()
    plan = width_choice.plan(size=size, unit=ROW, rho=0.01, relation=REPLACE)
    assert moved <= plan.event.quantity.sensitivity == 1.0


def test_the_planned_rho_is_what_the_accountant_charges() -> None:
    for rows in (1, 3):
        plan = width_choice.plan(size=100, unit=PrivacyUnit(rows, ""), rho=0.02, relation=REPLACE)
        assert concentrated_price(plan.event, REPLACE) == pytest.approx(0.02)
        assert concentrated_price(plan.event, Relation.ADD_OR_REMOVE) == math.inf


def test_the_choice_follows_its_scores() -> None:
    """Frequencies against exp(rate * score): chi-square over 4000 draws, rejected below one in a billion."""
    rows = public_coins(3).normal(size=(20, 2))
    plan = width_choice.WidthPlan(size=20, unit=ROW, rate=0.4, relation=REPLACE)
    weights = np.exp(0.4 * np.array(_scores(rows), dtype=float))
    expected = 4000 * weights / weights.sum()
    noise = SimulatedNoise(5)
    drawn = [width_choice.grid(2).index(width_choice.run(plan, rows, noise).value) for _ in range(4000)]
    seen = np.bincount(drawn, minlength=len(expected))
    common = expected >= 5
    observed = np.append(seen[common], seen[~common].sum())
    wanted = np.append(expected[common], max(expected[~common].sum(), 1e-9))
    statistic = float(((observed - wanted) ** 2 / wanted).sum())
    freedom = len(wanted) - 1
    # Wilson-Hilferty: a chi-square to the power of one third is nearly normal; 6.5 deviations is beyond 1e-9.
    deviation = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    assert deviation < 6.5


def test_with_plenty_of_budget_the_median_is_found() -> None:
    rows = public_coins(4).normal(size=(400, 50))
    plan = width_choice.plan(size=400, unit=ROW, rho=50.0, relation=REPLACE)
    chosen = width_choice.run(plan, rows, SecretNoise()).value
    assert 60.0 < chosen < 165.0, "two rows of 50 standard normal columns are 100 apart, squared"


def _failures(distances: np.ndarray[tuple[int, int], np.dtype[np.float64]], columns: int, rate: float) -> float:
    """Mean probability, over rows of distances, that the choice is more than 8 times off their common median."""
    candidates = np.array(width_choice.grid(columns))
    scores = np.array([width_choice.near_pairs(line, candidates) for line in distances])
    weights = np.exp(rate * (scores - scores.max(axis=1, keepdims=True)))
    far = np.abs(np.log(candidates / np.median(distances))) > math.log(8.0)
    return float((weights[:, far].sum(axis=1) / weights.sum(axis=1)).mean())


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize(("size", "rate"), [(50, 0.1), (100, 0.096), (100, 0.2), (200, 0.07)])
def test_failures_stay_below_their_bound(size: int, rate: float, columns: int) -> None:
    """Distances of normal rows with 1 to 100 columns, their median anywhere between candidates: computed, not drawn."""
    bound = width_choice.failure_bound(size, rate, columns)
    coins, nearest = public_coins("failures"), 0.0
    for freedom in {columns, *((4, 10, 100) if columns == 3 else ())}:
        squared = coins.chisquare(freedom, size=(1000, size // 2))
        for power in np.linspace(-0.5, 0.5, 5):
            scale = 2.0 * 4.0**power / float(np.median(squared))
            found = _failures(scale * squared, 4, rate)
            assert found <= bound * 1.02, (freedom, power)
            nearest = max(nearest, found)
    assert bound <= 2.5 * nearest, "the bound is of use"


def test_a_bound_falls_with_rows_and_budget() -> None:
    by_size = [width_choice.failure_bound(size, 0.1) for size in (20, 60, 100, 200, 400, 1_000_000)]
    by_rate = [width_choice.failure_bound(100, rate) for rate in (0.001, 0.05, 0.1, 0.3, 2.0, 1e4)]
    for bounds in (by_size, by_rate[:4]):
        assert bounds == sorted(bounds, reverse=True)
    assert by_size[-1] < 1e-9
    assert max(by_rate[4:]) < 1e-3


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="relation"):
        width_choice.plan(size=10, unit=ROW, rho=0.1, relation=Relation.ADD_OR_REMOVE)
    with pytest.raises(InvalidArgument, match="size"):
        width_choice.plan(size=1, unit=ROW, rho=0.1, relation=REPLACE)
    with pytest.raises(InvalidArgument, match="rho"):
        width_choice.plan(size=10, unit=ROW, rho=0.0, relation=REPLACE)
    plan = width_choice.plan(size=10, unit=ROW, rho=0.1, relation=REPLACE)
    with pytest.raises(InvalidArgument, match="as planned"):
        width_choice.run(plan, np.zeros((9, 2)), SimulatedNoise(1))


def test_a_row_replaced_in_a_sorted_table_does_not_pair_all_others_anew() -> None:
    """Sorted values 0, .03, 1, 1.03, ..., 99, 99.03; then one 0 becomes the largest.

    Paired by place, all squared distances are .0009 in the one table, near the first candidate alone, and .94 in the
    other, beyond its reach. So candidates below .1 are chosen always in the one and never in the other.
    """
    table = np.repeat(np.arange(100.0), 2) + np.tile([0.0, 0.03], 100)
    neighbour = np.append(table[1:], table[-1] + 1.0)
    for column, near in ((table, 0.0009), (neighbour, 0.9409)):
        distances = (column[::2] - column[1::2]) ** 2
        assert distances[:-1] == pytest.approx(near, rel=1e-3)
    rate, draws = 0.25, 400
    plan = width_choice.WidthPlan(size=200, unit=ROW, rate=rate, relation=Relation.REPLACE_ONE)
    noise = SecretNoise()
    below = [
        sum(width_choice.run(plan, column[:, None], noise).value < 0.1 for _ in range(draws))
        for column in (table, neighbour)
    ]
    # The claim: one is at most exp(2 * rate * 1) times as likely as the other; and some room for chance.
    assert max(below) <= np.exp(2.0 * rate) * min(below) + 0.2 * draws


class SeenScores(SimulatedNoise):
    """Keeps the scores of a choice, and rows in their order."""

    seen: Integers

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        self.seen = scores
        return super().exponential_choice(scores, rate)


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_a_changed_row_moves_the_distance_of_its_own_pair_alone(size: int) -> None:
    """Ever more rows go far out, one after the other, each out of another pair.

    Wherever a quantile, a mean or a spread of all rows lies, one of these rows moves it, and with it other pairs.
    """
    plan = width_choice.WidthPlan(size=size, unit=ROW, rate=1.0, relation=REPLACE)
    rows, noise = 0.01 * public_coins(size).normal(size=(size, 1)), SeenScores(1)
    width_choice.run(plan, rows, noise)
    for place in range(0, size, 2):
        before, rows[place] = noise.seen, 2.0
        width_choice.run(plan, rows, noise)
        assert np.abs(noise.seen - before).max() == plan.event.quantity.sensitivity


def test_an_order_is_uniform_and_another_one_each_time() -> None:
    noise = SecretNoise()
    orders = np.array([random_order(5, noise) for _ in range(6000)])
    assert (np.sort(orders, axis=1) == np.arange(5)).all()
    counts = np.array([(orders[:, 0] == place).sum() for place in range(5)])
    # Binomial(6000, 1/5) has standard deviation 31: one of five leaves seven of them with probability 1e-11.
    assert np.abs(counts - 1200).max() < 7 * 31
    assert len({order.tobytes() for order in orders}) == 120


def test_an_order_of_many_rows_mixes_all_of_them() -> None:
    """Where rows stand before and after has a correlation of standard deviation 1/100: all of eight lie within 7."""
    places, noise = np.arange(10_000), SecretNoise()
    assert max(abs(np.corrcoef(places, random_order(10_000, noise))[0, 1]) for _ in range(8)) < 0.07


def test_simulations_keep_rows_as_they_are() -> None:
    assert random_order(4, SimulatedNoise(1)).tolist() == [0, 1, 2, 3]
