"""In which order the program picks and reconsiders: it follows from public sizes alone.

Messages cost more than arithmetic, so several picks are made at a time, each from a strip of slots of its own. What
such picks do not know of each other is put right afterwards: positions stand in strips too, and of one strip after
another the pick that fits worst is taken out, and the best slot of all takes its place.

Several steps make a round: after each round the state is kept.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROUND_STEPS", "seats", "spare_seats", "strips"]

ROUND_STEPS = 10
"""Steps of a round; reading the program takes the engine as long as some steps."""
_STEPS = 50  # picks are made in about so many
_MOST_AT_ONCE = 16
_STRIP = 8  # positions of a strip, at most; fewer where there are few picks, so that it is not the same one each time
_FEWEST_STRIPS = 16
_MORE_PASSES = 2  # over all strips, beyond one for each position of a strip, where there are few picks
_FEW = 128

Words = NDArray[np.int64]


def seats(size: int) -> Words:
    """For each step that makes picks, each position, each strip of slots: 1 where the strip's pick goes there."""
    at_once = _at_once(size)
    steps = -(-size // at_once)
    made = np.zeros((steps * at_once, size), dtype=np.int64)
    made[:size] = np.eye(size, dtype=np.int64)
    return np.ascontiguousarray(made.reshape(steps, at_once, size).transpose(0, 2, 1))


def spare_seats(size: int) -> int:
    """Picks that the last step could have made beyond the number of positions."""
    return -size % _at_once(size)


def strips(size: int) -> Words:
    """For each visit of a strip, each of its places, each position: 1 where the place is that position.

    Positions stand in rows of as many as there are strips, and a strip has one of each row. In each pass over all
    strips the rows are shifted otherwise against each other. Of positions that are empty the first of a strip is
    filled: so the first pass leaves none in the first row, the next none in the second, the last none at all.
    """
    count = -(-size // max(1, min(_STRIP, size // _FEWEST_STRIPS)))
    positions = np.arange(size)
    rows = positions // count
    height = int(rows[-1]) + 1
    passes = height + (_MORE_PASSES if size <= _FEW else 0)
    visits = np.zeros((passes, count, height, size), dtype=np.int64)
    for shift in range(passes):
        visits[shift, (positions + shift * rows) % count, rows, positions] = 1
    return visits.reshape(-1, height, size)


def _at_once(size: int) -> int:
    return max(1, min(_MOST_AT_ONCE, size // _STEPS))
