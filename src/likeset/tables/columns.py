"""The kinds of columns: what a schema declares of each, and the fixed map from its cells to numbers.

A map is made from its declaration alone. Every step is exact or correctly rounded (sums and differences, products,
quotients, square roots), one cell at a time, and the result is rounded once, to 32 bits: so the same cell has the same
bytes at every owner, on every machine, in blocks of any size.
"""

import math
from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from likeset.documents import Document
from likeset.tables import cells
from likeset.tables.cells import Mask, MissingWords
from likeset.text import near_miss

Number = Annotated[float, Field(allow_inf_nan=False)]
Weight = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
_MOST_VALUES = 10_000
_DATE_PARTS = set("dmYyjHMS")


class FillValue(Document):
    """``missing: {value: ...}``: what stands for a missing value."""

    value: float | bool | str


def _missing(given: Any) -> Any:
    """Either a word or a value; distinguished here, because an error about both would confuse."""
    if isinstance(given, str) and given not in ("refuse", "indicator"):
        raise ValueError(f"must be refuse, indicator or {{value: ...}}{near_miss(given, ('refuse', 'indicator'))}")
    if isinstance(given, dict) and set(given) != {"value"}:
        raise ValueError("must be refuse, indicator or {value: ...}")
    if isinstance(given, dict) and not isinstance(given["value"], bool | int | float | str):
        raise ValueError("the value must be one number or word")
    return FillValue(**given) if isinstance(given, dict) else given


Missing = Annotated[Literal["refuse", "indicator"] | FillValue, BeforeValidator(_missing)]
WideMissing = Literal["refuse", "indicator"]


def _check_order(bounds: tuple[float, float]) -> tuple[float, float]:
    if not bounds[0] < bounds[1]:
        raise ValueError("the lower bound must come first, and be less than the upper one")
    if not math.isfinite(bounds[1] - bounds[0]):
        raise ValueError("the bounds are too far apart")
    return bounds


Bounds = Annotated[tuple[Number, Number], AfterValidator(_check_order)]


def number_or_words(values: Any) -> Any:
    """Declared values: numbers throughout, or words throughout; among words, whole numbers are words as well."""
    if not isinstance(values, list | tuple) or not all(isinstance(value, bool | int | float | str) for value in values):
        raise ValueError("must be a list of numbers or words, such as [a, b]")
    if any(isinstance(value, bool) for value in values):
        raise ValueError("true and false are not values here; use kind: boolean, or put the words in quotes")
    if all(isinstance(value, int | float) for value in values):
        if not all(math.isfinite(value) for value in values):
            raise ValueError("the values must be finite")
        return tuple(float(value) + 0.0 for value in values)
    if any(isinstance(value, float) and value != int(value) for value in values):
        raise ValueError("must be numbers throughout, or words throughout; put the numbers in quotes")
    return tuple(value.strip() if isinstance(value, str) else str(int(value)) for value in values)


def _distinct(values: Any) -> Any:
    checked = number_or_words(values)
    if len(set(checked)) != len(checked):
        raise ValueError("a value is given twice")
    return checked


Values = Annotated[tuple[float | str, ...], Field(min_length=1, max_length=_MOST_VALUES), BeforeValidator(_distinct)]
MissingValues = Annotated[tuple[float | str, ...], BeforeValidator(number_or_words)]


class _Column(Document):
    weight: Weight = 1.0
    from_data: bool = False


class NumericColumn(_Column):
    """A number; the declared bounds become 0 and 1."""

    kind: Literal["numeric"]
    bounds: Bounds
    scale: Literal["linear", "log"] = "linear"
    outside: Literal["refuse", "clip"] = "refuse"
    missing: Missing = "refuse"
    missing_values: tuple[Number, ...] = ()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.scale == "log" and self.bounds[0] <= 0:
            raise ValueError("scale: log needs a lower bound above 0")
        if isinstance(self.missing, FillValue):
            value = self.missing.value
            if isinstance(value, bool | str) or not self.bounds[0] <= value <= self.bounds[1]:
                raise ValueError("missing: the value must be a number within the bounds")
        return self


