"""Broken choices and sums: lost factors, noise drawn again, noise that leaves traces."""

import numpy as np

from likeset.audit import neighbours
from likeset.audit.floating import reachability, textbook_laplace
from likeset.audit.prefetch import PrefetchedNoise
from likeset.audit.sums import EVENT, PAIR, CountedRows, NoisySum, TracedSum, sum_trial
from likeset.audit.trials import (
    Channel,
    Trial,
    claim_at,
    claims,
    draws,
    repeated_answers,
    restarted_answers,
    trial_of,
)
from likeset.privacy.events import ROW, ExponentialChoice, InRange, Laplace, Norm, Relation, RowSum
from likeset.privacy.noise import SimulatedNoise

__all__ = [
    "doubled_rate",
    "early_exit",
    "floating_point_laplace",
    "forgotten_unit",
    "redrawn_answer",
    "seeded_noise",
]

_UNSEEN = "other pairs"


def doubled_rate(seed: int) -> Trial:
    """The exponential mechanism at twice its rate: the factor 2 for scores that may rise and fall is lost."""
    event = ExponentialChoice(rate=0.25, quantity=InRange(-1.0, 1.0))
    pair = neighbours.opposite_scores(candidates=32, sensitivity=2)
    noise = SimulatedNoise(seed)
    return trial_of(
        "exponential choice, rate doubled",
        pair,
        lambda side, size: [noise.exponential_choice(pair[side], 2 * event.rate) for _ in range(size)],
        claims=(claim_at(0.0, event, Relation.REPLACE_ONE),),
        noise=noise,
        samples=40_000,
        relation=Relation.REPLACE_ONE,
        unseen=_UNSEEN,
    )


def forgotten_unit(seed: int) -> Trial:
    """A sum with noise for one row, while a patient has three: the rows of a unit were not counted."""
    pair = neighbours.removed_signs(8, 3)
    removed = Relation.ADD_OR_REMOVE
    row = Laplace(scale=1.0, quantity=RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=removed))
    noise = SimulatedNoise(seed)
    return trial_of(
        "sum, three rows of a unit charged as one",
        pair,
        lambda side, size: pair[side].sum() + noise.discrete_laplace(row.scale, size),
        claims=claims(row, delta=0.0, relation=removed),
        noise=noise,
        samples=4_000,
        relation=removed,
        unseen=_UNSEEN,
    )


def redrawn_answer(seed: int) -> Trial:
    """The same request is answered with fresh noise each time: the answers average out."""
    noise = PrefetchedNoise(SimulatedNoise(seed))
    observe = repeated_answers(lambda side: NoisySum(PAIR[side], noise), times=8)
    return sum_trial("sum, repeated request redrawn", Channel.REPEATED, observe, noise, samples=10_000, unseen=_UNSEEN)


class _HastySum(TracedSum):
    """Stops reading at the first negative row, from where on it knows the rest."""

    def read(self, rows: CountedRows) -> int:
        total = 0
        for index in range(len(rows)):
            value = rows[index]
            total += value
            if value < 0:
                return total + (len(rows) - index - 1)
        return total


def early_exit(seed: int) -> Trial:
    """The answer is the sound one, but how long it takes depends on the rows."""
    noise = PrefetchedNoise(SimulatedNoise(seed))
    observe = draws(lambda side: _HastySum(PAIR[side], noise).answer(0))
    return sum_trial(
        "sum, early exit that depends on data", Channel.TRACE, observe, noise, samples=4_000, unseen=_UNSEEN
    )


def floating_point_laplace(seed: int) -> Trial:
    """Laplace noise as textbooks draw it; the event is which doubles can be reached (Mironov 2012)."""
    coins = np.random.default_rng(seed)
    values = [float(PAIR[side].sum()) for side in (0, 1)]
    return sum_trial(
        "sum, textbook floating-point Laplace",
        Channel.OUTPUT,
        lambda side, size: textbook_laplace(values[side], EVENT.scale, size, coins),
        SimulatedNoise(seed),
        samples=20_000,
        unseen=_UNSEEN,
        score=reachability(values[0], values[1], EVENT.scale),
    )


def seeded_noise(seed: int) -> Trial:
    """Noise from a fixed seed: whoever sees it start a second time has seen the noise before."""
    observe = restarted_answers(lambda side: NoisySum(PAIR[side], SimulatedNoise(seed)))
    return sum_trial(
        "sum, seeded noise", Channel.RESTARTED, observe, SimulatedNoise(seed), samples=2_000, unseen=_UNSEEN
    )
