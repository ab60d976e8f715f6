"""The owner's pass over its rows: several draws from one pass; here in memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry import tilt
from likeset.geometry.features import TILE_ROWS
from likeset.geometry.tilt import Drawing

__all__ = ["BLOCK_ROWS", "DrawnRows", "FetchedRows", "Keeper", "MemoryScan", "draw_from"]

BLOCK_ROWS = 16 * TILE_ROWS


@dataclass(frozen=True, eq=False)
class FetchedRows:
    """Rows with their labels and, where they come from a table, their records.

    Attributes:
        rows: what the selection sees of them.
        labels: one label each, or none at all.
        table: the columns that may leave; None for bare arrays.
    """

    rows: Rows
    labels: NDArray[Any]
    table: pa.Table | None = None

    def take(self, places: NDArray[np.int64]) -> Self:
        """Some of them, in the order of ``places``."""
        labels = self.labels[places] if len(self.labels) else self.labels
        table = None if self.table is None else self.table.take(pa.array(places))
        return type(self)(self.rows[places], labels, table)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Parts of one table, one after the other."""
        tables = [part.table for part in parts if part.table is not None]
        return cls(
            rows=np.concatenate([part.rows for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            table=pa.concat_tables(tables) if tables else None,
        )


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows drawn, best first: their numbers and what they are."""

    row_numbers: NDArray[np.int64]
    records: FetchedRows


class Keeper:
    """The best rows of one draw so far, while blocks of rows go by in any order.

    Holds at most about twice as many rows as are drawn, and one block.
    """

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._least = -np.inf  # rows below this are out for good
        self._numbers: list[NDArray[np.int64]] = []
        self._scores: list[NDArray[np.float64]] = []
        self._records: list[FetchedRows] = []
        self._held = 0

    def take(self, block: FetchedRows, first_row: int) -> None:
        """A block of rows, given the number of its first row."""
        numbers = np.arange(first_row, first_row + len(block.rows))
        scores = tilt.perturbed(numbers, key=self._drawing.key)
        if self._drawing.score is not None:
            scores = scores + self._drawing.score(block, first_row)
        good = np.flatnonzero(scores >= self._least)
        if len(good) > self._drawing.count:
            numbers_of_best = tilt.largest(good, scores[good], self._drawing.count).row_numbers
            good = np.sort(numbers_of_best)
        self._add(numbers[good], scores[good], block.take(good))

    def join(self, other: "Keeper") -> None:
        """What another keeper of the same draw kept from other rows."""
        for numbers, scores, records in zip(other._numbers, other._scores, other._records, strict=True):
            self._add(numbers, scores, records)

    def result(self) -> DrawnRows:
        """The rows drawn from all that went by."""
        if not self._records:
            raise InvalidArgument("rows", "none", "there must be at least one row to draw from")
        self._prune()
        return DrawnRows(self._numbers[0], self._records[0])

    def _add(self, numbers: NDArray[np.int64], scores: NDArray[np.float64], records: FetchedRows) -> None:
        self._numbers.append(numbers)
        self._scores.append(scores)
        self._records.append(records)
        self._held += len(numbers)
        if self._held > 2 * self._drawing.count + BLOCK_ROWS:
            self._prune()

    def _prune(self) -> None:
        numbers, scores = np.concatenate(self._numbers), np.concatenate(self._scores)
        best = tilt.largest(numbers, scores, self._drawing.count)
        order = np.argsort(numbers, kind="stable")
        places = order[np.searchsorted(numbers, best.row_numbers, sorter=order)]
        self._records = [FetchedRows.joined(self._records).take(places)]
        self._numbers, self._scores = [best.row_numbers], [best.perturbed]
        self._held = len(best)
        if self._held == self._drawing.count and self._held:
            self._least = float(best.perturbed[-1])


def draw_from(blocks: Iterable[tuple[int, FetchedRows]], drawings: Sequence[Drawing]) -> list[DrawnRows]:
    """All draws in one pass."""
    keepers = [Keeper(drawing) for drawing in drawings]
    for first, block in blocks:
        for keeper in keepers:
            keeper.take(block, first)
    return [keeper.result() for keeper in keepers]


class MemoryScan:
    """Rows that lie in memory.

    Args:
        rows: one row per record.
        labels: one label per row, or none.
        table: the columns that may leave, one line per row; none for bare arrays.
    """

    def __init__(self, rows: ArrayLike, labels: ArrayLike | None = None, table: pa.Table | None = None) -> None:
        matrix = arguments.matrix("rows", rows)
        held = np.empty(0) if labels is None else np.asarray(labels)
        if labels is not None and held.shape != (len(matrix),):
            raise InvalidArgument(
                "labels", f"array of shape {held.shape}", f"must be one label for each of {len(matrix)} rows"
            )
        if table is not None and table.num_rows != len(matrix):
            raise InvalidArgument("table", f"{table.num_rows} records", f"must be one for each of {len(matrix)} rows")
        self._all = FetchedRows(matrix, held, table)

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self._all.rows)

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """All draws in one pass; each the same for the same key."""
        return draw_from(self.blocks(), drawings)

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows:
        """The rows of these numbers, in this order."""
        return self._all.take(row_numbers)

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows, block by block, with the number of each block's first row."""
        everything = self._all
        for first in range(0, len(everything.rows), BLOCK_ROWS):
            part = slice(first, first + BLOCK_ROWS)
            table = None if everything.table is None else everything.table.slice(first, BLOCK_ROWS)
            yield first, FetchedRows(everything.rows[part], everything.labels[part], table)
