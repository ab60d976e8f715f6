"""Runs with owners elsewhere: invite, collect, publish."""

import hashlib
import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

from likeset import documents
from likeset.errors import InvalidArgument
from likeset.homes.consumer import Consumer as ConsumerRole
from likeset.homes.consumer import RunFolder, named_cards
from likeset.homes.home import Home
from likeset.homes.runs import Run, check_letter_sizes
from likeset.protocol import notices
from likeset.protocol.notices import Notice
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS, PlannedTerms, check_foreign_limits
from likeset.run.here import Render, publish, read_result
from likeset.run.job import Job, RunSecrets, SteadyLedger
from likeset.run.plan import (
    Plan,
    counted_budget,
    draws_of_run,
    new_draws,
    open_plan,
)
from likeset.run.result import OwnerFacts, Result
from likeset.split.host import split_python
from likeset.tables.profile import identifying_columns
from likeset.trust.cards import CARD_FILE, read_card

_SELECTING: dict[str, object] = {"gamma": "median", "gamma_scale": 1.0, "weights": False, "labels": "match"}
_ROOM = 1024  # characters: for what is drawn, and the day on which terms end
_ROOM_FOR_A_CARD = 56  # beside the name of its party


def settled_curator(job: Job) -> Job:
    asked = "split" if job.witness is not None else "trusted"
    curator = asked if job.curator == "auto" else job.curator
    if (curator == "split") != (job.witness is not None):
        reason = "a split curator needs one whose card is pinned here (witness: NAME), a trusted curator needs none"
        raise InvalidArgument("witness", job.witness, reason)
    return job.model_copy(update={"curator": curator})


def check_carried(job: Job) -> list[Notice]:
    if job.noise != "secret":
        raise InvalidArgument("noise", job.noise, "must be secret (or left out): between organisations noise is secret")
    notes: list[Notice] = []
    given = job.model_dump()
    unusual = tuple((name, given[name]) for name, usual in _SELECTING.items() if given[name] != usual)
    if unusual and settled_curator(job).curator != "split":
        notes.append(notices.selection_is_told(unusual))
    if job.seed_rows is not None:
        notes.append(notices.SEED_ROWS_NEEDED)
    if job.protocol == "interactive":
        notes.append(notices.rounds_are_syncs(job.size))
    return notes


def notes_on_terms(terms: PlannedTerms) -> list[Notice]:
    return [] if terms.auction == "everyone" else [notices.AUCTION_TIMES]


def with_own_curator(plan: Plan, home: Home, job: Job) -> Plan:
    """The plan of a run whose curator may be the consumer's own: then the consumer reads all offers."""
    own = home.own_curator
    return replace(plan, own_curator=own is not None and job.curator_card in (None, read_card(own / CARD_FILE).name))


def plan_between(job: Job, *, secrets: RunSecrets | None = None) -> Plan:
    check_carried(job)
    asked = settled_curator(job)
    plan = open_plan(asked, secrets=secrets or new_draws(asked).secrets)
    names = (plan.terms.consumer, *plan.terms.owners, CURATOR, WITNESS)
    room = _ROOM + sum(len(name) + _ROOM_FOR_A_CARD for name in names)
    check_foreign_limits(plan.terms, room=room)  # before anything is priced: huge terms take long
    check_letter_sizes(plan.terms)
    return plan


def invite(consumer: ConsumerRole, job: Job, *, expires: str, answer_by: str = "") -> Run:
    """Sign the terms of a job and keep them; asked again, the same bytes.

    The terms name all parties by the cards that are pinned here. If the width of the release's kernel is chosen
    privately, that choice is made and charged here, once: asked again after a crash, it is the same.
    """
    home = consumer.home
    if job.run is None:
        raise InvalidArgument("run", "none", "a run between organisations needs a name: write it into the job")
    if job.consumer != home.name:
        raise InvalidArgument("consumer", job.consumer, f"must be {home.name}, the name of this home")
    home.check_running()
    folder, known = consumer.folder(job.run), consumer.find(job.run)
    job = job.beside(Path.cwd())
    if known is None:
        if consumer.mail.runs(name=job.run):  # charges are known by it
            raise InvalidArgument("run", job.run, "is the name of another run in this home; give the job another name")
        return _sign(consumer, folder, job, expires=expires, answer_by=answer_by)
    if job_of(folder).document() != job.document():
        raise InvalidArgument("run", known.name, "is known under another job; give this one another name")
    if known.invitation.signed.card.fingerprint != home.card.fingerprint:
        reason = "was signed with another card than this home has now; give the job another name, and invite anew"
        raise InvalidArgument("run", known.name, reason)
    return known


