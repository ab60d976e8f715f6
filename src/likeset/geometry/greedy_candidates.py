"""Greedy matching, the sets that it works on: the picks so far, and the rows that compete for the next ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Candidates", "Match", "PickProgress", "Picks", "Similarity", "largest_positions"]

PickProgress = Callable[[int, int], None]
"""Called with (picks made, picks wanted)."""

_ACTIVE_SHARE = 0.25  # share of the best rows in an active set ...
_TRAILING_SHARE = 0.1  # ... of which this share are its last rows
_SAMPLED_SHARE = 0.0625  # share of the other rows; when one of these or of the last rows wins, the set is spent
_GOLDEN_RATIO = 0.6180339887498949


@dataclass(frozen=True)
class Match:
    """Rows selected, in order of selection.

    Attributes:
        indices: rows of the pool.
        gains: marginal gain of each pick when it was made.
        objectives: the objective J after each pick; the squared MMD is the target's own mean kernel less this.
    """

    indices: NDArray[np.int64]
    gains: NDArray[np.float64]
    objectives: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.indices)


class Picks:
    """The picks so far, and the two sums from which the objective follows."""

    def __init__(self, size: int, report: PickProgress) -> None:
        self.indices = np.empty(size, dtype=np.int64)
        self.gains = np.empty(size)
        self.objectives = np.empty(size)
        self.made = 0
        self._report = report
        self._attraction = 0.0  # sum over picks of mean_v k(v, x)
        self._repulsion = 0.0  # sum over pairs of picks of k(x, x')

    def add(self, index: int, *, attraction: float, repulsion: float, self_similarity: float) -> None:
        """One more pick, with its mean kernel with the target and its summed kernel with the picks before it."""
        self.indices[self.made] = index
        self.gains[self.made] = attraction - repulsion / (self.made + 1)
        self._attraction += attraction
        self._repulsion += 2.0 * repulsion + self_similarity
        self.made += 1
        self.objectives[self.made - 1] = 2.0 * self._attraction / self.made - self._repulsion / self.made**2
        self._report(self.made, len(self.indices))

    def result(self) -> Match:
        """The picks as they are now."""
        return Match(indices=self.indices, gains=self.gains, objectives=self.objectives)


class Similarity(Protocol):
    """How alike the rows of a set are."""

    def row(self, position: int) -> NDArray[Any]:
        """Similarity of every row with one of them."""

    def sums(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Summed similarity of every row with some of them."""

    def subset(self, positions: NDArray[np.int64]) -> Self:
        """The same among some of the rows."""


@dataclass
class Candidates:
    """Rows that compete for the next picks.

    Attributes:
        indices: the rows' places in the pool, increasing.
        attraction: mean similarity with the target; minus infinity once picked.
        repulsion: summed similarity with the picks so far.
        similarity: how alike the rows are.
        lots: decide which rows are sampled; see ``_draw_lots``.
        odds: rows with smaller lots are sampled into this set, whatever their score.
        leading: the others, without those that were the last of them when the set was chosen.
        level: the score of the last then.
    """

    indices: NDArray[np.int64]
    attraction: NDArray[np.float64]
    repulsion: NDArray[np.float64]
    similarity: Similarity
    lots: NDArray[np.float32]
    odds: float
    leading: NDArray[np.bool_]
    level: float = -np.inf

    @classmethod
    def all_of(cls, attraction: NDArray[np.float64], similarity: Similarity) -> Self:
        """Every row of a pool, before the first pick."""
        number = len(attraction)
        every = np.ones(number, dtype=bool)
        return cls(
            np.arange(number), attraction, np.zeros(number), similarity, _draw_lots(attraction), odds=1.0, leading=every
        )

    def scores(self, *, picks_made: int) -> NDArray[np.float64]:
        """Each row's marginal gain; minus infinity once picked."""
        scores = self.repulsion * (-1.0 / (picks_made + 1))
        scores += self.attraction
        return scores

    def best(self, *, picks_made: int) -> tuple[NDArray[np.int64], Self]:
        """The active set: positions of its rows, increasing, and these rows as a set of their own."""
        scores = self.scores(picks_made=picks_made)
        chosen, part = self.subset(scores, _ACTIVE_SHARE, sampled=_SAMPLED_SHARE)
        kept = scores[chosen]
        best = int(np.ceil(_ACTIVE_SHARE * len(scores)))
        last = len(kept) - best + int(_TRAILING_SHARE * best)
        edges = np.partition(kept, [len(kept) - best, last])
        part.level, part.leading = float(edges[len(kept) - best]), kept >= edges[last]
        return chosen, part

    def subset(self, scores: NDArray[np.float64], share: float, *, sampled: float) -> tuple[NDArray[np.int64], Self]:
        """The rows of the best scores and a sample of the others: their positions, and a set of their own.

        The sample has rows of all kinds: where scores change quickly, or the best rows are much alike, one of it is
        nearly as good as any row left out.
        """
        odds = sampled * self.odds
        wanted = (self.lots < odds) & np.isfinite(scores)
        wanted[largest_positions(scores, int(np.ceil(share * len(scores))))] = True
        chosen = np.flatnonzero(wanted)
        return chosen, type(self)(
            self.indices[chosen],
            self.attraction[chosen],
            self.repulsion[chosen],
            self.similarity.subset(chosen),
            self.lots[chosen],
            odds=odds,
            leading=np.ones(len(chosen), dtype=bool),
        )

    def take(self, picked: NDArray[np.int64]) -> None:
        """Strike out rows that were picked and score the others anew."""
        self.attraction[picked] = -np.inf
        self.repulsion += self.similarity.sums(picked)

    def spent_by(self, picked: int | NDArray[np.int64], picks: Picks) -> bool:
        """Whether the newest picks show that rows outside this active set would now compete.

        They do where a row won that stands for them, or where the winner scores less than they did.
        """
        return not np.all(self.leading[picked]) or picks.gains[picks.made - 1] < self.level


def largest_positions(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Positions of the ``count`` largest scores, increasing; of those that tie for the last places, the first."""
    edge = np.partition(scores, len(scores) - count)[len(scores) - count]
    chosen = scores > edge
    tied = np.flatnonzero(scores == edge)
    chosen[tied[: count - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def _draw_lots(attraction: NDArray[np.float64]) -> NDArray[np.float32]:
    """A number between 0 and 1 for each row, spread evenly over the rows, yet the same for rows that are equal.

    It is made of the leading digits of the row's attraction, so that it depends neither on the order of the rows nor
    on a seed. Rows of no attraction get 1.
    """
    digits, _ = np.frexp(attraction)
    lots = np.rint(digits * 2.0**18) * _GOLDEN_RATIO % 1.0
    return np.where(attraction > 0.0, lots, 1.0).astype(np.float32)
