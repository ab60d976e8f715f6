"""Shares, payments and the report: expected numbers by hand, and who may depend on whom."""

import math
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chance import public_coins
from likeset.errors import InvalidArgument
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.shapley import SelectionGame, selection_game
from likeset.run.result import Attribution, attribute, payments, shares

# --- shares ---


def test_a_share_is_the_fraction_of_the_total() -> None:
    assert shares([3.0, 0.0, 1.0]).tolist() == [0.75, 0.0, 0.25]
    assert shares([2.0]).tolist() == [1.0]


def test_without_any_gain_those_who_contributed_share_equally() -> None:
    assert shares([0.0, 0.0, 0.0, 0.0], rows_selected=[3, 0, 1, 0]).tolist() == [0.5, 0.0, 0.5, 0.0]
    assert shares([0.0, 0.0]).tolist() == [0.5, 0.5]
    assert shares([0.0, 0.0], rows_selected=[0, 0]).tolist() == [0.0, 0.0]
    # One gain is enough for gains to decide.
    assert shares([0.0, 1e-300], rows_selected=[5, 1]).tolist() == [0.0, 1.0]


@given(worth=st.lists(st.floats(0.0, 1e308), min_size=1, max_size=20))
def test_shares_are_a_whole_for_huge_and_tiny_values(worth: list[float]) -> None:
    found = shares(worth)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert shares(np.array(worth) / 4.0).sum() == pytest.approx(1.0, abs=1e-12)


# --- payments ---


def test_the_default_payment_is_price_times_rows_disclosed() -> None:
    assert payments([10, 0, 3], 2.5).tolist() == [25.0, 0.0, 7.5]
    assert payments([10, 3], 0.0).tolist() == [0.0, 0.0]


@given(others=st.lists(st.integers(0, 10**6), min_size=2, max_size=2), mine=st.integers(0, 10**6))
def test_the_default_payment_depends_on_nobody_else(others: list[int], mine: int) -> None:
    assert payments([others[0], mine, others[1]], 0.3)[1] == payments([0, mine, 7], 0.3)[1]


# --- the report ---


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


def test_a_report_is_frozen() -> None:
    made = report(3)
    with pytest.raises(FrozenInstanceError):
        made.improvement = 1.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        made.owners[0].payment = 1.0  # type: ignore[misc]


# --- bad input ---


def test_other_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="rows_disclosed"):
        payments([1.5], 1.0)
    with pytest.raises(InvalidArgument, match="price_per_row"):
        payments([1], -1.0)
    with pytest.raises(InvalidArgument, match="price_per_row"):
        payments([1], math.nan)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"rows_disclosed": [9, 9]}, "rows_disclosed"),
        ({"rows_disclosed": [9, 9, 0]}, "rows_disclosed"),
    ],
)
def test_reports_that_do_not_fit_are_refused(change: dict[str, Any], argument: str) -> None:
    game = SelectionGame(attraction=np.ones(3), similarity=np.eye(3))
    given: dict[str, Any] = {"names": ["a", "b", "c"], "rows_disclosed": [1, 1, 1], **change}
    with pytest.raises(InvalidArgument) as refused:
        attribute(
            given["names"],
            owners=[0, 1, 2],
            rows_disclosed=given["rows_disclosed"],
            price_per_row=1.0,
            game=game,
        )
    assert refused.value.argument == argument
