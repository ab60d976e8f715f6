"""The pairs are as hard as their docstrings say: exact laws, no sampling."""

import math

import numpy as np
import pytest
from exact_laws import pure_epsilon
from numpy.typing import NDArray

from likeset.audit import trials
from likeset.audit.trials import Neighbours
from likeset.privacy import width_choice
from likeset.privacy.accounting import pure_price
from likeset.privacy.auction import Bids, ThresholdPlan, plan_threshold, ranks
from likeset.privacy.events import Observer, PrivacyUnit, Relation
from likeset.privacy.noise import Integers, SimulatedNoise

OWNERS = 12


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
    [
        (trials.owner_is_overtaken, 0),
        (trials.tie_is_lost, OWNERS - 1),
        (trials.absent_owner_appears, 0),
    ],
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
    pair = trials.coalition_is_split(OWNERS, rank=threshold.offset - 1)
    laws = [heard(threshold, pair[side], [0, 1]) for side in (0, 1)]
    assert pure_epsilon(*laws) == pytest.approx(math.log1p(math.exp(epsilon)))


@pytest.mark.parametrize(
    "pair",
    [
        trials.owner_is_overtaken(OWNERS, rank=4),
        trials.tie_is_lost(OWNERS, rank=4),
        trials.absent_owner_appears(OWNERS, rank=4),
        trials.coalition_is_split(OWNERS, rank=4),
    ],
    ids=lambda pair: pair.words,
)
def test_exactly_one_bid_differs(pair: Neighbours[Bids]) -> None:
    differing = [one != two for one, two in zip(pair.first.values, pair.second.values, strict=True)]
    assert sum(differing) == 1


@pytest.mark.parametrize(
    ("pair", "moved"),
    [
        (trials.opposite_signs(8), 2.0),
        (trials.opposite_rows(4, 6), 2.0),
        (trials.opposite_corners(4, 0.7), 2 * 0.7 * 2),  # every one of 4 coordinates by 1.4
    ],
    ids=["signs", "rows", "corners"],
)
def test_one_row_differs_and_moves_the_sum_as_far_as_it_can(
    pair: Neighbours[NDArray[np.float64]] | Neighbours[Integers], moved: float
) -> None:
    differing = np.atleast_2d(pair.first.T != pair.second.T).any(axis=0)
    assert differing.sum() == 1
    assert np.linalg.norm(pair.first.sum(axis=0) - pair.second.sum(axis=0)) == pytest.approx(moved)


@pytest.mark.parametrize(
    ("pair", "moved"),
    [
        (trials.opposite_signs(8, 3), 6.0),
        (trials.removed_signs(8), 1.0),
        (trials.removed_signs(8, 3), 3.0),
        (trials.opposite_rows(4, 6, 3), 6.0),
        (trials.opposite_axis_rows(4, 6, 5), 2.0),
        (trials.removed_rows(4, 6), 1.0),
        (trials.removed_rows(4, 6, 3), 3.0),
        (trials.opposite_corners(4, 0.5, 3), 3.0 * 2),  # every one of 4 coordinates by 3
        (trials.removed_corners(4, 0.5, 3), 1.5 * 2),
    ],
    ids=lambda value: getattr(value, "words", ""),
)
def test_a_unit_of_several_rows_moves_the_sum_as_far_as_that_many_can(
    pair: Neighbours[NDArray[np.float64]] | Neighbours[Integers], moved: float
) -> None:
    assert np.linalg.norm(pair.first.sum(axis=0) - pair.second.sum(axis=0)) == pytest.approx(moved)
    if len(pair.first) != len(pair.second):
        assert pair.first[len(pair.first) - len(pair.second) :].tolist() == pair.second.tolist()


@pytest.mark.parametrize("candidates", [2, 8, 32])
def test_scores_lose_what_the_docstring_says(candidates: int) -> None:
    rate, sensitivity = 0.25, 2
    pair = trials.opposite_scores(candidates, sensitivity)
    laws = []
    for side in (0, 1):
        weights = np.exp(rate * pair[side])
        laws.append(dict(enumerate((weights / weights.sum()).tolist())))
    width = 2 * rate * sensitivity
    expected = math.log(candidates / (1 + (candidates - 1) * math.exp(-width)))
    other = math.log((math.exp(width) + candidates - 1) / candidates)
    assert pure_epsilon(*laws) == pytest.approx(max(expected, other))
    assert pure_epsilon(*laws) <= width


def test_corners_move_the_folded_sums_one_against_all_others() -> None:
    """MWEM scores are absolute values of sums (before anything was learned): 0 -> 2 in one, 2 -> 0 in others."""
    pair = trials.opposite_corners(4, 1.0)
    assert np.abs(pair.first.sum(axis=0)).tolist() == [0, 2, 2, 2]
    assert np.abs(pair.second.sum(axis=0)).tolist() == [2, 0, 0, 0]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("rising", [1, 3, 13])
def test_a_distance_that_collapses_moves_few_scores_up_and_all_others_down(rising: int, rows: int) -> None:
    pair = trials.distance_collapses(rising, rows)
    assert (pair.first != pair.second).any(axis=1).sum() == rows
    plan = width_choice.WidthPlan(
        size=8 * rows, unit=PrivacyUnit(rows, ""), rate=0.5 / rows, relation=Relation.REPLACE_ONE
    )
    scores = [_scores_of(plan, pair[side]) for side in (0, 1)]
    assert (scores[1] - scores[0]).tolist() == [2 * rows] * rising + [-2 * rows] * (len(scores[0]) - rising)
    laws = [np.exp(plan.rate * one) / np.exp(plan.rate * one).sum() for one in scores]
    lost = float(np.log(laws[1][0] / laws[0][0]))
    assert lost < pure_price(plan.event, Relation.REPLACE_ONE)
    if rising == 1:
        assert lost > 0.9 * pure_price(plan.event, Relation.REPLACE_ONE)


def _scores_of(plan: width_choice.WidthPlan, rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """What the mechanism hands to the choice."""

    class Spy(SimulatedNoise):
        seen: NDArray[np.int64]

        def exponential_choice(self, scores: NDArray[np.int64], rate: float) -> int:
            self.seen = scores
            return super().exponential_choice(scores, rate)

    spy = Spy(1)
    width_choice.run(plan, rows, spy)
    return spy.seen
