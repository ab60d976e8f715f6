"""From what was done to what it costs. Proofs: docs/proofs/accounting.md.

Two questions, two answers:

* ``guarantee`` prices a plan that was fixed in advance, by the tightest bound that is valid for it;
* ``Filter`` adds up charges that were chosen one after the other, each perhaps because of what the earlier
ones
  showed. Only bounds that survive such a choice are used: concentrated (zCDP) and pure privacy.

An event outside the vocabulary is refused; a known one without a proof has no finite price, nor has one under another
relation than it was planned under.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self, assert_never

from likeset.errors import UnknownEvent
from likeset.privacy import events as ev
from likeset.privacy import loss
from likeset.privacy.guarantee import Basis, Guarantee, checked_delta
from likeset.privacy.relation import Relation

__all__ = ["Filter", "concentrated_price", "guarantee", "guess_probability", "obstacles", "pure_price"]


def guarantee(event: ev.Event, *, relation: Relation, delta: float, exact_choices: bool = False) -> Guarantee:
    """The tightest proven guarantee for a plan that was fixed before any data were read.

    Later steps of the plan may depend on the results of earlier ones; which steps there are may not.

    Args:
        event: what is done, all of it.
        relation: what neighbouring data are in the statement that is wanted.
        delta: at which epsilon is wanted; at 0 only pure guarantees are finite.
        exact_choices: spend seconds on the exact worst case of exponential choices: a tenth or so tighter. It
            changes how long the answer takes, never whether it is true.
    """
    delta = checked_delta(delta)
    reasons = _reasons(event, relation)
    if reasons:
        return _no_guarantee(delta, relation, "; ".join(reasons))
    parts = loss.ComposedLosses.of(_losses(event))
    epsilon, note = parts.epsilon(delta, exact_choices=exact_choices)
    if math.isinf(epsilon):
        return _no_guarantee(delta, relation, "no finite epsilon at this delta")
    return Guarantee(epsilon=epsilon, delta=delta, relation=relation, basis=Basis.PROVEN, note=note)


@lru_cache(maxsize=1024)
def guess_probability(event: ev.Event, *, relation: Relation) -> float | None:
    """How often a guess between two neighbouring data sets is right at most; None where nothing is proven.

    Both are equally likely beforehand, so that a coin is right half of the time. Whoever sees the output of the event
    is right with probability at most ``(1 + V) / 2``, where V bounds the statistical distance of the two outputs.
    """
    if _reasons(event, relation):
        return None
    return (1.0 + loss.ComposedLosses.of(_losses(event)).advantage()) / 2.0


def concentrated_price(event: ev.Event, relation: Relation) -> float:
    """The event's price in zero-concentrated privacy (the rho of zCDP); infinite if there is none."""
    if _reasons(event, relation):
        return math.inf
    return sum(part.rho * times for part, times in _losses(event))


def pure_price(event: ev.Event, relation: Relation) -> float:
    """The event's price in pure privacy (epsilon at delta = 0); infinite if there is none."""
    if _reasons(event, relation):
        return math.inf
    return sum(part.pure * times for part, times in _losses(event))


