"""A digest of the values of a table: the same for the same names, types and values, however they lie in memory.

The bytes of Arrow buffers will not do: what stands under a missing value, or between the end of a column and that of
its buffer, is left to chance.
"""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from likeset.tables.sources.row_blocks import BLOCK_ROWS, in_blocks

__all__ = ["ValueDigest", "digest_of"]


class ValueDigest:
    """Of tables that come one after the other.

    Args:
        schema: names and types of their columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._digest = hashlib.sha256(str(schema.remove_metadata()).encode())

    def update(self, table: pa.Table) -> None:
        """Take in the next rows; where one table ends and the next begins makes a difference."""
        for column in table.combine_chunks().columns:
            for chunk in column.chunks:
                self._take(chunk)

    def hexdigest(self) -> str:
        """The digest of everything so far."""
        return self._digest.hexdigest()

    def _take(self, array: pa.Array) -> None:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        self._digest.update(f"{array.type}/{len(array)}/".encode())
        self._digest.update(np.packbits(_numpy(array.is_null())).tobytes())
        values = array.drop_null()
        kind = values.type
        if pa.types.is_boolean(kind):
            self._digest.update(np.packbits(_numpy(values)).tobytes())
        elif _is_bytes(kind):
            self._digest.update(_numpy(pc.binary_length(values)).tobytes())
            self._digest.update(_bytes_of_texts(values))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            self._digest.update(_numpy(pc.list_value_length(values)).tobytes())
            self._take(values.flatten())
        elif pa.types.is_struct(kind):
            for field in values.flatten():
                self._take(field)
        elif _is_fixed(kind):
            width = kind.bit_width // 8
            if len(values):
                data = values.buffers()[1]
                self._digest.update(memoryview(data)[values.offset * width : (values.offset + len(values)) * width])
        elif not pa.types.is_null(kind):
            self._digest.update(repr(values.to_pylist()).encode())  # rare kinds: maps, unions, intervals


def _numpy(array: pa.Array) -> Any:
    return array.to_numpy(zero_copy_only=False)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
        or pa.types.is_fixed_size_binary(kind)
    )


def _bytes_of_texts(values: pa.Array) -> memoryview:
    """The bytes of all texts, one after the other."""
    large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, offsets, data = values.buffers()
    if not len(values) or data is None:
        return memoryview(b"")
    bounds = np.frombuffer(offsets, dtype=np.int64 if large else np.int32)
    return memoryview(data)[int(bounds[values.offset]) : int(bounds[values.offset + len(values)])]


def digest_of(table: pa.Table) -> str:
    """Of a table in memory, whatever pieces it consists of."""
    digest = ValueDigest(table.schema)
    for block in in_blocks([table], BLOCK_ROWS):
        digest.update(block)
    return digest.hexdigest()
