"""Shares told with noise: the bound on how shares move, the law of what is heard, and its price."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import kstest

from chance import public_coins
from likeset.audit.bounds import lower_bound
from likeset.audit.exact import hockey_stick, pure_epsilon
from likeset.errors import InvalidArgument
from likeset.privacy import share
from likeset.privacy.accounting import concentrated_price, guarantee, pure_price
from likeset.privacy.events import InRange, Laplace, Observer, Relation, Repeated, Simulated, dumps, loads
from likeset.privacy.guarantee import Basis
from likeset.privacy.noise import Integers, SecretNoise, SimulatedNoise

ALONE, TOGETHER = Observer.ONE_OWNER, Observer.COALITION
STEPS = 2**30
RELATIONS = list(Relation)


class Fixed(SimulatedNoise):
    """Noise that we choose, which remembers what it was asked for."""

    __slots__ = ("asked", "draw")

    def __init__(self, draw: list[int]) -> None:
        super().__init__(0)
        self.draw = draw
        self.asked: list[tuple[float, int]] = []

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """Always the same."""
        self.asked.append((scale, size))
        return np.array(self.draw, dtype=np.int64)


def points(shares: list[float]) -> list[int]:
    """Where shares lie on the lattice: what is heard without noise."""
    silent = Fixed([0] * len(shares))
    plan = share.SharePlan(owners=len(shares), scale=1.0, observer=TOGETHER)
    return [round(heard * STEPS) for heard in share.run(plan, shares, silent).value.tolist()]


def normalised(weights: list[float]) -> list[float]:
    total = math.fsum(weights)
    return [weight / total for weight in weights] if total > 0.0 else weights


WHOLES = st.lists(st.floats(0.0, 1.0) | st.floats(0.0, 1e-12), min_size=5, max_size=5).map(normalised)


# --- how far shares move ---


@given(first=WHOLES, second=WHOLES)
def test_what_rises_rises_by_a_whole_at_most_and_so_does_what_falls(first: list[float], second: list[float]) -> None:
    """The lemma of the proof, on the integers that noise is added to, for shares that floating point made."""
    before, after = np.array(points(first)), np.array(points(second))
    assert before.min() >= 0
    assert before.sum() <= STEPS
    moved = after - before
    assert moved[moved > 0].sum() <= STEPS
    assert -moved[moved < 0].sum() <= STEPS


@given(shares=WHOLES)
def test_the_lattice_is_fine(shares: list[float]) -> None:
    assert np.array(points(shares)) / STEPS == pytest.approx(shares, abs=1e-8)


def test_shares_are_rounded_down() -> None:
    """2^30 = 3 * 357 913 941 + 1."""
    assert points([1 / 3, 1 / 3, 1 / 3]) == [357_913_941] * 3
    assert points([1.0 - 2.0**-40, 0.0]) == [STEPS - 1, 0]
    assert points([0.0, 0.0]) == [0, 0]


@pytest.mark.parametrize("owners", [1, 2, 3, 1000, 2**20])
def test_shares_that_add_up_to_a_hair_too_much_are_brought_back(owners: int) -> None:
    """Computed sums may miss 1 by far more than rounding does, and the integers are still a whole at most."""
    coins = public_coins(owners)
    for excess in (0.0, 1e-15, 5e-10):
        drawn = coins.random(owners)
        found = points((drawn / drawn.sum() * (1.0 + excess)).tolist())
        assert STEPS - owners <= sum(found) <= STEPS


# --- the law of what is heard ---


def test_each_owner_hears_its_share_with_noise_of_its_own_clipped_to_the_range() -> None:
    plan = share.SharePlan(owners=4, scale=0.5, observer=ALONE)
    noise = Fixed([STEPS // 8, -STEPS, STEPS, -STEPS // 8])
    heard = share.run(plan, [0.25, 0.5, 0.0, 0.25], noise)
    assert heard.value.tolist() == [0.375, 0.0, 1.0, 0.125]
    assert noise.asked == [(0.5 * STEPS, 4)]
    assert heard.event == Simulated(plan.event)


@pytest.mark.parametrize(("wrong", "accepted"), [(0.7, False), (1.0, True), (1.3, False)])
def test_the_noise_has_the_scale_that_is_accounted(wrong: float, accepted: bool) -> None:
    """20 000 owners at 1/20 000 each: what is not clipped follows the Laplace law on [0, 1], cut to that range."""
    owners, scale = 20_000, 0.2
    plan = share.SharePlan(owners=owners, scale=scale, observer=TOGETHER)
    heard = share.run(plan, np.full(owners, 1.0 / owners), SimulatedNoise(1)).value
    inside = heard[(heard > 0.0) & (heard < 1.0)] - 1.0 / owners
    ends = 1.0 - 1.0 / owners, scale * wrong
    law = kstest(inside, lambda x: -np.expm1(-np.maximum(x, 0.0) / ends[1]) / -np.expm1(-ends[0] / ends[1]))
    assert (law.pvalue > 1e-9) == accepted


def test_a_release_with_secret_noise_carries_the_plan_s_event() -> None:
    plan = share.plan(3, epsilon=1.0, observer=TOGETHER, relation=Relation.REPLACE_ONE)
    heard = share.run(plan, [0.2, 0.3, 0.5], SecretNoise())
    assert heard.event == plan.event
    assert not heard.simulated
    assert heard.value.shape == (3,)
    assert heard.value.min() >= 0.0
    assert heard.value.max() <= 1.0


# --- its price ---


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 7.0, 30.0])
def test_the_plan_spends_its_epsilon_and_not_more(epsilon: float, relation: Relation) -> None:
    """A scale of 1/epsilon against one owner, of 2/epsilon against any coalition, pure."""
    for observer, numbers in ((ALONE, 1), (TOGETHER, 2)):
        plan = share.plan(9, epsilon=epsilon, observer=observer, relation=relation)
        priced = guarantee(plan.event, relation=relation, delta=0.0)
        assert priced.basis is Basis.PROVEN
        assert epsilon * (1 - 1e-12) < priced.epsilon <= epsilon
        assert plan.scale == pytest.approx(numbers / epsilon)
        assert plan.standard_deviation == pytest.approx(math.sqrt(2) * numbers / epsilon)


def test_a_coalition_of_any_size_costs_what_two_numbers_cost() -> None:
    one = Laplace(scale=2.0, quantity=InRange(0.0, 1.0))
    assert share.SharePlan(owners=50, scale=2.0, observer=ALONE).event == one
    for owners in (2, 3, 1000):
        assert share.SharePlan(owners=owners, scale=2.0, observer=TOGETHER).event == Repeated(one, 2)
    assert share.SharePlan(owners=1, scale=2.0, observer=TOGETHER).event == one
    event = share.SharePlan(owners=50, scale=2.0, observer=TOGETHER).event
    assert loads(dumps(event)) == event
    for relation in RELATIONS:
        assert pure_price(event, relation) == 1.0
        assert concentrated_price(event, relation) == 0.25


def discrete_laplace(shift: int, scale: float, reach: int) -> dict[int, float]:
    """The law of ``shift`` plus noise, what lies beyond the reach heaped onto its ends (which is clipping)."""
    ratio = math.exp(-1.0 / scale)
    law: dict[int, float] = defaultdict(float)
    for k in range(-8 * reach, 8 * reach + 1):
        law[max(-reach, min(reach, k))] += (1 - ratio) / (1 + ratio) * ratio ** abs(k - shift)
    total = math.fsum(law.values())
    return {k: chance / total for k, chance in law.items()}


def law_of(shares: tuple[int, ...], scale: float, reach: int) -> dict[tuple[int, ...], float]:
    single = [discrete_laplace(points, scale, reach) for points in shares]
    return {
        heard: math.prod(law[k] for law, k in zip(single, heard, strict=True))
        for heard in itertools.product(range(-reach, reach + 1), repeat=len(shares))
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [((4, 0), (0, 4)), ((4, 0), (0, 0)), ((3, 1), (1, 3)), ((4, 0, 0), (0, 2, 2)), ((2, 2, 0), (0, 0, 4))],
)
def test_laws_written_out_on_a_coarse_lattice_stay_within_the_price(
    first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    """A lattice of 4 steps; scale 4, so a coalition's epsilon is 2. At every delta, not only at 0."""
    event = share.SharePlan(owners=len(first), scale=1.0, observer=TOGETHER).event
    here, there = (law_of(shares, 4.0, 24 if len(first) == 2 else 12) for shares in (first, second))
    assert pure_epsilon(here, there) <= 2.0 + 1e-9
    for delta in (0.01, 0.1, 0.3):
        claimed = guarantee(event, relation=Relation.REPLACE_ONE, delta=delta).epsilon
        assert hockey_stick(here, there, epsilon=claimed) <= delta


