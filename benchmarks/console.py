"""What the console's pages take with many runs and a long log, beside those of a home with few runs, in one process.

    .venv/bin/python benchmarks/console.py --runs 1000 --entries 100000 [--out benchmarks/results/console.md]

CPU time, which does not depend on what else the machine does; pages do nothing else for long. ``--place`` keeps the
homes, and uses them again. Pages are asked for as a browser does, through all checks, without a socket: the first time,
and the median of several after that. The log is as ``long_home`` says. What is done once for the whole console
(libraries, the log) comes before, and is told apart.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from likeset.homes.owner_node import OwnerNode
from long_home import long_home

from console_world import Browser, signed_in  # isort: skip - long_home knows where the tests' worlds are

_WAITING, _DONE = "run-8", "run-1"
_PAGES = (
    ("the inbox", "/"),
    ("the inbox, page 5", "/?page=5"),
    ("all runs", "/?show=all"),
    ("all runs, page 40", "/?show=all&page=40"),
    ("a run that waits", f"/run?name={_WAITING}"),
    ("a run that is done", f"/run?name={_DONE}"),
    ("budgets", "/budgets"),
    ("budgets, page 50", "/budgets?page=50"),
    ("data sets", "/data"),
    ("what left", "/left"),
    ("what left, page 20", "/left?page=20"),
    ("what left in a run", f"/left?run={_DONE}"),
    ("the log", "/log"),
    ("the log, in its middle", "/log?before=50000"),
    ("the log of a run", f"/log?about={_DONE}"),
    ("rules", "/rules"),
    ("cards", "/cards"),
    ("check", "/check"),
)
_TIMES = 9
_ALLOWED = 200.0
_COMMANDS = (("owner", "inbox"), ("owner", "review", _WAITING), ("owner", "audit", "list"))


def main() -> None:
    """Fill a home, ask for every page, print milliseconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--place", type=Path)
    parser.add_argument("--only", choices=("pages", "check", "commands"), help="one part of it; --place keeps homes")
    wished = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = wished.place or Path(temporary)
        small = _home(place / "small", runs=8, entries=0)
        large = _home(place / "large", runs=wished.runs, entries=wished.entries)
        parts: dict[str, Callable[[], str]] = {
            "pages": lambda: _measured(small, large, runs=wished.runs),
            "check": lambda: _checked(small, large),
            "commands": lambda: _commands(small, large, compiled=Path(temporary) / "compiled"),
        }
        text = "\n".join(make() for name, make in parts.items() if wished.only in (None, name))
    print(text)
    if wished.out is not None:
        wished.out.write_text(text)


def _home(place: Path, *, runs: int, entries: int) -> Path:
    return next(place.glob("node-*"), None) or long_home(place, runs=runs, entries=entries)


def _measured(small: Path, large: Path, *, runs: int) -> str:
    with OwnerNode(small) as few:
        signed_in(few).get("/")  # loads libraries
    opening_small, opening = _seconds(lambda: OwnerNode(small).close()), _seconds(lambda: OwnerNode(large).close())
    lines = []
    with OwnerNode(large) as many, OwnerNode(small) as few:
        entries, fewer = many.ledger.head().number, few.ledger.head().number
        lines = [_line(name, page, few=signed_in(few), many=signed_in(many)) for name, page in _PAGES]
    slowest = max(lines, key=lambda line: line[2])
    return "\n".join(
        [
            f"# The console with {runs:,} runs\n",
            f"`benchmarks/console.py`, Python {platform.python_version()}, {platform.machine()}: CPU milliseconds of a "
            f"page in a home with {runs:,} runs and {entries:,} entries in its log (seven of ten runs done, with all "
            f"their rounds, one denied, two waiting), beside one with 8 runs and {fewer:,} entries. The first time a "
            f"page is asked for, then the median of {_TIMES}. A page may take {_ALLOWED:.0f} ms.\n",
            "| page | first, ms | then, ms | 8 runs, ms | ratio |",
            "|---|---|---|---|---|",
            *(
                f"| {name} | {first:.1f} | {after:.1f} | {before:.1f} | {after / before:.1f} |"
                for name, first, after, before in lines
            ),
            f"\nThe slowest is {slowest[0]}: {slowest[2]:.0f} ms; of first looks the slowest takes "
            f"{max(line[1] for line in lines):.0f} ms.",
            f"Once, before the link is shown: opening the home, which checks every link of its chain, {opening:.2f} s "
            f"({opening_small:.2f} s with 8 runs).",
        ]
    )


def _checked(small: Path, large: Path) -> str:
    with OwnerNode(large) as many, OwnerNode(small) as few:
        seconds = [_seconds(lambda node=node: _check(node)) for node in (few, many)]  # type: ignore[misc]
    return (
        "The button that checks the whole chain, what left and the receipts takes "
        f"{seconds[1]:.1f} s ({seconds[0]:.2f} s).\n"
    )


def _commands(small: Path, large: Path, *, compiled: Path) -> str:
    head = ["| command, in a process of its own | CPU s | with 8 runs, CPU s | ratio |", "|---|---|---|---|"]
    return "\n".join([*head, *(_command(words, small, large, compiled=compiled) for words in _COMMANDS), ""])


def _line(name: str, page: str, *, few: Browser, many: Browser) -> tuple[str, float, float, float]:
    _, before = _milliseconds(few, page)
    first, after = _milliseconds(many, page)
    return name, first, after, before


def _milliseconds(browser: Browser, page: str) -> tuple[float, float]:
    times = []
    for _ in range(_TIMES + 1):
        began = time.process_time()
        answer = browser.get(page)
        times.append(1000 * (time.process_time() - began))
        if answer.status != 200:
            raise SystemExit(f"{page}: {answer.status} {answer.words}")
    return times[0], statistics.median(times[1:])


def _check(node: OwnerNode) -> None:
    answer = signed_in(node).post("/log")
    if "It holds" not in answer.words:
        raise SystemExit(answer.words)


def _command(words: tuple[str, ...], small: Path, large: Path, *, compiled: Path) -> str:
    """A command as an installed one is: its modules are compiled, which the first of two calls sees to."""
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run(folder: Path) -> None:
        line = [sys.executable, "-c", "from likeset.app.cli import main; main()", *words, "--node", str(folder)]
        environment = {**settings, "PYTHONPYCACHEPREFIX": str(compiled)}
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, env=environment)

    run(small)
    before, after = (_childs_seconds(lambda home=home: run(home)) for home in (small, large))  # type: ignore[misc]
    return f"| `likeset {' '.join(words)}` | {after:.2f} | {before:.2f} | {after / before:.1f} |"


def _childs_seconds(work: Callable[[], None]) -> float:
    before = os.times()
    work()
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _seconds(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
