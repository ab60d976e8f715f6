"""How the paper counts, for comparison only: nothing here is used to protect anybody.

The paper states a composition theorem (Kairouz, Oh and Viswanath) and prints two totals. The totals are what
the older theorem of Dwork, Rothblum and Vadhan gives for half of the mechanisms that Algorithm 2 runs. Both
are here so that the numbers can be reproduced; docs/paper-audit.md discusses them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from likeset.arguments import count, positive
from likeset.errors import InvalidArgument
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import Basis, Guarantee

__all__ = [
    "Precondition",
    "dwork_rothblum_vadhan",
    "kairouz_oh_viswanath",
    "paper_count",
    "parsimony_bound",
    "preconditions",
]


def dwork_rothblum_vadhan(epsilons: Iterable[float], delta: float) -> float:
    """Advanced composition as in the textbook: ``sqrt(2 log(1/delta) sum eps²) + sum eps (e^eps - 1)``."""
    steps = [positive("epsilons", epsilon) for epsilon in epsilons]
    spread = math.sqrt(2.0 * math.log(1.0 / _paper_delta(delta)) * math.fsum(e * e for e in steps))
    return spread + math.fsum(e * math.expm1(e) for e in steps)


def kairouz_oh_viswanath(epsilons: Iterable[float], delta: float) -> float:
    """The theorem that the paper quotes: the least of three bounds, for purely private mechanisms."""
    steps = [positive("epsilons", epsilon) for epsilon in epsilons]
    squares = math.fsum(2.0 * e * e for e in steps)
    drift = math.fsum(e * math.tanh(e / 2.0) for e in steps)
    log_plain = math.log(1.0 / _paper_delta(delta))
    log_refined = math.log(math.e + math.sqrt(squares) / delta)
    return min(math.fsum(steps), drift + math.sqrt(squares * log_plain), drift + math.sqrt(squares * log_refined))


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
    """Something that the paper's main theorem asks for.

    Args:
        what: the quantity.
        needed: its least value.
        used: what the paper's experiments have.
    """

    what: str
    needed: float
    used: float

    @property
    def met(self) -> bool:
        """Whether the experiments meet it."""
        return self.used >= self.needed


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
    """What the main theorem asks for, at given parameters.

    Args:
        dimension: the paper's d.
        size: the paper's p.
        delta: the paper's delta.
        target_epsilon: the paper's eps_v.
        rows: the paper's N, rows of all owners together.
        target_rows: rows of the target that were used.
        seed_rows: seed rows that were used.
    """
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
