"""The first pass over an owner's rows: everything that takes all rows to know, told by one reading.

It says whether every row can be used, which rows are too long, how many rows one id has, and draws the sample that
follows from the owner's key alone. Whoever wants to know more gives a fold, which sees the same blocks. What is wrong
with a row is kept and not raised, since the caller may have something to say that comes first.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.errors import BadTable
from likeset.geometry.offers import Drawing
from likeset.tables.records import DeclaredRecords
from likeset.tables.rows_per_id import IdCount
from likeset.tables.scan.kept_rows import KeptRowsOfIds
from likeset.tables.scan.memory_scan import DrawnRows, Keeper
from likeset.tables.scan.row_pass import Work, chosen_unweighted
from likeset.tables.sources.source import Block, Source

__all__ = ["FirstPass", "Fold", "Sample", "first_pass"]


class Fold(Protocol):
    """Somebody who looks at all rows, block by block."""

    @property
    def columns(self) -> Sequence[str]:
        """What it looks at."""

    def add(self, block: Block) -> None:
        """The next rows, with these columns at least; text may come as dictionaries."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that were drawn while all rows went by.

    Attributes:
        drawing: which; all rows weigh the same in it.
        drawn: the rows.
    """

    drawing: Drawing
    drawn: DrawnRows


@dataclass(frozen=True, eq=False)
class FirstPass:
    """What all rows told.

    Attributes:
        row_count: how many there are.
        too_long: numbers of the rows with a cell that is longer than the schema declares.
        kept: numbers of the rows of which the schema keeps some for each id; None where it keeps all.
        most_rows: of one id; 1 where the schema declares no ids, or lets them have any number.
        fault: the first row that cannot be used, and why; None if all can.
        sample: what was asked for, if there are rows to draw from.
    """

    row_count: int
    too_long: NDArray[np.int64]
    kept: NDArray[np.int64] | None
    most_rows: int
    fault: BadTable | None
    sample: Sample | None

    def rows_taking_part(self) -> int:
        """How many rows are neither too long nor left out of those kept."""
        if self.kept is None:
            return self.row_count - len(self.too_long)
        return len(np.setdiff1d(self.kept, self.too_long, assume_unique=True))


def first_pass(
    source: Source,
    work: Work,
    *,
    folds: Sequence[Fold] = (),
    sample: Drawing | None = None,
    without_too_long: bool = False,
    keep_key: int | None = None,
    went_by: Callable[[int], None] | None = None,
) -> FirstPass:
    """Read everything once.

    Args:
        source: the rows.
        work: what is read, and how it is mapped.
        folds: look at the same blocks.
        sample: an unweighted draw from the rows.
        without_too_long: whether rows that are too long are left out of that draw, and have no number in it.
        keep_key: the secret that decides which rows of an id are kept, where the schema keeps a few; then no sample is
            drawn, since only the end shows which they are.
        went_by: called with the number of rows of every block.

    Raises:
        BadTable: the rows cannot be read, or a column is absent.
    """
    with ExitStack() as stack:
        ids = IdCount.of(source, work.schema)
        if ids is not None:
            stack.enter_context(ids)
            folds = (*folds, ids)
        kept = KeptRowsOfIds.of(source, work.schema, key=keep_key)
        if kept is not None:
            folds, sample = (*folds, kept), None
        rows = _Rows(work, sample, without_too_long=without_too_long)
        columns = dict.fromkeys([*work.columns, *(column for fold in folds for column in fold.columns)])
        for block in source.blocks(list(columns), rows=work.block_rows, words=work.words):
            for fold in folds:
                fold.add(block)
            rows.add(block)
            if went_by is not None:
                went_by(len(block))
        return FirstPass(
            row_count=rows.count,
            too_long=np.concatenate([np.empty(0, dtype=np.int64), *rows.too_long]),
            kept=None if kept is None else kept.row_numbers(),
            most_rows=1 if ids is None else ids.most_rows(),
            fault=rows.fault,
            sample=rows.sample(),
        )


class _Rows:
    """Looks whether rows can be used, and draws from them."""

    def __init__(self, work: Work, drawing: Drawing | None, *, without_too_long: bool) -> None:
        self.count = 0
        self.too_long: list[NDArray[np.int64]] = []
        self.fault: BadTable | None = None
        self._work = work
        self._declared = DeclaredRecords(work.schema)
        self._drawing = drawing
        self._keeper = None if drawing is None else Keeper(drawing)
        self._without_too_long = without_too_long
        self._left_out = 0

    def add(self, block: Block) -> None:
        """The next rows."""
        work, table = self._work, block.table.select(self._work.columns)
        longer = np.flatnonzero(self._declared.too_long(table)) if self._declared.open_columns else _NONE
        self.too_long.append(block.first_row + longer)
        self.count += len(block)
        if self.fault is None:
            try:
                if not work.schema.sound(table, table=work.table, labels=work.labelled):
                    work.map_rows(table, block.locate)
                self._draw(block.first_row, table, longer)
            except BadTable as fault:
                self.fault = fault

    def _draw(self, first_row: int, table: pa.Table, longer: NDArray[np.int64]) -> None:
        if self._keeper is None:
            return
        stay = np.arange(table.num_rows)
        if self._without_too_long:
            stay = np.delete(stay, longer)
        self._keeper.add(chosen_unweighted(self._keeper, self._work, table, first_row - self._left_out, stay))
        self._left_out += table.num_rows - len(stay)

    def sample(self) -> Sample | None:
        """What was drawn from all rows."""
        if self._drawing is None or self._keeper is None or self.fault is not None or self.count == self._left_out:
            return None
        return Sample(self._drawing, self._keeper.result().in_declared_types(self._declared))


_NONE = np.empty(0, dtype=np.int64)
