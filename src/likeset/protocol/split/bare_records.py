"""Records of bare arrays: a row of numbers, its label and its owner's handle, where no schema declares any.

A record is a version, the handle, the kind of label, the row in single precision, and the label: a number in 8 bytes,
or text. There is one way to write a record, and whatever else comes is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import InvalidArgument

__all__ = ["LABEL_BYTES", "BareRecords", "DecodedBareRecords", "bare_record_bytes"]

LABEL_BYTES = 256
"""How long the text of a label may be, in UTF-8, where no schema declares its values."""

_VERSION = 1
_HEAD_BYTES = 10  # version, handle and kind of label
_ROW = np.dtype(">f4")
_NONE, _WHOLE, _NUMBER, _TRUTH, _TEXT = range(5)
_CODES = {"i": _WHOLE, "u": _WHOLE, "f": _NUMBER, "b": _TRUTH, "U": _TEXT}
_TYPES = {_WHOLE: np.dtype(">i8"), _NUMBER: np.dtype(">f8"), _TRUTH: np.dtype(">i8")}

Label = int | float | bool | str | None


def bare_record_bytes(columns: int) -> int:
    """How long a record of so many numbers may be."""
    return _HEAD_BYTES + _ROW.itemsize * columns + LABEL_BYTES


@dataclass(frozen=True, eq=False)
class DecodedBareRecords:
    """What records say. Arrays have an entry for each record, also for those that are none.

    Attributes:
        sound: which are records; entries of others mean nothing.
        rows: of each.
        classes: empty: nobody declared any.
        handles: by which the owner finds each row again.
        labels: of each; None where it has none.
    """

    sound: NDArray[np.bool_]
    rows: Rows
    classes: NDArray[np.int64]
    handles: NDArray[np.uint64]
    labels: tuple[Label, ...]


class BareRecords:
    """Writes and reads records of bare arrays.

    Args:
        columns: how many numbers a row has.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._fixed = _HEAD_BYTES + _ROW.itemsize * columns

    def encode(self, rows: Rows, labels: NDArray[Any], handles: NDArray[np.uint64]) -> list[bytes]:
        """A record for each row.

        Args:
            rows: one line each.
            labels: one for each row, or none at all.
            handles: one for each row.

        Raises:
            InvalidArgument: they do not belong together, or a label is longer than a record has room for.
        """
        numbers = np.asarray(rows, dtype=np.float32)
        if numbers.shape != (len(handles), self._columns) or len(labels) not in (0, len(handles)):
            reason = f"must have {self._columns} columns, and each row a handle and a label, or no row one"
            raise InvalidArgument("rows", f"array of shape {numbers.shape}", reason)
        if len(labels) and labels.dtype.kind not in _CODES:
            raise InvalidArgument("labels", f"array of {labels.dtype}", "must be numbers, truth values or texts")
        code = _CODES[labels.dtype.kind] if len(labels) else _NONE
        tails = _label_bytes(labels, code) if code != _NONE else [b""] * len(handles)
        heads = (bytes([_VERSION]) + int(handle).to_bytes(8, "big") + bytes([code]) for handle in handles)
        lines = numbers.astype(_ROW)
        return [head + line.tobytes() + tail for head, line, tail in zip(heads, lines, tails, strict=True)]

    def read(self, records: Sequence[bytes]) -> DecodedBareRecords:
        """What records from another party say; whatever is none is not sound, and says nothing."""
        count = len(records)
        sound, rows = np.zeros(count, dtype=np.bool_), np.zeros((count, self._columns), dtype=np.float32)
        handles, labels = np.zeros(count, dtype=np.uint64), [None] * count
        for place, record in enumerate(records):
            read = self._decoded(record)
            if read is not None:
                sound[place] = True
                handles[place], rows[place], labels[place] = read
        return DecodedBareRecords(sound, rows, np.empty(0, dtype=np.int64), handles, tuple(labels))

    def _decoded(self, record: bytes) -> Any:
        """Handle, row and label; None for what is no record."""
        if not self._fixed <= len(record) <= self._fixed + LABEL_BYTES or record[0] != _VERSION:
            return None
        row = np.frombuffer(record, dtype=_ROW, count=self._columns, offset=_HEAD_BYTES).astype(np.float32)
        label = _label_in(record[_HEAD_BYTES - 1], record[self._fixed :])
        if not np.isfinite(row).all() or label is _UNREADABLE:
            return None
        return int.from_bytes(record[1:9], "big"), row, label


_UNREADABLE = object()


def _label_bytes(labels: NDArray[Any], code: int) -> list[bytes]:
    if code != _TEXT:
        data, size = labels.astype(_TYPES[code]).tobytes(), _TYPES[code].itemsize
        return [data[start : start + size] for start in range(0, len(data), size)]
    texts = [text.encode("utf-8") for text in labels.tolist()]
    if max(map(len, texts), default=0) > LABEL_BYTES:
        reason = f"a text must have at most {LABEL_BYTES} bytes where the curator is split; shorten it"
        raise InvalidArgument("labels", f"array of {len(labels)}", reason)
    return texts


def _label_in(code: int, data: bytes) -> Any:
    if code == _NONE:
        return _UNREADABLE if data else None
    if code == _TEXT:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return _UNREADABLE
    if code not in _TYPES or len(data) != _TYPES[code].itemsize:
        return _UNREADABLE
    number = np.frombuffer(data, dtype=_TYPES[code])[0].item()
    if code == _TRUTH:
        return bool(number) if number in (0, 1) else _UNREADABLE
    return number if np.isfinite(number) else _UNREADABLE
