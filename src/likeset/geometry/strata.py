"""Which classes of rows a target seems to consist of, from its (noisy) mean features alone.

The mean features of a set are the mix of its classes' mean features. So a non-negative mix of an owner's own classes
that comes close to the released mean says which classes matter, and how much. It is a second kind of evidence beside
the witness tilt: a few numbers instead of one, but tied to structure that the owner knows.

Such a mix shifts an owner's classes, so it is used only where classes explain most of the distance between the owner's
rows and the release. Where labels are weakly related to rows they do not, and a mix would buy the wrong shares.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Strata", "fit_strata"]

_MOST_CLASSES = 50
_KEPT = 0.1  # share of the weight that stays as it was, so that no class is lost
_EXPLAINED = 0.3  # least share of the distance to the release that classes must explain


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
    if not 2 <= len(classes) <= _MOST_CLASSES:
        return None
    wide = features.astype(np.float64)
    left = float(((released - wide.mean(axis=0)) ** 2).sum())
    mix, gained = _mix(wide, codes, released, left, noise=noise)
    # What is left without the noise; one standard deviation of its energy more, lest little be divided by less.
    distance = max(left - len(released) * noise**2, 0.0) + np.sqrt(2.0 * len(released)) * noise**2
    if gained <= _EXPLAINED * distance:
        return None
    shares = np.bincount(codes) / len(codes)
    return Strata(classes=classes, log_weights=np.log((1.0 - _KEPT) * mix / shares + _KEPT))


def _mix(
    features: NDArray[np.float64], codes: NDArray[np.int64], released: NDArray[np.float64], left: float, *, noise: float
) -> tuple[NDArray[np.float64], float]:
    """The mix of classes nearest to the release, held to the owner's own mix as far as noise may mislead.

    Returns:
        the mix, and by how much it lowers the squared distance to the release.
    """
    from scipy.optimize import nnls  # late: loading it takes longer than most matches

    counts = np.bincount(codes).astype(np.float64)
    shares = counts / counts.sum()
    sums = np.zeros((len(counts), features.shape[1]))
    np.add.at(sums, codes, features)
    means = sums / counts[:, None]
    # ||g - M'pi||² + (1 - sum pi)² + noise² sum (pi - p)²/p, as one least-squares problem.
    system = np.vstack([means.T, np.ones(len(counts)), np.diag(noise / np.sqrt(shares))])
    goal = np.concatenate([released, [1.0], noise * np.sqrt(shares)])
    mix, _ = nnls(system, goal)
    if mix.sum() <= 0.0:
        return shares, 0.0
    mix = mix / mix.sum()
    return mix, left - float(((released - mix @ means) ** 2).sum())
