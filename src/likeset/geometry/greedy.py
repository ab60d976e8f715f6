"""Greedy matching: pick rows of a pool, one after another, so that together they look like the target.

Each pick maximises the marginal gain ``mean_v k(v, x) - q/(q+1) * mean_s k(s, x)``. Four ways to do it:

``exact``       every pick looks at every row: one matrix-vector product over the pool per pick.
``block``       the default: picks are made within an active set of the best rows; the pool is scored anew once per
                group of picks, by one matrix product. Groups are short while the summary is small, when a pick changes
                every score, and grow with it.
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
from likeset.geometry.kernels import KernelColumns, PoolKernel

__all__ = ["Match", "Method", "Progress", "match", "match_hashed", "uniform"]

Method = Literal["exact", "block", "stochastic", "features"]
Progress = Callable[[int, int], None]
"""Called with (picks made, picks wanted)."""

_METHODS = ("exact", "block", "stochastic", "features")
_DEPTH = 2  # active sets within active sets
_ACTIVE_SHARE = 0.25  # share of the rows in an active set ...
_TRAILING_SHARE = 0.1  # ... of which this share are its last rows: when one of them wins, the set is spent
_LARGEST_GROUP = 128  # picks between two scorings of all rows, at most: a wider matrix product gains no more speed
_FEW_ROWS = 4096  # a set this small is searched whole
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
        leading: all rows but the last of an active set; see ``spent_by``.
        level: the smallest score in an active set when it was chosen.
        similarity: how alike the rows are.
    """

    indices: NDArray[np.int64]
    attraction: NDArray[np.float64]
    repulsion: NDArray[np.float64]
    leading: NDArray[np.bool_]
    level: float
    similarity: _Similarity

    @classmethod
    def all_of(cls, attraction: NDArray[np.float64], similarity: _Similarity) -> Self:
        """Every row of a pool, before the first pick."""
        number = len(attraction)
        return cls(np.arange(number), attraction, np.zeros(number), np.ones(number, dtype=bool), -np.inf, similarity)

    def subset(self, positions: NDArray[np.int64], *, leading: NDArray[np.bool_], level: float) -> Self:
        """Some of the rows as a set of their own."""
        return type(self)(
            self.indices[positions],
            self.attraction[positions],
            self.repulsion[positions],
            leading,
            level,
            self.similarity.subset(positions),
        )

    def best(self, *, picks_made: int) -> tuple[NDArray[np.int64], Self]:
        """The active set: positions of the best rows, increasing, and these rows as a set of their own."""
        scores = self.attraction - self.repulsion / (picks_made + 1)
        chosen = _largest(scores, int(np.ceil(_ACTIVE_SHARE * len(scores))))
        kept = scores[chosen]
        last = int(_TRAILING_SHARE * len(kept))
        leading = kept >= np.partition(kept, last)[last]
        return chosen, self.subset(chosen, leading=leading, level=float(kept.min()))

    def take(self, picked: NDArray[np.int64]) -> None:
        """Strike out rows that were picked and score the others anew."""
        self.attraction[picked] = -np.inf
        self.repulsion += self.similarity.sums(picked)

    def spent_by(self, picked: int | NDArray[np.int64], picks: "_Picks") -> bool:
        """Whether the newest picks show that rows outside this active set would now compete.

        They do where a row won that was among the set's last, or where the winner scores less than rows outside did.
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
    for _ in _groups(picks, size, rows, depth=_DEPTH):
        pass
    return picks.result()


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


def _largest(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Positions of the ``count`` largest scores, increasing; of those that tie for the last places, the first."""
    edge = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > edge)
    tied = np.flatnonzero(scores == edge)[: count - len(above)]
    return np.sort(np.concatenate([above, tied]))


def _silent(_made: int, _wanted: int) -> None:
    """Report nothing."""
