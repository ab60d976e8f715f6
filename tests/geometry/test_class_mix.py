"""The mix of classes of a target: likelier than the pool's, and nobody's share taken without evidence."""

import naive_twins
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from chance import pinned_coins
from likeset.geometry.class_mix import MixFit, class_kernels, mix_ratios

Matrix = NDArray[np.float64]


def _chances(mix: list[float], rows: int, *, apart: float, name: str) -> Matrix:
    """Right chances, under an even mix, of rows of some mix: classes stand on a line, one ``apart`` from the next."""
    coins, classes = pinned_coins(name), np.arange(len(mix))
    values = apart * coins.choice(classes, size=rows, p=mix) + coins.normal(size=rows)
    densities = norm.pdf(values[:, None] - apart * classes)
    return np.asarray(densities / densities.sum(axis=1, keepdims=True))


class _Explaining(MixFit):
    """A fit in which every mix explains the same share of the distance, given as ``within_target``."""

    def explained(self, mix: Matrix) -> float:  # noqa: ARG002 - the same for all
        return self.within_target


def _shares(
    chances: Matrix, pool_mix: Matrix, alone: Matrix | None = None, explained: float = 1.0, told: float = 0.0
) -> Matrix:
    """Mean chances under the new mix; rows matched alone have the mix of the mean chances if nothing else is said."""
    fit = _Explaining(np.zeros((len(pool_mix), len(pool_mix))), pool_mix, explained, pool_mix)
    usual, sure = chances.mean(axis=0) if alone is None else alone, np.full(len(pool_mix), told)
    corrected = chances * mix_ratios(chances, pool_mix, usual, sure, fit)
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


@pytest.mark.parametrize(
    ("explained", "told", "kept"),
    [(0.0, 0.0, 1.0), (0.2, 0.0, 16 / 17), (0.5, 0.5, 1 / 4), (0.0, 0.8, 1 / 17), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)],
)
def test_what_is_taken_from_a_class_needs_evidence(explained: float, told: float, kept: float) -> None:
    """The class between is not there: of what the likelihood would take ``g(t) g(e)`` is kept."""
    even, alone = np.full(3, 1 / 3), np.array([0.3, 0.4, 0.3])
    chances = _chances([0.5, 0.0, 0.5], 400, apart=2.0, name="two outer classes")
    all_taken = _shares(chances, even, alone)[1]
    expected = all_taken + kept * (0.4 - all_taken)
    np.testing.assert_allclose(_shares(chances, even, alone, explained, told)[1], expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_where_the_mix_explains_nothing_nobody_has_less_than_among_rows_matched_alone(seed: int) -> None:
    """Shares of rows matched alone sum to 1, so all can be kept; a larger first share can lower them by its excess."""
    coins = pinned_coins(seed)
    mix, alone = coins.dirichlet(np.ones(4)), coins.dirichlet(np.ones(4))
    chances = _chances(list(mix), 300, apart=1.5, name=f"nothing explained {seed}")
    shares = _shares(chances, np.full(4, 1 / 4), alone, explained=0.0)
    excess = np.maximum(chances.mean(axis=0) - alone, 0.0).sum()
    assert (shares >= alone / (1.0 + excess) - 1e-6).all()


def test_a_mix_explains_the_share_of_the_distance_that_is_gone_with_it() -> None:
    """The target is the first class: 0.2 from an even mix, 0 from that class, 0.05 from three quarters of it."""
    kernels = np.array([[0.5, 0.1], [0.1, 0.5]])
    fit = MixFit(kernels, with_target=np.array([0.5, 0.1]), within_target=0.5, shares=np.array([0.5, 0.5]))
    assert fit.explained(np.array([1.0, 0.0])) == pytest.approx(1.0)
    assert fit.explained(np.array([0.75, 0.25])) == pytest.approx(0.75)
    assert fit.explained(np.array([0.5, 0.5])) == 0.0
    assert fit.explained(np.array([0.0, 1.0])) == 0.0  # further away than before


def test_where_pool_and_target_are_alike_there_is_nothing_to_explain() -> None:
    fit = MixFit(np.full((2, 2), 0.3), with_target=np.full(2, 0.3), within_target=0.3, shares=np.array([0.5, 0.5]))
    assert fit.explained(np.array([1.0, 0.0])) == 0.0


def test_mean_kernels_between_classes_are_those_of_all_pairs_of_different_rows() -> None:
    coins = pinned_coins("pairs of classes")
    rows, codes = coins.normal(size=(9, 2)), np.array([0, 1, 0, 1, 1, 0, 2, 1, 0])
    kernel = naive_twins.kernel_matrix(rows, rows, gamma=0.7)
    expected = np.ones((3, 3))
    for first, second in np.ndindex(3, 3):
        pairs = [kernel[i, j] for i in range(9) for j in range(9) if i != j and (codes[i], codes[j]) == (first, second)]
        expected[first, second] = np.mean(pairs) if pairs else 1.0
    np.testing.assert_allclose(class_kernels(rows, codes, gamma=0.7), expected, atol=1e-12)


def test_many_rows_of_a_class_are_represented_by_some_and_a_rare_class_by_all() -> None:
    coins = pinned_coins("many rows")
    codes = np.append(np.zeros(5000, dtype=np.int64), [1, 1])
    rows = coins.normal(size=(5002, 2)) + 2.0 * codes[:, None]
    found = class_kernels(rows, codes, gamma=0.5)
    assert found[0, 0] == pytest.approx(1 / 3, abs=0.02)  # E exp(-0.5 |x - y|²) of two standard normal rows
    assert found[1, 1] == pytest.approx(np.exp(-0.5 * ((rows[-1] - rows[-2]) ** 2).sum()))
