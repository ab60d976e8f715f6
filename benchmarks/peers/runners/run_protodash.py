"""AIX360 ProtoDash: picks and non-negative weights that minimise the weighted MMD² to the target."""

import sys
import types
from collections.abc import Callable

from measure import SelectionTask, ToolPicks, measure_selection

# The module imports xport only to read one of its example data sets, and xport's source no longer builds.
sys.modules["xport"] = types.ModuleType("xport")

import numpy as np  # noqa: E402
from aix360.algorithms.protodash import ProtodashExplainer  # noqa: E402


def prepare(task: SelectionTask) -> Callable[[], ToolPicks]:
    """ProtoDash's kernel is ``exp(-||x - y||² / (2 sigma²))``."""
    pool, target = task.pool.astype(np.float64), task.target.astype(np.float64)
    sigma = float(np.sqrt(0.5 / task.gamma))

    def select() -> ToolPicks:
        weights, indices, _ = ProtodashExplainer().explain(
            target, pool, task.size, kernelType="Gaussian", sigma=sigma, optimizer="osqp" if task.tuned else "cvxpy"
        )
        return ToolPicks(indices, np.maximum(np.asarray(weights, dtype=np.float64), 0.0))

    return select


measure_selection(
    prepare,
    packages=["aix360", "numpy", "osqp"],
    chosen=lambda _: "float64, the faster of its two solvers (osqp); by default cvxpy",
)
