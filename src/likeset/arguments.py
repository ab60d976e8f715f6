"""Checks of arguments: each returns the checked value in the form that the caller computes with.

They raise ``InvalidArgument`` with the argument's name. Values of data rows never appear in a message, only where
they lie.
"""

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.errors import InvalidArgument

__all__ = ["Rows", "count", "matrix", "one_of", "positive", "same_columns", "vector"]

_HELD = {"O": "objects", "U": "text", "S": "bytes", "M": "dates", "m": "time spans", "c": "complex numbers"}
_FINITE_CHECK_ROWS = 65536

Rows = NDArray[np.floating[Any]]
"""A two-dimensional array of float32 or float64: one row per record, one column per feature."""


def matrix(argument: str, value: ArrayLike, *, allow_empty: bool = False) -> Rows:
    """A finite two-dimensional float array; float32 stays float32, every other number becomes float64."""
    rows = _numeric(argument, value)
    if rows.ndim != 2:
        raise InvalidArgument(argument, f"array of shape {rows.shape}", "must have two dimensions: rows, columns")
    if rows.shape[1] == 0:
        raise InvalidArgument(argument, f"array of shape {rows.shape}", "has no columns")
    if rows.shape[0] == 0 and not allow_empty:
        raise InvalidArgument(argument, f"array of shape {rows.shape}", "has no rows; at least one is needed")
    for first in range(0, len(rows), _FINITE_CHECK_ROWS):
        block = rows[first : first + _FINITE_CHECK_ROWS]
        # A sum is finite unless something in it is not, or it overflows: then look closer.
        if not math.isfinite(float(block.sum(dtype=np.float64))) and not np.isfinite(block).all():
            row, column = (int(place) for place in np.argwhere(~np.isfinite(block))[0])
            kind = "NaN" if np.isnan(block[row, column]) else "infinity"
            raise InvalidArgument(
                argument,
                f"array of shape {rows.shape}",
                f"has {kind} in row {first + row}, column {column}; fill or drop missing values first",
            )
    return rows


def vector(argument: str, value: ArrayLike, *, length: int | None = None) -> NDArray[np.float64]:
    """A finite one-dimensional float64 array, of a given length if one is given."""
    array = _numeric(argument, value).astype(np.float64, copy=False)
    if array.ndim != 1:
        raise InvalidArgument(argument, f"array of shape {array.shape}", "must have one dimension")
    if length is not None and len(array) != length:
        raise InvalidArgument(argument, f"array of length {len(array)}", f"must have length {length}")
    if not np.isfinite(array).all():
        place = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidArgument(argument, f"array of length {len(array)}", f"is not finite at position {place}")
    return array


def same_columns(first: str, a: Rows, second: str, b: Rows) -> None:
    """Two matrices describe the same columns."""
    if a.shape[1] != b.shape[1]:
        raise InvalidArgument(
            second, f"array of shape {b.shape}", f"has {b.shape[1]} columns where {first} has {a.shape[1]}"
        )


def positive(argument: str, value: object, *, zero: bool = False) -> float:
    """A finite number above zero (or, with ``zero``, not below it)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidArgument(argument, repr(value), "must be a number")
    number = float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise InvalidArgument(argument, value, "must be a finite number, " + ("zero or more" if zero else "above zero"))
    return number


def count(argument: str, value: object, *, least: int = 1, most: int | None = None, most_is: str = "") -> int:
    """A whole number within bounds; ``most_is`` says what the upper bound stands for."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidArgument(argument, repr(value), "must be a whole number")
    number = int(value)
    if number < least:
        raise InvalidArgument(argument, number, f"must be at least {least}")
    if most is not None and number > most:
        raise InvalidArgument(argument, number, f"must be at most {most}" + (f", {most_is}" if most_is else ""))
    return number


def one_of(argument: str, value: str, allowed: Collection[str]) -> str:
    """One of a few words."""
    if value not in allowed:
        raise InvalidArgument(argument, repr(value), "must be one of " + ", ".join(sorted(allowed)))
    return value


def _numeric(argument: str, value: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InvalidArgument(argument, type(value).__name__, "is not an array of numbers") from error
    if array.dtype.kind not in "fiub":
        held = _HELD.get(array.dtype.kind, str(array.dtype))
        raise InvalidArgument(argument, f"array of {held}", "must hold numbers; encode categories and dates first")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return array
