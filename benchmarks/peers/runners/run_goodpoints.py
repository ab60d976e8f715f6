"""goodpoints ``refine``: swaps each row of a uniform start for the best row of the pool.

Its ``meanK`` argument is meant to save work; handing it the mean kernel with the target steers the swaps
there. ``refine_X`` works on rows; ``refine_K`` wants the N x N kernel matrix, whose computation costs more
than it saves.
"""

from collections.abc import Callable

import numpy as np
from goodpoints import kt
from measure import Picks, Task, mean_rbf, run


def prepare(task: Task) -> Callable[[], Picks]:
    """The kernel is the caller's to write: one matrix-vector product over the pool, with its norms kept."""
    pool, gamma = task.pool, task.gamma
    norms = np.einsum("ij,ij->i", pool, pool)
    start = np.random.default_rng(0).choice(len(pool), task.size, replace=False)

    def kernel(one: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if rows is pool and one is pool:
            return np.ones(len(rows))
        if rows is pool:
            row = one[0]
            distances = pool @ (-2.0 * row)
            distances += norms
            distances += row @ row
        else:
            difference = rows - one
            distances = np.einsum("ij,ij->i", difference, difference)
        distances *= -gamma
        return np.exp(distances, out=distances)

    def select() -> Picks:
        mean = mean_rbf(pool, task.target, gamma)
        return Picks(kt.refine_X(pool, start, kernel, meanK=mean, unique=True))

    return select


run(
    prepare,
    packages=["goodpoints", "numpy"],
    chosen=lambda _: "float32, refine_X, one pass from a uniform start, unique rows",
)
