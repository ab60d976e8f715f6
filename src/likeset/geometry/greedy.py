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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry import tilt
from likeset.geometry.features import FourierFeatures
from likeset.geometry.greedy_candidates import Candidates, Match, PickProgress, Picks
from likeset.geometry.kernels import KernelColumns, PoolKernel, precise_enough

__all__ = ["Match", "MatchMethod", "PickProgress", "match", "match_hashed"]

MatchMethod = Literal["exact", "block", "stochastic", "features"]

_METHODS = ("exact", "block", "stochastic", "features")
_DEPTH = 2  # active sets within active sets
_FEW_ROWS = 10_000  # a set this small is searched whole
_LARGEST_GROUP = 128  # picks between two scorings of all rows, at most: a wider matrix product gains no more speed
_WATCHED_PICKS = (192, 512)  # after so many picks a pool is narrowed, ...
_NARROWED_SHARE = 0.25  # ... to this share, the rows that scored best so far ...
_NARROWED_SAMPLE = 0.125  # ... and to a sample of the others ...
_PLENTY_PER_PICK = 60  # ... if that leaves so many rows for each pick
_CANDIDATES_PER_PICK = 20  # rows that ``stochastic`` draws for each row of the summary
_FEWEST_CANDIDATES = 20_000
_STOCHASTIC_DIMENSION = 256
_PAPER_DIMENSION = 140
_TIE = 1e-7


def match(
    pool: ArrayLike,
    target: ArrayLike,
    size: int,
    *,
    gamma: float,
    method: MatchMethod = "block",
    features: FourierFeatures | None = None,
    coins: np.random.Generator | None = None,
    progress: PickProgress | None = None,
    target_weights: ArrayLike | None = None,
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
        target_weights: what each row of the target counts, summing to 1; for ``block`` and ``exact``.
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
    shares = None if target_weights is None else arguments.shares("target_weights", target_weights, length=len(wanted))
    if shares is not None and method in ("stochastic", "features"):
        raise InvalidArgument("target_weights", "given", "go with method block or exact only")
    report = progress or _silent
    if method == "features":
        hashed = features or FourierFeatures(rows.shape[1], _PAPER_DIMENSION, gamma, seed=0, kind="paper")
        return match_hashed(hashed(rows), hashed(wanted), size, progress=report)
    rows = precise_enough(rows, gamma=gamma, centre=wanted.mean(axis=0, dtype=np.float64))
    if method == "stochastic":
        hashed = features or FourierFeatures(rows.shape[1], _STOCHASTIC_DIMENSION, gamma, seed=0)
        return _match_stochastic(rows, wanted, size, gamma, hashed, coins, report)
    candidates = _candidates(rows, wanted, gamma, shares)
    if method == "block":
        return _match_block(candidates, size, report)
    picks = Picks(size, report)
    _pick(picks, size, candidates)
    return picks.result()


def match_hashed(pool: ArrayLike, target: ArrayLike, size: int, *, progress: PickProgress | None = None) -> Match:
    """Select rows by the inner products of their feature vectors, for somebody who sees nothing else of them."""
    rows, wanted = arguments.matrix("pool", pool), arguments.matrix("target", target)
    arguments.same_columns("pool", rows, "target", wanted)
    arguments.count("size", size, most=len(rows), most_is="the number of rows in the pool")
    hashed = _HashedRows(rows.astype(np.float32, copy=False))
    attraction = hashed.rows @ wanted.mean(axis=0, dtype=np.float64).astype(np.float32)
    picks = Picks(size, progress or _silent)
    _pick(picks, size, Candidates.all_of(attraction.astype(np.float64), hashed))
    return picks.result()


def _candidates(pool: Rows, target: Rows, gamma: float, shares: NDArray[np.float64] | None = None) -> Candidates:
    """All rows of a pool, each with its mean kernel to the target."""
    attraction = KernelColumns(target, gamma=gamma, dtype=pool.dtype).means(pool, weights=shares)
    return Candidates.all_of(attraction, PoolKernel(pool, gamma=gamma))


def _match_block(rows: Candidates, size: int, report: PickProgress) -> Match:
    picks = Picks(size, report)
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


def _match_stochastic(
    pool: Rows,
    target: Rows,
    size: int,
    gamma: float,
    features: FourierFeatures,
    coins: np.random.Generator | None,
    report: PickProgress,
) -> Match:
    count = max(_CANDIDATES_PER_PICK * size, _FEWEST_CANDIDATES)
    if count >= len(pool):
        return _match_block(_candidates(pool, target, gamma), size, report)
    key = 0 if coins is None else int(coins.integers(2**63))
    subsample = np.sort(tilt.draw(np.zeros(len(pool)), np.arange(len(pool)), count, key=key).row_numbers)
    fitted = tilt.fit(
        features(pool[subsample]), features.mean(target), noise_energy=0.0, wanted=count, population=len(pool)
    )
    scores = np.empty(len(pool))
    for part, hashed in features.blocks(pool):
        scores[part] = fitted.score(hashed)
    candidates = np.sort(tilt.draw(scores, np.arange(len(pool)), count, key=key).row_numbers)
    chosen = _match_block(_candidates(pool[candidates], target, gamma), size, report)
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


def _groups(picks: Picks, last: int, rows: Candidates, *, depth: int) -> Iterator[NDArray[np.int64]]:
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


def _pick(picks: Picks, last: int, rows: Candidates) -> NDArray[np.int64]:
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


def _silent(_made: int, _wanted: int) -> None:
    """Report nothing."""
