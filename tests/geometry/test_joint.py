"""Rows with columns for their classes have the joint kernel; what works on rows then matches the joint distribution."""

import naive_twins
import numpy as np
import pytest
from numpy.typing import NDArray

from chance import public_coins
from likeset.errors import InvalidArgument
from likeset.geometry.greedy import match
from likeset.geometry.joint import joint_rows, joint_target, largest_shares, supply
from likeset.geometry.kernels import rbf_kernel
from likeset.geometry.refine import swap
from likeset.geometry.weights import weights

Matrix = NDArray[np.float64]


def _market(
    seed: int, *, pool: int = 30, target: int = 7, classes: int = 3
) -> tuple[Matrix, NDArray[np.int64], Matrix, Matrix]:
    """Rows, their classes, a target, and chances of its classes of which none is small."""
    coins = public_coins(seed)
    chances = coins.dirichlet(np.full(classes, 3.0), size=target)
    chances = np.maximum(chances, 0.02)
    chances /= chances.sum(axis=1, keepdims=True)
    codes = np.append(np.arange(classes), coins.integers(classes, size=pool - classes))
    return coins.normal(size=(pool, 2)), codes, coins.normal(0.4, 0.6, size=(target, 2)), chances


def _joint_kernel(rows: Matrix, codes: NDArray[np.int64], *, gamma: float, label_weight: float) -> Matrix:
    """By the definition: all pairs at once."""
    same = codes[:, None] == codes[None, :]
    kernel = naive_twins.kernel_matrix(rows, rows, gamma=gamma) * ((1 - label_weight) + label_weight * same)
    return np.asarray(kernel)


def _joint_attraction(
    rows: Matrix, codes: NDArray[np.int64], target: Matrix, chances: Matrix, *, gamma: float, label_weight: float
) -> Matrix:
    """By the definition: the expected joint kernel with the target, over the chances of its rows' classes."""
    kernel = naive_twins.kernel_matrix(rows, target, gamma=gamma)
    return np.asarray((kernel * ((1 - label_weight) + label_weight * chances.T[codes])).mean(axis=1))


@pytest.mark.parametrize("label_weight", [0.0, 0.3, 0.99])
def test_longer_rows_have_the_joint_kernel(label_weight: float) -> None:
    rows, codes, _, _ = _market(1)
    longer = joint_rows(rows, codes, classes=3, label_weight=label_weight, gamma=0.8)
    expected = _joint_kernel(rows, codes, gamma=0.8, label_weight=label_weight)
    np.testing.assert_allclose(rbf_kernel(longer, longer, gamma=0.8), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("label_weight", [0.0, 0.2, 0.9, 0.99])
def test_the_joint_kernel_is_positive_semidefinite(seed: int, label_weight: float) -> None:
    rows, codes, _, _ = _market(seed, pool=40, classes=4)
    kernel = _joint_kernel(rows, codes, gamma=0.5, label_weight=label_weight)
    assert np.linalg.eigvalsh(kernel).min() > -1e-12
    np.testing.assert_allclose(np.diagonal(kernel), 1.0)


def test_a_target_row_counts_with_each_class_by_its_chance() -> None:
    rows, codes, target, chances = _market(2)
    longer = joint_rows(rows, codes, classes=3, label_weight=0.7, gamma=0.8)
    wanted, shares = joint_target(target, chances, label_weight=0.7, gamma=0.8)
    assert shares.sum() == pytest.approx(1.0)
    expected = _joint_attraction(rows, codes, target, chances, gamma=0.8, label_weight=0.7)
    np.testing.assert_allclose(rbf_kernel(longer, wanted, gamma=0.8) @ shares, expected, atol=1e-12)


def test_classes_of_next_to_no_chance_are_left_out_of_the_target() -> None:
    """Of three rows one is sure, one is not, one is sure but for 0.005, which its class gets: 1 + 3 + 1 rows."""
    chances = np.array([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5], [0.005, 0.995, 0.0]])
    rows, shares = joint_target(np.zeros((3, 2)), chances, label_weight=0.5, gamma=1.0)
    assert rows.shape == (5, 5)
    np.testing.assert_allclose(shares, np.array([1.0, 0.2, 0.3, 0.5, 1.0]) / 3)


