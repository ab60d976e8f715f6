"""Tests of class weights from a released mean, and of the uniform baseline."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from chance import public_coins
from likeset.errors import InvalidArgument
from likeset.geometry.features import FourierFeatures
from likeset.geometry.offers import fit_strata, uniform


def _classes(coins: np.random.Generator, counts: list[int]) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Rows of classes a, b, c, ... at corners of a simplex, five apart."""
    labels = np.repeat(np.array([chr(97 + place) for place in range(len(counts))]), counts)
    centres = 5.0 * np.eye(len(counts), 6)
    return np.repeat(centres, counts, axis=0) + coins.normal(size=(sum(counts), 6)), labels


def test_the_mix_of_the_target_is_found() -> None:
    """A target of 70% a and 30% c, an owner with a, b, c, d at 10/40/10/40: weights 7, 0, 3, 0, less what is kept."""
    coins = public_coins(0)
    rows, labels = _classes(coins, [400, 1600, 400, 1600])
    target, _ = _classes(coins, [700, 0, 300, 0])
    features = FourierFeatures(6, 200, 0.05, seed=1)
    strata = fit_strata(features(rows), labels, features.mean(target), noise=0.0)
    assert strata is not None
    weights = np.exp(strata.score(np.array(["a", "b", "c", "d", "z"])))
    np.testing.assert_allclose(weights, [0.9 * 7 + 0.1, 0.1, 0.9 * 3 + 0.1, 0.1, 0.1], atol=0.35)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("apart", [0.3, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("aside", [0.0, 0.6, 1.2])
def test_the_mix_and_what_it_explains_are_those_of_their_definition(noise: float, apart: float, aside: float) -> None:
    """The mix minimises a quadratic function over all that is not negative, here by a general method."""
    coins = public_coins("mix")
    codes = np.repeat([0, 1, 2], [50, 30, 20])
    rows = coins.normal(size=(100, 4)) + apart * np.eye(3, 4)[codes]
    target = coins.normal(size=(400, 4)) + apart * np.eye(3, 4)[0] + aside * np.eye(4)[3]
    features = FourierFeatures(4, 30, 0.2, seed=1)
    wide, released = features(rows).astype(np.float64), features.mean(target) + noise * coins.normal(size=30)
    means, shares = np.array([wide[codes == place].mean(axis=0) for place in range(3)]), np.array([0.5, 0.3, 0.2])

    def loss(mix: NDArray[np.float64]) -> float:
        held = noise**2 * ((mix - shares) ** 2 / shares).sum()
        return float(((released - mix @ means) ** 2).sum() + (1.0 - mix.sum()) ** 2 + held)

    mix = minimize(loss, shares, bounds=[(0.0, None)] * 3, tol=1e-15).x
    mix /= mix.sum()
    mean = wide.mean(axis=0)
    variance = ((wide - mean) ** 2).sum(axis=1).mean()
    told = (shares @ ((means - mean) ** 2).sum(axis=1)) / variance - 2 / 100
    left, best = ((released - mean) ** 2).sum(), ((released - mix @ means) ** 2).sum()
    distance = max(left - 30 * noise**2, 0.0) + np.sqrt(60.0) * noise**2
    found = fit_strata(features(rows), codes, released, noise=noise)
    assert (found is not None) == (told >= 0.03 and left - best > 0.3 * distance)
    if found is not None:
        np.testing.assert_allclose(np.exp(found.log_weights), 0.9 * mix / shares + 0.1, atol=1e-3)


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


@pytest.mark.parametrize(
    ("owner_sizes", "size", "argument", "shown"),
    [
        ([3, 4], 8, "size", "8"),
        ([3, 4], 0, "size", "0"),
        ([], 1, "size", "1"),
        ([3, -1], 1, "owner_sizes[1]", "-1"),
        ([3, 2.5], 1, "owner_sizes[1]", "2.5"),
        ([3, True], 1, "owner_sizes[1]", "True"),
        ("ab", 1, "owner_sizes[0]", "'a'"),
    ],
)
def test_impossible_quotas_are_refused(owner_sizes: Any, size: int, argument: str, shown: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        uniform(owner_sizes, size, coins=public_coins(0))
    assert caught.value.argument == argument
    assert shown in str(caught.value)
