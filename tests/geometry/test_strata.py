"""Tests of class weights from a released mean."""

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import public_coins
from likeset.geometry.features import FourierFeatures
from likeset.geometry.strata import fit_strata


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


def test_labels_that_explain_little_of_the_distance_are_not_used() -> None:
    """4,000 rows surely show that class 1 is rarer where the target lies, but that is little of how far it lies."""
    coins = public_coins(4)
    rows = coins.normal(size=(4000, 6))
    labels = (coins.random(4000) < 1.0 / (1.0 + np.exp(-0.6 * rows[:, 0]))).astype(np.int64)
    target = coins.normal(size=(2000, 6)) + np.array([-0.7, 0.7, 0.0, 0.0, 0.0, 0.0])
    features = FourierFeatures(6, 200, 0.05, seed=1)
    assert fit_strata(features(rows), labels, features.mean(target), noise=1e-4) is None


def test_noise_beyond_the_signal_leaves_the_weights_alone() -> None:
    coins = public_coins(2)
    rows, labels = _classes(coins, [500, 500, 500])
    features = FourierFeatures(6, 200, 0.05, seed=1)
    released = features.mean(rows) + coins.normal(scale=1.0, size=200)
    assert fit_strata(features(rows), labels, released, noise=1.0) is None


@pytest.mark.parametrize("labels", [np.zeros(60), np.arange(60)])
def test_one_class_or_as_many_as_rows_are_no_classes(labels: NDArray[np.float64]) -> None:
    coins = public_coins(3)
    rows = coins.normal(size=(60, 6))
    features = FourierFeatures(6, 20, 0.05, seed=1)
    assert fit_strata(features(rows), labels, features.mean(rows[:5]), noise=0.0) is None
