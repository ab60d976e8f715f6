"""Newton's method within bounds, for smooth convex functions of few parameters.

SciPy has more general ones; loading them takes longer than all that is asked of them here.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Derivatives", "minimise"]

Derivatives = tuple[float, NDArray[np.float64], NDArray[np.float64]]
"""A function's value, its gradient and its (generalised) Hessian."""

_MOST_STEPS = 100
_ENOUGH = 1e-4  # share of the decrease that the gradient promises which a step must bring (Armijo)
_SHORTEST = 2.0**-40
_TOLERANCE = 1e-10  # of the value, relative


def minimise(
    function: Callable[[NDArray[np.float64]], Derivatives],
    start: NDArray[np.float64],
    *,
    lowest: NDArray[np.float64] | float = -np.inf,
    highest: NDArray[np.float64] | float = np.inf,
) -> NDArray[np.float64]:
    """The parameters within bounds at which a convex function is least (projected Newton, Bertsekas 1982).

    Args:
        function: with a Hessian that is positive definite.
        start: where to begin, within the bounds.
        lowest: bounds from below.
        highest: bounds from above.
    """
    here = np.asarray(start, dtype=np.float64)
    value, gradient, hessian = function(here)
    for _ in range(_MOST_STEPS):
        held = ((here <= lowest) & (gradient > 0.0)) | ((here >= highest) & (gradient < 0.0))
        free = np.flatnonzero(~held)
        step = np.zeros_like(here)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], -gradient[free])
        length = 1.0
        while length > _SHORTEST:
            there = np.clip(here + length * step, lowest, highest)
            found = function(there)
            if found[0] <= value + _ENOUGH * float(gradient @ (there - here)):
                break
            length /= 2.0
        else:
            return here
        gained = value - found[0]
        here, (value, gradient, hessian) = there, found
        if gained <= _TOLERANCE * (1.0 + abs(value)):
            break
    return here
