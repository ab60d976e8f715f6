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
_DEMO_PARTS = """
import json, sys, time
from pathlib import Path
marks = {"start": time.process_time()}
import likeset.app.cli
marks["the command line"] = time.process_time()
from likeset.app.demo.showcase import run_showcase
from likeset.app.report import render
marks["what a match and its report load"] = time.process_time()
def tell(name):
    marks.setdefault("the match: files, noise, ledger, selection", time.process_time())
def rendered(*given, **named):
    marks["baselines to compare with, and a model on each"] = time.process_time()
    return render(*given, **named)
run_showcase(Path(sys.argv[1]) / "demo", render=rendered, tell=tell)
marks["the report with its pictures"] = time.process_time()
print(json.dumps(marks))
"""

_LIBRARIES = (
    "import typer, rich.console, numpy, pyarrow.parquet, pyarrow.compute, matplotlib.figure, "
    "matplotlib.backends.backend_svg, pydantic, yaml, opendp.prelude, cryptography.hazmat.primitives.hpke, "
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


def _demo(command: Sequence[str], said: list[str] | None = None) -> Cost:
    """The demo in a folder that is not there yet; ``{}`` stands for the folder."""
    with tempfile.TemporaryDirectory() as folder:
        return _cost([part.replace("{}", folder) for part in command], said=said)


def _page(times: int, *, install: bool) -> Iterator[str]:
    python, likeset = sys.executable, str(Path(sys.executable).parent / "likeset")
    commands = {
        "Python's own start": [python, "-c", ""],
        "`import likeset`, Python's start included": [python, "-c", "import likeset"],
        "`likeset --help`": [likeset, "--help"],
        "the libraries that the demo uses, imported and nothing else": [python, "-c", _LIBRARIES],
    }
    costs = {name: _least(times, lambda: _cost(command)) for name, command in commands.items()}  # noqa: B023 - called now
    demo = _least(times, lambda: _demo([likeset, "demo", "--out", "{}/demo"]))
    start, loaded, shown, libraries = (cost[0] for cost in costs.values())
    yield "# What a cold start costs\n"
    yield (
        f"Written by `benchmarks/cold_start.py` on {datetime.now(UTC).date()}, Python {platform.python_version()}, "
        f"{platform.machine()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}:\nthe least of {times} "
        "processes, with compiled modules on the disk, one thread for products of matrices.\n"
    )
    yield "| what | CPU s | on the clock s |\n|---|---|---|"
    for name, (cpu, clock) in {**costs, "`likeset demo`": demo}.items():
        yield f"| {name} | {cpu:.3f} | {clock:.3f} |"
    yield "\n| must hold | measured |\n|---|---|"
    yield f"| `import likeset` below 50 ms | {1e3 * (loaded - start):.0f} ms beyond Python's own start |"
    yield f"| `likeset --help` below 0.5 s | {shown:.2f} s of CPU |"
    yield f"| `likeset demo` below 3 s of CPU | {demo[0]:.2f} s, {libraries:.2f} s of them for its libraries |\n"
    yield from _parts_of_demo(python, times)
    if install:
        yield from _fresh_clone()


def _parts_of_demo(python: str, times: int) -> Iterator[str]:
    """Where the demo's CPU time goes; each part's least."""
    least: dict[str, float] = {}
    for _ in range(times):
        said: list[str] = []
        _demo([python, "-c", _DEMO_PARTS, "{}"], said)
        marks = json.loads(said[0].splitlines()[-1])
        moments = [0.0, *marks.values()]
        for name, before, after in zip(marks, moments, moments[1:], strict=False):
            least[name] = min(least.get(name, float("inf")), after - before)
    yield "## The parts of `likeset demo`\n"
    yield "Each part's least; a part includes the libraries that it is the first to use.\n"
    yield "| part | CPU s |\n|---|---|"
    names = {"start": "Python's own start"}
    for name, cpu in least.items():
        yield f"| {names.get(name, name)} | {cpu:.2f} |"


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