def test_no_row_of_the_target_is_lost_where_all_of_many_classes_have_small_chances() -> None:
    rows, shares = joint_target(np.zeros((2, 1)), np.full((2, 200), 1 / 200), label_weight=0.5, gamma=1.0)
    assert len(rows) == 400
    np.testing.assert_allclose(shares, 1 / 400)


def test_shares_say_what_each_class_counts_in_all() -> None:
    """Within a class rows keep their proportions."""
    chances = np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    rows, weighed = joint_target(np.zeros((3, 1)), chances, label_weight=0.5, gamma=1.0, shares=np.array([0.4, 0.6]))
    np.testing.assert_allclose(weighed, [0.4 * 0.4, 0.4 * 0.2, 0.6, 0.4 * 0.4])
    np.testing.assert_array_equal(rows[:, 1:] > 0, [[1, 0], [1, 0], [0, 1], [1, 0]])


def test_a_class_may_well_have_two_deviations_more_than_is_expected() -> None:
    """Of 100 rows 80 + 2 sqrt(79), 19 + 2 sqrt(18), and 1, which may be mere confusion."""
    chances = np.repeat(np.eye(3), [80, 19, 1], axis=0)
    counts = np.array([80 + 2 * np.sqrt(79), 19 + 2 * np.sqrt(18), 1.0])
    np.testing.assert_allclose(largest_shares(chances), counts / counts.sum())


def test_equal_classes_stay_equal() -> None:
    np.testing.assert_allclose(largest_shares(np.full((60, 4), 0.25)), 0.25)


@pytest.mark.parametrize(("held", "expected"), [((40, 20, 0), 1.0), ((10, 20, 30), 0.75), ((0, 10, 90), 0.25)])
def test_supply_is_plenty_with_two_rows_for_each_that_is_wanted(held: tuple[int, ...], expected: float) -> None:
    """20 rows are wanted, half of the first class and half of the second."""
    codes = np.repeat(np.arange(3), held)
    shares = np.array([0.5, 0.5, 0.0])
    assert supply(codes, shares, size=20) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(20))
def test_supply_is_never_more_than_plenty(seed: int) -> None:
    drawn = np.random.default_rng(seed).random(7)
    shares = drawn / drawn.sum() * (1.0 + 4.0 * np.finfo(float).eps)  # as rounding may leave them
    codes = np.repeat(np.arange(7), 1000)
    assert supply(codes, shares, size=20) <= 1.0
    joint_rows(np.zeros((7, 2)), np.arange(7), classes=7, label_weight=0.99 * supply(codes, shares, size=20), gamma=1.0)


@pytest.mark.parametrize("method", ["exact", "block"])
def test_greedy_on_longer_rows_is_greedy_on_the_joint_objective(method: str) -> None:
    """Each pick is compared with the best of all rows under the definition of the joint objective."""
    rows, codes, target, chances = _market(3, pool=40)
    kernel = _joint_kernel(rows, codes, gamma=0.8, label_weight=0.9)
    attraction = _joint_attraction(rows, codes, target, chances, gamma=0.8, label_weight=0.9)
    expected: list[int] = []
    for made in range(12):
        scores = attraction - kernel[:, expected].sum(axis=1) / (made + 1)
        scores[expected] = -np.inf
        expected.append(int(scores.argmax()))
    longer = joint_rows(rows, codes, classes=3, label_weight=0.9, gamma=0.8)
    wanted, shares = joint_target(target, chances, label_weight=0.9, gamma=0.8)
    matched = match(longer, wanted, 12, gamma=0.8, method=method, target_weights=shares)  # type: ignore[arg-type]
    np.testing.assert_array_equal(matched.indices, expected)
    chosen = kernel[np.ix_(expected, expected)].mean()
    assert matched.objectives[-1] == pytest.approx(2 * attraction[expected].mean() - chosen, abs=1e-9)


