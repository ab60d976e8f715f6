"""Tests of class weights from a released mean, and of the uniform baseline."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from chance import public_coins
from likeset.geometry.features import FourierFeatures
from likeset.geometry.offers import fit_strata, uniform


def _classes(coins: np.random.Generator, counts: list[int]) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Rows of classes a, b, c, ... at corners of a simplex, five apart."""
    labels = np.repeat(np.array([chr(97 + place) for place in range(len(counts))]), counts)
    centres = 5.0 * np.eye(len(counts), 6)
    return np.repeat(centres, counts, axis=0) + coins.normal(size=(sum(counts), 6)), labels


def test_the_mix_of_the_target_is_found() -> None:
    """A target of 70% a and 30% d, an owner with a, b, c, d at 10/40/40/10: weights 7, 0, 0, 3, less what is kept.

    Nothing is known of a class that was not there when the mix was fitted.
    """
    coins = public_coins(0)
    rows, labels = _classes(coins, [400, 1600, 1600, 400])
    target, _ = _classes(coins, [700, 0, 0, 300])
    features = FourierFeatures(6, 200, 0.05, seed=1)
    strata = fit_strata(features(rows), labels, features.mean(target), noise=0.0)
    assert strata is not None
    weights = np.exp(strata.score(np.array(["a", "b", "c", "d", "z"])))
    np.testing.assert_allclose(weights, [0.9 * 7 + 0.1, 0.1, 0.1, 0.9 * 3 + 0.1, 0.1], atol=0.35)


def explained(
    wide: NDArray[np.float64], codes: NDArray[np.int64], released: NDArray[np.float64], noise: float
) -> tuple[NDArray[np.float64], float, float]:
    """The mix, by a general method; what classes explain of the variance of rows, and of the distance to the release.

    The mix minimises a quadratic function over all that is not negative.
    """
    counts = np.bincount(codes)
    shares = counts / len(codes)
    means, mean = np.array([wide[codes == place].mean(axis=0) for place in range(len(counts))]), wide.mean(axis=0)

    def loss(mix: NDArray[np.float64]) -> float:
        held = noise**2 * ((mix - shares) ** 2 / shares).sum()
        return float(((released - mix @ means) ** 2).sum() + (1.0 - mix.sum()) ** 2 + held)

    mix = minimize(loss, shares, bounds=[(0.0, None)] * len(counts), tol=1e-15).x
    mix /= mix.sum()
    variance = ((wide - mean) ** 2).sum(axis=1).mean()
    told = (shares @ ((means - mean) ** 2).sum(axis=1)) / variance - (len(counts) - 1) / len(codes)
    left, best = ((released - mean) ** 2).sum(), ((released - mix @ means) ** 2).sum()
    dimension = len(released)
    distance = max(left - dimension * noise**2, 0.0) + np.sqrt(2.0 * dimension) * noise**2
    return mix, float(told), float((left - best) / distance)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("apart", [0.3, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("aside", [0.0, 0.6, 1.2])
def test_the_mix_and_what_it_explains_are_those_of_their_definition(noise: float, apart: float, aside: float) -> None:
    coins = public_coins("mix")
    codes = np.repeat([0, 1, 2], [50, 30, 20])
    rows = coins.normal(size=(100, 4)) + apart * np.eye(3, 4)[codes]
    target = coins.normal(size=(400, 4)) + apart * np.eye(3, 4)[0] + aside * np.eye(4)[3]
    features = FourierFeatures(4, 30, 0.2, seed=1)
    released = features.mean(target) + noise * coins.normal(size=30)
    mix, told, share = explained(features(rows).astype(np.float64), codes, released, noise)
    found = fit_strata(features(rows), codes, released, noise=noise)
    assert (found is not None) == (told >= 0.03 and share > 0.3)
    if found is not None:
        np.testing.assert_allclose(np.exp(found.log_weights), 0.9 * mix / [0.5, 0.3, 0.2] + 0.1, atol=1e-3)


@pytest.mark.parametrize("what", ["rows are told apart", "the release is explained"])
def test_classes_count_where_they_explain_just_enough(what: str) -> None:
    """Found by halving: how far apart classes must be, and how much noise there may be; then 2% to either side."""
    coins = public_coins("just enough")
    codes, directions = np.repeat([0, 1], [60, 40]), np.eye(2, 12)
    scattered, aside = coins.normal(size=(100, 12)), 0.4 * np.eye(12)[5]

    def world(value: float) -> tuple[NDArray[np.float32], NDArray[np.float64], float]:
        apart, noise = (value, 0.01) if what == "rows are told apart" else (3.0, value)
        rows = (scattered + apart * directions[codes]).astype(np.float32)
        return rows, rows[codes == 0].astype(np.float64).mean(axis=0) + aside, noise

    def enough(value: float) -> bool:
        rows, released, noise = world(value)
        _, told, share = explained(rows.astype(np.float64), codes, released, noise)
        return told >= 0.03 and share > 0.3

    few, many = (0.01, 4.0) if what == "rows are told apart" else (4.0, 0.01)
    assert (enough(few), enough(many)) == (False, True)
    for _ in range(20):
        middle = (few + many) / 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    for value in (0.98 * many, 1.02 * many):
        rows, released, noise = world(value)
        assert (fit_strata(rows, codes, released, noise=noise) is not None) == enough(value)
    assert enough(0.98 * many) != enough(1.02 * many)


@pytest.mark.parametrize("labels", [np.zeros(60, dtype=np.int64), np.arange(60), np.repeat([0.5, 1.5], 30)])
def test_one_class_or_as_many_as_rows_or_numbers_are_no_classes(labels: NDArray[np.generic]) -> None:
    coins = public_coins(3)
    rows = coins.normal(size=(60, 6)) + 5.0 * (np.arange(60) >= 30)[:, None]
    features = FourierFeatures(6, 20, 0.05, seed=1)
    assert fit_strata(features(rows), labels, features.mean(rows[:5]), noise=0.0) is None


@pytest.mark.parametrize(
    ("owner_sizes", "size", "quota"),
    [
        ([10, 10, 10], 9, [3, 3, 3]),
        ([10, 10, 10], 11, [4, 4, 3]),  # what does not divide evenly goes to the first
        ([2, 10, 10], 12, [2, 5, 5]),  # the first lacks two: one more from each other
        ([2, 10, 10], 13, [2, 6, 5]),
        ([0, 3, 0, 9], 10, [0, 3, 0, 7]),
        ([1, 2, 3, 100], 50, [1, 2, 3, 44]),
        ([5], 5, [5]),
        ([4, 4], 1, [1, 0]),
        ([3, 1, 4, 1, 5], 14, [3, 1, 4, 1, 5]),
    ],
)
def test_uniform_takes_as_many_from_each_owner_as_it_can(owner_sizes: list[int], size: int, quota: list[int]) -> None:
    chosen = uniform(owner_sizes, size, coins=public_coins(0))
    assert [len(rows) for rows in chosen] == quota
    for rows, available in zip(chosen, owner_sizes, strict=True):
        assert rows.tolist() == sorted(set(rows.tolist()))
        assert set(rows.tolist()) <= set(range(available))


def test_uniform_draws_every_row_equally_often() -> None:
    """4 of 10 rows, 5000 times: each row 2000 ± sqrt(5000·0.4·0.6) = 35 times; 6.5 deviations for ten rows."""
    coins = public_coins(1)
    counts = np.zeros(10)
    for _ in range(5000):
        counts[uniform([10, 3], 7, coins=coins)[0]] += 1
    assert np.abs(counts - 2000).max() < 6.5 * 35
