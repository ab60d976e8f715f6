"""The demo's story: a market of handwritten digits as files, the real job on them, and what else could be had.

The job itself is private and real: files, secret noise, a ledger. What it is compared with sees more than it may: the
baselines are a simulation on public data.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from likeset import documents
from likeset.arguments import Rows
from likeset.geometry.kernels import kernel_means, rbf_kernel, squared_mmd
from likeset.run.here import FinishedJob, Render, run_job
from likeset.run.job import Job
from likeset.run.result import ComparedRows, Comparison, Result
from likeset.simulation import (
    DIGIT_GROUPS,
    LabelledMarket,
    Task,
    digits_market,
    greedy,
    published_protocol,
    svm_scores,
    uniform_sampling,
)
from likeset.transports.local import Progress

SEED, SIZE, EPSILON = 2019, 100, 4.0
_SHOWN = 20
_SCHEMA = """\
# Images of 8 x 8 points, each from 0 (white) to 16 (black). The digit is what a model is to predict.
likeset: schema
version: 1
columns:
  image: {kind: image, shape: [8, 8], bounds: [0, 16]}
label: {column: digit, kind: category}
"""
_BASELINES = (
    (uniform_sampling, "uniform sampling", "as many random rows from each owner; nobody looks at anything"),
    (
        published_protocol,
        "the paper's protocol",
        "Algorithm 3 as published, with its own settings; its privacy is not proven",
    ),
    (
        greedy,
        "exact greedy, not private",
        "one party sees every row of every owner; greedy as in the paper, without our swaps",
    ),
)


def write_market(folder: Path, market: LabelledMarket) -> dict[str, Any]:
    """The market as files that ``likeset match`` takes; returns its arguments."""
    folder.mkdir(parents=True)
    documents.write_text(folder / "schema.yaml", _SCHEMA)
    _write(folder / "target.parquet", market.target)
    _write(folder / "test.parquet", market.test, market.test_labels)
    owners = {}
    for group, name in zip(DIGIT_GROUPS, market.owners, strict=True):
        short = "digits-" + "-".join(str(digit) for digit in group)
        owners[short] = str(folder / f"{short}.parquet")
        _write(folder / f"{short}.parquet", market.owners[name], market.labels[name])
    return {"schema": str(folder / "schema.yaml"), "target": str(folder / "target.parquet"), "owners": owners}


def run_demo(
    out: Path, *, render: Render, progress: Progress | None = None, tell: Callable[[str], None] | None = None
) -> FinishedJob:
    """Write the market into ``out/data``, run the job into ``out/matched``, and put the baselines beside its result."""
    market = digits_market(coins=np.random.default_rng(SEED))
    job = Job.of(
        **write_market(out / "data", market),
        size=SIZE,
        epsilon=EPSILON,
        purpose="to recognise handwritten 3s and 4s",
        out=str(out / "matched"),
    )
    judge = partial(with_baselines, market=market, tell=tell)
    return run_job(job, render=render, progress=progress, judge=judge)


def with_baselines(result: Result, market: LabelledMarket, *, tell: Callable[[str], None] | None = None) -> Result:
    """A result beside what others could have had, all measured against the market's test rows; with pictures of rows.

    The baselines see all of the market.
    """
    say = tell or (lambda _: None)
    summary = result.summary
    unit = float(result.target.max() / market.target.max())  # of the schema, in units of the market's rows
    rows, gamma = summary.rows / unit, result.gamma * unit**2
    task = Task(market=market, size=SIZE, gamma=gamma, offers=result.terms.rows_per_owner, seed=SEED, epsilon=EPSILON)

    def measured(picked: Rows) -> float:
        return squared_mmd(picked, market.test, gamma=gamma)

    count = len(market.target)
    scores = svm_scores(rows, summary.labels.astype(np.int64), market)
    lines = [
        ComparedRows("summary", "this summary", measured(rows), scores=scores),
        ComparedRows("target", f"your {count} rows themselves", measured(market.target), "they have no labels"),
    ]
    for select, name, meaning in _BASELINES:
        say(name)
        indices = select(task).indices
        picked = market.pool[indices]
        scores = svm_scores(picked, market.pool_labels[indices], market)
        lines.append(ComparedRows("study", name, measured(picked), meaning, scores))
    return replace(
        result,
        compared=Comparison("held-out", len(market.test), tuple(lines), _curve(rows, market.test, gamma)),
        images={
            "side": 8,
            "target": market.target[:_SHOWN].tolist(),
            "summary": rows[:: len(rows) // _SHOWN][:_SHOWN].tolist(),
        },
    )


def _curve(rows: Rows, reference: Rows, gamma: float) -> tuple[float, ...]:
    wide, others, first = rows.astype(np.float64), reference.astype(np.float64), np.arange(1, len(rows) + 1)
    within = np.cumsum(2.0 * np.tril(rbf_kernel(wide, wide, gamma=gamma), k=-1).sum(axis=1) + 1.0) / first**2
    across = np.cumsum(kernel_means(wide, others, gamma=gamma)) / first
    return tuple((within - 2.0 * across + kernel_means(others, others, gamma=gamma).mean()).tolist())


def _write(path: Path, rows: Rows, labels: Any = None) -> None:
    images = pa.array(list(np.rint(16.0 * rows).astype(np.uint8)), pa.list_(pa.uint8()))
    columns = {"image": images} if labels is None else {"image": images, "digit": pa.array(labels)}
    pq.write_table(pa.table(columns), path)
