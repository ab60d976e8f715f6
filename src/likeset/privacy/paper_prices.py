"""How the paper counts, beside what is proven: ``likeset account --paper``; ``--exact`` for the tightest bounds.

The paper states a composition theorem (Kairouz, Oh and Viswanath) and prints two totals. The totals are what the older
theorem of Dwork, Rothblum and Vadhan gives for half of the mechanisms that Algorithm 2 runs. Both are here so that the
numbers can be reproduced; docs/paper-audit.md discusses them. Nothing here is used to protect anybody.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from likeset.privacy.accounting import Basis, Guarantee, guarantee
from likeset.privacy.auction import auction_epsilon, auction_patience
from likeset.privacy.events import (
    ROW,
    Composition,
    Event,
    Norm,
    PaperAuction,
    Relation,
    Repeated,
    RowSum,
    SelectionSum,
)
from likeset.privacy.mwem_mean import PAPER_DIMENSION, Schedule, Steps, schedule

_SIZE, _OWNERS = 500, 5
_PROMISED, _DELTA = 1.0, 1e-5  # the theorem's epsilon and delta wherever the paper leaves them open
# The paper's MNIST experiment: 60000 training rows, a quarter of its test rows of two digits, a small seed set.
_ROWS, _TARGET_ROWS, _SEED_ROWS = 60000, 360, 150


def dwork_rothblum_vadhan(epsilon: float, times: int, delta: float) -> float:
    """Advanced composition as in the textbook: ``epsilon sqrt(2 times log(1/delta)) + times epsilon (e^epsilon - 1)``.

    The paper's totals count one mechanism for each step of Algorithm 2, which makes a choice and a measurement.
    """
    return epsilon * math.sqrt(2.0 * times * math.log(1.0 / delta)) + times * epsilon * math.expm1(epsilon)


@dataclass(frozen=True, slots=True)
class Precondition:
    """Something that the paper's main theorem asks for, its least value, and what the paper's experiments have."""

    what: str
    needed: float
    used: float


def paper_preconditions() -> tuple[Precondition, ...]:
    """What the main theorem asks for, at the parameters of the paper's experiments (its d, p, delta, eps_v and N)."""
    delta, target_epsilon = 1e-4, _schedule("experiment").target.epsilon
    log_d, log_p = math.log(PAPER_DIMENSION), math.log(_SIZE)
    least_target = 44.0 * math.sqrt(2.0 * PAPER_DIMENSION) * log_d * log_p**2 / target_epsilon
    least_seed = 968.0 * (PAPER_DIMENSION * log_d) ** 2 * math.log(1.0 / delta) * log_p**5
    # The error term a of the theorem must be below 1 for its statement to say anything.
    least_dimension = 16.0 * math.log(2.0 * _ROWS) * log_p**2
    return (
        Precondition("target rows, |D_v|", least_target, _TARGET_ROWS),
        Precondition("seed rows, |D_init|", least_seed, _SEED_ROWS),
        Precondition("dimension, d (with a = 1)", least_dimension, PAPER_DIMENSION),
    )


@dataclass(frozen=True, slots=True)
class PriceComparison:
    """One line: what is released to owners, whose rows are protected, as the paper counts and as is proven.

    ``claimed`` is None where the paper makes no claim, ``tightest`` where the exact worst case was not asked for.
    """

    what: str
    protected: str
    claimed: Guarantee | None
    proven: Guarantee
    tightest: Guarantee | None
    observer: str = "any coalition of owners"


def price_comparisons(*, exact_choices: bool) -> tuple[PriceComparison, ...]:
    """Every line under both relations; ``exact_choices`` adds the exact worst case and takes some seconds."""
    lines = []
    for what, protected, planned, delta, claimed in _releases():
        promise = isinstance(claimed, float)
        note = "the paper's main theorem" if promise else "Dwork-Rothblum-Vadhan, one mechanism per step"
        count = dwork_rothblum_vadhan(*claimed, delta) if isinstance(claimed, tuple) else claimed
        for relation in Relation:
            event = planned(relation)
            lines.append(
                PriceComparison(
                    what,
                    protected,
                    None if count is None else Guarantee(count, delta, relation, Basis.CLAIMED, note),
                    guarantee(event, relation=relation, delta=delta),
                    guarantee(event, relation=relation, delta=delta, exact_choices=True)
                    if exact_choices and not promise
                    else None,
                )
            )
    return tuple(lines)


_Planned = Callable[[Relation], Event]
_Claim = float | tuple[float, int] | None
"""A promised epsilon; or the epsilon of a step and the number of steps, which the paper adds up."""


def _releases() -> Iterator[tuple[str, str, _Planned, float, _Claim]]:
    """What is released, whose rows are protected, the event, the delta, and the paper's claim."""
    experiment = _schedule("experiment")
    target, first, later = experiment.target, experiment.summary(1), experiment.summary(2)
    for delta in (0.01, _DELTA):
        counted = target.epsilon, target.iterations
        yield "target mean, once (T = 1656, eps = 0.01)", "one row of the target", _of_rows(target), delta, counted
    summary = "summary mean, 500 rounds (T = 5, eps = 0.0002), seed rows public"
    for delta in (1e-4, _DELTA):
        counted = later.epsilon, _SIZE * later.iterations
        yield summary, "one row of the summary, not of an owner", _of_rows(later, _SIZE), delta, counted
        asked = f"{summary}, every owner asked instead of the auction"
        yield asked, "one row of an owner", _rounds(experiment), delta, counted
    what = "summary mean, first round alone (T = 1656, eps = 0.05), on private seed rows"
    yield what, "one seed row", _of_rows(first), _DELTA, None
    # The schedules of the theorem and of its proof, which promise (epsilon, delta); and the auction.
    for name in ("theorem", "proof"):
        planned = _schedule(name)
        what = f"target mean, schedule of the {name}"
        yield what, "one row of the target", _of_rows(planned.target), _DELTA, _PROMISED
        what = f"summary mean, 500 rounds, every owner asked, schedule of the {name}"
        yield what, "one row of an owner", _rounds(planned), _DELTA, _PROMISED
    auction = PaperAuction(
        epsilon=auction_epsilon(owners=_OWNERS, epsilon=_PROMISED, delta=_DELTA),
        owners=_OWNERS,
        rounds=_SIZE,
        patience=auction_patience(_OWNERS),
    )
    least = -math.expm1(-auction.epsilon)
    what = f"private auction, K = {_OWNERS}: one round has delta >= {least:.4f} at every epsilon"
    yield what, "one row of an owner", lambda _: auction, _DELTA, _PROMISED

    def together(relation: Relation) -> Event:
        return Composition((_rounds(experiment)(relation), auction))

    yield "summary mean and private auction together", "one row of an owner", together, _DELTA, _PROMISED


def _of_rows(steps: Steps, times: int = 1) -> _Planned:
    """So many releases about protected rows."""
    return lambda relation: Repeated(
        steps.event(RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=relation)), times
    )


def _rounds(planned: Schedule) -> _Planned:
    """All releases about the summary; in the experiments without the first, which is about seed rows."""
    numbers = [2] * _SIZE if planned.name == "experiment" else range(1, _SIZE + 1)

    def event(relation: Relation) -> Event:
        quantity = SelectionSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=relation)
        return Composition(tuple(planned.summary(number).event(quantity) for number in numbers))

    return event


def _schedule(name: str) -> Schedule:
    return schedule(name, dimension=PAPER_DIMENSION, size=_SIZE, epsilon=_PROMISED, delta=_DELTA)
