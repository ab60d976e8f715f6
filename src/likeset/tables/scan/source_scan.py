"""The owner's pass over rows that lie in files or databases: block by block, never all at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.geometry.offers import Drawing
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan.checkpoint import Checkpoint
from likeset.tables.scan.first_pass import FirstPass, Fold, first_pass
from likeset.tables.scan.memory_scan import BLOCK_ROWS, DrawnRows, FetchedRows, Keeper, Kept
from likeset.tables.scan.pass_progress import Passed, Watch
from likeset.tables.scan.row_pass import UNIT_ROWS, Unit, Work, pass_over, units_of
from likeset.tables.schema import Schema
from likeset.tables.sources.row_blocks import checked_columns
from likeset.tables.sources.source import Source

__all__ = ["SourceScan"]


class SourceScan:
    """Rows of a source, mapped by a schema.

    Holds a few blocks and the rows that are drawn, whatever the number of rows. A draw is the same as from the same
    rows in memory, whatever the number of workers and the sizes of blocks and units. Every pass maps and checks every
    cell: a row that cannot be used ends it before anything is drawn.

    Args:
        source: where the rows lie.
        schema: what they mean.
        labelled: whether the label is read as well.
        workers: how many threads read, map and score.
        progress: called as rows go by.
        checkpoints: a directory of the owner's own, where a pass leaves what it has after every unit, so that it can
            go on there after an interruption; nothing is left if None.
        block_rows: how many rows are read at a time.
        unit_rows: how many rows may have to be read again after an interruption; at least one part.
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
        block_rows: int = BLOCK_ROWS,
        unit_rows: int = UNIT_ROWS,
    ) -> None:
        self._source = source
        self._workers = arguments.count("workers", workers)
        self._progress = progress
        self._checkpoints = checkpoints
        self._unit_rows = arguments.count("unit_rows", unit_rows)
        self._work = Work(source.name, schema, labelled, (), (), block_rows=arguments.count("block_rows", block_rows))
        self._records = DeclaredRecords(schema)

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return self._source.row_count

    def first_pass(
        self,
        *folds: Fold,
        sample: Drawing | None = None,
        without_too_long: bool = False,
        keep_key: int | None = None,
    ) -> FirstPass:
        """Everything that takes all rows to know, by reading them once; the arguments are those of ``first_pass``."""
        total = self._source.row_count if self._source.counted else None
        watch = Watch(self._source.name, total, self._progress)
        return first_pass(
            self._source,
            self._work,
            folds=folds,
            sample=sample,
            without_too_long=without_too_long,
            keep_key=keep_key,
            went_by=watch.add,
        )

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """All draws in one pass; each the same for the same key.

        Raises:
            InvalidArgument: the schema keeps a few rows of each id: then only a ``KeepingScan`` draws.
        """
        if self._work.schema.keep is not None:
            raise InvalidArgument("keep", self._work.schema.keep, "allows no draw from all rows; draw from those kept")
        checked_columns(self._work.columns, self._source.schema, table=self._source.name)
        units = self._units()
        work = replace(self._work, drawings=drawings, leasts=(-np.inf,) * len(drawings))
        watch = Watch(self._source.name, self._source.row_count, self._progress)
        keepers = [Keeper(drawing) for drawing in drawings]
        checkpoint = self._checkpoint(work, units)
        done, kept = checkpoint.load(work) if checkpoint is not None else (set(), [])
        for keeper, earlier in zip(keepers, kept, strict=False):
            keeper.add(earlier)
        if done:
            watch.skip(sum(unit.row_count for unit in units if unit.number in done))
        for unit, chosen in self._passes([unit for unit in units if unit.number not in done], work, keepers, watch):
            for keeper, each in zip(keepers, chosen, strict=True):
                if each is not None:
                    keeper.add(each)
            done.add(unit.number)
            if checkpoint is not None:
                best = [keeper.best_rows() for keeper in keepers]
                checkpoint.save(sorted(done), [each for each in best if each is not None])
        return [keeper.result().in_declared_types(self._records) for keeper in keepers]

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows:
        """The rows of these numbers, in this order."""
        table = self._source.fetch(row_numbers, self._work.columns)
        mapped = self._work.map_rows(table, lambda offset: f"row {int(row_numbers[offset]) + 1}")
        return mapped.in_declared_types(self._records)

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows, block by block, with the number of each block's first row."""
        watch = Watch(self._source.name, self._source.row_count, self._progress)
        for block in self._source.blocks(self._work.columns, rows=self._work.block_rows):
            yield block.first_row, self._work.map_rows(block.table, block.locate)
            watch.add(len(block))

    def _units(self) -> list[Unit]:
        """One unit where nothing is written between units."""
        rows = self._unit_rows if self._checkpoints is not None else max(1, self._source.row_count)
        return units_of(self._source.parts, rows=rows)

    def _passes(
        self, units: Sequence[Unit], work: Work, keepers: Sequence[Keeper], watch: Watch
    ) -> Iterator[tuple[Unit, list[Kept | None]]]:
        """What each drawing keeps of each unit; units may come in any order."""
        for unit in units:
            ready = replace(work, leasts=tuple(keeper.least for keeper in keepers))
            yield unit, pass_over(unit.parts, ready, workers=self._workers, went_by=watch.add)

    def _checkpoint(self, work: Work, units: Sequence[Unit]) -> Checkpoint | None:
        if self._checkpoints is None:
            return None
        return Checkpoint.of(self._checkpoints, work, fingerprint=self._source.fingerprint(), units=units)
