"""A look at columns as they go by: what kind their values are, and how many of the first rows share each.

Only the first rows of a table are looked at, so that a look costs little beside the pass that it accompanies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.tables import cells
from likeset.tables.cells import CommaWatch
from likeset.tables.schema import MISSING_WORDS

__all__ = ["MOST_ROWS", "ColumnLook", "Kind", "Seen", "TableLook"]

MOST_ROWS = 200_000
_MOST_CELLS = 20_000_000  # of all columns together: wide tables are looked at for fewer rows
_LEAST_ROWS = 10_000
_SECONDS_PER_DAY = 86_400
_WITHOUT_TIME = r"^.{10}([T ]00:00(:00([.,]0+)?)?(Z|[+-]00:?00)?)?$"  # a day, or its midnight
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # of a second


class Kind(StrEnum):
    """What the values of a column are, whatever type holds them."""

    WHOLE = "whole numbers"
    NUMBER = "numbers"
    TEXT = "text"
    DAY = "days"
    MOMENT = "moments"
    OTHER = "something else"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a column in one table.

    Attributes:
        kind: of its values.
        rows: that have a value, among those looked at.
        distinct: different values among them; not counted for numbers with decimals.
        low: the least number.
        high: the largest.
        middle: the distance from the first to the third quartile of the different numbers.
        rising: whether every number is larger than the one before.
        one_length: the share of numbers with as many digits as most have.
        digits: how many those are.
    """

    kind: Kind
    rows: int
    distinct: int
    low: float = 0.0
    high: float = 0.0
    middle: float = 0.0
    rising: bool = False
    one_length: float = 0.0
    digits: int = 0

    @property
    def expected_repeats(self) -> float:
        """How many rows would repeat another's number at least, were numbers as even as can be over their range."""
        # Of n even draws among R numbers, about n²/2R pairs are equal; any other law has more of them.
        spread = self.rows**2 / (2.0 * (self.high - self.low + 1.0))
        return max(spread, (self.rows / 2.0) ** 2 / (2.0 * (self.middle + 1.0)))


class ColumnLook:
    """Looks at a column of one table, block by block, until it has seen enough.

    Args:
        missing: the words that mean that there is no value.
        rows: how many are enough.
    """

    def __init__(self, missing: cells.MissingWords, *, rows: int = MOST_ROWS) -> None:
        self._missing = missing
        self._enough = rows
        self._looked = self._rows = 0
        self._numbers = self._days = self._whole = self._rising = True
        self._with_time = self._other = False
        self._last = -np.inf
        self._distinct: list[Any] = []
        self._commas = CommaWatch()

    def add(self, column: Any) -> None:
        """Take in one block; what comes after the first rows is not looked at."""
        block = column.slice(0, max(0, self._enough - self._looked))
        self._looked += len(block)
        if not len(block) or self._other or (self._numbers and not self._whole):
            return
        if pa.types.is_dictionary(block.type):
            block = block.cast(block.type.value_type)
        if cells.is_text(block.type):
            self._add_texts(block.drop_null().dictionary_encode())
        elif pa.types.is_date(block.type) or pa.types.is_timestamp(block.type):
            self._numbers = False
            self._add_times(block.drop_null())
        elif pa.types.is_integer(block.type) or pa.types.is_floating(block.type) or pa.types.is_decimal(block.type):
            present = self._add_numbers(cells.numbers(block, self._missing)[0])
            self._keep(pa.array(np.unique(present) if self._whole else present[:1]), rows=len(present))
        else:
            self._other = not pa.types.is_null(block.type)

    def _add_texts(self, encoded: Any) -> None:
        """Through distinct texts: most columns of words have few, and to try them as numbers takes long."""
        texts = cells.text(encoded.dictionary, self._missing)[0]
        rows = encoded.indices.to_numpy()
        absent = texts.is_null().to_numpy(zero_copy_only=False)
        self._keep(texts.drop_null(), rows=len(rows) - int(np.count_nonzero(absent[rows])))
        self._commas.add(texts)
        if self._numbers:
            values, wrong = cells.numbers(texts, self._missing)
            self._numbers = wrong is None
            if self._numbers:
                self._add_numbers(values[rows])
        if not self._numbers and self._days:
            self._days = cells.days(texts, "iso", self._missing)[1] is None
            self._with_time |= not pc.all(pc.match_substring_regex(texts, _WITHOUT_TIME), min_count=0).as_py()

    def _add_times(self, times: Any) -> None:
        self._keep(pc.unique(times), rows=len(times))
        if pa.types.is_timestamp(times.type):
            ticks = pc.cast(times, pa.int64()).to_numpy(zero_copy_only=False)
            self._with_time |= bool((ticks % (_SECONDS_PER_DAY * _TICKS[times.type.unit])).any())

    def _add_numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take in numbers in the order of rows, NaN where there is none; those that there are."""
        present = values[~np.isnan(values)]
        if len(present):
            self._whole &= bool((present == np.rint(present)).all())
            self._rising = self._rising and bool(present[0] > self._last and (present[1:] > present[:-1]).all())
            self._last = float(present[-1])
        return present

    def _keep(self, distinct: Any, *, rows: int) -> None:
        self._rows += rows
        self._distinct.append(distinct)

    def summary(self) -> Seen | None:
        """What was seen; None if there was no value."""
        if self._other:
            return Seen(Kind.OTHER, self._rows, self._rows)
        if not self._rows:
            return None
        if (self._numbers and not self._whole) or self._commas.has_commas:
            return Seen(Kind.NUMBER, self._rows, self._rows)
        different = pc.unique(pa.chunked_array(self._distinct))
        if not self._numbers:
            kind = Kind.TEXT if not self._days else Kind.MOMENT if self._with_time else Kind.DAY
            return Seen(kind, self._rows, len(different))
        values = np.unique(cells.numbers(different, self._missing)[0])
        values = values[~np.isnan(values)]
        if not len(values):
            return None
        quarters = np.percentile(values, [25, 75]).tolist()
        lengths = np.bincount(np.floor(np.log10(np.maximum(np.abs(values), 1.0))).astype(np.int64))
        return Seen(
            Kind.WHOLE,
            self._rows,
            len(values),
            low=float(values[0]),
            high=float(values[-1]),
            middle=quarters[1] - quarters[0],
            rising=self._rising,
            one_length=float(lengths.max() / len(values)),
            digits=int(lengths.argmax()) + 1,
        )


class TableLook:
    """Looks at some columns of one table.

    Args:
        names: of the columns.
        missing_words: mean that there is no value.
    """

    def __init__(self, names: Sequence[str], missing_words: Sequence[str] = MISSING_WORDS) -> None:
        missing = cells.MissingWords.of(missing_words)
        rows = max(_LEAST_ROWS, min(MOST_ROWS, _MOST_CELLS // max(1, len(names))))
        self._columns = {name: ColumnLook(missing, rows=rows) for name in names}

    def add(self, table: pa.Table) -> None:
        """Take in one block, which has all of these columns."""
        for name, look in self._columns.items():
            look.add(cells.plain_array(table.column(name)))

    def summary(self) -> dict[str, Seen | None]:
        """What was seen of each column; None where it had no value."""
        return {name: look.summary() for name, look in self._columns.items()}
