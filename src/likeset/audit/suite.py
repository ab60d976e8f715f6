"""The sound mechanisms with their claims: no lower bound may exceed a claim.

Every claim is what the accountant says about the event that the plan carries, so the whole way is audited:
from the plan through the noise and the mechanism to the price. Trials draw secret noise; where that would
take too long, simulated noise of the same law goes through the same code, and the table says so.

The last trials are the sound twins of ``broken``: the same channels and the same attacks, withstood.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from likeset.audit import neighbours
from likeset.audit.floating import reachability
from likeset.audit.neighbours import Neighbours
from likeset.audit.partitions import Score
from likeset.audit.prefetch import Prefetched
from likeset.audit.sums import EVENT, PAIR, NoisySum, ResentSum, TracedSum, claim, fresh_seed
from likeset.audit.trials import Channel, Observe, Trial, draws, repeated_answers, restarted_answers
from likeset.mechanisms import auction, gaussian_mean, mwem_mean, share, width_choice
from likeset.mechanisms.auction import Bids
from likeset.privacy.events import Composition, Event, ExponentialChoice, Gaussian, Observer
from likeset.privacy.noise import Noise, SecretNoise, SimulatedNoise
from likeset.privacy.relation import InRange, Norm, Relation, RowSum

__all__ = ["sound"]

_OWNERS = 12


def sound() -> list[Trial]:
    """Every mechanism, the bare noise first, the sound twins of the broken set last."""
    secret, simulated = Prefetched(SecretNoise()), Prefetched(SimulatedNoise(fresh_seed()))
    ranked = _threshold_plan(Observer.ONE_OWNER).offset  # where one rank decides most
    split = neighbours.coalition_is_split(_OWNERS, rank=ranked - 1)
    return [
        _laplace(secret),
        _gaussian(secret),
        _choice(secret, samples=5_000),
        _choice(simulated, samples=40_000),
        _coin(secret),
        _gaussian_mean(secret, dimension=2, delta=0.05),
        _gaussian_mean(simulated, dimension=16, delta=0.05),
        _gaussian_mean(simulated, dimension=2, delta=1e-5),
        _mwem(secret, iterations=1, calls=1, delta=0.0, samples=4_000),
        _mwem(simulated, iterations=1, calls=1, delta=0.0, samples=10_000),
        _mwem(simulated, iterations=4, calls=1, delta=0.05, samples=4_000),
        _mwem(simulated, iterations=2, calls=2, delta=0.05, samples=4_000),
        _threshold(secret, neighbours.overtaken(_OWNERS, rank=ranked), hears=[0]),
        _threshold(secret, neighbours.tie_is_lost(_OWNERS, rank=ranked), hears=[_OWNERS - 1]),
        _threshold(secret, neighbours.absent_owner_appears(_OWNERS, rank=ranked), hears=[0]),
        _threshold(secret, split, hears=[0, 1]),
        _threshold(secret, split, hears=[0, 1], rounds=2),
        _everyone(secret),
        _share(secret, hears=[0]),
        _share(secret, hears=[0, 1]),
        _width(secret),
        _resent(secret),
        _traced(secret),
        _restarted(),
        _on_a_lattice(secret),
        _two_means(secret),
    ]


def _laplace(noise: Noise) -> Trial:
    sums = [PAIR[side].sum() for side in (0, 1)]
    return _trial(
        "discrete Laplace",
        PAIR,
        lambda side, size: sums[side] + noise.discrete_laplace(EVENT.scale, size),
        event=EVENT,
        noise=noise,
        samples=40_000,
    )


def _gaussian(noise: Noise) -> Trial:
    sums = [PAIR[side].sum() for side in (0, 1)]
    quantity = RowSum(norm=Norm.EUCLIDEAN, radius=1.0, rows=1, relation=Relation.REPLACE_ONE)
    event = Gaussian(sigma=1.5, quantity=quantity, coordinates=1, spacing=1.0)
    return _trial(
        "discrete Gaussian",
        PAIR,
        lambda side, size: sums[side] + noise.discrete_gaussian(event.sigma, size),
        event=event,
        delta=0.05,
        noise=noise,
        samples=40_000,
    )


def _choice(noise: Noise, *, samples: int) -> Trial:
    pair = neighbours.opposite_scores(candidates=8, sensitivity=2)
    event = ExponentialChoice(rate=0.5, quantity=InRange(-1.0, 1.0))
    return _trial(
        "exponential choice",
        pair,
        lambda side, size: [noise.exponential_choice(pair[side], event.rate) for _ in range(size)],
        event=event,
        noise=noise,
        samples=samples,
    )


def _coin(noise: Noise) -> Trial:
    """Randomised response; the vocabulary of events has no word for it, so the claim is written out."""
    heads = 1 / (1 + math.exp(-1.0))
    coins = [np.array([heads]), np.array([1 - heads])]
    return Trial(
        mechanism="coin",
        pair="a bit is flipped",
        channel=Channel.OUTPUT,
        noise=_kind(noise),
        epsilon=1.0,
        delta=0.0,
        observe=draws(lambda side: noise.bernoulli(coins[side])),
        samples=5_000,
    )


def _gaussian_mean(noise: Noise, *, dimension: int, delta: float) -> Trial:
    pair = neighbours.opposite_rows(rows=4, dimension=dimension)
    plan = _mean_plan(pair, delta)
    return _trial(
        f"gaussian mean, {dimension} coordinates",
        pair,
        draws(lambda side: gaussian_mean.run(plan, pair[side], noise).value),
        event=plan.event,
        delta=delta,
        noise=noise,
        samples=10_000,
    )


def _mwem(noise: Noise, *, iterations: int, calls: int, delta: float, samples: int) -> Trial:
    """The tilts hold all choices and measurements of a call; a second call starts from the first one's."""
    dimension = 4
    pair = neighbours.opposite_corners(dimension, bound=math.sqrt(2.0 / dimension))
    plan = mwem_mean.plan(
        size=2,
        dimension=dimension,
        epsilon=0.5,
        iterations=iterations,
        rows=1,
        relation=Relation.REPLACE_ONE,
    )

    def tilts(side: int) -> Sequence[float]:
        seen: list[float] = []
        state = None
        for _ in range(calls):
            state = mwem_mean.run(plan, pair[side], noise, start=state).value.state
            seen += [*state.tilts, *state.mean]
        return seen

    return _trial(
        f"mwem mean, T = {iterations}" + (", called twice" if calls == 2 else ""),
        pair,
        draws(tilts),
        event=Composition((plan.event,) * calls),
        delta=delta,
        noise=noise,
        samples=samples,
    )


