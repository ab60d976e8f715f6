"""What came of a job on files: ``result.json`` and ``pictures.json`` as functions of one typed result."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from likeset.arguments import Rows
from likeset.protocol.notices import Notice
from likeset.protocol.plans import PlannedView
from likeset.protocol.terms import Terms
from likeset.run.budget import CountedBudget
from likeset.run.guarantees import guarantee_documents, is_private
from likeset.run.job_files import OwnFiles
from likeset.run.notices import notice_documents
from likeset.run.pictures import Images, pictures_document
from likeset.run.result import Comparison, OwnerResult, Result, RunOutcome
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema

__all__ = ["FORMAT", "HANDLE", "JobResult", "received_rows", "summary_table"]

FORMAT = 3
HANDLE = "likeset_handle"
"""A column of the summary between organisations: by it an owner finds its row again."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, eq=False, kw_only=True)
class JobResult:
    """What came of a job.

    Attributes:
        files: what the consumer has itself.
        result: of the run.
        records: the selected rows in the declared columns.
        comparison: the summary beside its alternatives.
        warnings: what the user should know, about files and run.
        budget: what is left of it.
        seconds: how long its parts took.
        tables: owners' files, as given; none where owners are elsewhere.
        with_handles: whether the summary names the handles of its rows.
        images: rows as pictures; None where they are none.
        created: when.
    """

    files: OwnFiles
    result: Result
    records: pa.Table
    comparison: Comparison
    warnings: tuple[Notice, ...]
    budget: CountedBudget
    seconds: Mapping[str, float]
    tables: Mapping[str, str] = field(default_factory=dict)
    with_handles: bool = False
    images: Images | None = None
    created: datetime = field(default_factory=_now)

    def document(self) -> dict[str, Any]:
        """``result.json``."""
        job, outcome, result, schema = self.files.job, self.result.outcome, self.result, self.files.schema
        terms, owners, simulated = outcome.terms, result.owners, job.noise == "simulated"
        return {
            "format": FORMAT,
            "run": job.run,
            "created": self.created.isoformat(timespec="seconds"),
            "version": terms.version,
            "private": is_private(outcome.guarantees, simulated=simulated),
            "noise": job.noise,
            "seed": job.seed,
            "protocol": terms.protocol,
            "size": job.size,
            "rows_selected": len(result.rows),
            "likeness": None if result.likeness is None else asdict(result.likeness),
            "in_sample_squared_mmd": result.in_sample_squared_mmd,
            "gamma": outcome.gamma,
            "labels": {"weight": outcome.summary.label_weight, "skill": outcome.summary.label_skill},
            "comparison": asdict(self.comparison),
            "access_ratio": result.access_ratio,
            "rows_seen": outcome.summary.rows_seen,
            "target": {"name": self.files.target.name, "rows": len(self.files.target.rows)},
            "guarantees": guarantee_documents(
                outcome.guarantees,
                simulated=simulated,
                unit=terms.unit,
            ),
            "shares": {owner.contribution.owner: owner.contribution.share for owner in owners},
            "owners": [self._owner_document(owner) for owner in owners],
            "history": [
                {"owner": pick.owner, "gain": pick.gain, "squared_mmd": pick.squared_mmd} for pick in result.history
            ],
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "warnings": notice_documents(self.warnings),
            "terms": {"digest": terms.digest, "summary": _terms_summary(terms, outcome.guarantees[0])},
            "schema": _schema_document(schema),
            "schema_digest": schema.digest,
            "budget": asdict(self.budget),
        }

    def pictures(self) -> dict[str, Any]:
        """``pictures.json``."""
        target = self.files.target
        return pictures_document(
            self.files.schema,
            target=(target.rows, target.table),
            summary=(self.result.rows, self.records),
            labels=self.result.outcome.summary.labels,
            offered=self.result.outcome.offered,
            images=self.images,
        )

    def table(self) -> pa.Table:
        """``summary.parquet``: the records, the label, whose row it is and what it weighs."""
        outcome = self.result.outcome
        table = summary_table(outcome, self.files.schema, [owner for owner, _ in outcome.picks])
        return table.append_column(HANDLE, pa.array(outcome.summary.handles)) if self.with_handles else table

    def _owner_document(self, owner: OwnerResult) -> dict[str, Any]:
        line, facts, traffic = owner.contribution, owner.facts, owner.facts.traffic
        return {
            "name": line.owner,
            "table": self.tables.get(line.owner),
            "rows": facts.rows,
            "disclosed": facts.disclosed,
            "disclosed_at_most": line.rows_disclosed,
            "selected": line.rows_selected,
            "share": line.share,
            "shapley": line.shapley,
            "payment": owner.payment,
            "payment_at_most": line.payment,
            "heard_bytes": None if traffic is None else traffic.heard_bytes,
            "sent_bytes": None if traffic is None else traffic.sent_bytes,
            "messages": None if traffic is None else traffic.heard_messages + traffic.sent_messages,
            "problem": None if owner.problem is None else owner.problem.text,
        }


