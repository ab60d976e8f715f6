"""``joint-tables``: matching labels on people and patients, where classes are hard to tell: does it do harm?"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.simulation import LabelledMarket, Task, run_protocol
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.data.columns import HOSPITALS, LEFT_OUT
from studies.data.sources import SOURCES, cached_market
from studies.label_judging import MEASURES, comparison_table, distance_table, judge_training, shares_table
from studies.methods import METHODS

RELATIONS = {"independent": 0.0, "nearly independent": 0.25, "shifted": 0.6}
"""By how much a standard deviation along one direction changes the log-odds of class 1."""

_OWNERS, _ROWS, _COLUMNS, _TARGET, _TEST = 4, 1500, 12, 200, 1000
_SHARE_OF_OWNERS, _SHARE_OF_TARGET = 0.41, 0.29


def weak_label_market(relation: str, seed: int) -> LabelledMarket:
    """Four owners and a target whose rows lie elsewhere; where ``shifted``, they lie where class 1 is rarer."""
    coins = np.random.default_rng([seed, 77])
    direction, elsewhere = (vector / np.linalg.norm(vector) for vector in coins.normal(size=(2, _COLUMNS)))
    shape = 0.6 * coins.normal(size=(_COLUMNS, _COLUMNS)) / np.sqrt(_COLUMNS) + 0.8 * np.eye(_COLUMNS)
    moved = 0.6 * elsewhere - direction if relation == "shifted" else 1.2 * elsewhere

    def draw(count: int, centre: NDArray[np.float64], share: float) -> tuple[Rows, NDArray[np.int64]]:
        rows = (coins.normal(size=(count, _COLUMNS)) + centre) @ shape.T
        odds = RELATIONS[relation] * (rows @ direction)
        offsets = np.linspace(-5.0, 5.0, 401)
        shares = np.array([(1.0 / (1.0 + np.exp(-odds - offset))).mean() for offset in offsets])
        offset = offsets[int(np.argmin(np.abs(shares - share)))]
        chances = 1.0 / (1.0 + np.exp(-odds - offset))
        return rows.astype(np.float32), (coins.random(count) < chances).astype(np.int64)

    shares = _SHARE_OF_OWNERS + 0.06 * np.linspace(-1.0, 1.0, _OWNERS)
    owned = [draw(_ROWS, 0.5 * coins.normal(size=_COLUMNS), share) for share in shares]
    rows, labels = draw(_TARGET + _TEST, moved, _SHARE_OF_TARGET)
    return LabelledMarket(
        owners={f"owner {number}": part for number, (part, _) in enumerate(owned)},
        labels={f"owner {number}": part for number, (_, part) in enumerate(owned)},
        target=rows[:_TARGET],
        test=rows[_TARGET:],
        test_labels=labels[_TARGET:],
    )


_FIRST_SEED = 3100
_SEEDS = 10
_SEEDS_OF_ALL_ROWS = 2  # whoever sees all rows does not depend on the rule
_EPSILON = 1.0
_OFFER_FACTOR = 10.0
_FILES = {"heart": "heart_disease_4hospitals.csv", "adult": "adult.csv.gz"}
_VARIANTS = {"heart": HOSPITALS, "adult": tuple(LEFT_OUT), "generated": tuple(RELATIONS)}
_SIZES = {"heart": 50, "adult": 200, "generated": 150}
_OFFERS = {"heart": 60}
_ROWS_PER_OWNER = {"adult": 2500}
_LABELS = ("match", "ignore")


class JointTables:
    """The study."""

    name = "joint-tables"
    description = "UCI Heart Disease, Adult and generated labels that rows hardly tell: labels matched and ignored"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Labels in all ways in one cell, seed by seed; then all rows, for some seeds."""
        if options.data is None or not Path(options.data).is_dir():
            files = " and ".join(_FILES.values())
            raise InvalidArgument("--data", options.data or "not given", f"must name a folder with {files}")
        return [
            Cell(self.name, {**setting, "revision": 4}, source=_source(options.data, setting["data"]))
            for setting in _settings(options.data, options.seeds or _SEEDS)
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One market: labels matched and ignored, and exact greedy; or all rows, weighted or not."""
        data, seed = cell["data"], int(cell["seed"])
        if data == "generated":
            market = weak_label_market(cell["variant"], seed)
        else:
            market = cached_market(data, cell.source, cell["variant"], seed, _ROWS_PER_OWNER.get(data))
        gamma = median_gamma(market.target, scale=1.0, coins=np.random.default_rng(0))
        offers = _OFFERS.get(data, math.ceil(_OFFER_FACTOR * cell["size"] / len(market.owners)))
        task = Task(market, cell["size"], gamma, offers, _EPSILON, seed)
        return _labels_used(task) if cell["part"] == "labels" else _all_rows(task)

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table for each measure."""
        done = [line for line in lines if line.done and line["part"] == "labels"]
        by_all = [line for line in lines if line.done and line["part"] == "all rows"]
        words = (
            f"`sealed` at epsilon = {_EPSILON:g}; markets as in the studies `heart` (each hospital in turn, 60 offers "
            "of each of the other three, 50 rows) and `adult` (federal employees, people from Mexico; ten offers a "
            "row, 200 rows); and generated markets, in which class 1 has 29% of the target and 41% at owners (ten "
            "offers a row, 150 rows). Means of a linear SVM, logistic regression and a forest on held-out rows. "
            "*Best other way*: whoever sees all rows, either *everything* or *mean matching*: kernel mean matching of "
            "1,500 of these, drawn at random; two seeds. Exact greedy sees all rows.",
        )
        tables = [
            comparison_table(name[0].upper() + name[1:], done, measure, ("everything", "mean matching"), by_all)
            for measure, name in MEASURES.items()
        ]
        tables.append(shares_table(done))
        tables.append(distance_table(done, (("match", "ignore"), ("match", "exact"), ("ignore", "exact"))))
        return Presentation("Labels matched, on people and patients", words, tables)


def _settings(folder: str, seeds: int) -> Iterator[dict[str, Any]]:
    for part, count in (("labels", seeds), ("all rows", min(seeds, _SEEDS_OF_ALL_ROWS))):
        for number in range(count):
            for data, variants in _VARIANTS.items():
                for variant in variants:
                    yield {
                        "data": data,
                        "digest": SOURCES[data].digest(_source(folder, data)) if data in _FILES else "",
                        "variant": variant,
                        "family": f"{data}, {variant.replace('_', ' ')}",
                        "size": _SIZES[data],
                        "seed": _FIRST_SEED + number,
                        "part": part,
                    }


def _source(folder: str, data: str) -> str | None:
    return str(Path(folder) / _FILES[data]) if data in _FILES else None


def _labels_used(task: Task) -> dict[str, Any]:
    market = task.market
    picks = {labels: run_protocol(task, epsilon=_EPSILON, offers="tilted", labels=labels).indices for labels in _LABELS}
    picks["exact"] = METHODS["exact"].run(task).indices
    return {
        how: {"squared_mmd": squared_mmd(market.pool[rows], market.test, gamma=task.gamma)} | _judged(task, rows)
        for how, rows in picks.items()
    }


def _all_rows(task: Task) -> dict[str, Any]:
    weighed = METHODS["pooled"].run(task)
    return {
        "mean matching": _judged(task, weighed.indices, weighed.weights),
        "everything": _judged(task, np.arange(len(task.market.pool))),
    }


def _judged(task: Task, rows: NDArray[np.int64], weights: NDArray[np.float64] | None = None) -> dict[str, float]:
    market = task.market
    return judge_training(
        market.pool[rows],
        market.pool_labels[rows],
        test=market.test,
        test_labels=market.test_labels,
        rare=int(np.argmin(np.bincount(market.test_labels, minlength=2))),
        weights=weights,
    )


STUDY = JointTables()
