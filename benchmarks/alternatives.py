"""Compares likeset with other ways to get training data: models trained on each, tested on unseen rows of the target.

    PYTHONPATH=. python benchmarks/alternatives.py --heart heart_disease_4hospitals.csv [--seeds 5] [--out FOLDER]
    PYTHONPATH=. python benchmarks/alternatives.py --page      the page of what was measured

Markets, models, selections and likeset's noise are drawn from the seeds; that noise is simulated, so these runs are not
private. dpmm runs in an environment of its own and draws secret noise: its results vary from call to call. The number
of levels in its copies was chosen on seed 7.
Each line of ``alternatives.jsonl`` is one method on one market; ``alternatives.md`` has the means.
"""

import argparse
import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import cross_val_predict

from likeset import LikesetWarning, Summarizer, squared_mmd
from likeset.geometry import greedy
from likeset.geometry.kernels import median_gamma
from likeset.geometry.offers import uniform
from likeset.simulation import LabelledMarket, digits_market
from peers.environments import Tool, interpreter
from studies.data.columns import COLUMNS, HOSPITALS, Choice, heart_market

_HERE = Path(__file__).parent
_SIZE = 50  # rows bought
_EPSILON, _DELTA = 1.0, 1e-5
_LEVELS, _DIGIT_LEVELS = 4, 2  # of a number and of a pixel in a synthetic copy
_SCORES = ("accuracy", "balanced", "auc")

Codes = NDArray[np.int64]
Rows = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Training:
    """What models are trained on, and rows that somebody outside the owner read to make it."""

    rows: Rows
    labels: Codes
    read: int
    weights: NDArray[np.float64] | None = None
    note: str = ""


def pooled(market: LabelledMarket, _seed: int) -> Training:
    """All rows of all owners."""
    return Training(market.pool, market.pool_labels, len(market.pool))


def density_ratio(market: LabelledMarket, _seed: int) -> Training:
    """Weights p / (1 - p), where a logistic regression on other folds gives p, the chance to be a target row."""
    rows = np.concatenate([market.pool, market.target])
    is_target = np.arange(len(rows)) >= len(market.pool)
    model = LogisticRegression(max_iter=1000)
    chance = cross_val_predict(model, rows, is_target, cv=5, method="predict_proba")[: len(market.pool), 1]
    ratio = chance / (1.0 - chance)
    return Training(market.pool, market.pool_labels, len(market.pool), weights=ratio / ratio.mean())


def nearest_owner(market: LabelledMarket, _seed: int) -> Training:
    """All rows of the owner with the smallest MMD to the target."""
    gamma = _gamma(market)
    name = min(market.owners, key=lambda owner: squared_mmd(market.owners[owner], market.target, gamma=gamma))
    return Training(market.owners[name], market.labels[name], len(market.pool))


def uniform_rows(market: LabelledMarket, seed: int) -> Training:
    """The same number of random rows from each owner."""
    chosen = uniform([len(rows) for rows in market.owners.values()], _SIZE, coins=np.random.default_rng([seed, 3]))
    rows = [rows[mine] for rows, mine in zip(market.owners.values(), chosen, strict=True)]
    labels = [labels[mine] for labels, mine in zip(market.labels.values(), chosen, strict=True)]
    return Training(np.concatenate(rows), np.concatenate(labels), _SIZE)


def exact_greedy(market: LabelledMarket, _seed: int) -> Training:
    """Greedy selection on the exact kernel, from all rows."""
    picked = greedy.exact_greedy(market.pool, market.target, _SIZE, gamma=_gamma(market)).indices
    return Training(market.pool[picked], market.pool_labels[picked], len(market.pool))