def test_swaps_on_longer_rows_end_where_no_swap_helps_the_joint_objective() -> None:
    rows, codes, target, chances = _market(4, pool=25)
    kernel = _joint_kernel(rows, codes, gamma=0.8, label_weight=0.6)
    attraction = _joint_attraction(rows, codes, target, chances, gamma=0.8, label_weight=0.6)

    def objective(chosen: NDArray[np.int64]) -> float:
        return float(2 * attraction[chosen].mean() - kernel[np.ix_(chosen, chosen)].mean())

    longer = joint_rows(rows, codes, classes=3, label_weight=0.6, gamma=0.8)
    wanted, shares = joint_target(target, chances, label_weight=0.6, gamma=0.8)
    end = swap(longer, wanted, np.arange(5), gamma=0.8, passes=100, target_weights=shares)
    assert objective(end) > objective(np.arange(5)) + 0.01
    for place in range(5):
        for candidate in set(range(25)) - set(end.tolist()):
            other = end.copy()
            other[place] = candidate
            assert objective(other) < objective(end) + 1e-6


def test_weights_on_longer_rows_are_optimal_for_the_joint_objective() -> None:
    """Half the gradient is ``K w - a``; no row may have a smaller one than the weighted rows have (to rounding)."""
    rows, codes, target, chances = _market(5, pool=12)
    longer = joint_rows(rows, codes, classes=3, label_weight=0.6, gamma=0.8)
    wanted, shares = joint_target(target, chances, label_weight=0.6, gamma=0.8)
    fitted = weights(longer, wanted, gamma=0.8, target_weights=shares)
    attraction = _joint_attraction(rows, codes, target, chances, gamma=0.8, label_weight=0.6)
    gradient = _joint_kernel(rows, codes, gamma=0.8, label_weight=0.6) @ fitted - attraction
    assert fitted.sum() == pytest.approx(1.0)
    assert float(fitted @ gradient - gradient.min()) < 1e-7


@pytest.mark.parametrize("counts", [(1, 1, 1, 1, 1, 1, 1), (1, 2, 3, 1, 1, 4, 1)])
def test_a_weight_counts_like_copies_of_the_row(counts: tuple[int, ...]) -> None:
    rows, _, target, _ = _market(6)
    copies, shares = np.repeat(target, counts, axis=0), np.array(counts) / sum(counts)
    matched = match(rows, target, 8, gamma=0.8, target_weights=shares)
    repeated = match(rows, copies, 8, gamma=0.8)
    np.testing.assert_array_equal(matched.indices, repeated.indices)
    np.testing.assert_allclose(matched.gains, repeated.gains, atol=1e-12)
    swapped = swap(rows, target, np.arange(8), gamma=0.8, target_weights=shares)
    np.testing.assert_array_equal(swapped, swap(rows, copies, np.arange(8), gamma=0.8))
    weighed = weights(rows[:8], target, gamma=0.8, target_weights=shares)
    np.testing.assert_allclose(weighed, weights(rows[:8], copies, gamma=0.8), atol=1e-7)


@pytest.mark.parametrize("shares", [[0.5, 0.6], [1.5, -0.5], [1.0], [np.nan, 1.0]])
def test_weights_of_the_target_must_be_shares(shares: list[float]) -> None:
    with pytest.raises(InvalidArgument, match="target_weights"):
        match(np.zeros((3, 1)), np.ones((2, 1)), 1, gamma=1.0, target_weights=shares)


@pytest.mark.parametrize("method", ["stochastic", "features"])
def test_weights_of_the_target_are_refused_where_they_would_be_ignored(method: str) -> None:
    with pytest.raises(InvalidArgument, match="block or exact"):
        match(np.eye(3), np.eye(3), 1, gamma=1.0, method=method, target_weights=np.full(3, 1 / 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("label_weight", [-0.1, 1.0])
def test_a_label_weight_without_a_kernel_is_refused(label_weight: float) -> None:
    with pytest.raises(InvalidArgument, match="label_weight"):
        joint_rows(np.zeros((2, 1)), np.array([0, 1]), classes=2, label_weight=label_weight, gamma=1.0)
