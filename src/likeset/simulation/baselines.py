"""What could be had in place of a private run: by seeing everything, by seeing nothing, by the paper's protocol."""

from typing import Literal

import numpy as np

from likeset.geometry.greedy import match
from likeset.geometry.offers import uniform
from likeset.protocol.run_settings import PRESETS
from likeset.simulation.protocol_runs import run_protocol
from likeset.simulation.tasks import MethodPicks, StatedCost, Task

__all__ = ["POOLED", "greedy", "published_protocol", "uniform_sampling"]

POOLED = StatedCost(None, "rows are pooled")
"""What a method costs that sees every row."""

_ACCEPTED = ("paper-auction", "summary-release")


def greedy(task: Task, *, method: Literal["exact", "features"]) -> MethodPicks:
    """Greedy selection by somebody who sees all rows, on the exact kernel or in features."""
    pool = task.market.pool
    selected = match(pool, task.market.target, task.size, gamma=task.gamma, method=method)
    return MethodPicks(selected.indices, len(pool), target=POOLED, owners=POOLED)


def uniform_sampling(task: Task) -> MethodPicks:
    """As many random rows from each owner."""
    sizes = [len(rows) for rows in task.market.owners.values()]
    chosen = uniform(sizes, task.size, coins=np.random.default_rng([task.seed, 3]))
    starts = np.cumsum([0, *sizes[:-1]])
    indices = np.concatenate([start + rows for start, rows in zip(starts, chosen, strict=True)])
    return MethodPicks(np.random.default_rng([task.seed, 7]).permutation(indices), task.size)


def published_protocol(task: Task) -> MethodPicks:
    """The paper's protocol with its own settings: its epsilons are those of the schedule, not the user's."""
    return run_protocol(task, **PRESETS["paper"], accept_unproven=_ACCEPTED)
