"""Trials of the means: Gaussian and MWEM, of protected rows and of rows that were selected from protected ones.

Noise is fixed by how far the sum moves on the pair, not by a sensitivity, wherever a sensitivity is what is audited:
a wrong one then changes the claim and is refuted. Other trials go the whole way from a budget to a plan.
"""

import math
from collections.abc import Sequence

import numpy as np

from likeset.audit import neighbours
from likeset.audit.batched_runs import batched_draws
from likeset.audit.neighbours import Neighbours, Rows
from likeset.audit.partitions import Score
from likeset.audit.scores import distances, joint_score, lattice_bits
from likeset.audit.trials import Trial, claims, draws, trial_of
from likeset.privacy import gaussian_mean, mwem_mean
from likeset.privacy.events import ROW, Composition, PrivacyUnit, Relation
from likeset.privacy.noise import Noise

__all__ = ["gaussian_budget", "gaussian_fixed", "gaussian_twice", "mean_score", "mwem", "mwem_rows"]

_DELTA = 0.05  # large, because small deltas are decided in tails that few observations reach
_MEAN_UNSEEN = "joint events of three and more coordinates, but for a quadratic score; rows that are refused"
_MWEM_UNSEEN = "how long its choices take; worse pairs for the later steps"
_SELECTED = "rows selected for the summary"


def gaussian_budget(
    noise: Noise,
    *,
    dimension: int,
    delta: float,
    samples: int,
    rows_per_unit: int = 1,
    axis: int | None = None,
) -> Trial:
    """From a budget of epsilon 1 at ``delta`` to a plan and its mean; the rows along all axes or along one."""
    if axis is None:
        pair = neighbours.opposite_rows(4, dimension, rows_per_unit)
    else:
        pair = neighbours.opposite_axis_rows(4, dimension, axis)
    plan = gaussian_mean.plan(
        gaussian_mean.unit_rows(PrivacyUnit(rows_per_unit, ""), Relation.REPLACE_ONE),
        size=len(pair.first),
        dimension=dimension,
        epsilon=1.0,
        delta=delta,
    )
    name = f"gaussian mean, {dimension} coordinates, budget at delta {delta:g}{_unit(rows_per_unit)}"
    return _gaussian(name, plan, pair, noise, samples=samples)


def gaussian_fixed(noise: Noise, relation: Relation, *, rows_per_unit: int, selected: bool, samples: int) -> Trial:
    """Noise as large as the sum moves on the pair: the claim is then what that costs, and tight."""
    if selected:
        # A row that is added to what is selected from takes another one's place; a replaced one does so twice.
        given_way = rows_per_unit if relation is Relation.ADD_OR_REMOVE else 2 * rows_per_unit
        pair = neighbours.opposite_rows(2 * given_way, 3, given_way)
    elif relation is Relation.ADD_OR_REMOVE:
        pair = neighbours.removed_rows(4, 3, rows_per_unit)
    else:
        pair = neighbours.opposite_rows(4, 3, rows_per_unit)
    quantity = gaussian_mean.selected_unit_rows if selected else gaussian_mean.unit_rows
    plan = gaussian_mean.GaussianPlan(
        quantity=quantity(PrivacyUnit(rows_per_unit, ""), relation),
        size=len(pair.first),
        dimension=3,
        sigma=float(np.linalg.norm(pair.first.sum(axis=0) - pair.second.sum(axis=0))),
    )
    name = "gaussian mean" + (f" of {_SELECTED}" if selected else "") + _unit(rows_per_unit)
    unseen = f"{_MEAN_UNSEEN}; how rows are selected" if selected else _MEAN_UNSEEN
    return _gaussian(name, plan, pair, noise, samples=samples, unseen=unseen)


def _gaussian(
    name: str,
    plan: gaussian_mean.GaussianPlan,
    pair: Neighbours[Rows],
    noise: Noise,
    *,
    samples: int,
    unseen: str = _MEAN_UNSEEN,
) -> Trial:
    return trial_of(
        name,
        pair,
        batched_draws(lambda side, drawn: gaussian_mean.run(plan, pair[side], drawn).value, noise),
        claims=claims(plan.event, delta=_DELTA, relation=plan.relation),
        noise=noise,
        samples=samples,
        relation=plan.relation,
        unseen=unseen,
        score=mean_score(pair, plan.size),
    )


