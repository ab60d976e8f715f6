"""Shares, payments and the report: expected numbers by hand, and who may depend on whom."""

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import public_coins
from likeset.errors import InvalidArgument
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.shapley import SelectionGame, selection_game
from likeset.run.result import Attribution, attribute


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


def summary(owner_count: int, size: int = 25) -> tuple[NDArray[np.int64], SelectionGame]:
    """A real selection: owners around different places, the target between the first two."""
    coins = public_coins(3)
    owners = np.repeat(np.arange(owner_count), 30)
    centres = coins.normal(size=(owner_count, 2))
    centres[0], centres[1] = (-0.5, 0.0), (0.5, 0.0)
    pool = centres[owners] + 0.4 * coins.normal(size=(len(owners), 2))
    target = 0.6 * coins.normal(size=(40, 2))
    found = exact_greedy(pool, target, size, gamma=0.8)
    chosen = owners[found.indices]
    return chosen, selection_game(pool[found.indices], chosen, owner_count, target, gamma=0.8)


def report(owner_count: int, coins: np.random.Generator | None = None, *, size: int = 25) -> Attribution:
    chosen, game = summary(owner_count, size)
    return attribute(
        [f"owner-{place}" for place in range(owner_count)],
        owners=chosen,
        rows_disclosed=[30] * owner_count,
        price_per_row=2.0,
        game=game,
        coins=coins,
    )


def test_the_report_agrees_with_its_parts() -> None:
    chosen, game = summary(4)
    made = report(4)
    worth = np.array([line.shapley for line in made.owners])
    assert [line.owner for line in made.owners] == ["owner-0", "owner-1", "owner-2", "owner-3"]
    assert [line.rows_selected for line in made.owners] == np.bincount(chosen, minlength=4).tolist()
    assert [line.rows_disclosed for line in made.owners] == [30] * 4
    assert [line.share for line in made.owners] == pytest.approx(worth / worth.sum())
    assert [line.payment for line in made.owners] == [60.0] * 4
    assert sum(line.shapley for line in made.owners) == pytest.approx(made.improvement)
    assert made.improvement == pytest.approx(game.coalitions(np.ones((1, 4), dtype=bool))[0], rel=1e-12)
    assert made.permutations == 0
    assert {line.shapley_error for line in made.owners} == {0.0}


def test_a_share_does_not_depend_on_the_order_of_picks_and_is_never_negative() -> None:
    """Owners 0 and 1 have equal rows, whoever was picked first; owner 2's rows lead away from the target."""
    game = SelectionGame(
        attraction=np.array([1.0, 1.0, 0.1]), similarity=np.array([[2.0, 1.5, 1.5], [1.5, 2.0, 1.5], [1.5, 1.5, 4.0]])
    )
    for picks in ([0, 1, 2], [2, 1, 0]):
        made = attribute(["a", "b", "c"], owners=picks, rows_disclosed=[1, 1, 1], price_per_row=0.0, game=game)
        assert made.owners[2].shapley < 0.0
        assert [line.share for line in made.owners] == [0.5, 0.5, 0.0]


def test_many_owners_need_coins_and_get_errors() -> None:
    with pytest.raises(InvalidArgument, match="coins"):
        report(18, size=250)
    made = report(18, public_coins(0), size=250)
    assert made.permutations > 0
    assert max(line.shapley_error for line in made.owners) > 0.0
    assert sum(line.shapley for line in made.owners) == pytest.approx(made.improvement)
