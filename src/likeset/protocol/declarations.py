"""What a schema says about what owners send, as far as the protocols ask; and whether labels are as it says."""

from typing import Protocol

import pyarrow as pa

from likeset.arguments import Rows
from likeset.protocol.messages import Labels
from likeset.protocol.terms import Terms

__all__ = ["Declared", "fault_of_labels"]


class Declared(Protocol):
    """What a schema says: the columns and types of records, the rows that it makes of them, and the labels."""

    @property
    def record_schema(self) -> pa.Schema:
        """Columns and types of a record."""

    @property
    def label_column(self) -> str | None:
        """The column of labels."""

    @property
    def label_letters(self) -> int | None:
        """How many letters a label has at most; None where its values are not declared."""

    def rows_of(self, records: pa.Table) -> Rows:
        """What the selection sees of these records; raises ``BadTable`` for any that are not as declared."""

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
