"""Greedy matching: pick rows of a pool, one after another, so that together they look like the target.

Each pick maximises the marginal gain ``mean_v k(v, x) - q/(q+1) * mean_s k(s, x)``. Four ways to do it:

``exact``       every pick looks at every row: one matrix-vector product over the pool per pick.
``block``       the default: picks are made within an active set of the best rows and a sample of the others; the pool
                is scored anew once per group of picks, by one matrix product. A group ends when its picks show that
                rows left out would compete. Where rows are plenty, the pool is narrowed on the way.
``stochastic``  for millions of rows: one pass draws candidates that already resemble the target (the witness tilt),
                ``block`` selects among them. The cost of the pass does not depend on the size of the summary.
``features``    the paper's non-private baseline: exact greedy, but on the inner products of Fourier features.

All are deterministic for given inputs; equal gains (up to rounding) go to the smaller index.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry import tilt
from likeset.geometry.features import FourierFeatures
from likeset.geometry.kernels import KernelColumns, PoolKernel, precise_enough

__all__ = ["Match", "Method", "Progress", "largest", "match", "match_hashed", "uniform"]

Method = Literal["exact", "block", "stochastic", "features"]
Progress = Callable[[int, int], None]
"""Called with (picks made, picks wanted)."""

_METHODS = ("exact", "block", "stochastic", "features")
_DEPTH = 2  # active sets within active sets
_FEW_ROWS = 10_000  # a set this small is searched whole
_ACTIVE_SHARE = 0.25  # share of the best rows in an active set ...
_TRAILING_SHARE = 0.1  # ... of which this share are its last rows
_SAMPLED_SHARE = 0.0625  # share of the other rows; when one of these or of the last rows wins, the set is spent
_LARGEST_GROUP = 128  # picks between two scorings of all rows, at most: a wider matrix product gains no more speed
_WATCHED_PICKS = (192, 512)  # after so many picks a pool is narrowed, ...
_NARROWED_SHARE = 0.25  # ... to this share, the rows that scored best so far ...
_NARROWED_SAMPLE = 0.125  # ... and to a sample of the others ...
_PLENTY_PER_PICK = 60  # ... if that leaves so many rows for each pick
_GOLDEN_RATIO = 0.6180339887498949
_CANDIDATES_PER_PICK = 20  # rows that ``stochastic`` draws for each row of the summary
_FEWEST_CANDIDATES = 20_000
_STOCHASTIC_DIMENSION = 256
_PAPER_DIMENSION = 140
_TIE = 1e-7


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


def match(
    pool: ArrayLike,
    target: ArrayLike,
    size: int,
    *,
    gamma: float,
    method: Method = "block",
    features: FourierFeatures | None = None,
    coins: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Match:
    """Select ``size`` rows of the pool that together look like the target.

    Args:
        pool: candidate rows; float32 halves the memory and doubles the speed.
        target: rows to match.
        size: number of rows to select.
        gamma: width of the kernel ``exp(-gamma * ||x - y||²)``.
        method: ``block``, ``exact``, ``stochastic`` or ``features``; see the module's description.
        features: feature map of ``features`` (default: Algorithm 1 with 140 dimensions) and of ``stochastic``.
        coins: draws the candidates of ``stochastic``; a fixed draw if not given.
        progress: called now and then with (picks made, picks wanted).
    """
    rows, wanted = arguments.matrix("pool", pool), arguments.matrix("target", target)
    arguments.same_columns("pool", rows, "target", wanted)
    arguments.count("size", size, most=len(rows), most_is="the number of rows in the pool")
    arguments.positive("gamma", gamma)
    arguments.one_of("method", method, _METHODS)
    if features is not None and features.columns != rows.shape[1]:
        raise InvalidArgument(
            "features", f"map of {features.columns} columns", f"must have {rows.shape[1]}, as the pool"
        )
    report = progress or _silent
    if method == "features":
        hashed = features or FourierFeatures(rows.shape[1], _PAPER_DIMENSION, gamma, seed=0, kind="paper")
        return match_hashed(hashed(rows), hashed(wanted), size, progress=report)
    rows = precise_enough(rows, gamma=gamma, centre=wanted.mean(axis=0, dtype=np.float64))
    if method == "stochastic":
        hashed = features or FourierFeatures(rows.shape[1], _STOCHASTIC_DIMENSION, gamma, seed=0)
        return _match_stochastic(rows, wanted, size, gamma, hashed, coins, report)
    if method == "exact":
        return _match_exact(rows, wanted, size, gamma, report)
    return _match_block(rows, wanted, size, gamma, report)


def match_hashed(pool: ArrayLike, target: ArrayLike, size: int, *, progress: Progress | None = None) -> Match:
    """Select rows by the inner products of their feature vectors, for somebody who sees nothing else of them."""
    rows, wanted = arguments.matrix("pool", pool), arguments.matrix("target", target)
    arguments.same_columns("pool", rows, "target", wanted)
    arguments.count("size", size, most=len(rows), most_is="the number of rows in the pool")
    hashed = _HashedRows(rows.astype(np.float32, copy=False))
    attraction = hashed.rows @ wanted.mean(axis=0, dtype=np.float64).astype(np.float32)
    picks = _Picks(size, progress or _silent)
    _pick(picks, size, _Candidates.all_of(attraction.astype(np.float64), hashed))
    return picks.result()


def uniform(owner_sizes: Sequence[int], size: int, *, coins: np.random.Generator) -> list[NDArray[np.int64]]:
    """The uniform baseline: the same number of random rows from each owner, as in the paper.

    An owner with fewer rows gives all it has, and the others make up for it; what does not divide evenly goes to
    the first owners.

    Returns:
        for each owner the chosen rows, in increasing order.
    """
    sizes = [arguments.count(f"owner_sizes[{place}]", rows, least=0) for place, rows in enumerate(owner_sizes)]
    arguments.count("size", size, most=sum(sizes), most_is="the number of rows of all owners")
    quota = [0] * len(sizes)
    remaining = size
    while remaining:
        open_owners = [place for place, rows in enumerate(sizes) if quota[place] < rows]
        each, singles = divmod(remaining, len(open_owners))
        for turn, place in enumerate(open_owners):
            # Single rows are handed out only once fewer are left than owners who have some.
            given = min(each, sizes[place] - quota[place]) if each else int(turn < singles)
            quota[place] += given
            remaining -= given
    return [
        np.sort(coins.choice(rows, size=chosen, replace=False)).astype(np.int64)
        for rows, chosen in zip(sizes, quota, strict=True)
    ]


class _Picks:
    """The picks so far, and the two sums from which the objective follows."""

    def __init__(self, size: int, report: Progress) -> None:
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
        return Match(indices=self.indices, gains=self.gains, objectives=self.objectives)


class _Similarity(Protocol):
    """How alike the rows of a set are."""

    def row(self, position: int) -> NDArray[Any]:
        """Similarity of every row with one of them."""

    def sums(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Summed similarity of every row with some of them."""

    def subset(self, positions: NDArray[np.int64]) -> Self:
        """The same among some of the rows."""


