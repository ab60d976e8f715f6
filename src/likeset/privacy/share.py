"""Telling each owner its share of the summary's value: discrete Laplace noise on a number in [0, 1].

A share is an owner's part of a whole, so it moves when anybody's rows move: one row of one owner, or of the
target, may change which rows are selected, and with them every share. What is known is the range: each share
lies in [0, 1], and all of them together add up to 1 at most. So noise that covers the range protects not one
row but everything at once, whatever the unit of privacy; and it is large (``SharePlan.standard_deviation``: 1.4 at
epsilon 1, where a share is at most 1). Where a payment must not be a lottery, pay by rows disclosed.

Owners who compare notes hear several shares. However many they are, the shares that rise between two inputs
rise by 1 in total at most, and those that fall, fall by 1 in total at most: a coalition of any size costs what
two owners cost, and no more. Proof: docs/proofs/shares.md.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.arguments import count, positive, vector
from likeset.errors import InvalidArgument
from likeset.privacy.accounting import pure_price
from likeset.privacy.events import InRange, Laplace, Observer, Relation, Release, Repeated
from likeset.privacy.noise import Integers, Noise, make_release

__all__ = ["SharePlan", "plan", "run"]

_STEPS = 2**30  # lattice steps per unit: a power of two, so that scales in steps and in shares are equally exact
_LARGEST_SCALE = 2.0**20
_MOST_OWNERS = 2**20
_SHARE = InRange(0.0, 1.0)
_TOLERANCE = 1e-9  # shares computed in floating point add up to 1 within this


@dataclass(frozen=True, slots=True)
class SharePlan:
    """Each owner will hear its share with discrete Laplace noise of its own.

    Args:
        owners: how many there are.
        scale: the scale of the noise, in units of a share.
        observer: who hears shares: one owner its own, or owners who compare notes.
    """

    owners: int
    scale: float
    observer: Observer

    def __post_init__(self) -> None:
        count("owners", self.owners, most=_MOST_OWNERS, most_is="so that rounding errors stay below a lattice step")
        if positive("scale", self.scale) > _LARGEST_SCALE:
            raise InvalidArgument("scale", self.scale, "must be at most 2^20, so that noise stays within 64 bits")
        if self.scale * _STEPS < 1.0:
            raise InvalidArgument("scale", self.scale, "must be at least 2^-30, the lattice's spacing")
        if not isinstance(self.observer, Observer):
            raise InvalidArgument("observer", repr(self.observer), "must be an Observer")

    @property
    def event(self) -> Laplace | Repeated:
        """What it is for this observer, for the accountant: one number, or as good as two.

        It is the price against *each* data set that the observer does not own: the target's and every other
        owner's account is charged with it.
        """
        own_share = Laplace(scale=self.scale, quantity=_SHARE)
        return own_share if self.observer is Observer.ONE_OWNER or self.owners == 1 else Repeated(own_share, 2)

    @property
    def standard_deviation(self) -> float:
        """Of the noise on each share before it is clipped: public."""
        return math.sqrt(2.0) * self.scale


def plan(owners: int, *, epsilon: float, observer: Observer, relation: Relation) -> SharePlan:
    """The least noise that a pure epsilon allows; no delta is needed.

    Args:
        owners: how many there are.
        epsilon: the budget of this one release, against the observer.
        observer: who hears shares; ``COALITION`` is what accounts for any group of owners ask for.
        relation: what neighbouring data are; a share's range is the same under all of them.
    """
    budget = positive("epsilon", epsilon)
    once = SharePlan(owners=owners, scale=1.0, observer=observer)
    made = SharePlan(owners=owners, scale=pure_price(once.event, relation) / budget, observer=observer)
    while pure_price(made.event, relation) > budget:  # by rounding only: one step of the floating point is enough
        made = SharePlan(owners=owners, scale=math.nextafter(made.scale, math.inf), observer=observer)
    return made


def run(plan: SharePlan, shares: ArrayLike, noise: Noise) -> Release[NDArray[np.float64]]:
    """Every owner's share with noise, clipped to [0, 1]: entry j is for owner j's ears only.

    Clipping is done to what was already noised and costs nothing, but it pulls towards the middle: a clipped share
    is not right on average (at scale 2 a share of 0 is heard as 0.39), and clipped shares do not add up to 1.

    Args:
        plan: made before the data were read.
        shares: one per owner, in [0, 1], adding up to 1 at most (``protocol.attribution.shares``).
        noise: where the noise comes from.

    Privacy contract:
        Protects:  the target's rows and all rows of the owners who do not observe, all of them together.
        Reveals:   to each owner, its own entry; the whole vector is for the curator alone. What is computed from
                   several entries may be told to one owner only if it was planned for a coalition.
        Costs:     ``plan.event`` for ``plan.observer``, fixed before data are read.
        Assumes:   shares add up to 1 at most (checked on integers); whether and how often shares are told does not
                   depend on anybody's rows; nobody redraws.
        Basis:     proven, docs/proofs/shares.md
    """
    noisy = _on_lattice(vector("shares", shares, length=plan.owners))
    noisy += noise.discrete_laplace(plan.scale * _STEPS, plan.owners)
    heard: NDArray[np.float64] = np.clip(noisy, 0, _STEPS).astype(np.float64) / _STEPS
    return make_release(heard, plan.event, noise)


def _on_lattice(shares: NDArray[np.float64]) -> Integers:
    """Shares in steps, rounded down: integers, none negative, adding up to one whole at most."""
    if shares.min() < 0.0:
        raise InvalidArgument("shares", f"array of length {len(shares)}", "must not be negative")
    total = float(shares.sum()) if shares.max() <= 1.0 + _TOLERANCE else math.inf
    if total > 1.0 + _TOLERANCE:
        raise InvalidArgument("shares", f"array of length {len(shares)}", "must add up to 1 at most")
    points: Integers = np.floor(shares / max(total, 1.0) * _STEPS).astype(np.int64)
    # Rounding errors of the sum and the division are far below one step: docs/proofs/shares.md, lemma 1.
    if points.min() < 0 or points.sum() > _STEPS:
        raise AssertionError("shares on the lattice are more than a whole")
    return points