def _sign(consumer: ConsumerRole, folder: RunFolder, job: Job, **times: str) -> Run:
    home = consumer.home
    draws = draws_of_run(job, home.database_file, run=folder.name)
    plan = plan_between(job, secrets=draws.secrets)
    if plan.terms.split is not None:  # nothing is signed unless the consumer itself can compute
        split_python()
        _ = home.settings.tunnels
    cards = named_cards(home, owners=job.owners, curator=job.curator_card, witness=job.witness)
    target = plan.inputs.target
    content = hashlib.sha256(f"{plan.terms.schema_digest}\n{target.fingerprint}".encode()).digest()
    with SteadyLedger(home.database_file) as ledger:
        between = {**times, "run_id": secrets.token_hex(16), "cards": cards}
        terms, _ = plan.settle(ledger, draws, content=content, **between)
    check_foreign_limits(terms)
    folder.keep(job=job.document(), schema=Path(job.schema_file), target=target.rows, selection=plan.selection)
    return consumer.sign(terms)


def job_of(folder: RunFolder) -> Job:
    return documents.read(folder.job_path, Job)


def notes_on(consumer: ConsumerRole, run: Run) -> list[Notice]:
    """What the consumer should know about a run that it invites to, beside all others that it has signed."""
    folder, terms = consumer.folder(run.name), run.terms
    job = job_of(folder)
    uniform = terms.offers == "uniform" and job.offers != "uniform"  # then nothing is spent, whatever epsilon says
    return [
        *map(notices.suspected_identifier, identifying_columns(folder.schema(terms))),
        *([notices.uniform_offers(terms.target_size, job.epsilon, terms.rows_per_unit)] if uniform else []),
        *check_carried(job),
        *notes_on_terms(terms),
    ]


def collect(consumer: ConsumerRole, run: Run) -> Result:
    folder, terms = consumer.folder(run.name), run.terms
    summary = folder.summary(terms)
    ledger = consumer.home.database_file
    here = {"ledger": str(ledger), "schema_file": str(folder.schema_path)}
    job = settled_curator(job_of(folder)).model_copy(update=here)
    # Of a run that was purged the secrets are gone: then another draw of the target's rows is compared with.
    plan = open_plan(job, secrets=draws_of_run(job, ledger, run=run.name).secrets)
    plan = with_own_curator(plan, consumer.home, job)
    budget = counted_budget(job, consumer.home.database)
    unanswered = consumer.progress(run).unanswered
    absent = {terms.owners[place] for place in summary.absent}
    return Result(
        plan=plan,
        terms=terms,
        summary=summary,
        rows=summary.rows,
        row_numbers=tuple(map(int, summary.handles)),
        facts={name: OwnerFacts(disclosed=0 if name in absent else None) for name in terms.owners},
        warnings=tuple(notices.on_summary(terms, summary, owners=terms.owners, answers=unanswered)),
        seconds=dict.fromkeys(("running", "total"), 0.0),
        file_warnings=plan.warnings,
        budget=budget,
        with_handles=True,
    )


def published(consumer: ConsumerRole, run: Run, *, render: Render) -> dict[str, Any]:
    """The result of a run whose summary has come; published when it is first asked for."""
    folder = consumer.folder(run.name)
    if not folder.result.exists():
        publish(collect(consumer, run), folder.result, render=render)
    return read_result(folder.result)[0]


def listed_run(consumer: ConsumerRole, run: Run) -> dict[str, Any]:
    folder = consumer.folder(run.name)
    return {
        "run": run.name,
        "state": consumer.progress(run).headline if run.mailbox else "not started",
        "digest": run.terms.digest,
        "answer_by": run.deadline.isoformat(),
        "expires": run.terms.expires,
        "mailbox": run.mailbox or None,
        "result": folder.summary_path.exists(),
    }


def times_of_terms(days: float, answer_within: float | None = None, *, now: datetime | None = None) -> dict[str, str]:
    """When terms end, at the beginning of a day, and until when owners answer: by default half of that time."""
    moment = now or datetime.now(UTC)
    end = datetime.combine(moment.date() + timedelta(days=days), time_of_day(), UTC)
    answer_by = min(moment + ((end - moment) / 2 if answer_within is None else timedelta(days=answer_within)), end)
    return {"expires": end.date().isoformat(), "answer_by": answer_by.isoformat(timespec="seconds")}


def mailbox_for(home: Home, given: str | None) -> str:
    settled = home.settings.mailboxes
    if given is not None:
        return given
    if len(settled) == 1:
        return settled[0]
    reason = "home.yaml names several mailboxes; name one" if settled else "home.yaml names none (mailboxes:)"
    raise InvalidArgument("--mailbox", "none", f"{reason}: file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET")
