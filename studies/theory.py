"""``theory``: the paper's conditions and bounds beside what is measured on images.

Is the condition of Theorem 1 met, and does it do what the theorem says; how well do features of a given length
approximate the kernel (``h_1``); how well does multiplicative weights release a mean (``h_2``), and one that changes
little (its Section 4); how good is greedy selection, whose guarantee does not follow; what do hashes reveal.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.kernels import median_gamma
from likeset.simulation import DELTA
from studies import theory_measures as measures
from studies.contract import Cell, Options, Presentation, RecordLine, Table
from studies.frontier_market import RIGHT, load_images
from studies.pages import mean_table

PARTS = {
    "condition": 0,
    "features": 1,
    "mean release": 2,
    "small optimum": 4,
    "characteristic function": 5,
    "hashes": 6,
    "small changes": 7,
    "five points": 8,
    "budget": 9,
}
"""With the number of each part's coins."""
_SEEDS = 5
_PAPER_GAMMA = 0.1
_SCALES = (1.0, 3.0, 10.0)
_ROWS = (100, 200, 500, 1000, 1797)
_DIMENSIONS = (20, 50, 100, 140, 200, 500, 1000, 2000, 5000)
_PAIRED_ROWS = 400
_DIMENSION, _ITERATIONS, _EPSILON, _MEAN_ROWS = 140, 1656, 0.01, 360  # the paper's, and about its target
_ITERATION_GRID = (50, 140, 500, 1656, 5000, 19600)
_EPSILON_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_BUDGET_ROWS = 1000
_MEAN_ROWS_GRID = (50, 100, 360, 1000, 3000, 10_000, 30_000)
_SEED_ROWS = 150
_POOL, _TARGET = 1500, 70
_ANGLES = (2000, 20_000)  # twice as many frequencies as are averaged over
_TRAINED = 200
_GROWN, _STEPS, _STEP_EPSILONS = 200, (1, 5, 20, 100), (0.0002, 0.01, None)
_NO_NOISE = 1e6
_SMALL_POOL, _SMALL_SIZE, _SMALL_TRIALS = 16, 4, 100
_SMALL_SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)


class Theory:
    """The study."""

    name = "theory"
    description = "the paper's conditions and bounds beside what is measured"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed, part by part; ``--methods`` names parts."""
        images = load_images(options.data)
        wanted = options.chosen(tuple(PARTS))
        epsilons = options.epsilons or _EPSILON_GRID
        return [
            Cell(
                self.name,
                {"data": images.name, "digest": images.digest, "part": part, "seed": seed, "revision": 1, **settings},
                source=options.data,
            )
            for seed in range(options.seeds or _SEEDS)
            for part in wanted
            for settings in _settings(part, epsilons)
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One measurement."""
        images = load_images(cell.source)
        coins = np.random.default_rng([cell["seed"], PARTS[cell["part"]]])
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
        if part == "small changes":
            # Seed rows of other digits, joined by rows of the target's: the change from row to row is as in a run.
            right = np.isin(images.digits[order], list(RIGHT))
            return measures.small_changes(
                np.concatenate([rows[~right][:_SEED_ROWS], rows[right][:_GROWN]]),
                gamma=_gamma(rows, cell["scale"]),
                dimension=_DIMENSION,
                start=_SEED_ROWS,
                iterations=cell["iterations"],
                epsilon=cell["epsilon"] or _NO_NOISE,
                seed=cell["seed"],
            )
        if part == "budget":
            return measures.budgeted_release(
                rows[:_BUDGET_ROWS],
                gamma=_gamma(rows, 1.0),
                dimension=_DIMENSION,
                iterations=cell["iterations"],
                epsilon=1.0,
                delta=DELTA,
                seed=cell["seed"],
            )
        target, pool = _market(rows, images.digits[order])
        if part == "five points":
            needed = _condition_gamma(pool[:5], target[:5])
            found = measures.enumerated(pool[:5], target[:5], gamma=needed)
            return {name: float(holds) for name, holds in found.items()}
        gamma = _gamma(target, cell["scale"]) if cell["scale"] else _condition_gamma(pool, target)
        return _small_pools(pool, target, gamma, coins)

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table for each question."""
        done = [line for line in lines if line.done]
        parts = {part: [line for line in done if line["part"] == part] for part in PARTS}
        tables = [tabulate(parts[part]) for part, tabulate in _TABLES.items() if parts[part]]
        return Presentation("The paper's conditions and bounds beside what is measured", _words(done), tables)


def _settings(part: str, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    if part == "condition":
        return [{"rows": rows, "scale": scale} for rows in _ROWS for scale in (None, *_SCALES)]
    if part == "features":
        return [{"dimension": d, "kind": kind} for d in _DIMENSIONS for kind in ("paper", "paired")]
    if part == "characteristic function":
        return [{"dimension": d} for d in _ANGLES]
    if part == "hashes":
        return [{"dimension": d} for d in (_DIMENSION, 2000)]
    if part == "small changes":
        return [
            {"iterations": steps, "epsilon": epsilon, "scale": scale}
            for scale in (None, 3.0)
            for steps in _STEPS
            for epsilon in _STEP_EPSILONS
        ]
    if part == "five points":
        return [{}]
    if part == "budget":
        return [{"iterations": steps} for steps in (_ITERATIONS, _DIMENSION**2, None)]
    if part == "mean release":
        base = {"iterations": _ITERATIONS, "epsilon": _EPSILON, "rows": _MEAN_ROWS}
        varied = [
            *({**base, "iterations": value} for value in _ITERATION_GRID),
            *({**base, "epsilon": value} for value in epsilons),
            *({**base, "rows": value} for value in _MEAN_ROWS_GRID),
        ]
        return [settings for index, settings in enumerate(varied) if settings not in varied[:index]]
    return [{"scale": scale} for scale in (*_SMALL_SCALES, None)]


def _gamma(rows: Rows, scale: float | None) -> float:
    """Gamma by the median squared distance; the paper's own number for None."""
    return _PAPER_GAMMA if scale is None else median_gamma(rows, scale=scale, coins=np.random.default_rng(0))


