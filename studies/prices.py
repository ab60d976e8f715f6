"""``prices``: how the paper counts, beside what is proven and the tightest bounds.

The paper states a composition theorem (Kairouz, Oh and Viswanath) and prints two totals. The totals are what the older
theorem of Dwork, Rothblum and Vadhan gives for half of the mechanisms that Algorithm 2 runs. Both are here so that the
numbers can be reproduced; docs/paper-audit.md discusses them. Nothing here is used to protect anybody.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
from studies.contract import Cell, Options, Presentation, RecordLine, Table

_SIZE, _OWNERS = 500, 5
_PROMISED, _DELTA = 1.0, 1e-5  # the theorem's epsilon and delta wherever the paper leaves them open
# The paper's MNIST experiment: 60000 training rows, a quarter of its test rows of two digits, a small seed set.
_ROWS, _TARGET_ROWS, _SEED_ROWS = 60000, 360, 150


def dwork_rothblum_vadhan(epsilon: float, times: int, delta: float) -> float:
    """Advanced composition as in the textbook: ``epsilon sqrt(2 times log(1/delta)) + times epsilon (e^epsilon - 1)``.

    The paper's totals count one mechanism for each step of Algorithm 2, which makes a choice and a measurement.
    """
    return epsilon * math.sqrt(2.0 * times * math.log(1.0 / delta)) + times * epsilon * math.expm1(epsilon)


def kairouz_oh_viswanath(epsilon: float, times: int, delta: float) -> float:
    """The composition theorem that the paper cites and prints, for equal mechanisms with delta = 0."""
    drift = times * math.expm1(epsilon) * epsilon / (math.exp(epsilon) + 1.0)
    squares = 2.0 * times * epsilon**2
    inside = min(1.0 / delta, math.e + math.sqrt(squares) / delta)
    return min(times * epsilon, drift + math.sqrt(squares * math.log(inside)))


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

    ``claimed`` is None if the paper makes no claim; ``cited`` is its count by the theorem that it cites, for one
    mechanism a step and for two. ``tightest`` is the exact worst case, where the paper counts steps.
    """

    what: str
    protected: str
    claimed: Guarantee | None
    cited: tuple[float, float] | None
    proven: Guarantee
    tightest: Guarantee | None
    observer: str = "any coalition of owners"


def price_comparison(number: int, relation: Relation, *, exact: bool = True) -> PriceComparison:
    """The line of a release; the exact worst case of its choices takes some seconds."""
    what, protected, planned, delta, claimed = list(_releases())[number]
    promise, count, cited, event = isinstance(claimed, float), claimed, None, planned(relation)
    note = "the paper's main theorem" if promise else "Dwork-Rothblum-Vadhan, one mechanism per step"
    if isinstance(claimed, tuple):
        epsilon, times = claimed
        count = dwork_rothblum_vadhan(epsilon, times, delta)
        cited = (kairouz_oh_viswanath(epsilon, times, delta), kairouz_oh_viswanath(epsilon, 2 * times, delta))
    return PriceComparison(
        what,
        protected,
        Guarantee(count, delta, relation, Basis.CLAIMED, note) if isinstance(count, float) else None,
        cited,
        guarantee(event, relation=relation, delta=delta),
        None if promise or not exact else guarantee(event, relation=relation, delta=delta, exact_choices=True),
    )


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


class Prices:
    """The study."""

    name = "prices"
    description = "prices of the paper's releases: its own count, its cited theorem, what is proven"

    def cells(self, options: Options) -> Sequence[Cell]:
        """A release under a relation each, then what the main theorem asks for; nothing is drawn."""
        options.without_data("prices do not depend on data")
        lines: list[dict[str, Any]] = [{"line": number, "revision": 1} for number in range(2 * len(list(_releases())))]
        return [Cell(self.name, settings) for settings in (*lines, {"line": "preconditions", "revision": 1})]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One line with the exact worst case."""
        if cell["line"] == "preconditions":
            return {"preconditions": [asdict(condition) for condition in paper_preconditions()]}
        line = price_comparison(cell["line"] // 2, list(Relation)[cell["line"] % 2])
        return {
            "what": line.what,
            "observer": line.observer,
            "protected": line.protected,
            "delta": line.proven.delta,
            "relation": str(line.proven.relation),
            "claimed": None if line.claimed is None else line.claimed.epsilon,
            "cited": line.cited,
            "proven": line.proven.epsilon if math.isfinite(line.proven.epsilon) else None,
            "tightest": None if line.tightest is None else line.tightest.epsilon,
            "basis": str(line.proven.basis),
        }

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """Prices, and preconditions."""
        done = [line for line in lines if line.done]
        priced = [line for line in done if line["line"] != "preconditions"]
        conditions = [one for line in done if line["line"] == "preconditions" for one in line["preconditions"]]
        columns = ("claimed", "proven", "tightest")
        rows = [
            [
                f"{line['what']}: {line['protected']}",
                str(line["relation"]),
                f"{line['delta']:g}",
                *("-" if line[name] is None else f"{line[name]:.4g}" for name in columns),
                "-" if line["cited"] is None else " or ".join(f"{value:.4g}" for value in line["cited"]),
            ]
            for line in priced
        ]
        heads = ["release and protected row", "relation", "delta", "the paper", "proven", "tightest", "cited theorem"]
        needed = [[one["what"], f"{one['needed']:.3g}", f"{one['used']:g}"] for one in conditions]
        words = (
            "The paper: its count of epsilon. Proven: what is proven under the relation; `-` where nothing is. "
            "Tightest: the exact worst case of exponential choices. Cited theorem: Kairouz, Oh and Viswanath, for one "
            "mechanism a step, as the paper counts, and for the two that Algorithm 2 runs. Nothing is drawn here.",
        )
        tables = [
            Table("Prices", heads, rows),
            Table("Preconditions", ["of the main theorem", "needed", "used"], needed),
        ]
        return Presentation("The paper's prices", words, tables)


STUDY = Prices()
