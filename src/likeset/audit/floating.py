"""Textbook Laplace noise in floating point, and Mironov's attack on it (CCS 2012).

The textbook draws a uniform double u, a multiple of 2^-53, and returns x - b s log(1 - 2|u - 1/2|), where s
is the sign of u - 1/2.
The logarithm of a grid is not a grid: only some doubles can come out, and which ones depends on x. An answer
that cannot come from x proves that the data were not x, whatever epsilon was claimed. No histogram of the
answers shows it, because the reachable doubles of every x lie within a rounding error of each other.
"""

import numpy as np

from likeset.audit.partitions import Observations, Score

__all__ = ["reachability", "reachable", "textbook_laplace"]

_GRID = 2.0**-52  # 1 - 2|u - 1/2| is exact and a multiple of this
_REACH = 3  # exp() and log() each err by about one unit in the last place; so many grid steps on either side do


def textbook_laplace(value: float, scale: float, size: int, coins: np.random.Generator) -> Observations:
    """``size`` answers: the value plus Laplace noise, as textbooks write it."""
    centred = coins.random(size) - 0.5
    # log(0) needs u = 0, one draw in 2^53; the textbook does not guard against it and neither do we.
    return _answer(value, scale, np.sign(centred), 1 - 2 * np.abs(centred))


def reachable(answers: Observations, value: float, scale: float) -> Observations:
    """1 where some uniform double takes ``value`` to exactly this answer, else 0."""
    noise = answers - value
    nearest = np.rint(np.exp(-np.abs(noise) / scale) / _GRID)
    hits = np.zeros(len(answers), dtype=np.bool_)
    for step in range(-_REACH, _REACH + 1):
        tail = np.clip((nearest + step) * _GRID, _GRID, 1.0)
        hits |= _answer(value, scale, np.sign(noise), tail) == answers
    return hits.astype(np.float64)


def _answer(value: float, scale: float, sign: Observations, tail: Observations) -> Observations:
    answer: Observations = value - scale * sign * np.log(tail)
    return answer


def reachability(first: float, second: float, scale: float) -> Score:
    """Positive where only the first value reaches the answer, negative where only the second does."""
    return lambda rows: reachable(rows[:, 0], first, scale) - reachable(rows[:, 0], second, scale)
