"""Carries out runs: in this process (folder, resume, publish), or with owners elsewhere (invite, collect, end)."""

import hashlib
import json
import math
import os
import secrets
import shlex
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from likeset import documents
from likeset.arguments import Rows
from likeset.errors import (
    BadDocument,
    BudgetExceeded,
    DifferentRequest,
    InvalidArgument,
    LikesetError,
    RunCancelled,
    UnfinishedRequest,
)
from likeset.files import keep_private, remove_unfinished
from likeset.geometry.offers import uniform
from likeset.homes.consumer_home import ConsumerHome, KeptRun, Travel, named_cards
from likeset.homes.mail import (
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
from likeset.ledger.ledger import Entry, Ledger
from likeset.privacy.events import Composition
from likeset.privacy.guarantee import Basis, View
from likeset.protocol import notices
from likeset.protocol.draft import ReleaseOutlook, release_outlook
from likeset.protocol.notices import Notice, notice_documents
from likeset.protocol.party import CURATOR
from likeset.protocol.prices import PlannedView, planned_views
from likeset.protocol.sealed import Consumer, Curator, Owner, Scan, foreseen_sample
from likeset.protocol.split_run import (
    ComputeInputs,
    OpenedSlots,
    SplitConsumer,
    make_compute_party,
    make_curator,
    make_owner,
    party_name,
)
from likeset.protocol.terms import WITNESS, Budget, PlannedTerms, Terms
from likeset.protocol.wire import Summary
from likeset.run.job import SECRETS, Job, OpenScan, OwnFiles, RunSecrets, open_job, open_own_files, target_warnings
from likeset.run.plan import (
    ONE_RUN,
    MostTraffic,
    Plan,
    SettledRun,
    advice_on_ids,
    counted_budget,
    draws_of_run,
    guarantee_documents,
    is_private,
    make_plan,
    most_traffic,
    new_draws,
)
from likeset.run.result import FORMAT, ComparedRows, JobResult, OwnerFacts, Result, RunOutcome, received_rows
from likeset.split.host import LocalMeeting, SplitParty, computing_party, opened_slots, split_python
from likeset.tables.profile import suspicions_in
from likeset.tables.scan import SourceScan
from likeset.text import without_secrets
from likeset.transports.desks import PartyState, RunProgress, progress_of
from likeset.transports.local import LocalEngine, Progress, RunResult
from likeset.transports.nvflare.job import check_sendable
from likeset.transports.outcomes import SiteState
from likeset.transports.sites import SiteSettings
from likeset.transports.split_local import LocalComputation, LocalSplitEngine
from likeset.trust.shares import COMPUTE_ROLES, ComputeRole


class SteadyLedger(Ledger):
    """Ctrl-C waits until a charge has its answer: a draw that was paid for is kept, and can be sent again."""

    def answer(self, *given: Any, **options: Any) -> bytes:
        with _interrupts_wait():
            return super().answer(*given, **options)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    # Only the main thread is interrupted, and may say what happens then.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


RESULT, PICTURES, SUMMARY, REPORT = "result.json", "pictures.json", "summary.parquet", "report.html"

Render = Callable[[Mapping[str, Any], Mapping[str, Any]], str]
"""The report's page, from ``result.json`` and ``pictures.json``."""


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


def unfinished(out: Path) -> Path:
    """The directory beside a place in which its files are made."""
    return out.with_name(out.name + ".partial")


def write_files(folder: Path, result: JobResult, *, render: Render) -> dict[str, Any]:
    """Write all that a result consists of into a directory; returns what ``result.json`` says."""
    document, pictures, table = result.document(), result.pictures(), result.table()
    for name, text in (
        (RESULT, json.dumps(document, indent=2, allow_nan=False) + "\n"),
        (PICTURES, json.dumps(pictures, allow_nan=False) + "\n"),
        (REPORT, render(document, pictures)),
    ):
        documents.write_text(folder / name, text)
    keep_private(folder / SUMMARY, lambda path: pq.write_table(table, path))
    return document


def publish(result: JobResult, out: Path, *, render: Render) -> FinishedJob:
    """Write a result into a directory of its own; one that is there is replaced."""
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


@dataclass(frozen=True, slots=True)
class AccountOutlook:
    """One account, before and after a run."""

    about: str
    unit: str
    spent: float | None
    after: float | None
    limit: float | None

    @property
    def left(self) -> float | None:
        return None if self.after is None or self.limit is None else max(0.0, self.limit - self.after)

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "left": self.left}


