"""What the public program of the split curator does on shares, in the clear: the same picks, the same swaps."""

import numpy as np
from numpy.typing import NDArray

from likeset.split.engine.schedule import adding_steps, seat, spare_seats, strip, swapping_steps

Numbers = NDArray[np.float64]


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
    for visit in range(swapping_steps(size)):
        run.swap([int(place.argmax()) for place in strip(size, visit) if place.any()])
    return run.picks


class _Run:
    def __init__(self, among: Numbers, score: Numbers, free: NDArray[np.bool_], picks: list[int]) -> None:
        self._among, self.score, self._free, self.picks = among, score, free, picks
        self._gone = 0.0  # kernels of the pick that goes in, which the choice of the next one does not know yet

    def add(self, goes: NDArray[np.int64], attraction: Numbers) -> None:
        at_once = goes.shape[1]
        raised = self.score + (at_once - 1) // 2 * attraction
        self.score = self.score + at_once * attraction
        for number in np.flatnonzero(goes.any(axis=0)):
            slots = np.arange(number, len(raised), at_once)
            self._put(int(goes[:, number].argmax()), _best(slots, raised, self._free))

    def swap(self, positions: list[int]) -> None:
        """Take out the pick that fits worst, by scores before the last one went in; the best slot takes its place."""
        stale = self.score + self._gone
        worst = min(positions, key=lambda position: _worth(self.picks[position], stale))
        out = self.picks[worst]
        if out >= 0:
            self.score, self._free[out] = self.score + self._among[out], True
        chosen = _best(np.arange(len(self.score)), self.score, self._free)
        self._put(worst, chosen)
        self._gone = self._among[chosen] if chosen >= 0 else 0.0

    def _put(self, position: int, slot: int) -> None:
        self.picks[position] = slot
        if slot >= 0:
            self.score, self._free[slot] = self.score - self._among[slot], False


def _best(slots: NDArray[np.int64], score: Numbers, free: NDArray[np.bool_]) -> int:
    usable = slots[free[slots]]
    return int(usable[score[usable].argmax()]) if len(usable) else -1


def _worth(pick: int, score: Numbers) -> float:
    return float(score[pick]) if pick >= 0 else -np.inf
