"""likeset: ``exact``, with optimal weights too, and ``weighted`` matching of the studies."""

import sys
from collections.abc import Callable
from pathlib import Path

from measure import SelectionTask, ToolPicks, measure_selection

from likeset.geometry.greedy import exact_greedy
from likeset.geometry.weights import weights

sys.path.append(str(Path(__file__).parents[3]))

from studies.weighted_matching import match_weighted


def prepare(task: SelectionTask) -> Callable[[], ToolPicks]:
    """The method's name is ours, with ``+weights`` behind it if the picks are to be weighted."""
    method, _, extra = task.method.partition("+")

    def select() -> ToolPicks:
        if method == "weighted":
            both = match_weighted(task.pool, task.target, task.size, gamma=task.gamma)
            return ToolPicks(both.indices, both.weights)
        indices = exact_greedy(task.pool, task.target, task.size, gamma=task.gamma).indices
        if not extra:
            return ToolPicks(indices)
        return ToolPicks(indices, weights(task.pool[indices], task.target, gamma=task.gamma))

    return select


measure_selection(prepare, packages=["likeset", "numpy", "scipy"], chosen=lambda _: "float32, default settings")
