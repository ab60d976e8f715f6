"""Compares summaries on MNIST: protocols, baselines and what sees everything, by MMD², accuracy, access and privacy.

Every protocol runs with simulated noise of a recorded seed: reproducible, and not private. Lines of results are
written after every run, so that a run that is stopped has still told something.

    python benchmarks/quality.py --data mnist.npz --quick     one seed, a small pool: does everything work?
    python benchmarks/quality.py --data mnist.npz --core      what must hold: p = 200, gamma·median = 3, eps = 1
    python benchmarks/quality.py --data mnist.npz             everything (hours)
"""

import argparse
import datetime
import os
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from likeset.geometry.kernels import median_gamma
from likeset.studies.market import Market
from quality import judging, markets, plot, report
from quality.methods import METHODS, Task

_HERE = Path(__file__).parent
_CORE_SETTINGS = ("groups-400", "rare-400", "skewed-50", "skewed-20")
_CORE_METHODS = ("exact greedy", "uniform offers", "uniform offers, thinned", "sealed, eps 1")
_ONCE = ("exact greedy", "feature greedy", "uniform sampling")  # do not depend on the number of offers
_SLOW = tuple(name for name in METHODS if name.startswith("interactive"))
_QUICK_ROWS = 600  # of each owner

Job = tuple[str, float, int, str, int]
"""Setting, gamma·median, size, method, seed."""


class Bench:
    """One run of the comparison: what was done so far, and the clock."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.digits = markets.load(options.data)
        self.settings = {setting.name: setting for setting in markets.SETTINGS}
        self.out: Path = options.out
        self.lines = report.read(self.out / "quality.jsonl") if options.keep else []
        self.deadline = time.monotonic() + 60.0 * options.minutes
        self._market: tuple[str, int, Market] | None = None

    def jobs(self) -> Iterator[Job]:
        """What to do: what must hold first, then all methods there, then other sizes and kernels with fewer seeds."""
        seeds = range(self.options.seeds)
        fewer = range(max(1, self.options.seeds // 2))
        yield from self.each(_CORE_SETTINGS, 3.0, 200, _CORE_METHODS, seeds)
        if self.options.core:
            return
        others = [name for name in METHODS if name not in (*_CORE_METHODS, *_SLOW)]
        yield from self.each(_CORE_SETTINGS, 3.0, 200, others, fewer)
        yield from self.each(("groups-200",), 3.0, 200, [name for name in METHODS if name not in _SLOW], fewer)
        yield from self.each(("groups-400", "rare-400", "skewed-20"), 3.0, 200, _SLOW, fewer)
        for scale, size in ((3.0, 100), (3.0, 400), (1.0, 200), (1.0, 100), (1.0, 400)):
            yield from self.each(self.settings, scale, size, METHODS, fewer[:2])

    def each(
        self, settings: Collection[str], scale: float, size: int, methods: Collection[str], seeds: Iterable[int]
    ) -> Iterator[Job]:
        """Jobs that share a market are neighbours: it is made once."""
        kinds = dict.fromkeys(self.settings[name].kind for name in settings)
        for kind in kinds:
            for seed in seeds:
                mine = [name for name in settings if self.settings[name].kind == kind]
                for place, setting in enumerate(mine):
                    for method in methods:
                        if place == 0 or method not in _ONCE:
                            yield setting, scale, size, method, seed

    def run(self) -> None:
        """All jobs that were not done before, until the time is over."""
        done = {line.key for line in self.lines}
        for job in self.jobs():
            if job in done:
                continue
            if time.monotonic() > self.deadline:
                print("the time of this run is used up")
                break
            self.lines.append(self.perform(job))
            done.add(job)
            line = self.lines[-1]
            ratio = report.relative(line, self.lines)
            shown = "" if ratio is None else f" = {ratio:5.2f} x exact"
            print(
                f"{line.setting:11} {line.scale:g} {line.size} seed {line.seed} {line.method:32} "
                f"{line.squared_mmd:.5f}{shown}, svm {line.svm:.3f}, mlp {line.mlp:.3f}, right {line.right:.2f}, "
                f"access {line.access_ratio:.1f}, {line.seconds:.1f} s {line.notes}",
                flush=True,
            )
            self.write()
        self.write()
        plot.draw(self.lines, self.out / "quality.svg")

    def perform(self, job: Job) -> judging.Line:
        """One run."""
        name, scale, size, method, seed = job
        setting = self.settings[name]
        market = self.market(setting.kind, seed)
        task = Task(
            market=market,
            size=size,
            gamma=median_gamma(market.target, scale=scale, coins=np.random.default_rng(0)),
            offers=setting.offers,
            seed=seed,
            public=markets.public_rows(self.digits, seed),
        )
        return judging.judged(task, setting=name, scale=scale, method=method, run=METHODS[method])

    def market(self, kind: str, seed: int) -> Market:
        """The market of one seed, kept until another is wanted."""
        if self._market is None or self._market[:2] != (kind, seed):
            self._market = None
            market = markets.market(self.digits, kind, seed)
            if self.options.quick:
                owners = {name: rows[:_QUICK_ROWS] for name, rows in market.owners.items()}
                labels = {name: digits[:_QUICK_ROWS] for name, digits in market.labels.items()}
                market = replace(market, owners=owners, labels=labels)
            self._market = kind, seed, market
        return self._market[2]

    def write(self) -> None:
        """Lines and table, as far as they are known."""
        self.out.mkdir(parents=True, exist_ok=True)
        report.write_lines(self.out / "quality.jsonl", self.lines)
        (self.out / "quality.md").write_text(report.markdown(self.lines, heading=self.heading()), encoding="utf-8")

    def heading(self) -> str:
        """What the tables are, and where their figures come from."""
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        quick = f" Quick: only {_QUICK_ROWS} rows of each owner." if self.options.quick else ""
        return (
            "# Summaries of MNIST\n\n"
            f"Written by `benchmarks/quality.py` on {today}, on a machine with {os.cpu_count()} cores that had other "
            f"work to do.{quick}\n\n"
            "**Simulated, not private**: noise is drawn from a recorded seed (the seed of the run, in "
            "`quality.jsonl`). Guarantees are those of the same run with secret noise, at delta = 1e-5, replace-one: "
            "epsilon and basis.\n\n"
            "Target: 3s and 4s at 0.7/0.3, a quarter of the test digits; the other three quarters are the held-out "
            "rows. Pixels/255. Kernel of the selection by the target's median squared distance. The kernel of the "
            "release is three times as wide; here that follows from the target and is treated as public, where a real "
            "run gives it, takes it from public rows, or pays for it. Mean ± standard deviation over seeds. MMD² is "
            "relative to exact greedy on all rows of all owners, which does not swap rows at the end as the curator of "
            "sealed does: less than 1 is possible. Seconds are on the clock and depend on what else ran."
        )


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="mnist.npz with x_train, y_train, x_test, y_test")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds; parts beside the core take half of them")
    parser.add_argument("--core", action="store_true", help="only what must hold: p = 200, gamma·median = 3, eps = 1")
    parser.add_argument("--quick", action="store_true", help="one seed, few rows of each owner: does everything work?")
    parser.add_argument("--keep", action="store_true", help="keep the lines of an earlier run and do what is missing")
    parser.add_argument("--minutes", type=float, default=600.0, help="start no new run after this time")
    parser.add_argument("--out", type=Path, default=_HERE / "results", help="folder of the results")
    options = parser.parse_args()
    if options.quick:
        options.seeds = 1
    Bench(options).run()


if __name__ == "__main__":
    main()