class BooleanColumn(_Column):
    kind: Literal["boolean"]
    true_words: tuple[str, ...] = ("true", "yes", "t", "y", "1")
    false_words: tuple[str, ...] = ("false", "no", "f", "n", "0")
    missing: Missing = "refuse"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        yes, no = ({word.strip().lower() for word in words} for words in (self.true_words, self.false_words))
        if not yes or not no or yes & no:
            raise ValueError("true_words and false_words need a word each, and none in common")
        if isinstance(self.missing, FillValue) and self.missing.value not in (True, False):
            raise ValueError("missing: the value must be true or false")
        return self


class _ListedColumn(_Column):
    values: Values
    missing: Missing = "refuse"
    missing_values: MissingValues = ()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if isinstance(self.missing, FillValue) and number_or_words((self.missing.value,))[0] not in self.values:
            raise ValueError("missing: the value must be one of values")
        words = isinstance(self.values[0], str)
        if any(isinstance(value, str) != words for value in self.missing_values):
            raise ValueError("missing_values: must be numbers if values are, and words if they are")
        if set(self.values) & set(self.missing_values):
            raise ValueError("missing_values: a value cannot both be declared and mean missing")
        return self


class CategoryColumn(_ListedColumn):
    """One of some values; any two are one unit apart."""

    kind: Literal["category"]
    unknown: Literal["refuse", "other", "nothing"] = "refuse"


class OrdinalColumn(_ListedColumn):
    """One of some values in order, at equal steps from 0 to 1."""

    kind: Literal["ordinal"]
    values: Annotated[Values, Field(min_length=2)]


class DateColumn(_Column):
    """A day; the declared bounds become 0 and 1."""

    kind: Literal["date"]
    bounds: tuple[str, str]
    format: str = "iso"
    outside: Literal["refuse", "clip"] = "refuse"
    missing: Missing = "refuse"
    missing_values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        low, high = (day_number(text) for text in self.bounds)
        if not low < high:
            raise ValueError("bounds: the earlier day must come first")
        for text in self.missing_values:
            day_number(text)
        if self.format != "iso":
            _check_format(self.format)
        if isinstance(self.missing, FillValue):
            value = self.missing.value
            if not isinstance(value, str) or not low <= day_number(value) <= high:
                raise ValueError("missing: the value must be a day within the bounds")
        return self


class TextColumn(_Column):
    """Text, as counts of its hashed pieces."""

    kind: Literal["text"]
    width: Annotated[int, Field(ge=2, le=65536)]
    pieces: Literal["letters", "words"] = "letters"
    length: Annotated[int, Field(ge=1, le=8)] = 3
    missing: WideMissing = "refuse"


class VectorColumn(_Column):
    """A list of numbers of a known width: an embedding."""

    kind: Literal["vector"]
    width: Annotated[int, Field(ge=1, le=65536)]
    bounds: Bounds | None = None
    norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    outside: Literal["refuse", "clip"] = "refuse"
    missing: WideMissing = "refuse"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if (self.bounds is None) == (self.norm is None):
            raise ValueError("needs either bounds of its entries or the largest norm of a vector")
        return self


class ImageColumn(_Column):
    """A picture as a flat list of numbers."""

    kind: Literal["image"]
    shape: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=4)]
    bounds: Bounds = (0.0, 255.0)
    outside: Literal["refuse", "clip"] = "refuse"
    missing: WideMissing = "refuse"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.width > 1_000_000:
            raise ValueError("shape: a picture may have at most 1,000,000 numbers")
        return self

    @property
    def width(self) -> int:
        return math.prod(self.shape)


_Small = NumericColumn | BooleanColumn | CategoryColumn | OrdinalColumn | DateColumn
Column = Annotated[_Small | TextColumn | VectorColumn | ImageColumn, Field(discriminator="kind")]


def day_number(text: str) -> int:
    try:
        if len(text) != len("2026-07-31"):
            raise ValueError
        return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        raise ValueError("a day is written as year-month-day, such as 2026-07-31") from None


