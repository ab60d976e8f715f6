"""likeset: ``block``, ``exact``, ``stochastic``, ``block`` with optimal weights, and ``weighted`` matching."""

from collections.abc import Callable

from measure import Picks, Task, run

from likeset.geometry.greedy import match
from likeset.geometry.pursuit import match_weighted
from likeset.geometry.weights import weights


def prepare(task: Task) -> Callable[[], Picks]:
    """The method's name is ours, with ``+weights`` behind it if the picks are to be weighted."""
    method, _, extra = task.method.partition("+")

    def select() -> Picks:
        if method == "weighted":
            both = match_weighted(task.pool, task.target, task.size, gamma=task.gamma)
            return Picks(both.indices, both.weights)
        found = match(task.pool, task.target, task.size, gamma=task.gamma, method=method).indices
        if not extra:
            return Picks(found)
        return Picks(found, weights(task.pool[found], task.target, gamma=task.gamma))

    return select


run(prepare, packages=["likeset", "numpy", "scipy"], chosen=lambda _: "float32, default settings")
