"""Greedy matching: pick rows of a pool, one after another, so that together they look like the target.

Each pick maximises the marginal gain ``mean_v k(v, x) - q/(q+1) * mean_s k(s, x)``. Two ways to do it:

``exact``  every pick looks at every row: one matrix-vector product over the pool per pick.
``block``  the default: picks are made within an active set of the best rows and a sample of the others; the pool
           is scored anew once per group of picks, by one matrix product. A group ends when its picks show that
           rows left out would compete. Where rows are plenty, the pool is narrowed on the way.

Both are deterministic for given inputs; equal gains (up to rounding) go to the smaller index.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import KernelColumns, PoolKernel, precise_enough

# Greedy matching, the sets that it works on: the picks so far, and the rows that compete for the next ones.

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

    def __init__(self, size: int) -> None:
        self.indices = np.empty(size, dtype=np.int64)
        self.gains = np.empty(size)
        self.objectives = np.empty(size)
        self.made = 0
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

    def result(self) -> Match:
        return Match(indices=self.indices, gains=self.gains, objectives=self.objectives)


class Similarity(Protocol):
    """How alike the rows of a set are."""

    def row(self, position: int) -> NDArray[Any]: ...

    def sums(self, positions: NDArray[np.int64]) -> NDArray[np.float64]: ...

    def subset(self, positions: NDArray[np.int64]) -> Self: ...


@dataclass
class Candidates:
    """Rows that compete for the next picks, by their ``indices`` in the pool, increasing.

    ``attraction`` is the mean similarity with the target, minus infinity once picked, and ``repulsion`` the summed
    similarity with the picks so far. Rows whose ``lots`` are below ``odds`` are sampled into the set, whatever their
    score; ``leading`` are the others, without those that were the last of them when the set was chosen, at ``level``.
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


MatchMethod = Literal["exact", "block"]

_DEPTH = 2  # active sets within active sets
_FEW_ROWS = 10_000  # a set this small is searched whole
_LARGEST_GROUP = 128  # picks between two scorings of all rows, at most: a wider matrix product gains no more speed
_WATCHED_PICKS = (192, 512)  # after so many picks a pool is narrowed, ...
_NARROWED_SHARE = 0.25  # ... to this share, the rows that scored best so far ...
_NARROWED_SAMPLE = 0.125  # ... and to a sample of the others ...
_PLENTY_PER_PICK = 60  # ... if that leaves so many rows for each pick
_TIE = 1e-7


def exact_greedy(
    pool: ArrayLike,
    target: ArrayLike,
    size: int,
    *,
    gamma: float,
    method: MatchMethod = "block",
    target_weights: ArrayLike | None = None,
) -> Match:
    """Select ``size`` rows of the pool that together look like the target, with full sight of all rows: not private.

    Args:
        pool: candidate rows; float32 halves the memory and doubles the speed.
        target: rows to match.
        size: number of rows to select.
        gamma: width of the kernel ``exp(-gamma * ||x - y||²)``.
        method: ``block`` or ``exact``; see the module's description.
        target_weights: what each row of the target counts, summing to 1; alike if not given.
    """
    arguments.one_of("method", method, get_args(MatchMethod))
    attraction, kernel = _kernels(pool, target, gamma, target_weights)
    arguments.count("size", size, most=len(kernel), most_is="the number of rows in the pool")
    candidates = Candidates.all_of(attraction, kernel)
    if method == "block":
        return _match_block(candidates, size)
    picks = Picks(size)
    pick_among_all(picks, size, candidates)
    return picks.result()


def _kernels(
    pool: ArrayLike, target: ArrayLike, gamma: float, target_weights: ArrayLike | None
) -> tuple[NDArray[np.float64], PoolKernel]:
    """The mean kernel of each row of a pool with the target, and the kernel among the pool's rows."""
    rows, wanted = arguments.matrix("pool", pool), arguments.matrix("target", target)
    arguments.same_columns("pool", rows, "target", wanted)
    arguments.positive("gamma", gamma)
    shares = None if target_weights is None else arguments.shares("target_weights", target_weights, length=len(wanted))
    rows = precise_enough(rows, gamma=gamma, centre=wanted.mean(axis=0, dtype=np.float64))
    attraction = KernelColumns(wanted, gamma=gamma, dtype=rows.dtype).means(rows, weights=shares)
    return attraction, PoolKernel(rows, gamma=gamma)


def _match_block(rows: Candidates, size: int) -> Match:
    picks = Picks(size)
    kept_share = _NARROWED_SHARE + _NARROWED_SAMPLE * (1.0 - _NARROWED_SHARE)
    for watched in _WATCHED_PICKS:
        if watched < size and kept_share * len(rows.indices) >= _PLENTY_PER_PICK * size:
            rows = _narrow(picks, watched, rows)
    for _ in _groups(picks, size, rows, depth=_DEPTH):
        pass
    return picks.result()


def _narrow(picks: Picks, last: int, rows: Candidates) -> Candidates:
    """Make picks until ``last`` are made; return the rows that scored best on average and some of the others.

    Where rows are plenty, most of those that keep scoring low are never picked, yet scoring them is most of the work.
    """
    standing = np.zeros(len(rows.indices))
    for picked in _groups(picks, last, rows, depth=_DEPTH):
        # Scores shrink like one over the number of picks; without that each scoring counts alike.
        standing += (picks.made + 1) * rows.scores(picks_made=picks.made)
        newest = picked
    rows.take(newest)
    standing[~np.isfinite(rows.attraction)] = -np.inf
    return rows.subset(standing, _NARROWED_SHARE, sampled=_NARROWED_SAMPLE)[1]