def _check_format(form: str) -> None:
    parts = [form[position + 1 : position + 2] for position, sign in enumerate(form) if sign == "%"]
    if not set(parts) <= _DATE_PARTS:
        # Names of months and of days are other words in other languages.
        raise ValueError("format: use iso, or a format of %d %m %Y %y %j %H %M %S only, such as %d.%m.%Y")
    if not ("j" in parts or {"d", "m"} <= set(parts)) or not {"Y", "y"} & set(parts):
        raise ValueError("format: must name day, month and year, such as %d.%m.%Y")


MIDDLE = 0.5
ABSENT = math.sqrt(0.75)  # with the middle as value: one unit from both ends
APART = math.sqrt(0.5)  # two entries of this size are one unit apart
_NO_VALUE = "has no value; declare what missing values mean, such as missing: indicator"
CHUNK = 1 << 20  # entries of wide columns that are worked on at once


class Trouble(StrEnum):
    MISSING = "missing"
    OUTSIDE = "out of range"
    UNKNOWN = "unknown"
    WRONG = "wrong type"


Troubles = dict[Trouble, Mask]
"""Which rows have which trouble; a trouble that no row has is not there."""


class Encoder:
    """The fixed map of one column.

    ``unit`` is what one unit of distance means; ``wrong`` is the message for a cell of the wrong type, ``refused`` for
    one that is outside or unknown.
    """

    features: tuple[str, ...]
    unit: str
    wrong: str
    refused = ""

    def __init__(self, name: str, declared: Any, missing: MissingWords) -> None:
        self.name = name
        self._declared = declared
        self._words = missing
        self._marked = declared.missing == "indicator"

    def encode(self, column: Any, out: NDArray[np.float32]) -> Troubles:
        """Write the features of every cell into ``out``, which holds zeros; rows with trouble get any value."""
        raise NotImplementedError

    def complaint(self, trouble: Trouble, column: Any = None, mask: Mask | None = None) -> str | None:
        """What to say about a trouble of this column, and of those cells if they are given; None if it is allowed."""
        field = {Trouble.MISSING: "missing", Trouble.OUTSIDE: "outside", Trouble.UNKNOWN: "unknown"}.get(trouble, "")
        if getattr(self._declared, field, "refuse") != "refuse":
            return None
        if trouble is Trouble.WRONG:
            cut = column is not None and isinstance(self, NumericMap)
            return self.wrong + (cells.why_no_numbers(column.filter(pa.array(mask))) if cut else "")
        return _NO_VALUE if trouble is Trouble.MISSING else self.refused


def troubles_in(**masks: Mask) -> Troubles:
    return {Trouble[name.upper()]: mask for name, mask in masks.items() if mask.any()}


Floats = NDArray[np.float64]
Out = NDArray[np.float32]


class DeclaredValues:
    def __init__(self, declared: Sequence[float | str], missing: MissingWords) -> None:
        self._missing = missing
        self._are_words = isinstance(declared[0], str)
        words = [str(word) for word in declared]
        self._known = cells.array_of_words(words) if self._are_words else pa.array(np.array(declared, dtype=np.float64))

    def find(self, column: Any) -> tuple[NDArray[np.int64], Troubles]:
        """The place of each cell among the values, -1 if it is missing, unknown or of the wrong type."""
        if self._are_words:
            places, absent, wrong = cells.words(column, self._known, self._missing)
        else:
            values, wrong = cells.numbers(column, self._missing)
            found = pc.fill_null(pc.index_in(pa.array(values), value_set=self._known), -1)
            places = np.asarray(found.to_numpy()).astype(np.int64)
            absent = np.isnan(values) & ~wrong
        return places, troubles_in(missing=absent, unknown=(places < 0) & ~absent & ~wrong, wrong=wrong)

    @property
    def wrong(self) -> str:
        return f"is not {'text' if self._are_words else 'a number'}, as the declared values are"


_OUTSIDE = "check the unit, widen the bounds, or declare outside: clip"
_FEW = 24  # values of a category that are written one after the other


def log2(values: Floats) -> Floats:
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


