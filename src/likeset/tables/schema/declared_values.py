"""Cells among declared values: words or numbers, each by its place."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.tables.schema import cell_values
from likeset.tables.schema.cell_faults import Troubles, troubles_in
from likeset.tables.schema.cell_values import MissingWords
from likeset.tables.schema.columns import CategoryColumn, OrdinalColumn

__all__ = ["DeclaredValues"]

_LISTED = 4096  # whole numbers among which a place is looked up


class DeclaredValues:
    """Finds cells among declared values, which are numbers or words."""

    def __init__(self, declared: CategoryColumn | OrdinalColumn, missing: MissingWords) -> None:
        self._missing = missing
        self._are_words = isinstance(declared.values[0], str)
        self._gone = declared.missing_values
        if self._are_words:
            # Words that mean missing in this column come after the known ones.
            self._known = cell_values.array_of_words([str(word) for word in (*declared.values, *self._gone)])
            self._count = len(declared.values)
            self._seen: tuple[Any, NDArray[np.int64] | None] = (None, None)
        else:
            values = np.array(declared.values, dtype=np.float64)
            self._order = np.argsort(values).astype(np.int64)
            self._sorted = values[self._order]
            self._by_number = self._places_by_number(values)

    def _places_by_number(self, values: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """For each whole number from the least to the largest value its place, -1 if it is none or means missing."""
        low, high = values.min(), values.max()
        if not (values == np.rint(values)).all() or high - low >= _LISTED or abs(values).max() >= _LISTED:
            return None
        places = np.full(int(high - low) + 1, -1)
        places[(values - low).astype(np.int64)] = np.arange(len(values))
        for gone in (*self._gone, *self._missing.numbers):
            if low <= gone <= high and gone == int(gone):
                places[int(gone - low)] = -1
        return places

    def _of_whole_numbers(self, column: Any) -> NDArray[np.int64] | None:
        """The place of each cell; None if they are no whole numbers, or any of them is no declared value."""
        plain = cell_values.plain_numbers(column)
        if self._by_number is None or plain is None or plain.dtype.kind not in "iu" or not len(plain):
            return None
        low = int(self._sorted[0])
        if int(plain.min()) < low or int(plain.max()) > int(self._sorted[-1]):
            return None
        places = self._by_number[plain.astype(np.int64) - low]
        return places if places.min() >= 0 else None

    def all_known(self, column: Any) -> bool:
        """Whether every cell is surely a declared value, found out by less work than finding them; False if unsure."""
        known = self._of_dictionary(column) if self._are_words else self._of_whole_numbers(column)
        return known is not None

    def _of_dictionary(self, column: Any) -> NDArray[np.int64] | None:
        """The place of each word of a dictionary; None if it is none, or holds anything but declared values.

        The dictionary of one block is mostly that of the next.
        """
        if not pa.types.is_dictionary(column.type) or column.null_count:
            return None
        dictionary, places = self._seen
        if dictionary is None or not column.dictionary.equals(dictionary):
            dictionary = column.dictionary
            places, absent, wrong = cell_values.words(dictionary, self._known, self._missing)
            known = (
                absent is None and wrong is None and len(places) and places.min() >= 0 and places.max() < self._count
            )
            if not known:
                places = None
            self._seen = (dictionary, places)
        return places

    def find(self, column: Any) -> tuple[NDArray[np.int64], Troubles]:
        """The place of each cell among the values, -1 if it is missing, unknown or of the wrong type."""
        if self._are_words:
            known = self._of_dictionary(column)
            if known is not None:
                return known[column.indices.to_numpy(zero_copy_only=False)], {}
            places, absent, wrong = cell_values.words(column, self._known, self._missing)
            if self._gone:
                gone = places >= self._count
                places[gone] = -1
                absent = gone if absent is None else absent | gone
        else:
            known = self._of_whole_numbers(column)
            if known is not None:
                return known, {}
            values, wrong = cell_values.numbers(column, self._missing)
            for number in self._gone:
                values[values == number] = np.nan
            at = np.searchsorted(self._sorted, values)
            at[at == len(self._sorted)] = 0
            places = np.where(self._sorted[at] == values, self._order[at], -1)
            absent = np.isnan(values)
            if wrong is not None:
                absent &= ~wrong
        unknown = places < 0
        for mask in (absent, wrong):
            if mask is not None:
                unknown &= ~mask
        return places, troubles_in(missing=absent, unknown=unknown, wrong=wrong)

    @property
    def expected_type(self) -> str:
        """What a cell of the wrong type is not."""
        return "text, as the declared values are" if self._are_words else "a number, as the declared values are"
