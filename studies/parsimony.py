"""``parsimony``: how many rows the curator sees for each row it buys, as the number of owners grows.

The paper's auction against its own bound ``K/tau + 1/eps_auc``, asking everyone each round, a threshold used once, and
asking everyone once for fewer rows each. Owners are generated: no public data set has thousands of them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.privacy import auction
from likeset.privacy.auction import auction_epsilon, auction_patience
from likeset.privacy.noise import SimulatedNoise
from likeset.protocol.terms import RELEASE_SCALE
from likeset.summarizer import Summarizer
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.parsimony_figures import present_parsimony
from studies.parsimony_rounds import Crowd, crowd, run_rounds

ASKING_METHODS = ("paper", "everyone each round", "everyone once", "threshold once")
_OWNERS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_ROWS, _TARGET, _UNSEEN, _COLUMNS = 120, 300, 2000, 10
_SIZE = 50
_DIMENSION = 128
_DELTA = 1e-5
_MOST_ASKED_ONCE = 500  # owners: with more than are rows to be offered, each would still send one
_LEAST_CHOICE = 10  # rows that owners have, for each that is bought
_LEAST_THRESHOLD = 50  # owners: below it a threshold asks nearly everyone
_SEEDS = 5


def parsimony_bound(*, owners: int, epsilon: float, delta: float) -> float:
    """Rows asked for per row bought, by the paper's own count: ``1/eps_auc`` plus ``owners/patience``.

    Up to rounding this is (3 sqrt(2) log(1/delta)/epsilon + 1) K^(1/3).
    """
    return (3.0 * math.sqrt(2.0) * math.log(1.0 / delta) / epsilon + 1.0) * math.cbrt(owners)


class Parsimony:
    """The study."""

    name = "parsimony"
    description = "rows that the curator sees per row it buys, against the number of owners"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed, so that a run that is stopped has something of everything."""
        if options.data is not None:
            raise InvalidArgument("--data", options.data, "is not used: the owners of this study are generated")
        wanted = _methods_named(options.methods)
        return [
            Cell(
                self.name,
                {
                    "method": method,
                    "owners": owners,
                    "size": size,
                    "epsilon": epsilon,
                    "delta": _DELTA,
                    "rows": _ROWS,
                    "target": _TARGET,
                    "seed": seed,
                    "revision": 2,
                },
            )
            for seed in range(options.seeds or _SEEDS)
            for size in options.sizes or (_SIZE,)
            for epsilon in options.epsilons or (1.0,)
            for owners in _OWNERS
            for method in wanted
            if owners * _ROWS >= _LEAST_CHOICE * size and _is_sensible(method, owners)
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One way of asking, in one market."""
        size, seed = int(cell["size"]), int(cell["seed"])
        market = crowd(
            owners=cell["owners"],
            rows=cell["rows"],
            target=cell["target"] + _UNSEEN,
            columns=_COLUMNS,
            coins=np.random.default_rng(seed),
        )
        market, unseen = replace(market, target=market.target[:_TARGET]), market.target[_TARGET:]
        gamma = median_gamma(market.target, scale=1.0, coins=np.random.default_rng(0))
        exact = exact_greedy(market.pool, market.target, size, gamma=gamma, method="exact").indices
        yardstick = squared_mmd(market.pool[exact], unseen, gamma=gamma)
        if cell["method"] in ASKING_METHODS[:2]:
            plan = _plan(cell)
            rounds = run_rounds(
                market,
                size=size,
                gamma=gamma,
                dimension=_DIMENSION,
                feature_seed=seed,
                plan=plan,
                noise=SimulatedNoise(seed),
            )
            seen, summary = rounds.rows_seen, market.pool[rounds.indices]
        else:
            seen, summary = _run_sealed(cell, market, gamma)
        distance = squared_mmd(summary, unseen, gamma=gamma)
        bound = parsimony_bound(owners=cell["owners"], epsilon=cell["epsilon"], delta=cell["delta"])
        return {
            "rows_per_pick": seen / size,
            "paper_bound": bound,
            "squared_mmd": distance,
            "over_exact": distance / yardstick,
        }

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:
        """A table, and the two panels: rows seen, and what was made of them."""
        return present_parsimony(lines, out, methods=ASKING_METHODS)


def _methods_named(wanted: tuple[str, ...] | None) -> tuple[str, ...]:
    unknown = [name for name in wanted or () if name not in ASKING_METHODS]
    if unknown:
        raise InvalidArgument("--methods", ", ".join(unknown), "must be among: " + "; ".join(ASKING_METHODS))
    return wanted or ASKING_METHODS


def _is_sensible(method: str, owners: int) -> bool:
    if method == "everyone once":
        return owners <= _MOST_ASKED_ONCE
    return method != "threshold once" or owners >= _LEAST_THRESHOLD


def _plan(cell: Cell) -> auction.AuctionPlan:
    owners = int(cell["owners"])
    if cell["method"] != "paper":
        return auction.plan_everyone(owners)
    return auction.plan_paper(
        owners,
        epsilon=auction_epsilon(owners=owners, epsilon=cell["epsilon"], delta=cell["delta"]),
        patience=auction_patience(owners),
        rounds=cell["size"],
        accept_unproven=(auction.PAPER_AUCTION,),
    )


def _run_sealed(cell: Cell, market: Crowd, gamma: float) -> tuple[int, Rows]:
    """Rows seen and the summary of the sealed protocol, with its own release of the target's mean."""
    summarizer = Summarizer(
        cell["size"],
        epsilon=cell["epsilon"],
        delta=cell["delta"],
        gamma=gamma,
        release_gamma=RELEASE_SCALE * gamma,
        auction="everyone" if cell["method"] == "everyone once" else "threshold",
        auction_epsilon=cell["epsilon"],
        noise="simulated",
        random_state=cell["seed"],
        folds=0,
    )
    summarizer.fit(market.target, {f"owner-{number}": rows for number, rows in enumerate(market.owners)})
    return summarizer.rows_seen_, summarizer.summary_


STUDY = Parsimony()