def ledger_outlook(plan: Plan, path: Path) -> tuple[AccountOutlook, ...]:
    """What a run would leave of the budgets in a ledger; nothing is charged, and nothing is written."""
    each, views = plan.terms.rows_per_owner, {View.curator(owner) for owner in plan.terms.owners}
    with Ledger(path, read_only=True) as ledger:
        try:
            plan.check_affordable(ledger)
        except BudgetExceeded as error:
            note_how_to_raise(error, path)
            raise
        quoted = plan.quote(ledger)
        of_owners = [account for account in ledger.accounts() if account.view in views]
    about_target = [
        AccountOutlook(
            before.view.protected,
            "epsilon",
            before.epsilon if before.basis is Basis.PROVEN else None,
            after.epsilon if after.basis is Basis.PROVEN else None,
            after.limit.epsilon,
        )
        for before, after in quoted
    ]
    rows = [
        AccountOutlook(account.view.protected, "rows", account.rows, account.rows + each, account.limit.rows)
        for account in of_owners
    ]
    return (*about_target, *rows)


def note_how_to_raise(error: BudgetExceeded, path: Path) -> None:
    """Add to a refusal where the budget stands, and the command that raises its limit."""
    error.add_note(f"look at it with: likeset ledger show {shlex.quote(str(path))}")
    with Ledger(path, read_only=True) as ledger:
        protected = [account.view.protected for account in ledger.accounts() if str(account.view) == error.view]
    for name in protected[:1]:
        needed = error.spent + error.requested
        amount = f"--rows {needed:.0f}" if error.unit == "rows" else f"--epsilon {math.ceil(needed * 100.0) / 100.0:g}"
        command = f"likeset ledger limit {shlex.quote(str(path))} --of {name} {amount}"
        error.add_note(f"whoever may allow more raises the limit with: {command}")


_LEDGER, _TERMS, JOB = "ledger.sqlite", "terms.yaml", "job.yaml"


class KeptTerms(documents.Document):
    """``terms.yaml``: the terms of a run, and the digest by which parties name them."""

    digest: str
    terms: dict[str, Any]


