"""Whether labels are as the terms and the schema say."""

from likeset.protocol.message_arrays import Labels
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords


def fault_of_labels(terms: Terms, declared: DeclaredRecords, labels: Labels) -> str | None:
    """What is wrong with the labels of some rows, in words that quote none of them; None if nothing is.

    Labels are there if the terms name their column, and only then.
    """
    if declared.label_column not in terms.columns:
        return "labels, which nobody declared" if len(labels) else None
    if not len(labels):
        return "rows without labels, where the schema declares them"
    return declared.label_fault(labels)
