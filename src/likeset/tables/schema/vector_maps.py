"""The maps of columns with many numbers in a cell: texts, vectors and pictures."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.tables.schema import cell_values
from likeset.tables.schema.cell_faults import ABSENT, APART, CHUNK, MIDDLE, Trouble, Troubles, troubles_in
from likeset.tables.schema.cell_values import Mask, MissingWords
from likeset.tables.schema.columns import VectorColumn
from likeset.tables.schema.text_hashing import count_pieces

__all__ = ["TextMap", "VectorMap"]

_LARGEST_SQUARED = 1e150

Values = NDArray[np.float64]
Out = NDArray[np.float32]


class _Wide:
    """A column that becomes many numbers, and perhaps a mark where it is missing."""

    def __init__(self, name: str, declared: Any, missing: MissingWords) -> None:
        self.name = name
        self._declared = declared
        self._words = missing
        self._width: int = declared.width
        self._marked = declared.missing == "indicator"
        names = [f"{name}[{entry}]" for entry in range(self._width)]
        self.features = (*names, f"{name} is missing") if self._marked else tuple(names)

    def sound(self, column: Any) -> bool:  # noqa: ARG002 - nothing is known without the work itself
        """Whether there is surely no trouble in any cell; False if unsure."""
        return False

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""
        if trouble is Trouble.MISSING and self._declared.missing == "refuse":
            return "has no value; declare what missing values mean, such as missing: indicator"
        return None


def _cuts(texts: Any, width: int) -> list[int]:
    """Where to cut texts so that no share needs much memory: neither for its letters nor for its counts."""
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    needed = np.cumsum(lengths + width)
    inner = np.searchsorted(needed, np.arange(CHUNK, needed[-1] if len(needed) else 0, CHUNK))
    return sorted({0, *inner.tolist(), len(texts)})


class TextMap(_Wide):
    """Counts of hashed pieces, made one length."""

    def encode(self, column: Any, out: Out) -> Troubles:
        """Write the features of every cell into ``out``, which holds zeros."""
        texts, absent, wrong = cell_values.text(column, self._words)
        declared = self._declared
        for first, last in pairwise(_cuts(texts, self._width)):
            counts = count_pieces(
                texts.slice(first, last - first),
                width=self._width,
                letters=declared.pieces == "letters",
                length=declared.length,
            )
            # Sums of squared counts are whole numbers: exact in any order.
            norms = np.sqrt(np.maximum((counts * counts).sum(axis=1), 1))
            out[first:last, : self._width] = counts * (declared.weight * APART) / norms[:, np.newaxis]
        if self._marked and absent is not None:
            out[:, -1] = absent * np.float32(declared.weight * APART)
        return troubles_in(missing=absent, wrong=wrong)

    def unit(self) -> str:
        """What one unit of distance means, in words."""
        length, pieces = self._declared.length, self._declared.pieces
        return f"from one text to another with no {f'{length} ' if length > 1 else ''}{pieces} in common"

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""
        return "is not text" if trouble is Trouble.WRONG else super().complaint(trouble)


class VectorMap(_Wide):
    """Lists of numbers, by the bounds of their entries or by their largest norm."""

    def encode(self, column: Any, out: Out) -> Troubles:
        """Write the features of every cell into ``out``, which holds zeros."""
        entries, absent, wrong = cell_values.lists(column, self._width)
        whole = np.ones(len(out), dtype=np.bool_)
        for mask in (absent, wrong):
            if mask is not None:
                whole &= ~mask
        rows = np.flatnonzero(whole)
        bad, far = np.zeros(len(out), dtype=np.bool_), np.zeros(len(out), dtype=np.bool_)
        step = max(1, CHUNK // self._width)
        for first in range(0, len(rows), step):
            part = rows[first : first + step]
            chunk = entries.slice(first * self._width, len(part) * self._width)
            values, odd = cell_values.numbers(chunk, self._words)
            values = values.reshape(len(part), self._width)
            bad[part] = np.isnan(values).any(axis=1)
            if odd is not None:
                bad[part] |= odd.reshape(values.shape).any(axis=1)
            scaled, far[part] = self._scale(values)
            target = slice(part[0], part[-1] + 1) if len(part) == part[-1] - part[0] + 1 else part
            out[target, : self._width] = scaled * self._declared.weight
        if absent is not None:
            if not self._by_norm:
                out[absent, : self._width] = self._declared.weight * MIDDLE / math.sqrt(self._width)
            if self._marked:
                out[absent, -1] = self._declared.weight * self._mark
        wrong = bad if wrong is None else wrong | bad
        return troubles_in(missing=absent, outside=far, wrong=wrong)

    @property
    def _by_norm(self) -> bool:
        return isinstance(self._declared, VectorColumn) and self._declared.norm is not None

    @property
    def _mark(self) -> float:
        return APART if self._by_norm else ABSENT

    def _scale(self, values: Values) -> tuple[Values, Mask]:
        if self._by_norm:
            norm = self._declared.norm
            sizes = np.abs(values).max(axis=1, initial=0.0)
            huge = sizes > _LARGEST_SQUARED  # their squares are no numbers, and their direction is all that counts
            values[huge] /= sizes[huge, np.newaxis]
            squares = np.zeros(len(values))
            for entry in range(self._width):  # in this order on every machine
                squares += values[:, entry] * values[:, entry]
            norms = np.sqrt(squares)
            far = huge | (norms > norm * (1 + 1e-6))
            shrink = np.where(far, norms, norm)
            return values * APART / shrink[:, np.newaxis], far
        low, high = self._declared.bounds
        far = ((values < low) | (values > high)).any(axis=1)
        return (np.clip(values, low, high) - low) / (high - low) / math.sqrt(self._width), far

    def unit(self) -> str:
        """What one unit of distance means, in words."""
        if self._by_norm:
            return f"from one vector of norm {self._declared.norm:.6g} to another at a right angle"
        low, high = self._declared.bounds
        return f"every entry from {low:.6g} to {high:.6g}"

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""
        if trouble is Trouble.WRONG:
            return f"is not a list of {self._width} finite numbers"
        if trouble is Trouble.OUTSIDE and self._declared.outside == "refuse":
            what = f"norm {self._declared.norm:.6g}" if self._by_norm else "bounds of its entries"
            return f"is outside the declared {what}; widen it, or declare outside: clip"
        return super().complaint(trouble)
