"""A run with all parties in this process: a consumer, its curator and owners; and a whole job of that kind."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from likeset.arguments import Rows
from likeset.geometry.offers import uniform
from likeset.homes.run_accounts import open_accounts, owner_limits
from likeset.homes.shell import ConsumerShell, CuratorShell, Shell
from likeset.ledger import Ledger
from likeset.protocol.consumer import Consumer
from likeset.protocol.curator import Curator
from likeset.protocol.notices import CouldNotAnswer, FewRows, Notice, notices_on_owners
from likeset.protocol.owner import Owner, Scan
from likeset.protocol.parties import make_curator, make_owner
from likeset.protocol.sealed import foreseen_sample
from likeset.protocol.terms import Terms
from likeset.run.budget import counted_budget
from likeset.run.job import Job
from likeset.run.job_files import OpenScan, open_job
from likeset.run.job_folder import JobFolder
from likeset.run.job_plan import open_plan
from likeset.run.job_result import JobResult, received_rows
from likeset.run.plan import Plan, SettledRun
from likeset.run.publish import FinishedJob, Render, write_files
from likeset.run.result import ComparedRows, OwnerFacts, Result, RunOutcome
from likeset.run.run_draws import draws_of_run
from likeset.run.split_local import check_workers_here, run_split_here
from likeset.tables.scan.source_scan import SourceScan
from likeset.transports.local import LocalEngine, Progress, RunResult

__all__ = ["job_running", "run_here", "run_job"]

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
    """Run a job to its end, and publish its result.

    Args:
        job: what is asked for.
        render: makes the report.
        resume: go on with a run that was interrupted.
        progress: called as answers come in.
        scan: how owners pass over their rows.
        compare: whether to add what uniform sampling would have given: it looks at rows that the protocol did not ask
            for, which only whoever has all of them may do.

    Raises:
        LikesetError: with what is wrong and what to do; nothing is left behind unless something was charged, and then
            the message says where.
    """
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
    """Let the parties run as planned.

    Args:
        plan: of the run.
        settled: what was drawn for it.
        scans: how each owner reaches its rows.
        ledger: where everything is charged.
        shown_names: how owners are called toward the user, by their name in the terms; as there if not given.
        progress: called as answers come in.
    """
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
    """Gamma of the selection's kernel: where it is public, the terms have it."""
    return plan.kernel_width if terms.split is None else terms.split.gamma


def _parties(plan: Plan, settled: SettledRun, scans: Mapping[str, Scan]) -> tuple[Curator, dict[str, Owner], Consumer]:
    """The curator, the owners by name, and the consumer."""
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
        *notices_on_owners(list(shown.values()), summary, answers={}, split=plan.terms.split is not None),
    ]
    warnings += [CouldNotAnswer(shown[name], why) for name, why in result.failures.items()]
    if len(summary.rows) < size:
        warnings.append(FewRows(len(summary.rows), size))
    return tuple(warnings)
