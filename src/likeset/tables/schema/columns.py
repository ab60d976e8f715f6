"""What a schema says about one column: the kinds of columns, and the checks of what is declared."""

import math
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from likeset.documents import Document, near_miss

__all__ = [
    "BooleanColumn",
    "CategoryColumn",
    "Column",
    "DateColumn",
    "FillValue",
    "ImageColumn",
    "NumericColumn",
    "OrdinalColumn",
    "TextColumn",
    "VectorColumn",
    "day_number",
    "number_or_words",
]

Number = Annotated[float, Field(allow_inf_nan=False)]
Weight = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
_MOST_VALUES = 10_000
_DATE_PARTS = set("dmYyjHMS")


class FillValue(Document):
    """``missing: {value: ...}``: what stands for a missing value."""

    value: float | bool | str


def _missing(given: Any) -> Any:
    """Either a word or a value; told apart here, since an error about both would confuse."""
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
        raise ValueError("true and false are no values here; use kind: boolean, or put the words in quotes")
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
    """True or false: 1 or 0."""

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


class CategoryColumn(_Column):
    """One of some values; any two are one unit apart."""

    kind: Literal["category"]
    values: Values
    unknown: Literal["refuse", "other", "nothing"] = "refuse"
    missing: Missing = "refuse"
    missing_values: MissingValues = ()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        _check_values(self.values, self.missing, self.missing_values)
        return self


class OrdinalColumn(_Column):
    """One of some values in order, at equal steps from 0 to 1."""

    kind: Literal["ordinal"]
    values: Annotated[Values, Field(min_length=2)]
    missing: Missing = "refuse"
    missing_values: MissingValues = ()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        _check_values(self.values, self.missing, self.missing_values)
        return self


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
        """How many numbers a picture has."""
        return math.prod(self.shape)


Column = Annotated[
    NumericColumn
    | BooleanColumn
    | CategoryColumn
    | OrdinalColumn
    | DateColumn
    | TextColumn
    | VectorColumn
    | ImageColumn,
    Field(discriminator="kind"),
]


def day_number(text: str) -> int:
    """Days since 1970 of a day such as 2026-07-31."""
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


def _check_values(values: tuple[Any, ...], missing: Any, missing_values: tuple[Any, ...]) -> None:
    if isinstance(missing, FillValue) and number_or_words((missing.value,))[0] not in values:
        raise ValueError("missing: the value must be one of values")
    words = isinstance(values[0], str)
    if any(isinstance(value, str) != words for value in missing_values):
        raise ValueError("missing_values: must be numbers if values are, and words if they are")
    if set(values) & set(missing_values):
        raise ValueError("missing_values: a value cannot both be declared and mean missing")
