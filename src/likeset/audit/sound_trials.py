"""The sound mechanisms with their claims: no lower bound may exceed a claim.

A new trial is a function that returns ``trial_of(...)``, and a line in ``_trials`` at the end.

Every claim is what the accountant says about the event that the plan carries, so the whole way is audited:
from the plan through the noise and the mechanism to the price, at the delta of the plan and at 1e-5. Trials draw
secret noise; where that would take too long, simulated noise of the same law goes through the same code, and the table
says so.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likeset.audit import auditor, neighbours
from likeset.audit.auditor import (
    SMALL_DELTA,
    Claim,
    Observe,
    PrefetchedNoise,
    Trial,
    distances,
    draws,
    joint_score,
    lattice_bits,
    trial_of,
)
from likeset.audit.neighbours import Array, Neighbours, Rows
from likeset.privacy import auction, gaussian_mean, mwem_mean, width_choice
from likeset.privacy.auction import Bids
from likeset.privacy.events import (
    ROW,
    Composition,
    ExponentialChoice,
    Gaussian,
    Laplace,
    Norm,
    Observer,
    PrivacyUnit,
    Relation,
    RowSum,
    SelectionSum,
)
from likeset.privacy.kept_rows import KeptRows, digests_of_ids
from likeset.privacy.noise import Integers, Noise, SecretNoise, SimulatedNoise

SIGNS = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
"""A sum of signs, or of rows within [-1, 1]."""


def fresh_seed() -> int:
    """A seed that no two calls share, for simulated noise: repeated audits should not see the same coins."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


def noisy_sums(first: float, second: float, event: Laplace | Gaussian, noise: Noise) -> Observe:
    """The sums under either input with the noise that the event says."""
    if isinstance(event, Laplace):
        return lambda side, size: (first, second)[side] + noise.discrete_laplace(event.scale, size)
    return lambda side, size: (first, second)[side] + noise.discrete_gaussian(event.sigma, size)


# Trials of the bare noise: what every mechanism draws, around sums of signs.
#
# Sums are tried under both relations and with one and three rows to a unit. Their noise is fixed, as far as the sum
# moves on the pair, so that a wrong sensitivity changes the claim and not what is observed.

_ROWS = 8


def bare_noise(noise: Noise, norm: Norm, relation: Relation, *, rows_per_unit: int, samples: int) -> Trial:
    """Discrete noise of as much as the sum moves; Gaussian, not so little that the lattice matters."""
    pair = _displaced(neighbours.signs(_ROWS), relation, rows_per_unit)
    sums = int(pair.first.sum()), int(pair.second.sum())
    moved = float(abs(sums[0] - sums[1]))
    quantity = RowSum(norm=norm, radius=1.0, unit=PrivacyUnit(rows_per_unit, ""), relation=relation)
    event: Laplace | Gaussian
    if norm is Norm.COORDINATE:
        name, delta = "Laplace", 0.0
        event = Laplace(scale=moved, quantity=quantity)
    else:
        name, delta = "Gaussian", 0.05
        event = Gaussian(sigma=max(1.5, moved), quantity=quantity, coordinates=1, spacing=1.0)
    return trial_of(
        f"discrete {name}{_unit(rows_per_unit) or ', a unit is a row'}",
        pair,
        noisy_sums(*sums, event, noise),
        event,
        noise,
        samples=samples,
        deltas=(delta, SMALL_DELTA),
    )


def choice(noise: Noise, *, samples: int) -> Trial:
    """The exponential mechanism, scores as far apart as they may be."""
    pair = neighbours.opposite_scores(candidates=8, sensitivity=2)
    event = ExponentialChoice(rate=0.5, quantity=SIGNS)
    return trial_of(
        "exponential choice",
        pair,
        draws(lambda side: noise.exponential_choice(pair[side], event.rate)),
        event,
        noise,
        samples=samples,
    )


def coin(noise: Noise) -> Trial:
    """Randomised response; the vocabulary of events has no word for it, so the claim is written out."""
    heads = 1 / (1 + math.exp(-1.0))
    pair = Neighbours("a bit is flipped", np.array([heads]), np.array([1 - heads]))
    return trial_of(
        "coin",
        pair,
        draws(lambda side: noise.bernoulli(pair[side])),
        (Claim(1.0, 0.0), Claim(1.0, SMALL_DELTA)),
        noise,
        samples=5_000,
    )


def _displaced(rows: Array, relation: Relation, changed: int, what: str = "row") -> Neighbours[Array]:
    """So many rows replaced by their negation, or removed."""
    build = neighbours.removed if relation is Relation.ADD_OR_REMOVE else neighbours.negated
    return build(rows, changed, what)


