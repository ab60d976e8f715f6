"""What guarantees say: for machines as documents, and in plain words."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from likeset.homes.consumer.home import KeptRun
from likeset.ledger import Ledger, Request
from likeset.privacy import accounting
from likeset.privacy.events import ROW, Composition, PrivacyUnit
from likeset.privacy.guarantee import bound_in_words
from likeset.protocol.planned_terms import PlannedTerms
from likeset.protocol.plans import PlannedView, planned_views

__all__ = ["guarantee_documents", "guess_sentences", "is_private", "views_of_run", "width_request"]


def width_request(terms: PlannedTerms) -> Request:
    """The request that a private choice of the release's width is charged for."""
    return Request(terms.run, 0, f"{terms.consumer}/width")


def views_of_run(run: KeptRun) -> tuple[PlannedView, ...]:
    """The views of a run that was signed here; its ledger says whether the release's width was chosen privately."""
    with Ledger(run.ledger_path, read_only=True) as ledger:
        charge = ledger.charge_of(width_request(run.terms))
    width_choice = None if charge is None else charge.costs[0][1]
    return planned_views(run.terms, width_choice=width_choice)


def is_private(guarantees: Iterable[PlannedView], *, simulated: bool) -> bool:
    """Whether all that owners hear is bounded: with simulated noise, or a part without a proof, it is not."""
    about_owners = (planned for planned in guarantees if planned.view.observer == "owners")
    return not simulated and all(math.isfinite(planned.guarantee.epsilon) for planned in about_owners)


def guarantee_documents(
    guarantees: Iterable[PlannedView], *, simulated: bool, unit: PrivacyUnit
) -> list[dict[str, Any]]:
    """What each view costs, for machines and, in words, for people."""
    found = []
    for planned in guarantees:
        document = {
            "observer": planned.view.observer,
            "coalition": list(planned.view.coalition),
            "protects": planned.view.protected,
            "protected_unit": _in_full(unit),
            "epsilon": float(planned.guarantee.epsilon) if math.isfinite(planned.guarantee.epsilon) else None,
            "delta": planned.guarantee.delta,
            "guess": planned.guess,
            "parts": _parts(planned),
            "relation": str(planned.guarantee.relation),
            "basis": str(planned.guarantee.basis),
            "rows": planned.rows,
            "readable": planned.readable,
            "shared": planned.shared,
        }
        found.append(document | {"in_words": _in_words(planned, document, simulated=simulated)})
    return found


def _in_words(planned: PlannedView, document: Mapping[str, Any], *, simulated: bool) -> str:
    """One sentence for somebody who has never heard of epsilon."""
    view, guarantee = planned.view, planned.guarantee
    who, whose = " + ".join(view.coalition) or "any owners", view.protected
    if planned.shared:
        return (
            f"The curator computes on shares of up to {planned.rows:,} rows of {whose}: neither it nor a witness "
            "learns anything from them, as long as no two compute parties work together and all follow the protocol."
        )
    if view.observer != "owners":
        verb = "receives" if view.observer == "consumer" else "sees"
        return f"The {view.observer} {verb} up to {planned.rows:,} rows of {whose}: nothing protects those from it."
    if guarantee.epsilon == 0.0:
        who = who[0].upper() + who[1:]
        return f"{who} learn nothing in this run about the rows of {whose}: what they hear does not depend on them."
    if simulated:
        return f"Simulated noise: what owners hear about {whose} is not protected."
    if not math.isfinite(guarantee.epsilon):
        return f"No guarantee for {whose}: {guarantee.note}."
    return guess_sentences(document, who=who, whose=whose)


def _in_full(unit: PrivacyUnit) -> str:
    if unit == ROW:
        return "one row"
    most = f"at most {unit.rows} take part" if unit.rows > 1 else "at most 1 takes part"
    return f"one id (all of its rows, of which {most})"


def _parts(planned: PlannedView) -> list[dict[str, Any]]:
    """What a price consists of, where the release's width was chosen privately: each part priced alone."""
    about, event = planned.guarantee, planned.event
    if planned.width_choice is None or not isinstance(event, Composition) or math.isinf(about.epsilon):
        return []
    named = zip(("width choice", "release"), event.events, strict=True)
    priced = {what: accounting.guarantee(part, relation=about.relation, delta=about.delta) for what, part in named}
    return [{"what": what, "epsilon": priced[what].epsilon} for what in ("release", "width choice")]


def guess_sentences(guarantee: Mapping[str, Any], *, who: str, whose: str) -> str:
    """What a proven bound means, from its document: for a guess about one unit, and as a sum of parts."""
    epsilon = guarantee["epsilon"]
    guess = bound_in_words(
        guarantee["guess"],
        epsilon=epsilon,
        delta=guarantee["delta"],
        relation=guarantee["relation"],
        unit=f"{guarantee['protected_unit']} of {whose}",
    )
    told = f"By what {who} hear together in this run, {guess}."
    if guarantee["parts"]:
        release, width = (part["epsilon"] for part in guarantee["parts"])
        told += (
            f" Epsilon {epsilon:.4g} is for the release ({release:.4g} alone) and the private choice of its "
            f"kernel width ({width:.4g} alone) together; the two do not simply add up."
        )
    return told
