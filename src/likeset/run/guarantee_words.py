"""What a guarantee means, in plain words."""

import math

from likeset.privacy.relation import Relation
from likeset.protocol.plans import PlannedView

__all__ = ["in_words"]


def in_words(planned: PlannedView, *, simulated: bool, rows_per_unit: int = 1) -> str:
    """One sentence for somebody who has never heard of epsilon."""
    view, guarantee = planned.view, planned.guarantee
    who, whose = " + ".join(view.coalition) or "any owners", view.protected
    who = who[0].upper() + who[1:]
    if view.observer != "owners":
        verb = "receives" if view.observer == "consumer" else "sees"
        what = "hashes of rows" if planned.hashed else "rows"
        return f"The {view.observer} {verb} up to {planned.rows:,} {what} of {whose}: nothing protects those from it."
    if guarantee.epsilon == 0.0:
        return f"{who} learn nothing at all about the rows of {whose}: what they hear does not depend on them."
    if simulated:
        return f"Simulated noise: what owners hear about {whose} is not protected."
    if not math.isfinite(guarantee.epsilon):
        return f"No guarantee for {whose}: {guarantee.note}."
    one = "one row" if rows_per_unit == 1 else f"one id with all of its rows, {rows_per_unit} at most,"
    changed = "replaced" if guarantee.relation is Relation.REPLACE_ONE else "added or removed"
    odds = math.exp(min(guarantee.epsilon, 50.0))
    return (
        f"{who} together hear almost the same if {one} of {whose} is {changed}: no conclusion that they draw becomes "
        f"more than {odds:,.1f} times as likely by it, but for a chance of {guarantee.delta:g}."
    )
