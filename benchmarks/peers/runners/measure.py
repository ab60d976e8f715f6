"""One measured run of one tool, in a process and an interpreter of its own.

A runner imports its tool, then calls ``measure_selection`` with a function that prepares the selection. The job is a
JSON file named on the command line; the answer is a JSON file beside it. Only numpy and the standard library are used
here, because this module is imported by every peer's interpreter.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

_REPEAT_BELOW_SECONDS = 30.0  # a short call is repeated, and the least of three counts
_REPEATS = 3
_DEFAULT = ", default"


@dataclass(frozen=True)
class SelectionTask:
    """Select ``size`` rows of the pool that look like the target; the kernel is ``exp(-gamma * ||x - y||²)``."""

    pool: np.ndarray
    target: np.ndarray
    size: int
    gamma: float
    method: str

    @property
    def tuned(self) -> bool:
        """Whether to use the settings that we found fastest, and not the tool's defaults."""
        return not self.method.endswith(_DEFAULT)


@dataclass(frozen=True)
class ToolPicks:
    """What a tool selected, with weights if it gives any."""

    indices: np.ndarray
    weights: np.ndarray | None = None


def measure_selection(
    prepare: Callable[[SelectionTask], Callable[[], ToolPicks]],
    *,
    packages: list[str],
    chosen: Callable[[SelectionTask], str],
) -> None:
    """Measure one selection and write the answer.

    ``prepare`` does what is not the tool's work (converting the rows to the type that the tool likes) or what
    it does only once (compiling); its cost is reported as the difference between a cold and a warm call.
    """
    job_file = Path(sys.argv[1])
    job = json.loads(job_file.read_text())
    before_data = peak_bytes()
    task = SelectionTask(
        pool=np.load(job["pool"]),
        target=np.load(job["target"]),
        size=job["size"],
        gamma=job["gamma"],
        method=job["method"],
    )
    start = cpu_seconds()
    select = prepare(task)
    prepared = cpu_seconds() - start
    cpu, wall = [], []
    while not cpu or (len(cpu) < _REPEATS and sum(cpu) < _REPEAT_BELOW_SECONDS):
        start, clock = cpu_seconds(), time.perf_counter()
        picks = select()
        cpu.append(cpu_seconds() - start)
        wall.append(time.perf_counter() - clock)
        if len(cpu) == 1:
            peak = peak_bytes() - before_data
    answer = {
        "cpu": min(cpu),
        "wall": min(wall),
        "cold_cpu": prepared + cpu[0],
        "peak_bytes": peak,
        "indices": np.asarray(picks.indices).ravel().tolist(),
        "weights": None if picks.weights is None else np.asarray(picks.weights).ravel().tolist(),
        "versions": {package: version(package) for package in packages},
        "chosen": chosen(task),
    }
    job_file.with_suffix(".out.json").write_text(json.dumps(answer))


def cpu_seconds() -> float:
    """User and system time of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_bytes() -> int:
    """Largest resident memory of this process so far.

    ``ru_maxrss`` would start at the parent's size, which a child inherits on Linux; the kernel's own
    high-water mark starts afresh.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rbf(a: np.ndarray, b: np.ndarray, gamma: float) -> np.ndarray:
    """The kernel matrix by one matrix product, for the tools that want it whole."""
    kernel = a @ b.T
    kernel *= -2.0
    kernel += np.einsum("ij,ij->i", a, a)[:, None]
    kernel += np.einsum("ij,ij->i", b, b)
    kernel *= -gamma
    return np.exp(kernel, out=kernel)


def mean_rbf(rows: np.ndarray, target: np.ndarray, gamma: float, *, block: int = 4096) -> np.ndarray:
    """The mean kernel of every row with the target, in blocks, float64."""
    means = np.empty(len(rows))
    for first in range(0, len(rows), block):
        means[first : first + block] = rbf(rows[first : first + block], target, gamma).mean(axis=1)
    return means
