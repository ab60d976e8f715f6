"""The mix of classes of a target: likelier than the pool's, and nobody's share taken without evidence."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from chance import pinned_coins
from likeset.geometry.class_mix import mix_ratios

Matrix = NDArray[np.float64]


def _chances(mix: list[float], rows: int, *, apart: float, name: str) -> Matrix:
    """Right chances, under an even mix, of rows of some mix: classes stand on a line, one ``apart`` from the next."""
    coins, classes = pinned_coins(name), np.arange(len(mix))
    values = apart * coins.choice(classes, size=rows, p=mix) + coins.normal(size=rows)
    densities = norm.pdf(values[:, None] - apart * classes)
    return np.asarray(densities / densities.sum(axis=1, keepdims=True))


def _shares(chances: Matrix, pool_mix: Matrix, alone: Matrix | None = None) -> Matrix:
    """Mean chances under the new mix; rows matched alone have the mix of the mean chances if nothing else is said."""
    corrected = chances * mix_ratios(chances, pool_mix, chances.mean(axis=0) if alone is None else alone)
    return np.asarray((corrected / corrected.sum(axis=1, keepdims=True)).mean(axis=0))


def test_classes_that_are_told_have_the_shares_that_are_counted() -> None:
    """Chances of 0 and 1: there is nothing to correct."""
    chances = np.repeat(np.eye(3), [6, 3, 1], axis=0)
    np.testing.assert_allclose(_shares(chances, np.full(3, 1 / 3)), [0.6, 0.3, 0.1], atol=1e-6)


def test_a_class_that_is_only_confused_with_others_vanishes() -> None:
    """The class between is no class of the target: it has a fifth of the rows at first, and next to none by the mix."""
    chances = _chances([0.5, 0.0, 0.5], 400, apart=2.0, name="two outer classes")
    assert chances.mean(axis=0)[1] > 0.2
    assert _shares(chances, np.full(3, 1 / 3))[1] < 0.06


def test_a_rare_class_that_is_there_loses_nothing_of_its_first_share() -> None:
    """Four in a hundred rows; without a correction it has more than twice as many, as rows matched alone would."""
    chances = _chances([0.64, 0.32, 0.04], 500, apart=2.5, name="a rare class")
    first = chances.mean(axis=0)
    assert first[2] > 0.06
    assert _shares(chances, np.full(3, 1 / 3))[2] >= first[2] - 1e-6


def test_a_class_that_is_there_has_no_less_than_among_rows_matched_alone() -> None:
    """It is raised to that share, at the cost of the others; one that is not there is not raised."""
    even = np.full(3, 1 / 3)
    rare = _chances([0.64, 0.32, 0.04], 500, apart=2.5, name="a rare class")
    np.testing.assert_allclose(_shares(rare, even, np.array([0.5, 0.3, 0.2]))[2], 0.2, atol=1e-5)
    absent = _chances([0.5, 0.0, 0.5], 400, apart=2.0, name="two outer classes")
    assert _shares(absent, even, np.array([0.3, 0.4, 0.3]))[1] < 0.06


def test_shares_that_are_all_larger_among_rows_matched_alone_sum_to_one() -> None:
    """Half of each class is first counted and half among rows matched alone: the larger of both sum to more than 1."""
    chances = np.repeat(np.array([[0.9, 0.1], [0.2, 0.8]]), 30, axis=0)
    shares = _shares(chances, np.array([0.5, 0.5]), np.array([0.1, 0.9]))
    assert shares.sum() == pytest.approx(1.0)
    assert np.isfinite(shares).all()


def test_the_fewer_rows_the_less_is_taken_from_a_doubtful_class() -> None:
    """The class between is not there: 30 rows say less about that than 300."""
    kept = {}
    for rows in (30, 300):
        chances = _chances([0.5, 0.0, 0.5], rows, apart=1.2, name="few rows")
        kept[rows] = _shares(chances, np.full(3, 1 / 3))[1] / chances.mean(axis=0)[1]
    assert kept[300] < 0.5 < 0.7 < kept[30] < 1.0


def test_rows_that_tell_nothing_change_nothing() -> None:
    """All rows have the pool's own chances: every mix is as likely as any other."""
    pool_mix = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(_shares(np.tile(pool_mix, (50, 1)), pool_mix), pool_mix, atol=1e-6)


def test_classes_that_no_row_can_have_do_no_harm() -> None:
    chances = np.zeros((40, 4))
    chances[:, 1] = 1.0
    np.testing.assert_array_equal(_shares(chances, np.array([1e-9, 0.5, 0.25, 0.25])), [0.0, 1.0, 0.0, 0.0])
