"""What a draft sees of a column as all rows go by: numbers or words, how many different ones, and how they spread.

Holds at most a thousand different values with their counts, and at most 65,536 numbers for a histogram, whatever the
number of rows.
"""

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.tables import cells
from likeset.tables.cells import CommaWatch, as_points
from likeset.tables.schema import MISSING_WORDS

__all__ = ["ColumnEvidence"]

_MOST_DIFFERENT = 1000
_MOST_NUMBERS = 1 << 16
_BARS = 12
_MISSING = cells.MissingWords.of(MISSING_WORDS)


class ColumnEvidence:
    """What has been seen of one column.

    Args:
        kind: the Arrow type of its cells.

    Attributes:
        rows: how many went by.
        missing: of them, how many have no value.
        all_numbers: whether every value is a number, with a decimal point or with a decimal comma.
        commas: whether the numbers have decimal commas.
        all_days: whether every value is a day.
        all_whole: whether every number is whole.
        low: the least number, or day since 1970.
        high: the largest.
        width: of the lists, if the column has lists.
        many: whether there are too many different values to count them.
        runs: stretches of rows with one and the same number; as many as different ones where rows are sorted.
        sorted: whether no number is below the one before it.
    """

    def __init__(self, kind: Any) -> None:
        self.held = kind.value_type if pa.types.is_dictionary(kind) else kind
        self.rows = self.missing = 0
        self.all_numbers = self.all_days = self.all_whole = True
        self.commas = False
        self.low, self.high = math.inf, -math.inf
        self.width: int | None = None
        self.many = False
        self.runs, self.sorted, self._last = 0, True, -math.inf
        self._counts: Counter[Any] = Counter()
        self._numbers = _ThinnedNumbers()
        self._watch = CommaWatch()

    @property
    def has_lists(self) -> bool:
        """Whether a cell holds several numbers."""
        kind = self.held
        return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))

    @property
    def is_typed_days(self) -> bool:
        """Whether the file itself says that cells are days or moments."""
        return bool(pa.types.is_date(self.held) or pa.types.is_timestamp(self.held))

    @property
    def is_text(self) -> bool:
        """Whether cells are text in the file."""
        return cells.is_text(self.held)

    @property
    def is_truth(self) -> bool:
        """Whether the file itself says that cells are true or false."""
        return bool(pa.types.is_boolean(self.held))

    @property
    def has_range(self) -> bool:
        """Whether any number or day was seen."""
        return self.low <= self.high

    @property
    def counts(self) -> dict[Any, int]:
        """The different values with their rows, if they are few enough: numbers if all are, words otherwise."""
        if not self.all_numbers:
            return {str(value): count for value, count in self._counts.items()}
        counted: Counter[float] = Counter()
        for value, count in self._counts.items():
            counted[float(as_points(value) if self.commas and isinstance(value, str) else value)] += count
        return dict(counted)

    @property
    def thousands(self) -> bool:
        """Whether numbers with decimal commas have points between thousands."""
        return self._watch.has_thousands

    @property
    def sample(self) -> NDArray[np.float64]:
        """Some of the numbers or days, evenly from all rows."""
        return self._numbers.values()

    def add(self, column: Any) -> None:
        """Take in one block."""
        self.rows += len(column)
        if self.has_lists:
            self._add_lists(column)
        elif self.is_typed_days:
            days, _ = cells.days(column, "iso", _MISSING)
            self.missing += int(np.count_nonzero(np.isnan(days)))
            self._take(days)
        elif self.is_text:
            self._add_text(column)
        else:
            values, wrong = cells.numbers(column, _MISSING)
            self.all_numbers &= wrong is None
            self.missing += int(np.count_nonzero(np.isnan(values)))
            self._count(pa.array(values[~np.isnan(values)]))
            self._add_numbers(values)

    def bars(self) -> tuple[int, ...]:
        """Rows in equal parts of the range, or of each value, the most frequent first; of a sample if rows are many."""
        values = self.sample
        is_range = self.has_lists or self.is_typed_days or self.has_range
        few = not self.many and 0 < len(self._counts) <= _BARS
        if few and (not is_range or self.all_whole):
            counts = self.counts
            ordered = sorted(counts) if self.all_numbers else sorted(counts, key=lambda value: -counts[value])
            return tuple(counts[value] for value in ordered)
        if is_range and len(values):
            halves = (self.low / 2, self.high / 2)  # the widest range of all would overflow
            return tuple(int(count) for count in np.histogram(values / 2, bins=_BARS, range=halves)[0])
        return tuple(count for _, count in self._counts.most_common(_BARS))

    def _add_text(self, column: Any) -> None:
        texts, missing, _ = cells.text(column, _MISSING)
        present = texts.drop_null()
        self.missing += 0 if missing is None else int(np.count_nonzero(missing))
        self._count(present)
        if self.all_numbers and len(present):
            self._add_written_numbers(present)
        if not self.all_numbers and self.all_days:
            days, wrong = cells.days(present, "iso", _MISSING)
            self.all_days = wrong is None
            if self.all_days:
                self._take(days)
        if not self.all_numbers and not self.all_days:
            self.low, self.high = math.inf, -math.inf

    def _add_written_numbers(self, present: Any) -> None:
        self._watch.add(present)
        self.commas = self._watch.has_commas
        values, wrong = cells.numbers(as_points(present) if self.commas else present, _MISSING)
        self.all_numbers = wrong is None
        if self.all_numbers:
            self._add_numbers(values)
        else:
            # What was a number before is no day, and days are counted from 1970.
            self.all_days = not self.has_range
            self.commas, self.low, self.high = False, math.inf, -math.inf
            self._numbers = _ThinnedNumbers()

    def _add_numbers(self, values: NDArray[np.float64]) -> None:
        present = values[~np.isnan(values)]
        self.all_whole &= bool((present == np.rint(present)).all())
        before = np.concatenate([[self._last], present])
        self.runs += int(np.count_nonzero(before[:-1] != present))
        self.sorted &= bool((before[:-1] <= present).all())
        self._last = float(before[-1])
        self._take(present)

    def _add_lists(self, column: Any) -> None:
        self.missing += column.null_count
        lengths = pc.list_value_length(column).drop_null()
        if self.width is None and len(lengths):
            self.width = lengths[0].as_py()
        values, _ = cells.numbers(column.flatten(), _MISSING)
        self._take(values)

    def _take(self, values: NDArray[np.float64]) -> None:
        present = values[~np.isnan(values)]
        if len(present):
            self.low, self.high = min(self.low, float(present.min())), max(self.high, float(present.max()))
            self._numbers.add(present)

    def _count(self, present: Any) -> None:
        if self.many or not len(present):
            return
        counted = pc.value_counts(present)
        if len(counted) <= _MOST_DIFFERENT:
            self._counts.update(dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True)))
        if max(len(counted), len(self._counts)) > _MOST_DIFFERENT:
            self.many, self._counts = True, Counter()


class _ThinnedNumbers:
    """Every number, then every second, every fourth, and so on, so that few are held."""

    def __init__(self) -> None:
        self._step, self._skip = 1, 0
        self._pieces: list[NDArray[np.float64]] = []
        self._held = 0

    def add(self, values: NDArray[np.float64]) -> None:
        piece = values[self._skip :: self._step]
        self._skip = (self._skip - len(values)) % self._step
        self._pieces.append(piece.copy())
        self._held += len(piece)
        while self._held > _MOST_NUMBERS:
            whole = self.values()
            self._skip += self._step if len(whole) % 2 else 0
            self._step *= 2
            self._pieces, self._held = [whole[::2].copy()], (len(whole) + 1) // 2

    def values(self) -> NDArray[np.float64]:
        return np.concatenate([np.empty(0), *self._pieces])
