"""The arrays in a message: which kinds there are, and how they are read from bytes that anybody may have written."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.errors import BadMessage
from likeset.tables.schema import MOST_LETTERS

__all__ = [
    "DIMENSIONS",
    "MOST_BYTES",
    "Blob",
    "Handles",
    "Labels",
    "Matrix",
    "Vector",
    "array_in",
    "check_content",
    "checked_array",
]

MOST_BYTES = 1 << 30
"""No message is larger, whatever the terms say."""

_LAST_CODE_POINT, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)
_DTYPE = re.compile(r"<f4|<f8|<i8|<u8|\|u1|\|b1|<U[1-9][0-9]{0,3}")

Vector = NDArray[np.float64]
Matrix = NDArray[np.float32]
Labels = NDArray[Any]
Handles = NDArray[np.uint64]
Blob = NDArray[np.uint8]

DIMENSIONS = {Matrix: 2, Vector: 1, Handles: 1, NDArray[np.int64]: 1, Labels: 1, Blob: 1}
"""The fields of messages that are arrays, and how many dimensions each has."""

_DTYPES = {Matrix: "<f4", Vector: "<f8", Handles: "<u8", NDArray[np.int64]: "<i8", Blob: "|u1"}


def array_in(data: bytes, start: int, end: int, dtype: Any, shape: Any) -> tuple[NDArray[Any], int]:
    """The array that lies at a place of a message, and the place after it."""
    if not isinstance(dtype, str) or _DTYPE.fullmatch(dtype) is None:
        raise BadMessage("an array is of a type that is not allowed")
    if not isinstance(shape, list) or not all(type(side) is int and 0 <= side <= MOST_BYTES for side in shape):
        raise BadMessage("an array has no shape")
    item = np.dtype(dtype)
    count = 1
    for side in shape:
        count *= side
    after = start + count * item.itemsize
    if after > end:
        raise BadMessage("an array is truncated")
    return np.frombuffer(data, dtype=item, count=count, offset=start).reshape(shape), after


def checked_array(name: str, value: Any, declared: Any) -> NDArray[Any]:
    """An array in the very type and layout in which it travels."""
    array = np.asarray(value)
    if array.ndim != DIMENSIONS[declared]:
        raise BadMessage(f"{name} has {array.ndim} dimensions")
    if declared in _DTYPES:
        if array.dtype.kind != np.dtype(_DTYPES[declared]).kind:
            raise BadMessage(f"{name} holds {array.dtype}")
        with np.errstate(over="ignore"):  # whoever reads it refuses what is not finite
            return np.ascontiguousarray(array, dtype=_DTYPES[declared])
    if array.dtype.kind in "iu":
        array = array.astype("<i8")
    elif array.dtype.kind == "f":
        array = array.astype("<f8")
    elif array.dtype.kind == "U" and array.dtype.itemsize == 0:
        array = array.astype("<U1")
    if _DTYPE.fullmatch(array.dtype.str) is None:
        raise BadMessage(f"{name} holds {array.dtype}")
    if array.dtype.kind == "U" and int(array.dtype.str[2:]) > MOST_LETTERS:
        # Whoever puts arrays of texts together needs for every text the room of the longest.
        raise BadMessage(f"a text has more than {MOST_LETTERS} letters")
    return np.ascontiguousarray(array)


def check_content(name: str, array: NDArray[Any]) -> None:
    """Bytes that are no text and no truth value would end in an error wherever somebody first looks at them."""
    if array.dtype.kind == "U":
        codes = np.frombuffer(array.tobytes(), dtype="<u4")
        surrogates = (codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])
        if bool((surrogates | (codes > _LAST_CODE_POINT)).any()):
            raise BadMessage(f"{name} holds something that is not text")
    if array.dtype.kind == "b" and bool((np.frombuffer(array.tobytes(), dtype=np.uint8) > 1).any()):
        raise BadMessage(f"{name} holds something that is neither yes nor no")
