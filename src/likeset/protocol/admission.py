"""What is a row in a run: one function, which owner, curator and consumer ask.

Where something is released about a summary, the noise is made for a row or two of it that give way to others. That
holds only if no row decides about other rows of its owner. So a row that the curator would not take is none at home
either: it is never bid, drawn or sent, and whoever sends one is no honest owner (docs/proofs/summary-stream.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadMessage, InvalidArgument
from likeset.protocol.declarations import fault_of_labels
from likeset.protocol.message_arrays import Labels
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan.memory_scan import FetchedRows
from likeset.tables.schema import unusable_texts

__all__ = ["Admission"]

Mask = NDArray[np.bool_]

_NOT_AS_DECLARED = "records that are not as the schema declares"


@dataclass(frozen=True, eq=False)
class Admission:
    """Decides row by row, by the terms and the schema alone: the verdict on a row is the same wherever it lies.

    Attributes:
        terms: of the run.
        declared: the schema that the terms name; None for bare arrays.

    Raises:
        InvalidArgument: the terms leave less room for a row than the schema declares.
    """

    terms: Terms
    declared: DeclaredRecords | None

    def __post_init__(self) -> None:
        if self.declared is None:
            return
        terms, declared = self.terms, self.declared
        if terms.record_bytes < declared.record_bytes:
            reason = f"is too short: the schema declares records of up to {declared.record_bytes} bytes"
            raise InvalidArgument("record_bytes", terms.record_bytes, reason)
        if terms.kernel.largest < declared.largest_entry:
            reason = f"is too small: the schema makes numbers of up to {declared.largest_entry:g}"
            raise InvalidArgument("kernel.largest", terms.kernel.largest, reason)

    def admits(self, block: FetchedRows) -> Mask:
        """Which rows of a block are rows of this run."""
        records = None if self.declared is None or block.table is None else self.declared.of(block.table)
        admitted = np.ones(len(block.rows), dtype=np.bool_)
        with np.errstate(over="ignore"):  # what single precision cannot hold is not admitted
            rows = np.asarray(block.rows, dtype=np.float32)
        for _, bad in self._faults(rows, block.labels, records):
            admitted &= ~bad
        return admitted

    def fault(self, rows: Rows, labels: Labels, packed: NDArray[np.uint8]) -> str | None:
        """What is wrong with rows that came from another party, in words that say nothing about them; None if nothing.

        Args:
            rows: as the selection sees them.
            labels: of the rows.
            packed: their records, as they travel; empty where none do.
        """
        records = None
        if self.declared is None:
            if len(packed):
                return "records, which nobody declared"
        else:
            try:
                records = self.declared.unpack(packed.tobytes(), rows=len(rows))
            except BadMessage:
                return _NOT_AS_DECLARED
        faults = self._faults(rows, labels, records)
        return next((reason for reason, bad in faults if bad.any()), None)

    def _faults(self, rows: Rows, labels: Labels, records: pa.Table | None) -> Iterator[tuple[str, Mask]]:
        """Each thing that can be wrong with a row, and with which rows it is."""
        with np.errstate(invalid="ignore"):  # what is no number is not below any
            within: Mask = np.abs(rows) <= self.terms.kernel.largest
        yield "rows with numbers beyond what the terms declare", np.logical_not(within.all(axis=1))
        yield from self._label_faults(labels, len(rows))
        if self.declared is None or records is None:
            return
        made, good = self.declared.rows_of(records)
        yield _NOT_AS_DECLARED, ~good
        yield "records that are longer than the schema declares", self.declared.too_long(records)
        yield "rows that are not what the schema makes of its records", np.asarray((made != rows).any(axis=1))
        inside = self.declared.labels_in(records) if len(labels) else None
        if inside is not None:
            yield "labels that are not those of its records", np.asarray(inside != labels, dtype=np.bool_)

    def _label_faults(self, labels: Labels, rows: int) -> Iterator[tuple[str, Mask]]:
        """Labels are right or wrong one by one; what is wrong with their kind is wrong with all."""
        if len(labels) == rows:
            yield "labels that no message takes", unusable_texts(labels)
        if self.declared is None:
            return  # any others will do
        fault = fault_of_labels(self.terms, self.declared, labels) if rows else None
        if fault is None:
            return
        if len(labels) != rows:
            yield fault, np.ones(rows, dtype=np.bool_)
            return
        one_by_one = [fault_of_labels(self.terms, self.declared, labels[row : row + 1]) for row in range(rows)]
        yield fault, np.array([reason is not None for reason in one_by_one])
