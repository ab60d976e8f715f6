"""goodpoints ``refine``: swaps each row of a uniform start for the best row of the pool.

Its ``meanK`` argument is meant to save work; handing it the mean kernel with the target steers the swaps
there. ``refine_X`` works on rows; ``refine_K`` wants the N x N kernel matrix, whose computation costs more
than it saves.
"""

from collections.abc import Callable

import numpy as np
from goodpoints import kt
from measure import SelectionTask, ToolPicks, mean_rbf, measure_selection


def plain_kernel(gamma: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The kernel as the package's own examples write it: by differences."""

    def kernel(fixed: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.exp(-gamma * ((rows - fixed) ** 2).sum(axis=1))

    return kernel


def prepare(task: SelectionTask) -> Callable[[], ToolPicks]:
    """The kernel is the caller's to write: one matrix-vector product over the pool, with its norms kept."""
    pool, gamma = task.pool, task.gamma
    norms = np.einsum("ij,ij->i", pool, pool)
    start = np.random.default_rng(0).choice(len(pool), task.size, replace=False)

    def kernel(fixed: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if rows is pool and fixed is pool:
            return np.ones(len(rows))
        if rows is pool:
            row = fixed[0]
            distances = pool @ (-2.0 * row)
            distances += norms
            distances += row @ row
        else:
            difference = rows - fixed
            distances = np.einsum("ij,ij->i", difference, difference)
        distances *= -gamma
        return np.exp(distances, out=distances)

    def select() -> ToolPicks:
        mean = mean_rbf(pool, task.target, gamma)
        chosen = kernel if task.tuned else plain_kernel(gamma)
        return ToolPicks(kt.refine_X(pool, start, chosen, meanK=mean, unique=True))

    return select


measure_selection(
    prepare,
    packages=["goodpoints", "numpy"],
    chosen=lambda _: (
        "float32, refine_X, one pass from a uniform start, unique rows, kernel by products; by default by differences"
    ),
)
