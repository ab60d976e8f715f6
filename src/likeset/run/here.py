"""Runs with all parties in this process; and the files of a result."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from likeset import documents
from likeset.errors import BadDocument, BadTable, InvalidArgument
from likeset.files import keep_private
from likeset.ledger.ledger import Ledger
from likeset.protocol import notices
from likeset.protocol.notices import Notice
from likeset.protocol.prices import owner_limits
from likeset.protocol.sealed import Consumer, Owner, Scan
from likeset.protocol.split import OWNERS, ComputeParty, SplitConsumer, make_curator, party_name
from likeset.protocol.terms import Terms
from likeset.run.job import TERMS, Job, JobFolder, OpenScan, open_owners, unfinished
from likeset.run.plan import (
    Plan,
    RunDraws,
    counted_budget,
    draws_of_run,
    open_accounts,
    open_plan,
)
from likeset.run.result import FORMAT, OwnerFacts, Result, pictures
from likeset.split.host import compute_here, split_python
from likeset.tables.scan import SourceScan
from likeset.transports.local import (
    ChargedParty,
    Progress,
    RunResult,
    run_local,
    run_split,
)
from likeset.trust.shares import COMPUTE_ROLES

RESULT, PICTURES, SUMMARY, REPORT = "result.json", "pictures.json", "summary.parquet", "report.html"

Render = Callable[[Mapping[str, Any], Mapping[str, Any]], str]
"""The report's page, from ``result.json`` and ``pictures.json``."""


# Published results


@dataclass(frozen=True, eq=False)
class FinishedJob:
    out: Path
    result: Mapping[str, Any]  # what ``result.json`` says
    warnings: tuple[Notice, ...] = ()

    @property
    def summary(self) -> pa.Table:
        return pq.read_table(self.out / SUMMARY)

    @property
    def report(self) -> Path:
        return self.out / REPORT


def write_files(folder: Path, result: Result, *, render: Render) -> dict[str, Any]:
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
    result, pictures = (read_json(out / name, "run the job again") for name in (RESULT, PICTURES))
    if result.get("format") != FORMAT:
        raise BadDocument(str(out / RESULT), "was written by another version of likeset")
    return result, pictures


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadDocument(str(path), "there is no such file; name the output directory of a finished job") from error
    except (OSError, ValueError) as error:
        raise BadDocument(str(path), f"cannot be read; {remedy}") from error
    if not isinstance(document, dict):
        raise BadDocument(str(path), f"is not what likeset wrote there; {remedy}")
    return document


# Runs in this process


@contextmanager
def notebook_progress(given: Progress | None) -> Iterator[Progress | None]:
    """The caller's own progress, or a bar if this is a notebook; the bar is removed at the end."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if given is not None or getattr(shell, "kernel", None) is None:  # a shell in a terminal has no kernel
        yield given
        return
    from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]  # it is loaded already

    handle = display(HTML(""), display_id=True)

    def show(what: str, done: int, total: int) -> None:
        handle.update(HTML(f'<progress value="{done}" max="{total}"></progress> {escape(what)}: {done:,} of {total:,}'))

    try:
        yield show
    finally:
        handle.update(HTML(""))


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
    judge: Callable[[Result], Result] | None = None,
) -> FinishedJob:
    """Run a job to its end, and publish its result.

    Where it fails nothing is left behind unless something was charged, and then the message says where. ``judge`` may
    change a result before it is written.

    The job is planned once, before owners' files are read: what is wrong with the settings shows then, and reading may
    take long.
    """
    start, folder = time.perf_counter(), JobFolder.checked(job, resume=resume)
    with threadpool_limits(limits=1, user_api="blas"):  # products are small: more threads mostly wait
        asked = folder.job
        draws = draws_of_run(asked, folder.ledger_path, run=str(asked.run))
        plan = open_plan(asked, secrets=draws.secrets)
        _ = plan.guarantees
        check_workers_here(plan)
        with open_owners(asked.owners, plan.inputs, asked, secrets=draws.secrets, scan=scan) as owners:
            reading = time.perf_counter() - start
            # Whether a run starts is seen by all: it must not depend on a size that is protected.
            rows, total = plan.terms.target_size, sum(owners.row_counts.values())
            if rows > total:
                reason = f"the target has {rows:,} rows, more than the {total:,} of all owners together"
                reason += "; if it was not mixed up with an owner, give a sample of it"
                raise BadTable(plan.inputs.target.name, reason)
            plan.check_enough_rows(owners.row_counts.values())
            with folder.working() as ledger:
                terms, draws = plan.settle(ledger, draws, content=owners.content)
                named_terms = {"digest": terms.digest, "terms": json.loads(terms.to_json())}
                documents.write(folder.partial / TERMS, named_terms)
                result = run_here(plan, terms, draws, owners.scans, ledger=ledger, progress=progress)
                result = replace(
                    result,
                    file_warnings=owners.warnings,
                    budget=counted_budget(asked, ledger),
                    tables=owners.names,
                    seconds={"reading": reading, **result.seconds, "total": time.perf_counter() - start},
                )
                result = result if judge is None else judge(result)
                document = write_files(folder.partial, result, render=render)
    return FinishedJob(folder.out, document, result.all_warnings)


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
        name: OWNERS[terms.kind](
            terms,
            name,
            scan=scan,
            key=draws.secrets.owner_key(name),
            declared=declared,
            secret=draws.secrets.card(name) if split else None,
        )
        for name, scan in scans.items()
    }
    charged = {name: ChargedParty(owner, ledger) for name, owner in owners.items()}
    offered, labels, held_out = None, None, None
    if split:
        ended = _run_split(plan, terms, draws, charged, ledger=ledger, progress=progress)
    else:
        curator = make_curator(terms, noise=draws.noises[1], fold_key=None, declared=declared, seed_rows=plan.seed_rows)
        consumer = Consumer(
            terms,
            target=plan.inputs.target.rows,
            noise=draws.noises[2],
            selection=plan.selection,
            declared=declared,
        )
        ended = run_local(ChargedParty(curator, ledger), charged, ChargedParty(consumer, ledger), progress=progress)
        (offered, labels), held_out = curator.offered, curator.held_out
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
        offered_labels=labels,
        held_out_curve=() if held_out is None else tuple(map(float, held_out.curve)),
        warnings=_warnings(plan, terms, ended, shown_names or {}),
        seconds={"running": time.perf_counter() - start},
    )


def _run_split(
    plan: Plan,
    terms: Terms,
    draws: RunDraws,
    owners: Mapping[str, ChargedParty[Owner]],
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
        declared=plan.inputs.declared,
    )
    others = {
        role: ComputeParty(terms, role, secret=draws.secrets.card(party_name(terms, role)), cards=cards)
        for role in COMPUTE_ROLES
        if role != "consumer"
    }
    return run_split(
        ChargedParty(consumer, ledger),
        {role: ChargedParty(party, ledger) for role, party in others.items()},
        owners,
        compute=lambda inputs: compute_here(inputs, progress=progress),
        progress=progress,
    )


def _warnings(plan: Plan, terms: Terms, result: RunResult, shown_names: Mapping[str, str]) -> tuple[Notice, ...]:
    shown = {name: shown_names.get(name, name) for name in terms.owners}
    failures = [notices.could_not_answer(shown[name], why) for name, why in result.failures.items()]
    summary = notices.on_summary(terms, result.summary, owners=tuple(shown.values()), answers={})
    return (*plan.notes, *summary, *failures)
