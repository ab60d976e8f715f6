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
    return [-abs(2 * sum(d <= t for d in distances) - len(pairs)) for t in width_choice.grid(rows.shape[1])]


@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(0, 11))
def test_replacing_one_row_moves_no_score_by_more_than_two(seed: int, size: int, place: int) -> None:
    coins = public_coins(seed)
    rows = coins.normal(scale=10.0 ** coins.integers(-3, 4), size=(size, 3))
    other = rows.copy()
    other[place % size] = coins.normal(scale=10.0 ** coins.integers(-3, 4), size=3)
    moved = np.abs(np.array(_scores(rows)) - np.array(_scores(other))).max()
    plan = width_choice.plan(size=size, unit=ROW, rho=0.01, relation=REPLACE)
    assert moved <= plan.event.quantity.sensitivity == 2.0


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
    """Sorted values 0, 0, 1, 1, ..., 49, 49, 52, 55, ...; then one 0 becomes the largest.

    Paired by place, half of the distances are 0 in the one table and 1 in the other; the rest are 9, beyond every
    candidate. So candidates below 1 split the one evenly and the other not at all: 20 of 27 choices against none.
    """
    table = np.append(np.repeat(np.arange(50.0), 2), 49.0 + 3.0 * np.arange(1, 101))
    neighbour = np.append(table[1:], table[-1] + 3.0)
    for column, near in ((table, 0.0), (neighbour, 1.0)):
        distances = (column[::2] - column[1::2]) ** 2
        assert (distances[:49] == near).all()
        assert distances[50:].min() > max(width_choice.grid(1))
    rate, draws = 0.25, 400
    plan = width_choice.WidthPlan(size=200, unit=ROW, rate=rate, relation=Relation.REPLACE_ONE)
    noise = SecretNoise()
    below = [
        sum(width_choice.run(plan, column[:, None], noise).value < 1.0 for _ in range(draws))
        for column in (table, neighbour)
    ]
    # The claim: one is at most exp(2 * rate * 2) times as likely as the other; and some room for chance.
    assert max(below) <= np.exp(4.0 * rate) * min(below) + 0.2 * draws


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


def test_simulations_keep_rows_as_they_are() -> None:
    assert random_order(4, SimulatedNoise(1)).tolist() == [0, 1, 2, 3]
