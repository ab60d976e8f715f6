"""``width``: the private choice of the release's kernel. How often is it far off, and what does that cost?

*Near pairs* is the score of ``likeset.privacy.width_choice``: the pairs of rows within a factor of 4 of a candidate.
*Even split* is the score of earlier versions: how evenly a candidate splits the pairs, with 27 candidates; with
it go the 15% of the budget and the wider kernel (gamma a third) of these versions.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.privacy import width_choice
from likeset.protocol.terms import Budget
from likeset.simulation import LabelledMarket, Task, draft_of, run_protocol, svm_scores
from studies.contract import Cell, Options, Presentation, RecordLine, Table
from studies.data.sources import SOURCES, cached_market

_TABLES = ("breast_cancer", "wine", "diabetes", "digits", "iris")
_TABLE_SIZES = (50, 70, 100, 150, 200)
_EPSILONS = (0.5, 1.0, 2.0, 4.0)
_PAIRINGS = 400
_FAR = 8.0
_EVEN_SHARE = 0.15
_SCORES = ("even split", "near pairs")
_MARKETS = (("groups", 400, None), ("rare", 400, None), ("skewed", 20, None), ("rare", 400, 100), ("groups", 400, 100))
"""Market, rows offered by each owner, and rows of the target; None for all."""
_SIZE = 200
_SEEDS = 10
_FIRST_SEED = 800

Squared = NDArray[np.float64]


def chances(distances: Squared, columns: int, plan: width_choice.WidthPlan, score: str) -> tuple[Squared, Squared]:
    """The candidates, and the probability of each, of a choice at the price of ``plan``."""
    if score == "near pairs":
        candidates = np.array(width_choice.grid(columns))
        scores, rate = width_choice.near_pairs(distances, candidates), plan.rate
    else:
        candidates = columns * 2.0 ** (np.arange(-20, 7) / 2.0)
        below = np.searchsorted(np.sort(distances), candidates, side="right")
        scores, rate = -np.abs(2 * below - len(distances)), plan.rate / 2.0  # a row moves this score by 2
    odds = np.exp(rate * (scores - scores.max()))
    return candidates, odds / odds.sum()


def _is_far(candidates: Squared, median: float) -> NDArray[np.bool_]:
    return np.abs(np.log(candidates / median)) > math.log(_FAR)


def _squared_distances(rows: NDArray[Any], order: NDArray[np.int64]) -> Squared:
    pairs = len(order) // 2
    apart = rows[order[:pairs]].astype(np.float64) - rows[order[pairs : 2 * pairs]]
    return np.asarray((apart**2).sum(axis=1))


def _task(market: LabelledMarket, offers: int, epsilon: float, seed: int) -> Task:
    gamma = median_gamma(market.target, scale=1.0, coins=np.random.default_rng(0))
    return Task(market, _SIZE, gamma, offers, epsilon, seed)


def _split(task: Task, score: str) -> tuple[width_choice.WidthPlan, Budget]:
    draft = draft_of(task, epsilon=task.epsilon)
    return draft.split_for_width() if score == "near pairs" else draft.width_for(_EVEN_SHARE)


class Width:
    """The study."""

    name = "width"
    description = "the private choice of the release's width: how often it is far off, and MNIST with and without"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Tables that come with scikit-learn; with ``--data``, markets of MNIST as well."""
        found = [
            Cell(self.name, {"part": "tables", "table": table, "size": size, "epsilon": epsilon, "revision": 1})
            for epsilon in options.epsilons or _EPSILONS
            for size in options.sizes or _TABLE_SIZES
            for table in _TABLES
        ]
        if options.data is None:
            return found
        digest = SOURCES["mnist"].digest(options.data)
        return found + [
            Cell(
                self.name,
                {
                    "part": "markets",
                    "digest": digest,
                    "market": market,
                    "offers": offers,
                    "target_rows": target_rows,
                    "score": score,
                    "seed": _FIRST_SEED + number,
                    "revision": 2,
                },
                source=options.data,
            )
            for number in range(options.seeds or _SEEDS)
            for market, offers, target_rows in _MARKETS
            for score in _SCORES
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """Failures of one table, averaged over pairings; or one run on a market with its width drawn."""
        return _failures(cell) if cell["part"] == "tables" else _market(cell)

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """Failures by table, size and epsilon; then what markets came to."""
        done = [line for line in lines if line.done]
        words = (
            f"Failure: the chosen squared distance is more than {_FAR:g} times off the median. Probabilities are "
            f"exact for a pairing, and averaged over {_PAIRINGS}; columns have variance 1 (digits: divided by 16).",
            "Markets: MNIST, 200 rows bought, labels matched, delta = 1e-5; MMD² to held-out rows, linear SVM.",
        )
        rows = [
            [line["table"], f"{line['size']:,}", f"{line['epsilon']:g}"]
            + [f"{line[name]:.3f}" for name in ("even split", "near pairs", "bound")]
            for line in done
            if line["part"] == "tables"
        ]
        tables = [Table("Failures", ("table", "target rows", "epsilon", "even split", "near pairs", "bound"), rows)]
        groups: dict[tuple[Any, ...], list[RecordLine]] = {}
        for line in done:
            if line["part"] == "markets":
                groups.setdefault((line["market"], line["target_rows"], line["score"]), []).append(line)
        compared = [
            [market, "all" if rows_ is None else str(rows_), score, str(len(members))]
            + [f"{np.mean([one[name] for one in members]):.4f}" for name in ("squared_mmd", "accuracy", "off")]
            + [f"{max(one['squared_mmd'] for one in members):.4f}"]
            for (market, rows_, score), members in groups.items()
        ]
        heads = ("market", "target rows", "score", "seeds", "MMD²", "accuracy", "failures", "largest MMD²")
        tables.append(Table("Markets of MNIST", heads, compared))
        return Presentation("The private choice of the release's width", words, tables)


def _failures(cell: Cell) -> dict[str, Any]:
    table, size = cell["table"], cell["size"]
    data = getattr(datasets, f"load_{table}")().data
    rows = data / 16.0 if table == "digits" else StandardScaler().fit_transform(data)
    coins = np.random.default_rng([_FIRST_SEED, size])
    median = float(np.median(_squared_distances(np.tile(rows, (20, 1)), coins.permutation(20 * len(rows)))))
    target, no_labels = np.zeros((size, rows.shape[1])), np.zeros(1, dtype=np.int64)  # only its size counts
    market = LabelledMarket({"one": rows[:1]}, {"one": no_labels}, target, rows[:1], no_labels)
    task = Task(market, 1, 1.0, 1, cell["epsilon"], 0)
    found: dict[str, Any] = {}
    for score in _SCORES:
        plan, _ = _split(task, score)
        total = 0.0
        for _ in range(_PAIRINGS):
            distances = _squared_distances(rows, coins.integers(len(rows), size=size))
            candidates, probabilities = chances(distances, rows.shape[1], plan, score)
            total += float(probabilities[_is_far(candidates, median)].sum())
        found[score] = round(total / _PAIRINGS, 4)
        found["bound"] = round(plan.failure_bound, 4)
    return found


def _market(cell: Cell) -> dict[str, Any]:
    seed, score, target_rows = cell["seed"], cell["score"], cell["target_rows"]
    market = cached_market("mnist", cell.source, cell["market"], seed, None)
    if target_rows is not None:
        kept = np.random.default_rng([seed, 1]).permutation(len(market.target))[:target_rows]
        market = replace(market, target=market.target[kept])
    task = _task(market, cell["offers"], 1.0, seed)
    plan, left = _split(task, score)
    coins = np.random.default_rng([seed, 2])
    distances = _squared_distances(market.target, coins.permutation(len(market.target)))
    candidates, probabilities = chances(distances, market.target.shape[1], plan, score)
    chosen = float(coins.choice(candidates, p=probabilities))
    scale = 1.0 if score == "near pairs" else 1.0 / 3.0  # of the release's gamma, now and in earlier versions
    picks = run_protocol(task, epsilon=left.epsilon, release_gamma=scale / chosen, offers="tilted")
    bought = market.pool[picks.indices]
    return {
        "off": int(_is_far(np.array([chosen]), 1.0 / task.gamma)[0]),
        "times": round(chosen * task.gamma, 4),
        "squared_mmd": float(f"{squared_mmd(bought, market.test, gamma=task.gamma):.4g}"),
        "accuracy": round(svm_scores(bought, market.pool_labels[picks.indices], market)["accuracy"], 4),
    }


STUDY = Width()
