"""What a cold start costs: installing, importing, and the parts of ``likeset demo``, in CPU seconds.

Every number is the least of several processes, so that a busy machine counts little; the time on the clock is that of
the same process. Writes ``benchmarks/results/cold-start.md``.

    python benchmarks/cold_start.py              as it is installed here
    python benchmarks/cold_start.py --install    a fresh clone as well: what make demo does before it runs (minutes)
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

_HERE = Path(__file__).parent
_PAGE = _HERE / "results" / "cold-start.md"
_TIMES = 7
_DEMO = """
import json, sys, time
marks = {"Python's own start": time.process_time()}
import likeset.app.cli
marks["the command line"] = time.process_time()
from likeset.app import demo, report
marks["what a match and its report load"] = time.process_time()
shown, rendered = demo.run_demo, report.render
def show(out, *, render, progress, tell):
    def say(name):
        marks.setdefault("the match: files, noise, ledger, selection", time.process_time())
        tell(name)
    return shown(out, render=render, progress=progress, tell=say)
def draw(*given, **named):
    marks["baselines to compare with, and a model on each"] = time.process_time()
    page = rendered(*given, **named)
    marks["the report with its pictures"] = time.process_time()
    return page
demo.run_demo, report.render = show, draw
sys.argv = ["likeset", "demo", "--out", sys.argv[1] + "/demo"]
try:
    likeset.app.cli.main()
except SystemExit:
    print(json.dumps(marks))
"""
_LIBRARIES = (
    "import typer, rich.console, numpy, pyarrow.parquet, pyarrow.compute, matplotlib.figure, "
    "matplotlib.backends.backend_svg, pydantic, yaml, opendp.measurements, cryptography.hazmat.primitives.hpke, "
    "sklearn.svm, sklearn.datasets, dp_accounting"
)

Cost = tuple[float, float]
"""CPU seconds, and seconds on the clock."""


def main() -> None:
    """Read the options, measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="install a fresh clone as well")
    parser.add_argument("--times", type=int, default=_TIMES, help="processes for each number")
    options = parser.parse_args()
    text = "\n".join(_page(options.times, install=options.install)) + "\n"
    _PAGE.write_text(text, encoding="utf-8")
    print(text)


def _cost(command: Sequence[str], *, at: str = ".", said: list[str] | None = None) -> Cost:
    """What a process and those it waited for took, with one thread for products of matrices."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=at, env=environment)
    clock, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if said is not None:
        said.append(done.stdout)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock


def _least(times: int, once: Callable[[], Cost]) -> Cost:
    return min(once() for _ in range(times))


def _demo(python: str) -> tuple[Cost, dict[str, float]]:
    """The demo in a folder that is not there yet: what it took, and its parts in CPU seconds."""
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        cost = _cost([python, "-c", _DEMO, folder], said=said)
    marks = json.loads(said[0].splitlines()[-1])
    moments = [0.0, *marks.values(), cost[0]]
    names = [*marks, "files, the screen and the end of the process"]
    return cost, {name: after - before for name, before, after in zip(names, moments, moments[1:], strict=False)}


def _page(times: int, *, install: bool) -> Iterator[str]:
    python, likeset = sys.executable, str(Path(sys.executable).parent / "likeset")
    commands = {
        "Python's own start": [python, "-c", ""],
        "`import likeset`, Python's start included": [python, "-c", "import likeset"],
        "`likeset --help`": [likeset, "--help"],
        "the libraries that the demo uses, imported and nothing else": [python, "-c", _LIBRARIES],
    }
    costs = {name: _least(times, lambda: _cost(command)) for name, command in commands.items()}  # noqa: B023 - called now
    demos = [_demo(python) for _ in range(times)]
    demo = min(cost for cost, _ in demos)
    start, loaded, shown, libraries = (cost[0] for cost in costs.values())
    yield "# What a cold start costs\n"
    yield (
        f"Written by `benchmarks/cold_start.py` on {datetime.now(UTC).date()}, Python {platform.python_version()}, "
        f"{platform.machine()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}:\nthe least of {times} "
        "for each number, with compiled modules on the disk, one thread for products of matrices.\n"
    )
    yield "| what | CPU s | on the clock s |\n|---|---|---|"
    for name, (cpu, clock) in {**costs, "`likeset demo`": demo}.items():
        yield f"| {name} | {cpu:.3f} | {clock:.3f} |"
    yield "\n| must hold | measured |\n|---|---|"
    yield f"| `import likeset` below 50 ms | {1e3 * (loaded - start):.0f} ms beyond Python's own start |"
    yield f"| `likeset --help` below 0.5 s | {shown:.2f} s of CPU |"
    yield f"| `likeset demo` below 3 s of CPU | {demo[0]:.2f} s, {libraries:.2f} s of them for its libraries |\n"
    yield "## The parts of `likeset demo`\n"
    yield "Each part's least; a part includes the libraries that it is the first to use.\n"
    yield "| part | CPU s |\n|---|---|"
    for name in demos[0][1]:
        yield f"| {name} | {min(parts[name] for _, parts in demos):.2f} |"
    if install:
        yield from _fresh_clone()


def _fresh_clone() -> Iterator[str]:
    """What ``make demo`` does in a fresh clone, once."""
    with tempfile.TemporaryDirectory() as folder:
        root = str(_HERE.parent)
        _cost(["git", "clone", "--quiet", root, "clone"], at=folder)
        clone, pip = f"{folder}/clone", [".venv/bin/python", "-m", "pip", "install", "--quiet"]
        steps = {
            "make the environment": [sys.executable, "-m", "venv", ".venv"],
            "install what requirements.lock names": [*pip, "--require-hashes", "--requirement", "requirements.lock"],
            "install likeset": [*pip, "--no-deps", "--no-build-isolation", "--editable", "."],
            "`likeset demo`, the first time": [".venv/bin/likeset", "demo"],
            "`likeset demo`, the second time": [".venv/bin/likeset", "demo"],
        }
        costs = {name: _cost(command, at=clone) for name, command in steps.items()}
    yield "\n## `make demo` in a fresh clone\n"
    yield "Its commands one by one, once; packages come from the network or from pip's cache.\n"
    yield "| what | CPU s | on the clock s |\n|---|---|---|"
    for name, (cpu, clock) in costs.items():
        yield f"| {name} | {cpu:.1f} | {clock:.1f} |"


if __name__ == "__main__":
    main()
