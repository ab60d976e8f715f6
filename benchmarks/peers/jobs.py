"""Runs one job in a child process under limits of time and memory, and judges what came back."""

import json
import os
import resource
import signal
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset import squared_mmd
from likeset.geometry.kernels import rbf_kernel
from peers.data import PoolAndTarget
from peers.environments import NotInstalledError, Tool, interpreter, last_word

DEFAULT = ", default"
"""A peer's method that ends so leaves all settings that we found faster ones for as they are by default."""
_PATIENCE = 3
"""Wall time allowed for each second of CPU time, before a run counts as stuck."""


@dataclass(frozen=True)
class Limits:
    """What one run may use.

    Attributes:
        seconds: CPU time per core; other work on the machine must not decide what a tool manages.
        memory_bytes: address space.
        cores: how many cores.
    """

    seconds: float
    memory_bytes: int
    cores: int


@dataclass(frozen=True)
class ToolJob:
    """One selection by one tool."""

    tool: Tool
    method: str
    data: PoolAndTarget
    size: int

    @property
    def label(self) -> str:
        """As in the tables."""
        return f"{self.tool.name} {self.method}"


@dataclass(frozen=True)
class ToolResult:
    """What a job gave, or why it gave nothing (then the figures are missing)."""

    data: str
    rows: int
    size: int
    tool: str
    method: str
    status: str
    reason: str = ""
    cpu: float | None = None
    cold_cpu: float | None = None
    wall: float | None = None
    peak_bytes: int | None = None
    pool_bytes: int | None = None
    mmd2: float | None = None
    weighted_mmd2: float | None = None
    unnormalised_mmd2: float | None = None
    weight_sum: float | None = None
    distinct: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    chosen: str = ""
    commit: str = ""

    @property
    def label(self) -> str:
        """As in the tables."""
        return f"{self.tool} {self.method}"


def absent_result(job: ToolJob, status: str, reason: str) -> ToolResult:
    """A job that gave nothing."""
    return ToolResult(job.data.name, job.data.rows, job.size, job.tool.name, job.method, status, reason)


def perform(job: ToolJob, *, limits: Limits, folder: Path) -> ToolResult:
    """Run a job in its own process; failures become results, not exceptions."""
    try:
        python = interpreter(job.tool, folder)
    except NotInstalledError as error:
        return absent_result(job, "not installed", str(error))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        job_file = Path(scratch, "job.json")
        answer_file = job_file.with_suffix(".out.json")
        job_file.write_text(json.dumps(_request(job)))
        try:
            done = subprocess.run(
                [str(python), str(job.tool.runner), str(job_file)],
                capture_output=True,
                text=True,
                timeout=_PATIENCE * limits.seconds,
                check=False,
                preexec_fn=lambda: _confine(limits),
            )
        except subprocess.TimeoutExpired:
            return absent_result(job, "too slow", f"stopped after {_PATIENCE * limits.seconds:.0f} s")
        if not answer_file.exists():
            return _failure(job, done, limits)
        return _judge(job, json.loads(answer_file.read_text()))


def _request(job: ToolJob) -> dict[str, object]:
    return {
        "pool": str(job.data.pool),
        "target": str(job.data.target),
        "gamma": job.data.gamma,
        "size": job.size,
        "method": job.method,
    }


def _confine(limits: Limits) -> None:
    """Limits of the child: memory, and cores, so that CPU seconds count work and not waiting threads."""
    seconds = int(limits.seconds * limits.cores)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 10))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-limits.cores :])


def _failure(job: ToolJob, done: subprocess.CompletedProcess[str], limits: Limits) -> ToolResult:
    if done.returncode == -signal.SIGXCPU:
        return absent_result(job, "too slow", f"stopped after {limits.seconds:.0f} s of CPU time")
    signs = ("MemoryError", "bad_alloc", "Unable to allocate", "RESOURCE_EXHAUSTED", "Out of memory")
    # A library that does not expect an allocation to fail dies by a signal instead of saying so.
    if any(sign in done.stderr for sign in signs) or done.returncode < 0:
        return absent_result(job, "out of memory", f"needs more than {limits.memory_bytes / 2**30:.0f} GB")
    return absent_result(job, "failed", last_word(done.stderr))


def _judge(job: ToolJob, answer: dict[str, Any]) -> ToolResult:
    """The exact MMD² of the picks, by one and the same function for every tool."""
    pool, target = job.data.load()
    indices = np.array(answer["indices"], dtype=np.int64)
    picked, gamma = np.asarray(pool[indices]), job.data.gamma
    weighted = unnormalised = total = None
    if answer["weights"] is not None:
        given = np.array(answer["weights"])
        total = float(given.sum())
        weighted = squared_mmd(picked, target, gamma=gamma, weights=given / total)
        unnormalised = _distance(picked, given, target, gamma)
    return ToolResult(
        data=job.data.name,
        rows=job.data.rows,
        size=job.size,
        tool=job.tool.name,
        method=job.method,
        status="ok",
        cpu=answer["cpu"],
        cold_cpu=answer["cold_cpu"],
        wall=answer["wall"],
        peak_bytes=answer["peak_bytes"],
        pool_bytes=job.data.pool_bytes,
        mmd2=squared_mmd(picked, target, gamma=gamma),
        weighted_mmd2=weighted,
        unnormalised_mmd2=unnormalised,
        weight_sum=total,
        distinct=len(np.unique(indices)),
        versions=answer["versions"],
        chosen=answer["chosen"],
    )


def _distance(
    picked: NDArray[np.float32], given: NDArray[np.float64], target: NDArray[np.float32], gamma: float
) -> float:
    """Squared distance of the embeddings for weights that need not sum to 1 (ProtoDash's own objective)."""
    rows, wanted = picked.astype(np.float64), target.astype(np.float64)
    within = given @ rbf_kernel(rows, rows, gamma=gamma) @ given
    between = given @ rbf_kernel(rows, wanted, gamma=gamma).mean(axis=1)
    return float(within - 2.0 * between + rbf_kernel(wanted, wanted, gamma=gamma).mean())


def uniform_mmd2(data: PoolAndTarget, size: int) -> ToolResult:
    """The MMD² of uniformly drawn rows, for the scale."""
    pool, target = data.load()
    drawn = np.sort(np.random.default_rng(0).choice(data.rows, size, replace=False))
    distance = squared_mmd(np.asarray(pool[drawn]), target, gamma=data.gamma)
    return ToolResult(data.name, data.rows, size, "uniform", "rows", "ok", mmd2=distance, distinct=size)


def results_kept(file: Path, commit: str) -> list[ToolResult]:
    """What earlier portions of a run at the same commit found; what they had no time for is to be done yet."""
    if not file.exists():
        return []
    return [result for result in all_results(file) if result.commit == commit and result.status != "not run"]


def all_results(file: Path) -> list[ToolResult]:
    """Every result in a file."""
    return [ToolResult(**document) for document in json.loads(file.read_text())]


def results_json(results: list[ToolResult]) -> str:
    """All figures, one object per job."""
    return json.dumps([asdict(result) for result in results], indent=1) + "\n"