class _Scalar(Encoder):
    """A column that becomes one number between 0 and 1, and perhaps a mark where it is missing."""

    def __init__(self, name: str, declared: Any, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self.features = (name, f"{name} is missing") if self._marked else (name,)

    def positions(self, column: Any) -> tuple[Floats, Troubles]:
        raise NotImplementedError

    def position_of(self, value: Any) -> float:
        raise NotImplementedError

    def encode(self, column: Any, out: Out) -> Troubles:
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
        positions *= self._declared.weight
        out[:, 0] = positions
        return troubles


class NumericMap(_Scalar):
    def __init__(self, name: str, declared: NumericColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self._low, self._high = declared.bounds
        self._log = declared.scale == "log"
        ends = np.array(declared.bounds)
        self._ends = log2(ends) if self._log else ends
        span = f"a factor of {self._high / self._low:.4g}" if self._log else f"{self._high - self._low:.6g}"
        self.unit = f"{span} (from {self._low:.6g} to {self._high:.6g})"
        self.wrong = "is not a finite number"
        self.refused = f"is outside the declared bounds {self._low:.12g} to {self._high:.12g}; {_OUTSIDE}"

    def encode(self, column: Any, out: Out) -> Troubles:
        plain = None if self._log else cells.plain_numbers(column)
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

    def _all_good(self, values: NDArray[Any]) -> bool:
        """Whether all numbers lie between the bounds and none means missing."""
        if not len(values):
            return False
        # As doubles: numpy compares a float32 with a bound in float32, where cells just outside are inside, and whether
        # this way is taken must not depend on other cells.
        least, most = float(values.min()), float(values.max())  # not a number if any is none
        gone = any(least <= number <= most for number in self._words.numbers)
        return bool(self._low <= least and most <= self._high) and not gone

    def positions(self, column: Any) -> tuple[Floats, Troubles]:
        values, wrong = cells.numbers(column, self._words)
        outside = (values < self._low) | (values > self._high)
        troubles = troubles_in(outside=outside, wrong=wrong)
        if Trouble.OUTSIDE in troubles:
            np.clip(values, self._low, self._high, out=values)
        return self._scale(values), troubles

    def position_of(self, value: Any) -> float:
        return float(self._scale(np.array([float(value)]))[0])

    def _scale(self, values: Floats) -> Floats:
        values = log2(values) if self._log else values
        values -= self._ends[0]
        values /= self._ends[1] - self._ends[0]
        return np.clip(values, 0.0, 1.0, out=values)


class DateMap(_Scalar):
    def __init__(self, name: str, declared: DateColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self._low, self._high = (float(day_number(day)) for day in declared.bounds)
        self._gone = [day_number(day) for day in declared.missing_values]
        bounds, form = " to ".join(declared.bounds), declared.format
        self.unit = f"{self._high - self._low:.0f} days ({bounds})"
        remedy = "correct it, or declare how days are written, such as format: '%d.%m.%Y'"
        self.wrong = f"is not a date in the format {'year-month-day' if form == 'iso' else form}; {remedy}"
        self.refused = f"is outside the declared bounds {bounds}; {_OUTSIDE}"

    def positions(self, column: Any) -> tuple[Floats, Troubles]:
        values, wrong = cells.days(column, self._declared.format, self._words)
        values = values + 0.0
        for day in self._gone:
            values[values == day] = np.nan
        troubles = troubles_in(outside=(values < self._low) | (values > self._high), wrong=wrong)
        values = (np.clip(values, self._low, self._high) - self._low) / (self._high - self._low)
        return values, troubles

    def position_of(self, value: Any) -> float:
        return (day_number(value) - self._low) / (self._high - self._low)


class BooleanMap(_Scalar):
    unit = "from false to true"
    wrong = "is none of the words for true and false; declare true_words and false_words, or another kind"

    def __init__(self, name: str, declared: BooleanColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        pairs = {word.strip().lower(): 1.0 for word in declared.true_words}
        pairs |= {word.strip().lower(): 0.0 for word in declared.false_words}
        # A file of text may write 1 as 1.0.
        pairs |= {f"{word}.0": value for word, value in pairs.items() if word in ("0", "1")}
        self._known = cells.array_of_words(list(pairs))
        self._values = np.array([*pairs.values(), np.nan])
        self._lower_words = MissingWords.of([word.lower() for word in missing.words.to_pylist()])

    def positions(self, column: Any) -> tuple[Floats, Troubles]:
        holds = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if cells.is_text(holds):
            places, absent, _ = cells.words(_lower(column), self._known, self._lower_words)
            return self._values[places], troubles_in(wrong=(places < 0) & ~absent)
        values, wrong = cells.numbers(column, self._words)
        odd = ~np.isnan(values) & (values != 0.0) & (values != 1.0)
        values[odd] = np.nan
        return values, troubles_in(wrong=wrong | odd)

    def position_of(self, value: Any) -> float:
        return 1.0 if value else 0.0


class OrdinalMap(_Scalar):
    refused = "is none of the declared values; correct it, or declare its value"

    def __init__(self, name: str, declared: OrdinalColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self._declared_values = DeclaredValues(declared.values, missing)
        last = len(declared.values) - 1
        self._positions = np.array([*(rank / last for rank in range(last + 1)), np.nan])
        low, high = _short(declared.values[0]), _short(declared.values[-1])
        self.unit = f"{last} step{'s' if last > 1 else ''} (from {low} to {high})"
        self.wrong = self._declared_values.wrong

    def positions(self, column: Any) -> tuple[Floats, Troubles]:
        places, troubles = self._declared_values.find(column)
        troubles.pop(Trouble.MISSING, None)
        return self._positions[places], troubles

    def position_of(self, value: Any) -> float:
        return float(self._positions[self._declared.values.index(number_or_words([value])[0])])


class CategoryMap(Encoder):
    unit = "from one value to any other"
    refused = "is none of the declared values; correct it, declare its value, or declare unknown: other"

    def __init__(self, name: str, declared: CategoryColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self._declared_values = DeclaredValues(declared.values, missing)
        names = [f"{name}={_short(value)}" for value in declared.values]
        self._lost = self._other = -1  # nowhere
        if declared.unknown == "other":
            self._other = len(names)
            names.append(f"{name} is another")
        if declared.missing == "indicator":
            self._lost = len(names)
            names.append(f"{name} is missing")
        elif isinstance(declared.missing, FillValue):
            self._lost = declared.values.index(number_or_words([declared.missing.value])[0])
        self.features = tuple(names)
        self.wrong = self._declared_values.wrong

    def encode(self, column: Any, out: Out) -> Troubles:
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
        else:
            rows = np.flatnonzero(places >= 0)
            out[rows, places[rows]] = height
        return troubles


def _lower(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, pc.utf8_lower(column.dictionary))
    encoded = column.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices, pc.utf8_lower(encoded.dictionary))


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


_LARGEST_SQUARED = 1e150


class _Wide(Encoder):
    """A column that becomes many numbers, and perhaps a mark where it is missing."""

    def __init__(self, name: str, declared: Any, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self._width: int = declared.width
        names = [f"{name}[{entry}]" for entry in range(self._width)]
        self.features = (*names, f"{name} is missing") if self._marked else tuple(names)


def _cuts(texts: Any, width: int) -> list[int]:
    """Where to cut texts so that no share needs much memory: neither for its letters nor for its counts."""
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    needed = np.cumsum(lengths + width)
    inner = np.searchsorted(needed, np.arange(CHUNK, needed[-1] if len(needed) else 0, CHUNK))
    return sorted({0, *inner.tolist(), len(texts)})


class TextMap(_Wide):
    wrong = "is not text"

    def __init__(self, name: str, declared: TextColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        length = f"{declared.length} " if declared.length > 1 else ""
        self.unit = f"from one text to another with no {length}{declared.pieces} in common"

    def encode(self, column: Any, out: Out) -> Troubles:
        texts, absent, wrong = cells.text(column, self._words)
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
        if self._marked:
            out[:, -1] = absent * np.float32(declared.weight * APART)
        return troubles_in(missing=absent, wrong=wrong)


class VectorMap(_Wide):
    def __init__(self, name: str, declared: VectorColumn | ImageColumn, missing: MissingWords) -> None:
        super().__init__(name, declared, missing)
        self._norm = getattr(declared, "norm", None)
        if self._norm is not None:
            self.unit, what = (
                f"from one vector of norm {self._norm:.6g} to another at a right angle",
                f"norm {self._norm:.6g}",
            )
        else:
            low, high = self._bounds = declared.bounds or (0.0, 1.0)  # bounds are there, as the declaration checks
            self.unit, what = f"every entry from {low:.6g} to {high:.6g}", "bounds of its entries"
        self.wrong = f"is not a list of {self._width} finite numbers"
        self.refused = f"is outside the declared {what}; widen it, or declare outside: clip"

    def encode(self, column: Any, out: Out) -> Troubles:
        entries, absent, wrong = cells.lists(column, self._width)
        rows = np.flatnonzero(~absent & ~wrong)
        bad, far = np.zeros(len(out), dtype=np.bool_), np.zeros(len(out), dtype=np.bool_)
        step = max(1, CHUNK // self._width)
        for first in range(0, len(rows), step):
            part = rows[first : first + step]
            chunk = entries.slice(first * self._width, len(part) * self._width)
            values = cells.numbers(chunk, self._words)[0].reshape(len(part), self._width)
            bad[part] = np.isnan(values).any(axis=1)  # also where an entry is no number
            scaled, far[part] = self._scale(values)
            target = slice(part[0], part[-1] + 1) if len(part) == part[-1] - part[0] + 1 else part
            out[target, : self._width] = scaled * self._declared.weight
        if self._norm is None:
            out[absent, : self._width] = self._declared.weight * MIDDLE / math.sqrt(self._width)
        if self._marked:
            out[absent, -1] = self._declared.weight * (ABSENT if self._norm is None else APART)
        return troubles_in(missing=absent, outside=far, wrong=wrong | bad)

    def _scale(self, values: Floats) -> tuple[Floats, Any]:
        if (norm := self._norm) is not None:
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
        low, high = self._bounds
        far = ((values < low) | (values > high)).any(axis=1)
        return (np.clip(values, low, high) - low) / (high - low) / math.sqrt(self._width), far


def count_pieces(texts: Any, *, width: int, letters: bool, length: int) -> NDArray[np.int64]:
    """How often each place of ``width`` is hit by a text's pieces; one row for each text, null counts as empty.

    A piece is ``length`` characters in a row, or ``length`` words in a row. Upper and lower case, composed and
    decomposed letters, one blank and many are the same. A text has a blank on both sides, so that its first and its
    last letters make pieces of their own.
    """
    from sklearn.feature_extraction.text import HashingVectorizer  # late: few schemas have texts

    folded = pc.utf8_normalize(pc.utf8_lower(pc.fill_null(pc.cast(texts, pa.large_string()), "")), form="NFC")
    squeezed = pc.utf8_trim_whitespace(pc.replace_substring_regex(folded, pattern=r"\s+", replacement=" "))
    hashing = HashingVectorizer(
        preprocessor=" {} ".format,
        analyzer="char" if letters else "word",
        token_pattern="[^ ]+",  # noqa: S106 (a pattern of words)
        ngram_range=(length, length),
        n_features=width,
        alternate_sign=False,
        norm=None,
    )
    counts: NDArray[np.int64] = hashing.transform(squeezed.to_pylist()).toarray().astype(np.int64)
    return counts


_MAPS: dict[type, type[Encoder]] = {
    NumericColumn: NumericMap,
    BooleanColumn: BooleanMap,
    CategoryColumn: CategoryMap,
    OrdinalColumn: OrdinalMap,
    DateColumn: DateMap,
    TextColumn: TextMap,
    VectorColumn: VectorMap,
    ImageColumn: VectorMap,
}


def encoder_for(name: str, declared: Any, missing: MissingWords) -> Encoder:
    if not isinstance(declared, DateColumn):  # days are compared as days, however they are written
        missing = missing.also(getattr(declared, "missing_values", ()))
    return _MAPS[type(declared)](name, declared, missing)
