"""Runs in which the curator sees hashes only, from the consumer's side: what to know before, and the rows afterwards.

The consumer drew the seed and gave it to the owners; by that seed it reads the rows of the summary from their hashes.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.rows_behind_features import least_dimension, rows_behind
from likeset.protocol.hashing import hash_map
from likeset.protocol.messages import Summary
from likeset.protocol.notices import Notice
from likeset.protocol.terms import Terms
from likeset.run.job import Job
from likeset.run.job_files import Target
from likeset.run.notices import HashedRows, UnreadableCells, WidthInTerms
from likeset.tables.schema.records_behind_rows import records_behind, unreadable_columns
from likeset.tables.schema.schema import Schema

__all__ = ["ReadSummary", "check_length", "notes_on_hashes", "read_summary"]


@dataclass(frozen=True, eq=False)
class ReadSummary:
    """A summary of hashes, read.

    Attributes:
        summary: without the rows that could not be read.
        rows: as the selection would see them.
        records: in the declared columns; null where a cell cannot be told.
        unread: how many rows could not be read.
    """

    summary: Summary
    rows: Rows
    records: pa.Table
    unread: int


def check_length(job: Job, schema: Schema) -> None:
    """Refuse hashes that are too short to find rows by."""
    least = least_dimension(schema.width)
    if job.hash_dimension is not None and job.hash_dimension < least:
        raise InvalidArgument(
            "hash_dimension",
            job.hash_dimension,
            f"must be at least {least}: a row of this schema is {schema.width} numbers, and you could not read it back "
            "from a shorter hash",
        )


def notes_on_hashes(job: Job, schema: Schema) -> list[Notice]:
    """What a consumer should know before its curator sees hashes only."""
    if job.hash_dimension is None:
        return []
    notes: list[Notice] = [HashedRows(job.hash_dimension), WidthInTerms()]
    if names := unreadable_columns(schema):
        notes.append(UnreadableCells(names))
    return notes


def read_summary(terms: Terms, summary: Summary, *, schema: Schema, target: Target, hash_seed: int) -> ReadSummary:
    """The rows behind the hashes; what is no row of the schema is as good as unread.

    Raises:
        InvalidArgument: no row could be read.
    """
    rows, is_found = rows_behind(hash_map(terms, hash_seed), summary.rows, near=target.rows)
    records, sound = records_behind(schema, rows)
    known = np.flatnonzero(is_found & sound)
    if not len(known):
        raise InvalidArgument(
            "hash_dimension",
            summary.rows.shape[1],
            "no row could be read from these hashes: they are too short for a kernel so narrow; ask for longer ones or "
            "for a smaller gamma in another run",
        )
    weights = summary.weights[known]
    return ReadSummary(
        summary=replace(
            summary,
            rows=summary.rows[known],
            labels=summary.labels[known] if len(summary.labels) else summary.labels,
            owners=summary.owners[known],
            handles=summary.handles[known],
            weights=weights / weights.sum(),
            gains=summary.gains[known],
            squared_mmds=summary.squared_mmds[known],
        ),
        rows=rows[known].astype(np.float32),
        records=records.take(pa.array(known)),
        unread=len(rows) - len(known),
    )
