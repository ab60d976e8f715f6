"""What a batch of records says about itself before it is read: how many rows it has, and what memory each buffer takes.

Compressed bytes from a stranger can stand for any amount of memory, and Arrow allocates what they announce. So their
header is read first: a flatbuffer (``RecordBatch`` in Arrow's ``Message.fbs``), which Arrow has verified. A compressed
buffer begins with its length when it is expanded, which Arrow holds it to.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from likeset.errors import BadMessage

__all__ = ["BatchHeader"]

_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3  # fields of a RecordBatch
_HEADER = 2  # field of a Message
_PREFIX = 8  # bytes of the length before a compressed buffer
_STORED = -1  # in the place of that length: what follows is not compressed


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """Of one batch.

    Attributes:
        rows: how many there are.
        expanded: bytes of each buffer when it is no longer compressed.
    """

    rows: int
    expanded: tuple[int, ...]

    @classmethod
    def of(cls, message: pa.ipc.Message) -> "BatchHeader":
        """Read from a message whose type is ``record batch``.

        Raises:
            BadMessage: it is damaged.
        """
        try:
            metadata, body = memoryview(message.metadata), memoryview(message.body or b"")
            batch = _table(metadata, _integer("<I", metadata, 0))
            rows_offset = _field(metadata, batch, _LENGTH)
            rows = _integer("<q", metadata, rows_offset) if rows_offset else 0
            compressed = _field(metadata, batch, _COMPRESSION) != 0
            expanded = tuple(_size(body, *buffer) if compressed else buffer[1] for buffer in _buffers(metadata, batch))
        except (struct.error, IndexError) as error:
            raise BadMessage("the header of its records is damaged") from error
        return cls(rows, expanded)


def _table(data: memoryview, message: int) -> int:
    """Where the batch begins that a message is about."""
    field_offset = _field(data, message, _HEADER)
    if not field_offset:
        raise IndexError
    return field_offset + _integer("<I", data, field_offset)


def _field(data: memoryview, table: int, field: int) -> int:
    """Where the value of a field is; 0 if it has none."""
    layout = table - _integer("<i", data, table)
    slot = 4 + 2 * field
    if slot >= _integer("<H", data, layout):
        return 0
    offset = _integer("<H", data, layout + slot)
    return table + offset if offset else 0


def _buffers(data: memoryview, batch: int) -> Iterator[tuple[int, int]]:
    """Place and length of each buffer in the body."""
    field_offset = _field(data, batch, _BUFFERS)
    if not field_offset:
        return
    start = field_offset + _integer("<I", data, field_offset)
    for number in range(_integer("<I", data, start)):
        first = start + 4 + 16 * number
        offset, length = _integer("<q", data, first), _integer("<q", data, first + 8)
        if offset < 0 or length < 0:
            raise IndexError
        yield offset, length


def _size(body: memoryview, offset: int, length: int) -> int:
    if not length:
        return 0
    size = _integer("<q", body, offset)
    if size < _STORED or length < _PREFIX:
        raise IndexError
    return length - _PREFIX if size == _STORED else size


def _integer(kind: str, data: memoryview, offset: int) -> int:
    if offset < 0:
        raise IndexError
    return int(struct.unpack_from(kind, data, offset)[0])
