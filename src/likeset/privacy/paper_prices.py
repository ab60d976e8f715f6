"""How the paper counts, beside what is proven: ``likeset account --paper``; ``--exact`` for the tightest bounds.

The paper states a composition theorem (Kairouz, Oh and Viswanath) and prints two totals. The totals are what the older
theorem of Dwork, Rothblum and Vadhan gives for half of the mechanisms that Algorithm 2 runs. Both are here so that the
numbers can be reproduced; docs/paper-audit.md discusses them. Nothing here is used to protect anybody.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from likeset.arguments import count, positive
from likeset.errors import InvalidArgument
from likeset.privacy.accounting import guarantee
from likeset.privacy.auction import auction_epsilon, auction_patience
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
from likeset.privacy.mwem_mean import PAPER_DIMENSION, Schedule, schedule


def dwork_rothblum_vadhan(epsilons: Iterable[float], delta: float) -> float:
    """Advanced composition as in the textbook: ``sqrt(2 log(1/delta) sum eps²) + sum eps (e^eps - 1)``."""
    steps = [positive("epsilons", epsilon) for epsilon in epsilons]
    spread = math.sqrt(2.0 * math.log(1.0 / _paper_delta(delta)) * math.fsum(e * e for e in steps))
    return spread + math.fsum(e * math.expm1(e) for e in steps)


def paper_count(epsilons: Sequence[float], *, delta: float, relation: Relation) -> Guarantee:
    """What the paper prints for Algorithm 2 run with these per-step epsilons, one entry for each step.

    Each step makes a choice and a measurement; the paper's totals count one mechanism of that epsilon.
    """
    return Guarantee(
        epsilon=dwork_rothblum_vadhan(epsilons, delta),
        delta=delta,
        relation=relation,
        basis=Basis.CLAIMED,
        note="Dwork-Rothblum-Vadhan, one mechanism per step",
    )


@dataclass(frozen=True, slots=True)
class Precondition:
    """Something that the paper's main theorem asks for, its least value, and what the paper's experiments have."""

    what: str
    needed: float
    used: float


def preconditions(
    *,
    dimension: int,
    size: int,
    delta: float,
    target_epsilon: float,
    rows: int,
    target_rows: int,
    seed_rows: int,
) -> tuple[Precondition, ...]:
    """What the main theorem asks for: the paper's d, p, delta, eps_v and N, and the rows that were used."""
    log_d, log_p = math.log(count("dimension", dimension, least=2)), math.log(count("size", size, least=2))
    least_target = 44.0 * math.sqrt(2.0 * dimension) * log_d * log_p**2 / positive("epsilon", target_epsilon)
    least_seed = 968.0 * (dimension * log_d) ** 2 * math.log(1.0 / _paper_delta(delta)) * log_p**5
    # The error term a of the theorem must be below 1 for its statement to say anything.
    least_dimension = 16.0 * math.log(2.0 * rows) * log_p**2
    return (
        Precondition("target rows, |D_v|", least_target, target_rows),
        Precondition("seed rows, |D_init|", least_seed, seed_rows),
        Precondition("dimension, d (with a = 1)", least_dimension, dimension),
    )


def parsimony_bound(*, owners: int, epsilon: float, delta: float) -> float:
    """Rows asked for per row bought, by the paper's own count: ``1/eps_auc`` plus ``owners/patience``.

    Up to rounding this is (3 sqrt(2) log(1/delta)/epsilon + 1) K^(1/3).
    """
    shrink = 3.0 * math.sqrt(2.0) * math.log(1.0 / _paper_delta(delta)) / positive("epsilon", epsilon)
    return (shrink + 1.0) * math.cbrt(count("owners", owners))


def _paper_delta(delta: float) -> float:
    if not 0.0 < delta <= 1.0 / math.e:
        raise InvalidArgument("delta", delta, "must be above 0 and at most 1/e, as in the paper")
    return delta


_SIZE, _OWNERS = 500, 5
_PROMISED, _DELTA = 1.0, 1e-5  # the theorem's epsilon and delta wherever the paper leaves them open
# The paper's MNIST experiment: 60000 training rows, a quarter of its test rows of two digits, a small seed
# set.
_ROWS, _TARGET_ROWS, _SEED_ROWS = 60000, 360, 150


_Planned = Callable[[Relation], Event]


@dataclass(frozen=True, slots=True)
class PriceComparison:
    """One line: what is released to whom, whose rows are protected, as the paper counts and as is proven.

    ``claimed`` is None where the paper makes no claim, ``tightest`` where the exact worst case was not asked for.
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
        dimension=PAPER_DIMENSION,
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
    return schedule(name, dimension=PAPER_DIMENSION, size=_SIZE, epsilon=_PROMISED, delta=_DELTA)


def _rows(relation: Relation) -> Quantity:
    return RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=relation)


def _selected_rows(relation: Relation) -> Quantity:
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
