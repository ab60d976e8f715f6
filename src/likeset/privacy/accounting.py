"""From what was done to what it costs. Proofs: docs/proofs/accounting.md.

Two questions, two answers:

* ``guarantee`` prices a plan that was fixed in advance, by the tightest bound that is valid for it;
* ``Filter`` adds up charges that were chosen one after the other, each perhaps because of what the earlier ones
  showed. Only bounds that survive such a choice are used: concentrated (zCDP) and pure privacy.

An event outside the vocabulary is refused; a known one without a proof has no finite price, nor has one under another
relation than it was planned under.

``least_noise`` is the inverse: the least noise that a budget allows.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Self, assert_never

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import positive
from likeset.errors import InvalidArgument, UnknownEvent
from likeset.privacy import events as ev
from likeset.privacy.events import (
    Composition,
    Event,
    ExponentialChoice,
    Gaussian,
    Laplace,
    Relation,
    Repeated,
    RowSum,
    SelectionSum,
)

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


class Basis(StrEnum):
    """On whose word a guarantee rests."""

    PROVEN = "proven"
    """A proof in docs/proofs covers what was done."""

    CLAIMED = "claimed"
    """The paper says so; shown for comparison only."""

    NONE = "none"
    """Nobody can say: the epsilon is infinite and the note says why."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(epsilon, delta)-differential privacy under a relation, on a basis; infinite if, and only if, there is no bound.

    ``note`` says how it was computed, or what stands in the way.
    """

    epsilon: float
    delta: float
    relation: Relation
    basis: Basis
    note: str

    def __post_init__(self) -> None:
        checked_delta(self.delta)
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise InvalidArgument("epsilon", self.epsilon, "must be zero or more")
        # A number beside the word "none" would be read as a number.
        if math.isinf(self.epsilon) != (self.basis is Basis.NONE):
            raise InvalidArgument("basis", self.basis, f"does not go with epsilon = {self.epsilon}")

    def __str__(self) -> str:
        if self.basis is Basis.NONE:
            return f"no guarantee ({self.note})"
        return f"epsilon = {self.epsilon:.4g} at delta = {self.delta:g}, {self.relation}, {self.basis}"


def guess_in_words(probability: float, *, relation: str, unit: str) -> str:
    """What ``accounting.guess_probability`` says about one unit: a part of a sentence, the same on every screen.

    Two candidates for a unit are neighbours under replace-one. Under add-or-remove they are two steps apart, and
    neighbours are data with and without the unit.
    """
    percent = math.ceil(1000.0 * probability - 1e-9) / 10.0
    guessed = f"about {unit}" if relation == Relation.REPLACE_ONE else f"whether {unit} takes part"
    return f"a coin-flip guess {guessed} becomes correct at most {percent:g}% of the time"


def bound_in_words(probability: float, *, epsilon: float, delta: float, relation: str, unit: str) -> str:
    return f"{guess_in_words(probability, relation=relation, unit=unit)} (epsilon {epsilon:.4g}, delta {delta:g})"


def checked_delta(delta: float) -> float:
    if isinstance(delta, bool) or not 0.0 <= delta < 1.0:
        raise InvalidArgument("delta", delta, "must be at least 0 and below 1")
    return float(delta)


# The exact worst case of many adaptively chosen bounded-range mechanisms, bounded from above on a grid.
#
# A choice by the exponential mechanism has a privacy loss in a window of known width, and the worst mechanism
# of that width has only two outcomes: loss t or t - width, for some t that may depend on everything seen
# before. Let ``V_k(x)`` be the largest delta at epsilon = x that k such mechanisms can have. Then
#
#     V_0(x) = max(0, 1 - e^x)        V_k(x) = max over t of  p_t V_(k-1)(x - t) + (1 - p_t) V_(k-1)(x - t +
#     width)
#
# with p_t = (1 - e^(t - width)) / (1 - e^-width). The recursion is carried out on a grid, always rounding up;
# what it gives is a proven bound, about a tenth tighter than the one by Rényi divergences. Purely private steps
# are added by randomised response, which is their worst case. Proof: docs/proofs/accounting.md, "Bounded range,
# exact".

_CELLS = 12  # grid steps per window; the bound loses about 1/(2 * _CELLS²) of epsilon to the grid
_MOST_WORK = 4e8  # grid updates: some seconds

Vector = NDArray[np.float64]


def bounded_range_epsilon(
    delta: float, *, width: float, times: int, pure: tuple[tuple[float, int], ...], reach: float
) -> float:
    """An upper bound on epsilon at ``delta``; infinite if the computation would take too long.

    ``times`` mechanisms of this ``width``, and for each epsilon in ``pure`` its number of mechanisms. ``reach`` ends
    the search: any upper bound on epsilon at a much smaller delta.
    """
    step = width / _CELLS
    size = math.ceil(reach / step) + _CELLS
    if size * (_CELLS * times + sum(count for _, count in pure)) > _MOST_WORK:
        return math.inf
    below = np.flatnonzero(_bound(width, times, pure, 0.0, size) <= delta)
    return step * float(below[0]) if len(below) else math.inf


def bounded_range_advantage(*, width: float, times: int, pure: tuple[tuple[float, int], ...], shift: float) -> float:
    """An upper bound on delta at epsilon 0, with Gaussian noise too; 1 if the computation would take too long.

    ``shift`` is sensitivity over sigma of all Gaussian steps together; 0 without any.
    """
    steps = times + sum(count for _, count in pure)
    # No loss of the discrete steps lies beyond their sum, and hardly any beyond ten standard deviations.
    spread = math.sqrt(times * width**2 / 4.0 + sum(count * epsilon**2 for epsilon, count in pure))
    reach = min(times * width + sum(count * epsilon for epsilon, count in pure), 10.0 * spread)
    size = math.ceil(_CELLS * reach / width) + _CELLS
    if size * _CELLS * steps > _MOST_WORK:
        return 1.0
    return float(_bound(width, times, pure, shift, size)[0])


@lru_cache(maxsize=32)
def _bound(width: float, times: int, pure: tuple[tuple[float, int], ...], shift: float, size: int) -> Vector:
    step = width / _CELLS
    grid: Vector = step * np.arange(size, dtype=np.float64)
    bound = _gaussian_profile(grid, shift) if shift else np.zeros(size)  # V_0(x) = max(0, 1 - e^x) for x >= 0
    for _ in range(times):
        bound = _worst_choice(bound, step)
    for epsilon, count in pure:
        keep = 1.0 / (1.0 + math.exp(-epsilon))
        for _ in range(count):
            lower, upper = (
                _between_grid_points(bound, grid - epsilon, step),
                _between_grid_points(bound, grid + epsilon, step),
            )
            bound = keep * lower + (1.0 - keep) * upper
    return bound


def _gaussian_profile(epsilon: Vector, shift: float) -> Vector:
    from scipy.special import ndtr

    far = ndtr(-shift / 2.0 - epsilon / shift)
    profile: Vector = ndtr(shift / 2.0 - epsilon / shift) - np.exp(np.minimum(epsilon, 700.0)) * far
    return np.maximum(profile, 0.0)


def _worst_choice(bound: Vector, step: float) -> Vector:
    """One step of the recursion, rounded up between grid points."""
    width = _CELLS * step
    # Values at x - width ... x + width for every x: place i of ``wide`` is grid point i - _CELLS.
    wide = _at_grid_points(bound, np.arange(-_CELLS, len(bound) + _CELLS), step)
    size = len(bound)
    worst = np.zeros(size)
    bulge = np.zeros(size)
    slope = -math.expm1(-step)
    # Where the line through two neighbouring values, drawn over e^x, meets e^x = 0.
    intercepts = wide[1:] - np.diff(wide) / slope
    for cell in range(_CELLS + 1):
        t = cell * step
        chance = math.expm1(t - width) / math.expm1(-width)
        low, high = _CELLS - cell, 2 * _CELLS - cell  # places of x - t and of x - t + width
        np.maximum(worst, chance * wide[low : low + size] + (1.0 - chance) * wide[high : high + size], out=worst)
        if cell < _CELLS:
            # For t inside this cell the value is a + b u + c/u in u = e^-(t - cell * step): above both ends
            # of the cell by at most max(0, -c) * (e^(step/2) - 1)².
            rate = math.exp(t - width) / -math.expm1(-width)
            drop = intercepts[low - 1 : low - 1 + size] - intercepts[high - 1 : high - 1 + size]
            np.maximum(bulge, rate * drop, out=bulge)
    raised: Vector = np.minimum(1.0, worst + bulge * math.expm1(step / 2.0) ** 2)
    return raised


def _at_grid_points(bound: Vector, indices: NDArray[np.int64], step: float) -> Vector:
    """Values at grid points, also beyond the ends of the grid.

    Above the grid the last value is an upper bound, because delta falls with epsilon. Below zero the two
    directions of a symmetric family are tied: V(-x) = 1 - e^-x + e^-x V(x).
    """
    mirrored = bound[np.minimum(np.abs(indices), len(bound) - 1)]
    shrink = np.exp(np.minimum(indices, 0) * step)
    values: Vector = np.where(indices < 0, 1.0 - shrink + shrink * mirrored, mirrored)
    return values


def _between_grid_points(bound: Vector, points: Vector, step: float) -> Vector:
    """Upper bounds between grid points: delta is convex in e^epsilon, so a line over e^x lies above it."""
    indices = np.floor(points / step + 1e-9)
    inside = np.clip(points / step - indices, 0.0, 1.0)
    share = np.expm1(inside * step) / math.expm1(step)
    low = _at_grid_points(bound, indices.astype(np.int64), step)
    high = _at_grid_points(bound, indices.astype(np.int64) + 1, step)
    values: Vector = (1.0 - share) * low + share * high
    return values


# Kinds of privacy loss and what they add up to. Proofs: docs/proofs/accounting.md.
#
# Every mechanism that is priced here is one of three kinds: *pure* (the loss never exceeds epsilon), *bounded
# range* (the loss lies in a window of known width), *normal* (the loss is that of Gaussian noise, up to a small
# statistical distance).

# Any order gives a valid bound; the grid is fine enough that the best of them is within 1e-4 of the best of
# all.
_ORDERS: NDArray[np.float64] = 1.0 + np.geomspace(0.02, 1e6, 1000)
# Below this delta the error of floating-point convolutions could show.
_LEAST_DELTA_FOR_CONVOLUTION = 1e-10
_LOSS_STEP = 1e-4
# A convolution is an array of losses in such steps, and a binomial law one of all outcomes: beyond these sizes the
# bound by Rényi divergences is used, also for numbers from a peer.
_WIDEST_CONVOLVED = 100.0
_MOST_RESPONSES = 1 << 17
_HALVINGS = 60
_ROUNDING = 1e-13


@dataclass(frozen=True, slots=True)
class Pure:
    """The privacy loss is at most ``pure`` in absolute value."""

    pure: float

    @property
    def rho(self) -> float:
        """Pure privacy is concentrated: epsilon²/2 (Bun and Steinke 2016, Prop. 3.3), at most epsilon."""
        return min(self.pure**2 / 2.0, self.pure)


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """The privacy loss lies in some window of this width that contains zero."""

    width: float

    @property
    def pure(self) -> float:
        """A window that contains zero reaches no further than its width."""
        return self.width

    @property
    def rho(self) -> float:
        """By Hoeffding's lemma: width²/8 (Cesar and Rogers 2021, Lemma 3.2), at most the width."""
        return min(self.width**2 / 8.0, self.width)


