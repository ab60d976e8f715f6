"""A job whose owners are elsewhere: its terms before anybody is asked, and its result when the summary has come.

The owners' rows are never here. What the consumer does not know (how many rows an owner has, what it heard) is left
open in the result.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from likeset import documents
from likeset.errors import InvalidArgument
from likeset.ledger import Ledger
from likeset.private_files import keep_private
from likeset.protocol.messages import Summary
from likeset.protocol.notices import FewRows, Notice, notices_on_owners
from likeset.protocol.owner import Scan
from likeset.protocol.party import Traffic
from likeset.protocol.selection import Selection
from likeset.protocol.terms import Terms
from likeset.run.budget import budget_document
from likeset.run.hashed_summary import check_length, notes_on_hashes, read_summary
from likeset.run.job import Job
from likeset.run.job_files import OpenedJob, Target, job_warnings, open_target, stalls_without_owners
from likeset.run.local import PICTURES, REPORT, RESULT, SUMMARY, Amend, FinishedJob, Render
from likeset.run.market import Market, Outcome
from likeset.run.notices import LargeOffer, SeedRowsNeeded, SelectionIsTold, UnreadRows
from likeset.run.pictures import pictures_document
from likeset.run.result import result_document, selected_rows, summary_table
from likeset.run.traffic import MostTraffic
from likeset.tables.schema.schema import Schema
from likeset.transports.nvflare.job import check_sendable
from likeset.transports.sites import SiteSettings

__all__ = ["Drafted", "Ended", "check_carried", "check_terms", "draft", "finish", "notes_on_size"]


_SELECTING: dict[str, object] = {"gamma": "median", "gamma_scale": 1.0, "weights": False}
_ROOM = 512  # characters: for a seed, a width, what is left of a budget and the day on which terms end
_HANDLE = "likeset_handle"
"""A column of the summary, where the curator saw hashes: by it an owner finds the row that it has."""


@dataclass(frozen=True)
class Ended:
    """What is known of a run that ended, beside its summary.

    Attributes:
        unanswered: owners who abstained or gave no answer, and which of the two.
        seconds: from the first call to the last.
    """

    unanswered: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class Drafted:
    """What a consumer keeps of a run before anybody is asked.

    Attributes:
        terms: for everybody.
        target: the consumer's rows.
        selection: how the curator is to select; it may depend on those rows, so that no owner hears of it.
        hash_seed: where the curator may see hashes only, the seed for owners, and for nobody else.
    """

    terms: Terms
    target: Target
    selection: Selection
    hash_seed: int | None


def check_carried(job: Job, schema: Schema) -> list[Notice]:
    """What a consumer should know about a job before it asks other organisations.

    Raises:
        InvalidArgument: the job asks for something that only a run on one machine can do.
    """
    if job.noise != "secret":
        raise InvalidArgument("noise", job.noise, "must be secret (or left out): between organisations noise is secret")
    check_length(job, schema)
    found = notes_on_hashes(job, schema)
    given = job.model_dump()
    wished = tuple((name, given[name]) for name, usual in _SELECTING.items() if given[name] != usual)
    if wished and job.hash_dimension is None:
        found.append(SelectionIsTold(wished))
    if job.seed_rows is not None:
        found.append(SeedRowsNeeded())
    return found


def check_terms(terms: Terms) -> None:
    """Raise if other organisations would refuse to read the terms of this outline.

    Raises:
        InvalidArgument: they would: the terms are too long, their numbers too large, or no site can have such a name.
    """
    check_sendable(terms, room=_ROOM)


def notes_on_size(traffic: MostTraffic) -> list[Notice]:
    """What a consumer should know about messages that a curator's site would not take."""
    size, most = traffic.largest_sent, SiteSettings.most_bytes
    return [] if size <= most else [LargeOffer(size, most)]


def draft(job: Job, ledger: Ledger, *, expires: str) -> Drafted:
    """The terms of a job, and what the consumer needs for the run.

    Where the width of the release's kernel is chosen privately, that choice is made and charged here, once: asked
    again, the same terms come out.

    Args:
        job: what is asked for; of its owners only the names count.
        ledger: the consumer's own.
        expires: until when the terms may be used, ISO 8601.

    Raises:
        InvalidArgument: the job asks for something that only a run on one machine can do, or others would refuse to
            read its terms; then nothing is spent.
    """
    schema = Schema.load(job.schema_file)
    check_carried(job, schema)
    target = open_target(job, schema)
    market = _market(job, schema, target)
    check_terms(market.outlined_terms())
    deal = market.agree(ledger, resumable=True)
    return Drafted(
        terms=replace(deal.terms, expires=expires),
        target=target,
        selection=market.selection,
        hash_seed=None if deal.terms.hashing is None else deal.drawn.hash_seed,
    )


