"""The owner's pass over its rows, in memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry import tilt
from likeset.geometry.features import TILE_ROWS

__all__ = ["FetchedRows", "MemoryScan"]

_BLOCK_ROWS = 16 * TILE_ROWS


@dataclass(frozen=True, eq=False)
class FetchedRows:
    """Rows with their labels."""

    rows: Rows
    labels: NDArray[Any]


class MemoryScan:
    """Rows that lie in memory.

    Args:
        rows: one row per record.
        labels: one label per row, or none.
    """

    def __init__(self, rows: ArrayLike, labels: ArrayLike | None = None) -> None:
        self._rows = arguments.matrix("rows", rows)
        self._labels = np.empty(0) if labels is None else np.asarray(labels)
        if labels is not None and self._labels.shape != (len(self._rows),):
            raise InvalidArgument(
                "labels",
                f"array of shape {self._labels.shape}",
                f"must be one label for each of {len(self._rows)} rows",
            )

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def sample(self, count: int, *, key: int) -> tilt.Draw:
        """Numbers of uniformly drawn rows, all of them if there are fewer."""
        return tilt.draw(np.zeros(len(self._rows)), np.arange(len(self._rows)), count, key=key)

    def top(self, score: Callable[[FetchedRows, int], NDArray[np.float64]], count: int, *, key: int) -> tilt.Draw:
        """Numbers of rows drawn by their weights, in one pass."""
        kept = []
        for first, block in self.blocks():
            numbers = np.arange(first, first + len(block.rows))
            kept.append(tilt.draw(score(block, first), numbers, count, key=key))
        return tilt.merge(kept, count)

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows:
        """The rows of these numbers, in this order."""
        labels = self._labels[row_numbers] if len(self._labels) else self._labels
        return FetchedRows(rows=self._rows[row_numbers], labels=labels)

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows, block by block, with the number of each block's first row."""
        for first in range(0, len(self._rows), _BLOCK_ROWS):
            part = slice(first, first + _BLOCK_ROWS)
            yield first, FetchedRows(rows=self._rows[part], labels=self._labels[part])
