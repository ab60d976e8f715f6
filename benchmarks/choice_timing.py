"""How much does the time of one exponential choice tell about the scores?

OpenDP's exact sampler refines its random numbers only as far as a comparison needs, so its time depends on the scores.
This bounds epsilon from below with the choice alone, with the time alone, and with both: docs/proofs/auditor.md.

    python benchmarks/choice_timing.py [observations, default 12000]
"""

import sys
import time

import numpy as np
from numpy.typing import NDArray

from likeset.audit import neighbours
from likeset.audit.auditor import lower_bound
from likeset.audit.neighbours import Neighbours
from likeset.privacy.noise import Integers, SecretNoise

CANDIDATES, SENSITIVITY, RATE = 8, 2, 0.5


def observe_pair(pair: Neighbours[Integers], size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Choice and nanoseconds, one row per draw; the inputs take turns, so that other load falls on both alike."""
    noise = SecretNoise()
    seen = np.empty((2, size, 2))
    for index in range(size):
        for side in (0, 1):
            started = time.perf_counter_ns()
            choice = noise.exponential_choice(pair[side], RATE)
            seen[side, index] = choice, time.perf_counter_ns() - started
    return seen[0], seen[1]


def main() -> None:
    """Print one line per offset of the scores."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 12_000
    pair = neighbours.opposite_scores(CANDIDATES, SENSITIVITY)
    print(f"claimed epsilon {2 * RATE * SENSITIVITY}, {size} observations of each input")
    for offset in (0, 1001):
        shifted = Neighbours(pair.words, pair.first + offset, pair.second + offset)
        first, second = observe_pair(shifted, size)
        choice = lower_bound(first[:, 0], second[:, 0], delta=0.0).epsilon
        timed = lower_bound(first[:, 1], second[:, 1], delta=0.0).epsilon
        both = lower_bound(first, second, delta=0.0, score=lambda rows: (rows[:, 0] == 0) * 1e12 + rows[:, 1]).epsilon
        print(f"scores around {offset}: choice {choice:.2f}, time {timed:.2f}, both {both:.2f}")


if __name__ == "__main__":
    main()
