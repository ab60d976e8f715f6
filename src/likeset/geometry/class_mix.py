"""The mix of classes of a target: as near to that of rows matched without labels as the evidence allows.

Chances of classes that were learnt on a pool hold for the pool's mix. The likeliest mix of the target (expectation
maximisation) is another one: it takes rows from classes that are merely confused with others, and that is what makes
joint matching better. But it also takes rows from a class that is there and hard to tell, and models lose that class.
So there is a *usual* share for each class, the larger of its mean chance and of what it has among rows that are matched
without labels, and a class is given less than that only as far as the target's rows say so. The measure is the usual
one of two standard deviations: twice the log-likelihood may fall by 4.

- A class without which the rows are less likely by more than that *is there*: it keeps its usual share.
- All others together go as far back from the likeliest mix toward the usual one as that measure allows.

What the rows do not tell, they cannot contradict: then the usual mix stays.

All this takes the rows of a class in target and pool to be alike. Where they are not, a class that is there can seem
absent, if it is hard to tell. Both can be seen: how well rows *tell* a class (the share t of its variance that they
surely explain), and whether a mix of the pool's classes looks like the target at all (``MixFit``: the share e of the
distance between pool and target that the likeliest mix explains). With ``g(z) = (1 - z)² / ((1 - z)² + z²)`` a class
keeps ``g(t) g(e)`` of what would be taken from it: nothing where rows tell it or the mix explains all.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.kernels import rbf_kernel

__all__ = ["MixFit", "class_kernels", "mix_ratios"]

_ALLOWED_FALL = 4.0  # of twice the log-likelihood: two standard deviations
_SMALLEST = 1e-12
_MOST_ROWS = 2000  # whose pairs show how near classes are to one another
_CLOSE = 1e-7
_MOST_STEPS = 500
_PROFILE_STEPS = 50
_HALVINGS = 20

Chances = NDArray[np.float64]
Mix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MixFit:
    """How near the classes of a pool come to a target if they are mixed otherwise.

    Attributes:
        kernels: mean kernel between rows of two classes, of different rows.
        with_target: mean kernel of each class with the target.
        within_target: mean kernel between different rows of the target.
        shares: of the classes in the pool.
    """

    kernels: Chances
    with_target: Mix
    within_target: float
    shares: Mix

    def explained(self, mix: Mix) -> float:
        """The share of the squared MMD between pool and target that is gone with that mix, from 0 to 1.

        Where pool and target are alike as they are, there is nothing to explain.
        """
        before, after = self._squared_mmd(self.shares), self._squared_mmd(mix)
        return float(np.clip(1.0 - after / before, 0.0, 1.0)) if before > _SMALLEST else 0.0

    def _squared_mmd(self, mix: Mix) -> float:
        return float(mix @ self.kernels @ mix - 2.0 * mix @ self.with_target + self.within_target)


def class_kernels(pool: Rows, codes: NDArray[np.int64], *, gamma: float) -> Chances:
    """The mean kernel between different rows of two classes, of at most 2,000 rows in all; 1 in a class of one row."""
    most = max(1, _MOST_ROWS // (int(codes.max()) + 1))
    members = [np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1)]
    chosen = [rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(np.int64)] for rows in members]
    counts = np.array([len(rows) for rows in chosen])
    indicators = np.repeat(np.eye(len(counts)), counts, axis=0)
    kept = pool[np.concatenate(chosen)].astype(np.float64)
    kernel = indicators.T @ rbf_kernel(kept, kept, gamma=gamma) @ indicators
    pairs = np.outer(counts, counts) - np.diag(counts)
    return np.asarray(np.where(pairs > 0, kernel - np.diag(counts), 1.0) / np.maximum(pairs, 1))


def mix_ratios(chances: Chances, pool_mix: Mix, matched_alone: Mix, told: Mix, fit: MixFit) -> Mix:
    """By what to multiply the chances of each class, before rows are scaled to sum to 1 again.

    Args:
        chances: for each row of the target the chance of each class, as a pool of ``pool_mix`` teaches them.
        pool_mix: share of each class; none is 0.
        matched_alone: share of each class among rows of the pool that were matched to the target without labels.
        told: for each class the share of its variance that rows surely explain, from 0 to 1.
        fit: how near a mix of the pool's classes comes to the target.
    """
    first, densities = chances.mean(axis=0), chances / pool_mix
    likeliest = _likeliest_mix(densities, first)
    usual = np.maximum(first, matched_alone)
    least = _least_shares(densities, likeliest, usual)
    kept = _doubt(told) * _doubt(np.array(fit.explained(likeliest)))
    least = np.where(likeliest < usual, least + kept * np.maximum(usual - least, 0.0), matched_alone)
    return _raised(chances, likeliest / pool_mix, least / max(1.0, float(least.sum())))


def _doubt(sure: Mix) -> Mix:
    """1 where nothing is sure, 0 where all is, 1/2 in the middle."""
    return np.asarray((1.0 - sure) ** 2 / ((1.0 - sure) ** 2 + sure**2))


def _least_shares(densities: Chances, likeliest: Mix, usual: Mix) -> Mix:
    """The share below which each class must not fall; 0 for those that do not."""
    falling = likeliest < usual
    there = np.array([fall and _is_there(densities, likeliest, number) for number, fall in enumerate(falling)])
    doubtful = falling & ~there
    least = np.where(there, usual, 0.0)
    if doubtful.any():
        least[doubtful] = _toward(usual, likeliest, doubtful, densities)[doubtful]
    return least


def _is_there(densities: Chances, likeliest: Mix, number: int) -> bool:
    """Whether the rows are clearly less likely if the class has no share in them."""
    others = np.delete(densities, number, axis=1)
    start = np.maximum(np.delete(likeliest, number), _SMALLEST)
    without = _likeliest_mix(others, start / start.sum(), steps=_PROFILE_STEPS)
    return 2.0 * (_log_likelihood(densities, likeliest) - _log_likelihood(others, without)) > _ALLOWED_FALL


def _toward(usual: Mix, likeliest: Mix, doubtful: NDArray[np.bool_], densities: Chances) -> Mix:
    """The mix in which the doubtful classes are as near to their usual shares as the rows allow."""
    lowest = _log_likelihood(densities, likeliest) - 0.5 * _ALLOWED_FALL

    def step(part: float) -> Mix:
        mix = np.where(doubtful, likeliest + part * (usual - likeliest), likeliest)
        return np.asarray(mix / mix.sum())

    allowed, refused = 0.0, 1.0
    if _log_likelihood(densities, step(1.0)) >= lowest:
        return step(1.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (allowed + refused)
        allowed, refused = (
            (middle, refused) if _log_likelihood(densities, step(middle)) >= lowest else (allowed, middle)
        )
    return step(allowed)


def _raised(chances: Chances, ratios: Mix, least: Mix) -> Mix:
    """The ratios, raised for classes whose mean chance would be below their least share."""
    for _ in range(_MOST_STEPS):
        raised = chances * ratios
        shares = np.maximum((raised / raised.sum(axis=1, keepdims=True)).mean(axis=0), _SMALLEST)
        if (shares >= least - _CLOSE).all():
            break
        ratios = np.where(shares < least, ratios * (least / shares), ratios)
    return ratios


def _likeliest_mix(densities: Chances, start: Mix, *, steps: int = _MOST_STEPS) -> Mix:
    """Expectation maximisation, from a mix in which every class has a share."""
    mix = start
    for _ in range(steps):
        weighted = densities * mix
        following = (weighted / np.maximum(weighted.sum(axis=1, keepdims=True), _SMALLEST)).mean(axis=0)
        change, mix = float(np.abs(following - mix).max()), following
        if change < _CLOSE:
            break
    return mix


def _log_likelihood(densities: Chances, mix: Mix) -> float:
    return float(np.log(np.maximum(densities @ mix, _SMALLEST)).sum())