def _given_way(relation: Relation, rows_per_unit: int) -> int:
    """A row that is added to what is selected from takes another one's place; a replaced one does so twice."""
    return rows_per_unit if relation is Relation.ADD_OR_REMOVE else 2 * rows_per_unit


def _unit(rows_per_unit: int) -> str:
    return "" if rows_per_unit == 1 else f", a unit is {rows_per_unit} rows"


# Trials of the means: Gaussian and MWEM, of protected rows and of rows that were selected from protected ones.
#
# Noise is fixed by how far the sum moves on the pair, not by a sensitivity, wherever a sensitivity is what is audited:
# a wrong one then changes the claim and is refuted. Other trials go the whole way from a budget to a plan.

MEAN_DELTA = 0.05
"""Large, because small deltas are decided in tails that few observations reach."""

MEAN_DELTAS = (MEAN_DELTA, SMALL_DELTA)

_SELECTED = "rows selected for the summary"


def mean_plan(
    pair: Neighbours[Rows],
    quantity: RowSum | SelectionSum | None = None,
    *,
    delta: float = MEAN_DELTA,
) -> gaussian_mean.GaussianPlan:
    """Noise for epsilon 1 at ``delta``; unless told otherwise for one row to a unit, which may be replaced."""
    protected = gaussian_mean.unit_rows(ROW, Relation.REPLACE_ONE) if quantity is None else quantity
    size, dimension = pair.first.shape
    return gaussian_mean.plan(protected, size=size, dimension=dimension, epsilon=1.0, delta=delta)


def gaussian_budget(
    noise: Noise, *, dimension: int, samples: int, delta: float = 0.05, rows_per_unit: int = 1, axis: int | None = None
) -> Trial:
    """From a budget of epsilon 1 at ``delta`` to a plan and its mean; the rows along all axes or along one."""
    along = "" if axis is None else f" along axis {axis}"
    pair = neighbours.negated(neighbours.unit_rows(4, dimension, axis), rows_per_unit, f"unit row{along}")
    quantity = gaussian_mean.unit_rows(PrivacyUnit(rows_per_unit, ""), Relation.REPLACE_ONE)
    name = f"gaussian mean, {dimension} coordinates, budget at delta {delta:g}{_unit(rows_per_unit)}"
    return _gaussian(name, mean_plan(pair, quantity, delta=delta), pair, noise, samples=samples)


def gaussian_fixed(noise: Noise, relation: Relation, *, rows_per_unit: int, selected: bool, samples: int) -> Trial:
    """Noise as large as the sum moves on the pair: the claim is then what that costs, and tight."""
    if selected:
        given_way = _given_way(relation, rows_per_unit)
        pair = neighbours.negated(neighbours.unit_rows(2 * given_way, 3), given_way, "unit row")
    else:
        pair = _displaced(neighbours.unit_rows(4, 3), relation, rows_per_unit, "unit row")
    quantity = gaussian_mean.selected_unit_rows if selected else gaussian_mean.unit_rows
    plan = gaussian_mean.GaussianPlan(
        quantity=quantity(PrivacyUnit(rows_per_unit, ""), relation),
        size=len(pair.first),
        dimension=3,
        sigma=float(np.linalg.norm(pair.first.sum(axis=0) - pair.second.sum(axis=0))),
    )
    name = "gaussian mean" + (f" of {_SELECTED}" if selected else "") + _unit(rows_per_unit)
    return _gaussian(name, plan, pair, noise, samples=samples)


def _gaussian(
    name: str, plan: gaussian_mean.GaussianPlan, pair: Neighbours[Rows], noise: Noise, *, samples: int
) -> Trial:
    # How near to either raw mean an answer is, and the lowest bits of its lattice point.
    raw = [pair[side].sum(axis=0) / plan.size for side in (0, 1)]
    return trial_of(
        name,
        pair,
        auditor.batched_draws(lambda side, drawn: gaussian_mean.run(plan, pair[side], drawn).value, noise),
        plan.event,
        noise,
        samples=samples,
        deltas=MEAN_DELTAS,
        score=joint_score(distances(raw[0], raw[1]), lattice_bits(gaussian_mean.SPACING / plan.size)),
    )


def mwem(noise: Noise, *, epsilon: float, iterations: int, calls: int, delta: float, samples: int) -> Trial:
    """The tilts hold all choices and measurements of a call; a second call starts from the first one's."""
    plan = mwem_mean.MwemPlan(2, 4, epsilon, iterations, SIGNS)
    name = f"mwem mean, T = {iterations}" + (", called twice" if calls == 2 else "")
    return _mwem(name, plan, _corners(1), noise, calls=calls, delta=delta, samples=samples)