@dataclass(frozen=True, eq=False)
class JobFolder:
    """Where a job's files are made."""

    job: Job
    out: Path
    resume: bool

    @classmethod
    def checked(cls, job: Job, *, resume: bool) -> Self:
        """See that the directory and the ledger can be used; nothing is made yet."""
        out = Path(job.out)
        _check_place(out, unfinished(out), resume=resume)
        named = named_job(job, unfinished(out) / JOB, resume=resume).beside(Path.cwd())
        _check_ledger(named)
        return cls(named, out, resume)

    @property
    def partial(self) -> Path:
        return unfinished(self.out)

    @property
    def ledger_path(self) -> Path:
        return Path(self.job.ledger) if self.job.ledger else self.partial / _LEDGER

    @contextmanager
    def working(self) -> Iterator[Ledger]:
        """The ledger while the job runs; its directory goes to its place, or away unless something was charged."""
        partial, run = self.partial, str(self.job.run)
        opened, spent = self.resume, 0.0
        if self.resume:
            _check_same_job(partial / JOB, self.job)
            remove_unfinished(partial)
        else:
            spent = _charges(self.ledger_path, run)
            _make(partial)
        try:
            if not self.resume:
                documents.write(partial / JOB, _kept(self.job))
            with SteadyLedger(self.ledger_path) as ledger:
                opened = True
                yield ledger
            partial.rename(self.out)
            _forget_messages(self.job, self.out)
        except BaseException as error:
            told = self._told(error)
            if opened and _charges(self.ledger_path, run) > spent:
                told.add_note(self._how_to_go_on(told))
            else:
                shutil.rmtree(partial, ignore_errors=True)
            if told is error:
                raise
            raise told from error

    def agree(self, terms: Terms) -> None:
        """Write the terms down, or see that they are those that the run began with."""
        path = self.partial / _TERMS
        if path.exists():
            if documents.read(path, KeptTerms).digest != terms.digest:
                raise DifferentRequest(f"{path}: the terms are not those that the run began with")
            return
        documents.write(path, {"digest": terms.digest, "terms": json.loads(terms.to_json())})

    def _told(self, error: BaseException) -> BaseException:
        job, partial = self.job, self.partial
        if isinstance(error, OSError) and not isinstance(error, LikesetError):
            return InvalidArgument(
                "out", job.out, f"cannot be written: {error.strerror or error}; make room, or go elsewhere"
            )
        if isinstance(error, DifferentRequest) and error.kind == SECRETS:
            return DifferentRequest(
                f"run {job.run} began with other files or another schema than those of {partial / JOB} now; bring "
                "them back"
                if self.resume
                else f"run {job.run} is in the ledger already, with other files; give another name with --run"
            )
        if isinstance(error, BudgetExceeded):
            note_how_to_raise(error, self.ledger_path)
        return error

    def _how_to_go_on(self, error: BaseException) -> str:
        if isinstance(error, DifferentRequest | UnfinishedRequest):
            return (
                f"what was spent stays spent; this run cannot go on: remove {self.partial} and start a new one; what "
                "that spends comes on top"
            )
        return f"what was spent stays spent, and is kept in {self.partial}: go on with --resume"


def _check_place(out: Path, partial: Path, *, resume: bool) -> None:
    if out.exists() or out.is_symlink():
        raise InvalidArgument("out", out, "is there already; nothing is overwritten: name another directory")
    if resume and not partial.is_dir():
        raise InvalidArgument(
            "resume", out, f"there is no interrupted run: {partial} does not exist; leave --resume out"
        )
    if resume and not (partial / JOB).exists():
        raise InvalidArgument("resume", out, f"nothing had begun in {partial} yet: remove it, and leave --resume out")
    if not resume and partial.exists():
        raise InvalidArgument(
            "out",
            out,
            f"{partial} holds a run that was interrupted: go on with --resume, or remove it and with it the record of "
            "what it spent",
        )
    parent = out.parent
    if not parent.is_dir():
        raise InvalidArgument("out", out, f"cannot be made: there is no directory {parent}")
    if not os.access(parent, os.W_OK):
        raise InvalidArgument("out", out, f"cannot be made: {parent} may not be written to")


def _forget_messages(job: Job, out: Path) -> None:
    """What was sent is needed to go on, and then no longer: most offered rows were not bought.

    A ledger of the user's own keeps them until it is purged.
    """
    if job.ledger is None:
        with Ledger(out / _LEDGER) as ledger:
            ledger.purge(run=str(job.run))


def _check_ledger(job: Job) -> None:
    """A ledger that cannot be used is better found before files are read."""
    if job.ledger is None:
        return
    path = Path(job.ledger)
    if not path.parent.is_dir():
        raise InvalidArgument("ledger", path, f"cannot be made: there is no directory {path.parent}")
    if path.is_dir():
        raise InvalidArgument("ledger", path, "is a directory; name the ledger file in it")
    if path.exists():
        with Ledger(path):
            pass


def named_job(job: Job, path: Path | None = None, *, resume: bool = False) -> Job:
    """The job with a name for its run: a ledger that outlives the job needs one that was never used."""
    if job.run is not None:
        return job
    if resume and path is not None:
        return job.model_copy(update={"run": documents.read(path, Job).run})
    if job.ledger is None:
        return job.model_copy(update={"run": "run"})
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return job.model_copy(update={"run": f"run-{moment}-{secrets.token_hex(3)}"})


def _make(partial: Path) -> None:
    try:
        partial.mkdir(mode=0o700)
    except FileExistsError as error:
        raise InvalidArgument("out", partial, "another run is being made there") from error
    except OSError as error:
        raise InvalidArgument("out", partial, f"cannot be made: {error.strerror}") from error