@dataclass
class _Candidates:
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
    similarity: _Similarity
    lots: NDArray[np.float32]
    odds: float
    leading: NDArray[np.bool_]
    level: float = -np.inf

    @classmethod
    def all_of(cls, attraction: NDArray[np.float64], similarity: _Similarity) -> Self:
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
        wanted[largest(scores, int(np.ceil(share * len(scores))))] = True
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

    def spent_by(self, picked: int | NDArray[np.int64], picks: "_Picks") -> bool:
        """Whether the newest picks show that rows outside this active set would now compete.

        They do where a row won that stands for them, or where the winner scores less than they did.
        """
        return not np.all(self.leading[picked]) or picks.gains[picks.made - 1] < self.level


def _match_exact(pool: Rows, target: Rows, size: int, gamma: float, report: Progress) -> Match:
    attraction = KernelColumns(target, gamma=gamma, dtype=pool.dtype).sums(pool) / len(target)
    picks = _Picks(size, report)
    _pick(picks, size, _Candidates.all_of(attraction, PoolKernel(pool, gamma=gamma)))
    return picks.result()


def _match_block(pool: Rows, target: Rows, size: int, gamma: float, report: Progress) -> Match:
    attraction = KernelColumns(target, gamma=gamma, dtype=pool.dtype).sums(pool) / len(target)
    picks = _Picks(size, report)
    rows = _Candidates.all_of(attraction, PoolKernel(pool, gamma=gamma))
    kept_share = _NARROWED_SHARE + _NARROWED_SAMPLE * (1.0 - _NARROWED_SHARE)
    for watched in _WATCHED_PICKS:
        if watched < size and kept_share * len(rows.indices) >= _PLENTY_PER_PICK * size:
            rows = _narrow(picks, watched, rows)
    for _ in _groups(picks, size, rows, depth=_DEPTH):
        pass
    return picks.result()


def _narrow(picks: _Picks, last: int, rows: _Candidates) -> _Candidates:
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


def _match_stochastic(
    pool: Rows,
    target: Rows,
    size: int,
    gamma: float,
    features: FourierFeatures,
    coins: np.random.Generator | None,
    report: Progress,
) -> Match:
    count = max(_CANDIDATES_PER_PICK * size, _FEWEST_CANDIDATES)
    if count >= len(pool):
        return _match_block(pool, target, size, gamma, report)
    key = 0 if coins is None else int(coins.integers(2**63))
    subsample = np.sort(tilt.draw(np.zeros(len(pool)), np.arange(len(pool)), count, key=key).row_numbers)
    fitted = tilt.fit(
        features(pool[subsample]), features.mean(target), noise_energy=0.0, wanted=count, population=len(pool)
    )
    scores = np.empty(len(pool))
    for place, hashed in features.blocks(pool):
        scores[place] = fitted.score(hashed)
    candidates = np.sort(tilt.draw(scores, np.arange(len(pool)), count, key=key).row_numbers)
    chosen = _match_block(pool[candidates], target, size, gamma, report)
    return Match(indices=candidates[chosen.indices], gains=chosen.gains, objectives=chosen.objectives)


@dataclass(frozen=True)
class _HashedRows:
    """Similarity by inner products of feature rows."""

    rows: NDArray[np.float32]

    def row(self, position: int) -> NDArray[np.float32]:
        return np.asarray(self.rows @ self.rows[position])

    def sums(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(self.rows @ self.rows[positions].sum(axis=0), dtype=np.float64)

    def subset(self, positions: NDArray[np.int64]) -> Self:
        return type(self)(self.rows[positions])


def _groups(picks: _Picks, last: int, rows: _Candidates, *, depth: int) -> Iterator[NDArray[np.int64]]:
    """Make picks until ``last`` are made, in groups, each among the best rows only; yields the positions picked.

    As picks are made, the scores of the best rows fall, until rows left out of the active set would win. When the
    picks show it (``spent_by``) the group ends and all rows are scored anew. So groups are as long as the data allow,
    and no setting depends on the data. An active set is itself searched in groups, ``depth`` times over.
    """
    if depth == 0 or len(rows.indices) <= _FEW_ROWS:
        yield _pick(picks, last, rows)
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


def _pick(picks: _Picks, last: int, rows: _Candidates) -> NDArray[np.int64]:
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


def largest(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
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


def _silent(_made: int, _wanted: int) -> None:
    """Report nothing."""
