"""``theory``: the paper's conditions and bounds beside what is measured on images.

Four questions: is the condition of Theorem 1 met, how well do features of a given length approximate the kernel
(``h_1``), how well does multiplicative weights release a mean (``h_2``), and how good is greedy selection, whose
guarantee does not follow.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import median_gamma
from studies import theory_measures as measures
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.frontier_market import RIGHT, load_images
from studies.theory_page import present_theory

PARTS = ("condition", "features", "mean release", "greedy", "small optimum", "characteristic function", "hashes")
_SEEDS = 5
_PAPER_GAMMA = 0.1
_SCALES = (1.0, 3.0, 10.0)
_ROWS = (100, 200, 500, 1000, 1797)
_DIMENSIONS = (20, 50, 100, 140, 200, 500, 1000, 2000, 5000)
_PAIRED_ROWS = 400
_DIMENSION, _ITERATIONS, _EPSILON, _MEAN_ROWS = 140, 1656, 0.01, 360  # the paper's, and about its target
_ITERATION_GRID = (50, 140, 500, 1656, 5000, 19600)
_EPSILON_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_MEAN_ROWS_GRID = (50, 100, 360, 1000, 3000, 10_000, 30_000)
_SIZES = (10, 25, 50, 100)
_SUBSETS = 5000
_POOL, _TARGET = 1500, 70
_ANGLES = (2000, 20_000)  # twice as many frequencies as are averaged over
_TRAINED = 200
_SMALL_POOL, _SMALL_SIZE, _SMALL_TRIALS = 16, 4, 100
_SMALL_SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)


class Theory:
    """The study."""

    name = "theory"
    description = "the paper's conditions and bounds beside what is measured"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed, part by part; ``--methods`` names parts, ``--sizes`` the sizes of greedy's summaries."""
        images = load_images(options.data)
        wanted = options.methods or PARTS
        if unknown := [name for name in wanted if name not in PARTS]:
            raise InvalidArgument("--methods", ", ".join(unknown), "must be among: " + "; ".join(PARTS))
        epsilons = options.epsilons or _EPSILON_GRID
        return [
            Cell(
                self.name,
                {"data": images.name, "digest": images.digest, "part": part, "seed": seed, "revision": 1, **settings},
                source=options.data,
            )
            for seed in range(options.seeds or _SEEDS)
            for part in wanted
            for settings in _settings(part, epsilons, options.sizes or _SIZES)
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One measurement."""
        images = load_images(cell.source)
        coins = np.random.default_rng([cell["seed"], PARTS.index(cell["part"])])
        order = coins.permutation(len(images.rows))
        rows = images.rows[order]
        part = cell["part"]
        if part == "condition":
            return measures.theorem_condition(rows[: cell["rows"]], gamma=_gamma(rows, cell["scale"]))
        if part == "features":
            return measures.feature_error(
                rows[:_PAIRED_ROWS],
                gamma=_gamma(rows, 1.0),
                dimension=cell["dimension"],
                kind=cell["kind"],
                seed=cell["seed"],
            )
        if part == "characteristic function":
            return measures.characteristic_error(
                rows, gamma=_gamma(rows, 1.0), dimension=cell["dimension"], seed=cell["seed"]
            )
        if part == "hashes":
            right = np.isin(images.digits[order], list(RIGHT))
            return measures.hashed_svm(
                rows[right],
                images.digits[order][right],
                train=_TRAINED,
                gamma=_gamma(rows[right], 1.0),
                dimension=cell["dimension"],
                seed=cell["seed"],
            )
        if part == "mean release":
            return measures.mean_release_error(
                rows[coins.integers(len(rows), size=cell["rows"])],
                gamma=_gamma(rows, 1.0),
                dimension=_DIMENSION,
                iterations=cell["iterations"],
                epsilon=cell["epsilon"],
                seed=cell["seed"],
            )
        target, pool, right = _market(rows, images.digits[order])
        gamma = _gamma(target, cell["scale"]) if cell["scale"] else _condition_gamma(pool, target)
        if part == "greedy":
            values = measures.subset_values(
                pool, target, right, size=cell["size"], gamma=gamma, subsets=_SUBSETS, seed=cell["seed"]
            )
            return {**values, "gamma": gamma}
        return _small_pools(pool, target, gamma, coins)

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table for each question."""
        return present_theory(lines)


def _settings(part: str, epsilons: Sequence[float], sizes: Sequence[int]) -> list[dict[str, Any]]:
    if part == "condition":
        return [{"rows": rows, "scale": scale} for rows in _ROWS for scale in (None, *_SCALES)]
    if part == "features":
        return [{"dimension": d, "kind": kind} for d in _DIMENSIONS for kind in ("paper", "paired")]
    if part == "characteristic function":
        return [{"dimension": d} for d in _ANGLES]
    if part == "hashes":
        return [{"dimension": d} for d in (_DIMENSION, 2000)]
    if part == "mean release":
        base = {"iterations": _ITERATIONS, "epsilon": _EPSILON, "rows": _MEAN_ROWS}
        varied = [
            *({**base, "iterations": value} for value in _ITERATION_GRID),
            *({**base, "epsilon": value} for value in epsilons),
            *({**base, "rows": value} for value in _MEAN_ROWS_GRID),
        ]
        return [settings for index, settings in enumerate(varied) if settings not in varied[:index]]
    if part == "greedy":
        # Scale None: the least gamma at which the condition of Theorem 1 holds.
        return [{"size": size, "scale": scale} for scale in (1.0, 3.0, None) for size in sizes]
    return [{"scale": scale} for scale in (*_SMALL_SCALES, None)]


def _gamma(rows: Rows, scale: float | None) -> float:
    """Gamma by the median squared distance; the paper's own number for None."""
    return _PAPER_GAMMA if scale is None else median_gamma(rows, scale=scale, coins=np.random.default_rng(0))


def _market(rows: Rows, digits: NDArray[np.int64]) -> tuple[Rows, Rows, NDArray[np.bool_]]:
    """Target, pool, and which rows of the pool are of the target's digits."""
    wanted = [np.flatnonzero(digits == digit)[: round(share * _TARGET)] for digit, share in RIGHT.items()]
    target = np.concatenate(wanted)
    pool = np.setdiff1d(np.arange(len(rows)), target)[:_POOL]
    return rows[target], rows[pool], np.isin(digits[pool], list(RIGHT))


def _condition_gamma(pool: Rows, target: Rows) -> float:
    """The least gamma at which the condition of Theorem 1 holds."""
    return float(measures.theorem_condition(np.concatenate([pool, target]), gamma=1.0)["needed_gamma"])


def _small_pools(pool: Rows, target: Rows, gamma: float, coins: np.random.Generator) -> dict[str, Any]:
    """Greedy against the best of all subsets, in many small pools."""
    trials = [
        measures.small_optimum(
            pool[coins.choice(len(pool), size=_SMALL_POOL, replace=False)], target, size=_SMALL_SIZE, gamma=gamma
        )
        for _ in range(_SMALL_TRIALS)
    ]
    ratios = [trial["greedy"] / trial["best"] for trial in trials if trial["best"] > 0.0]
    return {
        "gamma": gamma,
        "trials": len(trials),
        "best_negative": sum(trial["best"] < 0.0 for trial in trials),
        "greedy_best": sum(trial["greedy"] >= trial["best"] - 1e-9 for trial in trials),
        "worst_ratio": min(ratios, default=None),
        "mean_ratio": float(np.mean(ratios)) if ratios else None,
    }


STUDY = Theory()