def _kept(job: Job) -> dict[str, Any]:
    document = job.document()
    document["owners"] = {name: without_secrets(source) for name, source in document["owners"].items()}
    for name in ("target", "public_rows", "seed_rows"):
        document[name] = None if document[name] is None else without_secrets(document[name])
    return document


def _check_same_job(path: Path, job: Job) -> None:
    began = documents.read(path, Job).document()
    now = _kept(job)
    odd = sorted(name for name in now if began.get(name) != now[name] and name != "out")
    if odd:
        raise BadDocument(
            str(path), f"the run began with another {', '.join(odd)}; resume it as it began, or start a new one"
        )


def _charges(ledger_path: Path, run: str) -> float:
    """How often the run was charged; in doubt, more often than anybody could count."""
    if not ledger_path.exists():
        return 0
    try:
        with Ledger(ledger_path) as ledger:
            return sum(_spends(entry, run) for entry in ledger.entries())
    except LikesetError:
        return math.inf


def _spends(entry: Entry, run: str) -> bool:
    """Whether an entry is a charge of this run; its secrets are kept there too, and cost nothing."""
    if entry.kind != "reserve":
        return False
    whose, _, kind = json.loads(entry.key)
    return bool(whose == run and kind != SECRETS)


_LARGEST_SUGGESTED = 16.0
_MOST_SUGGESTED_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Advice:
    """What the release of the target can be expected to tell."""

    noise: float | None
    signal: float | None
    text: str
    pays: bool


@dataclass(frozen=True, eq=False)
class JobPlan:
    """What will happen."""

    files: OwnFiles
    plan: Plan
    accounts: tuple[AccountOutlook, ...] | None = None

    @property
    def job(self) -> Job:
        return self.files.job

    @property
    def terms(self) -> PlannedTerms:
        return self.plan.terms

    @property
    def warnings(self) -> tuple[Notice, ...]:
        return tuple(target_warnings(self.job, self.files.schema, self.files.target))

    @property
    def rows_seen(self) -> int:
        return self.terms.rows_per_owner * len(self.terms.owners)

    @property
    def expected_rows_seen(self) -> int:
        """About how many it will be: with an auction, chance decides how many owners are asked."""
        asked = self.terms.asked_owners if self.terms.auction == "threshold" else len(self.terms.owners)
        return self.terms.rows_per_owner * asked

    @property
    def traffic(self) -> MostTraffic:
        return most_traffic(self.terms, self.files.schema)

    @property
    def messages(self) -> int:
        """How many messages travel between curator and owners, at most."""
        return self.traffic.messages * len(self.terms.owners)

    @property
    def advice(self) -> Advice:
        advice, ids = _advice(self.plan), self.advice_on_ids
        return advice if ids is None else replace(advice, text=f"{advice.text} Ids are the reason: {ids.text}.")

    @property
    def advice_on_ids(self) -> Notice | None:
        """Where fewer rows of each id of the target would make the release better."""
        return advice_on_ids(self.plan, self.files.target.rows_of_ids)

    def _budget_in_words(self) -> str:
        if self.job.ledger is None:
            return ONE_RUN
        if self.accounts is None:
            return f"There is no ledger {self.job.ledger} yet: this job would make it, limited to what it needs."
        return ""

    def document(self) -> dict[str, Any]:
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
    """Plan a job for people to look at: nothing is read of any owner, and what is wrong shows now."""
    check_owners_files(job)
    planned = open_plan(named_job(job), secrets=new_draws(job.wishes()).secrets)  # nothing is released of these rows
    _ = planned.plan.guarantees
    if job.ledger is None or not Path(job.ledger).exists():
        return planned
    return replace(planned, accounts=ledger_outlook(planned.plan, Path(job.ledger)))


def open_plan(job: Job, *, secrets: RunSecrets) -> JobPlan:
    """Open the schema, the target and public rows, and plan the job; prices are not looked at yet."""
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
            " ".join(note.text for note in plan.notes if note.kind == "uniform-offers")
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
    if not good_enough(high):
        return None
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if good_enough(middle) else (middle, high)
    return high


