"""Which rows an owner offers: drawn by the witness tilt, by classes, or uniformly.

The witness tilt draws rows of one owner so that their mean features move toward a released mean. An owner compares the
release with the mean of its own rows, ``u = released - own mean`` (the direction in which the two sets differ, the
*witness*), and weighs its rows by ``exp(beta * u.h(x))``. One number, beta, is fitted: it cannot chase the noise in the
release's many directions. Draws are by Gumbel perturbation: the ``count`` largest values of ``beta * u.h(x) + Gumbel``
are a sample without replacement by those weights, and since a row's perturbation is a function of its number and the
owner's key alone, blocks, shards and orders of reading merge to the same draw.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.geometry.features import MAX_SEED, Stream, open_unit
from likeset.geometry.kernels import KernelColumns, rbf_kernel

_BISECTIONS = 60
_MARGIN = 1e-6
_LARGEST_EXPONENT = 500.0  # beyond this the weights are one row's alone, at any precision
_THINNED_TOGETHER = 3000  # thinning costs this times the number of candidates, whatever that number is


@dataclass(frozen=True)
class Tilt:
    """A fitted tilt along the witness ``direction``; a ``beta`` of 0 means uniform weights."""

    direction: NDArray[np.float64]
    beta: float

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """``beta * u.h`` of each feature row: the logarithm of its weight, up to a constant."""
        if self.beta == 0.0:
            return np.zeros(len(features))
        strength = (self.beta * self.direction).astype(np.float32)
        # One dot product per row, each over the same number of terms: the result does not depend on the block's shape.
        return np.asarray(np.einsum("ij,j->i", features, strength), dtype=np.float64)


@dataclass(frozen=True)
class Draw:
    """Rows drawn, best first: their numbers and perturbed scores. Ties go to the smaller row number."""

    row_numbers: NDArray[np.int64]
    perturbed: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.row_numbers)


@dataclass(frozen=True)
class Drawing:
    """A draw that is wanted from a pass over rows: ``count`` rows, all if there are fewer, by the owner's key.

    ``score`` gives log-weights of a block of rows and the number of its first row; None if all weigh the same.
    """

    count: int
    key: int
    score: Callable[[Any, int], NDArray[np.float64]] | None = None


def fit(
    features: ArrayLike,
    released: ArrayLike,
    *,
    noise_energy: float,
    wanted: int,
    population: int | None = None,
    log_weights: ArrayLike | None = None,
) -> Tilt:
    """Fit the tilt on feature rows: all of an owner's rows, or a uniform subsample that stands for ``population`` rows.

    ``noise_energy`` is how much of the squared length of ``released`` counts as noise.
    ``wanted`` rows will be drawn. ``log_weights`` are those of the rows before they are tilted, up to a constant.
    """
    rows = arguments.matrix("features", features)
    base = np.zeros(len(rows))
    if log_weights is not None:
        base = arguments.vector("log_weights", log_weights, length=len(rows))
    weights = np.exp(base - base.max())
    mean = weights @ rows.astype(np.float64) / weights.sum()
    goal = arguments.vector("released", released, length=len(mean))
    arguments.positive("noise_energy", noise_energy, zero=True)
    arguments.count("wanted", wanted)
    whole = arguments.count("population", len(rows) if population is None else population, least=len(rows))
    direction = goal - mean
    scores = rows @ direction
    # The target's own score along the direction: ||released||² overstates its part by the noise.
    target_score = float(goal @ goal) - noise_energy - float(goal @ mean)
    fewest = min(wanted / 2.0, float(whole))
    return Tilt(direction, _strength(scores, base, target_score, fewest_share=fewest / whole))


def large_perturbations(
    first_row: int, rows: int, *, key: int, least: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Which of ``rows`` rows that follow each other have a perturbation of at least ``least``, and what it is.

    A row's Gumbel perturbation is a function of its number and the key, and of nothing else. Logarithms are taken of
    the few words only that can be large enough.
    """
    arguments.count("key", key, least=0, most=MAX_SEED, most_is="a 256-bit number")
    words = Stream("tilt/perturbations", key).words(first_row, rows)
    # A perturbation rises with its word. The margin is far beyond what rounding can do to perturbations up to 20,
    # and larger ones are rare enough.
    below = math.exp(-math.exp(-min(max(least - _MARGIN, -10.0), 20.0)))
    positions = np.flatnonzero(words >= np.uint64(int(below * 2.0**52) << 12))
    values = np.asarray(-np.log(-np.log(open_unit(words[positions]))))
    kept = values >= least
    return positions[kept], values[kept]