def received_rows(outcome: RunOutcome, schema: Schema) -> tuple[Rows, pa.Table]:
    """The selected rows as the selection sees them, and as the records that came with them."""
    summary = outcome.summary
    return summary.rows, DeclaredRecords(schema).unpack(summary.records.tobytes(), rows=len(summary.rows))


def summary_table(outcome: RunOutcome, schema: Schema, owners: Sequence[str]) -> pa.Table:
    """The delivered records with label, owner and weight; nothing else of an owner's table is in it."""
    summary = outcome.summary
    _, table = received_rows(outcome, schema)
    label = schema.label_column
    if label is not None and label not in table.column_names and len(summary.labels):
        table = table.append_column(label, pa.array(summary.labels))
    for name, column in (("owner", pa.array(owners)), ("weight", pa.array(summary.weights))):
        # A declared column may have one of these names.
        table = table.append_column(f"likeset_{name}" if name in table.column_names else name, column)
    return table


def _schema_document(schema: Schema) -> dict[str, Any]:
    columns = [
        {"name": column.name, "kind": column.kind, "unit": column.unit, "from_data": column.from_data}
        for column in schema.describe()
    ]
    whose = schema.declaration.id
    declared_id: dict[str, Any] | None = None
    if whose is not None:
        declared_id = {"column": whose.column, "rows_per_id": whose.rows_per_id}
        declared_id |= {} if whose.keep is None else {"keep": whose.keep}
    return {"digest": schema.digest, "columns": columns, "id": declared_id}


def _terms_summary(terms: Terms, about_target: PlannedView) -> dict[str, Any]:
    """The terms that a reader asks about first, by their names in ``Terms``."""
    release = f"epsilon = {terms.target_budget.epsilon:.4g}, delta = {terms.target_budget.delta:g}"
    if about_target.width_choice is not None:
        total = about_target.guarantee.epsilon
        release += f" for the release; epsilon = {total:.4g} with the private choice of its kernel width"
    return {
        "protocol": terms.protocol,
        "consumer": terms.consumer,
        "purpose": terms.purpose,
        "owners": len(terms.owners),
        "quorum": terms.quorum,
        "size": terms.size,
        "target_size": terms.target_size,
        "rows_per_owner": terms.rows_per_owner,
        "offers": terms.offers,
        "auction": terms.auction,
        "split": None if terms.split is None else "three parties compute on shares",
        "target_budget": release,
        "owner_budget": f"epsilon = {terms.owner_budget.epsilon:.4g}, delta = {terms.owner_budget.delta:g}",
        "relation": str(terms.relation),
        "rows_per_unit": terms.rows_per_unit,
        "summary_release": terms.summary_release,
        "price_per_row": terms.price_per_row,
        "accept_unproven": ", ".join(terms.accept_unproven) or "none",
        "version": terms.version,
    }
