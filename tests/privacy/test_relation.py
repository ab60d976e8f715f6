"""Sensitivity is asked of the quantity, given the relation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likeset.errors import InvalidArgument
from likeset.privacy.relation import InRange, Norm, Relation, RowSum, SelectionSum


@pytest.mark.parametrize(
    ("rows", "relation", "expected"),
    [
        (1, Relation.REPLACE_ONE, 2.0),
        (1, Relation.ADD_OR_REMOVE, 1.0),
        (3, Relation.REPLACE_ONE, 6.0),
        (3, Relation.ADD_OR_REMOVE, 3.0),
    ],
)
def test_sum_of_unit_vectors(rows: int, relation: Relation, expected: float) -> None:
    """One id with r rows in the unit ball: removing takes away r at most, replacing moves each by 2."""
    assert RowSum(norm=Norm.EUCLIDEAN, radius=1.0, rows=rows).sensitivity(relation) == expected


@settings(deadline=None)
@given(radius=st.floats(0.1, 3), rows=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_no_pair_of_neighbours_is_further_apart(radius: float, rows: int, seed: int) -> None:
    """Random rows on the sphere never beat the bound, and opposite rows reach it."""
    coins = np.random.default_rng(seed)
    quantity = RowSum(norm=Norm.EUCLIDEAN, radius=radius, rows=rows)
    before, after = (_on_sphere(coins, rows, radius) for _ in range(2))
    replaced = np.linalg.norm(before.sum(axis=0) - after.sum(axis=0))
    assert replaced <= quantity.sensitivity(Relation.REPLACE_ONE) * (1 + 1e-12)
    assert np.linalg.norm(before.sum(axis=0)) <= quantity.sensitivity(Relation.ADD_OR_REMOVE) * (1 + 1e-12)
    pole = np.tile(before[:1], (rows, 1))
    worst = np.linalg.norm(pole.sum(axis=0) + pole.sum(axis=0))
    assert worst == pytest.approx(quantity.sensitivity(Relation.REPLACE_ONE))


def _on_sphere(
    coins: np.random.Generator, rows: int, radius: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    points = coins.normal(size=(rows, 4))
    scaled: np.ndarray[tuple[int, int], np.dtype[np.float64]] = (
        radius * points / np.linalg.norm(points, axis=1)[:, None]
    )
    return scaled


def test_a_share_moves_by_at_most_one_under_either_relation() -> None:
    assert {InRange(lower=0.0, upper=1.0).sensitivity(relation) for relation in Relation} == {1.0}


def test_a_selection_of_fixed_size_has_rows_replaced_and_twice_as_many_if_one_is_replaced() -> None:
    """Best 2 of {0, -1} and of {0, -1, 1}: one row was added, and 1 took the place of -1, a distance of 2.

    Replacing a row is removing it and adding another: two steps of 2.
    """
    quantity = SelectionSum(norm=Norm.COORDINATE, radius=1.0, rows=1)
    best = [sum(sorted(rows, reverse=True)[:2]) for rows in ([0.0, -1.0], [0.0, -1.0, 1.0])]
    assert abs(best[0] - best[1]) == quantity.sensitivity(Relation.ADD_OR_REMOVE) == 2.0
    assert quantity.sensitivity(Relation.REPLACE_ONE) == 4.0


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 1.0), (2.0, 1.0), (float("-inf"), 1.0), (0.0, float("nan"))])
def test_a_range_without_width_is_refused(lower: float, upper: float) -> None:
    with pytest.raises(InvalidArgument):
        InRange(lower=lower, upper=upper)


@pytest.mark.parametrize(("radius", "rows"), [(0.0, 1), (-1.0, 1), (float("inf"), 1), (1.0, 0)])
def test_a_sum_without_a_bound_is_refused(radius: float, rows: int) -> None:
    with pytest.raises(InvalidArgument):
        RowSum(norm=Norm.EUCLIDEAN, radius=radius, rows=rows)


def test_nothing_has_a_default() -> None:
    with pytest.raises(TypeError):
        RowSum()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        RowSum(norm=Norm.EUCLIDEAN, radius=1.0, rows=1).sensitivity()  # type: ignore[call-arg]
