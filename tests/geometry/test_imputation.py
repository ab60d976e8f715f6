"""Classes of a target from labelled rows: right where they can be told, unsure and unused where they cannot."""

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import pinned_coins
from likeset.geometry import imputation
from likeset.geometry.greedy import match
from likeset.geometry.imputation import Imputation

Matrix = NDArray[np.float64]


def _draw(coins: np.random.Generator, mix: list[float], rows: int, *, apart: float) -> tuple[Matrix, NDArray[np.int64]]:
    """Rows around centres on a line, one for each class, each ``apart`` from the next; unit variance, two columns."""
    codes = np.append(np.flatnonzero(mix), coins.choice(len(mix), size=rows - np.count_nonzero(mix), p=mix))
    return np.column_stack([apart * codes, np.zeros(rows)]) + coins.normal(size=(rows, 2)), codes


def _impute(pool: Matrix, codes: NDArray[np.int64], target: Matrix, *, gamma: float) -> Imputation:
    """Beside 30 rows that are matched without labels."""
    alone = match(pool, target, min(30, len(pool)), gamma=gamma).indices
    return imputation.impute(pool, codes, target, gamma=gamma, matched_alone=alone)


def test_classes_far_apart_are_imputed_without_a_mistake() -> None:
    coins = pinned_coins(1)
    pool, codes = _draw(coins, [0.25] * 4, 200, apart=8.0)
    target, truth = _draw(coins, [0.1, 0.2, 0.3, 0.4], 60, apart=8.0)
    imputed = _impute(pool, codes, target, gamma=0.1)
    np.testing.assert_array_equal(imputed.chances.argmax(axis=1), truth)
    np.testing.assert_allclose(imputed.chances.sum(axis=1), 1.0)
    assert 0.95 < imputed.least_skill <= imputed.skill


def test_a_class_that_the_target_lacks_is_not_taken_for_its_neighbours() -> None:
    """Three classes that overlap, of which the target has the outer two.

    Of its rows 16% lie nearest to the class between, and who goes by the nearest centre calls these wrong. The mix of
    the target shows that there is no such class; in doubt are the 2% beyond the middle.
    """
    coins = pinned_coins(2)
    pool, codes = _draw(coins, [1 / 3] * 3, 600, apart=2.0)
    target, truth = _draw(coins, [0.5, 0.0, 0.5], 300, apart=2.0)
    nearest = np.clip(np.rint(target[:, 0] / 2.0), 0, 2)
    imputed = _impute(pool, codes, target, gamma=0.2)
    assert imputed.least_skill > 0.1
    assert imputed.chances[:, 1].mean() < 0.08
    assert (imputed.chances.argmax(axis=1) == truth).mean() > (nearest == truth).mean() + 0.04


