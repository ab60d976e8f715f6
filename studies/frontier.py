"""``frontier``: how near a summary comes to the target, against what is proven, one factor at a time.

Bundled images by default, on a grid that their 1,797 rows allow; with ``--data mnist.npz`` the full one, around 360
target rows, 5 owners and 200 rows wanted: about 45 minutes of one core for each of its two seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.simulation import Task
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.frontier_fit import NO_NOISE
from studies.frontier_market import RIGHT, Setting, grid_for, load_images, market_of
from studies.frontier_page import present_frontier
from studies.methods import METHODS, find_methods

_METHODS = (
    "exact",
    "uniform",
    "uniform-offers",
    "sealed",
    "sealed-hashed",
    "private-silent",
    "private-sound",
    "private",
)
_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_FEW_EPSILONS = (0.25, 1.0, 4.0)
_SCALE = 3.0  # gamma times the target's median squared distance
_SEEDS = 2
_MOST_ROUNDS = 500  # rounds of interactive
_MOST_BIDS = 4000  # rounds times owners: each bid is a message and each answer is on disk


class Frontier:
    """The study."""

    name = "frontier"
    description = "squared MMD against proven epsilon, by protocol, target, owners, size and offers"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed and setting by setting: cells of one market follow each other, and it is made once."""
        pictures = load_images(options.data)
        grid = grid_for(pictures)
        wanted = [method.name for method in find_methods(options.methods or _METHODS)]
        cells = []
        for seed in range(options.seeds or _SEEDS):
            for factor, setting in grid.settings():
                if options.sizes is not None and setting.size not in options.sizes:
                    continue
                for method in wanted:
                    for epsilon in _epsilons(method, setting, grid.base, options.epsilons):
                        settings = {
                            "data": pictures.name,
                            "digest": pictures.digest,
                            "factor": factor,
                            **asdict(setting),
                            "pool": grid.pool,
                            "method": method,
                            "epsilon": epsilon,
                            "seed": seed,
                            "revision": 1,
                        }
                        cells.append(Cell(self.name, settings, source=options.data))
        return cells

    def run(self, cell: Cell) -> dict[str, Any]:
        """One method in one market."""
        setting = Setting(*(cell[name] for name in Setting.__slots__))
        market = market_of(cell.source, setting, cell["seed"])
        gamma = median_gamma(market.target, scale=_SCALE, coins=np.random.default_rng(0))
        task = Task(
            market=market,
            size=setting.size,
            gamma=gamma,
            offers=math.ceil(setting.offer_factor * setting.size / len(market.owners)),
            epsilon=cell["epsilon"] or 0.0,
            seed=cell["seed"],
        )
        picks = METHODS[cell["method"]].run(task)
        rows, labels = market.pool[picks.indices], market.pool_labels[picks.indices]
        return {
            "squared_mmd": squared_mmd(rows, market.target, gamma=gamma),
            "squared_mmd_held_out": squared_mmd(rows, market.test, gamma=gamma),
            "right_share": float(np.isin(labels, list(RIGHT)).mean()),
            "rows_seen": picks.rows_seen,
            "access_ratio": (picks.rows_seen + setting.target) / (setting.size + setting.target),
            "target_guarantee": asdict(picks.target),
            "owner_guarantee": asdict(picks.owners),
            "owners_present": len(market.owners),
            "selected": len(rows),
        }

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:
        """Tables and figures: the frontier, the factors, and the formula behind the advice."""
        return present_frontier(lines, out)


def _epsilons(
    method: str, setting: Setting, base: Setting, wished: tuple[float, ...] | None
) -> tuple[float | None, ...]:
    """The budgets at which a method is tried; None where it has none, nothing where it would take too long."""
    if method.startswith("private"):
        too_long = setting.size > _MOST_ROUNDS or setting.size * setting.owners > _MOST_BIDS
        if too_long or setting.offer_factor != base.offer_factor:  # offers are of the sealed protocol alone
            return ()
        # What is released about the summary changes little but the time it takes: with the base's owners only.
        if method != "private-silent" and setting.owners != base.owners:
            return ()
    if not METHODS[method].budgeted:
        return (None,)
    if method == "sealed":
        return (*(wished or _EPSILONS), NO_NOISE)
    return wished or _FEW_EPSILONS


STUDY = Frontier()
