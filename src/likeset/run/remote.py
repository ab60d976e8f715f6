"""A job whose owners are elsewhere: its terms before anybody is asked, and its result when the summary has come.

The owners' rows are never here. What the consumer does not know (how many rows an owner has, how many left it, what it
heard) is left open in the result.
"""

import hashlib
import secrets
from datetime import UTC, datetime
from pathlib import Path

from likeset import documents
from likeset.errors import InvalidArgument
from likeset.homes.consumer.home import ConsumerHome, KeptRun
from likeset.homes.consumer.named_cards import named_cards
from likeset.homes.identity import Identity
from likeset.homes.signed_invitation import Invitation
from likeset.ledger import Ledger
from likeset.protocol.messages import Summary
from likeset.protocol.notices import FewRows, Notice, UniformOffers, notices_on_owners
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS
from likeset.run.budget import counted_budget
from likeset.run.job import Job
from likeset.run.job_plan import JobPlan, open_plan
from likeset.run.job_result import JobResult, received_rows
from likeset.run.notices import (
    LargeOffer,
    RoundsAreLooks,
    SeedRowsNeeded,
    SelectionIsTold,
    SuspectedIdentifier,
)
from likeset.run.publish import FinishedJob, Render, publish
from likeset.run.result import OwnerFacts, Result, RunOutcome
from likeset.run.run_draws import draws_of_run, new_draws
from likeset.run.run_secrets import RunSecrets
from likeset.run.signed_runs import signed_together
from likeset.run.split_between import check_able_to_compute, settled_curator
from likeset.run.traffic import MostTraffic
from likeset.run.uninterrupted_ledger import SteadyLedger
from likeset.tables.identifiers import suspicions_in
from likeset.transports.nvflare.job import check_sendable
from likeset.transports.sites import SiteSettings

__all__ = [
    "check_carried",
    "collect",
    "conclude",
    "expiry",
    "invite",
    "job_of",
    "notes_on",
    "notes_on_size",
    "plan_between",
]

_SELECTING: dict[str, object] = {"gamma": "median", "gamma_scale": 1.0, "weights": False, "labels": "match"}
_ROOM = 1024  # characters: for what is drawn, and the day on which terms end
_ROOM_FOR_A_CARD = 56  # beside the name of its party


def check_carried(job: Job) -> list[Notice]:
    """What a consumer should know about a job before it asks other organisations.

    Raises:
        InvalidArgument: the job asks for something that only a run on one machine can do.
    """
    if job.noise != "secret":
        raise InvalidArgument("noise", job.noise, "must be secret (or left out): between organisations noise is secret")
    notes: list[Notice] = []
    given = job.model_dump()
    wished = tuple((name, given[name]) for name, usual in _SELECTING.items() if given[name] != usual)
    if wished and settled_curator(job).curator != "split":
        notes.append(SelectionIsTold(wished))
    if job.seed_rows is not None:
        notes.append(SeedRowsNeeded())
    if job.protocol == "interactive":
        notes.append(RoundsAreLooks(job.size))
    return notes


def notes_on_size(traffic: MostTraffic) -> list[Notice]:
    """What a consumer should know about messages that a curator's site would not take."""
    size, most = traffic.largest_sent, SiteSettings.most_bytes
    return [] if size <= most else [LargeOffer(size, most)]


def plan_between(job: Job, *, secrets: RunSecrets | None = None) -> JobPlan:
    """Plan a job whose owners are elsewhere.

    Args:
        job: what is asked for.
        secrets: of the run; new ones if it is only looked at.

    Raises:
        InvalidArgument: the job asks for something that only a run on one machine can do, or others would refuse to
            read its terms: they are too long, their numbers too large, or no site can have such a name.
    """
    check_carried(job)
    asked = settled_curator(job)
    planned = open_plan(asked, secrets=secrets or new_draws(asked.wishes()).secrets)
    names = (planned.terms.consumer, *planned.terms.owners, CURATOR, WITNESS)
    room = _ROOM + sum(len(name) + _ROOM_FOR_A_CARD for name in names)
    check_sendable(planned.terms, room=room)  # before anything is priced, which takes long for what nobody can mean
    return planned


def invite(home: ConsumerHome, job: Job, *, expires: str) -> KeptRun:
    """Sign the terms of a job and keep them; asked again, the same bytes.

    The terms name all parties by the cards that are pinned here. Where the width of the release's kernel is chosen
    privately, that choice is made and charged here, once: asked again after a crash, it is the same.

    Args:
        home: the consumer's.
        job: what is asked for; of its owners only the names count.
        expires: until when the terms may be used, ISO 8601.

    Raises:
        InvalidArgument: the name of the run is taken by another job, the job cannot be carried, or a party's card is
            not pinned here.
        BadDocument: this home has no keys, or others can read them.
        HomeRestored: it was put back from an old copy.
    """
    if job.run is None:
        raise InvalidArgument("run", "none", "a run between organisations needs a name: write it into the job")
    name = home.connection.name
    if job.consumer != name:
        raise InvalidArgument("consumer", job.consumer, f"must be {name}, as this directory's site is called")
    run, job, identity = home.run(job.run), job.beside(Path.cwd()), home.identity
    with identity.book as book:
        book.check_running()
        if run.invitation_path.exists():
            _check_same(run, job, identity)
        else:
            _sign(home, run, job, identity=identity, expires=expires)
            book.settle_ended()
    return run


