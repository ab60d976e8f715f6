"""Trials of the bare noise: what every mechanism draws, around sums of signs.

Sums are tried under both relations and with one and three rows to a unit. Their noise is fixed, as far as the sum
moves on the pair, so that a wrong sensitivity changes the claim and not what is observed.
"""

import math

import numpy as np

from likeset.audit import neighbours
from likeset.audit.neighbours import Neighbours
from likeset.audit.trials import SMALL_DELTA, Claim, Trial, claims, draws, trial_of
from likeset.privacy.events import ExponentialChoice, Gaussian, InRange, Laplace, Norm, PrivacyUnit, Relation, RowSum
from likeset.privacy.noise import Integers, Noise

__all__ = ["choice", "coin", "gaussian", "laplace"]

_ROWS = 8


def laplace(noise: Noise, relation: Relation, *, rows_per_unit: int, samples: int) -> Trial:
    """Discrete Laplace noise of a scale of as much as the sum moves: epsilon 1."""
    pair = _signs(relation, rows_per_unit)
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=PrivacyUnit(rows_per_unit, ""), relation=relation)
    event = Laplace(scale=_sum_distance(pair), quantity=quantity)
    return trial_of(
        f"discrete Laplace, {_unit(rows_per_unit)}",
        pair,
        lambda side, size: pair[side].sum() + noise.discrete_laplace(event.scale, size),
        claims=claims(event, delta=0.0, relation=relation),
        noise=noise,
        samples=samples,
        relation=relation,
        unseen="draws that depend on one another",
    )


def gaussian(noise: Noise, relation: Relation, *, rows_per_unit: int, samples: int) -> Trial:
    """Discrete Gaussian noise of as much as the sum moves, but not so little that the lattice matters."""
    pair = _signs(relation, rows_per_unit)
    quantity = RowSum(norm=Norm.EUCLIDEAN, radius=1.0, unit=PrivacyUnit(rows_per_unit, ""), relation=relation)
    event = Gaussian(sigma=max(1.5, _sum_distance(pair)), quantity=quantity, coordinates=1, spacing=1.0)
    return trial_of(
        f"discrete Gaussian, {_unit(rows_per_unit)}",
        pair,
        lambda side, size: pair[side].sum() + noise.discrete_gaussian(event.sigma, size),
        claims=claims(event, delta=0.05, relation=relation),
        noise=noise,
        samples=samples,
        relation=relation,
        unseen="draws that depend on one another; tails beyond about 4 sigma",
    )


def choice(noise: Noise, *, samples: int) -> Trial:
    """The exponential mechanism, scores as far apart as they may be."""
    pair = neighbours.opposite_scores(candidates=8, sensitivity=2)
    event = ExponentialChoice(rate=0.5, quantity=InRange(-1.0, 1.0))
    return trial_of(
        "exponential choice",
        pair,
        lambda side, size: [noise.exponential_choice(pair[side], event.rate) for _ in range(size)],
        claims=claims(event, delta=0.0, relation=Relation.REPLACE_ONE),
        noise=noise,
        samples=samples,
        relation=Relation.REPLACE_ONE,
        unseen="how long a choice takes: it depends on the scores",
    )


def coin(noise: Noise) -> Trial:
    """Randomised response; the vocabulary of events has no word for it, so the claim is written out."""
    heads = 1 / (1 + math.exp(-1.0))
    coins = [np.array([heads]), np.array([1 - heads])]
    return trial_of(
        "coin",
        Neighbours("a bit is flipped", coins[0], coins[1]),
        draws(lambda side: noise.bernoulli(coins[side])),
        claims=(Claim(1.0, 0.0), Claim(1.0, SMALL_DELTA)),
        noise=noise,
        samples=5_000,
        relation=Relation.REPLACE_ONE,
        unseen="coins that depend on one another; probabilities other than 0.73",
    )


def _signs(relation: Relation, rows_per_unit: int) -> Neighbours[Integers]:
    if relation is Relation.ADD_OR_REMOVE:
        return neighbours.removed_signs(_ROWS, rows_per_unit)
    return neighbours.opposite_signs(_ROWS, rows_per_unit)


def _sum_distance(pair: Neighbours[Integers]) -> float:
    return float(abs(int(pair.first.sum()) - int(pair.second.sum())))


def _unit(rows_per_unit: int) -> str:
    return "a unit is a row" if rows_per_unit == 1 else f"a unit is {rows_per_unit} rows"