def mean_score(pair: Neighbours[Rows], size: int) -> Score:
    """How near to either raw mean an answer is, and the lowest bits of its lattice point."""
    raw = [pair[side].sum(axis=0) / size for side in (0, 1)]
    return joint_score(distances(raw[0], raw[1]), lattice_bits(gaussian_mean.SPACING / size))


def gaussian_twice(noise: Noise) -> Trial:
    """Two releases with noise of their own, priced as two; the second one is of rows that everybody knows."""
    pair = neighbours.opposite_rows(4, 2)
    plan = gaussian_mean.plan(
        gaussian_mean.unit_rows(ROW, Relation.REPLACE_ONE), size=4, dimension=2, epsilon=1.0, delta=_DELTA
    )

    def both(side: int, drawn: Noise) -> Rows:
        private = gaussian_mean.run(plan, pair[side], drawn).value
        return np.concatenate([private, gaussian_mean.run(plan, pair.first, drawn).value], axis=1)

    return trial_of(
        "gaussian mean twice, noise not reused",
        pair,
        batched_draws(both, noise),
        claims=claims(Composition((plan.event, plan.event)), delta=_DELTA, relation=plan.relation),
        noise=noise,
        samples=6_000,
        relation=plan.relation,
        unseen=f"{_MEAN_UNSEEN}; releases further apart than one after the other",
    )


def mwem(noise: Noise, *, epsilon: float, iterations: int, calls: int, delta: float, samples: int) -> Trial:
    """The tilts hold all choices and measurements of a call; a second call starts from the first one's."""
    plan = mwem_mean.plan(
        size=2, dimension=4, epsilon=epsilon, iterations=iterations, unit=ROW, relation=Relation.REPLACE_ONE
    )
    name = f"mwem mean, T = {iterations}" + (", called twice" if calls == 2 else "")
    return _mwem(name, plan, _corners(1), noise, calls=calls, delta=delta, samples=samples)


def mwem_rows(noise: Noise, relation: Relation, *, rows_per_unit: int, selected: bool, samples: int) -> Trial:
    """One step, its rate such that the claim is 3 if the sensitivity is right: on these pairs all of it is moved."""
    if selected:
        given_way = rows_per_unit if relation is Relation.ADD_OR_REMOVE else 2 * rows_per_unit
        pair, moved = _corners(given_way), 2 * given_way
    elif relation is Relation.ADD_OR_REMOVE:
        pair, moved = neighbours.removed_corners(4, math.sqrt(0.5), rows_per_unit), rows_per_unit
    else:
        pair, moved = _corners(rows_per_unit), 2 * rows_per_unit
    planned = mwem_mean.plan_selection if selected else mwem_mean.plan
    plan = planned(
        size=len(pair.first),
        dimension=4,
        epsilon=1.0 / moved,
        iterations=1,
        unit=PrivacyUnit(rows_per_unit, ""),
        relation=relation,
    )
    name = "mwem mean" + (f" of {_SELECTED}" if selected else "") + ", T = 1" + _unit(rows_per_unit)
    return _mwem(name, plan, pair, noise, calls=1, delta=0.0, samples=samples, selected=selected)


def _mwem(
    name: str,
    plan: mwem_mean.MwemPlan,
    pair: Neighbours[Rows],
    noise: Noise,
    *,
    calls: int,
    delta: float,
    samples: int,
    selected: bool = False,
) -> Trial:
    def tilts(side: int) -> Sequence[float]:
        seen: list[float] = []
        state = None
        for _ in range(calls):
            state = mwem_mean.run(plan, pair[side], noise, start=state).value.state
            seen += [*state.tilts, *state.mean]
        return seen

    return trial_of(
        name,
        pair,
        draws(tilts),
        claims=claims(Composition((plan.event,) * calls), delta=delta, relation=plan.relation),
        noise=noise,
        samples=samples,
        relation=plan.relation,
        unseen=f"{_MWEM_UNSEEN}; how rows are selected" if selected else _MWEM_UNSEEN,
    )


def _corners(changed: int) -> Neighbours[Rows]:
    return neighbours.opposite_corners(4, math.sqrt(0.5), changed)  # sqrt(2/d), as far as a coordinate may be


def _unit(rows_per_unit: int) -> str:
    return "" if rows_per_unit == 1 else f", a unit is {rows_per_unit} rows"
