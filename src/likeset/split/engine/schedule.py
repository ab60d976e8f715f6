"""In which order the program picks and reconsiders: it follows from public sizes alone.

Messages cost more than arithmetic, so several picks are made at a time, each from a strip of slots of its own. What
such picks do not know of each other is put right afterwards: positions stand in strips too, and of one strip after
another the pick that fits worst is taken out, and the best slot of all takes its place.

Several steps make a round: after each round the state is kept.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROUND_STEPS", "adding_steps", "seat", "spare_seats", "strip", "swapping_steps"]

ROUND_STEPS = 10
"""Steps of a round; reading the program takes the engine as long as some steps."""
_STEPS = 50  # picks are made in about so many
_MOST_AT_ONCE = 16
_STRIP = 8  # positions of a strip, at most; fewer where there are few picks, so that it is not the same one each time
_FEWEST_STRIPS = 16
_MORE_PASSES = 2  # over all strips, beyond one for each position of a strip, where there are few picks
_FEW = 128

Words = NDArray[np.int64]


def adding_steps(size: int) -> int:
    """Steps that make picks, until all positions had their turn."""
    return -(-size // _at_once(size))


def seat(size: int, step: int) -> Words:
    """For each position and each strip of slots: 1 where the strip's pick of this step goes there."""
    at_once = _at_once(size)
    goes = np.zeros((size, at_once), dtype=np.int64)
    positions = np.arange(step * at_once, min(size, (step + 1) * at_once))
    goes[positions, positions - step * at_once] = 1
    return goes


def spare_seats(size: int) -> int:
    """Picks that the last step could have made beyond the number of positions."""
    return -size % _at_once(size)


def swapping_steps(size: int) -> int:
    """Steps that swap, each after another visit of a strip of positions."""
    count, height = _strips(size)
    return count * (height + (_MORE_PASSES if size <= _FEW else 0))


def strip(size: int, visit: int) -> Words:
    """For each place of the strip that is visited and each position: 1 where the place is that position.

    Positions stand in rows of as many as there are strips, and a strip has one of each row. In each pass over all
    strips the rows are shifted otherwise against each other. Of positions that are empty the first of a strip is
    filled: so the first pass leaves none in the first row, the next none in the second, the last none at all.
    """
    count, height = _strips(size)
    shift, number = divmod(visit, count)
    rows = np.arange(height)
    positions = rows * count + (number - shift * rows - rows * count) % count
    places = np.zeros((height, size), dtype=np.int64)
    there = positions < size
    places[rows[there], positions[there]] = 1
    return places


def _at_once(size: int) -> int:
    return max(1, min(_MOST_AT_ONCE, size // _STEPS))


def _strips(size: int) -> tuple[int, int]:
    """How many there are, and positions of each, at most."""
    count = -(-size // max(1, min(_STRIP, size // _FEWEST_STRIPS)))
    return count, -(-size // count)
