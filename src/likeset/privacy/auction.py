"""Who is asked for rows, given everybody's bids.

``everyone`` asks all and reveals nothing. ``threshold`` asks the owners of rank at most N, one noisy integer
for all of them. ``paper`` is PrivAuction of the paper's Algorithm 3, which is not private: it must be
accepted by name.

An owner hears whether it is asked, and nothing else: not N, not how many were asked, not its rank. Ranks
count from 1 for the highest bid; equal bids are ranked by the owner's place in the list, which is public;
absent owners come last.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import count, positive
from likeset.errors import InvalidArgument, UnprovenPart
from likeset.privacy.events import NoRelease, Observer, PaperAuction, Release, ThresholdAuction
from likeset.privacy.noise import Noise, make_release

PAPER_AUCTION = "paper-auction"
"""The name under which the paper's auction must be accepted."""

_MISSES_THE_TOP = 0.01
_LEAST_EPSILON = 2.0**-40  # of the threshold: ranks, offsets and noise then stay far within 64 bits


@dataclass(frozen=True, slots=True)
class Bids:
    """One bid per owner, in the public order of owners; ``None`` (or not a number) for an absent owner.

    ``waited`` counts the rounds, this one included and not only consecutive ones, in which each owner has bid this
    row; only the paper's auction looks at it.
    """

    values: tuple[float | None, ...]
    waited: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.values or len(self.values) != len(self.waited):
            raise InvalidArgument("bids", f"{len(self.values)} owners", "needs a bid and a wait for each owner")

    @property
    def present(self) -> NDArray[np.bool_]:
        return np.array([value is not None and not math.isnan(value) for value in self.values], dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class EveryonePlan:
    owners: int

    @property
    def event(self) -> NoRelease:
        return NoRelease()


@dataclass(frozen=True, slots=True)
class ThresholdPlan:
    """Owners of rank at most ``offset`` plus discrete Laplace noise of scale 1/epsilon are asked.

    ``epsilon`` is what one use costs against one owner, ``rounds`` how often it will be used, and ``summary_released``
    whether something about the rows so obtained is released between the rounds.
    """

    owners: int
    epsilon: float
    offset: int
    observer: Observer
    rounds: int
    summary_released: bool

    @property
    def event(self) -> ThresholdAuction:
        """What all rounds are, for the accountant: charge it once, not once a round."""
        return ThresholdAuction(
            epsilon=self.epsilon,
            observer=self.observer,
            rounds=self.rounds,
            summary_released=self.summary_released,
        )

    def probability(self, rank: int) -> float:
        return _laplace_at_least(rank - self.offset, self.epsilon)


@dataclass(frozen=True, slots=True)
class PaperPlan:
    """Rank i is asked with probability exp(-(i - 1) epsilon), and always after ``patience`` rounds.

    The paper's K, eps_auc, tau and p.
    """

    owners: int
    epsilon: float
    patience: int
    rounds: int

    @property
    def event(self) -> PaperAuction:
        return PaperAuction(epsilon=self.epsilon, owners=self.owners, rounds=self.rounds, patience=self.patience)

    def probability(self, rank: int) -> float:
        """That an owner of this rank is asked before its patience ends."""
        return math.exp(-(rank - 1) * self.epsilon)


AuctionPlan = EveryonePlan | ThresholdPlan | PaperPlan


def plan_everyone(owners: int) -> EveryonePlan:
    """Ask everybody: it costs nothing and is the right choice below about ten rows wanted per owner."""
    return EveryonePlan(owners=count("owners", owners))


def plan_threshold(
    owners: int,
    *,
    epsilon: float,
    observer: Observer,
    rounds: int,
    summary_released: bool,
    offset: int | None = None,
) -> ThresholdPlan:
    """A shared noisy threshold on ranks.

    To use it more than once costs log(1 + e^epsilon) each time; nothing is proven where something about the rows so
    obtained is released between the rounds. ``offset`` is how many are to be asked, more or less, and must not depend
    on anybody's rows; the least that asks the top bid with probability 0.99 if not given.
    """
    if positive("epsilon", epsilon) < _LEAST_EPSILON:
        raise InvalidArgument("epsilon", epsilon, f"must be at least {_LEAST_EPSILON:g}: ranks are 64-bit numbers")
    least = _least_offset(epsilon)
    if offset is not None and offset < least:
        raise InvalidArgument("offset", offset, f"must be at least {least}, or the top bid is too often passed over")
    plan = ThresholdPlan(
        owners=count("owners", owners),
        epsilon=epsilon,
        offset=least if offset is None else count("offset", offset),
        observer=observer,
        rounds=rounds,
        summary_released=summary_released,
    )
    _ = plan.event
    return plan


def plan_paper(
    owners: int, *, epsilon: float, patience: int, rounds: int, accept_unproven: Collection[str]
) -> PaperPlan:
    """The paper's auction, for comparison; ``UnprovenPart`` unless ``accept_unproven`` names ``"paper-auction"``."""
    if PAPER_AUCTION not in accept_unproven:
        raise UnprovenPart(PAPER_AUCTION, "who is not asked knows that somebody bid more")
    plan = PaperPlan(
        owners=count("owners", owners),
        epsilon=positive("epsilon", epsilon),
        patience=count("patience", patience),
        rounds=count("rounds", rounds),
    )
    _ = plan.event
    return plan


def run(plan: AuctionPlan, bids: Bids, noise: Noise) -> Release[NDArray[np.bool_]]:
    """Who is asked in one round: only owner i may receive entry i.

    Privacy contract:
        Protects:  the rows of one owner, all of them, from the other owners: any change of one bid, absence included.
        Reveals:   to each owner, whether it is asked; the whole vector is for the curator alone.
        Costs:     ``plan.event`` for all rounds together, fixed before bids are read.
        Assumes:   a bid is a function of its owner's own rows, of what that owner was asked before and of what was
                   released to everybody; nobody redraws.
        Basis:     everyone, threshold: proven, docs/proofs/threshold-auction.md; paper: none,
                   docs/proofs/paper-auction.md
    """
    if len(bids.values) != plan.owners:
        raise InvalidArgument("bids", f"{len(bids.values)} owners", f"must have {plan.owners}, as planned")
    order = ranks(bids.values)
    match plan:
        case EveryonePlan():
            asked = np.ones(plan.owners, dtype=np.bool_)
        case ThresholdPlan():
            threshold = plan.offset + int(noise.discrete_laplace(1.0 / plan.epsilon, 1)[0])
            asked = order <= threshold
        case PaperPlan():
            chances = np.array([plan.probability(int(rank)) for rank in order])
            asked = noise.bernoulli(chances) | (np.array(bids.waited) >= plan.patience)
        case _:
            assert_never(plan)
    heard: NDArray[np.bool_] = asked & bids.present
    return make_release(heard, plan.event, noise)


def ranks(values: Sequence[float | None]) -> NDArray[np.int64]:
    """The rank of each bid: 1 for the highest, equal ones by place, absent owners last."""

    def key(owner: int) -> tuple[bool, float, int]:
        value = values[owner]
        absent = value is None or math.isnan(value)
        return absent, 0.0 if absent or value is None else -value, owner

    order = np.empty(len(values), dtype=np.int64)
    for rank, owner in enumerate(sorted(range(len(values)), key=key), start=1):
        order[owner] = rank
    return order


def _laplace_at_least(least: int, epsilon: float) -> float:
    """P(Z >= least) for discrete Laplace noise: a^k/(1 + a) in the upper tail, with a = e^-epsilon."""
    ratio = math.exp(-epsilon)
    if least >= 0:
        return ratio**least / (1.0 + ratio)
    return 1.0 - ratio ** (1 - least) / (1.0 + ratio)


def _least_offset(epsilon: float) -> int:
    """The least offset at which noise of at most -offset passes over the top bid one time in 100 or less.

    With a = e^-epsilon, discrete Laplace noise is at most -k with probability a^k / (1 + a). That is at most m just
    where k * epsilon >= -log(m * (1 + a)), so k is the quotient, rounded up; an offset is at least 1.
    """
    return max(1, math.ceil(-math.log(_MISSES_THE_TOP * (1.0 + math.exp(-epsilon))) / epsilon))


def auction_epsilon(*, owners: int, epsilon: float, delta: float) -> float:
    """The paper's eps_auc = eps / (3 sqrt(2) log(1/delta)) * K^(-1/3)."""
    shrink = 3.0 * math.sqrt(2.0) * math.log(1.0 / delta) * math.cbrt(count("owners", owners))
    return positive("epsilon", epsilon) / shrink


def auction_patience(owners: int) -> int:
    """The paper's tau = K^(2/3), rounded up to a whole number of rounds."""
    # 1e-9 keeps an exact power such as 8^(2/3) = 4 from being rounded up by floating point.
    return math.ceil(math.cbrt(count("owners", owners)) ** 2 - 1e-9)
