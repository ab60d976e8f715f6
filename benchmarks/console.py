"""How long the console's pages take with many runs and a long log, beside those of an empty home, in one process.

    .venv/bin/python benchmarks/console.py --runs 1000 --entries 100000

Pages are asked for as a browser does, through the guard, without a socket; the median of several, after one to warm up.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from likeset.homes.owner.invitations import entry_words
from likeset.homes.owner.node import OwnerNode
from likeset.homes.signed_invitation import Invitation

_TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(_TESTS / floor) for floor in ("", "app", "homes", "trust", "protocol")]

from card_world import introduce, signed_terms  # noqa: E402 - the tests' worlds are not installed
from console_world import Browser, opened_console, signed_in  # noqa: E402
from node_world import make_node, terms  # noqa: E402

_PAGES = ("/", "/?show=all", "/?page=20", "/run?name=run-1", "/budgets", "/data", "/left", "/log", "/rules", "/cards")
_TIMES = 7


def main() -> None:
    """Fill a home, ask for every page, print milliseconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=100_000)
    wished = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        small, large = make_node(Path(place) / "small"), make_node(Path(place) / "large")
        _fill(small, runs=1, entries=0)
        _fill(large, runs=wished.runs, entries=wished.entries)
        began = time.perf_counter()
        with opened_console(large) as full:
            opening = time.perf_counter() - began
            with opened_console(small) as empty:
                beside, many = signed_in(empty), signed_in(full)
                print(f"{wished.runs:,} runs, {full.version()} entries; opening the home takes {opening:.2f} s, once")
                print(f"{'page':<20} {'one run':>10} {'many':>10} {'ratio':>7}")
                for page in _PAGES:
                    before, after = _milliseconds(beside, page), _milliseconds(many, page)
                    print(f"{page:<20} {before:>7.1f} ms {after:>7.1f} ms {after / before:>6.1f}x")


def _fill(folder: Path, *, runs: int, entries: int) -> None:
    every = [terms(run=f"run-{number}", expires="2099-01-01") for number in range(1, runs + 1)]
    introduce(folder, every[0])
    with OwnerNode(folder) as node:
        node.put_policy_in_force()
        with node.log.deciding() as append:
            for run in every:
                append("invited", run.run, entry_words(Invitation.read(signed_terms(run)), by_steward=True))
            for number in range(entries - runs):
                append("reviewed", f"run-{1 + number % runs}", {"digest": every[number % runs].digest, "by": "Ada"})


def _milliseconds(browser: Browser, page: str) -> float:
    times = []
    for _ in range(_TIMES + 1):
        began = time.perf_counter()
        answer = browser.get(page)
        times.append(1000 * (time.perf_counter() - began))
        if answer.status != 200:
            raise SystemExit(f"{page}: {answer.status}")
    return statistics.median(times[1:])


if __name__ == "__main__":
    main()
