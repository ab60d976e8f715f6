"""Classes of a target from labelled rows: right where they can be told, unused where they cannot."""

import numpy as np
import pytest
from numpy.typing import NDArray

import naive_twins
from chance import pinned_coins, public_coins
from likeset.geometry.kernels import KernelColumns
from likeset.geometry.labels import ClassChances, class_chances, class_codes, joint_attraction, ridge_scores

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


def _draw(coins: np.random.Generator, mix: list[float], rows: int, *, apart: float) -> tuple[Matrix, Codes]:
    """Rows around centres on a line, one for each class, each ``apart`` from the next; unit variance, two columns."""
    codes = np.append(np.flatnonzero(mix), coins.choice(len(mix), size=rows - np.count_nonzero(mix), p=mix))
    return np.column_stack([apart * codes, np.zeros(rows)]) + coins.normal(size=(rows, 2)), codes


def test_a_class_that_the_target_lacks_is_not_taken_for_its_neighbours() -> None:
    """Of the target's rows 7% lie nearest to the class between the two that it has."""
    coins = pinned_coins(2)
    pool, codes = _draw(coins, [1 / 3] * 3, 600, apart=3.0)
    target, truth = _draw(coins, [0.5, 0.0, 0.5], 300, apart=3.0)
    nearest = np.clip(np.rint(target[:, 0] / 3.0), 0, 2)
    told = class_chances(pool, codes, target, gamma=0.2)
    chances, _, _ = told.mixed(50)
    assert chances[:, 1].mean() < 0.04
    densities, mix = told.chances / told.near_mix, told.chances.mean(axis=0)
    for _ in range(1000):  # expectation maximisation to its end, and a part of the mix near the target
        mix = (densities * mix / (densities @ mix)[:, None]).mean(axis=0)
    sure, unsure = told.weight**2, (1.0 - told.weight) ** 2
    joint = densities * (sure * mix + unsure * told.near_mix)
    np.testing.assert_allclose(chances, joint / joint.sum(axis=1, keepdims=True), atol=1e-3)
    assert (chances.argmax(axis=1) == truth).mean() > (nearest == truth).mean() + 0.02


def test_a_rare_class_keeps_its_rows_and_counts_for_as_many_as_it_may_well_have() -> None:
    coins = pinned_coins(3)
    pool, codes = _draw(coins, [0.45, 0.45, 0.1], 500, apart=9.0)
    target, truth = _draw(coins, [0.5, 0.47, 0.03], 360, apart=9.0)
    chances, shares, _ = class_chances(pool, codes, target, gamma=0.1).mixed(20)
    counts = np.bincount(truth, minlength=3).astype(np.float64)
    assert 0 < counts[2] < 40
    assert (chances[truth == 2].argmax(axis=1) == 2).all()
    largest = counts + 2.0 * np.sqrt(counts - 1.0)
    np.testing.assert_allclose(shares, largest / largest.sum(), atol=0.01)


def test_labels_that_rows_tell_for_certain_do_not_count_for_everything() -> None:
    """At a weight of 1 rows of different classes would be infinitely far apart."""
    coins = pinned_coins(4)
    (pool, codes), (target, _) = (_draw(coins, [0.5, 0.5], rows, apart=60.0) for rows in (400, 60))
    told = class_chances(pool, codes, target, gamma=0.05)
    assert told.skill == pytest.approx(1.0)
    assert told.weight == 0.99
    columns = KernelColumns(target, gamma=0.05, dtype=np.dtype(np.float64))
    assert np.isfinite(joint_attraction(pool, columns, told, size=10)[0]).all()


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_rows_do_not_tell_have_no_weight(seed: int) -> None:
    coins = pinned_coins(seed)
    pool, codes = _draw(coins, [0.25] * 4, 300, apart=3.0)
    target, _ = _draw(coins, [0.5, 0.5, 0.0, 0.0], 100, apart=3.0)
    told = class_chances(pool, coins.permutation(codes), target, gamma=0.2)
    assert told.skill < 0.1
    assert told.weight == 0.0


@pytest.mark.parametrize("place", [0.0, 1e4])
def test_one_class_or_a_target_out_of_reach_tell_nothing(place: float) -> None:
    coins = pinned_coins(6)
    pool, codes = _draw(coins, [0.5, 0.5] if place else [1.0], 40, apart=4.0)
    told = class_chances(pool, codes, np.full((3, 2), place), gamma=1.0)
    assert (told.skill, told.weight) == (0.0, 0.0)


@pytest.mark.parametrize("far", [1e3, 1e9, 1e15])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_rows_that_are_very_far_change_nothing(far: float, precision: type) -> None:
    """An owner who sends them, of a class of their own, neither ends nor spoils the imputation."""
    coins = pinned_coins(9)
    pool, codes = _draw(coins, [0.5, 0.3, 0.2], 150, apart=3.0)
    target, _ = _draw(coins, [0.5, 0.0, 0.5], 60, apart=3.0)
    plain = class_chances(pool.astype(precision), codes, target.astype(precision), gamma=0.2)
    beside: Matrix = np.concatenate([pool, np.full((5, 2), far)]).astype(precision)
    spoiled = class_chances(beside, np.append(codes, np.full(5, 3)), target.astype(precision), gamma=0.2)
    np.testing.assert_allclose(spoiled.mixed(20)[0][:, :3], plain.mixed(20)[0], atol=1e-3)
    assert spoiled.mixed(20)[0][:, 3].max() == 0.0
    assert spoiled.skill == pytest.approx(plain.skill, abs=1e-3)


