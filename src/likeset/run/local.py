"""Run a job: everything is made beside its place and moved there at the end, so that nothing is ever half-written.

While a job runs, its files lie in ``OUT.partial``. A run that ends before anything was charged leaves nothing. One that
was interrupted later leaves that directory, with the ledger and the messages in it: ``resume`` goes on from there and
sends again what was drawn, never draws anew.
"""

import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from likeset import documents
from likeset.arguments import Rows
from likeset.errors import (
    BadDocument,
    BudgetExceeded,
    DifferentRequest,
    InvalidArgument,
    LikesetError,
    UnfinishedRequest,
)
from likeset.geometry.tilt import Drawing
from likeset.ledger import Ledger
from likeset.ledger.chain import Entry
from likeset.private_files import keep_private, remove_unfinished
from likeset.protocol.run_secrets import SECRETS, RunSecrets
from likeset.protocol.sealed import foreseen_sample
from likeset.protocol.terms import Terms
from likeset.run.budget import budget_document
from likeset.run.job import Job
from likeset.run.job_files import OpenedJob, OpenScan, open_job
from likeset.run.market import Draws, Market, Outcome
from likeset.run.order import Order, Stalls
from likeset.run.pictures import pictures_document
from likeset.run.result import result_document, selected_rows, summary_table
from likeset.run.uninterrupted_ledger import SteadyLedger
from likeset.shown_text import without_secrets
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.schema.schema import Schema
from likeset.transports.local import Progress

__all__ = ["FinishedJob", "passes_folder", "read_result", "run_job"]

LEDGER, TERMS, JOB = "ledger.sqlite", "terms.yaml", "job.yaml"
RESULT, PICTURES, SUMMARY, REPORT = "result.json", "pictures.json", "summary.parquet", "report.html"

Render = Callable[[Mapping[str, Any], Mapping[str, Any]], str]
"""The report's page, from ``result.json`` and ``pictures.json``."""

Amend = Callable[[dict[str, Any], dict[str, Any], OpenedJob, Outcome], None]
"""Adds to the result and the pictures what only the caller knows."""


@dataclass(frozen=True, eq=False)
class FinishedJob:
    """Where the results lie, and what ``result.json`` says."""

    out: Path
    result: Mapping[str, Any]


def run_job(
    job: Job,
    *,
    render: Render,
    resume: bool = False,
    progress: Progress | None = None,
    scan: OpenScan = SourceScan,
    amend: Amend | None = None,
) -> FinishedJob:
    """Run a job to its end.

    Args:
        job: what is asked for.
        render: makes the report.
        resume: go on with a run that was interrupted.
        progress: called as answers come in.
        scan: how owners pass over their rows.
        amend: adds to the result before it is written.

    Raises:
        LikesetError: with what is wrong and what to do; nothing is left behind unless something was charged, and then
            the message says where.
    """
    out = Path(job.out)
    partial = out.with_name(out.name + ".partial")
    _check_place(out, partial, resume=resume)
    job = _named(job, partial / JOB, resume=resume).beside(Path.cwd())  # it may be read from anywhere later
    _check_ledger(job)
    start = time.perf_counter()

    foreseen: list[Draws] = []

    def market(schema: Schema, stalls: Stalls, seed_rows: Rows | None) -> Market:
        order = job.order(rows_per_unit=schema.rows_per_unit, seed_rows=seed_rows)
        return Market(order, stalls, progress=progress, draws=foreseen[0] if foreseen else None)

    def check(*given: Any) -> None:
        """What is wrong with the wishes shows before owners' files are read, which may take long."""
        planned = market(*given)
        planned.outline()
        foreseen.append(_foreseen(planned.order, Path(job.ledger) if job.ledger else partial / LEDGER))

    def sample(owner: str) -> Drawing:
        return foreseen_sample(str(job.run), foreseen[0].secrets.owner_key(owner))

    with open_job(job, check=check, scan=scan, sample=sample if job.protocol == "sealed" else None) as opened:
        reading = time.perf_counter() - start
        with _working_in(partial, job, out=out, resume=resume) as ledger:
            outcome = market(opened.schema, opened.stalls, opened.seed_rows).hold(
                ledger, resumable=True, agreed=lambda terms: _agree(partial / TERMS, terms)
            )
            rows, records = selected_rows(opened, outcome)
            took = {"reading": reading, "running": outcome.seconds, "total": time.perf_counter() - start}
            result = result_document(opened, outcome, rows, seconds=took)
            result["budget"] = budget_document(job, ledger)
            target = (opened.target.rows, opened.target.table)
            pictures = pictures_document(opened.schema, target=target, summary=(rows, records), offered=outcome.offered)
            if amend is not None:
                amend(result, pictures, opened, outcome)
            _write(partial, result, pictures, render)
            table = summary_table(opened, outcome, records)
            keep_private(partial / SUMMARY, lambda path: pq.write_table(table, path))
    return FinishedJob(out, result)


def _foreseen(order: Order, ledger_path: Path) -> Draws:
    """What the run will draw by itself; with the secrets that it began with, if it began earlier."""
    draws, run = Draws.of(order), order.wishes.run
    if ledger_path.exists():
        with Ledger(ledger_path) as ledger:
            began = RunSecrets.found_in(ledger, run=run)
            draws = draws if began is None else replace(draws, secrets=began)
    return draws


