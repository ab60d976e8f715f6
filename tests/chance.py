"""Where tests get their coins, all from ``LIKESET_SEED``, and how many examples hypothesis tries.

Without ``LIKESET_SEED`` the seed is always the same, so a run of the tests repeats the run before it. Secret noise is
seeded, too (``conftest.py``), except in tests of noise, which fail with a probability below 1e-9. A test that needs
coins of its own choice, because it pins what comes of them, makes its generator itself and says so.
"""

import os

import numpy as np

PINNED = 8
"""For tests of power, and for small worlds in which tests expect something to happen: what comes of other coins is
likely and no more. The same whatever ``LIKESET_SEED`` is."""
SEED = int(os.environ.get("LIKESET_SEED", PINNED))
EXAMPLES = int(os.environ.get("LIKESET_EXAMPLES", "1"))
REPEATED_BY = f"LIKESET_SEED={SEED}" + (f" LIKESET_EXAMPLES={EXAMPLES}" if EXAMPLES > 1 else "")


def public_coins(name: int | str) -> np.random.Generator:
    """The coins of that name: the same for the same seed, and independent of those of any other name."""
    return np.random.default_rng([SEED, *str(name).encode()])


def pinned_coins(name: int | str) -> np.random.Generator:
    """The same, of a seed that never changes."""
    return np.random.default_rng([PINNED, *str(name).encode()])


def examples(count: int) -> int:
    """How many examples to try where ``count`` are usual: the soak tries ``LIKESET_EXAMPLES`` times as many."""
    return count * EXAMPLES
