"""A budget for regressions: ten ratios of CPU time, each measured within one run, against the numbers of budget.json.

Both sides of a ratio take turns, and the least of each counts, so that a busy machine troubles both alike. One that is
over its band is measured again before it counts as over: noise passes, a regression stays.

    make bench-quick                              compare; exit code 1 if a ratio is over its band
    make bench-quick ONLY=labels                  one of them
    make bench-quick WRITE=1                      write what was measured into budget.json: for a change that is meant
"""

import argparse
import json
import sys
from pathlib import Path

from budget.measure import Measured, measure
from budget.ratios import RATIOS

_BUDGET = Path(__file__).parent / "budget" / "budget.json"
_BAND = 1.5
"""A ratio may be so many times the committed one. Below its inverse, the committed number is to be brought down."""


def main() -> int:
    """Measure, compare, print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(RATIOS), help="this ratio (may be repeated)")
    parser.add_argument("--write", action="store_true", help="write what was measured into budget.json")
    options = parser.parse_args()
    budget: dict[str, float] = json.loads(_BUDGET.read_text()) if _BUDGET.exists() else {}
    found = []
    for name in options.only or RATIOS:
        with RATIOS[name].ready() as sides:
            limit = None if options.write or name not in budget else _BAND * budget[name]
            found.append(measure(name, RATIOS[name].meaning, sides, limit=limit))
        if options.write:
            budget[name] = float(f"{found[-1].ratio:.3g}")
            _BUDGET.write_text(json.dumps({name: budget[name] for name in RATIOS if name in budget}, indent=1) + "\n")
        print(_line(found[-1], budget.get(name)), flush=True)
    return int(any(_verdict(one, budget.get(one.name)) == "OVER" for one in found))


def _line(one: Measured, committed: float | None) -> str:
    """A line of the table."""
    shown = "none" if committed is None else f"{committed:.3g}"
    return (
        f"{one.name:12} {one.ratio:8.3g}  committed {shown:>6}  {_verdict(one, committed):6} "
        f"{one.meaning} ({1e3 * one.upper:.1f} / {1e3 * one.lower:.1f} ms)"
    )


def _verdict(one: Measured, committed: float | None) -> str:
    if committed is None:
        return "OVER"  # a ratio without a number has no budget
    if one.ratio > _BAND * committed:
        return "OVER"
    return "lower" if one.ratio < committed / _BAND else "ok"


if __name__ == "__main__":
    sys.exit(main())