@dataclass(frozen=True, slots=True)
class Normal:
    """Discrete Gaussian noise: ``shift`` is sensitivity over sigma.

    ``distance`` bounds the statistical distance from continuous noise that was rounded to the lattice.
    """

    shift: float
    distance: float

    @property
    def pure(self) -> float:
        return math.inf

    @property
    def rho(self) -> float:
        """Discrete noise is as concentrated as continuous (Canonne, Kamath and Steinke 2020, Theorem 4)."""
        return self.shift**2 / 2.0


PrivacyLoss = Pure | BoundedRange | Normal


def _surcharge(orders: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    return np.asarray(np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class ComposedLosses:
    """A composition, sorted by kind."""

    pure: tuple[tuple[float, int], ...]
    ranges: tuple[tuple[float, int], ...]
    shift: float
    distance: float

    @classmethod
    def of(cls, losses: Iterable[tuple[PrivacyLoss, int]]) -> Self:
        """Collect steps and how often each is taken; Gaussian steps add up to a single one."""
        pure: Counter[float] = Counter()
        ranges: Counter[float] = Counter()
        squares = distance = 0.0
        for part, times in losses:
            match part:
                case Pure(epsilon):
                    pure[epsilon] += times
                case BoundedRange(width):
                    ranges[width] += times
                case Normal():
                    squares += times * part.shift**2
                    distance += times * part.distance
        return cls(tuple(sorted(pure.items())), tuple(sorted(ranges.items())), math.sqrt(squares), distance)

    def epsilon(self, delta: float, *, exact_choices: bool) -> tuple[float, str]:
        """The smallest epsilon that is proven at this delta, and the name of the proof."""
        if not (self.pure or self.ranges or self.shift):
            return 0.0, "nothing released"
        bounds = [(self._sum(), "sum of pure bounds")]
        if delta > 0.0:
            bounds.append((self._renyi(delta), "Rényi divergences"))
            # Both need an upper bound on epsilon, because what rounding adds to delta grows with it.
            left = delta - self.distance * (1.0 + math.exp(min(min(bounds)[0], 700.0)))
            if left > 0.0 and not (self.pure or self.ranges):
                bounds.append((_gaussian_epsilon(self.shift, left), "Gaussian, exact"))
            elif left > _LEAST_DELTA_FOR_CONVOLUTION and not self.ranges:
                bounds += self._exact_responses(left)
            if exact_choices and len(self.ranges) == 1 and not self.shift:
                bounds.append((self._exact_choices(delta), "exact worst case of choices"))
        return min(bounds)

    def _exact_responses(self, delta: float) -> list[tuple[float, str]]:
        """By the worst case of pure steps, which is randomised response; nothing where that would be too large."""
        if len(self.pure) == 1 and not self.shift:
            ((epsilon, times),) = self.pure
            if times <= _MOST_RESPONSES:
                return [(_responses_epsilon(epsilon, times, delta), "randomised responses, exact")]
        if not self._fits_convolution():
            return []
        return [(_convolved_epsilon(self.pure, self.shift, delta), "privacy loss distribution")]

    def _fits_convolution(self) -> bool:
        # Each loss is rounded up to a step at least, so that many tiny ones take as much room as many steps.
        spread = sum(max(epsilon * math.sqrt(times), _LOSS_STEP * times) for epsilon, times in self.pure)
        return self.shift * (1.0 + self.shift) + spread <= _WIDEST_CONVOLVED

    def advantage(self) -> float:
        """An upper bound on the statistical distance between outputs on neighbouring data: delta at epsilon 0."""
        if not (self.pure or self.ranges or self.shift):
            return 0.0
        divergence = float(self._renyi_curve().min())  # of every order above 1, so of order 1 as well
        bounds = [math.sqrt(divergence / 2.0), math.sqrt(-math.expm1(-divergence)), math.tanh(self._sum() / 2.0)]
        rounding = 2.0 * self.distance
        if not (self.pure or self.ranges):
            bounds.append(math.erf(self.shift / math.sqrt(8.0)) + rounding)
        elif len(self.ranges) == 1:
            ((width, times),) = self.ranges
            exact = bounded_range_advantage(width=width, times=times, pure=self.pure, shift=self.shift)
            bounds.append(exact + rounding)
        elif not self.ranges and sum(times for _, times in self.pure) <= _MOST_RESPONSES:
            bounds += [found + rounding for found in self._pure_advantage()]
        return min(1.0, *bounds)

    def _pure_advantage(self) -> list[float]:
        """By randomised responses, with a Gaussian step if there is one; nothing where that would be too large."""
        if len(self.pure) == 1 and not self.shift:
            return [_responses_delta(*self.pure[0], 0.0)]
        if not self._fits_convolution():
            return []
        return [float(_convolved(self.pure, self.shift).get_delta_for_epsilon(0.0))]

    def _exact_choices(self, delta: float) -> float:
        ((width, times),) = self.ranges
        # At this delta nothing is left beyond the grid; the same for all deltas, so that they share one
        # table.
        reach = self._renyi(min(_LEAST_DELTA_FOR_CONVOLUTION, delta * 1e-3))
        return bounded_range_epsilon(delta, width=width, times=times, pure=self.pure, reach=reach)

    def _sum(self) -> float:
        if self.shift:
            return math.inf
        return sum(epsilon * times for epsilon, times in self.pure + self.ranges)

    def _renyi(self, delta: float) -> float:
        return _from_renyi(self._renyi_curve(), delta)

    def _renyi_curve(self) -> NDArray[np.float64]:
        linear = self.shift**2 / 2.0 + sum(times * BoundedRange(width).rho for width, times in self.ranges)
        curve = linear * _ORDERS
        for epsilon, times in self.pure:
            curve = curve + times * _response_divergence(epsilon, _ORDERS)
        return curve


def epsilon_of_rho(rho: float, delta: float) -> float:
    """The epsilon that rho-zCDP amounts to (Canonne, Kamath and Steinke 2020, Prop. 12)."""
    if rho == 0.0:
        return 0.0
    if math.isinf(rho) or delta == 0.0:
        return math.inf
    return _from_renyi(rho * _ORDERS, delta)


def rounding_distance(coordinates: int, sigma: float) -> float:
    """How far discrete Gaussian noise can be from continuous noise rounded to the same lattice.

    ``sigma`` counts lattice steps. Per coordinate the statistical distance is at most
    ``exp(-1/2)/(2*sqrt(2*pi)*sigma²)``: docs/proofs/gaussian-mean.md, lemma 3.
    """
    return coordinates * math.exp(-0.5) / (2.0 * math.sqrt(2.0 * math.pi) * sigma**2)


def _from_renyi(curve: NDArray[np.float64], delta: float) -> float:
    """As ``dp_accounting.rdp.compute_epsilon`` (a test compares them), for all orders at once."""
    # Where delta is above sqrt(1 - e^-divergence), epsilon is 0: that root bounds the statistical distance.
    within_delta = delta**2 + np.expm1(-curve) > 0.0
    return max(0.0, float(np.where(within_delta, 0.0, curve + _surcharge(_ORDERS, delta)).min()))


def _response_divergence(epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rényi divergence of randomised response: no purely private mechanism has a larger one.

    With p = e^epsilon / (1 + e^epsilon) and q = 1 - p it is log(p^a q^(1-a) + q^a p^(1-a)) / (a - 1).
    """
    log_q = -epsilon - math.log1p(math.exp(-epsilon))
    log_p = -math.log1p(math.exp(-epsilon))
    total = np.logaddexp(orders * log_p + (1 - orders) * log_q, orders * log_q + (1 - orders) * log_p)
    return np.asarray(np.maximum(total, 0.0) / (orders - 1.0), dtype=np.float64)


@lru_cache(maxsize=256)
def _responses_epsilon(epsilon: float, times: int, delta: float) -> float:
    """The least epsilon of ``times`` randomised responses; the result allows for one part in a million of delta."""
    allowed = delta * (1.0 - 1e-6)
    low, high = 0.0, times * epsilon
    if _responses_delta(epsilon, times, low) <= allowed:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if _responses_delta(epsilon, times, middle) <= allowed else (middle, high)
    return high + _ROUNDING * times * epsilon  # losses themselves are as exact as floating point is at their size


def _responses_delta(epsilon: float, times: int, bound: float) -> float:
    """Delta of ``times`` randomised responses at an epsilon of ``bound``: their losses have a binomial law.

    With k responses in favour the loss is (2k - times) * epsilon, and delta at x is the sum over all losses above x
    of P(k) * (1 - e^(x - loss)) (Kairouz, Oh and Viswanath 2015, Theorem 3.3): a sum of positive terms, which falls
    with x. It is computed to better than one part in a million.
    """
    chances, losses = _response_law(epsilon, times)
    return float(chances @ -np.expm1(np.minimum(bound - losses, 0.0)))


@lru_cache(maxsize=16)
def _response_law(epsilon: float, times: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.special import gammaln

    heads = np.arange(times + 1, dtype=np.float64)
    log_q = -epsilon - math.log1p(math.exp(-epsilon))
    logs = gammaln(times + 1.0) - gammaln(heads + 1.0) - gammaln(times - heads + 1.0) + times * log_q + heads * epsilon
    return np.exp(logs), (2.0 * heads - times) * epsilon


@lru_cache(maxsize=256)
def _gaussian_epsilon(shift: float, delta: float) -> float:
    # Imported late, here and below: loading the library takes seconds that most commands never need.
    from dp_accounting import get_epsilon_gaussian

    # The library solves for epsilon to a relative error of 1e-9 in delta: stay on the safe side of that.
    allowed = delta * (1.0 - 1e-6)
    if math.erf(shift / math.sqrt(8.0)) <= allowed:
        return 0.0  # the statistical distance of two normal laws, which the library takes for 0 where it is tiny
    with np.errstate(divide="ignore"):
        epsilon = float(get_epsilon_gaussian(1.0 / shift, allowed))
    return epsilon if epsilon > 0.0 else math.inf  # 0 cannot be true here: then another bound has to do


@lru_cache(maxsize=256)
def _convolved_epsilon(pure: tuple[tuple[float, int], ...], shift: float, delta: float) -> float:
    return float(_convolved(pure, shift).get_epsilon_for_delta(delta))


@lru_cache(maxsize=8)
def _convolved(pure: tuple[tuple[float, int], ...], shift: float) -> "PrivacyLossDistribution":
    """Convolve the losses of randomised responses and of one Gaussian; the library rounds losses upwards."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    whole = pld.identity(value_discretization_interval=_LOSS_STEP)
    if shift:
        whole = whole.compose(pld.from_gaussian_mechanism(1.0 / shift, value_discretization_interval=_LOSS_STEP))
    for epsilon, times in pure:
        # With two buckets and this parameter the likelihood ratios are exactly e^epsilon and e^-epsilon.
        single = pld.from_randomized_response(
            noise_parameter=2.0 / (1.0 + math.exp(epsilon)),
            num_buckets=2,
            value_discretization_interval=_LOSS_STEP,
        )
        whole = whole.compose(single.self_compose(times))
    return whole


def guarantee(event: ev.Event, *, relation: Relation, delta: float, exact_choices: bool = False) -> Guarantee:
    """The tightest proven guarantee for a plan that was fixed before any data were read.

    Later steps of the plan may depend on the results of earlier ones; which steps there are may not. ``exact_choices``
    spends seconds on the exact worst case of exponential choices, a tenth or so tighter: it changes how long the answer
    takes, never whether it is true.
    """
    delta = checked_delta(delta)
    reasons = _reasons(event, relation)
    if reasons:
        return _no_guarantee(delta, relation, "; ".join(reasons))
    parts = ComposedLosses.of(_losses(event))
    epsilon, note = parts.epsilon(delta, exact_choices=exact_choices)
    if math.isinf(epsilon):
        return _no_guarantee(delta, relation, "no finite epsilon at this delta")
    return Guarantee(epsilon=epsilon, delta=delta, relation=relation, basis=Basis.PROVEN, note=note)


@lru_cache(maxsize=1024)
def guess_probability(event: ev.Event, *, relation: Relation) -> float | None:
    """How often a guess between two neighbouring data sets is right at most; None if nothing is proven.

    Both are equally likely beforehand, so that a coin is right half of the time. Whoever sees the output of the event
    is right with probability at most ``(1 + V) / 2``, where V bounds the statistical distance of the two outputs.
    """
    if _reasons(event, relation):
        return None
    return (1.0 + ComposedLosses.of(_losses(event)).advantage()) / 2.0


def obstacles(event: ev.Event) -> tuple[str, ...]:
    """Why the event has no proven price under any relation: empty if it has one."""
    reasons: dict[str, None] = {}
    for leaf, _ in leaves(event):
        match leaf:
            case ev.Simulated():
                reasons["simulated noise: not private"] = None
            case ev.PaperAuction():
                reasons["the paper's auction is not private: docs/proofs/paper-auction.md"] = None
            case ev.ThresholdAuction(summary_released=True):
                reasons["threshold auction with releases about the rows that it obtained: no proof"] = None
            case ev.Unbounded(reason=reason):
                reasons[f"unbounded: {reason}"] = None
    return tuple(reasons)


@dataclass(frozen=True, slots=True)
class Filter:
    """What one account has spent, for charges chosen one after the other: in zCDP (``rho``) and ``spent_purely``.

    Start with ``Filter.empty``, ``add`` each charge as it is made, and compare the ``epsilon`` with the limit before
    the next one: the limit then holds for the whole, however the charges were chosen. An account with a single charge
    is a plan fixed in advance and is priced as one. Charges are taken as they are: a threshold auction must be priced
    for any coalition, since others may follow it (the ledger refuses other charges). ``charges`` counts those that were
    not free, of which ``first`` was the first.
    """

    relation: Relation
    delta: float
    rho: float
    spent_purely: float
    charges: int
    first: ev.Event

    @classmethod
    def empty(cls, *, relation: Relation, delta: float) -> Self:
        return cls(
            relation=relation,
            delta=checked_delta(delta),
            rho=0.0,
            spent_purely=0.0,
            charges=0,
            first=ev.NoRelease(),
        )

    def add(self, event: ev.Event) -> Self:
        rho = epsilon = math.inf
        if not _reasons(event, self.relation):
            parts = list(_losses(event))
            rho = sum(part.rho * times for part, times in parts)
            epsilon = sum(part.pure * times for part, times in parts)
        if rho == 0.0:
            return self
        return replace(
            self,
            rho=self.rho + rho,
            spent_purely=self.spent_purely + epsilon,
            charges=self.charges + 1,
            first=self.first if self.charges else event,
        )

    @property
    def epsilon(self) -> float:
        if self.charges == 1:
            planned = guarantee(self.first, relation=self.relation, delta=self.delta)
            return min(self._adaptive(), planned.epsilon)
        return self._adaptive()

    def _adaptive(self) -> float:
        # Either bound may be the one that holds in the end: docs/proofs/ledger.md, 3.
        return min(self.spent_purely, epsilon_of_rho(self.rho, self.delta))


def _reasons(event: ev.Event, relation: Relation) -> tuple[str, ...]:
    """Why nothing is proven about the event under this relation."""
    planned = ev.relation_of(event)
    if planned in (None, relation):
        return obstacles(event)
    return (*obstacles(event), f"planned under {planned}: no proof under {relation}")


def _no_guarantee(delta: float, relation: Relation, note: str) -> Guarantee:
    return Guarantee(epsilon=math.inf, delta=delta, relation=relation, basis=Basis.NONE, note=note)


def leaves(event: ev.Event, times: int = 1) -> Iterator[tuple[ev.Event, int]]:
    """The single steps, each with how often it is done; a simulated part stays whole."""
    match event:
        case ev.Composition(events=events):
            for part in events:
                yield from leaves(part, times)
        case ev.Repeated(event=inner, times=more):
            yield from leaves(inner, times * more)
        case _:
            yield event, times


def _losses(event: ev.Event) -> Iterator[tuple[PrivacyLoss, int]]:
    """Each step of an event without obstacles as a kind of privacy loss, with how often it is incurred."""
    steps = [(leaf, times) for leaf, times in leaves(event) if not isinstance(leaf, ev.NoRelease | ev.PublicSize)]
    for position, (leaf, times) in enumerate(steps, start=1):
        match leaf:
            case ev.Laplace(scale=scale, quantity=quantity):
                yield Pure(quantity.sensitivity / scale), times
            case ev.ExponentialChoice(rate=rate, quantity=quantity):
                yield BoundedRange(2.0 * rate * quantity.sensitivity), times
            case ev.Gaussian(sigma=sigma, quantity=quantity, coordinates=coordinates, spacing=spacing):
                shift = quantity.sensitivity / sigma
                yield Normal(shift, rounding_distance(coordinates, sigma / spacing)), times
            case ev.ThresholdAuction(epsilon=epsilon, observer=observer, rounds=rounds):
                # One owner hears one bit; but whatever follows, a further round included, may depend on who else was
                # asked, and so tells it about those as well.
                alone = observer is ev.Observer.ONE_OWNER and rounds * times == 1 and position == len(steps)
                jointly = epsilon + math.log1p(math.exp(-epsilon))
                yield Pure(epsilon if alone else jointly), times * rounds
            case ev.Unbounded() | ev.PaperAuction() | ev.Simulated():
                raise UnknownEvent(type(leaf).__name__, "has no price")
            case ev.NoRelease() | ev.PublicSize() | ev.Composition() | ev.Repeated():
                raise AssertionError("left out above, or taken apart by leaves")
            case _:
                assert_never(leaf)


# The inverse of accounting: the least noise that a budget allows.

_PRECISION = 1e-6
_WIDEST = 2.0**60


def least_noise(
    make: Callable[[float], Event], *, relation: Relation, epsilon: float, delta: float, start: float
) -> float:
    """The smallest noise, to one part in a million, whose event costs at most ``epsilon`` at ``delta``.

    ``make`` gives the event for an amount of noise; more noise must never cost more.
    """
    positive("epsilon", epsilon)
    checked_delta(delta)

    def fits(noise: float) -> bool:
        return guarantee(make(noise), relation=relation, delta=delta).epsilon <= epsilon

    low = high = positive("start", start)
    while not fits(high):
        low, high = high, 2.0 * high
        if high > start * _WIDEST:
            raise InvalidArgument("epsilon", epsilon, f"cannot be met at delta = {delta:g} by any amount of noise")
    while low == high or fits(low):
        low, high = low / 2.0, low
    while high / low > 1.0 + _PRECISION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def gaussian_sigma(
    quantity: RowSum | SelectionSum,
    *,
    coordinates: int,
    spacing: float,
    epsilon: float,
    delta: float,
) -> float:
    """The smallest sigma of one discrete Gaussian release within a budget; ``delta`` must be above zero."""
    return least_noise(
        lambda sigma: Gaussian(sigma=sigma, quantity=quantity, coordinates=coordinates, spacing=spacing),
        relation=quantity.relation,
        epsilon=epsilon,
        delta=delta,
        start=quantity.sensitivity / epsilon,
    )


def mwem_epsilon(quantity: RowSum | SelectionSum, *, iterations: int, epsilon: float, delta: float) -> float:
    """The largest per-step epsilon of the paper's Algorithm 2 (its eps) within a budget."""

    def event(noise: float) -> Event:
        step = ExponentialChoice(rate=1.0 / noise, quantity=quantity), Laplace(scale=noise, quantity=quantity)
        return Repeated(Composition(step), iterations)

    return 1.0 / least_noise(
        event,
        relation=quantity.relation,
        epsilon=epsilon,
        delta=delta,
        start=quantity.sensitivity * math.sqrt(iterations) / epsilon,
    )