def finish(
    job: Job,
    terms: Terms,
    summary: Summary,
    *,
    ended: Ended,
    ledger: Ledger,
    out: Path,
    render: Render,
    amend: Amend | None = None,
    hash_seed: int | None = None,
) -> FinishedJob:
    """Write the result of a run into a directory, whole or not at all.

    Args:
        job: what was asked for.
        terms: under which the run was held.
        summary: what the curator sent.
        ended: what else is known.
        ledger: the consumer's own.
        out: the directory; one that is there is replaced.
        render: makes the report.
        amend: adds to the result before it is written.
        hash_seed: where the curator saw hashes only, the seed of these hashes.

    Raises:
        InvalidArgument: the curator saw hashes, and no row could be read from them.
    """
    schema = Schema.load(job.schema_file)
    target = open_target(job, schema)
    disclosed, read = _disclosed(terms, summary), None
    if hash_seed is not None:
        read = read_summary(terms, summary, schema=schema, target=target, hash_seed=hash_seed)
        summary = read.summary
    market = _market(job, schema, target)
    outcome = Outcome(
        terms=terms,
        guarantees=market.outline().guarantees,
        gamma=terms.hashing.gamma if terms.hashing else market.selection.kernel_width(target.rows),
        summary=summary,
        picks=tuple(
            (terms.owners[owner], int(row)) for owner, row in zip(summary.owners, summary.handles, strict=True)
        ),
        rows_disclosed=disclosed,
        traffic={name: Traffic() for name in terms.owners},
        offered=None,
        warnings=_warnings(terms, summary, ended, unread=0 if read is None else read.unread),
        seconds=ended.seconds,
    )
    opened = OpenedJob(
        job=job,
        schema=schema,
        target=target,
        owners=cast(Mapping[str, Scan], dict.fromkeys(terms.owners, _Elsewhere())),
        names=dict.fromkeys(terms.owners, ""),
        stalls=market.stalls,
        warnings=[*job_warnings(job, schema, target), *notes_on_hashes(job, schema)],
    )
    rows, records = selected_rows(opened, outcome) if read is None else (read.rows, read.records)
    result = result_document(opened, outcome, rows, seconds={"running": ended.seconds, "total": ended.seconds})
    unknown = dict.fromkeys(("rows", "table", "heard_bytes", "sent_bytes", "messages"))
    result["owners"] = [{**one, **unknown} for one in result["owners"]]
    result["budget"] = budget_document(job, ledger)
    pictures = pictures_document(schema, target=(target.rows, target.table), summary=(rows, records), offered=None)
    if amend is not None:
        amend(result, pictures, opened, outcome)
    table = summary_table(opened, outcome, records)
    if read is not None:
        table = table.append_column(_HANDLE, pa.array(summary.handles))
    _write(
        out,
        result,
        pictures,
        render=render,
        also=lambda place: keep_private(place / SUMMARY, lambda path: pq.write_table(table, path)),
    )
    return FinishedJob(out, result)


def _market(job: Job, schema: Schema, target: Target) -> Market:
    stalls, seed_rows = stalls_without_owners(job, schema, target)
    content = hashlib.sha256(f"{schema.digest}\n{target.fingerprint}".encode()).digest()
    order = job.order(rows_per_unit=schema.rows_per_unit, seed_rows=seed_rows)
    return Market(order, replace(stalls, content=content))


@dataclass(frozen=True)
class _Elsewhere:
    """An owner's rows, of which nothing is known here, not even how many there are."""

    row_count: int = 0


def _disclosed(terms: Terms, summary: Summary) -> dict[str, int]:
    """Rows by owner, as far as the consumer can tell: at most what the terms allow, and none of those who stayed away.

    What the curator saw in all is in the summary; where each owner had enough rows, the two agree.
    """
    absent = {terms.owners[place] for place in summary.absent}
    if terms.protocol == "interactive":
        counts = [int((summary.owners == place).sum()) for place in range(len(terms.owners))]
        return dict(zip(terms.owners, counts, strict=True))
    return {name: 0 if name in absent else terms.rows_per_owner for name in terms.owners}


def _warnings(terms: Terms, summary: Summary, ended: Ended, *, unread: int) -> tuple[Notice, ...]:
    found = notices_on_owners(terms.owners, summary, answers=ended.unanswered)
    if unread:
        found.append(UnreadRows(unread))
    if len(summary.rows) + unread < terms.size:
        found.append(FewRows(len(summary.rows) + unread, terms.size))
    return tuple(found)


def _write(
    out: Path,
    result: Mapping[str, Any],
    pictures: Mapping[str, Any],
    *,
    render: Render,
    also: Callable[[Path], object],
) -> None:
    partial = out.with_name(out.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        documents.write_text(partial / RESULT, json.dumps(result, indent=2, allow_nan=False) + "\n")
        documents.write_text(partial / PICTURES, json.dumps(pictures, allow_nan=False) + "\n")
        documents.write_text(partial / REPORT, render(result, pictures))
        also(partial)
        if out.exists():
            shutil.rmtree(out)
        partial.rename(out)
    except OSError as error:
        raise InvalidArgument("out", out, f"cannot be written: {error.strerror or error}; make room") from error