def largest(row_numbers: NDArray[np.int64], scores: NDArray[np.float64], count: int) -> Draw:
    """The ``count`` rows of largest perturbed score, best first; all rows if there are fewer."""
    if count < len(scores):
        threshold = np.partition(scores, len(scores) - count)[len(scores) - count] if count else np.inf
        kept = np.flatnonzero(scores >= threshold)
    else:
        kept = np.arange(len(scores))
    order = kept[np.lexsort((row_numbers[kept], -scores[kept]))][:count]
    return Draw(row_numbers=row_numbers[order], perturbed=scores[order])


def _strength(
    scores: NDArray[np.float64], base: NDArray[np.float64], target_score: float, *, fewest_share: float
) -> float:
    """The smallest beta whose weighted mean reaches the target score, or the largest that keeps enough rows."""
    spread = float(scores.max() - scores.min())
    # A spread that is rounding only cannot be tilted: all rows are alike.
    if target_score <= _moments(scores, base, 0.0)[0] or spread <= 1e-12 * max(1.0, float(np.abs(scores).max())):
        return 0.0

    def may_grow(beta: float) -> bool:
        mean_score, share = _moments(scores, base, beta)
        return mean_score < target_score and share >= fewest_share

    # The weighted mean rises and the effective share falls with beta, so bisection finds where the first gives way.
    low, high = 0.0, _LARGEST_EXPONENT / spread
    if may_grow(high):
        return high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if may_grow(middle) else (low, middle)
    return low


def _moments(scores: NDArray[np.float64], base: NDArray[np.float64], beta: float) -> tuple[float, float]:
    """Weighted mean of the scores under ``exp(base + beta * score)``, and the effective share of the rows."""
    exponents = base + beta * scores
    weights = np.exp(exponents - exponents.max())
    total = float(weights.sum())
    share = total * total / (float(weights @ weights) * len(scores))
    return float(weights @ scores) / total, share


# Which classes of rows a target seems to consist of, from its (noisy) mean features alone.
#
# The mean features of a set are the mix of its classes' mean features. So a non-negative mix of an owner's own classes
# that comes close to the released mean says which classes matter, and how much. It is a second kind of evidence beside
# the witness tilt: a few numbers instead of one, but tied to structure that the owner knows.
#
# Such a mix shifts an owner's classes. Where labels are weakly related to rows, or where something else tells the
# target from the owner's rows, it would buy the wrong shares. So it is used only where classes explain enough of two
# things: how the owner's rows differ among themselves, and how far they are from the release.

_MOST_CLASSES = 50
_SMALLEST = 1e-12
_KEPT = 0.1  # share of the weight that stays as it was, so that no class is lost
_LEAST_SHARE = 0.03  # least share of the variance of rows that classes must explain ...
_EXPLAINED = 0.3  # ... and of the squared distance to the release


