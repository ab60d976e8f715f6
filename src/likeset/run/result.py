"""What came of a job, as documents: ``result.json`` for machines, ``pictures.json`` for the report."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.discrepancy import squared_mmd
from likeset.geometry.kernels import rbf_kernel
from likeset.protocol.plans import PlannedView
from likeset.run.guarantee_words import in_words
from likeset.run.job_files import OpenedJob
from likeset.run.market import Outcome
from likeset.run.notices import notice_documents
from likeset.tables.schema import records
from likeset.tables.schema.declared_records import DeclaredRecords

__all__ = ["FORMAT", "guarantee_document", "is_private", "result_document", "selected_rows", "summary_table"]

FORMAT = 1
_RANDOM_SUBSETS = 20


def selected_rows(opened: OpenedJob, outcome: Outcome) -> tuple[Rows, pa.Table]:
    """The selected rows as the selection sees them, and as records.

    Where the curator saw hashes only, the records come from the owners by their own row numbers, as a consumer would
    ask for them afterwards.
    """
    found, declared = outcome.summary, DeclaredRecords(opened.schema)
    if len(found.records):
        table = records.unpack(found.records.tobytes(), form=declared.form, rows=len(found.rows))
        return found.rows, table
    rows = np.empty((len(found.rows), opened.schema.width), dtype=np.float32)
    pieces: list[pa.Table] = []
    places: list[NDArray[np.int64]] = []
    for name, scan in opened.owners.items():
        own = np.array([place for place, (owner, _) in enumerate(outcome.picks) if owner == name], dtype=np.int64)
        if len(own):
            fetched = scan.fetch(np.array([outcome.picks[place][1] for place in own], dtype=np.int64))
            rows[own] = fetched.rows
            pieces.append(fetched.table)
            places.append(own)
    order = np.argsort(np.concatenate(places), kind="stable")
    return rows, pa.concat_tables(pieces).take(pa.array(order))


def summary_table(opened: OpenedJob, outcome: Outcome, table: pa.Table) -> pa.Table:
    """``summary.parquet``: the records, the label, whose row it is and what it weighs."""
    found = outcome.summary
    extra: dict[str, Any] = {}
    label = opened.schema.label_column
    if label is not None and label not in table.column_names and len(found.labels):
        extra[label] = pa.array(found.labels)
    extra[_free("owner", table, extra)] = pa.array([owner for owner, _ in outcome.picks])
    extra[_free("weight", table, extra)] = pa.array(found.weights)
    for name, column in extra.items():
        table = table.append_column(name, column)
    return table


def _free(name: str, table: pa.Table, extra: Mapping[str, Any]) -> str:
    return f"likeset_{name}" if name in table.column_names or name in extra else name


def result_document(
    opened: OpenedJob, outcome: Outcome, rows: Rows, *, seconds: Mapping[str, float], created: datetime | None = None
) -> dict[str, Any]:
    """``result.json``."""
    job, target, found = opened.job, opened.target, outcome.summary
    attribution = outcome.attribution(rows, target.rows)
    selected = attribution.owners
    value = outcome.squared_mmd(rows, target.rows)
    return {
        "format": FORMAT,
        "run": job.run,
        "created": (created or datetime.now(UTC)).isoformat(timespec="seconds"),
        "version": outcome.terms.version,
        "private": is_private(outcome.guarantees, simulated=job.noise == "simulated"),
        "noise": job.noise,
        "seed": job.seed,
        "protocol": outcome.terms.protocol,
        "size": job.size,
        "rows_selected": len(found.rows),
        "squared_mmd": value,
        "gamma": outcome.gamma,
        "accuracy": None,
        "baselines": baselines(outcome, target.rows, len(found.rows)),
        "access_ratio": (found.rows_seen + len(target.rows)) / (len(found.rows) + len(target.rows)),
        "rows_seen": found.rows_seen,
        "target": {"name": target.name, "rows": len(target.rows)},
        "guarantees": [
            guarantee_document(one, simulated=job.noise == "simulated", rows_per_unit=outcome.terms.rows_per_unit)
            for one in outcome.guarantees
        ],
        "shares": {one.owner: one.share for one in selected},
        "owners": [
            {
                "name": one.owner,
                "table": opened.names[one.owner],
                "rows": opened.owners[one.owner].row_count,
                "disclosed": one.rows_disclosed,
                "selected": one.rows_selected,
                "share": one.share,
                "shapley": one.shapley,
                "payment": one.payment,
                "heard_bytes": outcome.traffic[one.owner].heard_bytes,
                "sent_bytes": outcome.traffic[one.owner].sent_bytes,
                "messages": outcome.traffic[one.owner].heard_messages + outcome.traffic[one.owner].sent_messages,
                "problem": _problem(one.owner, outcome),
            }
            for one in selected
        ],
        "history": [
            {"owner": owner, "gain": float(gain), "squared_mmd": float(after)}
            for (owner, _), gain, after in zip(outcome.picks, found.gains, found.squared_mmds, strict=True)
        ],
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "warnings": notice_documents([*opened.warnings, *outcome.warnings]),
        "terms": {"digest": outcome.terms.digest, "summary": terms_summary(outcome)},
        "schema": {
            "digest": opened.schema.digest,
            "columns": [
                {"name": one.name, "kind": one.kind, "unit": one.unit, "from_data": one.from_data}
                for one in opened.schema.describe()
            ],
        },
        "schema_digest": opened.schema.digest,
    }


def guarantee_document(planned: PlannedView, *, simulated: bool, rows_per_unit: int = 1) -> dict[str, Any]:
    """What one view costs, for machines and, in words, for people."""
    guarantee = planned.guarantee
    return {
        "observer": planned.view.observer,
        "coalition": list(planned.view.coalition),
        "protects": planned.view.protected,
        "epsilon": float(guarantee.epsilon) if np.isfinite(guarantee.epsilon) else None,
        "delta": guarantee.delta,
        "relation": str(guarantee.relation),
        "basis": str(guarantee.basis),
        "rows": planned.rows,
        "hashed": planned.hashed,
        "in_words": in_words(planned, simulated=simulated, rows_per_unit=rows_per_unit),
    }


def is_private(guarantees: Sequence[PlannedView], *, simulated: bool) -> bool:
    """Whether all that owners hear is bounded: with simulated noise, or a part without a proof, it is not."""
    return not simulated and all(
        np.isfinite(one.guarantee.epsilon) for one in guarantees if one.view.observer == "owners"
    )


def baselines(outcome: Outcome, target: Rows, size: int) -> list[dict[str, Any]]:
    """What the summary can be compared with by somebody who sees the target and the offers, and nothing else."""
    gamma, count = outcome.gamma, len(target)
    kernel = rbf_kernel(target.astype(np.float64), target, gamma=gamma)
    within = (float(kernel.sum()) - count) / (count * (count - 1))
    found = [
        {
            "kind": "fresh",
            "name": "fresh rows of the target's kind",
            "squared_mmd": (1.0 - within) * (1.0 / size + 1.0 / count),
            "meaning": f"what {size} new rows drawn like the target itself would score, on average",
        }
    ]
    pool = outcome.offered
    if pool is not None and len(pool) > size:
        coins = np.random.default_rng(0)
        scores = [
            squared_mmd(pool[coins.choice(len(pool), size=size, replace=False)], target, gamma=gamma)
            for _ in range(_RANDOM_SUBSETS)
        ]
        found.append(
            {
                "kind": "random",
                "name": "random rows among those offered",
                "squared_mmd": float(np.mean(scores)),
                "meaning": f"{size} rows drawn from the offers without looking, {_RANDOM_SUBSETS} times",
            }
        )
    return found


def terms_summary(outcome: Outcome) -> dict[str, Any]:
    """The terms that a reader asks about first, by their names in ``Terms``."""
    terms = outcome.terms
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
        "hashing": None if terms.hashing is None else f"hashes of length {terms.hashing.dimension}",
        "target_budget": f"epsilon = {terms.target_budget.epsilon:.4g}, delta = {terms.target_budget.delta:g}",
        "owner_budget": f"epsilon = {terms.owner_budget.epsilon:.4g}, delta = {terms.owner_budget.delta:g}",
        "relation": str(terms.relation),
        "rows_per_unit": terms.rows_per_unit,
        "summary_release": terms.summary_release,
        "price_per_row": terms.price_per_row,
        "accept_unproven": ", ".join(terms.accept_unproven) or "none",
        "version": terms.version,
    }


def _problem(owner: str, outcome: Outcome) -> str | None:
    """The first that is about this very owner, in words."""
    return next((warning.text for warning in outcome.warnings if warning.concerns == owner), None)
