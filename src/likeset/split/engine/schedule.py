"""In which order the program picks and reconsiders: it follows from public sizes alone.

Messages cost more than arithmetic, so several picks are made at a time, each from a strip of slots of its own. What
such picks do not know of each other is put right afterwards: positions stand in strips too, and of one strip after
another the pick that fits worst is taken out, and the best slot of all takes its place.

Slots stand in an order that depends on nothing but their number, so that every strip has its part of all owners' slots,
wherever the filled ones are. They fill a grid; what it has beyond them stays empty.

Several steps make a round: the engine reads the program once for each.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ROUND_STEPS",
    "adding_steps",
    "grid",
    "seat",
    "slot_count",
    "slot_order",
    "spare_seats",
    "strip",
    "swapping_steps",
]

ROUND_STEPS = 25
"""Steps of a round; reading the program takes the engine as long as some steps."""
_STEPS = 50  # picks are made in about so many
_MOST_AT_ONCE = 16
_STRIP = 8  # positions of a strip, at most; fewer where there are few picks, so that it is not the same one each time
_FEWEST_STRIPS = 16
_PASSES = 5  # over all strips, at most; what more of them gain is small
_MORE_PASSES = 2  # beyond one for each position of a strip, at most

Words = NDArray[np.int64]


def slot_order(offers: int) -> Words:
    """Which slot stands where: by hashes of their numbers."""
    hashes = [hashlib.sha256(b"likeset slot %d" % slot).digest() for slot in range(offers)]
    return np.array(sorted(range(offers), key=hashes.__getitem__), dtype=np.int64)


def grid(offers: int, size: int) -> tuple[int, int]:
    """Lines of slots, and slots of a line: as many of them as every step has strips, or twice that, and so on."""
    at_once = _at_once(size)
    line = -(-int(np.ceil(np.sqrt(offers))) // at_once) * at_once
    return -(-offers // line), line


def slot_count(offers: int, size: int) -> int:
    """Slots of the grid, empty ones at its end included."""
    lines, line = grid(offers, size)
    return lines * line


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
    """Steps that swap, each after another visit of a strip of positions; a single pick is the best one already."""
    count, height = _strips(size)
    return 0 if size == 1 else count * min(_PASSES, height + _MORE_PASSES)


def strip(size: int, visit: int) -> Words:
    """For each place of the strip that is visited and each position: 1 where the place is that position.

    Positions stand in rows of as many as there are strips, and a strip has one of each row. In each pass over all
    strips the rows are shifted otherwise against each other, and a pass begins where no position of its first strip
    was in the last one of the pass before: two strips that follow one another have none in common.
    """
    count, height = _strips(size)
    shift, number = divmod(visit, count)
    number += shift * (height - 1)
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
