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
from likeset.geometry import offers
from likeset.geometry.features import TILE_ROWS
from likeset.geometry.offers import Drawing
from likeset.tables.records import DeclaredRecords

__all__ = ["BLOCK_ROWS", "DrawnRows", "FetchedRows", "Keeper", "Kept", "MemoryScan", "draw_from"]

BLOCK_ROWS = 32 * TILE_ROWS  # to look at a block of 30 columns at all takes as long as to map some 5,000 rows of it
_SLACK = 1e-9  # of a sum of a weight and a perturbation, far beyond its rounding


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
        # In one layout whatever it was before: products of matrices may round differently with the layout.
        return type(self)(np.ascontiguousarray(self.rows[places]), labels, table)

    def in_declared_types(self, records: DeclaredRecords) -> Self:
        """The same rows with records in declared types: done for the few rows that are drawn."""
        assert self.table is not None  # noqa: S101 - rows of a source have records
        return type(self)(self.rows, self.labels, records.of(self.table))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Parts of one table, one after the other."""
        tables = [part.table for part in parts if part.table is not None]
        return cls(
            rows=np.concatenate([part.rows for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            table=pa.concat_tables(tables).unify_dictionaries() if tables else None,
        )


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows drawn, best first: their numbers and what they are."""

    row_numbers: NDArray[np.int64]
    records: FetchedRows

    def in_declared_types(self, records: DeclaredRecords) -> Self:
        """The same with records in declared types."""
        return type(self)(self.row_numbers, self.records.in_declared_types(records))


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows that may be among the best of a draw, with their perturbed scores."""

    row_numbers: NDArray[np.int64]
    scores: NDArray[np.float64]
    records: FetchedRows

    def __len__(self) -> int:
        return len(self.row_numbers)


class Keeper:
    """The best rows of one draw so far, while blocks of rows go by in any order.

    Holds at most about three times as many rows as are drawn.

    Args:
        drawing: what is wanted.
        least: a perturbed score that as many rows as are drawn are known to reach; rows below it are out for good.
    """

    def __init__(self, drawing: Drawing, *, least: float = -np.inf) -> None:
        self.least = least
        self._drawing = drawing
        self._kept: list[Kept] = []
        self._held = 0

    def choose(self, block: FetchedRows, first_row: int) -> Kept:
        """The rows of a block that may be among the best, given the number of its first row.

        Changes nothing, so several threads may do it at once.
        """
        places, scores = self.best_places(first_row, len(block.rows), block)
        return Kept(first_row + places, scores, block.take(places))

    def best_places(
        self, first_row: int, rows: int, block: FetchedRows | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Which rows of a block to choose, and their perturbed scores; an unweighted draw looks at no row for it."""
        drawing, least = self._drawing, self.least
        weights = None if drawing.score is None else drawing.score(block, first_row)
        most = 0.0 if weights is None or not rows else float(weights.max())
        places, scores = offers.large_perturbations(first_row, rows, key=drawing.key, least=least - most - _SLACK)
        if weights is not None:
            scores = scores + weights[places]
        good = np.flatnonzero(scores >= least)
        good, scores = places[good], scores[good]
        if len(good) > drawing.count:
            best = offers.largest(good, scores, drawing.count)
            order = np.argsort(best.row_numbers)
            good, scores = best.row_numbers[order], best.perturbed[order]
        return good, scores

    def add(self, kept: Kept) -> None:
        """Rows chosen from a block, or kept by another keeper of the same draw from other rows."""
        self._kept.append(kept)
        self._held += len(kept)
        if self._held > 2 * self._drawing.count + TILE_ROWS:
            self._prune()

    def take(self, block: FetchedRows, first_row: int) -> None:
        """A block of rows, given the number of its first row."""
        self.add(self.choose(block, first_row))

    def best_rows(self) -> Kept | None:
        """The best rows so far, best first; None if nothing went by."""
        if self._kept:
            self._prune()
        return self._kept[0] if self._kept else None

    def result(self) -> DrawnRows:
        """The rows drawn from all that went by."""
        best = self.best_rows()
        if best is None:
            raise InvalidArgument("rows", "none", "there must be at least one row to draw from")
        return DrawnRows(best.row_numbers, best.records)

    def _prune(self) -> None:
        numbers = np.concatenate([kept.row_numbers for kept in self._kept])
        scores = np.concatenate([kept.scores for kept in self._kept])
        best = offers.largest(numbers, scores, self._drawing.count)
        order = np.argsort(numbers, kind="stable")
        places = order[np.searchsorted(numbers, best.row_numbers, sorter=order)]
        records = FetchedRows.concatenate([kept.records for kept in self._kept]).take(places)
        self._kept = [Kept(best.row_numbers, best.perturbed, records)]
        self._held = len(best)
        if self._held == self._drawing.count and self._held:
            self.least = max(self.least, float(best.perturbed[-1]))


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
