"""A scan that reads nothing again that it has at hand: the sample of a first pass, the rows that were drawn last."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from likeset.geometry.offers import Drawing
from likeset.tables.scan.first_pass import Sample
from likeset.tables.scan.memory_scan import DrawnRows, FetchedRows
from likeset.tables.scan.withheld_rows import AbsentRowsScan, KeepingScan, OfferedRows, WithholdingScan

__all__ = ["SampledScan"]


class SampledScan:
    """The rows of another scan, of which some are held in memory: as many as are drawn.

    Args:
        scan: all rows.
        sample: drawn from them in a first pass, by the numbers that they have in the scan; None if there is none.
    """

    def __init__(self, scan: OfferedRows, sample: Sample | None) -> None:
        self._scan = scan
        self._sample = sample
        self._drawn: Sequence[DrawnRows] = ()

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return self._scan.row_count

    @property
    def absent_rows(self) -> NDArray[np.int64]:
        """Numbers of rows that take no part and leave their numbers empty."""
        return self._scan.absent_rows if isinstance(self._scan, AbsentRowsScan) else np.empty(0, dtype=np.int64)

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """All draws in one pass, or in none if it is the sample that is asked for; the same for the same key."""
        if self._sample is not None and drawings == (self._sample.drawing,):
            return [self._sample.drawn]
        drawn = self._scan.draw(*drawings)
        self._drawn = drawn
        return drawn

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows:
        """The rows of these numbers, in this order."""
        numbers = np.concatenate([np.empty(0, dtype=np.int64), *(drawn.row_numbers for drawn in self._drawn)])
        held, first = np.unique(numbers, return_index=True)
        if not len(row_numbers) or not np.isin(row_numbers, held).all():
            return self._scan.fetch(row_numbers)
        places = first[np.searchsorted(held, row_numbers)]
        return FetchedRows.concatenate([drawn.records for drawn in self._drawn]).take(places)

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows, block by block, with the number of each block's first row."""
        return self._scan.blocks()

    def numbers_in_source(self, row_numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """What these rows are called in the source, where all rows are counted."""
        if isinstance(self._scan, WithholdingScan | KeepingScan):  # the others leave rows their numbers
            return self._scan.numbers_in_source(row_numbers)
        return row_numbers
