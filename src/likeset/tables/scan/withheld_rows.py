"""Rows that are withheld: a scan without some of the rows.

The rows that stay are numbered anew, in their order. As long as the data and what is withheld stay, so do the numbers,
and with them every draw. Not for protocols that release something about selected rows: there a row that goes must leave
its number empty (docs/proofs/summary-stream.md).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from likeset.geometry.tilt import Drawing
from likeset.tables.scan.memory_scan import DrawnRows, FetchedRows, draw_from
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.schema import Schema

__all__ = ["WithholdingScan"]


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
