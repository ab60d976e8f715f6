"""Rows that are withheld: a scan without some of the rows, and one with some of the rows only.

The rows that stay are numbered anew, in their order. As long as the data and what is withheld stay, so do the numbers,
and with them every draw. Not for protocols that release something about selected rows: there a row that goes must leave
its number empty (docs/proofs/summary-stream.md), which is what ``AbsentRowsScan`` is for.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from likeset.errors import InvalidArgument
from likeset.geometry.offers import Drawing
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan.first_pass import FirstPass
from likeset.tables.scan.memory_scan import DrawnRows, FetchedRows, draw_from
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.schema import Schema

__all__ = ["AbsentRowsScan", "KeepingScan", "OfferedRows", "WithholdingScan", "offered_rows"]


class WithholdingScan:
    """The rows of a source without some of them.

    Args:
        scan: all rows.
        schema: what they mean.
        withheld: numbers of rows that are never offered, rising, each once.
    """

    def __init__(self, scan: SourceScan, schema: Schema, withheld: NDArray[np.int64]) -> None:
        self._scan = scan
        self._records = DeclaredRecords(schema)
        self._withheld = withheld
        # How many rows stay before each that is withheld: a row's new number is below it, or it comes later.
        self._kept_before = withheld - np.arange(len(withheld))

    @property
    def row_count(self) -> int:
        """How many rows stay."""
        return self._scan.row_count - len(self._withheld)

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """All draws in one pass; each the same for the same key."""
        return [drawn.in_declared_types(self._records) for drawn in draw_from(self.blocks(), drawings)]

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows:
        """The rows of these numbers, in this order."""
        return self._scan.fetch(self.numbers_in_source(row_numbers))

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows that stay, block by block, with the number of each block's first row."""
        for first, block in self._scan.blocks():
            begin, end = np.searchsorted(self._withheld, [first, first + len(block.rows)])
            stay = np.delete(np.arange(len(block.rows)), self._withheld[begin:end] - first)
            if len(stay):
                yield first - int(begin), block.take(stay) if end > begin else block

    def numbers_in_source(self, row_numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """What these rows are called in the source, where all rows are counted."""
        skipped = np.searchsorted(self._kept_before, row_numbers, side="right")
        return np.asarray(row_numbers + skipped, dtype=np.int64)


class KeepingScan:
    """Some rows of a source only; holds their numbers, and nothing for the others.

    Args:
        scan: all rows.
        schema: what they mean.
        kept: numbers of the rows that take part, rising, each once.
    """

    def __init__(self, scan: SourceScan, schema: Schema, kept: NDArray[np.int64]) -> None:
        self._scan = scan
        self._records = DeclaredRecords(schema)
        self._kept = kept

    @property
    def row_count(self) -> int:
        """How many rows take part."""
        return len(self._kept)

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """All draws in one pass; each the same for the same key."""
        return [drawn.in_declared_types(self._records) for drawn in draw_from(self.blocks(), drawings)]

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows:
        """The rows of these numbers, in this order."""
        return self._scan.fetch(self._kept[row_numbers])

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows that take part, block by block, with the number of each block's first row."""
        for first, block in self._scan.blocks():
            begin, end = np.searchsorted(self._kept, [first, first + len(block.rows)])
            if end > begin:
                yield int(begin), block.take(self._kept[begin:end] - first)

    def numbers_in_source(self, row_numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """What these rows are called in the source, where all rows are counted."""
        return self._kept[row_numbers]


class AbsentRowsScan:
    """All rows of a source under the numbers that they have, of which some take no part: their numbers stay empty.

    Args:
        scan: all rows.
        kept: numbers of the rows that take part, rising, each once.
    """

    def __init__(self, scan: SourceScan, kept: NDArray[np.int64]) -> None:
        self._scan = scan
        self._kept = kept

    @property
    def absent_rows(self) -> NDArray[np.int64]:
        """Numbers of the rows that take no part."""
        return np.delete(np.arange(self.row_count, dtype=np.int64), self._kept)

    @property
    def row_count(self) -> int:
        """How many numbers there are."""
        return self._scan.row_count

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """None: a draw would take empty numbers for rows.

        Raises:
            InvalidArgument: always.
        """
        raise InvalidArgument("drawings", len(drawings), "must be none where some numbers are no rows")

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows:
        """The rows of these numbers, in this order."""
        return self._scan.fetch(row_numbers)

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows, block by block, with the number of each block's first row; who asks leaves out the absent ones."""
        return self._scan.blocks()


OfferedRows = SourceScan | WithholdingScan | KeepingScan | AbsentRowsScan
"""The rows that a run may see: all, all but some, some only, or all with empty numbers among them."""


def offered_rows(
    scan: SourceScan,
    schema: Schema,
    seen: FirstPass,
    *,
    withhold: bool,
    rare: NDArray[np.int64] | None = None,
) -> OfferedRows:
    """The rows that a run may see, after a first pass.

    Args:
        scan: all rows.
        schema: what they mean.
        seen: what all rows told.
        withhold: whether rows that are too long are left out, and others numbered anew; if not, rows keep their
            numbers, and whoever bids them leaves out what is too long.
        rare: numbers of rows that are never offered.
    """
    never = np.empty(0, dtype=np.int64) if rare is None else rare
    withheld = np.union1d(never, seen.too_long) if withhold else never
    if seen.kept is None:
        return WithholdingScan(scan, schema, withheld) if len(withheld) else scan
    kept = np.setdiff1d(seen.kept, withheld, assume_unique=True)
    return KeepingScan(scan, schema, kept) if withhold else AbsentRowsScan(scan, kept)
