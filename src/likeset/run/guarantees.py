"""What guarantees say: for machines as documents, and in plain words."""

import math
from collections.abc import Iterable
from typing import Any

from likeset.privacy.relation import Relation
from likeset.protocol.plans import PlannedView

__all__ = ["guarantee_documents", "is_private"]


def is_private(guarantees: Iterable[PlannedView], *, simulated: bool) -> bool:
    """Whether all that owners hear is bounded: with simulated noise, or a part without a proof, it is not."""
    about_owners = (planned for planned in guarantees if planned.view.observer == "owners")
    return not simulated and all(math.isfinite(planned.guarantee.epsilon) for planned in about_owners)


def guarantee_documents(
    guarantees: Iterable[PlannedView], *, simulated: bool, rows_per_unit: int, ids: bool = False
) -> list[dict[str, Any]]:
    """What each view costs, for machines and, in words, for people."""
    return [
        {
            "observer": planned.view.observer,
            "coalition": list(planned.view.coalition),
            "protects": planned.view.protected,
            "epsilon": float(planned.guarantee.epsilon) if math.isfinite(planned.guarantee.epsilon) else None,
            "delta": planned.guarantee.delta,
            "relation": str(planned.guarantee.relation),
            "basis": str(planned.guarantee.basis),
            "rows": planned.rows,
            "readable": planned.readable,
            "shared": planned.shared,
            "in_words": _in_words(planned, simulated=simulated, rows_per_unit=rows_per_unit, ids=ids),
        }
        for planned in guarantees
    ]


def _in_words(planned: PlannedView, *, simulated: bool, rows_per_unit: int, ids: bool) -> str:
    """One sentence for somebody who has never heard of epsilon."""
    view, guarantee = planned.view, planned.guarantee
    who, whose = " + ".join(view.coalition) or "any owners", view.protected
    who = who[0].upper() + who[1:]
    if planned.shared:
        return (
            f"The curator computes on shares of up to {planned.rows:,} rows of {whose}: neither it nor a witness "
            "learns anything from them, as long as no two compute parties work together and all follow the protocol."
        )
    if view.observer != "owners":
        verb = "receives" if view.observer == "consumer" else "sees"
        what = "rows"
        return f"The {view.observer} {verb} up to {planned.rows:,} {what} of {whose}: nothing protects those from it."
    if guarantee.epsilon == 0.0:
        return f"{who} learn nothing at all about the rows of {whose}: what they hear does not depend on them."
    if simulated:
        return f"Simulated noise: what owners hear about {whose} is not protected."
    if not math.isfinite(guarantee.epsilon):
        return f"No guarantee for {whose}: {guarantee.note}."
    most = f"at most {rows_per_unit} take part" if rows_per_unit > 1 else "at most 1 takes part"
    unit = f"one id with all of its rows, of which {most}," if rows_per_unit > 1 or ids else "one row"
    changed = "replaced" if guarantee.relation is Relation.REPLACE_ONE else "added or removed"
    odds = math.exp(min(guarantee.epsilon, 50.0))
    return (
        f"{who} together hear almost the same if {unit} of {whose} is {changed}: no conclusion that they draw becomes "
        f"more than {odds:,.1f} times as likely by it, but for a chance of {guarantee.delta:g}."
    )
