"""A job's plan: the run's, and what people ask before they start it: what travels and what to expect."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from likeset.errors import InvalidArgument
from likeset.protocol.draft import ReleaseOutlook, release_outlook
from likeset.protocol.notices import Notice, UniformOffers
from likeset.protocol.planned_terms import PlannedTerms
from likeset.protocol.term_parts import Budget
from likeset.run.budget import ONE_RUN
from likeset.run.guarantees import guarantee_documents, is_private
from likeset.run.job import Job
from likeset.run.job_files import OwnFiles, job_warnings, open_own_files
from likeset.run.job_folder import named_job
from likeset.run.ledger_outlook import AccountOutlook, ledger_outlook
from likeset.run.notices import notice_documents
from likeset.run.plan import Plan, make_plan
from likeset.run.rows_of_ids import ManyRowsOfIds, advice_on_ids
from likeset.run.run_draws import new_draws
from likeset.run.run_secrets import RunSecrets
from likeset.run.traffic import MostTraffic, most_traffic

__all__ = ["Advice", "JobPlan", "check_owners_files", "open_plan", "plan_job"]

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
class JobPlan:
    """What will happen.

    Attributes:
        files: what the consumer has itself.
        plan: of the run.
        accounts: what it would leave of the budgets in the job's ledger; None where there is none yet.
    """

    files: OwnFiles
    plan: Plan
    accounts: tuple[AccountOutlook, ...] | None = None

    @property
    def job(self) -> Job:
        """What is asked for."""
        return self.files.job

    @property
    def terms(self) -> PlannedTerms:
        """What is fixed of them before anything is drawn."""
        return self.plan.terms

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """What the user should know."""
        target = self.files.target
        return tuple(
            job_warnings(self.job, self.files.schema, target.table, target.rows, undeclared_id=target.undeclared_id)
        )

    @property
    def rows_seen(self) -> int:
        """How many rows the curator will see, at most."""
        return self.terms.rows_per_owner * len(self.terms.owners)

    @property
    def expected_rows_seen(self) -> int:
        """About how many it will be: with an auction, chance decides how many owners are asked."""
        asked = self.terms.asked_owners if self.terms.auction == "threshold" else len(self.terms.owners)
        return self.terms.rows_per_owner * asked

    @property
    def traffic(self) -> MostTraffic:
        """What one owner hears and sends, at most."""
        return most_traffic(self.terms, self.files.schema)

    @property
    def messages(self) -> int:
        """How many messages travel between curator and owners, at most."""
        return self.traffic.messages * len(self.terms.owners)

    @property
    def advice(self) -> Advice:
        """About the release; it names ids where they are the reason."""
        advice, ids = _advice(self.plan), self.advice_on_ids
        return advice if ids is None else replace(advice, text=f"{advice.text} Ids are the reason: {ids.text}.")

    @property
    def advice_on_ids(self) -> ManyRowsOfIds | None:
        """Where fewer rows of each id of the target would make the release better."""
        return advice_on_ids(self.plan, self.files.target.rows_of_ids)

    def _budget_in_words(self) -> str:
        if self.job.ledger is None:
            return ONE_RUN
        if self.accounts is None:
            return f"There is no ledger {self.job.ledger} yet: this job would make it, limited to what it needs."
        return ""

    def document(self) -> dict[str, Any]:
        """For machines."""
        terms, simulated = self.terms, self.plan.simulated
        traffic, advice = self.traffic, self.advice
        return {
            "private": is_private(self.plan.guarantees, simulated=simulated),
            "protocol": terms.protocol,
            "size": terms.size,
            "target": {"name": self.files.target.name, "rows": len(self.files.target.rows)},
            "owners": list(terms.owners),
            "guarantees": guarantee_documents(
                self.plan.guarantees,
                simulated=simulated,
                unit=terms.unit,
            ),
            "rows_per_owner": terms.rows_per_owner,
            "rows_seen_at_most": self.rows_seen,
            "rows_seen_expected": self.expected_rows_seen,
            "messages_at_most": self.messages,
            "heard_bytes_per_owner_at_most": traffic.heard_bytes,
            "sent_bytes_per_owner_at_most": traffic.sent_bytes,
            "offers": terms.offers,
            "released_coordinates": terms.kernel.dimension if terms.offers == "tilted" else 0,
            "width_is_chosen_privately": self.plan.width_plan is not None,
            "noise": advice.noise,
            "signal": advice.signal,
            "advice": advice.text,
            "curator": "trusted" if terms.split is None else "split",
            "notes": notice_documents(self.plan.notes),
            "warnings": notice_documents(self.warnings),
            "budget": {
                "shared": self.job.ledger is not None,
                "in_words": self._budget_in_words(),
                "accounts": None if self.accounts is None else [account.document() for account in self.accounts],
            },
        }


def plan_job(job: Job) -> JobPlan:
    """Plan a job for people to look at: nothing is read of any owner, and what is wrong shows now.

    Raises:
        BudgetExceeded: the job's ledger does not allow it.
    """
    check_owners_files(job)
    planned = open_plan(named_job(job), secrets=new_draws(job.wishes()).secrets)  # nothing is released of these rows
    _ = planned.plan.guarantees
    if job.ledger is None or not Path(job.ledger).exists():
        return planned
    return replace(planned, accounts=ledger_outlook(planned.plan, Path(job.ledger)))


def open_plan(job: Job, *, secrets: RunSecrets) -> JobPlan:
    """Open the schema, the target and public rows, and plan the job; prices are not looked at yet.

    Args:
        job: what is asked for.
        secrets: of the run: where the schema keeps a few rows of each id, they decide which rows the target has.
    """
    files = open_own_files(job, keep_key=secrets.target_keep_key)
    return JobPlan(files, make_plan(job.wishes(), files.inputs()))


def check_owners_files(job: Job) -> None:
    """Raise if an owner's file is not there; nothing is opened."""
    for name, source in job.owners.items():
        if "://" not in source and ":" not in source and not Path(source).exists():
            raise InvalidArgument(f"owner {name}", source, "there is no such file")


