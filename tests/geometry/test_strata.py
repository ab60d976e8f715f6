"""Tests of class weights from a released mean."""

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import public_coins
from likeset.geometry.features import FourierFeatures
from likeset.geometry.offers import fit_strata


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


def test_labels_that_say_nothing_are_not_used() -> None:
    coins = public_coins(1)
    rows, labels = _classes(coins, [500, 500, 500])
    target, _ = _classes(coins, [300, 0, 0])
    features = FourierFeatures(6, 200, 0.05, seed=1)
    released = features.mean(target)
    hashed = features(rows)
    assert fit_strata(hashed, labels, released, noise=0.0) is not None
    assert fit_strata(hashed, coins.permutation(labels), released, noise=0.0) is None


@pytest.mark.parametrize("aside", [0.0, 0.7])
def test_labels_that_are_weakly_related_to_rows_are_not_used(aside: float) -> None:
    """4,000 rows surely show that class 1 is rarer where the target lies, and a mix of classes would come closer."""
    coins = public_coins(4)
    rows = coins.normal(size=(4000, 6))
    labels = (coins.random(4000) < 1.0 / (1.0 + np.exp(-0.6 * rows[:, 0]))).astype(np.int64)
    target = coins.normal(size=(2000, 6)) + np.array([-0.7, aside, 0.0, 0.0, 0.0, 0.0])
    features = FourierFeatures(6, 200, 0.05, seed=1)
    assert fit_strata(features(rows), labels, features.mean(target), noise=1e-4) is None


def test_noise_beyond_the_signal_leaves_the_weights_alone() -> None:
    coins = public_coins(2)
    rows, labels = _classes(coins, [500, 500, 500])
    features = FourierFeatures(6, 200, 0.05, seed=1)
    released = features.mean(rows) + coins.normal(scale=1.0, size=200)
    assert fit_strata(features(rows), labels, released, noise=1.0) is None


@pytest.mark.parametrize("labels", [np.zeros(60, dtype=np.int64), np.arange(60), np.repeat([0.5, 1.5], 30)])
def test_one_class_or_as_many_as_rows_or_numbers_are_no_classes(labels: NDArray[np.generic]) -> None:
    coins = public_coins(3)
    rows = coins.normal(size=(60, 6)) + 5.0 * (np.arange(60) >= 30)[:, None]
    features = FourierFeatures(6, 20, 0.05, seed=1)
    assert fit_strata(features(rows), labels, features.mean(rows[:5]), noise=0.0) is None