def _up(value: float) -> float:
    return math.ceil(value * 10.0 - 1e-9) / 10.0


def check_workers_here(plan: Plan) -> None:
    """Raise, before anything is spent, if a split run is planned and there is no environment for its workers."""
    if plan.terms.split is not None:
        split_python()


def run_split_here(
    plan: Plan,
    settled: SettledRun,
    scans: Mapping[str, Scan],
    *,
    ledger: Ledger,
    progress: Progress | None = None,
    compute: LocalComputation | None = None,
) -> tuple[RunResult, dict[str, Owner]]:
    """Let the parties of a split run run as planned; returns how it ended, and the owners."""
    terms, declared, secrets = settled.terms, plan.inputs.declared, settled.secrets
    cards = {name: secrets.card(name).card for name in terms.cards}
    owners = {
        name: make_owner(
            terms, name, scan=scan, key=secrets.owner_key(name), declared=declared, secret=secrets.card(name)
        )
        for name, scan in scans.items()
    }
    consumer = SplitConsumer(
        terms,
        target=plan.inputs.target,
        noise=settled.consumers_noise,
        secret=secrets.card(terms.consumer),
        cards=cards,
        selection=plan.selection,
        declared=declared,
    )
    others = {
        role: make_compute_party(terms, role, secret=secrets.card(party_name(terms, role)), cards=cards)
        for role in COMPUTE_ROLES
        if role != "consumer"
    }
    engine = LocalSplitEngine(compute or (lambda inputs: compute_here(inputs, progress=progress)), progress=progress)
    result = engine.run(
        SplitConsumerShell(consumer, ledger),
        {role: ComputeShell(party, ledger) for role, party in others.items()},
        {name: Shell(owner, ledger) for name, owner in owners.items()},
    )
    return result, owners


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


_UNIFORM_DRAWS = 5


def run_job(
    job: Job,
    *,
    render: Render,
    resume: bool = False,
    progress: Progress | None = None,
    scan: OpenScan = SourceScan,
    compare: bool = False,
) -> FinishedJob:
    """Run a job to its end, and publish its result."""
    with job_running(job, resume=resume, progress=progress, scan=scan, compare=compare) as (folder, result):
        document = write_files(folder, result, render=render)
    return FinishedJob(Path(job.out), document, result.warnings)


@contextmanager
def job_running(
    job: Job,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    scan: OpenScan = SourceScan,
    compare: bool = False,
) -> Iterator[tuple[Path, JobResult]]:
    """Run a job, and hold its directory open for whoever writes the result there; then that goes to its place.

    The job is planned once, before owners' files are read: what is wrong with the wishes shows then, and reading may
    take long.
    """
    with threadpool_limits(limits=1, user_api="blas"):  # products are small: more threads mostly wait
        yield from _job_running(job, resume=resume, progress=progress, scan=scan, compare=compare)