def test_the_price_for_a_coalition_is_reached_and_that_for_one_owner_is_not_enough_for_it() -> None:
    """All of the value passes from one ally to another: each of two numbers moves by its whole range."""
    worst = pure_epsilon(law_of((4, 0), 4.0, 24), law_of((0, 4), 4.0, 24))
    together = share.SharePlan(owners=2, scale=1.0, observer=TOGETHER).event
    alone = share.SharePlan(owners=2, scale=1.0, observer=ALONE).event
    assert worst == pytest.approx(pure_price(together, Relation.REPLACE_ONE), rel=1e-6)
    assert worst > 1.9 * pure_price(alone, Relation.REPLACE_ONE)


def observations(shares: list[float], seed: int) -> NDArray[np.float64]:
    """What is heard in 10 000 runs."""
    plan = share.SharePlan(owners=len(shares), scale=1.0, observer=TOGETHER)
    noise = SimulatedNoise(seed)
    return np.array([share.run(plan, shares, noise).value for _ in range(10_000)])


def test_an_audit_finds_what_is_claimed_for_one_owner_and_for_a_coalition_and_no_more() -> None:
    """Epsilon 1 for one owner, 2 for two allies or three: bounds lie below the claims, and above one owner's claim."""
    first, second = observations([1.0, 0.0, 0.0], 1), observations([0.0, 1.0, 0.0], 2)
    for heard, claim in (([0], 1.0), ([0, 1], 2.0), ([0, 1, 2], 2.0)):
        found = lower_bound(first[:, heard], second[:, heard], delta=0.0).epsilon
        assert 0.6 * claim < found <= claim


