"""Which classes of rows a target seems to consist of, from its (noisy) mean features alone.

The mean features of a set are the mix of its classes' mean features. So a non-negative mix of an owner's own classes
that comes close to the released mean says which classes matter, and how much. It is a second kind of evidence beside
the witness tilt: a few numbers instead of one, but tied to structure that the owner knows.

Such a mix shifts an owner's classes. Where labels are weakly related to rows, or where something else tells the target
from the owner's rows, it would buy the wrong shares. So it is used only where classes explain enough of two things: how
the owner's rows differ among themselves, and how far they are from the release.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Strata", "fit_strata"]

_MOST_CLASSES = 50
_SMALLEST = 1e-12
_KEPT = 0.1  # share of the weight that stays as it was, so that no class is lost
_TOLD = 0.03  # least share of the variance of rows that classes must explain ...
_EXPLAINED = 0.3  # ... and of the squared distance to the release


@dataclass(frozen=True, eq=False)
class Strata:
    """Log-weights of rows by their class.

    Attributes:
        classes: sorted.
        log_weights: one for each.
    """

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
    """Weights of classes by which an owner's rows come closest to a released mean; None where they explain too little.

    Args:
        features: feature rows of a sample.
        labels: their classes.
        released: the released mean.
        noise: standard deviation of each of its coordinates.
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
    told = between / max(float(((wide - mean) ** 2).sum(axis=1).mean()), _SMALLEST) - (len(classes) - 1) / len(codes)
    mix = _mix(means, shares, released, noise=noise)
    left, best = (float(((released - nearest) ** 2).sum()) for nearest in (mean, mix @ means))
    # What is left without the noise; one standard deviation of its energy more, lest little be divided by less.
    distance = max(left - len(released) * noise**2, 0.0) + np.sqrt(2.0 * len(released)) * noise**2
    if told < _TOLD or left - best <= _EXPLAINED * distance:
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