def obstacles(event: ev.Event) -> tuple[str, ...]:
    """Why the event has no proven price under any relation: empty if it has one."""
    reasons: dict[str, None] = {}
    for leaf, _ in _leaves(event):
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
    """What one account has spent, for charges chosen one after the other.

    Start with ``Filter.empty``, ``add`` each charge as it is made, and compare ``with_next.epsilon`` with the
    limit before the next one: the limit then holds for the whole, however the charges were chosen. An account
    with a single charge is a plan fixed in advance and is priced as one. Charges are taken as they are: a threshold
    auction priced for one owner must be charged for a coalition once another charge follows it (the ledger does).

    Args:
        relation: what neighbouring data are, for the life of the account.
        delta: the delta of the limit, for the life of the account.
        rho: concentrated privacy spent so far.
        spent_purely: pure privacy spent so far.
        charges: how many charges were not free.
        first: the first of them.
    """

    relation: Relation
    delta: float
    rho: float
    spent_purely: float
    charges: int
    first: ev.Event

    @classmethod
    def empty(cls, *, relation: Relation, delta: float) -> Self:
        """An account on which nothing was spent."""
        return cls(
            relation=relation,
            delta=checked_delta(delta),
            rho=0.0,
            spent_purely=0.0,
            charges=0,
            first=ev.NoRelease(),
        )

    def add(self, event: ev.Event) -> Self:
        """The account after one more charge."""
        rho, epsilon = concentrated_price(event, self.relation), pure_price(event, self.relation)
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
        """Epsilon spent so far, at the account's delta."""
        if self.charges == 1:
            planned = guarantee(self.first, relation=self.relation, delta=self.delta)
            return min(self._adaptive(), planned.epsilon)
        return self._adaptive()

    def _adaptive(self) -> float:
        # Either bound may be the one that holds in the end: docs/proofs/accounting.md, "Two filters at once".
        return min(self.spent_purely, loss.epsilon_of_rho(self.rho, self.delta))


def _reasons(event: ev.Event, relation: Relation) -> tuple[str, ...]:
    """Why nothing is proven about the event under this relation."""
    planned = ev.relation_of(event)
    if planned in (None, relation):
        return obstacles(event)
    return (*obstacles(event), f"planned under {planned}: no proof under {relation}")


def _no_guarantee(delta: float, relation: Relation, note: str) -> Guarantee:
    return Guarantee(epsilon=math.inf, delta=delta, relation=relation, basis=Basis.NONE, note=note)


def _leaves(event: ev.Event, times: int = 1) -> Iterator[tuple[ev.Event, int]]:
    """The single steps, each with how often it is done; a simulated part stays whole."""
    match event:
        case ev.Composition(events=events):
            for part in events:
                yield from _leaves(part, times)
        case ev.Repeated(event=inner, times=more):
            yield from _leaves(inner, times * more)
        case _:
            yield event, times


def _losses(event: ev.Event) -> Iterator[tuple[loss.PrivacyLoss, int]]:
    """Each step of an event without obstacles as a kind of privacy loss, with how often it is incurred."""
    steps = [(leaf, times) for leaf, times in _leaves(event) if not isinstance(leaf, ev.NoRelease | ev.PublicSize)]
    for position, (leaf, times) in enumerate(steps, start=1):
        match leaf:
            case ev.Laplace(scale=scale, quantity=quantity):
                yield loss.Pure(quantity.sensitivity / scale), times
            case ev.ExponentialChoice(rate=rate, quantity=quantity):
                yield loss.BoundedRange(2.0 * rate * quantity.sensitivity), times
            case ev.Gaussian(sigma=sigma, quantity=quantity, coordinates=coordinates, spacing=spacing):
                shift = quantity.sensitivity / sigma
                yield loss.Normal(shift, loss.rounding_distance(coordinates, sigma / spacing)), times
            case ev.ThresholdAuction(epsilon=epsilon, observer=observer, rounds=rounds):
                # One owner hears one bit; but whatever follows, a further round included, may depend on who else was
                # asked, and so tells it about those as well.
                alone = observer is ev.Observer.ONE_OWNER and rounds * times == 1 and position == len(steps)
                jointly = epsilon + math.log1p(math.exp(-epsilon))
                yield loss.Pure(epsilon if alone else jointly), times * rounds
            case ev.Unbounded() | ev.PaperAuction() | ev.Simulated():
                raise UnknownEvent(type(leaf).__name__, "has no price")
            case ev.NoRelease() | ev.PublicSize() | ev.Composition() | ev.Repeated():
                raise AssertionError("left out above, or taken apart by _leaves")
            case _:
                assert_never(leaf)
