"""Auctions, by writing out their laws: no sampling, no tolerance beyond floating point.

A law is a dictionary from what is heard to its probability. Neighbours differ in one owner's bid, in any way
at all, absence included; observers are the other owners, alone or together.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from likeset.errors import InvalidArgument, UnprovenPart
from likeset.privacy import auction
from likeset.privacy.accounting import Basis, guarantee
from likeset.privacy.auction import auction_epsilon, auction_patience
from likeset.privacy.events import NoRelease, Observer, Relation, Simulated
from likeset.privacy.noise import Integers, SecretNoise, SimulatedNoise

Bidding = tuple[float | None, ...]
Heard = tuple[bool, ...]
Law = dict[Heard, float]


class Fixed(SimulatedNoise):
    """A threshold noise that we choose."""

    def __init__(self, draw: int) -> None:
        super().__init__(0)
        self.draw = draw
        self.scales: list[float] = []

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        self.scales.append(scale)
        return np.full(size, self.draw, dtype=np.int64)


def _bids(values: Sequence[float | None]) -> auction.Bids:
    return auction.Bids(values=tuple(values), waited=(1,) * len(values))


def _threshold(owners: int, epsilon: float, **more: Any) -> auction.ThresholdPlan:
    return auction.plan_threshold(
        owners, epsilon=epsilon, observer=Observer.ONE_OWNER, rounds=1, summary_released=False, **more
    )


def _paper(owners: int) -> auction.PaperPlan:
    return auction.plan_paper(
        owners,
        epsilon=auction_epsilon(owners=owners, epsilon=1.0, delta=1e-5),
        patience=auction_patience(owners),
        rounds=500,
        accept_unproven=["paper-auction"],
    )


# --- ranks ---


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((3.0, 1.0, 2.0), [1, 3, 2]),
        ((1.0, 1.0, 1.0), [1, 2, 3]),
        ((1.0, 2.0, 2.0, 1.0), [3, 1, 2, 4]),
        ((None, 0.0, None, -5.0), [3, 1, 4, 2]),
        ((math.nan, -math.inf, math.inf), [3, 2, 1]),
    ],
)
def test_ranks_break_ties_by_place_and_put_absent_owners_last(values: Bidding, expected: list[int]) -> None:
    assert auction.ranks(values).tolist() == expected


def _neighbours(owners: int) -> Iterator[tuple[Bidding, Bidding, int]]:
    """Every bidding of three levels and absence, with every change of one bid."""
    levels: list[float | None] = [None, 0.0, 1.0, 2.0]
    for values in itertools.product(levels, repeat=owners):
        for place, other in itertools.product(range(owners), levels):
            if other != values[place]:
                yield values, (*values[:place], other, *values[place + 1 :]), place


# --- everyone ---


def test_everyone_is_asked_and_it_costs_nothing() -> None:
    plan = auction.plan_everyone(3)
    release = auction.run(plan, _bids((1.0, None, 5.0)), SecretNoise())
    assert release.value.tolist() == [True, False, True]
    assert release.event == plan.event == NoRelease()


# --- threshold ---


def _threshold_law(plan: auction.ThresholdPlan, values: Bidding) -> Law:
    """Run the auction at every threshold from 0 (nobody) to K (everybody), and add up their probabilities.

    P(N >= n) is ``plan.probability(n)``; everything up to 0 is nobody, everything from K on is everybody.
    """
    law: dict[Heard, float] = defaultdict(float)
    for threshold in range(plan.owners + 1):
        above = plan.probability(threshold) if threshold > 0 else 1.0
        beyond = plan.probability(threshold + 1) if threshold < plan.owners else 0.0
        heard = auction.run(plan, _bids(values), Fixed(threshold - plan.offset)).value
        law[tuple(heard.tolist())] += above - beyond
    return dict(law)


def _seen_by(law: Law, coalition: Sequence[int]) -> Law:
    seen: dict[Heard, float] = defaultdict(float)
    for heard, chance in law.items():
        seen[tuple(heard[owner] for owner in coalition)] += chance
    return dict(seen)


def _worst_loss(first: Law, second: Law) -> float:
    return max(
        math.inf if second.get(heard, 0.0) == 0.0 else math.log(chance / second[heard])
        for heard, chance in first.items()
        if chance > 0.0
    )


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_probabilities_are_those_of_discrete_laplace_noise(epsilon: float) -> None:
    """P(offset + Z >= rank), summed over the law of Z: (1-a)/(1+a) a^|z|."""
    plan = _threshold(100, epsilon)
    ratio = math.exp(-epsilon)
    draws = np.arange(-400, 401)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(draws)
    for rank in range(1, 31):
        assert plan.probability(rank) == pytest.approx(law[plan.offset + draws >= rank].sum(), rel=1e-12)


@pytest.mark.parametrize(("epsilon", "asked"), [(0.5, 9), (1.0, 5), (2.0, 3)])
def test_the_top_bid_is_asked_and_few_others(epsilon: float, asked: int) -> None:
    """The least offset with P(top) >= 0.99.

    The expected number asked is the offset, up to what is cut off at 0.
    """
    plan = _threshold(10000, epsilon)
    assert plan.offset == asked
    assert plan.probability(1) >= 0.99
    assert 1.0 - (1.0 - plan.probability(1)) * math.exp(epsilon) < 0.99  # one less would be too few
    assert sum(plan.probability(rank) for rank in range(1, 10001)) == pytest.approx(asked, abs=0.02)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_threshold_auction_exactly(epsilon: float) -> None:
    """Over all biddings of 4 owners, ties and absence included: epsilon alone, log(1 + e^epsilon) together.

    Both are reached: one owner of rank 2 against rank 1 in the lower tail; two owners at ranks r and r + 2
        against r
    and r + 1, where one threshold more separates them.
    """
    plan = _threshold(4, epsilon)
    law = lru_cache(maxsize=None)(lambda values: _threshold_law(plan, values))
    worst = {"alone": 0.0, "together": 0.0}
    for values, changed, place in _neighbours(owners=4):
        first, second = law(values), law(changed)
        others = [owner for owner in range(4) if owner != place]
        for size in (1, 2, 3):
            for coalition in itertools.combinations(others, size):
                loss = _worst_loss(_seen_by(first, coalition), _seen_by(second, coalition))
                kind = "alone" if size == 1 else "together"
                worst[kind] = max(worst[kind], loss)
    assert worst["alone"] == pytest.approx(epsilon, rel=1e-9)
    assert worst["together"] == pytest.approx(math.log1p(math.exp(epsilon)), rel=1e-9)


def _least_offset_by_search(epsilon: float) -> int:
    """The first offset, counting from 1, with P(Z <= -offset) = a^offset/(1 + a) of at most 0.01."""
    ratio = math.exp(-epsilon)
    return next(k for k in itertools.count(1) if 1.0 - ratio**k / (1.0 + ratio) >= 0.99)


@pytest.mark.parametrize("first", [0.005, 0.01, 0.1, 1.0, 10.0])
def test_the_least_offset_is_what_a_search_for_it_finds(first: float) -> None:
    for place in range(200):
        epsilon = first * (1.0 + place / 20.0)
        assert _threshold(5, epsilon).offset == _least_offset_by_search(epsilon)


@pytest.mark.parametrize("epsilon", [1e-7, 1e-9, 1e-12])
def test_the_least_offset_takes_no_longer_for_odd_epsilons(epsilon: float) -> None:
    """Where e^-epsilon is almost 1, the quotient is log(50)/epsilon but for less than one part in a million."""
    assert _threshold(5, epsilon).offset == pytest.approx(math.log(50.0) / epsilon, rel=1e-6)
    assert _threshold(5, 1e300).offset == 1


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-17, 1e-13])
def test_epsilons_whose_ranks_would_not_fit_64_bits_are_refused(epsilon: float) -> None:
    with pytest.raises(InvalidArgument, match="epsilon"):
        _threshold(5, epsilon)


def test_a_smaller_offset_than_needed_is_refused_and_a_larger_one_is_not() -> None:
    with pytest.raises(InvalidArgument, match="at least 5"):
        _threshold(100, 1.0, offset=4)
    plan = _threshold(100, 1.0, offset=20)
    assert plan.probability(1) > 0.999


def test_the_threshold_has_the_noise_that_is_priced() -> None:
    noise = Fixed(0)
    auction.run(_threshold(2, 0.25), _bids((1.0, 2.0)), noise)
    assert noise.scales == [4.0]


def test_the_release_is_marked_and_the_shape_is_checked() -> None:
    plan = _threshold(2, 1.0)
    assert auction.run(plan, _bids((1.0, 2.0)), SimulatedNoise(0)).event == Simulated(plan.event)
    assert auction.run(plan, _bids((1.0, 2.0)), SecretNoise()).event == plan.event
    for values in ((1.0,), (1.0, 2.0, 3.0)):
        with pytest.raises(InvalidArgument, match="as planned"):
            auction.run(plan, _bids(values), SimulatedNoise(0))
    for waited in ((1,), (1, 1, 1)):
        with pytest.raises(InvalidArgument, match="for each owner"):
            auction.Bids(values=(1.0, 2.0), waited=waited)


# --- several rounds ---

Rows = tuple[tuple[float, ...], ...]


def _several_rounds(plan: auction.AuctionPlan, rows: Rows, observers: Sequence[int], rounds: int) -> Law:
    """The law of what the observers hear over several rounds in which asked rows never bid again.

    Written out state by state: (rows left, how long each best row has waited) and what was heard so far.
    """
    states: dict[tuple[Heard, Rows, tuple[int, ...]], float] = {((), rows, (1,) * len(rows)): 1.0}
    for _ in range(rounds):
        after: dict[tuple[Heard, Rows, tuple[int, ...]], float] = defaultdict(float)
        for (heard, left, waited), chance in states.items():
            for asked, share in _round_law(plan, left, waited).items():
                kept = tuple(mine[1:] if bit else mine for mine, bit in zip(left, asked, strict=True))
                waits = tuple(1 if bit else wait + 1 for wait, bit in zip(waited, asked, strict=True))
                more = (*heard, *(asked[owner] for owner in observers))
                after[more, kept, waits] += chance * share
        states = dict(after)
    law: dict[Heard, float] = defaultdict(float)
    for (heard, _, _), chance in states.items():
        law[heard] += chance
    return dict(law)


def _round_law(plan: auction.AuctionPlan, rows: Rows, waited: tuple[int, ...]) -> Law:
    values = tuple(mine[0] if mine else None for mine in rows)
    if isinstance(plan, auction.ThresholdPlan):
        return _threshold_law(plan, values)
    assert isinstance(plan, auction.PaperPlan)
    chances = [
        0.0 if value is None else 1.0 if wait >= plan.patience else plan.probability(int(rank))
        for value, rank, wait in zip(values, auction.ranks(values), waited, strict=True)
    ]
    return {
        asked: math.prod(p if bit else 1.0 - p for p, bit in zip(chances, asked, strict=True))
        for asked in itertools.product([True, False], repeat=len(rows))
        if all(0.0 < p < 1.0 or bit == (p == 1.0) for p, bit in zip(chances, asked, strict=True))
    }


def test_epsilon_a_round_is_not_enough_against_a_single_owner() -> None:
    """Eight owners, two rounds at 0.2, both rows of owner 0 changed: owner 1 alone can lose 0.48, not 0.4.

    What the others are asked for in the first round shapes everybody's rank in the second. The bound, which holds
    for any coalition and so for one owner, is 2 log(1 + e^0.2) = 1.60. Found by hill climbing.
    """
    plan = auction.ThresholdPlan(
        owners=8, epsilon=0.2, offset=4, observer=Observer.ONE_OWNER, rounds=2, summary_released=False
    )
    others: Rows = (
        (0.762, 0.392),
        (0.573, 0.310),
        (0.547, 0.201),
        (0.549, 0.013),
        (0.903, 0.181),
        (0.945, 0.172),
        (0.913, 0.088),
    )
    laws = [_several_rounds(plan, (first, *others), [1], 2) for first in ((0.696, 0.534), (0.821, 0.061))]
    worst = max(_worst_loss(*laws), _worst_loss(*reversed(laws)))
    assert worst == pytest.approx(0.4799, abs=1e-3)
    assert 2 * 0.2 < worst <= 2 * math.log1p(math.exp(0.2))


# --- the paper's ---


def _delta(first: Law, second: Law, epsilon: float) -> float:
    """The smallest delta at this epsilon: the sum of max(0, P - e^epsilon Q)."""
    return math.fsum(max(0.0, chance - math.exp(epsilon) * second.get(heard, 0.0)) for heard, chance in first.items())


def test_the_papers_auction_must_be_accepted_by_name() -> None:
    for accepted in ([], ["threshold"], "paper"):
        with pytest.raises(UnprovenPart, match="paper-auction"):
            auction.plan_paper(5, epsilon=0.01, patience=3, rounds=1, accept_unproven=accepted)
    assert guarantee(_paper(5).event, relation=Relation.REPLACE_ONE, delta=0.5).basis is Basis.NONE


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 100.0])
def test_one_round_of_the_papers_auction_has_delta_above_its_claim_at_every_epsilon(epsilon: float) -> None:
    """Owner 0 bids highest, or second beside one more row at owner 1: not being asked is impossible, or not.

    So delta = 1 - exp(-eps_auc) = 0.0119 however large epsilon is; 1e-5 is claimed.
    """
    plan = _paper(5)
    others: Rows = ((0.3,), (0.2,), (0.1,))
    without, with_row = (_several_rounds(plan, ((1.0,), best, *others), [0], 1) for best in ((0.5,), (2.0, 0.5)))
    assert without.get((False,), 0.0) == 0.0
    assert _delta(with_row, without, epsilon) == pytest.approx(1 - math.exp(-plan.epsilon), rel=1e-6)
    assert 1 - math.exp(-plan.epsilon) == pytest.approx(0.0119, abs=1e-4)


def test_one_row_displaces_others_in_every_later_round() -> None:
    """The chain: x > b1 > a1 > b2 > a2 ..., owner 1 holds the a's and perhaps x, owner 0 the b's.

    Without x, owner 0 is ahead in every round as long as owner 1 is asked each time; with x it is second in
    every round until it is not asked once. Three rounds, all of them written out: 0.034 at epsilon = 1.
    """
    plan = _paper(5)
    mine = (10.0, 8.0, 6.0, 4.0)
    theirs = (9.0, 7.0, 5.0, 3.0)
    others: Rows = ((0.3,) * 4, (0.2,) * 4, (0.1,) * 4)
    without, with_row = (_several_rounds(plan, (mine, best, *others), [0], 3) for best in (theirs, (11.0, *theirs)))
    assert _delta(with_row, without, 1.0) == pytest.approx(0.034, abs=5e-4)
    assert _delta(with_row, without, 1.0) == pytest.approx(_chain_delta(plan, 3), rel=1e-9)


def test_over_five_hundred_rounds_the_chain_reaches_a_sixth() -> None:
    assert _chain_delta(_paper(5), 500) == pytest.approx(0.167, abs=1e-3)


def _chain_delta(plan: auction.PaperPlan, rounds: int) -> float:
    """The same chain in closed form, at epsilon = 1.

    Once owner 0 has not been asked, both worlds go on alike, so only the round t of that counts. With q =
    exp(-eps_auc) its law is q^(t-1) (1-q) with x, and (t-1) q^(t-2) (1-q)² without: owner 1 must have been
    passed over before.
    """
    q = plan.probability(2)
    return math.fsum(
        max(0.0, q ** (t - 1) * (1 - q) - math.e * (t - 1) * q ** max(t - 2, 0) * (1 - q) ** 2)
        for t in range(1, rounds + 1)
    )


def test_whoever_waited_long_enough_is_asked_by_the_paper() -> None:
    plan = auction.plan_paper(2, epsilon=50.0, patience=3, rounds=9, accept_unproven=["paper-auction"])
    for waits, expected in [((1, 1), [True, False]), ((1, 2), [True, False]), ((1, 3), [True, True])]:
        bids = auction.Bids(values=(2.0, 1.0), waited=waits)
        assert auction.run(plan, bids, SecretNoise()).value.tolist() == expected


def test_coins_of_the_papers_auction_are_independent_and_follow_the_ranks() -> None:
    """Epsilon = log 2: ranks 1, 2, 3 are asked with probability 1, 1/2, 1/4; 4000 rounds, six deviations."""
    plan = auction.plan_paper(3, epsilon=math.log(2), patience=9, rounds=1, accept_unproven=["paper-auction"])
    noise = SimulatedNoise(5)
    asked = np.array([auction.run(plan, _bids((1.0, 3.0, 2.0)), noise).value for _ in range(4000)])
    assert asked.mean(axis=0) == pytest.approx([0.25, 1.0, 0.5], abs=6 * 0.5 / math.sqrt(4000))
    assert (asked[:, 0] & asked[:, 2]).mean() == pytest.approx(0.125, abs=6 * 0.33 / math.sqrt(4000))
