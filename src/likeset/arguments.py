"""Checks of arguments: each returns the checked value in the form that the caller needs.

They raise ``InvalidArgument`` with the argument's name. A message contains places of data rows, never their values.
"""

import math
import re
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.errors import InvalidArgument

_HELD = {"O": "objects", "U": "text", "S": "bytes", "M": "dates", "m": "time spans", "c": "complex numbers"}
_FINITE_CHECK_ROWS = 65536
_LONGEST_SHOWN = 60
_MOST_BITS_SHOWN = 1024

LARGEST_SINGLE = math.pow(float(np.finfo(np.float32).max), 0.4)
"""Beyond it, squared distances of rows in single precision could overflow."""

Rows = NDArray[np.floating[Any]]
"""A two-dimensional array of float32 or float64: one row per record, one column per feature."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")


def matrix(argument: str, value: ArrayLike, *, allow_empty: bool = False, in_single: bool = False) -> Rows:
    """A finite two-dimensional float array; float32 stays float32, every other number becomes float64.

    Numbers whose squared distances would overflow are refused, with ``in_single`` also in single precision.
    """
    rows = _numeric(argument, value)
    if rows.ndim != 2:
        raise InvalidArgument(argument, f"array of shape {rows.shape}", "must have two dimensions: rows, columns")
    if rows.shape[1] == 0:
        raise InvalidArgument(argument, f"array of shape {rows.shape}", "has no columns")
    if rows.shape[0] == 0 and not allow_empty:
        raise InvalidArgument(argument, f"array of shape {rows.shape}", "has no rows; at least one is needed")
    for first in range(0, len(rows), _FINITE_CHECK_ROWS):
        block = rows[first : first + _FINITE_CHECK_ROWS]
        _check_block(argument, block, first_row=first, shape=rows.shape, in_single=in_single)
    return rows


def vector(argument: str, value: ArrayLike, *, length: int | None = None) -> NDArray[np.float64]:
    """A finite one-dimensional float64 array, of a given length if one is given."""
    array = _numeric(argument, value).astype(np.float64, copy=False)
    if array.ndim != 1:
        raise InvalidArgument(argument, f"array of shape {array.shape}", "must have one dimension")
    if length is not None and len(array) != length:
        raise InvalidArgument(argument, f"array of length {len(array)}", f"must have length {length}")
    if not np.isfinite(array).all():
        position = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidArgument(argument, f"array of length {len(array)}", f"is not finite at position {position}")
    return array


def shares(argument: str, value: ArrayLike, *, length: int) -> NDArray[np.float64]:
    """Numbers that are not negative and sum to 1, of a given length."""
    array = vector(argument, value, length=length)
    if array.min(initial=0.0) < 0.0:
        raise InvalidArgument(argument, f"smallest is {array.min():g}", "must not be negative")
    if abs(array.sum() - 1.0) > 1e-6:
        raise InvalidArgument(argument, f"sum is {array.sum():g}", "must sum to 1")
    return array


def row_numbers(argument: str, value: ArrayLike, *, length: int | None = None) -> NDArray[np.int64]:
    """Row numbers, zero or above, as a new array; of a given length if one is given."""
    array = _array(argument, value)
    if array.size == 0:
        array = array.astype(np.int64)  # an empty list has no whole numbers to show what it holds
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArgument(argument, f"array of shape {array.shape}", "must be a list of whole numbers")
    if length is not None and len(array) != length:
        raise InvalidArgument(argument, f"array of length {len(array)}", f"must have length {length}")
    if len(array) and int(array.min()) < 0:
        raise InvalidArgument(argument, int(array.min()), "must not be negative")
    if len(array) and int(array.max()) >= 2**63:
        raise InvalidArgument(argument, int(array.max()), "must be below 2**63")
    return array.astype(np.int64)


def same_columns(first: str, a: Rows, second: str, b: Rows) -> None:
    """Check that two matrices have equally many columns."""
    if a.shape[1] != b.shape[1]:
        raise InvalidArgument(
            second, f"array of shape {b.shape}", f"has {b.shape[1]} columns where {first} has {a.shape[1]}"
        )


def positive(argument: str, value: object, *, zero: bool = False) -> float:
    """A finite number above zero (or, with ``zero``, not below it)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidArgument(argument, harmless_value(value), "must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        bound = "zero or more" if zero else "above zero"
        raise InvalidArgument(argument, harmless_value(value), f"must be a finite number, {bound}")
    return number


def count(argument: str, value: object, *, least: int = 1, most: int | None = None, most_is: str = "") -> int:
    """A whole number within bounds; ``most_is`` is the meaning of the upper bound."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidArgument(argument, harmless_value(value), "must be a whole number")
    number = int(value)
    if number < least:
        raise InvalidArgument(argument, harmless_value(number), f"must be at least {least}")
    if most is not None and number > most:
        raise InvalidArgument(
            argument, harmless_value(number), f"must be at most {most}" + (f", {most_is}" if most_is else "")
        )
    return number


def one_of(argument: str, value: object, allowed: Collection[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidArgument(argument, harmless_value(value), "must be one of " + ", ".join(sorted(allowed)))
    return value


def _check_block(argument: str, block: Rows, *, first_row: int, shape: tuple[int, ...], in_single: bool) -> None:
    largest = LARGEST_SINGLE if in_single else _largest(block)
    with np.errstate(all="ignore"):
        # Where the sum of squares is small, so is everything in it; where it is not (or not a number), look closer.
        if float(np.einsum("ij,ij->", block, block)) <= largest**2:
            return
    bad = ~(np.abs(block) <= largest)
    if bad.any():
        row, column = (int(index) for index in np.argwhere(bad)[0])
        value = float(block[row, column])
        if math.isfinite(value):
            reason = "has a number too large to compute distances with in {}; scale the columns first"
        else:
            reason = f"has {'NaN' if math.isnan(value) else 'infinity'} in {{}}; fill or drop missing values first"
        place = reason.format(f"row {first_row + row}, column {column}")
        raise InvalidArgument(argument, f"array of shape {shape}", place, row=first_row + row, column=column)


def _largest(rows: Rows) -> float:
    """Beyond it, squared distances could overflow."""
    return math.pow(float(np.finfo(rows.dtype).max), 0.4)


def harmless_value(value: object) -> object:
    """A setting as the caller wrote it; only the type of a value that may contain data (a row in the wrong place)."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS_SHOWN:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, Real):
        return value
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "...")
    return f"{type(value).__name__} object"


def _array(argument: str, value: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgument(argument, type(value).__name__, "is not an array of numbers") from error


def _numeric(argument: str, value: ArrayLike) -> NDArray[Any]:
    array = _array(argument, value)
    if array.dtype.kind not in "fiub":
        held = _HELD.get(array.dtype.kind, str(array.dtype))
        raise InvalidArgument(argument, f"array of {held}", "must hold numbers; encode categories and dates first")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return array


def checked_name(argument: str, value: str) -> str:
    """A name for records and messages: short, printable, without blanks."""
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        shown = f"text of {len(value)} characters" if isinstance(value, str) else type(value).__name__
        raise InvalidArgument(
            argument, shown, "must be 1 to 128 letters (a to z), digits or ._:/@- and start with a letter or digit"
        )
    return value
