"""What it costs to match labels: processor time of a selection with ``labels: match`` over that with ``ignore``.

10,000 offers of 50 columns in 10 classes, a target of 1,000 rows that has six of them, 1,000 rows wanted, imputation
included, cross-fitting apart. The ways take turns, so that other load falls on all alike; both times are of this
process alone. Memory is the most that Python's arrays took beyond what was there before.

    python benchmarks/labels.py [rounds, default 3]
"""

import sys
import time
import tracemalloc

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.selection import Selection

OFFERS, TARGET, WANTED, COLUMNS, CLASSES, PRESENT = 10_000, 1_000, 1_000, 50, 10, 6
APART = 6.0


def market() -> tuple[Rows, NDArray[np.int64], Rows]:
    """Normal classes around random centres."""
    coins = np.random.default_rng(0)
    centres = coins.normal(size=(CLASSES, COLUMNS)) * APART / np.sqrt(2.0 * COLUMNS)
    codes, wanted = coins.integers(CLASSES, size=OFFERS), coins.integers(PRESENT, size=TARGET)
    pool, target = (centres[drawn] + coins.normal(size=(len(drawn), COLUMNS)) for drawn in (codes, wanted))
    return pool.astype(np.float32), codes, target.astype(np.float32)


def main() -> None:
    """Print the times, their ratio, and what memory the selection with labels takes."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    pool, codes, target = market()
    seconds: dict[str, list[float]] = {"ignore": [], "match": []}
    for _ in range(rounds):
        for labels, times in seconds.items():
            given = codes if labels == "match" else None
            started = time.process_time()
            selected = Selection().select(pool, target, WANTED, labels=given)
            times.append(time.process_time() - started)
    print(f"label weight {selected.label_weight:.2f}, skill {selected.label_skill:.2f}")
    best = {labels: min(times) for labels, times in seconds.items()}
    print(f"ignore {best['ignore']:.1f} s, match {best['match']:.1f} s: {best['match'] / best['ignore']:.2f} times")
    tracemalloc.start()
    Selection().select(pool, target, WANTED, labels=codes)
    print(f"most memory {tracemalloc.get_traced_memory()[1] / 2**20:.0f} MiB; all pairs would be {OFFERS**2 >> 18} MiB")


if __name__ == "__main__":
    main()
