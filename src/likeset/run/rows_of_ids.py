"""Advice where ids are the reason that a release is mostly noise: how many rows of each to keep instead."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from likeset.protocol.draft import release_outlook
from likeset.protocol.notices import Notice
from likeset.protocol.term_parts import Budget
from likeset.run.plan import Plan

__all__ = ["ManyRowsOfIds", "advice_on_ids"]

_MOST_KEPT = 20
_GOOD = 2.0  # signal to noise: then nothing need be said
_WORTH = 1.25  # times as good, to be worth a word


@dataclass(frozen=True, slots=True)
class ManyRowsOfIds(Notice):
    """Many rows of one id make a release noisy, and few of each would not.

    Attributes:
        rows_per_id: that take part now, at most.
        ratio: signal to noise now.
        keep: how many to keep instead.
        better_ratio: signal to noise then, about.
    """

    kind = "many-rows-of-ids"
    rows_per_id: int
    ratio: float
    keep: int
    better_ratio: float

    @property
    def text(self) -> str:
        """The words."""
        now = "mostly noise" if self.ratio < 1.0 else "noisy"
        rows = f"{self.rows_per_id:,} rows"
        return (
            f"with {rows} per id a release would be {now}; keep: {self.keep} in the schema, and the signal is about "
            f"{self.better_ratio:.1f} times the noise; this number comes from your rows, so write from_data: true "
            "beside it, or choose one from public knowledge"
        )


def advice_on_ids(plan: Plan, rows_of_ids: NDArray[np.int64]) -> ManyRowsOfIds | None:
    """Whether fewer rows of each id would make a release better; None if not, or if it is good.

    Args:
        plan: of the run.
        rows_of_ids: how many rows each id of the target has; the consumer alone knows.
    """
    terms, wishes = plan.terms, plan.wishes
    asked = terms.offers == "tilted" or wishes.offers != "uniform"
    if terms.rows_per_unit == 1 or not len(rows_of_ids) or not asked or terms.kernel.kind != "paired":
        return None
    budget = terms.target_budget if terms.offers == "tilted" else Budget(wishes.epsilon, wishes.delta)
    if not budget.epsilon or not budget.delta:
        return None

    def ratio(keep: int, size: int) -> float:
        return release_outlook(
            budget,
            target_size=size,
            dimension=terms.kernel.dimension,
            relation=terms.relation,
            unit=replace(terms.unit, rows=keep),
            offer_factor=terms.offer_factor,
        ).ratio

    now = ratio(terms.rows_per_unit, terms.target_size)
    fewer = range(1, min(terms.rows_per_unit - 1, _MOST_KEPT) + 1)
    best, keep = max((ratio(keep, max(2, int(np.minimum(rows_of_ids, keep).sum()))), -keep) for keep in fewer)
    return ManyRowsOfIds(terms.rows_per_unit, now, -keep, best) if now < _GOOD and best >= _WORTH * now else None
