"""Sensitivity is asked of the quantity, which says under which relation it is bounded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chance import public_coins
from likeset.errors import InvalidArgument
from likeset.privacy.events import ROW, Norm, PairSplit, PrivacyUnit, Relation, RowSum, SelectionSum


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
    assert (
        RowSum(norm=Norm.EUCLIDEAN, radius=1.0, unit=PrivacyUnit(rows, ""), relation=relation).sensitivity == expected
    )


@given(radius=st.floats(0.1, 3), rows=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_no_pair_of_neighbours_is_further_apart(radius: float, rows: int, seed: int) -> None:
    """Random rows on the sphere never beat the bound, and opposite rows reach it."""
    coins = public_coins(seed)
    most = {
        relation: RowSum(norm=Norm.EUCLIDEAN, radius=radius, unit=PrivacyUnit(rows, ""), relation=relation).sensitivity
        for relation in Relation
    }
    before, after = (_on_sphere(coins, rows, radius) for _ in range(2))
    replaced = np.linalg.norm(before.sum(axis=0) - after.sum(axis=0))
    assert replaced <= most[Relation.REPLACE_ONE] * (1 + 1e-12)
    assert np.linalg.norm(before.sum(axis=0)) <= most[Relation.ADD_OR_REMOVE] * (1 + 1e-12)
    pole = np.tile(before[:1], (rows, 1))
    worst = np.linalg.norm(pole.sum(axis=0) + pole.sum(axis=0))
    assert worst == pytest.approx(most[Relation.REPLACE_ONE])


def _on_sphere(
    coins: np.random.Generator, rows: int, radius: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    points = coins.normal(size=(rows, 4))
    scaled: np.ndarray[tuple[int, int], np.dtype[np.float64]] = (
        radius * points / np.linalg.norm(points, axis=1)[:, None]
    )
    return scaled


def test_a_split_of_pairs_is_bounded_under_replace_one_only() -> None:
    """By its type: there is no way to ask for another bound."""
    split = PairSplit(unit=PrivacyUnit(3, ""))
    assert (split.sensitivity, split.relation) == (6.0, Relation.REPLACE_ONE)
    with pytest.raises(TypeError):
        PairSplit(unit=PrivacyUnit(3, ""), relation=Relation.ADD_OR_REMOVE)  # type: ignore[call-arg]


def test_a_selection_of_fixed_size_has_rows_replaced_and_twice_as_many_if_one_is_replaced() -> None:
    """Best 2 of {0, -1} and of {0, -1, 1}: one row was added, and 1 took the place of -1, a distance of 2.

    Replacing a row is removing it and adding another: two steps of 2.
    """
    added, replaced = (
        SelectionSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=relation)
        for relation in (Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE)
    )
    best = [sum(sorted(rows, reverse=True)[:2]) for rows in ([0.0, -1.0], [0.0, -1.0, 1.0])]
    assert abs(best[0] - best[1]) == added.sensitivity == 2.0
    assert replaced.sensitivity == 4.0


@pytest.mark.parametrize(("radius", "rows"), [(0.0, 1), (-1.0, 1), (float("inf"), 1), (1.0, 0)])
def test_a_sum_without_a_bound_is_refused(radius: float, rows: int) -> None:
    with pytest.raises(InvalidArgument):
        RowSum(norm=Norm.EUCLIDEAN, radius=radius, unit=PrivacyUnit(rows, ""), relation=Relation.REPLACE_ONE)
