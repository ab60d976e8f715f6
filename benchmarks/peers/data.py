"""The data of the comparison, written to files that every tool's process reads."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from likeset.geometry.kernels import median_gamma

_COLUMNS = 50
_COMPONENTS = 8
_TARGET_ROWS = 500
_SEED = 20190612


@dataclass(frozen=True)
class PoolAndTarget:
    """A pool and a target, as files, with the width of the kernel."""

    name: str
    rows: int
    pool: Path
    target: Path
    gamma: float
    pool_bytes: int

    def load(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The pool (not read before it is indexed) and the target."""
        return np.load(self.pool, mmap_mode="r"), np.load(self.target)


def gaussian_pools(rows: list[int], folder: Path) -> dict[int, PoolAndTarget]:
    """Pools of 8 Gaussians in 50 dimensions; the target is 500 points of two of them, shifted.

    Means are N(0, 0.6²), covariances are unit, shifts are N(0, 0.15²); gamma is 1 / (2 median²) of the
    distances in the pool. Smaller pools are the first rows of larger ones, so target and gamma are the same
    for all.
    """
    coins = np.random.default_rng(_SEED)
    means = coins.normal(0.0, 0.6, (_COMPONENTS, _COLUMNS))
    centres = means[:2] + coins.normal(0.0, 0.15, (2, _COLUMNS))
    target = _draw(centres, _TARGET_ROWS, coins)
    gamma = median_gamma(_draw(means, 2000, coins), scale=0.5, coins=coins)
    pool = _draw(means, max(rows), coins)
    return {count: _write("gaussians", pool[:count], target, gamma, folder) for count in rows}


def mnist_pool(source: Path, folder: Path) -> PoolAndTarget:
    """MNIST at 784 columns: the training images as pool; 500 test images, 3s and 4s at 0.7/0.3, as target."""
    coins = np.random.default_rng(_SEED)
    with np.load(source) as archive:
        pool = archive["x_train"].reshape(-1, 784).astype(np.float32) / np.float32(255)
        images = archive["x_test"].reshape(-1, 784).astype(np.float32) / np.float32(255)
        digits = archive["y_test"]
    threes = coins.choice(np.flatnonzero(digits == 3), 350, replace=False)
    fours = coins.choice(np.flatnonzero(digits == 4), 150, replace=False)
    gamma = median_gamma(pool, scale=1.0, coins=coins)
    return _write("mnist", pool, images[np.concatenate([threes, fours])], gamma, folder)


def _draw(centres: NDArray[np.float64], rows: int, coins: np.random.Generator) -> NDArray[np.float32]:
    """Points around the centres; fewer rows are the first of more."""
    noise, choice = coins.spawn(2)
    points = noise.standard_normal((rows, centres.shape[1]), dtype=np.float32)
    points += centres[choice.integers(len(centres), size=rows)].astype(np.float32)
    return points


def _write(
    name: str, pool: NDArray[np.float32], target: NDArray[np.float32], gamma: float, folder: Path
) -> PoolAndTarget:
    pool_file, target_file = folder / f"{name}-{len(pool)}.npy", folder / f"{name}-target.npy"
    np.save(pool_file, pool)
    np.save(target_file, target)
    return PoolAndTarget(name, len(pool), pool_file, target_file, gamma, pool.nbytes)
