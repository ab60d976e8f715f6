"""Compares likeset with its peers: the same selections, in one run, by CPU seconds, memory and exact MMD².

Every tool runs in an environment and a process of its own, limited in time and memory and pinned to one core,
so that CPU seconds count work and not waiting threads. Each peer runs twice, as fast as we could make it and with
its defaults, on pools that it manages. Comparisons that decide something come first; results are written after
every job.

    python benchmarks/peers.py --quick              a few small jobs, to see that everything works
    python benchmarks/peers.py                      everything
    python benchmarks/peers.py --only coreax        likeset and one peer
    python benchmarks/peers.py --page               the page and the figure of what was measured

A run may be done in portions (``--minutes``): another call at the same commit goes on where the last one ended.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from peers import data, jobs, report
from peers.environments import LIKESET, ONE_PASS, PEERS, Tool, measured_commit

_HERE = Path(__file__).parent
_WORK = _HERE / ".peers"
_OWN_METHODS = ("exact", "weighted", "exact+weights")
_PEER_METHODS = {
    "coreax": "herding",
    "protodash": "picks+weights",
    "goodpoints": "refine",
    "apricot": "graph cut",
    "submodlib": "graph cut",
}
_PEER_ROWS = {  # pools on which each selection of a peer ends within minutes, and within memory
    "coreax": (100_000, 20_000),
    "goodpoints": (100_000, 20_000),
    "apricot": (10_000,),
    "submodlib": (5_000,),
    "protodash": (5_000,),
}
_WEIGHTED_ROWS = (20_000, 100_000)  # where ProtoDash picks its first hundred, besides


class Bench:
    """One run of the comparison: what was done so far, and the clock."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.limits = jobs.Limits(options.seconds, options.memory_gb * 2**30, options.cores)
        self.peers = [tool for tool in PEERS if not options.only or tool.name in options.only]
        self.sizes: list[int] = options.sizes
        self.rows: list[int] = options.rows
        self.out: Path = options.out
        self.deadline = time.monotonic() + 60.0 * options.minutes
        self.commit = measured_commit()  # results of another one are not mixed with it
        self.results = jobs.results_kept(self.out / "peers.json", self.commit)
        needed = {rows for tool in self.peers for rows in _PEER_ROWS[tool.name] if rows <= max(self.rows)}
        self.pools = data.gaussian_pools(sorted({*self.rows, *needed}), folder)
        self.mnist = data.mnist_pool(options.mnist, folder) if options.mnist else None

    def do(self, tool: Tool, method: str, pool: data.PoolAndTarget, size: int) -> jobs.ToolResult:
        """One job, unless it was done before; the results are written after it."""
        done = self.find(tool.name, method, pool, size)
        if done:
            return done
        job = jobs.ToolJob(tool, method, pool, size)
        if time.monotonic() > self.deadline:
            result = jobs.absent_result(job, "not run", "the time of this run was used up")
        else:
            result = jobs.perform(job, limits=self.limits, folder=_WORK)
        self.results.append(replace(result, commit=self.commit))
        print(report.line(result), flush=True)
        self.write()
        return result

    def find(self, tool: str, method: str, pool: data.PoolAndTarget, size: int) -> jobs.ToolResult | None:
        """The result of a job that was done before."""
        wanted = (tool, method, pool.name, pool.rows, size)
        same = (r for r in self.results if (r.tool, r.method, r.data, r.rows, r.size) == wanted)
        return next(same, None)

    def own(self, pool: data.PoolAndTarget, size: int, methods: tuple[str, ...] = _OWN_METHODS) -> None:
        """Run our methods on one pool, and what uniform rows would give."""
        if not self.find("uniform", "rows", pool, size):
            self.results.append(replace(jobs.uniform_mmd2(pool, size), commit=self.commit))
        for method in methods:
            self.do(LIKESET, method, pool, size)

    def run(self) -> None:
        """All jobs; those that decide something first."""
        for kind, *arguments in self.plan():
            getattr(self, kind)(*arguments)
        self.write()
        write_page(self.results, self.limits, self.out)

    def plan(self) -> Iterator[tuple[Any, ...]]:
        """What to do, in order."""
        if 1_000_000 in self.rows and 1000 in self.sizes:
            yield "own", self.pools[1_000_000], 1000, ("exact",)
        for tool in self.peers:
            for rows in _PEER_ROWS[tool.name]:
                for size in self.sizes if rows in self.pools else []:
                    yield from self.both_ways(tool, self.pools[rows], size)
        if self.mnist:
            for size in self.sizes:
                # With their defaults for the smallest summary only: at 784 columns a job takes minutes.
                variants = ("", jobs.DEFAULT) if size == self.sizes[0] else ("",)
                for tool in self.peers:
                    if tool.name in ("coreax", "goodpoints"):
                        yield from self.both_ways(tool, self.mnist, size, variants=variants)
                yield "own", self.mnist, size
        for tool in self.peers:
            if tool.name == "protodash":
                yield from (
                    ("do", tool, _PEER_METHODS[tool.name], self.pools[rows], self.sizes[0])
                    for rows in _WEIGHTED_ROWS
                    if rows in self.pools
                )
        for pool in self.pools.values():
            for size in self.sizes:
                yield "own", pool, size

    def both_ways(
        self, tool: Tool, pool: data.PoolAndTarget, size: int, *, variants: tuple[str, ...] = ("", jobs.DEFAULT)
    ) -> Iterator[tuple[Any, ...]]:
        """One peer, tuned and with its defaults, beside our own."""
        yield "do", ONE_PASS, "pool x target", pool, size
        yield "own", pool, size, ("exact",)
        for variant in variants:
            yield "do", tool, _PEER_METHODS[tool.name] + variant, pool, size

    def write(self) -> None:
        """The results so far."""
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "peers.json").write_text(jobs.results_json(self.results))


def write_page(results: list[jobs.ToolResult], limits: jobs.Limits, out: Path) -> None:
    """Tables of the results."""
    (out / "peers.md").write_text(report.markdown(results, limits))


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20,000 rows, 100 picks: does everything work?")
    parser.add_argument("--only", action="append", choices=sorted(_PEER_METHODS), help="this peer (may be repeated)")
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 100_000, 1_000_000], help="pool sizes")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 1000], help="summary sizes")
    parser.add_argument(
        "--mnist", type=Path, help="mnist.npz with x_train, x_test, y_test: also compare at 784 columns"
    )
    parser.add_argument("--out", type=Path, default=_HERE / "results", help="folder of the results")
    parser.add_argument("--seconds", type=float, default=600.0, help="limit of one run")
    parser.add_argument("--memory-gb", type=int, default=16, help="limit of one run")
    parser.add_argument("--minutes", type=float, default=90.0, help="start no new job after this time")
    parser.add_argument("--cores", type=int, default=1, help="cores of one run")
    parser.add_argument("--page", action="store_true", help="measure nothing: the page of peers.json")
    options = parser.parse_args()
    if options.page:
        limits = jobs.Limits(options.seconds, options.memory_gb * 2**30, options.cores)
        write_page(jobs.all_results(options.out / "peers.json"), limits, options.out)
        return
    if options.quick:
        options.rows, options.sizes = [20_000], [100]
    _WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_WORK, prefix="data-") as folder:
        Bench(options, Path(folder)).run()


if __name__ == "__main__":
    main()
