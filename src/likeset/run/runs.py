"""Carries out runs: in this process, or with owners elsewhere (invite, collect, end); and publishes their results."""

import hashlib
import json
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from likeset import documents
from likeset.arguments import Rows
from likeset.errors import BadDocument, InvalidArgument, LikesetError, RunCancelled
from likeset.files import keep_private
from likeset.geometry.offers import uniform
from likeset.homes.consumer_home import ConsumerHome, KeptRun, Travel, named_cards
from likeset.homes.mail import (
    LARGEST_LETTER,
    ComputeShell,
    ConsumerShell,
    CuratorShell,
    Identity,
    Invitation,
    Shell,
    SplitConsumerShell,
    open_accounts,
    owner_limits,
    utc_now,
)
from likeset.ledger.budget import Charge
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Composition
from likeset.privacy.guarantee import View
from likeset.protocol import notices
from likeset.protocol.notices import Notice
from likeset.protocol.party import CURATOR
from likeset.protocol.prices import PlannedView, planned_views
from likeset.protocol.sealed import Consumer, Owner, Scan
from likeset.protocol.split_run import (
    ComputeInputs,
    OpenedSlots,
    SplitConsumer,
    make_compute_party,
    make_curator,
    make_owner,
    party_name,
)
from likeset.protocol.terms import WITNESS, PlannedTerms, Terms, check_meant
from likeset.run.job import Job, JobFolder, OpenScan, RunSecrets, SteadyLedger, open_owners, unfinished
from likeset.run.plan import MostTraffic, Plan, RunDraws, counted_budget, draws_of_run, new_draws, open_plan
from likeset.run.result import FORMAT, ComparedRows, OwnerFacts, Result
from likeset.run.shown import pictures
from likeset.split.host import LocalMeeting, SplitParty, computing_party, opened_slots, split_python
from likeset.tables.profile import suspicions_in
from likeset.tables.scan import SourceScan
from likeset.transports.local import LocalEngine, Progress, RunResult, run_split
from likeset.trust.shares import COMPUTE_ROLES, ComputeRole

RESULT, PICTURES, SUMMARY, REPORT = "result.json", "pictures.json", "summary.parquet", "report.html"

Render = Callable[[Mapping[str, Any], Mapping[str, Any]], str]
"""The report's page, from ``result.json`` and ``pictures.json``."""

_UNIFORM_DRAWS = 5
_RELEASE = "/target-release"
_ROUNDING = 1e-6
_SELECTING: dict[str, object] = {"gamma": "median", "gamma_scale": 1.0, "weights": False, "labels": "match"}
_ROOM = 1024  # characters: for what is drawn, and the day on which terms end
_ROOM_FOR_A_CARD = 56  # beside the name of its party


# Published results


@dataclass(frozen=True, eq=False)
class FinishedJob:
    """What came of a job, and where it lies.

    Attributes:
        out: the output directory.
        result: what ``result.json`` says.
        warnings: what the user should know.
    """

    out: Path
    result: Mapping[str, Any]
    warnings: tuple[Notice, ...] = ()

    @property
    def summary(self) -> pa.Table:
        return pq.read_table(self.out / SUMMARY)

    @property
    def report(self) -> Path:
        return self.out / REPORT


def write_files(folder: Path, result: Result, *, render: Render) -> dict[str, Any]:
    """Write all that a result consists of into a directory; returns what ``result.json`` says."""
    document, drawn, table = result.document(), pictures(result), result.table()
    for name, text in (
        (RESULT, json.dumps(document, indent=2, allow_nan=False) + "\n"),
        (PICTURES, json.dumps(drawn, allow_nan=False) + "\n"),
        (REPORT, render(document, drawn)),
    ):
        documents.write_text(folder / name, text)
    keep_private(folder / SUMMARY, lambda path: pq.write_table(table, path))
    return document


