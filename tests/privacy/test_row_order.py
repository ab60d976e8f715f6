"""A set of rows is protected, not a list: tables may be sorted, and a row that is replaced then moves others."""

import numpy as np

from likeset.privacy import width_choice
from likeset.privacy.events import ROW, Relation
from likeset.privacy.noise import SecretNoise, SimulatedNoise, random_order


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
