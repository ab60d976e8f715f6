"""Shapley values: the axioms, a twin that walks through every order, and the sampler against both."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import public_coins
from likeset.errors import InvalidArgument
from likeset.geometry import shapley as sh
from likeset.geometry.kernels import rbf_kernel, squared_mmd
from naive_twins import objective

GAMMA = 0.7
Worth = Callable[[frozenset[int]], float]


@dataclass(frozen=True)
class Plain:
    """Any game, by the definitions: one coalition at a time."""

    owner_count: int
    worth: Worth

    def coalitions(self, members: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.array([self.worth(frozenset(np.flatnonzero(line).tolist())) for line in members])

    def average_gains(self, order: NDArray[np.int64]) -> NDArray[np.float64]:
        average = np.zeros(self.owner_count)
        for owner in range(self.owner_count):
            others = [int(other) for other in order if other != owner]
            for place in range(self.owner_count):
                before = frozenset(others[:place])
                average[owner] += (self.worth(before | {owner}) - self.worth(before)) / self.owner_count
        return average


def by_orders(game: Plain) -> NDArray[np.float64]:
    """The definition: what an owner adds on joining, averaged over all K! orders."""
    total = np.zeros(game.owner_count)
    for order in permutations(range(game.owner_count)):
        for place, owner in enumerate(order):
            total[owner] += game.worth(frozenset(order[: place + 1])) - game.worth(frozenset(order[:place]))
    return total / math.factorial(game.owner_count)


def random_game(owners: int, seed: int) -> Plain:
    """A worth drawn for each coalition: no structure that a mistake could hide behind."""
    coins = public_coins(seed)
    table = {
        frozenset(c): float(coins.normal()) for size in range(1, owners + 1) for c in combinations(range(owners), size)
    }
    return Plain(owners, lambda coalition: table.get(coalition, 0.0))


@dataclass(frozen=True)
class World:
    rows: NDArray[np.float64]
    owners: NDArray[np.int64]
    count: int
    target: NDArray[np.float64]

    @property
    def game(self) -> sh.SelectionGame:
        return sh.selection_game(self.rows, self.owners, self.count, self.target, gamma=GAMMA)

    @property
    def plain(self) -> Plain:
        """The game by its definition: the best of all common weights, from kernels between single rows."""

        def worth(coalition: frozenset[int]) -> float:
            chosen = self.rows[np.isin(self.owners, sorted(coalition))]
            if not len(chosen):
                return 0.0
            near = rbf_kernel(chosen, self.target, gamma=GAMMA).mean(axis=1).sum()
            alike = rbf_kernel(chosen, chosen, gamma=GAMMA).sum()
            weight = near / alike
            return float(2.0 * weight * near - weight**2 * alike)

        return Plain(self.count, worth)


def world(count: int, *, seed: int, rows: int = 30) -> World:
    """Owners around different centres, one of them (the last) far from the target."""
    coins = public_coins(seed)
    owners = coins.integers(0, count, size=rows)
    centres = coins.normal(scale=0.7, size=(count, 2))
    centres[-1] += 4.0
    return World(
        rows=centres[owners] + 0.5 * coins.normal(size=(rows, 2)),
        owners=owners,
        count=count,
        target=coins.normal(size=(20, 2)),
    )


# --- the game ---


@pytest.mark.parametrize("seed", range(3))
def test_the_game_is_its_definition(seed: int) -> None:
    made = world(4, seed=seed)
    members = np.array([[code >> owner & 1 for owner in range(4)] for code in range(16)], dtype=bool)
    assert made.game.coalitions(members) == pytest.approx(made.plain.coalitions(members), rel=1e-12)


def test_a_coalition_is_worth_what_the_best_common_weight_takes_off_the_squared_mmd() -> None:
    """||mu||² - min_t ||mu - t sum h||², with the minimum found on a grid, and mu's norm from the target's kernel."""
    made = world(3, seed=1)
    near = rbf_kernel(made.rows, made.target, gamma=GAMMA).mean(axis=1).sum()
    alike = rbf_kernel(made.rows, made.rows, gamma=GAMMA).sum()
    norm = rbf_kernel(made.target, made.target, gamma=GAMMA).mean()
    grid = np.linspace(0.0, 3.0 / len(made.rows), 200_001)
    remaining = (norm - 2.0 * grid * near + grid**2 * alike).min()
    everybody = float(made.game.coalitions(np.ones((1, 3), dtype=bool))[0])
    assert everybody == pytest.approx(norm - remaining, abs=1e-9)
    # Equal weights that add up to 1 are one of the choices: J and the squared MMD are reached or beaten.
    assert everybody >= objective(made.rows, made.target, gamma=GAMMA)
    assert norm - everybody <= squared_mmd(made.rows, made.target, gamma=GAMMA)


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_putting_an_owner_into_every_place_is_its_definition(count: int) -> None:
    made = world(count, seed=count)
    order = public_coins(count).permutation(count)
    assert made.game.average_gains(order) == pytest.approx(made.plain.average_gains(order), rel=1e-9, abs=1e-12)


# --- exact values ---


@pytest.mark.parametrize("owners", [1, 2, 3, 4, 5])
def test_exact_values_are_averages_over_all_orders(owners: int) -> None:
    game = random_game(owners, seed=owners)
    assert sh.exact_shapley(game).values == pytest.approx(by_orders(game), abs=1e-12)
    made = world(owners, seed=owners)
    assert sh.exact_shapley(made.game).values == pytest.approx(by_orders(made.plain), abs=1e-12)


# --- sampled values ---


@pytest.mark.parametrize("owners", [2, 7, 30])
def test_one_pair_of_orders_is_exact_where_owners_interact_in_pairs_only(owners: int) -> None:
    """v(C) = sum a_i + sum q_ij has the values a_i + half the sum of owner i's q_ij."""
    coins = public_coins(owners)
    alone, pairs = coins.normal(size=owners), coins.normal(size=(owners, owners))
    pairs = np.triu(pairs, 1) + np.triu(pairs, 1).T

    def worth(coalition: frozenset[int]) -> float:
        chosen = sorted(coalition)
        return float(alone[chosen].sum() + pairs[np.ix_(chosen, chosen)].sum() / 2.0)

    found = sh.sampled_shapley(Plain(owners, worth), coins=coins, pairs=2)
    assert found.values == pytest.approx(alone + pairs.sum(axis=1) / 2.0, abs=1e-10)
    assert found.standard_errors.max() < 1e-10


