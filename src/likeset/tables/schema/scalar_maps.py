"""The maps of columns with one value in a cell: numbers, days, truth values, steps and categories."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.tables.schema import cell_values
from likeset.tables.schema.cell_faults import ABSENT, APART, MIDDLE, Trouble, Troubles, troubles_in
from likeset.tables.schema.cell_values import MissingWords
from likeset.tables.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    FillValue,
    NumericColumn,
    OrdinalColumn,
    day_number,
    number_or_words,
)
from likeset.tables.schema.declared_values import DeclaredValues

__all__ = ["BooleanMap", "CategoryMap", "DateMap", "NumericMap", "OrdinalMap", "log2"]

Values = NDArray[np.float64]
Out = NDArray[np.float32]
_NO_NUMBER = "is not a finite number; decimal commas must become points"
_FEW = 24  # values of a category that are written one after the other


def log2(values: Values) -> Values:
    """Logarithm to base 2 that is the same on all machines, as numpy's is not; within 1e-15 of it.

    With values = m 2^e and m in [1/2, 1): e - 1/2 + 2/ln(2) artanh(s), s = (m - √½)/(m + √½), below 0.172 in size.
    """
    fraction, exponent = np.frexp(values)
    s = (fraction - APART) / (fraction + APART)
    square = s * s
    series = np.full_like(s, 1.0 / 23.0)
    for odd in range(21, 0, -2):
        series *= square
        series += 1.0 / odd
    return (exponent - 0.5) + s * series * (2.0 / math.log(2.0))


class _Scalar:
    """A column that becomes one number between 0 and 1, and perhaps a mark where it is missing."""

    def __init__(self, name: str, declared: Any, missing: MissingWords) -> None:
        self.name = name
        self._declared = declared
        self._words = missing
        self._marked = declared.missing == "indicator"
        self.features = (name, f"{name} is missing") if self._marked else (name,)

    def positions(self, column: Any) -> tuple[Values, Troubles]:
        """Between 0 and 1, NaN where missing or in trouble."""
        raise NotImplementedError

    def position_of(self, value: Any) -> float:
        """Where a declared value lies."""
        raise NotImplementedError

    def encode(self, column: Any, out: Out) -> Troubles:
        """Write the features of every cell into ``out``, which holds zeros."""
        positions, troubles = self.positions(column)
        absent = np.isnan(positions)
        if absent.any():
            gone = absent & ~np.logical_or.reduce(list(troubles.values())) if troubles else absent
            if gone.any():
                troubles[Trouble.MISSING] = gone
            missing = self._declared.missing
            filled = self.position_of(missing.value) if isinstance(missing, FillValue) else MIDDLE
            positions[absent] = filled
            if self._marked:
                out[:, 1] = absent * np.float32(self._declared.weight * ABSENT)
        if self._declared.weight != 1.0:
            positions *= self._declared.weight
        out[:, 0] = positions
        return troubles

    def sound(self, column: Any) -> bool:  # noqa: ARG002 - for those that know a short way
        """Whether there is surely no trouble in any cell; False if unsure."""
        return False

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""
        if trouble is Trouble.MISSING and self._declared.missing == "refuse":
            return "has no value; declare what missing values mean, such as missing: indicator"
        if trouble is Trouble.OUTSIDE and self._declared.outside == "refuse":
            low, high = self._declared.bounds
            return f"is outside the declared bounds {low:.12g} to {high:.12g}; widen them, or declare outside: clip"
        return None


class NumericMap(_Scalar):
    """A number by its declared bounds."""

    def __init__(self, name: str, declared: NumericColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self._low, self._high = declared.bounds
        self._log = declared.scale == "log"
        ends = np.array(declared.bounds)
        self._ends = log2(ends) if self._log else ends

    def encode(self, column: Any, out: Out) -> Troubles:
        """Write the features of every cell into ``out``, which holds zeros."""
        plain = None if self._log else cell_values.plain_numbers(column)
        if plain is None or not self._all_good(plain):
            return super().encode(column, out)
        # The same steps as below. All lie between the bounds, so that nothing is clipped: rounding keeps the order.
        values = np.subtract(plain, self._ends[0], dtype=np.float64)
        if self._low == 0.0:
            values += 0.0  # no -0.0, which remains only where nothing was subtracted
        values /= self._ends[1] - self._ends[0]
        if self._declared.weight != 1.0:
            values *= self._declared.weight
        out[:, 0] = values
        return {}

    def sound(self, column: Any) -> bool:
        """Whether there is surely no trouble in any cell; False if unsure."""
        plain = cell_values.plain_numbers(column)
        return plain is not None and self._all_good(plain)

    def _all_good(self, values: NDArray[Any]) -> bool:
        """Whether all numbers lie between the bounds and none means missing."""
        if not len(values):
            return False
        # As doubles: numpy compares a float32 with a bound in float32, where cells just outside are inside, and whether
        # this way is taken must not depend on other cells.
        least, most = float(values.min()), float(values.max())  # not a number if any is none
        gone = (*self._declared.missing_values, *self._words.numbers)
        return bool(self._low <= least and most <= self._high) and not any(least <= number <= most for number in gone)

    def positions(self, column: Any) -> tuple[Values, Troubles]:
        """Between 0 and 1, NaN where missing or in trouble."""
        values, wrong = cell_values.numbers(column, self._words)
        for number in self._declared.missing_values:
            values[values == number] = np.nan
        outside = (values < self._low) | (values > self._high)
        troubles = troubles_in(outside=outside, wrong=wrong)
        if Trouble.OUTSIDE in troubles:
            np.clip(values, self._low, self._high, out=values)
        return self._scale(values), troubles

    def position_of(self, value: Any) -> float:
        """Where a declared value lies."""
        return float(self._scale(np.array([float(value)]))[0])

    def _scale(self, values: Values) -> Values:
        values = log2(values) if self._log else values
        values -= self._ends[0]
        values /= self._ends[1] - self._ends[0]
        return np.clip(values, 0.0, 1.0, out=values)

    def unit(self) -> str:
        """What one unit of distance means, in words."""
        if self._log:
            return f"a factor of {self._high / self._low:.4g} (from {self._low:.6g} to {self._high:.6g})"
        return f"{self._high - self._low:.6g} (from {self._low:.6g} to {self._high:.6g})"

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""
        return _NO_NUMBER if trouble is Trouble.WRONG else super().complaint(trouble)


class DateMap(_Scalar):
    """A day by its declared bounds."""

    def __init__(self, name: str, declared: DateColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self._low, self._high = (float(day_number(day)) for day in declared.bounds)
        self._gone = [day_number(day) for day in declared.missing_values]

    def positions(self, column: Any) -> tuple[Values, Troubles]:
        """Between 0 and 1, NaN where missing or in trouble."""
        values, wrong = cell_values.days(column, self._declared.format, self._words)
        values = values + 0.0
        for day in self._gone:
            values[values == day] = np.nan
        troubles = troubles_in(outside=(values < self._low) | (values > self._high), wrong=wrong)
        values = (np.clip(values, self._low, self._high) - self._low) / (self._high - self._low)
        return values, troubles

    def position_of(self, value: Any) -> float:
        """Where a declared value lies."""
        return (day_number(value) - self._low) / (self._high - self._low)

    def unit(self) -> str:
        """What one unit of distance means, in words."""
        return f"{self._high - self._low:.0f} days ({' to '.join(self._declared.bounds)})"

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""
        if trouble is Trouble.WRONG:
            form = self._declared.format
            return f"is not a date in the format {'year-month-day' if form == 'iso' else form}"
        if trouble is Trouble.OUTSIDE and self._declared.outside == "refuse":
            low, high = self._declared.bounds
            return f"is outside the declared bounds {low} to {high}; widen them, or declare outside: clip"
        return super().complaint(trouble)


class BooleanMap(_Scalar):
    """True and false, in the declared words or as 1 and 0."""

    def __init__(self, name: str, declared: BooleanColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        pairs = {word.strip().lower(): 1.0 for word in declared.true_words}
        pairs |= {word.strip().lower(): 0.0 for word in declared.false_words}
        # A file of text may write 1 as 1.0.
        pairs |= {f"{word}.0": value for word, value in pairs.items() if word in ("0", "1")}
        self._known = cell_values.array_of_words(list(pairs))
        self._values = np.array([*pairs.values(), np.nan])
        self._lower_words = MissingWords.of([word.lower() for word in missing.words.to_pylist()])

    def positions(self, column: Any) -> tuple[Values, Troubles]:
        """Between 0 and 1, NaN where missing or in trouble."""
        holds = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if cell_values.is_text(holds):
            places, absent, _ = cell_values.words(_lower(column), self._known, self._lower_words)
            unknown = places < 0
            return self._values[places], troubles_in(wrong=unknown if absent is None else unknown & ~absent)
        values, wrong = cell_values.numbers(column, self._words)
        odd = ~np.isnan(values) & (values != 0.0) & (values != 1.0)
        if odd.any():
            values[odd] = np.nan
            wrong = odd if wrong is None else wrong | odd
        return values, troubles_in(wrong=wrong)

    def encode(self, column: Any, out: Out) -> Troubles:
        """Write the features of every cell into ``out``, which holds zeros."""
        if not self.sound(column):
            return super().encode(column, out)
        np.multiply(column.to_numpy(zero_copy_only=False), np.float32(self._declared.weight), out=out[:, 0])
        return {}

    def sound(self, column: Any) -> bool:
        """Whether there is surely no trouble in any cell; False if unsure."""
        return bool(pa.types.is_boolean(column.type) and column.null_count == 0)

    def position_of(self, value: Any) -> float:
        """Where a declared value lies."""
        return 1.0 if value else 0.0

    def unit(self) -> str:
        """What one unit of distance means, in words."""
        return "from false to true"

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""
        if trouble is Trouble.WRONG:
            return "is none of the words for true and false; declare true_words and false_words"
        return super().complaint(trouble)


class OrdinalMap(_Scalar):
    """Values at equal steps."""

    def __init__(self, name: str, declared: OrdinalColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self._declared_values = DeclaredValues(declared, missing)
        last = len(declared.values) - 1
        self._positions = np.array([*(rank / last for rank in range(last + 1)), np.nan])

    def positions(self, column: Any) -> tuple[Values, Troubles]:
        """Between 0 and 1, NaN where missing or in trouble."""
        places, troubles = self._declared_values.find(column)
        troubles.pop(Trouble.MISSING, None)
        return self._positions[places], troubles

    def sound(self, column: Any) -> bool:
        """Whether there is surely no trouble in any cell; False if unsure."""
        return self._declared_values.all_known(column)

    def position_of(self, value: Any) -> float:
        """Where a declared value lies."""
        return float(self._positions[self._declared.values.index(number_or_words([value])[0])])

    def unit(self) -> str:
        """What one unit of distance means, in words."""
        count = len(self._declared.values)
        low, high = _short(self._declared.values[0]), _short(self._declared.values[-1])
        return f"{count - 1} step{'s' if count > 2 else ''} (from {low} to {high})"

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""
        if trouble is Trouble.UNKNOWN:
            return "is none of the declared values; correct it, or declare its value"
        if trouble is Trouble.WRONG:
            return f"is not {self._declared_values.expected_type}"
        return super().complaint(trouble)


class CategoryMap:
    """One feature for each value."""

    def __init__(self, name: str, declared: CategoryColumn, missing: MissingWords) -> None:
        self.name = name
        self._declared = declared
        self._declared_values = DeclaredValues(declared, missing)
        names = [f"{name}={_short(value)}" for value in declared.values]
        count = len(names)
        nowhere = self._lost = -1
        self._other = nowhere
        if declared.unknown == "other":
            self._other = len(names)
            names.append(f"{name} is another")
        if declared.missing == "indicator":
            self._lost = len(names)
            names.append(f"{name} is missing")
        elif isinstance(declared.missing, FillValue):
            self._lost = declared.values.index(number_or_words([declared.missing.value])[0])
        self._simple = count
        self.features = tuple(names)

    def encode(self, column: Any, out: Out) -> Troubles:
        """Write the features of every cell into ``out``, which holds zeros."""
        places, troubles = self._declared_values.find(column)
        if Trouble.MISSING in troubles:
            places[troubles[Trouble.MISSING]] = self._lost
        if Trouble.UNKNOWN in troubles:
            places[troubles[Trouble.UNKNOWN]] = self._other
        height = np.float32(self._declared.weight * APART)
        if len(self.features) <= _FEW:
            # A comparison for each value goes through memory in order, which one write for each row does not.
            narrow = places.astype(np.int8)
            for feature in range(len(self.features)):
                np.multiply(narrow == feature, height, out=out[:, feature])
        elif places.min(initial=0) < 0:
            rows = np.flatnonzero(places >= 0)
            out[rows, places[rows]] = height
        else:
            out[np.arange(len(places)), places] = height
        return troubles

    def sound(self, column: Any) -> bool:
        """Whether there is surely no trouble in any cell; False if unsure."""
        return self._declared_values.all_known(column)

    def unit(self) -> str:
        """What one unit of distance means, in words."""
        return "from one value to any other"

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""
        if trouble is Trouble.MISSING and self._declared.missing == "refuse":
            return "has no value; declare what missing values mean, such as missing: indicator"
        if trouble is Trouble.UNKNOWN and self._declared.unknown == "refuse":
            return "is none of the declared values; correct it, declare its value, or declare unknown: other"
        return f"is not {self._declared_values.expected_type}" if trouble is Trouble.WRONG else None


def _lower(column: Any) -> Any:
    """Text in lower case; a dictionary's words only."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, pc.utf8_lower(column.dictionary))
    encoded = column.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices, pc.utf8_lower(encoded.dictionary))


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"