def test_labels_count_less_where_right_rows_run_out() -> None:
    """Half of the rows wanted are of a class of which the pool has 10: with 20 wanted it is enough for half of them."""
    codes = np.repeat([0, 1], [190, 10])
    told = ClassChances(codes, np.full(2, 0.5), np.repeat(np.eye(2), 500, axis=0), skill=1.0, weight=0.9)
    weights = [told.mixed(size)[2] for size in (10, 20, 200)]
    np.testing.assert_allclose(weights, [0.9, 0.9 * 0.75, 0.9 * (0.475 + 0.025)], rtol=1e-6)


@pytest.mark.parametrize("weight", [0.3, 0.99])
def test_longer_rows_have_the_joint_kernel(weight: float) -> None:
    """``k(x, x') ((1 - w) + w [y = y'])``; a target row counts with each class by its chance."""
    coins = public_coins(2)
    pool, target, codes = coins.normal(size=(30, 2)), coins.normal(size=(7, 2)), coins.integers(3, size=30)
    chances = np.maximum(coins.dirichlet(np.full(3, 3.0), size=7), 0.02)
    chances[0] = [0.9, 0.099, 0.001]  # the last is too little to count
    told = ClassChances(codes, chances.mean(axis=0), chances, skill=1.0, weight=weight)
    mixed, shares, counted = told.mixed(1)
    columns = KernelColumns(target, gamma=0.8, dtype=np.dtype(np.float64))
    found, same = joint_attraction(pool, columns, told, size=1)
    assert counted == same == pytest.approx(weight)
    alike = (1 - weight) + weight * (codes[:, None] == codes[None, :])
    assert np.linalg.eigvalsh(naive_twins.kernel_matrix(pool, pool, gamma=0.8) * alike).min() > -1e-12
    kept = np.where(mixed >= 0.01, mixed, 0.0)
    counts = kept / np.maximum(kept.sum(axis=0), 1e-9) * shares
    counts /= counts.sum()
    attraction = naive_twins.kernel_matrix(pool, target, gamma=0.8)
    expected = (attraction * ((1 - weight) * counts.sum(axis=1) + weight * counts.T[codes])).sum(axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_rarest_of_very_many_classes_count_as_one() -> None:
    labels = np.array(["a"] * 30 + ["b"] * 20 + [f"invented {number}" for number in range(80)])
    codes = class_codes(labels)
    assert codes is not None
    assert codes[:50].tolist() == [0] * 30 + [1] * 20
    assert codes.max() == 49


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.arange(49) % 2, False),
        (np.arange(50) % 2, True),
        (np.arange(240.0) % 2, False),
        (np.zeros(240, dtype=np.int64), False),
        (np.arange(240) < 4, False),
        (np.arange(240) < 5, True),
    ],
)
def test_few_labels_numbers_and_one_class_are_no_classes(labels: NDArray[np.generic], classes: bool) -> None:
    assert (class_codes(labels) is not None) == classes


def _soft(scores: Matrix, scale: float) -> Matrix:
    return np.array([[np.exp(scale * one) / np.exp(scale * row).sum() for one in row] for row in scores])


@pytest.mark.parametrize("apart", [1.5, 3.0])
def test_chances_skill_and_weight_are_those_of_their_definition(apart: float) -> None:
    """Rows count by the square of their mean kernel with the target; the scale is the likeliest on left-out rows.

    The weight is the share of the variance that is explained, less two standard errors of that share.
    """
    coins = pinned_coins(6)
    pool, codes = _draw(coins, [0.5, 0.3, 0.2], 120, apart=apart)
    target, _ = _draw(coins, [0.4, 0.2, 0.4], 40, apart=apart)
    told = class_chances(pool, codes, target, gamma=0.2)
    relevance = naive_twins.kernel_matrix(pool, target, gamma=0.2).mean(axis=1) ** 2
    relevance /= relevance.sum()
    known = np.eye(3)[codes]
    left_out, predicted = ridge_scores(pool, known, target, gamma=0.2)
    scales = np.exp(np.linspace(-1.0, 4.0, 13))
    likelihoods = [relevance @ np.log(_soft(left_out, scale)[np.arange(120), codes]) for scale in scales]
    scale = scales[int(np.argmax(likelihoods))]
    own = _soft(left_out, scale)
    whole = ((relevance @ known - known) ** 2).sum(axis=1)
    explained = whole - ((own - known) ** 2).sum(axis=1)
    skill = relevance @ explained / (relevance @ whole)
    error = np.sqrt((relevance**2 * (explained - skill * whole) ** 2).sum()) / (relevance @ whole)
    assert told.skill == pytest.approx(max(skill, 0.0), rel=1e-9)
    assert told.weight == pytest.approx(min(skill - 2.0 * error, 0.99) if skill - 2.0 * error >= 0.5 else 0.0, rel=1e-9)
    np.testing.assert_allclose(told.chances, _soft(predicted, scale), rtol=1e-9)
    np.testing.assert_allclose(told.near_mix, relevance @ own, rtol=1e-9)
