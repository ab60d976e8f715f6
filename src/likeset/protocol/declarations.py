"""What a schema says about what owners send, as far as the protocols ask; and whether labels are as it says."""

from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.protocol.message_arrays import Labels
from likeset.protocol.terms import Terms
from likeset.tables.records import RecordForm
from likeset.tables.schema import Schema

__all__ = ["Declared", "fault_of_labels"]


class Declared(Protocol):
    """What a schema says: the columns and types of records, the rows that it makes of them, and the labels."""

    @property
    def schema(self) -> Schema:
        """The schema itself."""

    @property
    def form(self) -> RecordForm:
        """Columns and types of a record, and how long its cells can be."""

    @property
    def label_column(self) -> str | None:
        """The column of labels."""

    @property
    def label_letters(self) -> int | None:
        """How many letters a label has at most; None where its values are not declared."""

    @property
    def record_bytes(self) -> int:
        """How long a record may be."""

    @property
    def largest_entry(self) -> float:
        """No number of a row that the schema makes of a record is larger in size."""

    def of(self, table: pa.Table) -> pa.Table:
        """Rows of a table, as records; records are records already."""

    def too_long(self, table: pa.Table) -> NDArray[np.bool_]:
        """Which rows have a cell that is longer than the schema declares."""

    def rows_of(self, records: pa.Table) -> tuple[Rows, NDArray[np.bool_]]:
        """What the selection sees of these records, and which of them are as declared."""

    def label_fault(self, labels: Labels) -> str | None:
        """What is wrong with labels, in words that quote none of them; None if nothing is."""

    def labels_in(self, records: pa.Table) -> Labels | None:
        """The labels that stand in records; None where labels travel beside them alone."""


def fault_of_labels(terms: Terms, declared: Declared, labels: Labels) -> str | None:
    """What is wrong with the labels of some rows, in words that quote none of them; None if nothing is.

    Labels are there if the terms name their column, and only then.
    """
    if declared.label_column not in terms.columns:
        return "labels, which nobody declared" if len(labels) else None
    if not len(labels):
        return "rows without labels, where the schema declares them"
    return declared.label_fault(labels)
