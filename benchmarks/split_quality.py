"""How good a summary is that was selected on secret shares, beside that of a trusted curator from the same offers.

    PYTHONPATH=. python benchmarks/split_quality.py --data ../shared/data --seeds 10 --size 50

For each data set and seed both select from offers that the same coins drew, by the same kernel; workers compute on this
machine. Told are MMD² of split over MMD² of trusted, and the accuracy of a logistic regression that is trained on the
summary and tested on rows like the target's that nobody has. ``--data`` names a folder with ``mnist.npz``,
``heart_disease_4hospitals.csv`` and ``adult.csv.gz``; without it digits alone are measured. One line of JSON for each
pair of summaries.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from likeset import Schema, Summarizer
from likeset.geometry.kernels import squared_mmd
from likeset.simulation import LabelledMarket
from likeset.split.host import PYTHON_VARIABLE
from studies.data.sources import cached_market

MARKETS = {
    "digits": (None, "groups"),
    "mnist": ("mnist.npz", "groups"),
    "heart": ("heart_disease_4hospitals.csv", "va"),
    "adult": ("adult.csv.gz", "workclass"),
}
"""Of each data set its file and the variant of its market."""


def median_gamma(rows: NDArray[np.float32]) -> float:
    """Three over the median of squared distances between the target's rows."""
    some = np.asarray(rows[:400], dtype=np.float64)
    norms = (some**2).sum(axis=1)
    distances = norms[:, None] + norms[None, :] - 2.0 * some @ some.T
    return 3.0 / float(np.median(distances[np.triu_indices(len(some), 1)]))


def declared(market: LabelledMarket) -> Schema:
    """A schema of the market's rows, whose weight leaves distances as they are."""
    width, high = market.target.shape[1], max(float(np.abs(rows).max()) for rows in market.owners.values())
    bounds = f"bounds: [{-high}, {high}], outside: clip, weight: {2 * high * width**0.5}"
    column = f"{{kind: vector, width: {width}, {bounds}}}"
    return Schema.from_text(f"likeset: schema\nversion: 1\ncolumns:\n  row: {column}\n")


def table(rows: NDArray[np.float32]) -> pa.Table:
    return pa.table({"row": list(rows)})


def summary(market: LabelledMarket, curator: str, *, size: int, seed: int, rows: int) -> dict[str, float]:
    """One summary: its squared MMD to the target, a model's accuracy, and the time it took."""
    gamma, target = median_gamma(market.target), market.target[:rows]
    settings: dict[str, Any] = {
        "labels": "ignore",
        "folds": 0,
        "epsilon": 4.0,
        "noise": "simulated",
        "release_gamma": gamma / 3.0,
    }
    settings |= {"schema": declared(market), "release_gamma": gamma / 3.0}
    begun = time.perf_counter()
    fitted = Summarizer(size, gamma=gamma, random_state=seed, curator=curator, **settings).fit(
        table(target), {name: table(rows) for name, rows in market.owners.items()}
    )
    picked = np.stack([market.owners[owner][row] for owner, row in fitted.indices_])
    labels = np.array([market.labels[owner][row] for owner, row in fitted.indices_])
    model = LogisticRegression(max_iter=2000).fit(picked, labels)
    return {
        "mmd2": squared_mmd(picked, target, gamma=gamma),
        "accuracy": float(model.score(market.test, market.test_labels)),
        "offers": float(fitted.rows_seen_),
        "seconds": time.perf_counter() - begun,
    }


def compared(data: str, place: str | None, *, seed: int, arguments: argparse.Namespace) -> dict[str, object]:
    """Both curators on one market."""
    market = cached_market(data, place, MARKETS[data][1], seed, arguments.rows_per_owner)
    found = {
        curator: summary(market, curator, size=arguments.size, seed=seed, rows=arguments.target)
        for curator in ("trusted", "split")
    }
    split, trusted = found["split"], found["trusted"]
    return {
        "data": data,
        "seed": seed,
        "size": arguments.size,
        "columns": market.target.shape[1],
        "offers": int(split["offers"]),
        "mmd2_trusted": float(f"{trusted['mmd2']:.4g}"),
        "ratio": round(split["mmd2"] / trusted["mmd2"], 4),
        "accuracy_trusted": round(trusted["accuracy"], 4),
        "accuracy_split": round(split["accuracy"], 4),
        "seconds": round(split["seconds"], 1),
    }


def main() -> None:
    """Compare on every data set that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="+", choices=tuple(MARKETS), default=tuple(MARKETS))
    parser.add_argument("--environment", type=Path, default=Path(".venv-split"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--size", type=int, default=50)
    parser.add_argument("--target", type=int, default=200)
    parser.add_argument("--rows-per-owner", type=int, default=400)
    arguments = parser.parse_args()
    os.environ[PYTHON_VARIABLE] = str(arguments.environment.absolute() / "bin" / "python")
    for data in arguments.only:
        name = MARKETS[data][0]
        if name is not None and arguments.data is None:
            continue
        for seed in range(arguments.seeds):
            place = None if name is None else str(arguments.data / name)
            print(json.dumps(compared(data, place, seed=seed, arguments=arguments)), flush=True)


if __name__ == "__main__":
    main()
