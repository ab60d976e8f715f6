"""Tests of thinning candidates to a few that represent a weighted set."""

import numpy as np
import pytest

import naive_twins
from chance import public_coins
from likeset.geometry import offers
from likeset.geometry.offers import thin


@pytest.mark.parametrize("shares", [[33, 33, 34], [33, 34, 34]])
def test_groups_share_the_count(shares: list[int]) -> None:
    """More candidates than one group holds: every group gives its part, none twice, and the choice is as good."""
    coins = public_coins(2)
    rows = coins.normal(size=(7000, 3))
    kept = thin(rows, rows[:500], np.full(500, 1 / 500), sum(shares), gamma=0.2)
    assert len(np.unique(kept)) == sum(shares)
    groups = -(-7000 // offers._THINNED_TOGETHER)
    assert sorted(np.bincount(kept % groups)) == shares


@pytest.mark.parametrize("together", [7, 3000])
def test_each_choice_is_the_best_there_is_in_its_group(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whole kernel matrices: the largest attraction less the mean kernel with those chosen, one more counted."""
    monkeypatch.setattr(offers, "_THINNED_TOGETHER", together)
    coins = public_coins(3)
    rows, proxies, weights = coins.normal(size=(20, 2)), coins.normal(size=(9, 2)), coins.random(9) / 4.5
    groups, expected = -(-20 // together), []
    for group in range(groups):
        places = list(range(group, 20, groups))
        chosen: list[int] = []
        attraction = naive_twins.kernel_matrix(rows[places], proxies, gamma=0.4) @ weights
        among = naive_twins.kernel_matrix(rows[places], rows[places], gamma=0.4)
        for made in range(11 // groups + (group < 11 % groups)):
            scores = attraction - among[:, chosen].sum(axis=1) / (made + 1)
            scores[chosen] = -np.inf
            chosen.append(int(np.argmax(scores)))
        expected += [places[place] for place in chosen]
    assert thin(rows, proxies, weights, 11, gamma=0.4).tolist() == expected


def test_candidates_that_are_no_more_than_wanted_are_all_kept() -> None:
    """In their order, not in that of a choice, which would begin with the second."""
    rows = np.array([[5.0], [0.0], [1.0]])
    for count in (3, 5):
        assert thin(rows, rows[1:2], np.ones(1), count, gamma=1.0).tolist() == [0, 1, 2]
