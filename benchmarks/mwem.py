"""Time the paper's Algorithm 2 and compare its error with Gaussian noise, at d = 140.

Run: ``python benchmarks/mwem.py``. Times depend on the machine; errors are root mean squares of ``error . h(y)`` over
the rows y, at (epsilon, delta) = (1, 1e-5) under replace-one, with simulated noise.
"""

import math
import time

import numpy as np
from numpy.typing import NDArray

from likeset.privacy import gaussian_mean, mwem_mean
from likeset.privacy.accounting import mwem_epsilon
from likeset.privacy.events import ROW, Norm, Relation, RowSum
from likeset.privacy.noise import SecretNoise, SimulatedNoise

DIMENSION, ITERATIONS = 140, 1656
EPSILON, DELTA = 1.0, 1e-5
MEAN_REPEATS = 5
QUANTITY = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)


def main() -> None:
    """Print the tables."""
    coins = np.random.default_rng(0)
    print(
        f"MWEM, d = {DIMENSION}, T = {ITERATIONS}, paper's eps = 0.01: CPU seconds for one release "
        f"(best of {MEAN_REPEATS})"
    )
    print(f"{'rows':>8}{'simulated noise':>18}{'secret noise':>15}")
    for size in (360, 1000):
        plan = mwem_mean.MwemPlan(size, DIMENSION, 0.01, ITERATIONS, QUANTITY)
        features = _paper_features(coins, size)
        simulated = min(_seconds(plan, features, SimulatedNoise(seed)) for seed in range(MEAN_REPEATS))
        print(f"{size:>8}{simulated:>18.3f}{_seconds(plan, features, SecretNoise()):>15.2f}")
    print(f"\nError of the mean at m = 1000, epsilon = {EPSILON:g}, delta = {DELTA:g} (mean of {MEAN_REPEATS} runs)")
    print(f"{'mechanism':>18}{'RMS error':>12}")
    print(f"{'gaussian':>18}{_gaussian_error(coins, 1000):>12.4f}")
    for iterations in (50, 200, ITERATIONS, 19600):
        print(f"{f'mwem, T = {iterations}':>18}{_mwem_error(coins, 1000, iterations):>12.4f}")
    print(f"{'release nothing':>18}{_nothing_error(coins, 1000):>12.4f}")


def _angles(coins: np.random.Generator, size: int, count: int) -> NDArray[np.float64]:
    """Angles of random features of Gaussian rows, at a kernel width where the mean is informative."""
    rows = coins.normal(size=(size, 20))
    return np.asarray(rows @ coins.normal(size=(20, count)) * 0.3, dtype=np.float64)


def _paper_features(coins: np.random.Generator, size: int) -> NDArray[np.float64]:
    phases = coins.uniform(0, 2 * math.pi, DIMENSION)
    return np.asarray(math.sqrt(2 / DIMENSION) * np.cos(_angles(coins, size, DIMENSION) + phases), dtype=np.float64)


def _seconds(plan: mwem_mean.MwemPlan, features: NDArray[np.float64], noise: SecretNoise | SimulatedNoise) -> float:
    started = time.process_time()
    mwem_mean.run(plan, features, noise)
    return time.process_time() - started


def _along_rows(features: NDArray[np.float64], error: NDArray[np.float64]) -> float:
    return math.sqrt(float(((features @ error) ** 2).mean()))


def _gaussian_error(coins: np.random.Generator, size: int) -> float:
    angles = _angles(coins, size, DIMENSION // 2)
    features = np.hstack([np.cos(angles), np.sin(angles)]) / math.sqrt(DIMENSION / 2)
    plan = gaussian_mean.plan(
        gaussian_mean.unit_rows(ROW, Relation.REPLACE_ONE),
        size=size,
        dimension=DIMENSION,
        epsilon=EPSILON,
        delta=DELTA,
    )
    runs = (gaussian_mean.run(plan, features, SimulatedNoise(seed)).value for seed in range(MEAN_REPEATS))
    return float(np.mean([_along_rows(features, value - features.mean(axis=0)) for value in runs]))


def _mwem_error(coins: np.random.Generator, size: int, iterations: int) -> float:
    features = _paper_features(coins, size)
    epsilon = mwem_epsilon(QUANTITY, iterations=iterations, epsilon=EPSILON, delta=DELTA)
    plan = mwem_mean.MwemPlan(size, DIMENSION, epsilon, iterations, QUANTITY)
    runs = (mwem_mean.run(plan, features, SimulatedNoise(seed)).value.mean for seed in range(MEAN_REPEATS))
    return float(np.mean([_along_rows(features, value - features.mean(axis=0)) for value in runs]))


def _nothing_error(coins: np.random.Generator, size: int) -> float:
    features = _paper_features(coins, size)
    return _along_rows(features, features.mean(axis=0))


if __name__ == "__main__":
    main()