def likeset(market: LabelledMarket, seed: int) -> Training:
    """The protocol ``sealed`` with default settings and simulated noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LikesetWarning)
        fitted = Summarizer(_SIZE, epsilon=_EPSILON, delta=_DELTA, noise="simulated", random_state=seed).fit(
            market.target, dict(market.owners), dict(market.labels)
        )
    rows = np.stack([market.owners[owner][row] for owner, row in fitted.indices_])
    labels = np.array([market.labels[owner][row] for owner, row in fitted.indices_])
    return Training(rows, labels, fitted.rows_seen_, note=f"{fitted.terms_.offers} offers")


METHODS: dict[str, Callable[[LabelledMarket, int], Training]] = {
    "everything pooled": pooled,
    "pooled, density-ratio weights": density_ratio,
    "nearest owner": nearest_owner,
    "uniform sampling": uniform_rows,
    "exact greedy": exact_greedy,
    "likeset": likeset,
}


def _gamma(market: LabelledMarket) -> float:
    return median_gamma(market.target, scale=1.0, coins=np.random.default_rng(0))


def digit_codes(rows: Rows) -> Codes:
    """Means of 2 x 2 pixels, in two levels: dpmm is meant for at most 32 columns."""
    blocks = rows.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    return np.minimum(blocks * _DIGIT_LEVELS, _DIGIT_LEVELS - 1).astype(np.int64)


def heart_codes(rows: Rows) -> Codes:
    """The category of each column, or the level of its number; one more for a missing value."""
    parts = np.split(rows, np.cumsum([column.width for column in COLUMNS])[:-1], axis=1)
    codes = []
    for column, part in zip(COLUMNS, parts, strict=True):
        if isinstance(column, Choice):
            codes.append(np.where(part.any(axis=1), part.argmax(axis=1), column.width))
        else:
            codes.append(np.where(part[:, 1] > 0, _LEVELS, np.minimum(part[:, 0] * _LEVELS, _LEVELS - 1)))
    return np.stack(codes, axis=1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Setting:
    """One market, and how its rows become categories of known numbers for a synthetic copy."""

    data: str
    variant: str
    seed: int
    market: LabelledMarket
    codes: Callable[[Rows], Codes]
    sizes: Sequence[int]

    def tables(self) -> Iterator[tuple[str, Rows, Codes]]:
        """What is copied, by name: the rows and labels of each owner and, for comparison, all of them as one table."""
        for owner, rows in self.market.owners.items():
            # A hospital's table is the same for whichever other one is the target.
            yield f"{self.data}-{owner}-{self.seed}", rows, self.market.labels[owner]
        yield f"{self.data}-all for {self.variant}-{self.seed}", self.market.pool, self.market.pool_labels

    def indicators(self, codes: Codes) -> Rows:
        """Ones and zeros for categories; a copy, the target and the test are compared as these."""
        parts = [codes[:, [column]] == np.arange(size) for column, size in enumerate(self.sizes)]
        return np.concatenate(parts, axis=1).astype(np.float32)


def settings(heart: str, seeds: int) -> Iterator[Setting]:
    """All markets."""
    sizes = [column.width + 1 if isinstance(column, Choice) else _LEVELS + 1 for column in COLUMNS]
    for seed in range(seeds):
        market = digits_market(coins=np.random.default_rng([seed, 0]))
        yield Setting("digits", "3 and 4", seed, market, digit_codes, [_DIGIT_LEVELS] * 16)
        for hospital in HOSPITALS:
            market = heart_market(heart, hospital, seed, None)
            yield Setting("heart", hospital, seed, market, heart_codes, sizes)


def copies(all_settings: Sequence[Setting]) -> dict[str, Codes]:
    """A synthetic copy of each table, by dpmm."""
    tables: dict[str, Codes] = {}
    for setting in all_settings:
        for name, rows, labels in setting.tables():
            classes, numbers = np.unique(labels, return_inverse=True)  # which classes an owner has counts as public
            tables |= {name: np.column_stack([setting.codes(rows), numbers])}
            tables |= {f"{name}.sizes": np.array([*setting.sizes, len(classes)])}
    with tempfile.TemporaryDirectory() as folder:
        source, destination = Path(folder) / "tables.npz", Path(folder) / "copies.npz"
        np.savez(source, **tables)  # type: ignore[arg-type]
        tool = Tool("dpmm")
        python = interpreter(tool, _HERE / ".peers")
        subprocess.run([python, tool.runner, source, destination, str(_EPSILON), str(_DELTA)], check=True)
        return dict(np.load(destination))


def copied(setting: Setting, copied_tables: dict[str, Codes]) -> Iterator[tuple[str, Training, LabelledMarket]]:
    """Training on the copies; the market has target and test in the same categories."""
    own = setting.market
    target, test = (setting.indicators(setting.codes(rows)) for rows in (own.target, own.test))
    market = LabelledMarket({}, {}, target, test, own.test_labels)
    found = [(copied_tables[name], np.unique(labels)) for name, _, labels in setting.tables()]
    parts = [(setting.indicators(codes[:, :-1]), classes[codes[:, -1]]) for codes, classes in found]
    rows, labels = (np.concatenate(column) for column in zip(*parts[:-1], strict=True))
    yield "DP copy by each owner", Training(rows, labels, 0), market
    picked = greedy.exact_greedy(rows, target, _SIZE, gamma=_gamma(market)).indices
    yield "DP copy by each owner, greedy", Training(rows[picked], labels[picked], 0), market
    yield "DP copy of the pool", Training(*parts[-1], len(own.pool)), market


def scores(training: Training, market: LabelledMarket, seed: int) -> dict[str, float]:
    """Accuracy, balanced accuracy and AUC of a forest and a logistic regression on the test rows."""
    models = {
        "forest": RandomForestClassifier(200, random_state=seed),
        "linear": LogisticRegression(max_iter=2000),
    }
    test, kinds = market.test_labels, np.unique(market.test_labels)
    results = {}
    for name, model in models.items():
        predicted, chance = np.full(len(test), training.labels[0]), np.zeros(len(test))
        if len(np.unique(training.labels)) > 1:
            model.fit(training.rows, training.labels, sample_weight=training.weights)
            predicted = model.predict(market.test)
            chance = model.predict_proba(market.test)[:, model.classes_ == kinds[1]].sum(axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a model of ten classes may predict absent ones
            results[f"{name}_accuracy"] = float(accuracy_score(test, predicted))
            results[f"{name}_balanced"] = float(balanced_accuracy_score(test, predicted))
        results[f"{name}_auc"] = float(roc_auc_score(test == kinds[1], chance))
    return results


def table(lines: Sequence[dict[str, Any]]) -> str:
    """The page of results."""
    columns = [f"{model}_{score}" for model in ("forest", "linear") for score in _SCORES]
    seeds = sorted({line["seed"] for line in lines})
    parts = [
        f"`benchmarks/alternatives.py`. Seeds {seeds[0]} to {seeds[-1]}; "
        f"{_SIZE} rows bought; epsilon {_EPSILON:g}, delta {_DELTA:g}. Means over seeds, for heart also over the four "
        "hospitals; in brackets the standard deviation between seeds. Read: rows that somebody outside the owner "
        "reads. likeset's noise is simulated: these runs are not private."
    ]
    for data in ("digits", "heart"):
        parts += ["", f"## {data}", "", "| method | " + " | ".join(columns) + " | read | note |"]
        parts += ["|---" + "|--:" * (len(columns) + 1) + "|---|"]
        for method in dict.fromkeys(line["method"] for line in lines):
            mine = [line for line in lines if (line["data"], line["method"]) == (data, method)]
            cells = []
            for column in columns:
                means = [fmean(line[column] for line in mine if line["seed"] == seed) for seed in seeds]
                cells.append(f"{fmean(means):.3f} ({stdev(means) if len(means) > 1 else 0.0:.3f})")
            read, notes = fmean(line["read"] for line in mine), sorted({line["note"] for line in mine})
            parts.append(f"| {method} | " + " | ".join(cells) + f" | {read:.0f} | {', '.join(notes)} |")
    return "\n".join(parts) + "\n"


def main() -> None:
    """Run every method on every market."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heart", help="heart_disease_4hospitals.csv")
    parser.add_argument("--page", action="store_true", help="measure nothing: the page of alternatives.jsonl")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=_HERE / "results")
    options = parser.parse_args()
    record = options.out / "alternatives.jsonl"
    if not options.page:
        options.out.mkdir(parents=True, exist_ok=True)
        record.write_text("".join(json.dumps(line) + "\n" for line in measured(options.heart, options.seeds)))
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    (options.out / "alternatives.md").write_text("# Other ways to get training data\n\n" + table(lines))


def measured(heart: str, seeds: int) -> list[dict[str, Any]]:
    """Every method on every market."""
    markets = list(settings(heart, seeds))
    lines = []
    copied_tables = copies(markets)
    for setting in markets:
        trainings = [(name, method(setting.market, setting.seed), setting.market) for name, method in METHODS.items()]
        for name, training, market in [*trainings, *copied(setting, copied_tables)]:
            line = {"data": setting.data, "variant": setting.variant, "seed": setting.seed, "method": name}
            line |= {"read": training.read, "note": training.note, **scores(training, market, setting.seed)}
            lines.append(line)
        print(setting.data, setting.variant, setting.seed, flush=True)
    return lines


if __name__ == "__main__":
    main()
