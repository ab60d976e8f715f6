"""The methods that studies compare: what sees everything, what sees nothing, and the protocols between them.

The protocols run with simulated noise: reproducible, and not private. Their guarantees are those of the same run with
secret noise.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np

from likeset.errors import InvalidArgument
from likeset.geometry.features import FourierFeatures
from likeset.geometry.weights import weights
from likeset.privacy.mwem_mean import PAPER_DIMENSION
from likeset.privacy.noise import Noise
from likeset.protocol.terms import Terms
from likeset.simulation import POOLED, MethodPicks, Task, greedy, run_protocol, uniform_sampling
from studies.hashes import HashingCurator, match_hashed
from studies.rounds import hashed_protocol, observed_protocol
from studies.weighted_matching import match_weighted

_HASH_DIMENSION = 2000
_MATCHED_ROWS = 1500  # of the pool, weighted by kernel mean matching


@dataclass(frozen=True, slots=True)
class Method:
    """One entry of the registry.

    Attributes:
        name: what the user types and what lines record.
        label: in figures and tables.
        words: what it is.
        run: how it is done.
        budgeted: whether it takes an epsilon.
        offers: whether it depends on how many rows are offered.
        sized: whether it depends on the size of the summary.
    """

    name: str
    label: str
    words: str
    run: Callable[[Task], MethodPicks]
    budgeted: bool = False
    offers: bool = False
    sized: bool = True


def _feature_greedy(task: Task) -> MethodPicks:
    pool = task.market.pool
    features = FourierFeatures(pool.shape[1], PAPER_DIMENSION, task.gamma, seed=0, kind="paper")
    selected = match_hashed(features(pool), features(task.market.target), task.size)
    return MethodPicks(selected.indices, len(pool), target=POOLED, owners=POOLED)


def _protodash(task: Task) -> MethodPicks:
    pool = task.market.pool
    weighted = match_weighted(pool, task.market.target, task.size, gamma=task.gamma)
    return MethodPicks(weighted.indices, len(pool), weights=weighted.weights, target=POOLED, owners=POOLED)


def _matched_means(task: Task) -> MethodPicks:
    """Kernel mean matching: weights for many rows in place of few rows without weights."""
    pool = task.market.pool
    count = min(_MATCHED_ROWS, len(pool))
    chosen = np.random.default_rng([task.seed, 6]).choice(len(pool), size=count, replace=False)
    fitted = weights(pool[chosen], task.market.target, gamma=task.gamma)
    return MethodPicks(chosen, len(pool), weights=fitted, target=POOLED, owners=POOLED)


def _seeded_greedy(task: Task) -> MethodPicks:
    """The other reading of the paper's baseline: Algorithm 3 without noise, whose summary starts from the seed rows."""
    pool, seeds = task.market.pool, task.market.public
    if seeds is None:
        raise InvalidArgument("--methods", "greedy-seeded", "needs a market with seed rows")
    features = FourierFeatures(pool.shape[1], PAPER_DIMENSION, task.gamma, seed=0, kind="paper")
    hashed = features(pool)
    attraction = hashed @ features.mean(task.market.target)
    repulsion = hashed @ features(seeds).sum(axis=0)
    picks = []
    for count in range(len(seeds), len(seeds) + task.size):
        picks.append(int(np.argmax(attraction - repulsion / (count + 1))))
        attraction[picks[-1]] = -np.inf
        repulsion += hashed @ hashed[picks[-1]]
    return MethodPicks(np.array(picks), len(pool), target=POOLED, owners=POOLED)


def _protocol(task: Task, **settings: Any) -> MethodPicks:
    settings.setdefault("epsilon", task.epsilon)
    settings.setdefault("labels", "ignore")
    return run_protocol(task, **settings)


def _hashed(task: Task) -> MethodPicks:
    """The paper's extension: the curator sees hashes, whose seed the other parties share."""

    def curator(terms: Terms, noise: Noise, seed: int) -> HashingCurator:
        hashes = FourierFeatures(terms.kernel.columns, _HASH_DIMENSION, task.gamma, seed, "phased")
        return HashingCurator(terms, noise=noise, hashes=hashes)

    return _protocol(task, offers="tilted", curator_of=curator)


def _sound(task: Task) -> MethodPicks:
    return _protocol(task, protocol="interactive", summary_release="gaussian", owner_epsilon=task.epsilon)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("exact", "exact greedy", "greedy on the exact kernel; sees all rows", greedy),
        Method(
            "greedy",
            "non-private greedy (paper)",
            "greedy in 140 Fourier features; sees all rows",
            _feature_greedy,
        ),
        Method(
            "greedy-seeded",
            "non-private greedy, from seed rows",
            "the same, where the summary starts from the seed rows, which are then left out",
            _seeded_greedy,
        ),
        Method("protodash", "weighted greedy (ProtoDash)", "rows with fitted weights; sees all rows", _protodash),
        Method(
            "pooled",
            "kernel mean matching, pooled",
            f"weights for {_MATCHED_ROWS} rows of the pool: what if all were pooled",
            _matched_means,
            sized=False,
        ),
        Method(
            "sealed",
            "sealed",
            "one private release of the target; the curator selects among offers",
            partial(_protocol, offers="tilted"),
            budgeted=True,
            offers=True,
        ),
        Method(
            "sealed-joint",
            "sealed, rows with labels",
            "the same, where owners and the curator use labels",
            partial(_protocol, offers="tilted", labels="match"),
            budgeted=True,
            offers=True,
        ),
        Method(
            "sealed-hashed",
            "sealed, hash-only",
            f"the same, where the curator sees hashes of length {_HASH_DIMENSION}",
            _hashed,
            budgeted=True,
            offers=True,
        ),
        Method(
            "uniform-offers",
            "uniform offers",
            "no release at all; the curator selects among random offers",
            partial(_protocol, offers="uniform", epsilon=0.0),
            offers=True,
        ),
        Method(
            "private", "private greedy (paper)", "Algorithm 3 as published, with its own epsilons", observed_protocol
        ),
        Method("private-hashed", "private greedy, on hashes", "the same, where owners send hashes", hashed_protocol),
        Method(
            "private-sound",
            "private greedy, sound",
            "Algorithm 3 with everyone asked and Gaussian releases within the budget",
            _sound,
            budgeted=True,
        ),
        Method(
            "private-silent",
            "private greedy, summary not released",
            "Algorithm 3 with everyone asked and no release of the summary",
            partial(_protocol, protocol="interactive"),
            budgeted=True,
        ),
        Method("uniform", "uniform sampling", "the same number of random rows from each owner", uniform_sampling),
    )
}
"""By name, in the order of the tables."""


def find_methods(names: Collection[str]) -> list[Method]:
    """The methods of these names, in the order of the registry."""
    for name in names:
        if name not in METHODS:
            near = get_close_matches(name, METHODS, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else "there are " + ", ".join(METHODS)
            raise InvalidArgument("--methods", repr(name), f"is no method; {hint}")
    return [method for name, method in METHODS.items() if name in names]
