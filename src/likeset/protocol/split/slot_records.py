"""What lies in the envelopes of a run: records by a schema, or of bare arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.protocol.split.bare_records import BareRecords
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords, EnvelopeRecords
from likeset.tables.scan.memory_scan import FetchedRows
from likeset.trust.picks import ReadRecords

__all__ = ["BoughtRecords", "SlotRecords", "records_of_run"]


@dataclass(frozen=True, eq=False)
class BoughtRecords:
    """Sound records that the consumer bought, as a summary has them.

    Attributes:
        rows: what each makes.
        labels: one each, or none at all.
        handles: by which owners find their rows again.
        packed: the records in the columns that were declared; empty for bare arrays.
    """

    rows: Rows = field(repr=False)
    labels: NDArray[Any] = field(repr=False)
    handles: NDArray[np.uint64]
    packed: bytes = field(repr=False)


class SlotRecords(Protocol):
    """Writes and reads what lies in envelopes."""

    def encode(self, leaving: FetchedRows, handles: NDArray[np.uint64]) -> list[bytes]:
        """A record for each row that is offered.

        Raises:
            InvalidArgument: a label is longer than a record has room for.
        """

    def read(self, records: Sequence[bytes]) -> ReadRecords:
        """What records say; never raises for what a stranger wrote."""

    def label_kinds(self, records: Sequence[bytes]) -> list[str]:
        """Of each sound record what its label is: ``none``, ``numbers`` or ``text``."""

    def bought(self, records: Sequence[bytes]) -> BoughtRecords:
        """Sound records whose labels are of one kind, as a summary has them."""


def records_of_run(terms: Terms, declared: DeclaredRecords | None) -> SlotRecords:
    """How records are written and read in a run.

    Args:
        terms: of the run.
        declared: the schema that they name; None for bare arrays.
    """
    if declared is None:
        return _BareSlotRecords(BareRecords(terms.kernel.columns))
    return _DeclaredSlotRecords(
        EnvelopeRecords(declared.schema, labelled=declared.label_column in terms.columns), declared
    )


@dataclass(frozen=True)
class _DeclaredSlotRecords:
    records: EnvelopeRecords
    declared: DeclaredRecords

    def encode(self, leaving: FetchedRows, handles: NDArray[np.uint64]) -> list[bytes]:
        assert leaving.table is not None  # noqa: S101 - rows of a declared source have records
        return self.records.encode(leaving.table, leaving.labels, handles)

    def read(self, records: Sequence[bytes]) -> ReadRecords:
        return self.records.read(records)

    def label_kinds(self, records: Sequence[bytes]) -> list[str]:
        return ["declared"] * len(records)

    def bought(self, records: Sequence[bytes]) -> BoughtRecords:
        decoded = self.records.read(records)
        return BoughtRecords(decoded.rows, decoded.labels, decoded.handles, self.declared.pack(decoded.table))


@dataclass(frozen=True)
class _BareSlotRecords:
    bare: BareRecords

    def encode(self, leaving: FetchedRows, handles: NDArray[np.uint64]) -> list[bytes]:
        return self.bare.encode(leaving.rows, leaving.labels, handles)

    def read(self, records: Sequence[bytes]) -> ReadRecords:
        return self.bare.read(records)

    def label_kinds(self, records: Sequence[bytes]) -> list[str]:
        labels = self.bare.read(records).labels
        return ["none" if label is None else "text" if isinstance(label, str) else "numbers" for label in labels]

    def bought(self, records: Sequence[bytes]) -> BoughtRecords:
        decoded = self.bare.read(records)
        labels = decoded.labels if any(label is not None for label in decoded.labels) else ()
        return BoughtRecords(decoded.rows, np.array(labels), decoded.handles, b"")
