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
from likeset.geometry.discrepancy import squared_mmd
from likeset.geometry.kernels import kernel_means
from likeset.geometry.threads import one_thread_a_product
from likeset.run.job import Job
from likeset.run.job_result import JobResult
from likeset.run.local import job_running
from likeset.run.pictures import Images
from likeset.run.publish import FinishedJob, Render, write_files
from likeset.run.result import Baseline
from likeset.simulation.baselines import greedy, published_protocol, uniform_sampling
from likeset.simulation.market import DIGIT_GROUPS, LabelledMarket, digits_market, svm_accuracy
from likeset.simulation.tasks import Task
from likeset.transports.local import Progress

__all__ = ["EPSILON", "SEED", "SIZE", "run_showcase", "with_baselines", "write_market"]

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
        partial(greedy, method="exact"),
        "exact greedy, not private",
        "one party sees every row of every owner; greedy as in the paper, without our swaps",
    ),
)


def write_market(folder: Path, market: LabelledMarket) -> dict[str, Any]:
    """The market as files that ``likeset match`` takes; returns its arguments."""
    folder.mkdir(parents=True)
    documents.write_text(folder / "schema.yaml", _SCHEMA)
    _write(folder / "target.parquet", market.target)
    owners = {}
    for group, name in zip(DIGIT_GROUPS, market.owners, strict=True):
        short = "digits-" + "-".join(str(digit) for digit in group)
        owners[short] = str(folder / f"{short}.parquet")
        _write(folder / f"{short}.parquet", market.owners[name], market.labels[name])
    return {"schema": str(folder / "schema.yaml"), "target": str(folder / "target.parquet"), "owners": owners}


def run_showcase(
    out: Path, *, render: Render, progress: Progress | None = None, tell: Callable[[str], None] | None = None
) -> FinishedJob:
    """Write the market, run the job, and put the baselines beside its result.

    Args:
        out: a directory that is not there yet; files go to ``out/data``, results to ``out/matched``.
        render: makes the report.
        progress: called as answers of owners come in.
        tell: called with what is being done.
    """
    market = digits_market(coins=np.random.default_rng(SEED))
    job = Job.of(
        **write_market(out / "data", market),
        size=SIZE,
        epsilon=EPSILON,
        purpose="to recognise handwritten 3s and 4s",
        out=str(out / "matched"),
    )
    # Products are small here: threads of a library would wait for each other longer than they work.
    with one_thread_a_product(), job_running(job, progress=progress) as (folder, result):
        document = write_files(folder, with_baselines(result, market, tell=tell), render=render)
    return FinishedJob(Path(job.out), document)


def with_baselines(
    result: JobResult, market: LabelledMarket, *, tell: Callable[[str], None] | None = None
) -> JobResult:
    """A result with what else could be had in its place, and pictures of rows.

    Args:
        result: of the job.
        market: that the result came from; the baselines see all of it.
        tell: called with what is being done.
    """
    say = tell or (lambda _: None)
    outcome = result.result.outcome
    unit = float(result.files.target.rows.max() / market.target.max())  # of the schema, in units of the market's rows
    rows, gamma = outcome.summary.rows / unit, outcome.gamma * unit**2
    task = Task(market=market, size=SIZE, gamma=gamma, offers=outcome.terms.rows_per_owner, seed=SEED, epsilon=EPSILON)
    baselines = list(result.baselines)
    for select, name, meaning in _BASELINES:
        say(name)
        indices = select(task).indices
        picked = market.pool[indices]
        accuracy = svm_accuracy(picked, market.pool_labels[indices], market)
        in_sample = squared_mmd(picked, market.target, gamma=gamma)
        # Rows that nobody saw stand for the population; their own spread does not count.
        unseen = squared_mmd(picked, market.test, gamma=gamma) - _spread(market.test, gamma)
        baselines.append(Baseline("study", name, unseen, in_sample, meaning, accuracy))
    return replace(
        result,
        accuracy=svm_accuracy(rows, outcome.summary.labels.astype(np.int64), market),
        baselines=tuple(baselines),
        images=Images(8, market.target[:_SHOWN].tolist(), rows[:: len(rows) // _SHOWN][:_SHOWN].tolist()),
    )


def _spread(rows: Rows, gamma: float) -> float:
    """How far so many rows lie from their own population, on average."""
    count = len(rows)
    within = (float(kernel_means(rows.astype(np.float64), rows, gamma=gamma).sum()) - 1.0) / (count - 1)
    return (1.0 - within) / count


def _write(path: Path, rows: Rows, labels: Any = None) -> None:
    images = pa.array(list(np.rint(16.0 * rows).astype(np.uint8)), pa.list_(pa.uint8()))
    columns = {"image": images} if labels is None else {"image": images, "digit": pa.array(labels)}
    pq.write_table(pa.table(columns), path)