def mwem_rows(noise: Noise, relation: Relation, *, rows_per_unit: int, selected: bool, samples: int) -> Trial:
    """One step, its rate such that the claim is 3 if the sensitivity is right: on these pairs all of it is moved."""
    changed = _given_way(relation, rows_per_unit) if selected else rows_per_unit
    pair, moved = _corners(changed), 2 * changed
    if relation is Relation.ADD_OR_REMOVE and not selected:
        pair, moved = neighbours.removed(pair.first, changed), changed
    kind = SelectionSum if selected else RowSum
    quantity = kind(norm=Norm.COORDINATE, radius=1.0, unit=PrivacyUnit(rows_per_unit, ""), relation=relation)
    plan = mwem_mean.MwemPlan(len(pair.first), 4, 1.0 / moved, 1, quantity)
    name = "mwem mean" + (f" of {_SELECTED}" if selected else "") + ", T = 1" + _unit(rows_per_unit)
    return _mwem(name, plan, pair, noise, samples=samples)


def _mwem(
    name: str,
    plan: mwem_mean.MwemPlan,
    pair: Neighbours[Rows],
    noise: Noise,
    *,
    samples: int,
    calls: int = 1,
    delta: float = 0.0,
) -> Trial:
    def tilts(side: int) -> Sequence[float]:
        seen: list[float] = []
        state = None
        for _ in range(calls):
            state = mwem_mean.run(plan, pair[side], noise, start=state).value.state
            seen += [*state.tilts, *state.mean]
        return seen

    event, deltas = Composition((plan.event,) * calls), (delta, SMALL_DELTA)
    return trial_of(name, pair, draws(tilts), event, noise, samples=samples, deltas=deltas)


def _corners(changed: int) -> Neighbours[Rows]:
    return neighbours.opposite_corners(4, math.sqrt(0.5), changed)  # sqrt(2/d), as far as a coordinate may be


# Trials of what owners hear (auctions) and of the choice of the kernel's width. A bid is any function of an owner's
# rows: both relations mean the same for auctions.

OWNERS = 12


def threshold_plan(observer: Observer, rounds: int = 1) -> auction.ThresholdPlan:
    return auction.plan_threshold(OWNERS, epsilon=1.0, observer=observer, rounds=rounds, summary_released=False)


def threshold(noise: Noise, pair: Neighbours[Bids], *, hears: list[int], rounds: int = 1) -> Trial:
    observer = Observer.COALITION if len(hears) > 1 else Observer.ONE_OWNER
    plan = threshold_plan(observer, rounds)
    return trial_of(
        f"threshold auction, {observer}" + (f", {rounds} rounds" if rounds > 1 else ""),
        pair,
        draws(lambda side: [auction.run(plan, pair[side], noise).value[hears] for _ in range(rounds)]),
        plan.event,
        noise,
        samples=20_000,
    )


def everyone(noise: Noise) -> Trial:
    """Even all owners together hear nothing that depends on a bid."""
    pair, plan = neighbours.owner_is_overtaken(OWNERS, rank=1), auction.plan_everyone(OWNERS)
    return trial_of(
        "everyone is asked, all owners together",
        pair,
        draws(lambda side: auction.run(plan, pair[side], noise).value),
        plan.event,
        noise,
        samples=2_000,
    )


def width(noise: Noise, *, rows_per_unit: int, samples: int) -> Trial:
    """Replace-one only: an added row would pair all others anew, and the choice has no price for that."""
    pair, unit = neighbours.pair_moves_apart(rows_per_unit), PrivacyUnit(rows_per_unit, "")
    rate = 1.0 / rows_per_unit
    plan = width_choice.WidthPlan(size=len(pair.first), unit=unit, rate=rate, relation=Relation.REPLACE_ONE)
    return trial_of(
        f"width choice{_unit(rows_per_unit)}",
        pair,
        draws(lambda side: width_choice.run(plan, pair[side], noise).value),
        plan.event,
        noise,
        samples=samples,
    )


# Trials of ``keep``: sums over a few rows of each id, of which one id has many more.
#
# The key is fixed: the claim holds for every key, so that a trial under one may refute it, and its sums are two
# numbers.