def _job_running(
    job: Job, *, resume: bool, progress: Progress | None, scan: OpenScan, compare: bool
) -> Iterator[tuple[Path, JobResult]]:
    start = time.perf_counter()
    folder = JobFolder.checked(job, resume=resume)
    draws = draws_of_run(folder.job.wishes(), folder.ledger_path, run=str(folder.job.run))
    planned = open_plan(folder.job, secrets=draws.secrets)
    files, plan, _ = planned.files, planned.plan, planned.plan.guarantees
    check_workers_here(plan)
    keep_keys = {name: draws.secrets.owner_keep_key(name) for name in plan.terms.owners}
    samples = {name: foreseen_sample(plan.terms.run, draws.secrets.owner_key(name)) for name in plan.terms.owners}
    foreseen = samples if plan.terms.protocol == "sealed" else None
    with open_job(files, keep_keys=keep_keys, scan=scan, samples=foreseen) as opened:
        reading, scans = time.perf_counter() - start, opened.scans
        plan.check_enough_rows(opened.row_counts.values())
        with folder.working() as ledger:
            settled = plan.settle(ledger, draws, content=opened.content)
            folder.agree(settled.terms)
            outcome = run_here(plan, settled, scans, ledger=ledger, progress=progress)
            rows, records = received_rows(outcome, files.schema)
            result = Result(outcome, rows, files.target.rows)
            total = time.perf_counter() - start
            yield (
                folder.partial,
                JobResult(
                    files=files,
                    result=result,
                    records=records,
                    comparison=result.comparison([_uniform(result, scans)] if compare else []),
                    warnings=(*opened.warnings, *filter(None, [planned.advice_on_ids]), *outcome.warnings),
                    budget=counted_budget(folder.job, ledger),
                    seconds={"reading": reading, "running": outcome.seconds, "total": total},
                    tables=opened.names,
                ),
            )


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
    settled: SettledRun,
    scans: Mapping[str, Scan],
    *,
    ledger: Ledger,
    shown_names: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> RunOutcome:
    """Let the parties run as planned."""
    start, terms, offered, held_out = time.perf_counter(), settled.terms, None, None
    open_accounts(ledger, owner_limits(terms, simulated=plan.simulated))
    if terms.split is not None:
        result, owners = run_split_here(plan, settled, scans, ledger=ledger, progress=progress)
    else:
        curator, owners, consumer = _parties(plan, settled, scans)
        result = LocalEngine(progress=progress).run(
            CuratorShell(curator, ledger),
            {name: Shell(owner, ledger) for name, owner in owners.items()},
            ConsumerShell(consumer, ledger),
        )
        offered, held_out = curator.offered_rows, curator.held_out
    summary = result.summary
    handles = zip(summary.owners, summary.handles, strict=True)
    return RunOutcome(
        terms=terms,
        guarantees=plan.guarantees,
        gamma=_selection_width(plan, terms),
        summary=summary,
        row_numbers=tuple(owners[terms.owners[place]].row_of(int(handle)) for place, handle in handles),
        owners={
            name: OwnerFacts(rows=scans[name].row_count, disclosed=owner.rows_disclosed, traffic=owner.traffic)
            for name, owner in owners.items()
        },
        offered=offered,
        held_out_curve=() if held_out is None else tuple(map(float, held_out.curve)),
        warnings=_warnings(plan, result, shown_names or {}),
        seconds=time.perf_counter() - start,
    )


def _selection_width(plan: Plan, terms: Terms) -> float:
    return plan.kernel_width if terms.split is None else terms.split.gamma


def _parties(plan: Plan, settled: SettledRun, scans: Mapping[str, Scan]) -> tuple[Curator, dict[str, Owner], Consumer]:
    terms, declared = settled.terms, plan.inputs.declared
    owners = {
        name: make_owner(terms, name, scan=scan, key=settled.secrets.owner_key(name), declared=declared)
        for name, scan in scans.items()
    }
    curator = make_curator(
        terms, noise=settled.curators_noise, fold_key=None, declared=declared, seed_rows=plan.seed_rows
    )
    consumer = Consumer(
        terms,
        target=plan.inputs.target,
        noise=settled.consumers_noise,
        selection=plan.selection,
        declared=declared,
    )
    return curator, owners, consumer


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


_RELEASE = "/target-release"
_ROUNDING = 1e-6


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


_SELECTING: dict[str, object] = {"gamma": "median", "gamma_scale": 1.0, "weights": False, "labels": "match"}
_ROOM = 1024  # characters: for what is drawn, and the day on which terms end
_ROOM_FOR_A_CARD = 56  # beside the name of its party


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
        notes.append(notices.seed_rows_needed())
    if job.protocol == "interactive":
        notes.append(notices.rounds_are_looks(job.size))
    return notes


def notes_on_size(traffic: MostTraffic) -> list[Notice]:
    """What a consumer should know about messages that a curator's site would not take."""
    size, most = traffic.largest_sent, SiteSettings.most_bytes
    return [] if size <= most else [notices.large_offer(size, most)]


def plan_between(job: Job, *, secrets: RunSecrets | None = None) -> JobPlan:
    """Plan a job whose owners are elsewhere."""
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
    return documents.read(run.job_path, Job)


