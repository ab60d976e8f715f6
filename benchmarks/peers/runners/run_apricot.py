"""apricot ``GraphCutSelection``, steered to the target.

Graph cut maximises ``alpha * sum_{v, s} k(v, s) - sum_{s, s'} k(s, s')`` with v over the pool. With v over
the target and ``alpha = 2 p / m`` it is ``p²`` times the objective J of a summary of the final size p, so the
row sums are replaced by those. The weight cannot follow the growing summary, so early picks crowd at the
target's modes.
"""

from collections.abc import Callable

import numpy as np
from apricot import GraphCutSelection
from measure import SelectionTask, ToolPicks, mean_rbf, measure_selection, rbf


class SteeredGraphCut(GraphCutSelection):
    """Graph cut whose first term runs over the target instead of the pool."""

    attraction: np.ndarray

    def _initialize(self, X_pairwise: np.ndarray) -> None:  # noqa: N803 (apricot's own name)
        super()._initialize(X_pairwise)
        self.row_sums = self.attraction


def prepare(task: SelectionTask) -> Callable[[], ToolPicks]:
    """Apricot computes in float64 and wants the whole similarity matrix."""
    pool, target = task.pool.astype(np.float64), task.target.astype(np.float64)

    def select() -> ToolPicks:
        setting = {"optimizer": "naive"} if task.tuned else {}
        selector = SteeredGraphCut(task.size, metric="precomputed", **setting)
        selector.attraction = 2.0 * task.size * mean_rbf(pool, target, task.gamma)
        return ToolPicks(selector.fit(rbf(pool, pool, task.gamma)).ranking)

    return select


measure_selection(
    prepare,
    packages=["apricot-select", "numba", "numpy"],
    chosen=lambda _: "float64, graph cut on the full matrix, its fastest optimizer here (naive); by default two-stage",
)
