"""submodlib ``GraphCutFunction`` with the target as the represented set.

It maximises ``sum_{v, s} k(v, s) - lambda * sum_{s, s'} k(s, s')``; with v over the target and ``lambda = m /
(2 p)`` this is J of a summary of the final size p, up to a factor. Kernels cross into C++ as nested Python
lists.
"""

from collections.abc import Callable

import numpy as np
from measure import SelectionTask, ToolPicks, measure_selection, rbf
from submodlib.functions.graphCut import GraphCutFunction


def prepare(task: SelectionTask) -> Callable[[], ToolPicks]:
    """Both kernel matrices are handed over whole."""

    def select() -> ToolPicks:
        function = GraphCutFunction(
            n=len(task.pool),
            mode="dense",
            lambdaVal=len(task.target) / (2.0 * task.size),
            separate_rep=True,
            n_rep=len(task.target),
            mgsijs=rbf(task.target, task.pool, task.gamma),
            ggsijs=rbf(task.pool, task.pool, task.gamma),
        )
        picks = function.maximize(
            budget=task.size,
            optimizer="LazyGreedy" if task.tuned else "NaiveGreedy",
            stopIfZeroGain=False,
            stopIfNegativeGain=False,
            show_progress=False,
        )
        return ToolPicks(np.array([index for index, _ in picks]))

    return select


measure_selection(
    prepare,
    packages=["submodlib-py", "numpy"],
    chosen=lambda _: "float32, graph cut with the target represented, its fastest optimizer (lazy); by default naive",
)
