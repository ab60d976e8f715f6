"""What matching can do when one party sees every row: the non-private yardstick for everything else."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from likeset.geometry.discrepancy import squared_mmd
from likeset.geometry.greedy import Method, match, uniform
from likeset.geometry.kernels import median_gamma
from likeset.studies.market import Market, svm_accuracy

__all__ = ["Outcome", "compare_methods"]

_METHODS: Mapping[str, Method] = {"exact": "exact", "block": "block", "feature-greedy": "features"}


@dataclass(frozen=True)
class Outcome:
    """One method's selection from the market's pool and how good it is."""

    method: str
    indices: NDArray[np.int64]
    squared_mmd: float
    accuracy: float
    seconds: float


def compare_methods(market: Market, *, size: int, coins: np.random.Generator) -> Iterator[Outcome]:
    """Select ``size`` rows by each method, one outcome after the other; nothing here is private."""
    gamma = median_gamma(market.target, scale=1.0, coins=coins)
    pool, labels = market.pool, market.pool_labels

    def by_method(method: Method) -> NDArray[np.int64]:
        return match(pool, market.target, size, gamma=gamma, method=method).indices

    selections = {name: partial(by_method, method) for name, method in _METHODS.items()}
    selections["uniform"] = partial(_uniform, market, size, coins)
    for name, select in selections.items():
        start = time.perf_counter()
        chosen = select()
        seconds = time.perf_counter() - start
        yield Outcome(
            method=name,
            indices=chosen,
            squared_mmd=squared_mmd(pool[chosen], market.target, gamma=gamma),
            accuracy=svm_accuracy(pool[chosen], labels[chosen], market),
            seconds=seconds,
        )


def _uniform(market: Market, size: int, coins: np.random.Generator) -> NDArray[np.int64]:
    sizes = [len(rows) for rows in market.owners.values()]
    chosen = uniform(sizes, size, coins=coins)
    starts = np.cumsum([0, *sizes[:-1]])
    return np.concatenate([start + rows for start, rows in zip(starts, chosen, strict=True)])