def passes_folder(job: Job) -> Path:
    """Where owners' passes over many rows may leave what they have while the job runs, for one that is resumed."""
    out = Path(job.out)
    return out.with_name(out.name + ".partial") / "passes"


def read_result(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """``result.json`` and ``pictures.json`` of a finished job."""
    found = []
    for name in (RESULT, PICTURES):
        path = out / name
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise BadDocument(
                str(path), "there is no such file; name the output directory of a finished job"
            ) from error
        except (OSError, ValueError) as error:
            raise BadDocument(str(path), "cannot be read; run the job again") from error
        if not isinstance(document, dict):
            raise BadDocument(str(path), "is no result of a job")
        found.append(document)
    if found[0].get("format") != 1:
        raise BadDocument(str(out / RESULT), "was written by another version of likeset")
    return found[0], found[1]


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


@contextmanager
def _working_in(partial: Path, job: Job, *, out: Path, resume: bool) -> Iterator[Ledger]:
    """The ledger while the job runs; its directory goes to its place, or away unless something was charged."""
    opened, ledger_path = resume, Path(job.ledger) if job.ledger else partial / LEDGER
    spent = 0.0
    if resume:
        _check_same_job(partial / JOB, job)
        remove_unfinished(partial)
    else:
        spent = _charges(ledger_path, str(job.run))
        _make(partial)
    try:
        if not resume:
            documents.write(partial / JOB, _kept(job))
        with SteadyLedger(ledger_path) as ledger:
            opened = True
            yield ledger
        shutil.rmtree(passes_folder(job), ignore_errors=True)
        partial.rename(out)
        _forget_messages(job, out)
    except BaseException as error:
        told = _told(error, job, partial, resume=resume)
        if opened and _charges(ledger_path, str(job.run)) > spent:
            told.add_note(
                f"what was spent stays spent; this run cannot go on: remove {partial} and start a new one; what that "
                "spends comes on top"
                if isinstance(told, DifferentRequest | UnfinishedRequest)
                else f"what was spent stays spent, and is kept in {partial}: go on with --resume"
            )
        else:
            shutil.rmtree(partial, ignore_errors=True)
        if told is error:
            raise
        raise told from error


def _forget_messages(job: Job, out: Path) -> None:
    """What was sent is needed to go on, and then no longer: most offered rows were not bought.

    A ledger of the user's own keeps them until it is purged.
    """
    if job.ledger is None:
        with Ledger(out / LEDGER) as ledger:
            ledger.purge(run=str(job.run))


def _told(error: BaseException, job: Job, partial: Path, *, resume: bool) -> BaseException:
    """The error as the user should hear it."""
    if isinstance(error, OSError) and not isinstance(error, LikesetError):
        return InvalidArgument(
            "out", job.out, f"cannot be written: {error.strerror or error}; make room, or go elsewhere"
        )
    if isinstance(error, DifferentRequest) and error.kind == SECRETS:
        return DifferentRequest(
            f"run {job.run} began with other files or another schema than those of {partial / JOB} now; bring them back"
            if resume
            else f"run {job.run} is in the ledger already, with other files; give another name with --run"
        )
    if isinstance(error, BudgetExceeded):
        error.add_note(f"look at it with: likeset ledger show {job.ledger or partial / LEDGER}")
    return error


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


def _named(job: Job, place: Path, *, resume: bool) -> Job:
    """The job with a name for its run: a ledger that outlives the job needs one that was never used."""
    if job.run is not None:
        return job
    if resume:
        return job.model_copy(update={"run": documents.read(place, Job).run})
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
    """The job as it is kept with its results: an address may hold a password."""
    found = job.document()
    found["owners"] = {name: without_secrets(place) for name, place in found["owners"].items()}
    for name in ("target", "public_rows", "seed_rows"):
        found[name] = None if found[name] is None else without_secrets(found[name])
    return found


def _check_same_job(place: Path, job: Job) -> None:
    began = documents.read(place, Job).document()
    now = _kept(job)
    odd = sorted(name for name in now if began.get(name) != now[name] and name != "out")
    if odd:
        raise BadDocument(
            str(place), f"the run began with another {', '.join(odd)}; resume it as it began, or start a new one"
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


def _agree(place: Path, terms: Terms) -> None:
    """Write the terms down, or see that they are those that the run began with."""
    if place.exists():
        began = documents.read(place, KeptTerms)
        if began.digest != terms.digest:
            raise DifferentRequest(f"{place}: the terms are not those that the run began with")
        return
    documents.write(place, {"digest": terms.digest, "terms": json.loads(terms.to_json())})


class KeptTerms(documents.Document):
    """``terms.yaml``: the terms of a run, and the digest by which parties name them."""

    digest: str
    terms: dict[str, Any]


def _write(partial: Path, result: Mapping[str, Any], pictures: Mapping[str, Any], render: Render) -> None:
    for name, text in (
        (RESULT, json.dumps(result, indent=2, allow_nan=False) + "\n"),
        (PICTURES, json.dumps(pictures, allow_nan=False) + "\n"),
        (REPORT, render(result, pictures)),
    ):
        documents.write_text(partial / name, text)
