"""Shares, payments and the report: expected numbers by hand, and who may depend on whom."""

import numpy as np

from likeset.geometry.shapley import SelectionGame
from likeset.run.result import attribute


def worth(values: list[float], *, selected: list[int], price: float = 0.0) -> list[tuple[float, float]]:
    """Shares and payments of owners whose rows have nothing in common."""
    game = SelectionGame(attraction=np.array(values), similarity=np.eye(len(values)))
    owners = np.repeat(np.arange(len(values)), selected)
    names = [str(place) for place in range(len(values))]
    made = attribute(names, owners=owners, rows_disclosed=[10, 0, 3, 7], price_per_row=price, game=game)
    return [(line.share, line.payment) for line in made.owners]


def test_without_any_gain_those_who_contributed_share_equally() -> None:
    def parts(values: list[float], selected: list[int]) -> list[float]:
        return [share for share, _ in worth(values, selected=selected)]

    assert parts([0.0, 0.0, 0.0, 0.0], [3, 0, 1, 0]) == [0.5, 0.0, 0.5, 0.0]
    assert parts([0.0, 0.0], [0, 0]) == [0.0, 0.0]
    # One gain is enough for gains to decide.
    assert parts([0.0, 1.0], [5, 1]) == [0.0, 1.0]


def test_a_payment_is_price_times_rows_disclosed() -> None:
    assert [paid for _, paid in worth([1.0, 2.0, 3.0, 0.0], selected=[1, 1, 1, 1], price=2.5)] == [25, 0, 7.5, 17.5]


def test_a_share_does_not_depend_on_the_order_of_picks_and_is_never_negative() -> None:
    """Owners 0 and 1 have equal rows, whoever was picked first; owner 2's rows lead away from the target."""
    game = SelectionGame(
        attraction=np.array([1.0, 1.0, 0.1]), similarity=np.array([[2.0, 1.5, 1.5], [1.5, 2.0, 1.5], [1.5, 1.5, 4.0]])
    )
    for picks in ([0, 1, 2], [2, 1, 0]):
        made = attribute(["a", "b", "c"], owners=picks, rows_disclosed=[1, 1, 1], price_per_row=0.0, game=game)
        assert made.owners[2].shapley < 0.0
        assert [line.share for line in made.owners] == [0.5, 0.5, 0.0]