def test_a_rare_class_keeps_its_rows() -> None:
    """About eleven of 360 rows are of a class that is well apart: each of them keeps its class."""
    coins = pinned_coins(3)
    pool, codes = _draw(coins, [0.45, 0.45, 0.1], 500, apart=9.0)
    target, truth = _draw(coins, [0.5, 0.47, 0.03], 360, apart=9.0)
    imputed = _impute(pool, codes, target, gamma=0.1)
    rare = truth == 2
    assert 0 < rare.sum() < 40
    assert (imputed.chances[rare].argmax(axis=1) == 2).all()
    assert imputed.chances[:, 2].mean() == pytest.approx(rare.mean(), abs=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_rows_do_not_tell_have_no_sure_skill(seed: int) -> None:
    coins = pinned_coins(seed)
    pool, codes = _draw(coins, [0.25] * 4, 300, apart=3.0)
    target, _ = _draw(coins, [0.5, 0.5, 0.0, 0.0], 100, apart=3.0)
    imputed = _impute(pool, coins.permutation(codes), target, gamma=0.2)
    assert imputed.skill < 0.1
    assert imputed.least_skill == 0.0


def test_sure_skill_is_two_standard_errors_below_what_is_seen() -> None:
    """40 pools of two classes, 1.5 standard deviations apart: how skill scatters is what its error says it does."""
    coins = pinned_coins(4)
    target, _ = _draw(coins, [0.5, 0.5], 100, apart=1.5)
    told = [_impute(*_draw(coins, [0.5, 0.5], 200, apart=1.5), target, gamma=0.2) for _ in range(40)]
    skills, least = (np.array([getattr(each, name) for each in told]) for name in ("skill", "least_skill"))
    assert least.min() > 0.0
    assert 2.0 * skills.std() == pytest.approx((skills - least).mean(), rel=0.35)


def test_a_pool_of_one_class_tells_nothing() -> None:
    rows = pinned_coins(5).normal(size=(20, 2))
    imputed = _impute(rows, np.zeros(20, dtype=np.int64), rows[:5], gamma=1.0)
    np.testing.assert_allclose(imputed.chances, 1.0)
    assert imputed.skill == 0.0
    assert imputed.least_skill == 0.0


def test_a_target_beyond_the_reach_of_the_kernel_is_not_imputed() -> None:
    """No row of the pool says anything about it: all classes are alike."""
    coins = pinned_coins(6)
    pool, codes = _draw(coins, [0.5, 0.5], 40, apart=4.0)
    imputed = _impute(pool, codes, np.full((3, 2), 1e4), gamma=1.0)
    np.testing.assert_allclose(imputed.chances, 0.5)
    assert imputed.least_skill == 0.0


@pytest.mark.parametrize("far", [1e3, 1e9, 1e15])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_rows_that_are_very_far_change_nothing(far: float, precision: type) -> None:
    """An owner who sends them, of a class of their own, neither ends nor spoils the imputation."""
    coins = pinned_coins(9)
    pool, codes = _draw(coins, [0.5, 0.3, 0.2], 150, apart=3.0)
    target, _ = _draw(coins, [0.5, 0.0, 0.5], 60, apart=3.0)
    alone = np.arange(30)
    plain = imputation.impute(pool.astype(precision), codes, target.astype(precision), gamma=0.2, matched_alone=alone)
    beside: Matrix = np.concatenate([pool, np.full((5, 2), far)]).astype(precision)
    all_codes = np.append(codes, np.full(5, 3))
    spoiled = imputation.impute(beside, all_codes, target.astype(precision), gamma=0.2, matched_alone=alone)
    np.testing.assert_allclose(spoiled.chances[:, :3], plain.chances, atol=1e-3)
    assert spoiled.chances[:, 3].max() < 1e-3
    assert spoiled.skill == pytest.approx(plain.skill, abs=1e-3)


def test_many_rows_are_imputed_by_landmarks_as_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 rows once exactly and once by 150 landmarks: chances differ by little, and all classes agree where sure."""
    coins = pinned_coins(7)
    pool, codes = _draw(coins, [0.25] * 4, 600, apart=3.0)
    target, _ = _draw(coins, [0.4, 0.3, 0.3, 0.0], 150, apart=3.0)
    exact = _impute(pool, codes, target, gamma=0.1)
    monkeypatch.setattr(imputation, "MOST_EXACT_ROWS", 599)
    monkeypatch.setattr(imputation, "LANDMARKS", 150)
    projected = _impute(pool, codes, target, gamma=0.1)
    assert not np.array_equal(exact.chances, projected.chances)
    np.testing.assert_allclose(projected.chances, exact.chances, atol=0.02)
    assert projected.skill == pytest.approx(exact.skill, abs=0.005)


def test_the_order_of_the_pool_changes_nothing() -> None:
    coins = pinned_coins(8)
    pool, codes = _draw(coins, [0.5, 0.3, 0.2], 120, apart=2.0)
    target, _ = _draw(coins, [0.5, 0.0, 0.5], 50, apart=2.0)
    order = coins.permutation(120)
    first, second = _impute(pool, codes, target, gamma=0.2), _impute(pool[order], codes[order], target, gamma=0.2)
    np.testing.assert_allclose(second.chances, first.chances, atol=1e-3)
