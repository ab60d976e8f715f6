"""The pairs are as hard as their docstrings say (exact laws, no sampling), and noise for many runs is as for one."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from likeset.audit import neighbours
from likeset.audit.auditor import PrefetchedNoise, batched_draws
from likeset.audit.neighbours import Neighbours, negated, removed, signs, unit_rows
from likeset.privacy import gaussian_mean
from likeset.privacy.auction import Bids, ThresholdPlan, plan_threshold, ranks
from likeset.privacy.events import ROW, Observer, Relation
from likeset.privacy.noise import Integers, SimulatedNoise

OWNERS = 12


def pure_epsilon(first: Mapping[Any, float], second: Mapping[Any, float]) -> float:
    """The smallest epsilon at delta 0 of two laws that are written out; a missing outcome has probability zero."""
    worst = 0.0
    for outcome in {*first, *second}:
        p, q = first.get(outcome, 0.0), second.get(outcome, 0.0)
        if p != q:
            worst = max(worst, math.inf if min(p, q) == 0 else abs(math.log(p / q)))
    return worst


def plan(epsilon: float) -> ThresholdPlan:
    return plan_threshold(OWNERS, epsilon=epsilon, observer=Observer.COALITION, rounds=1, summary_released=False)


def heard(threshold: ThresholdPlan, bids: Bids, hears: list[int]) -> dict[tuple[bool, ...], float]:
    """The law of what these owners hear: each value of N has probability p(N >= n) - p(N >= n + 1)."""
    law: dict[tuple[bool, ...], float] = {}
    order = ranks(bids.values)[hears]
    for value in range(OWNERS + 1):  # below 1 nobody is asked, from OWNERS on everybody
        above = threshold.probability(value + 1) if value < OWNERS else 0.0
        at_least = threshold.probability(value) if value > 0 else 1.0
        pattern = tuple((order <= value).tolist())
        law[pattern] = law.get(pattern, 0.0) + at_least - above
    return law


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    ("build", "observer"),
    [(neighbours.owner_is_overtaken, 0), (neighbours.tie_is_lost, OWNERS - 1), (neighbours.absent_owner_appears, 0)],
)
def test_one_owner_at_the_offset_loses_the_whole_claim(build: object, observer: int, epsilon: float) -> None:
    """At rank = offset the bit is randomised response: asked with e^epsilon/(1 + e^epsilon), or not."""
    threshold = plan(epsilon)
    pair = build(OWNERS, rank=threshold.offset) if callable(build) else None
    assert isinstance(pair, Neighbours)
    laws = [heard(threshold, pair[side], [observer]) for side in (0, 1)]
    assert pure_epsilon(*laws) == pytest.approx(epsilon)
    assert sorted(laws[0].values()) == pytest.approx([1 / (1 + math.exp(epsilon)), 1 / (1 + math.exp(-epsilon))])


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_coalition_split_below_the_offset_loses_the_whole_claim(epsilon: float) -> None:
    threshold = plan(epsilon)
    pair = neighbours.coalition_is_split(OWNERS, rank=threshold.offset - 1)
    laws = [heard(threshold, pair[side], [0, 1]) for side in (0, 1)]
    assert pure_epsilon(*laws) == pytest.approx(math.log1p(math.exp(epsilon)))


@pytest.mark.parametrize(
    ("pair", "changed", "moved"),
    [
        (negated(signs(8)), 1, 2.0),
        (negated(signs(8), 3), 3, 6.0),
        (removed(signs(8)), 1, 1.0),
        (removed(signs(8), 3), 3, 3.0),
        (negated(unit_rows(4, 6)), 1, 2.0),
        (negated(unit_rows(4, 6), 3), 3, 6.0),
        (negated(unit_rows(4, 6, axis=5)), 1, 2.0),
        (removed(unit_rows(4, 6), 3), 3, 3.0),
        (neighbours.opposite_corners(4, 0.7), 1, 2 * 0.7 * 2),  # every one of 4 coordinates by 1.4
        (neighbours.opposite_corners(4, 0.5, 3), 3, 3.0 * 2),
        (removed(neighbours.opposite_corners(4, 0.5, 3).first, 3), 3, 1.5 * 2),
    ],
    ids=lambda value: getattr(value, "words", ""),
)
def test_the_rows_of_one_unit_differ_and_move_the_sum_as_far_as_they_can(
    pair: Neighbours[NDArray[np.float64]] | Neighbours[Integers], changed: int, moved: float
) -> None:
    assert np.linalg.norm(pair.first.sum(axis=0) - pair.second.sum(axis=0)) == pytest.approx(moved)
    if len(pair.first) != len(pair.second):
        assert pair.first[changed:].tolist() == pair.second.tolist()
    else:
        assert np.atleast_2d(pair.first.T != pair.second.T).any(axis=0).sum() == changed


PAIR = negated(unit_rows(4, 3))
PLAN = gaussian_mean.GaussianPlan(
    quantity=gaussian_mean.unit_rows(ROW, Relation.REPLACE_ONE), size=4, dimension=3, sigma=2.0
)


@pytest.mark.parametrize("side", [0, 1])
def test_a_block_is_the_runs_one_by_one(side: int) -> None:
    """Served from the same block of noise, value by value."""
    at_once = batched_draws(
        lambda number, drawn: gaussian_mean.run(PLAN, PAIR[number], drawn).value, PrefetchedNoise(SimulatedNoise(5))
    )
    one_by_one = PrefetchedNoise(SimulatedNoise(5))
    rows = np.asarray(at_once(side, 50))
    assert rows.shape == (50, 3)
    assert rows.tolist() == [gaussian_mean.run(PLAN, PAIR[side], one_by_one).value.tolist() for _ in range(50)]


def test_a_mechanism_that_mixes_runs_is_not_observed() -> None:
    mixing = batched_draws(lambda _, drawn: drawn.discrete_laplace(1.0, 3).sum(axis=0), SimulatedNoise(1))
    with pytest.raises(AssertionError, match="keep runs apart"):
        mixing(0, 10)


class Counting(SimulatedNoise):
    """Serves 0, 1, 2, ... so that a value served twice shows."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        super().__init__(0)
        self.next = 0

    def discrete_laplace(self, scale: float, size: int) -> Integers:  # noqa: ARG002 - the interface has a scale
        self.next += size
        return np.arange(self.next - size, self.next, dtype=np.int64)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return self.discrete_laplace(sigma, size)


def test_no_value_is_served_twice_whatever_the_sizes() -> None:
    noise = PrefetchedNoise(Counting())
    sizes = [1, 7, 4096, 3, 9000, 1, 1]
    served = np.concatenate([noise.discrete_laplace(1.0, size) for size in sizes])
    assert served.tolist() == list(range(sum(sizes)))


def test_laws_and_scales_do_not_share_a_block() -> None:
    noise = PrefetchedNoise(Counting())
    blocks = [noise.discrete_laplace(1.0, 10), noise.discrete_laplace(2.0, 10), noise.discrete_gaussian(1.0, 10)]
    assert len(set(np.concatenate(blocks).tolist())) == 30
