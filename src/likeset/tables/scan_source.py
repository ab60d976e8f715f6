"""The owner's pass over rows that lie in files or databases: block by block, never all at once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.geometry.tilt import Drawing
from likeset.tables.declared import DeclaredRecords
from likeset.tables.passing import Passed, Watch
from likeset.tables.scan import BLOCK_ROWS, DrawnRows, FetchedRows, draw_from
from likeset.tables.schema import Schema
from likeset.tables.sources import Source

__all__ = ["SourceScan"]


class SourceScan:
    """Rows of a source, mapped by a schema.

    Holds one block and the rows that are drawn, whatever the number of rows. A draw is the same as from the same rows
    in memory.

    Args:
        source: where the rows lie.
        schema: what they mean.
        labelled: whether the label is read as well.
        workers: how many threads map and score.
        progress: called as rows go by.
        checkpoints: a directory of the owner's own, where an interrupted pass leaves what it has; none if None.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        *,
        labelled: bool = True,
        workers: int = 1,
        progress: Callable[[Passed], None] | None = None,
        checkpoints: Path | None = None,
    ) -> None:
        self._source = source
        self._schema = schema
        self._labelled = labelled
        self._columns = schema.record_columns if labelled else schema.columns
        self._records = DeclaredRecords(schema)
        self._workers = workers
        self._progress = progress
        self._checkpoints = checkpoints

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return self._source.row_count

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """All draws in one pass; each the same for the same key."""
        drawn = draw_from(self.blocks(), drawings)
        return [DrawnRows(one.row_numbers, self._declared(one.records)) for one in drawn]

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows:
        """The rows of these numbers, in this order."""
        table = self._source.fetch(row_numbers, self._columns)
        return self._declared(self._mapped(table, lambda offset: f"row {int(row_numbers[offset]) + 1}"))

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows, block by block, with the number of each block's first row."""
        watch = Watch(self._source.name, self._source.row_count, self._progress)
        for block in self._source.blocks(self._columns, rows=BLOCK_ROWS):
            yield block.first_row, self._mapped(block.table, block.locate)
            watch.add(len(block))

    def _mapped(self, table: pa.Table, locate: Callable[[int], str]) -> FetchedRows:
        mapped = self._schema.map(table, table=self._source.name, locate=locate, labels=self._labelled)
        return FetchedRows(mapped.rows, mapped.labels, table)

    def _declared(self, fetched: FetchedRows) -> FetchedRows:
        """The same rows with records in declared types: done for the few rows that are drawn."""
        assert fetched.table is not None  # noqa: S101 - rows of a source have records
        return FetchedRows(fetched.rows, fetched.labels, self._records.of(fetched.table))