def _market(rows: Rows, digits: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Target and pool."""
    wanted = [np.flatnonzero(digits == digit)[: round(share * _TARGET)] for digit, share in RIGHT.items()]
    target = np.concatenate(wanted)
    pool = np.setdiff1d(np.arange(len(rows)), target)[:_POOL]
    return rows[target], rows[pool]


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


def _words(lines: Sequence[RecordLine]) -> list[str]:
    return [
        f"Data: {lines[0]['data']}; means over {len({line['seed'] for line in lines})} seeds.",
        "gamma·median is gamma times the median squared distance of the rows: 1 and 3 are where the kernel tells "
        "rows apart. Noise enters the two mean releases only.",
        "Bounds are the paper's own: Theorem 1; `d >= 16 log(2N)/error²` for h_1; Theorem 5 of its appendix for "
        "h_2, written for any T.",
    ]


def _width(scale: float | None, otherwise: str = "gamma = 0.1") -> str:
    return otherwise if scale is None else f"gamma·median = {scale:g}"


def _condition_table(lines: Sequence[RecordLine]) -> Table:
    most = max(line["rows"] for line in lines)
    return mean_table(
        f"Theorem 1's condition, N = {most:,} rows",
        [line for line in lines if line["rows"] == most],
        lambda line: _width(line["scale"]),
        {
            "largest kernel value": ("largest_kernel", ".3f"),
            "allowed": ("allowed_kernel", ".1e"),
            "too large by a factor of": ("excess", ".1e"),
            "distances too short by a factor of": ("needed_scale", ".0f"),
        },
        first="kernel",
    )


def _features_table(lines: Sequence[RecordLine]) -> Table:
    return mean_table(
        f"h_1: error of h(x)·h(y) over all pairs of {lines[0]['rows']} rows",
        lines,
        lambda line: f"{line['kind']}, d = {line['dimension']:,}",
        {
            "largest": ("largest", ".3f"),
            "RMS": ("root_mean_square", ".3f"),
            "the paper's bound on the largest": ("bound", ".2f"),
        },
        first="features",
    )


def _mean_release_table(lines: Sequence[RecordLine]) -> Table:
    base = {"iterations": _ITERATIONS, "epsilon": _EPSILON, "rows": _MEAN_ROWS}
    words = {"iterations": "T", "epsilon": "epsilon", "rows": "q"}

    def varied(line: RecordLine) -> str:
        changed = [name for name, value in base.items() if line[name] != value]
        return ", ".join(f"{words[name]} = {line[name]:,}" for name in changed) or "the paper's"

    return mean_table(
        "h_2: error of the released mean around T = 1656, epsilon = 0.01, q = 360, d = 140",
        sorted(lines, key=lambda line: [(line[name] != base[name], line[name]) for name in base]),
        varied,
        {
            "largest error of a coordinate": ("largest", ".4f"),
            "the paper's bound": ("bound", ".4f"),
            "error in a row's score, RMS": ("along_rows", ".4f"),
            "of zeros": ("nothing_along_rows", ".4f"),
        },
        "A coordinate lies within sqrt(2/d) = 0.12 of zero: a bound above that says nothing.",
    )


def _budget_table(lines: Sequence[RecordLine]) -> Table:
    return mean_table(
        f"Release of a mean of {_BUDGET_ROWS:,} rows at epsilon 1, delta {DELTA:g}, replace-one: error in a "
        "row's score, RMS",
        lines,
        lambda line: f"h_2, T = {line['iterations']:,}" if line["iterations"] else "Gaussian noise, paired features",
        {"error": ("along_rows", ".4f"), "of zeros": ("nothing", ".4f")},
    )


def _small_changes_table(lines: Sequence[RecordLine]) -> Table:
    return mean_table(
        f"h_2 of a summary that grows from {_SEED_ROWS} to {_SEED_ROWS + _GROWN} rows, one row a release: error in "
        "a row's score, RMS",
        lines,
        lambda line: f"{_width(line['scale'])}, epsilon {line['epsilon'] or 'none'}, T_sub = {line['iterations']}",
        {
            "first release": ("first", ".4f"),
            "last release": ("last", ".4f"),
            "first, never renewed": ("stale", ".4f"),
            "T = 1656 from nothing": ("anew", ".4f"),
        },
        "The first release has T = 1656 and epsilon 0.05; epsilon none: steps without noise.",
    )


def _five_points_table(lines: Sequence[RecordLine]) -> Table:
    names = {name.replace("_", " "): (name, ".2f") for name in lines[0].results}
    title = "All subsets of five rows, at the gamma from which Theorem 1's condition holds: share of markets where J is"
    return mean_table(title, lines, lambda _: "condition met", names)


def _characteristic_table(lines: Sequence[RecordLine]) -> Table:
    known = {
        "from 0, where k does not add up to 0": ("unbalanced", ".4f"),
        "from the corrected product": ("balanced", ".4f"),
        "from the printed one": ("printed", ".4f"),
        "absolute value at s = 1/2, printed as 0": ("half", ".4f"),
    }
    return mean_table(
        "Characteristic function of three rows' angles: largest deviation over 125 points",
        lines,
        lambda line: f"{line['dimension'] // 2:,}",
        {heading: entry for heading, entry in known.items() if entry[0] in lines[0].results},
        "The corrected product is that of kernel values; the printed one has exp(-2 gamma distance²) in their place.",
        first="frequencies",
    )


def _hashes_table(lines: Sequence[RecordLine]) -> Table:
    return mean_table(
        f"Accuracy of SVMs trained on {_TRAINED} rows of the target's digits",
        lines,
        lambda line: f"d = {line['dimension']:,}",
        {
            "linear SVM on hashes": ("hashes", ".3f"),
            "linear SVM on rows": ("rows", ".3f"),
            "SVM with the kernel": ("kernel", ".3f"),
        },
        f"{lines[0]['test_rows']:,} test rows a seed. C is 10 for hashes and kernel and 1 for rows; neither was tuned.",
    )


def _small_pool_table(lines: Sequence[RecordLine]) -> Table:
    rows = []
    for scale in dict.fromkeys(line["scale"] for line in lines):
        these = [line for line in lines if line["scale"] == scale]
        trials = sum(line["trials"] for line in these)
        worst = [line["worst_ratio"] for line in these if line["worst_ratio"] is not None]
        found, negative = (sum(line[name] for line in these) for name in ("greedy_best", "best_negative"))
        least = f"{min(worst):.3f}" if worst else "-"
        rows.append([_width(scale, "condition met"), f"{found} of {trials}", least, f"{negative} of {trials}"])
    return Table(
        "Greedy against the best of all subsets of 4 rows out of 16",
        [
            "kernel",
            "greedy found the best",
            "worst J(greedy)/J(best), where J(best) > 0",
            "even the best J is negative",
        ],
        rows,
        "The paper's guarantee would be 1 - 1/e = 0.632.",
    )


_TABLES = {
    "condition": _condition_table,
    "features": _features_table,
    "mean release": _mean_release_table,
    "budget": _budget_table,
    "small changes": _small_changes_table,
    "small optimum": _small_pool_table,
    "five points": _five_points_table,
    "characteristic function": _characteristic_table,
    "hashes": _hashes_table,
}

STUDY = Theory()