def _groups(picks: Picks, last: int, rows: Candidates, *, depth: int) -> Iterator[NDArray[np.int64]]:
    """Make picks until ``last`` are made, in groups, each among the best rows only; yields the positions picked.

    As picks are made, the scores of the best rows fall, until rows left out of the active set would win. When the
    picks show it (``spent_by``) the group ends and all rows are scored anew. So groups are as long as the data allow,
    and no setting depends on the data. An active set is itself searched in groups, ``depth`` times over.
    """
    if depth == 0 or len(rows.indices) <= _FEW_ROWS:
        yield pick_among_all(picks, last, rows)
        return
    finished = picks.made == last
    while not finished:
        active, best_rows = rows.best(picks_made=picks.made)
        group_end = min(picks.made + _LARGEST_GROUP, last)
        picked = active[np.concatenate(list(_groups(picks, group_end, best_rows, depth=depth - 1)))]
        finished = picks.made == last or rows.spent_by(picked, picks)
        if not finished:
            rows.take(picked)
        yield picked


def pick_among_all(picks: Picks, last: int, rows: Candidates) -> NDArray[np.int64]:
    """Make picks until ``last`` are made or the set is spent, each looking at every row; returns their positions."""
    scores = np.empty(len(rows.indices))
    positions = []
    while picks.made < last:
        np.multiply(rows.repulsion, -1.0 / (picks.made + 1), out=scores)
        scores += rows.attraction
        # Rows that are equal up to rounding count as tied: the result must not depend on how a product was blocked.
        best = int(np.argmax(scores >= scores.max() - _TIE))
        similar = rows.similarity.row(best)
        picks.add(
            int(rows.indices[best]),
            attraction=float(rows.attraction[best]),
            repulsion=float(rows.repulsion[best]),
            self_similarity=float(similar[best]),
        )
        positions.append(best)
        rows.attraction[best] = -np.inf
        rows.repulsion += similar
        if rows.spent_by(best, picks):
            break
    return np.array(positions)


# Swap refinement: replace selected rows, one at a time, wherever another row of the pool does better.

_SWAP_GROUP = 16  # selected rows that are reconsidered between two scorings of the whole pool
_SWAP_SHARE = 0.125  # share of the pool that stands ready to replace them
_FEWEST_SWAPPED_IN = 4096
_LEAST_GAIN = 1e-7  # a better score by less than rounding is not better


def swap(
    pool: ArrayLike,
    target: ArrayLike,
    selected: ArrayLike,
    *,
    gamma: float,
    passes: int = 1,
    target_weights: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Improve a selection by swaps; every swap lowers its squared MMD to the target.

    Each selected row in turn is taken out and the best row of an active set put in its place, possibly itself.
    """
    arguments.count("passes", passes, least=0)
    attraction, kernel = _kernels(pool, target, gamma, target_weights)
    chosen = _indices(selected, len(kernel))
    repulsion = np.zeros(len(kernel))
    for first in range(0, len(chosen), 128):
        repulsion += kernel.sums(chosen[first : first + 128])
    for _ in range(passes):
        before = chosen.copy()
        for first in range(0, len(chosen), _SWAP_GROUP):
            group = slice(first, min(first + _SWAP_GROUP, len(chosen)))
            removed = chosen[group].copy()
            _swap_group(chosen, group, kernel, attraction, repulsion)
            changed = removed != chosen[group]
            if changed.any():
                repulsion += kernel.sums(chosen[group][changed]) - kernel.sums(removed[changed])
        if np.array_equal(before, chosen):
            break
    return chosen


def _swap_group(
    chosen: NDArray[np.int64],
    group: slice,
    kernel: PoolKernel,
    attraction: NDArray[np.float64],
    repulsion: NDArray[np.float64],
) -> None:
    free = np.ones(len(attraction), dtype=bool)
    free[chosen] = False
    candidates = _best_free(attraction - repulsion / len(chosen), free)
    active = np.union1d(candidates, chosen[group])
    similarity = kernel.subset(active)
    available = free[active]
    own_attraction, own_repulsion = attraction[active], repulsion[active]
    for index in range(group.start, group.stop):
        current = int(np.searchsorted(active, chosen[index]))
        own_repulsion -= similarity.row(current)
        available[current] = True
        # The gain of a row when the other len(chosen) - 1 rows are in place.
        scores = np.where(available, own_attraction - own_repulsion / len(chosen), -np.inf)
        best = int(np.argmax(scores))
        if scores[best] <= scores[current] + _LEAST_GAIN:
            best = current
        available[best] = False
        own_repulsion += similarity.row(best)
        chosen[index] = active[best]


def _best_free(scores: NDArray[np.float64], free: NDArray[np.bool_]) -> NDArray[np.int64]:
    positions = np.flatnonzero(free)
    count = min(len(positions), max(_FEWEST_SWAPPED_IN, int(_SWAP_SHARE * len(scores))))
    if count == len(positions):
        return positions
    return positions[np.argpartition(scores[positions], len(positions) - count)[len(positions) - count :]]


def _indices(selected: ArrayLike, pool_rows: int) -> NDArray[np.int64]:
    chosen = arguments.row_numbers("selected", selected)
    if len(chosen) == 0:
        raise InvalidArgument("selected", "no rows", "must list at least one row of the pool")
    if chosen.max() >= pool_rows:
        raise InvalidArgument("selected", int(chosen.max()), f"must lie in 0 to {pool_rows - 1}")
    if len(np.unique(chosen)) != len(chosen):
        raise InvalidArgument("selected", f"{len(chosen)} rows", "names a row twice")
    return chosen