@pytest.mark.parametrize("owners", [5, 8, 15])
def test_sampled_values_agree_with_exact_ones_within_their_errors(owners: int) -> None:
    """Beyond 5 standard errors of 50 pairs one value in 130 000 lies (Student's t with 49 degrees of freedom).

    And errors stay below a tenth of an average owner's value (they do not with each owner in one place of an order).
    """
    game = world(owners, seed=owners, rows=60).game
    exactly, found = sh.exact_shapley(game), sh.sampled_shapley(game, coins=public_coins(1))
    assert (np.abs(found.values - exactly.values) <= 5.0 * found.standard_errors).all()
    assert found.standard_errors.max() < 0.1 * exactly.total / owners
    assert found.values.sum() == pytest.approx(exactly.total, abs=1e-12)
    assert found.total == pytest.approx(exactly.total, abs=1e-12)
    assert (found.permutations, exactly.permutations) == (100, 0)


def test_standard_errors_say_how_far_off_values_are() -> None:
    """Over 200 seeds the mean squared z-score is near 0.87.

    It would be 39/37 (Student's t with 39 degrees of freedom), but adding up to the whole takes one of six degrees of
    freedom away from the errors, not from what they are said to be. Errors said by permutations instead of pairs would
    double it; without the root of their number it would be 40 times less.
    """
    game = random_game(6, seed=3)
    exactly = sh.exact_shapley(game).values
    scores = []
    for seed in range(200):
        found = sh.sampled_shapley(game, coins=public_coins(seed), pairs=40)
        scores.append((found.values - exactly) / found.standard_errors)
    assert 0.7 < float(np.mean(np.square(scores))) < 1.05


def test_values_that_are_certain_stay_what_they_are() -> None:
    made = world(6, seed=6)
    found = sh.sampled_shapley(World(made.rows, made.owners, 8, made.target).game, coins=public_coins(0), pairs=5)
    assert found.values[6:] == pytest.approx([0.0, 0.0], abs=1e-15)
    assert found.values.sum() == pytest.approx(found.total, abs=1e-14)


def test_fifteen_owners_are_exact_and_sixteen_are_sampled_with_seeded_coins() -> None:
    assert sh.shapley(world(15, seed=0).game).permutations == 0
    game = world(16, seed=0, rows=200).game
    assert len(game.contributors()) == 16
    first, again = (sh.shapley(game, coins=public_coins(5)) for _ in range(2))
    assert first.permutations == 100
    assert first.values.tolist() == again.values.tolist()
    with pytest.raises(InvalidArgument, match="coins"):
        sh.shapley(game)
    with pytest.raises(InvalidArgument, match="owner_count"):
        sh.exact_shapley(game)
    with pytest.raises(InvalidArgument, match="pairs"):
        sh.sampled_shapley(game, coins=public_coins(5), pairs=1)


def test_owners_without_rows_are_worth_nothing_and_change_nobody_elses_value() -> None:
    few = world(6, seed=1)
    spread = np.array([3, 17, 4, 30, 11, 8])  # where the six are among 40 owners
    many = sh.selection_game(few.rows, spread[few.owners], 40, few.target, gamma=GAMMA)
    found = sh.shapley(many)  # so few contribute that it is exact, and needs no coins
    assert found.permutations == 0
    assert found.values[spread] == pytest.approx(sh.exact_shapley(few.game).values, abs=1e-12)
    assert not np.delete(found.values, spread).any()
    assert not found.standard_errors.any()
