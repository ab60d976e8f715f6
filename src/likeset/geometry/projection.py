"""The inner product of every row's features with one direction, without the features.

Cosine and sine of one angle, weighed and added, are one cosine with another phase: half the work of the features, and
nothing of their length is ever in memory.
"""

import hashlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.geometry.features import TILE_ROWS, FourierFeatures
from likeset.geometry.threads import one_thread_a_product

__all__ = ["Projection"]


class Projection:
    """``direction . h(x)`` of rows; can be pickled.

    Computed in tiles of fixed shape, aligned to the row's number, each product by one thread: so the bits are the
    same in blocks of any size, on any number of workers with the same kind of processor.

    Args:
        features: the map h.
        direction: as long as a feature vector.
    """

    def __init__(self, features: FourierFeatures, direction: ArrayLike) -> None:
        along = arguments.vector("direction", direction, length=features.dimension)
        frequencies, phases, scale = features.waves
        if features.kind == "paper":
            heights, shifts = along, phases
        else:
            cosines, sines = np.split(along, 2)
            heights, shifts = np.hypot(cosines, sines), phases - np.arctan2(sines, cosines)
        self._heights = (scale * heights).astype(np.float32)
        # The shift is the weight of a column of ones.
        self._frequencies = np.ascontiguousarray(np.column_stack([frequencies, shifts]), dtype=np.float32)

    @property
    def fingerprint(self) -> str:
        """A digest of the map and the direction."""
        return hashlib.sha256(self._heights.tobytes() + self._frequencies.tobytes()).hexdigest()

    def __call__(self, rows: Rows, *, first_row: int = 0) -> NDArray[np.float32]:
        """One number for each row; ``first_row`` is the number of the first row in its table."""
        result = np.empty(len(rows), dtype=np.float32)
        pairs, columns = self._frequencies.shape
        # Column by column: tables are mapped that way, and it is read once.
        tile = np.zeros((columns, TILE_ROWS), dtype=np.float32)
        tile[-1] = 1.0
        angles = np.empty((pairs, TILE_ROWS), dtype=np.float32)
        sums = np.empty(TILE_ROWS, dtype=np.float32)
        with one_thread_a_product():
            for start in range(-(first_row % TILE_ROWS), len(rows), TILE_ROWS):
                part = slice(max(start, 0), min(start + TILE_ROWS, len(rows)))
                within = slice(part.start - start, part.stop - start)
                tile[:-1, within] = rows[part].T
                np.matmul(self._frequencies, tile, out=angles)
                np.cos(angles, out=angles)
                np.matmul(self._heights, angles, out=sums)
                result[part] = sums[within]
        return result