def publish(result: Result, out: Path, *, render: Render) -> FinishedJob:
    folder = unfinished(out)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        document = write_files(folder, result, render=render)
        if out.exists():
            shutil.rmtree(out)
        folder.rename(out)
    except OSError as error:
        raise InvalidArgument("out", out, f"cannot be written: {error.strerror or error}; make room") from error
    return FinishedJob(out, document)


def read_result(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """``result.json`` and ``pictures.json`` of a finished job."""
    result, pictures = (_read(out / name) for name in (RESULT, PICTURES))
    if result.get("format") != FORMAT:
        raise BadDocument(str(out / RESULT), "was written by another version of likeset")
    return result, pictures


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadDocument(str(path), "there is no such file; name the output directory of a finished job") from error
    except (OSError, ValueError) as error:
        raise BadDocument(str(path), "cannot be read; run the job again") from error
    if not isinstance(document, dict):
        raise BadDocument(str(path), "is no result of a job")
    return document


# Runs in this process


def check_workers_here(plan: Plan) -> None:
    """Raise, before anything is spent, if a split run is planned and there is no environment for its workers."""
    if plan.terms.split is not None:
        split_python()


def run_job(
    job: Job,
    *,
    render: Render,
    resume: bool = False,
    progress: Progress | None = None,
    scan: OpenScan = SourceScan,
    compare: bool = False,
    judge: Callable[[Result], Result] | None = None,
) -> FinishedJob:
    """Run a job to its end, and publish its result.

    Where it fails nothing is left behind unless something was charged, and then the message says where. ``compare``
    adds what uniform sampling would have given: it looks at rows that the protocol did not ask for, which only whoever
    has all of them may do. ``judge`` may change a result before it is written.

    The job is planned once, before owners' files are read: what is wrong with the wishes shows then, and reading may
    take long.
    """
    start, folder = time.perf_counter(), JobFolder.checked(job, resume=resume)
    with threadpool_limits(limits=1, user_api="blas"):  # products are small: more threads mostly wait
        asked = folder.job
        draws = draws_of_run(asked, folder.ledger_path, run=str(asked.run))
        plan = open_plan(asked, secrets=draws.secrets)
        _ = plan.guarantees
        check_workers_here(plan)
        with open_owners(asked, plan.inputs, secrets=draws.secrets, scan=scan) as owners:
            reading = time.perf_counter() - start
            plan.check_enough_rows(owners.row_counts.values())
            with folder.working() as ledger:
                terms, draws = plan.settle(ledger, draws, content=owners.content)
                folder.agree(terms)
                result = run_here(plan, terms, draws, owners.scans, ledger=ledger, progress=progress)
                result = replace(
                    result,
                    file_warnings=owners.warnings,
                    budget=counted_budget(asked, ledger),
                    tables=owners.names,
                    more_compared=[_uniform(result, owners.scans)] if compare else [],
                    seconds={"reading": reading, **result.seconds, "total": time.perf_counter() - start},
                )
                result = result if judge is None else judge(result)
                document = write_files(folder.partial, result, render=render)
    return FinishedJob(folder.out, document, result.all_warnings)


def _uniform(result: Result, scans: Mapping[str, Scan]) -> tuple[ComparedRows, list[Rows]]:
    """What as many rows, the same number of each owner, would have given without a look at them."""
    coins, sizes, samples = np.random.default_rng(0), [scan.row_count for scan in scans.values()], []
    for _ in range(_UNIFORM_DRAWS):
        drawn = uniform(sizes, len(result.rows), coins=coins)
        pairs = [(scan, chosen) for scan, chosen in zip(scans.values(), drawn, strict=True) if len(chosen)]
        samples.append(np.concatenate([scan.fetch(chosen).rows for scan, chosen in pairs]))
    meaning = f"{len(result.rows):,} rows, as many of each owner, drawn without looking, {_UNIFORM_DRAWS} times"
    return ComparedRows("uniform", "uniform rows of all owners", 0.0, meaning), samples


def run_here(
    plan: Plan,
    terms: Terms,
    draws: RunDraws,
    scans: Mapping[str, Scan],
    *,
    ledger: Ledger,
    shown_names: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Let the parties run as planned; ``shown_names`` are how owners are called toward the user."""
    start, declared, split = time.perf_counter(), plan.inputs.declared, terms.split is not None
    open_accounts(ledger, owner_limits(terms, simulated=plan.simulated))
    owners = {
        name: make_owner(
            terms,
            name,
            scan=scan,
            key=draws.secrets.owner_key(name),
            declared=declared,
            **({"secret": draws.secrets.card(name)} if split else {}),
        )
        for name, scan in scans.items()
    }
    shells = {name: Shell(owner, ledger) for name, owner in owners.items()}
    offered, held_out = None, None
    if split:
        ended = _run_split(plan, terms, draws, shells, ledger=ledger, progress=progress)
    else:
        curator = make_curator(terms, noise=draws.noises[1], fold_key=None, declared=declared, seed_rows=plan.seed_rows)
        consumer = Consumer(
            terms,
            target=plan.inputs.target.rows,
            noise=draws.noises[2],
            selection=plan.selection,
            declared=declared,
        )
        ended = LocalEngine(progress=progress).run(
            CuratorShell(curator, ledger), shells, ConsumerShell(consumer, ledger)
        )
        offered, held_out = curator.offered_rows, curator.held_out
    summary = ended.summary
    handles = zip(summary.owners, summary.handles, strict=True)
    return Result(
        plan=plan,
        terms=terms,
        summary=summary,
        rows=summary.rows,
        row_numbers=tuple(owners[terms.owners[place]].row_of(int(handle)) for place, handle in handles),
        facts={
            name: OwnerFacts(rows=scans[name].row_count, disclosed=owner.rows_disclosed, traffic=owner.traffic)
            for name, owner in owners.items()
        },
        offered=offered,
        held_out_curve=() if held_out is None else tuple(map(float, held_out.curve)),
        warnings=_warnings(plan, ended, shown_names or {}),
        seconds={"running": time.perf_counter() - start},
    )


def _run_split(
    plan: Plan,
    terms: Terms,
    draws: RunDraws,
    owners: Mapping[str, Shell[Owner]],
    *,
    ledger: Ledger,
    progress: Progress | None,
) -> RunResult:
    cards = {name: draws.secrets.card(name).card for name in terms.cards}
    consumer = SplitConsumer(
        terms,
        target=plan.inputs.target.rows,
        noise=draws.noises[2],
        secret=draws.secrets.card(terms.consumer),
        cards=cards,
        selection=plan.selection,
        declared=plan.inputs.declared,
    )
    others = {
        role: make_compute_party(terms, role, secret=draws.secrets.card(party_name(terms, role)), cards=cards)
        for role in COMPUTE_ROLES
        if role != "consumer"
    }
    return run_split(
        SplitConsumerShell(consumer, ledger),
        {role: ComputeShell(party, ledger) for role, party in others.items()},
        owners,
        compute=lambda inputs: compute_here(inputs, progress=progress),
        progress=progress,
    )


def compute_here(
    inputs: Mapping[ComputeRole, ComputeInputs], *, python: Path | None = None, progress: Progress | None = None
) -> OpenedSlots:
    """Compute with a worker for each party, all on this machine; returns what is opened to the consumer."""
    interpreter = python or split_python()
    failures: list[LikesetError] = []
    opened: list[OpenedSlots] = []
    with tempfile.TemporaryDirectory(prefix="likeset-split-") as folder:
        meeting = LocalMeeting()
        parties = {
            role: computing_party(each, folder=Path(folder) / role, python=interpreter, meeting=meeting.at(each.rank))
            for role, each in inputs.items()
        }

        def act(role: ComputeRole, party: SplitParty) -> None:
            try:
                picks = party.run(progress=progress if role == "consumer" else None)
                if picks is not None:
                    opened.append(opened_slots(picks, inputs[role]))
            except LikesetError as error:
                failures.append(error)

        threads = [threading.Thread(target=act, args=pair, name=f"split {pair[0]}") for pair in parties.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        meeting.close()
    if failures:
        raise failures[0]
    if not opened:
        raise RunCancelled("the computation ended without anything opened")
    return opened[0]


def _warnings(plan: Plan, result: RunResult, shown_names: Mapping[str, str]) -> tuple[Notice, ...]:
    summary, size = result.summary, plan.terms.size
    shown = {name: shown_names.get(name, name) for name in plan.terms.owners}
    warnings = [
        *plan.notes,
        *notices.on_owners(list(shown.values()), summary, answers={}, split=plan.terms.split is not None),
    ]
    warnings += [notices.could_not_answer(shown[name], why) for name, why in result.failures.items()]
    if len(summary.rows) < size:
        warnings.append(notices.few_rows(len(summary.rows), size))
    return tuple(warnings)


# Runs with owners elsewhere


def settled_curator(job: Job) -> Job:
    """The job with a curator that is trusted or split: split where a witness is named."""
    asked = "split" if job.witness is not None else "trusted"
    curator = asked if job.curator == "auto" else job.curator
    if curator == "split" and job.witness is None:
        reason = "is missing: a split curator is three parties; name one whose card is pinned here (witness: NAME)"
        raise InvalidArgument("witness", "none", reason)
    if job.witness is not None and curator == "trusted":
        reason = "has nothing to do in this run: a trusted curator needs none; leave it out"
        raise InvalidArgument("witness", job.witness, reason)
    return job.model_copy(update={"curator": curator})


def check_able_to_compute(home: ConsumerHome, terms: PlannedTerms) -> None:
    """Raise, before anything is signed, unless the consumer itself can compute in a split run."""
    if terms.split is not None:
        split_python()
        _ = home.tunnels


def signed_together(home: ConsumerHome, *, today: date | None = None) -> tuple[Notice, ...]:
    """A notice if the runs that were signed here, and may yet be released, exceed the target's budget together."""
    if not home.ledger.exists():
        return ()
    day = (today or datetime.now(UTC).date()).isoformat()
    with Ledger(home.ledger, read_only=True) as ledger:
        waiting = dict(_waiting(home, ledger, day))
        if len(waiting) < 2:
            return ()  # whether there is room for one was asked when it was signed
        view = View.owners(home.connection.name)
        together = Composition(tuple(planned.event for planned in waiting.values()))
        quoted = ledger.quote(Charge(((view, together),)))
    return tuple(
        notices.signed_runs_exceed_budget(
            tuple(waiting), after.epsilon, limit, ledger=str(home.ledger), consumer=after.view.protected
        )
        for _, after in quoted
        for limit in [after.limit.epsilon]
        if limit is not None and after.epsilon is not None and after.epsilon > limit * (1.0 + _ROUNDING)
    )


def _waiting(home: ConsumerHome, ledger: Ledger, day: str) -> Iterator[tuple[str, PlannedView]]:
    """What owners would learn about the target in each run that is signed, not over, and not released.

    A private choice of the release's width was charged when the terms were signed.
    """
    for run in home.runs():
        released = any(_RELEASE in message.key for message in ledger.messages(run=run.name))
        if not released and not _is_over(run, day):
            yield run.name, planned_views(run.terms, width_choice=None)[0]


def _is_over(run: KeptRun, day: str) -> bool:
    return run.cancelled or run.ending_path.exists() or run.result.exists() or run.terms.expires < day


def check_carried(job: Job) -> list[Notice]:
    """What a consumer should know about a job before it asks other organisations."""
    if job.noise != "secret":
        raise InvalidArgument("noise", job.noise, "must be secret (or left out): between organisations noise is secret")
    notes: list[Notice] = []
    given = job.model_dump()
    wished = tuple((name, given[name]) for name, usual in _SELECTING.items() if given[name] != usual)
    if wished and settled_curator(job).curator != "split":
        notes.append(notices.selection_is_told(wished))
    if job.seed_rows is not None:
        notes.append(notices.SEED_ROWS_NEEDED)
    if job.protocol == "interactive":
        notes.append(notices.rounds_are_looks(job.size))
    return notes


def notes_on_size(traffic: MostTraffic) -> list[Notice]:
    """What a consumer should know about messages that are larger than a letter may be."""
    size, most = traffic.largest_sent, LARGEST_LETTER
    return [] if size <= most else [notices.large_offer(size, most)]


def plan_between(job: Job, *, secrets: RunSecrets | None = None) -> Plan:
    check_carried(job)
    asked = settled_curator(job)
    plan = open_plan(asked, secrets=secrets or new_draws(asked).secrets)
    names = (plan.terms.consumer, *plan.terms.owners, CURATOR, WITNESS)
    room = _ROOM + sum(len(name) + _ROOM_FOR_A_CARD for name in names)
    check_meant(plan.terms, room=room)  # before anything is priced, which takes long for what nobody can mean
    return plan


def invite(home: ConsumerHome, job: Job, *, expires: str) -> KeptRun:
    """Sign the terms of a job and keep them; asked again, the same bytes.

    The terms name all parties by the cards that are pinned here. Where the width of the release's kernel is chosen
    privately, that choice is made and charged here, once: asked again after a crash, it is the same.
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
    draws = draws_of_run(job, home.ledger, run=run.name)
    plan = plan_between(job, secrets=draws.secrets)
    check_able_to_compute(home, plan.terms)
    cards = named_cards(
        identity, consumer=job.consumer, owners=job.owners, curator=job.curator_card, witness=job.witness
    )
    target = plan.inputs.target
    content = hashlib.sha256(f"{plan.terms.schema_digest}\n{target.fingerprint}".encode()).digest()
    with SteadyLedger(home.ledger) as ledger:
        between = {"expires": expires, "run_id": secrets.token_hex(16), "cards": cards}
        terms, _ = plan.settle(ledger, draws, content=content, **between)
    check_meant(terms)
    run.keep(
        job=job.document(),
        schema=Path(job.schema_file),
        target=target.rows,
        selection=plan.selection,
    )
    run.keep_invitation(Invitation.sign(terms, identity))


def job_of(run: KeptRun) -> Job:
    return documents.read(run.job_path, Job)


def notes_on(home: ConsumerHome, run: KeptRun) -> list[Notice]:
    """What the consumer should know about a run that it invites to, beside all others that it has signed."""
    job, terms = job_of(run), run.terms
    uniform = terms.offers == "uniform" and job.offers != "uniform"  # then nothing is spent, whatever epsilon says
    return [
        *map(notices.suspected_identifier, suspicions_in(run.schema)),
        *([notices.uniform_offers(terms.target_size, job.epsilon, terms.rows_per_unit)] if uniform else []),
        *check_carried(job),
        *signed_together(home),
    ]


def collect(run: KeptRun) -> Result:
    """The result of what the consumer's site received."""
    summary, terms = run.summary(), run.terms
    here = {"ledger": str(run.ledger_path), "schema_file": str(run.schema_path)}
    job = settled_curator(job_of(run)).model_copy(update=here)
    # Of a run that was purged the secrets are gone: then another draw of the target's rows is compared with.
    plan = open_plan(job, secrets=draws_of_run(job, run.ledger_path, run=run.name).secrets)
    with Ledger(run.ledger_path) as ledger:
        budget = counted_budget(job, ledger)
    came, seconds = len(summary.rows), run.ending.get("seconds", 0.0)
    warnings = notices.on_owners(
        terms.owners, summary, answers=run.ending.get("unanswered", {}), split=terms.split is not None
    )
    return Result(
        plan=plan,
        terms=terms,
        summary=summary,
        rows=summary.rows,
        row_numbers=tuple(map(int, summary.handles)),
        facts=dict.fromkeys(terms.owners, OwnerFacts()),
        warnings=(*warnings, *([notices.few_rows(came, terms.size)] if came < terms.size else [])),
        seconds=dict.fromkeys(("running", "total"), seconds),
        file_warnings=plan.warnings,
        budget=budget,
        with_handles=True,
    )


def conclude(home: ConsumerHome, run: KeptRun, result: Result, *, render: Render) -> FinishedJob:
    """Publish the result of a run; from now on it cannot be resumed.

    The key of the run goes before the result is there: the summary was kept when it came, and nothing else is needed.
    In a split run it stays until the terms end.
    """
    if run.terms.split is None:
        home.settle(run)
    return publish(result, run.result, render=render)


def published(home: ConsumerHome, run: KeptRun, *, render: Render) -> dict[str, Any]:
    """The result of a run whose summary has come; published when it is first asked for."""
    if not run.result.exists():
        conclude(home, run, collect(run), render=render)
    return read_result(run.result)[0]


@dataclass(frozen=True, slots=True)
class ListedRun:
    run: str
    digest: str
    invitation: str
    expires: str
    mailbox: str | None
    cancelled: bool
    result: bool

    @property
    def way(self) -> str:
        if self.cancelled:
            return "cancelled"
        if self.mailbox is not None:
            return "mailbox"
        return "nothing yet"


def listed_run(run: KeptRun) -> ListedRun:
    terms, travel = run.terms, run.travel
    return ListedRun(
        run=run.name,
        digest=terms.digest,
        invitation=str(run.invitation_path),
        expires=terms.expires,
        mailbox=None if travel is None else travel.mailbox,
        cancelled=run.cancelled,
        result=run.result.exists(),
    )


def expiry(days: int, *, now: datetime | None = None) -> str:
    moment = now or datetime.now(UTC)
    return datetime.fromordinal(moment.toordinal() + days).date().isoformat()


# Runs by mailbox


def mailbox_for(home: ConsumerHome, given: str | None) -> str:
    """The mailbox of a new run: the one that was named, or the only one of ``consumer.yaml``."""
    settled = home.connection.mailboxes
    if given is not None:
        return given
    if len(settled) == 1:
        return settled[0]
    reason = "consumer.yaml names several mailboxes; say which" if settled else "consumer.yaml names none (mailboxes:)"
    raise InvalidArgument("--mailbox", "none", f"{reason}: file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET")


def start(run: KeptRun, mailbox: str, *, decide_within: timedelta | None = None) -> Travel:
    """Let a run whose terms are signed travel by a mailbox; asked again, as it was."""
    known = run.travel
    if run.cancelled:
        raise InvalidArgument("run", run.name, "was cancelled; give the job another name, and start that")
    if known is not None and known.mailbox != mailbox:
        raise InvalidArgument("--mailbox", mailbox, f"run {run.name} travels by another one already: {known.mailbox}")
    now = utc_now()
    return run.keep_travel(mailbox, decide_by=None if decide_within is None else now + decide_within, now=now)


def open_runs(home: ConsumerHome) -> list[KeptRun]:
    """Runs that travel by mailbox and have no result yet, and that their consumer did not stop."""
    return [run for run in home.runs() if run.travel is not None and not run.cancelled and not run.result.exists()]


def mailboxes_in_use(home: ConsumerHome) -> tuple[str, ...]:
    """The mailboxes by which runs of this consumer travel, also ended ones: what they left there is cleared away."""
    return tuple(dict.fromkeys(run.travel.mailbox for run in home.runs() if run.travel is not None))


def cancel(run: KeptRun) -> None:
    """Stop a run: nothing is looked for and nothing is posted in it any more; owners see its terms end."""
    if run.result.exists() or run.summary_path.exists():
        raise InvalidArgument("RUN", run.name, "has its summary; there is nothing to cancel: `likeset run report`")
    run.cancel()