def _advice(plan: Plan) -> Advice:
    terms = plan.terms
    if terms.offers == "uniform":
        reason = (
            " ".join(note.text for note in plan.notes if isinstance(note, UniformOffers))
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
            unit=terms.unit,
            offer_factor=terms.offer_factor,
        )

    wished, epsilon, rows = plan.wishes.epsilon, terms.target_budget.epsilon, terms.target_size
    now = outlook(epsilon, rows)
    have = f"Your target has {rows:,} rows: at epsilon = {wished:g} "
    if now.ratio >= 2.0:
        return Advice(now.noise, now.signal, have + f"the signal is {now.ratio:.1f} times the noise: good.", pays=True)
    share = epsilon / wished  # of the budget that goes into the release
    better_epsilon = _least(lambda value: outlook(share * value, rows).ratio >= 2.0, wished, _LARGEST_SUGGESTED)
    better_rows = _least(lambda value: outlook(epsilon, round(value)).ratio >= 2.0, rows, _MOST_SUGGESTED_ROWS)
    ways = [f"epsilon >= {_up(better_epsilon):g}"] if better_epsilon else []
    ways += [f">= {math.ceil(better_rows / 10) * 10:,} rows"] if better_rows else []
    relation = "as large as" if now.ratio >= 0.8 else f"{1.0 / now.ratio:.1f} times"
    if now.ratio >= 1.25:
        relation = f"{100.0 / now.ratio:.0f}% of"
    otherwise = "offers: uniform" if terms.protocol == "sealed" else "protocol: sealed"
    text = have + f"the noise is {relation} the signal; use {' or '.join(ways) or otherwise}."
    return Advice(now.noise, now.signal, text, pays=now.pays)


def _least(good_enough: Callable[[float], bool], low: float, high: float) -> float | None:
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
