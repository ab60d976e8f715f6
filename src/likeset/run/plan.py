"""What a job will do and cost, before any owner's rows are read or anything is spent."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likeset.errors import InvalidArgument
from likeset.protocol.notices import Notice
from likeset.protocol.terms import Budget, Terms
from likeset.protocol.wishes import ReleaseOutlook, release_outlook
from likeset.run.budget import ONE_RUN
from likeset.run.job import Job
from likeset.run.job_files import Target, job_warnings, open_target, stalls_without_owners
from likeset.run.market import Market, Outline
from likeset.run.notices import notice_documents
from likeset.run.result import guarantee_document, is_private
from likeset.run.traffic import MostTraffic, most_traffic
from likeset.tables.schema.schema import Schema

__all__ = ["Advice", "RunPlan", "plan_job"]

_BYTES_PER_SECOND = 25e6  # of an owner's file, read twice, mapped and hashed on two cores; a rough measure
_SELECTED_PER_SECOND = 5e6  # candidates times rows of the summary
_LARGEST_SUGGESTED = 16.0
_MOST_SUGGESTED_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Advice:
    """What the release of the target can be expected to tell.

    Attributes:
        noise: standard deviation of the noise in a row's score; None where nothing is released.
        signal: by how much scores differ, typically.
        text: the same in words, with what to do about it.
        pays: whether the release can be expected to be worth its price.
    """

    noise: float | None
    signal: float | None
    text: str
    pays: bool


@dataclass(frozen=True, eq=False)
class RunPlan:
    """What will happen.

    Attributes:
        job: what is asked for.
        outline: terms and guarantees.
        target: name and rows of the target.
        rows_seen: how many rows the curator will see, at most.
        expected_rows_seen: about how many it will be, where an auction decides who is asked.
        traffic: what one owner hears and sends, at most.
        advice: about the release.
        seconds: how long it will take, roughly; None where the owners' files cannot be weighed without opening them.
        warnings: what the user should know.
    """

    job: Job
    outline: Outline
    target: Target
    rows_seen: int
    expected_rows_seen: int
    traffic: MostTraffic
    advice: Advice
    seconds: float | None
    warnings: tuple[Notice, ...]

    @property
    def messages(self) -> int:
        """How many messages travel between curator and owners, at most."""
        return self.traffic.messages * len(self.outline.terms.owners)

    def document(self) -> dict[str, Any]:
        """For machines."""
        terms = self.outline.terms
        simulated = self.job.noise == "simulated"
        return {
            "private": is_private(self.outline.guarantees, simulated=simulated),
            "protocol": terms.protocol,
            "size": terms.size,
            "target": {"name": self.target.name, "rows": len(self.target.rows)},
            "owners": list(terms.owners),
            "guarantees": [
                guarantee_document(one, simulated=simulated, rows_per_unit=terms.rows_per_unit)
                for one in self.outline.guarantees
            ],
            "rows_per_owner": terms.rows_per_owner,
            "rows_seen_at_most": self.rows_seen,
            "rows_seen_expected": self.expected_rows_seen,
            "messages_at_most": self.messages,
            "heard_bytes_per_owner_at_most": self.traffic.heard_bytes,
            "sent_bytes_per_owner_at_most": self.traffic.sent_bytes,
            "offers": terms.offers,
            "released_coordinates": terms.kernel.dimension if terms.offers == "tilted" else 0,
            "width_is_chosen_privately": self.outline.width_is_chosen,
            "noise": self.advice.noise,
            "signal": self.advice.signal,
            "advice": self.advice.text,
            "seconds": self.seconds,
            "notes": notice_documents(self.outline.notes),
            "warnings": notice_documents(self.warnings),
            "budget": {"shared": self.job.ledger is not None, "in_words": "" if self.job.ledger else ONE_RUN},
        }


def plan_job(job: Job, *, check: Callable[[Terms], object] = lambda _: None) -> RunPlan:
    """Plan a job; opens the schema, the target and public rows, and looks at no owner's row.

    Args:
        job: what is asked for.
        check: looks at the terms, but for numbers that come later, before anything is priced; raises where they will
            not do.
    """
    schema = Schema.load(job.schema_file)
    for name, place in job.owners.items():
        if "://" not in place and ":" not in place and not Path(place).exists():
            raise InvalidArgument(f"owner {name}", place, "there is no such file")
    target = open_target(job, schema)
    stalls, seed_rows = stalls_without_owners(job, schema, target)
    market = Market(job.order(rows_per_unit=schema.rows_per_unit, seed_rows=seed_rows), stalls)
    check(market.outlined_terms())
    outline = market.outline()
    terms = outline.terms
    # With an auction, chance decides how many owners are asked; interactive sees one row a round of each of them.
    asked = terms.asked_owners if terms.auction == "threshold" else len(terms.owners)
    return RunPlan(
        job=job,
        outline=outline,
        target=target,
        rows_seen=terms.rows_per_owner * len(terms.owners),
        expected_rows_seen=terms.rows_per_owner * asked,
        traffic=most_traffic(terms, schema),
        advice=_advice(job, terms, outline),
        seconds=_seconds(job, terms),
        warnings=tuple(job_warnings(job, schema, target)),
    )


def _advice(job: Job, terms: Terms, outline: Outline) -> Advice:
    if terms.offers == "uniform":
        reason = (
            " ".join(note.text for note in outline.notes)
            or "offers are uniform, as asked: nothing about the target is released"
        )
        return Advice(None, None, f"{reason}.", pays=True)
    if terms.kernel.kind != "paired":
        return Advice(None, None, "The paper's release: no rule of thumb is known for it.", pays=True)

    def outlook(epsilon: float, rows: int) -> ReleaseOutlook:
        return release_outlook(
            Budget(epsilon, terms.target_budget.delta),
            target_size=rows,
            dimension=terms.kernel.dimension,
            relation=terms.relation,
            rows_per_unit=terms.rows_per_unit,
            offer_factor=terms.offer_factor,
        )

    epsilon, rows = terms.target_budget.epsilon, terms.target_size
    now = outlook(epsilon, rows)
    have = f"Your target has {rows:,} rows: at epsilon = {job.epsilon:g} "
    if now.ratio >= 2.0:
        return Advice(now.noise, now.signal, have + f"the signal is {now.ratio:.1f} times the noise: good.", pays=True)
    share = epsilon / job.epsilon  # of the budget that goes into the release
    better_epsilon = _least(lambda value: outlook(share * value, rows).ratio >= 2.0, job.epsilon, _LARGEST_SUGGESTED)
    better_rows = _least(lambda value: outlook(epsilon, round(value)).ratio >= 2.0, rows, _MOST_SUGGESTED_ROWS)
    ways = [f"epsilon >= {_up(better_epsilon):g}"] if better_epsilon else []
    ways += [f">= {math.ceil(better_rows / 10) * 10:,} rows"] if better_rows else []
    relation = "as large as" if now.ratio >= 0.8 else f"{1.0 / now.ratio:.1f} times"
    if now.ratio >= 1.25:
        relation = f"{100.0 / now.ratio:.0f}% of"
    text = have + f"the noise is {relation} the signal; use {' or '.join(ways) or 'offers: uniform'}."
    return Advice(now.noise, now.signal, text, pays=now.pays)


def _least(good_enough: Any, low: float, high: float) -> float | None:
    """The least value above ``low`` that is good enough, to within 5%; None if none up to ``high`` is."""
    if not good_enough(high):
        return None
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if good_enough(middle) else (middle, high)
    return high


def _up(value: float) -> float:
    """Rounded up to one decimal."""
    return math.ceil(value * 10.0 - 1e-9) / 10.0


def _seconds(job: Job, terms: Terms) -> float | None:
    """From the sizes of the files alone; one figure to expect, not to rely on."""
    total = 0
    for place in job.owners.values():
        path = Path(place)
        if not path.exists():
            return None
        files = path.rglob("*.parquet") if path.is_dir() else [path]
        total += sum(file.stat().st_size for file in files)
    selection = terms.rows_per_owner * len(terms.owners) * terms.size / _SELECTED_PER_SECOND
    rounds = 0.1 * terms.size if terms.protocol == "interactive" else 0.0
    return round(1.0 + total / _BYTES_PER_SECOND + selection + rounds, 1)
