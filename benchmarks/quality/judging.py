"""How good a summary is: one run of one method, and its line of results."""

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from likeset.arguments import Rows
from likeset.geometry.discrepancy import squared_mmd
from likeset.studies.market import Market, svm_accuracy
from quality.markets import RIGHT_DIGITS
from quality.methods import Found, Task

__all__ = ["Line", "judged"]


@dataclass(frozen=True, slots=True)
class Line:
    """One run; ``noise`` says that nothing in it was private."""

    setting: str
    scale: float
    size: int
    method: str
    seed: int
    squared_mmd: float
    squared_mmd_test: float
    svm: float
    mlp: float
    right: float
    access_ratio: float
    target_guarantee: str
    owner_guarantee: str
    seconds: float
    owners: int
    target_size: int
    notes: str
    noise: str = "simulated, not private"

    @property
    def key(self) -> tuple[str, float, int, str, int]:
        """What was run."""
        return self.setting, self.scale, self.size, self.method, self.seed

    def to_json(self) -> dict[str, object]:
        """As plain data."""
        return asdict(self)


def judged(task: Task, *, setting: str, scale: float, method: str, run: Callable[[Task], Found]) -> Line:
    """Run a method and judge what it found, by the target and by rows that nobody saw."""
    started = time.perf_counter()
    found = run(task)
    seconds = time.perf_counter() - started
    market = task.market
    rows, labels = market.pool[found.indices], market.pool_labels[found.indices]
    m = len(market.target)
    return Line(
        setting=setting,
        scale=scale,
        size=task.size,
        method=method,
        seed=task.seed,
        squared_mmd=squared_mmd(rows, market.target, gamma=task.gamma),
        squared_mmd_test=squared_mmd(rows, market.test, gamma=task.gamma),
        svm=svm_accuracy(rows, labels, market),
        mlp=_mlp_accuracy(rows, labels, market, task.seed),
        right=float(np.isin(labels, RIGHT_DIGITS).mean()),
        access_ratio=(found.rows_seen + m) / (task.size + m),
        target_guarantee=found.guarantees["target"],
        owner_guarantee=found.guarantees["owners"],
        seconds=seconds,
        owners=len(market.owners),
        target_size=m,
        notes=found.notes,
    )


def _mlp_accuracy(rows: Rows, labels: NDArray[np.int64], market: Market, seed: int) -> float:
    """Share of the test rows that a network with one hidden layer of 32 units gets right."""
    if len(np.unique(labels)) == 1:
        return float((market.test_labels == labels[0]).mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network = MLPClassifier((32,), max_iter=200, random_state=seed).fit(rows, labels)
    return float(network.score(market.test, market.test_labels))