KEEP_KEY = 8
KEEP_BLOCK = 16
_OTHERS, _MANY = 64, 12  # ids with two rows, +1 and -1; rows of the one id that is changed


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of ids, in order: whose row it is, and the row itself, -1 or +1."""

    ids: tuple[bytes, ...]
    signs: Integers


Keep = Callable[[Table, int], NDArray[np.int64]]
"""The numbers of the rows that are kept, given how many of each id are to be."""


def rows_of_many(relation: Relation) -> Neighbours[Table]:
    """One id with a dozen rows all over the table, negated or removed; all others have two, one of each sign."""
    others = [(b"%d" % number, sign) for number in range(_OTHERS) for sign in (1, -1)]
    step = len(others) // _MANY

    def table(sign: int) -> Table:
        rows = list(others)
        for place in reversed(range(_MANY)) if sign else ():
            rows.insert(place * step, (b"many", sign))
        return Table(tuple(name for name, _ in rows), np.array([sign for _, sign in rows], dtype=np.int64))

    if relation is Relation.ADD_OR_REMOVE:
        return Neighbours(f"one id with {_MANY} rows removed", table(1), table(0))
    return Neighbours(f"one id with {_MANY} rows negated", table(1), table(-1))


def kept_rows(table: Table, keep: int) -> NDArray[np.int64]:
    rows = KeptRows(keep)
    for first in range(0, len(table.ids), KEEP_BLOCK):
        rows.add(digests_of_ids(table.ids[first : first + KEEP_BLOCK], key=KEEP_KEY), first)
    return rows.row_numbers()


def kept_sum(
    noise: Noise, relation: Relation, *, keep: int, samples: int, kept: Keep = kept_rows, name: str = ""
) -> Trial:
    """A noisy sum over the kept rows, charged for as many rows to a unit as are kept."""
    pair = rows_of_many(relation)
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=PrivacyUnit(keep, "id"), relation=relation)
    # As much noise as the sum may move: epsilon 1.
    event = Laplace(scale=float(keep if relation is Relation.ADD_OR_REMOVE else 2 * keep), quantity=quantity)
    sums = [int(pair[side].signs[kept(pair[side], keep)].sum()) for side in (0, 1)]
    return trial_of(
        f"sum of kept rows, {name or f'{keep} of an id'}",
        pair,
        noisy_sums(sums[0], sums[1], event, noise),
        event,
        noise,
        samples=samples,
    )


_UNITS = tuple((relation, rows) for relation in Relation for rows in (1, 3))


def sound_trials(seed: int | None = None) -> list[Trial]:
    """Every mechanism, the bare noise first.

    ``seed`` is that of the simulated noise; a fresh one if not given, so that repeated audits see other coins.
    """
    simulated = SimulatedNoise(fresh_seed() if seed is None else seed)
    return list(_trials(PrefetchedNoise(SecretNoise()), PrefetchedNoise(simulated)))


def _trials(secret: Noise, simulated: Noise) -> Iterator[Trial]:
    for norm, samples in ((Norm.COORDINATE, 20_000), (Norm.EUCLIDEAN, 15_000)):
        for relation, rows in _UNITS:
            yield bare_noise(secret, norm, relation, rows_per_unit=rows, samples=samples)
    for relation, keep in ((relation, keep) for relation in Relation for keep in (1, 2)):
        yield kept_sum(secret, relation, keep=keep, samples=10_000)
    yield choice(secret, samples=5_000)
    yield choice(simulated, samples=40_000)
    yield coin(secret)

    yield gaussian_budget(secret, dimension=2, samples=10_000)
    yield gaussian_budget(simulated, dimension=16, samples=20_000)
    yield gaussian_budget(simulated, dimension=16, samples=20_000, axis=15)
    yield gaussian_budget(simulated, dimension=2, rows_per_unit=3, samples=40_000)
    yield gaussian_budget(simulated, dimension=2, delta=1e-5, samples=40_000)
    yield mwem(secret, epsilon=0.5, iterations=1, calls=1, delta=0.0, samples=4_000)
    yield mwem(simulated, epsilon=0.5, iterations=1, calls=1, delta=0.0, samples=5_000)
    yield mwem(simulated, epsilon=0.2, iterations=4, calls=1, delta=0.05, samples=6_000)
    yield mwem(simulated, epsilon=0.2, iterations=2, calls=2, delta=0.05, samples=6_000)
    for relation, rows in _UNITS:
        for selected in (False, True):
            yield gaussian_fixed(simulated, relation, rows_per_unit=rows, selected=selected, samples=20_000)
    for relation, rows in _UNITS[1:]:
        yield mwem_rows(simulated, relation, rows_per_unit=rows, selected=False, samples=5_000)
    for relation in Relation:
        yield mwem_rows(simulated, relation, rows_per_unit=1, selected=True, samples=5_000)

    ranked = threshold_plan(Observer.ONE_OWNER).offset  # where one rank decides most
    split = neighbours.coalition_is_split(OWNERS, rank=ranked - 1)
    yield threshold(secret, neighbours.owner_is_overtaken(OWNERS, rank=ranked), hears=[0])
    yield threshold(secret, neighbours.tie_is_lost(OWNERS, rank=ranked), hears=[OWNERS - 1])
    yield threshold(secret, neighbours.absent_owner_appears(OWNERS, rank=ranked), hears=[0])
    yield threshold(secret, split, hears=[0, 1])
    yield threshold(secret, split, hears=[0, 1], rounds=2)
    yield everyone(secret)
    yield width(secret, rows_per_unit=1, samples=5_000)
    yield width(simulated, rows_per_unit=3, samples=16_000)