def notes_on(home: ConsumerHome, run: KeptRun) -> list[Notice]:
    """What the consumer should know about a run that it invites to, beside all others that it has signed."""
    job, terms = job_of(run), run.terms
    uniform = terms.offers == "uniform" and job.offers != "uniform"  # then nothing is spent, whatever epsilon says
    return [
        *map(notices.suspected_identifier, suspicions_in(run.schema)),
        *([notices.uniform_offers(terms.target_size, job.epsilon)] if uniform else []),
        *check_carried(job),
        *signed_together(home),
    ]


def collect(run: KeptRun) -> JobResult:
    """The result of what the consumer's site received."""
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
        warnings=_remote_warnings(run, summary),
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


def _remote_warnings(run: KeptRun, summary: Summary) -> tuple[Notice, ...]:
    terms, came = run.terms, len(summary.rows)
    warnings = notices.on_owners(
        terms.owners, summary, answers=run.ending.get("unanswered", {}), split=terms.split is not None
    )
    warnings += [notices.few_rows(came, terms.size)] if came < terms.size else []
    return tuple(warnings)


def expiry(days: int, *, now: datetime | None = None) -> str:
    moment = now or datetime.now(UTC)
    return datetime.fromordinal(moment.toordinal() + days).date().isoformat()


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
    if run.jobs:
        raise InvalidArgument("run", run.name, "was submitted to NVFlare already; go on with `likeset run resume`")
    if run.cancelled:
        raise InvalidArgument("run", run.name, "was cancelled; give the job another name, and start that")
    if known is not None and known.mailbox != mailbox:
        raise InvalidArgument("--mailbox", mailbox, f"run {run.name} travels by another one already: {known.mailbox}")
    now = utc_now()
    return run.keep_travel(mailbox, decide_by=None if decide_within is None else now + decide_within, now=now)


def check_not_by_mailbox(run: KeptRun, command: str) -> None:
    """Refuse what is made for runs over NVFlare."""
    if run.travel is not None:
        reason = (
            f"travels by mailbox, where there is nothing to {command}: `likeset run watch` and `likeset run sync` "
            "go on where it is"
        )
        raise InvalidArgument("RUN", run.name, reason)


def open_runs(home: ConsumerHome) -> list[KeptRun]:
    """Runs that travel by mailbox and have no result yet, and that their consumer did not stop."""
    return [run for run in home.runs() if run.travel is not None and not run.cancelled and not run.result.exists()]


def mailboxes_in_use(home: ConsumerHome) -> tuple[str, ...]:
    """The mailboxes by which runs of this consumer travel, also ended ones: what they left there is cleared away."""
    return tuple(dict.fromkeys(run.travel.mailbox for run in home.runs() if run.travel is not None))


def whereabouts(home: ConsumerHome, run: KeptRun) -> RunProgress:
    """Where a run is, by what this home keeps; how it ended is kept beside its result."""
    progress = progress_of(home, run)
    if progress.ended is not None and not run.ending:
        kept = {"outcome": progress.ended, "detail": progress.detail, "unanswered": _unanswered(progress)}
        documents.write_text(run.ending_path, json.dumps(kept, indent=1) + "\n")
    return progress


def _unanswered(progress: RunProgress) -> dict[str, SiteState]:
    """Owners whose rows are not in the summary, as far as the consumer knows, and why."""
    silent = {
        name: SiteState.ABSTAINS if state is PartyState.ABSTAINS else SiteState.NO_ANSWER
        for name, state in progress.parties.items()
        if name != CURATOR and state is not PartyState.TAKES_PART
    }
    return silent | dict.fromkeys(progress.waited_for, SiteState.NO_ANSWER)


def cancel(run: KeptRun) -> None:
    """Stop a run: nothing is looked for and nothing is posted in it any more; owners see its terms end."""
    if run.result.exists() or run.summary_path.exists():
        raise InvalidArgument("RUN", run.name, "has its summary; there is nothing to cancel: `likeset run report`")
    run.cancel()
