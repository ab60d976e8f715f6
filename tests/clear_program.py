"""What the public program of the split curator does on shares, in the clear: the same picks, the same swaps."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from likeset.split.engine.agreement import (
    RANGE_TESTS,
    adding_steps,
    seat,
    slot_order,
    spare_seats,
    strip,
    swapping_steps,
)

Numbers = NDArray[np.float64]
Words = NDArray[np.int64]


def near_rows(words: Words, lows: Sequence[int], highs: Sequence[int]) -> NDArray[np.bool_]:
    """Rows that count: within the ranges; with many columns, no farther from the middle than the ends of all are."""
    low, high = np.array(lows, dtype=np.float64), np.array(highs, dtype=np.float64)
    if len(lows) <= RANGE_TESTS:
        return np.asarray(((words >= low) & (words <= high)).all(axis=1))
    away, half = words - (low + high) / 2, (high - low) / 2
    return np.asarray((away * away).sum(axis=1) <= (half * half).sum() * (1 + 1e-6))


def clear_selection(among: Numbers, attraction: Numbers, valid: NDArray[np.bool_], size: int) -> list[int]:
    """The slots that are opened, position by position; -1 where no valid slot was left.

    Args:
        among: kernels between all slots.
        attraction: of each slot to the target, on average.
        valid: slots that may be picked.
        size: positions.
    """
    run = _Run(among, attraction.copy(), valid.copy(), [-1] * size)
    for step in range(adding_steps(size)):
        run.add(seat(size, step), attraction)
    run.score -= (1 + spare_seats(size)) * attraction
    last = swapping_steps(size)
    for step in range(last + 1 if last else 0):
        visited = strip(size, step) if step < last else ()
        run.swap([int(place.argmax()) for place in visited if place.any()])
    return run.picks


class _Run:
    def __init__(self, among: Numbers, score: Numbers, free: NDArray[np.bool_], picks: list[int]) -> None:
        self._among, self.score, self._free, self.picks = among, score, free, picks
        self._order = slot_order(len(score))
        self._out = -1  # the position whose pick is out

    def add(self, goes: NDArray[np.int64], attraction: Numbers) -> None:
        at_once = goes.shape[1]
        raised = self.score + (at_once - 1) // 2 * attraction
        self.score = self.score + at_once * attraction
        for number in np.flatnonzero(goes.any(axis=0)):
            self._put(int(goes[:, number].argmax()), _best(self._order[number::at_once], raised, self._free))

    def swap(self, positions: list[int]) -> None:
        """Put the best slot where a pick is out; take out the one that fits worst, by scores before that went in."""
        score, filled = self.score, self._out
        chosen = _best(self._order, score, self._free)
        if positions:
            self._out = min(positions, key=lambda position: _worth(self.picks[position], score))
            gone, self.picks[self._out] = self.picks[self._out], -1
            if gone >= 0:
                self.score, self._free[gone] = self.score + self._among[gone], True
        if filled >= 0:
            self._put(filled, chosen)

    def _put(self, position: int, slot: int) -> None:
        self.picks[position] = slot
        if slot >= 0:
            self.score, self._free[slot] = self.score - self._among[slot], False


def _best(slots: NDArray[np.int64], score: Numbers, free: NDArray[np.bool_]) -> int:
    usable = slots[free[slots]]
    return int(usable[score[usable].argmax()]) if len(usable) else -1


def _worth(pick: int, score: Numbers) -> float:
    return float(score[pick]) if pick >= 0 else -np.inf