@dataclass(frozen=True, eq=False)
class Strata:
    """Log-weights of rows by their class; ``classes`` are sorted."""

    classes: NDArray[Any]
    log_weights: NDArray[np.float64]

    def score(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """The log-weight of each row; a class that was not seen when fitting keeps the least."""
        positions = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        known = self.classes[positions] == labels
        return np.where(known, self.log_weights[positions], np.log(_KEPT))


def fit_strata(
    features: NDArray[np.float32], labels: NDArray[Any], released: NDArray[np.float64], *, noise: float
) -> Strata | None:
    """Weights of classes by which an owner's rows come closest to a released mean; None if they explain too little.

    ``noise`` is the standard deviation of each coordinate of the released mean.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    if labels.dtype.kind == "f" or not 2 <= len(classes) <= _MOST_CLASSES:
        return None  # numbers with decimals are no classes
    counts, wide = np.bincount(codes).astype(np.float64), features.astype(np.float64)
    shares, mean = counts / counts.sum(), wide.mean(axis=0)
    means = np.zeros((len(counts), wide.shape[1]))
    np.add.at(means, codes, wide)
    means /= counts[:, None]
    between = float(shares @ ((means - mean) ** 2).sum(axis=1))
    # Classes of few rows differ by chance, too.
    explained_share = between / max(float(((wide - mean) ** 2).sum(axis=1).mean()), _SMALLEST) - (
        len(classes) - 1
    ) / len(codes)
    mix = _mix(means, shares, released, noise=noise)
    uniform_gap, mixed_gap = (float(((released - nearest) ** 2).sum()) for nearest in (mean, mix @ means))
    # The gap without the noise, plus one standard deviation of its energy, so that it is not near 0.
    distance = max(uniform_gap - len(released) * noise**2, 0.0) + np.sqrt(2.0 * len(released)) * noise**2
    if explained_share < _LEAST_SHARE or uniform_gap - mixed_gap <= _EXPLAINED * distance:
        return None
    return Strata(classes=classes, log_weights=np.log((1.0 - _KEPT) * mix / shares + _KEPT))


def _mix(
    means: NDArray[np.float64], shares: NDArray[np.float64], released: NDArray[np.float64], *, noise: float
) -> NDArray[np.float64]:
    """The mix of classes nearest to the release, held to the owner's own mix as far as noise may mislead."""
    from scipy.optimize import nnls  # late: loading it takes longer than most matches

    # ||g - M'pi||² + (1 - sum pi)² + noise² sum (pi - p)²/p, as one least-squares problem.
    system = np.vstack([means.T, np.ones(len(shares)), np.diag(noise / np.sqrt(shares))])
    goal = np.concatenate([released, [1.0], noise * np.sqrt(shares)])
    mix, _ = nnls(system, goal)
    return np.asarray(mix / mix.sum()) if mix.sum() > 0.0 else shares


def thin(
    candidates: Rows, proxies: Rows, weights: NDArray[np.float64], count: int, *, gamma: float
) -> NDArray[np.int64]:
    """Positions of ``count`` candidates whose mean kernel comes close to that of the weighted proxies, greedily.

    With very many candidates, every so-many-th of them form a group of their own.
    """
    if count >= len(candidates):
        return np.arange(len(candidates))
    groups = -(-len(candidates) // _THINNED_TOGETHER)
    columns = KernelColumns(proxies, gamma=gamma, dtype=np.dtype(np.float32))
    kept = []
    for group in range(groups):
        positions = np.arange(group, len(candidates), groups)
        share = count // groups + (group < count % groups)
        rows = candidates[positions].astype(np.float32)
        attraction = (columns(rows) @ weights.astype(np.float32)).astype(np.float64)
        kept.append(positions[_thin_group(attraction, rbf_kernel(rows, rows, gamma=gamma), share)])
    return np.concatenate(kept)


def _thin_group(attraction: NDArray[np.float64], kernel: Rows, count: int) -> NDArray[np.int64]:
    chosen = np.empty(count, dtype=np.int64)
    free = attraction.copy()
    repulsion = np.zeros(len(attraction))
    for made in range(count):
        best = int(np.argmax(free - repulsion / (made + 1)))
        chosen[made] = best
        free[best] = -np.inf
        repulsion += kernel[best]
    return chosen


def uniform(owner_sizes: Sequence[int], size: int, *, coins: np.random.Generator) -> list[NDArray[np.int64]]:
    """The uniform baseline: the same number of random rows from each owner, increasing, as in the paper.

    An owner with fewer rows gives all it has, and the others make up for it; what does not divide evenly goes to the
    first owners.
    """
    sizes = [arguments.count(f"owner_sizes[{owner}]", rows, least=0) for owner, rows in enumerate(owner_sizes)]
    arguments.count("size", size, most=sum(sizes), most_is="the number of rows of all owners")
    quota = [0] * len(sizes)
    remaining = size
    while remaining:
        open_owners = [owner for owner, rows in enumerate(sizes) if quota[owner] < rows]
        each, singles = divmod(remaining, len(open_owners))
        for turn, owner in enumerate(open_owners):
            # Single rows are handed out only once fewer are left than owners who have some.
            given = min(each, sizes[owner] - quota[owner]) if each else int(turn < singles)
            quota[owner] += given
            remaining -= given
    return [
        np.sort(coins.choice(rows, size=chosen, replace=False)).astype(np.int64)
        for rows, chosen in zip(sizes, quota, strict=True)
    ]
