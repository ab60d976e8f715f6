"""What the paper's settings cost: its own count beside what is proven, for each view, relation and delta."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from likeset.privacy.accounting import guarantee
from likeset.privacy.events import (
    ROW,
    Composition,
    Event,
    Norm,
    PaperAuction,
    Quantity,
    Relation,
    Repeated,
    RowSum,
    SelectionSum,
)
from likeset.privacy.guarantee import Basis, Guarantee
from likeset.privacy.schedules import Schedule, auction_epsilon, auction_patience, schedule
from likeset.simulation.paper_counting import Precondition, paper_count, preconditions

__all__ = ["PriceComparison", "paper_preconditions", "price_comparisons"]

_DIMENSION, _SIZE, _OWNERS = 140, 500, 5
_PROMISED, _DELTA = 1.0, 1e-5  # the theorem's epsilon and delta wherever the paper leaves them open
# The paper's MNIST experiment: 60000 training rows, a quarter of its test rows of two digits, a small seed
# set.
_ROWS, _TARGET_ROWS, _SEED_ROWS = 60000, 360, 150


_Planned = Callable[[Relation], Event]


@dataclass(frozen=True, slots=True)
class PriceComparison:
    """One line of the comparison.

    Args:
        what: what is released, and whose rows the proven number protects.
        observer: who learns it.
        protected: whose rows.
        claimed: as the paper counts; ``None`` where it makes no claim.
        proven: by the accountant as used everywhere.
        tightest: by the exact worst case, if that was asked for and can be computed.
    """

    what: str
    observer: str
    protected: str
    claimed: Guarantee | None
    proven: Guarantee
    tightest: Guarantee | None


def price_comparisons(*, exact_choices: bool) -> tuple[PriceComparison, ...]:
    """Every line; ``exact_choices`` adds the exact worst case and takes some seconds."""
    lines: list[PriceComparison] = []
    experiment = _schedule("experiment")
    target, later = experiment.target, experiment.summary(2)
    for delta in (0.01, _DELTA):
        lines += _lines(
            "target mean, once (T = 1656, eps = 0.01)",
            "one row of the target",
            lambda relation: target.event(_rows(relation)),
            claimed=[target.epsilon] * target.iterations,
            delta=delta,
            exact_choices=exact_choices,
        )
    counted = [later.epsilon] * (_SIZE * later.iterations)
    for delta in (1e-4, _DELTA):
        for what, protected, event in (
            (
                "seed rows public",
                "one row of the summary, not of an owner",
                lambda relation: Repeated(later.event(_rows(relation)), _SIZE),
            ),
            ("seed rows public, every owner asked instead of the auction", "one row of an owner", _summaries),
        ):
            lines += _lines(
                f"summary mean, 500 rounds (T = 5, eps = 0.0002), {what}",
                protected,
                event,
                claimed=counted,
                delta=delta,
                exact_choices=exact_choices,
            )
    first = experiment.summary(1)
    lines += _lines(
        "summary mean, first round alone (T = 1656, eps = 0.05), on private seed rows",
        "one seed row",
        lambda relation: first.event(_rows(relation)),
        claimed=None,
        delta=_DELTA,
        exact_choices=exact_choices,
    )
    lines += _promises()
    return tuple(lines)


def paper_preconditions() -> tuple[Precondition, ...]:
    """What the main theorem asks for, at the parameters of the paper's experiments."""
    return preconditions(
        dimension=_DIMENSION,
        size=_SIZE,
        delta=1e-4,
        target_epsilon=_schedule("experiment").target.epsilon,
        rows=_ROWS,
        target_rows=_TARGET_ROWS,
        seed_rows=_SEED_ROWS,
    )


def _promises() -> list[PriceComparison]:
    """The schedules of the theorem and of its proof, which promise (epsilon, delta); and the auction."""
    lines: list[PriceComparison] = []
    for name in ("theorem", "proof"):
        planned = _schedule(name)
        for what, protected, event in (
            ("target mean", "one row of the target", _target_of(planned)),
            ("summary mean, 500 rounds, every owner asked", "one row of an owner", _rounds_of(planned)),
        ):
            lines += _promise_lines(f"{what}, schedule of the {name}", protected, event, claim=_PROMISED, delta=_DELTA)
    auction = PaperAuction(
        epsilon=auction_epsilon(owners=_OWNERS, epsilon=_PROMISED, delta=_DELTA),
        owners=_OWNERS,
        rounds=_SIZE,
        patience=auction_patience(_OWNERS),
    )
    least = -math.expm1(-auction.epsilon)
    alone = f"private auction, K = {_OWNERS}: one round has delta >= {least:.4f} at every epsilon"
    together = "summary mean and private auction together"
    for what, event in (
        (alone, lambda _: auction),
        (together, lambda relation: Composition((_summaries(relation), auction))),
    ):
        lines += _promise_lines(what, "one row of an owner", event, claim=_PROMISED, delta=_DELTA)
    return lines


def _summaries(relation: Relation) -> Event:
    """All releases of the summary in the paper's experiments, after the first."""
    return Repeated(_schedule("experiment").summary(2).event(_selected_rows(relation)), _SIZE)


def _target_of(planned: Schedule) -> _Planned:
    return lambda relation: planned.target.event(_rows(relation))


def _rounds_of(planned: Schedule) -> _Planned:
    return lambda relation: Composition(
        tuple(planned.summary(number).event(_selected_rows(relation)) for number in range(1, _SIZE + 1))
    )


def _schedule(name: str) -> Schedule:
    return schedule(name, dimension=_DIMENSION, size=_SIZE, epsilon=_PROMISED, delta=_DELTA)


def _rows(relation: Relation) -> Quantity:
    return RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=relation)


def _selected_rows(relation: Relation) -> Quantity:
    """Rows of the summary, when a row of an owner is what changes."""
    return SelectionSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=relation)


def _lines(
    what: str,
    protected: str,
    planned: _Planned,
    *,
    claimed: list[float] | None,
    delta: float,
    exact_choices: bool,
) -> list[PriceComparison]:
    """One line for each relation, with the paper's way of counting beside it."""
    lines = []
    for relation in Relation:
        counted = None if claimed is None else paper_count(claimed, delta=delta, relation=relation)
        event = planned(relation)
        proven = guarantee(event, relation=relation, delta=delta)
        tightest = guarantee(event, relation=relation, delta=delta, exact_choices=True) if exact_choices else None
        lines.append(PriceComparison(what, "any coalition of owners", protected, counted, proven, tightest))
    return lines


def _promise_lines(
    what: str, protected: str, planned: _Planned, *, claim: float, delta: float
) -> list[PriceComparison]:
    """One line for each relation, with what the paper's theorem promises beside it."""
    return [
        PriceComparison(
            what,
            "any coalition of owners",
            protected,
            Guarantee(claim, delta, relation, Basis.CLAIMED, "the paper's main theorem"),
            guarantee(planned(relation), relation=relation, delta=delta),
            None,
        )
        for relation in Relation
    ]