# --- bad input ---


@pytest.mark.parametrize(
    "shares",
    [[0.5, 0.5], [0.5, 0.6, 0.0], [-0.1, 0.5, 0.5], [math.nan, 0.0, 0.0], [[0.5, 0.5, 0.0]], [1e308] * 3, ["a"] * 3],
)
def test_what_is_no_vector_of_shares_is_refused_before_noise_is_drawn(shares: list[float]) -> None:
    noise = Fixed([0, 0, 0])
    plan = share.plan(3, epsilon=1.0, observer=ALONE, relation=Relation.REPLACE_ONE)
    with pytest.raises(InvalidArgument, match="shares") as refused:
        share.run(plan, shares, noise)
    assert noise.asked == []
    assert "0.6" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [{"owners": 0}, {"owners": 2**20 + 1}, {"owners": 2.5}, {"epsilon": 0.0}, {"epsilon": math.inf}, {"epsilon": 1e-9}],
)
def test_plans_that_cannot_be_kept_are_refused(change: dict[str, float]) -> None:
    settings: dict[str, float] = {"owners": 3, "epsilon": 1.0, **change}
    with pytest.raises(InvalidArgument):
        share.plan(
            settings["owners"],  # type: ignore[arg-type]  # wrong types are the point
            epsilon=settings["epsilon"],
            observer=ALONE,
            relation=Relation.REPLACE_ONE,
        )


def test_an_observer_must_be_named() -> None:
    with pytest.raises(InvalidArgument, match="observer"):
        share.plan(3, epsilon=1.0, observer="everyone", relation=Relation.REPLACE_ONE)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="scale"):
        share.SharePlan(owners=3, scale=2.0**-31, observer=ALONE)
