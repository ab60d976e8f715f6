"""Broken means whose noise looks right: the row shows in a sign, in a bit, in one late coordinate, or now and then.

Every single coordinate of the first three has the law that it should have, or all but one have. What is sent is made
from a sound release, so these are what a debugging aid, a careless encoding or a planted back door would do.
"""

import numpy as np

from likeset.audit import neighbours
from likeset.audit.batched_runs import RunsAtOnce
from likeset.audit.broken_means import MEAN_DELTA, mean_plan, mean_trial
from likeset.audit.neighbours import Rows
from likeset.audit.trials import SMALL_DELTA, Trial
from likeset.privacy import gaussian_mean
from likeset.privacy.noise import Noise, SimulatedNoise

__all__ = ["late_variance", "parity", "rare_raw_mean", "raw_mean", "raw_mean_of_two_hundred", "sign_of_product"]

_PAIR = neighbours.opposite_rows(rows=4, dimension=2)
_BOTH = (MEAN_DELTA, SMALL_DELTA)


def sign_of_product(seed: int) -> Trial:
    """Which input it was decides the sign of the product of two noises; each of them is Gaussian all the same."""
    plan, noise = mean_plan(_PAIR), SimulatedNoise(seed)
    centre: Rows = _PAIR.first.mean(axis=0)

    def observe(side: int, size: int) -> Rows:
        away = _release(plan, _PAIR.first, noise, size) - centre
        wanted = 1.0 if side == 0 else -1.0
        away[:, 1] = np.abs(away[:, 1]) * np.where(away[:, 0] < 0, -wanted, wanted)
        return centre + away

    return mean_trial("gaussian mean, sign of two noises", _PAIR, observe, plan.event, deltas=_BOTH, samples=4_000)


def parity(seed: int) -> Trial:
    """The release is rounded to even or to odd lattice points: a check bit that was computed from the rows."""
    plan, noise = mean_plan(_PAIR), SimulatedNoise(seed)
    spacing = gaussian_mean.SPACING / plan.size

    def observe(side: int, size: int) -> Rows:
        points = np.rint(_release(plan, _PAIR.first, noise, size) / spacing)
        return (2 * np.floor(points / 2) + side) * spacing

    return mean_trial(
        "gaussian mean, parity of the lattice point", _PAIR, observe, plan.event, deltas=_BOTH, samples=4_000
    )


def late_variance(seed: int) -> Trial:
    """More noise in coordinate 17 of 20 if a row is unusual; otherwise the release is the same."""
    pair = neighbours.opposite_rows(rows=4, dimension=20)
    plan, noise = mean_plan(pair), SimulatedNoise(seed)

    def observe(side: int, size: int) -> Rows:
        rows = _release(plan, pair.first, noise, size)
        if side == 1:
            more = noise.discrete_gaussian(30 * plan.sigma / gaussian_mean.SPACING, size)
            rows[:, 17] += more * gaussian_mean.SPACING / plan.size
        return rows

    return mean_trial(
        "gaussian mean, variance of a late coordinate", pair, observe, plan.event, deltas=_BOTH, samples=4_000
    )


def raw_mean(seed: int) -> Trial:
    """4 of 100 answers are the raw mean. At delta 0.05 that is no event of its own: it only adds to the tails."""
    return _raw_mean(seed, 0.04, planned=MEAN_DELTA, deltas=_BOTH, samples=300_000)


def raw_mean_of_two_hundred(seed: int) -> Trial:
    """1 of 200 answers is the raw mean: not much less would show."""
    return _raw_mean(seed, 1 / 200, planned=SMALL_DELTA, deltas=(SMALL_DELTA,), samples=100_000)


def rare_raw_mean(seed: int) -> Trial:
    """1 of 500 answers is the raw mean. Not in the broken set, because it is *missed* (docs/proofs/auditor.md)."""
    return _raw_mean(seed, 1 / 500, planned=SMALL_DELTA, deltas=(SMALL_DELTA,), samples=100_000)


def _raw_mean(seed: int, share: float, *, planned: float, deltas: tuple[float, ...], samples: int) -> Trial:
    plan, noise = mean_plan(_PAIR, delta=planned), SimulatedNoise(seed)

    def observe(side: int, size: int) -> Rows:
        rows = _release(plan, _PAIR[side], noise, size)
        rows[noise.bernoulli(np.full(size, share))] = _PAIR[side].mean(axis=0)
        return rows

    name = f"gaussian mean, raw with probability {share:g}"
    return mean_trial(name, _PAIR, observe, plan.event, deltas=deltas, samples=samples)


def _release(plan: gaussian_mean.GaussianPlan, rows: Rows, noise: Noise, size: int) -> Rows:
    return gaussian_mean.run(plan, rows, RunsAtOnce(noise, size)).value