def _threshold(noise: Noise, pair: Neighbours[Bids], *, hears: list[int], rounds: int = 1) -> Trial:
    observer = Observer.COALITION if len(hears) > 1 else Observer.ONE_OWNER
    plan = _threshold_plan(observer, rounds)
    return _trial(
        f"threshold auction, {observer}" + (f", {rounds} rounds" if rounds > 1 else ""),
        pair,
        draws(lambda side: [auction.run(plan, pair[side], noise).value[hears] for _ in range(rounds)]),
        event=plan.event,
        noise=noise,
        samples=20_000,
    )


def _everyone(noise: Noise) -> Trial:
    """Even all owners together hear nothing that depends on a bid."""
    pair = neighbours.overtaken(_OWNERS, rank=1)
    plan = auction.plan_everyone(_OWNERS)
    return _trial(
        "everyone is asked, all owners together",
        pair,
        draws(lambda side: auction.run(plan, pair[side], noise).value),
        event=plan.event,
        noise=noise,
        samples=2_000,
    )


def _share(noise: Noise, *, hears: list[int]) -> Trial:
    pair = neighbours.all_value_changes_hands(3)
    observer = Observer.COALITION if len(hears) > 1 else Observer.ONE_OWNER
    plan = share.plan(3, epsilon=1.0, observer=observer, relation=Relation.REPLACE_ONE)
    return _trial(
        f"share, {observer}",
        pair,
        draws(lambda side: share.run(plan, pair[side], noise).value[hears]),
        event=plan.event,
        noise=noise,
        samples=10_000,
    )


