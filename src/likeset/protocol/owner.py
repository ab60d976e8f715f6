"""An owner's side: its rows behind a port, its keys, its handles."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from likeset.errors import IllegalMessage
from likeset.geometry.offers import Drawing
from likeset.protocol.admission import Admission
from likeset.protocol.legality import Position, owner_rules, title_of_message
from likeset.protocol.messages import Message, Offer, TargetRelease
from likeset.protocol.party import Party, check_envelope, speaker
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan.memory_scan import DrawnRows, FetchedRows
from likeset.tables.schema import narrow

__all__ = ["HoledScan", "Owner", "Scan", "key_in_run", "row_handles"]


def key_in_run(key: int, run: str, purpose: str) -> int:
    """An owner's key for one purpose in one run."""
    text = f"likeset/owner/{run}/{purpose}/".encode() + key.to_bytes(32, "big")
    return int.from_bytes(hashlib.sha256(text).digest(), "big")


def row_handles(key: int, run: str, row_numbers: Iterable[int]) -> Iterator[int]:
    """Opaque names of an owner's rows in a run, a keyed digest of each row's number: 64 bits, new in each run."""
    secret = key_in_run(key, run, "handles").to_bytes(32, "big")
    for number in row_numbers:
        digest = hashlib.blake2b(int(number).to_bytes(8, "big"), key=secret, digest_size=8).digest()
        yield int.from_bytes(digest, "big")


class Scan(Protocol):
    """How an owner reaches its rows, wherever they lie: in memory, in files, on a cluster."""

    @property
    def row_count(self) -> int:
        """How many rows there are."""

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """Several draws in one pass over all rows; each the same for the same key."""

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows:
        """The rows of these numbers, in this order."""

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows, block by block, with the number of each block's first row."""


@runtime_checkable
class HoledScan(Scan, Protocol):
    """A scan in which some numbers are no rows: they stay empty, so that the others keep theirs."""

    @property
    def absent_rows(self) -> NDArray[np.int64]:
        """The empty numbers."""


class Owner(Party):
    """What owners of both protocols share.

    Args:
        terms: of the run.
        name: the owner's name in the terms.
        scan: its rows.
        key: secret and kept: decides which rows are drawn and how they are named toward others.
        declared: the schema that declares its rows; None for bare arrays.

    Attributes:
        rows_disclosed: how many rows were sent to the curator in this run.
    """

    def __init__(
        self,
        terms: Terms,
        name: str,
        *,
        scan: Scan,
        key: int,
        declared: DeclaredRecords | None = None,
    ) -> None:
        if name not in terms.owners:
            raise IllegalMessage(f"{name} is not among the owners of run {terms.run}")
        super().__init__(terms, name, owner_rules(terms))
        self._scan = scan
        self._key = key
        self._admission = Admission(terms, declared)
        self._rows_by_handle: dict[int, int] = {}
        self.rows_disclosed = 0

    @classmethod
    def check_opening(cls, terms: Terms, name: str, message: Message) -> None:
        """Raise unless a run can begin with this message; no row is read for that, and nothing charged.

        Raises:
            IllegalMessage: it is for somebody else, does not come from the consumer, or is not the target's release.
        """
        check_envelope(terms, name, message)
        rules = owner_rules(terms)
        rules.after(Position(rules.start), message, speaker(terms, message))
        cls._check_release(terms, message)

    def row_of(self, handle: int) -> int:
        """The number of the row that was sent under this handle; only its owner can tell."""
        if handle not in self._rows_by_handle:
            raise IllegalMessage(f"{self.name} sent no row under that handle")
        return self._rows_by_handle[handle]

    def _check_content(self, message: Message) -> None:
        self._check_release(self.terms, message)

    @staticmethod
    def _check_release(terms: Terms, message: Message) -> None:
        """Of the target, if the message is one."""
        body, width = message.body, 0 if terms.offers == "uniform" else terms.kernel.dimension
        if not isinstance(body, TargetRelease):
            return
        if body.release.shape != (width,) or not np.isfinite(body.release).all():
            raise IllegalMessage(f"{title_of_message(message)}: the release does not have the shape of the terms")

    def _derived_key(self, purpose: str) -> int:
        """A key for one purpose in this run: draws of different runs are independent."""
        return key_in_run(self._key, self.terms.run, purpose)

    def _handles(self, row_numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Opaque names of rows in this run; remembered for ``row_of``."""
        handles = list(row_handles(self._key, self.terms.run, row_numbers))
        self._rows_by_handle.update(zip(handles, map(int, row_numbers), strict=True))
        return np.array(handles, dtype=np.uint64)

    def _leaving(self, drawn: DrawnRows) -> tuple[NDArray[np.uint64], FetchedRows]:
        """Handles and rows, in an order that tells nothing about how they were found; none that is not admitted."""
        admitted = np.flatnonzero(self._admission.admits(drawn.records))
        drawn = DrawnRows(drawn.row_numbers[admitted], drawn.records.take(admitted))
        handles = self._handles(drawn.row_numbers)
        order = np.argsort(handles, kind="stable")
        return handles[order], drawn.records.take(order)

    def _offer(self, drawn: DrawnRows) -> Offer:
        """Rows as they leave."""
        handles, leaving = self._leaving(drawn)
        rows, labels = np.asarray(leaving.rows, dtype=np.float32), narrow(leaving.labels)
        declared = self._admission.declared
        packed = b"" if leaving.table is None or declared is None else declared.pack(leaving.table)
        return Offer(
            rows=rows,
            labels=labels,
            handles=handles,
            records=np.frombuffer(packed, dtype=np.uint8),
        )