def _check_same(run: KeptRun, job: Job, identity: Identity) -> None:
    """Raise unless a run that is known is this job's, signed by the card that this home has now."""
    if job_of(run).document() != job.document():
        raise InvalidArgument("run", run.name, "is known under another job; give this one another name")
    if run.invitation.signed.card.fingerprint != identity.fingerprint:
        reason = "was signed with another card than this home has now; give the job another name, and invite anew"
        raise InvalidArgument("run", run.name, reason)


def _sign(home: ConsumerHome, run: KeptRun, job: Job, *, identity: Identity, expires: str) -> None:
    """Settle, sign and keep the terms of a new run; the invitation comes last, and with it the run is known."""
    draws = draws_of_run(job.wishes(), home.ledger, run=run.name)
    planned = plan_between(job, secrets=draws.secrets)
    check_able_to_compute(home, planned.terms)
    cards = named_cards(
        identity, consumer=job.consumer, owners=job.owners, curator=job.curator_card, witness=job.witness
    )
    schema, target = planned.files.schema, planned.files.target
    content = hashlib.sha256(f"{schema.digest}\n{target.fingerprint}".encode()).digest()
    with SteadyLedger(home.ledger) as ledger:
        between = {"expires": expires, "run_id": secrets.token_hex(16), "cards": cards}
        settled = planned.plan.settle(ledger, draws, content=content, **between)
    check_sendable(settled.terms)
    run.keep(
        job=job.document(),
        schema=Path(job.schema_file),
        target=target.rows,
        selection=planned.plan.selection,
    )
    run.keep_invitation(Invitation.sign(settled.terms, identity))


def job_of(run: KeptRun) -> Job:
    """What was asked for."""
    return documents.read(run.job_path, Job)


def notes_on(home: ConsumerHome, run: KeptRun) -> list[Notice]:
    """What the consumer should know about a run that it invites to, beside all others that it has signed."""
    job, terms = job_of(run), run.terms
    uniform = terms.offers == "uniform" and job.offers != "uniform"  # then nothing is spent, whatever epsilon says
    return [
        *map(SuspectedIdentifier, suspicions_in(run.schema)),
        *([UniformOffers(terms.target_size, job.epsilon)] if uniform else []),
        *check_carried(job),
        *signed_together(home),
    ]


def collect(run: KeptRun) -> JobResult:
    """The result of what the consumer's site received.

    Raises:
        InvalidArgument: nothing was received yet.
    """
    summary, terms = run.summary(), run.terms
    here = {"ledger": str(run.ledger_path), "schema_file": str(run.schema_path)}
    job = settled_curator(job_of(run)).model_copy(update=here)
    # Of a run that was purged the secrets are gone: then another draw of the target's rows is compared with.
    planned = open_plan(job, secrets=draws_of_run(job.wishes(), run.ledger_path, run=run.name).secrets)
    files = planned.files
    outcome = RunOutcome(
        terms=terms,
        guarantees=planned.plan.guarantees,
        gamma=planned.plan.kernel_width if terms.split is None else terms.split.gamma,
        summary=summary,
        row_numbers=tuple(map(int, summary.handles)),
        owners=dict.fromkeys(terms.owners, OwnerFacts()),
        offered=None,
        warnings=_warnings(run, summary),
        seconds=run.ending.get("seconds", 0.0),
    )
    rows, records = received_rows(outcome, files.schema)
    result = Result(outcome, rows, files.target.rows)
    with Ledger(run.ledger_path) as ledger:
        budget = counted_budget(job, ledger)
    return JobResult(
        files=files,
        result=result,
        records=records,
        comparison=result.comparison(),
        warnings=(
            *planned.warnings,
            *filter(None, [planned.advice_on_ids]),
            *outcome.warnings,
        ),
        budget=budget,
        seconds=dict.fromkeys(("running", "total"), outcome.seconds),
        with_handles=True,
    )


def conclude(home: ConsumerHome, run: KeptRun, result: JobResult, *, render: Render) -> FinishedJob:
    """Publish the result of a run; from now on it cannot be resumed.

    The key of the run goes before the result is there: the summary was kept when it came, and nothing else is needed.
    In a split run it stays until the terms end.
    """
    if run.terms.split is None:
        home.settle(run)
    return publish(result, run.result, render=render)


def _warnings(run: KeptRun, summary: Summary) -> tuple[Notice, ...]:
    terms, came = run.terms, len(summary.rows)
    warnings = notices_on_owners(
        terms.owners, summary, answers=run.ending.get("unanswered", {}), split=terms.split is not None
    )
    warnings += [FewRows(came, terms.size)] if came < terms.size else []
    return tuple(warnings)


def expiry(days: int, *, now: datetime | None = None) -> str:
    """The day that is so many days from now."""
    moment = now or datetime.now(UTC)
    return datetime.fromordinal(moment.toordinal() + days).date().isoformat()