def _width(noise: Noise) -> Trial:
    pair = neighbours.distance_collapses(candidates=3)
    plan = width_choice.Plan(size=len(pair.first), rows=1, rate=0.5, relation=Relation.REPLACE_ONE)
    return _trial(
        "width choice",
        pair,
        draws(lambda side: width_choice.run(plan, pair[side], noise).value),
        event=plan.event,
        noise=noise,
        samples=5_000,
    )


def _resent(noise: Noise) -> Trial:
    return _trial(
        "sum, repeated request resent",
        PAIR,
        repeated_answers(lambda side: ResentSum(PAIR[side], noise), times=8),
        event=EVENT,
        noise=noise,
        samples=20_000,
        channel=Channel.REPEATED,
    )


def _traced(noise: Noise) -> Trial:
    return _trial(
        "sum, all rows read",
        PAIR,
        draws(lambda side: TracedSum(PAIR[side], noise).answer(0)),
        event=EVENT,
        noise=noise,
        samples=20_000,
        channel=Channel.TRACE,
    )


def _restarted() -> Trial:
    """Not prefetched: a new process has nothing in store."""
    return _trial(
        "sum, secret noise after a restart",
        PAIR,
        restarted_answers(lambda side: NoisySum(PAIR[side], SecretNoise())),
        event=EVENT,
        noise=SecretNoise(),
        samples=3_000,
        channel=Channel.RESTARTED,
    )


def _on_a_lattice(noise: Noise) -> Trial:
    """Mironov's attack finds nothing in integer noise: every integer can be reached from every value."""
    sums = [float(PAIR[side].sum()) for side in (0, 1)]
    return _trial(
        "sum, integer noise under attack on doubles",
        PAIR,
        lambda side, size: sums[side] + noise.discrete_laplace(EVENT.scale, size),
        event=EVENT,
        noise=noise,
        samples=20_000,
        score=reachability(sums[0], sums[1], EVENT.scale),
    )


def _two_means(noise: Noise) -> Trial:
    """Two releases with noise of their own, priced as two; the second one is of rows that everybody knows."""
    pair = neighbours.opposite_rows(rows=4, dimension=2)
    plan = _mean_plan(pair, 0.05)

    def both(side: int) -> Sequence[float]:
        return [
            *gaussian_mean.run(plan, pair[side], noise).value,
            *gaussian_mean.run(plan, pair.first, noise).value,
        ]

    return _trial(
        "gaussian mean twice, noise not reused",
        pair,
        draws(both),
        event=Composition((plan.event, plan.event)),
        delta=0.05,
        noise=noise,
        samples=6_000,
    )


def _mean_plan(pair: Neighbours[Any], delta: float) -> gaussian_mean.Plan:
    return gaussian_mean.plan(
        gaussian_mean.unit_rows(1, Relation.REPLACE_ONE),
        size=pair.first.shape[0],
        dimension=pair.first.shape[1],
        epsilon=1.0,
        delta=delta,
    )


def _threshold_plan(observer: Observer, rounds: int = 1) -> auction.ThresholdPlan:
    return auction.plan_threshold(_OWNERS, epsilon=1.0, observer=observer, rounds=rounds, summary_released=False)


def _kind(noise: Noise) -> str:
    return "secret" if noise.private else "simulated"


def _trial(
    mechanism: str,
    pair: Neighbours[Any],
    observe: Observe,
    *,
    event: Event,
    noise: Noise,
    samples: int,
    delta: float = 0.0,
    channel: Channel = Channel.OUTPUT,
    score: Score | None = None,
) -> Trial:
    return Trial(
        mechanism=mechanism,
        pair=pair.words,
        channel=channel,
        noise=_kind(noise),
        epsilon=claim(event, delta=delta),
        delta=delta,
        observe=observe,
        samples=samples,
        score=score,
    )
