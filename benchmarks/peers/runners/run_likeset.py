"""likeset: ``block``, ``exact``, ``stochastic``, ``block`` with optimal weights, and ``weighted`` matching."""

from collections.abc import Callable

from measure import SelectionTask, ToolPicks, measure_selection

from likeset.geometry.greedy import match
from likeset.geometry.pursuit import match_weighted
from likeset.geometry.weights import weights


def prepare(task: SelectionTask) -> Callable[[], ToolPicks]:
    """The method's name is ours, with ``+weights`` behind it if the picks are to be weighted."""
    method, _, extra = task.method.partition("+")

    def select() -> ToolPicks:
        if method == "weighted":
            both = match_weighted(task.pool, task.target, task.size, gamma=task.gamma)
            return ToolPicks(both.indices, both.weights)
        indices = match(task.pool, task.target, task.size, gamma=task.gamma, method=method).indices
        if not extra:
            return ToolPicks(indices)
        return ToolPicks(indices, weights(task.pool[indices], task.target, gamma=task.gamma))

    return select


measure_selection(prepare, packages=["likeset", "numpy", "scipy"], chosen=lambda _: "float32, default settings")
