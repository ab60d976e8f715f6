"""Records: rows in the columns that were declared, as bytes that may leave an owner.

The bytes are an Arrow stream with one compressed batch. Whoever reads it checks that it holds exactly the columns
and types that the schema declares, as many rows as came beside it, and nothing else.
"""

import pyarrow as pa

from likeset.errors import BadMessage

__all__ = ["most_bytes", "pack", "unpack"]

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_BUFFERS = {False: 3, True: 5}  # of a column, and of one with lists, at most
_BYTES_PER_BUFFER = 144  # its length, rounding up, and what compression adds where nothing can be compressed


def pack(table: pa.Table) -> bytes:
    """The bytes of a table: the same for the same columns and rows, whatever pieces it consists of."""
    plain = table.replace_schema_metadata(None).unify_dictionaries().combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema, options=_OPTIONS) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())


def most_bytes(longest: pa.Table, rows: int) -> int:
    """How long ``pack`` of so many rows is at most, given one row with the longest cells."""
    # A row of nulls makes room for the marks of missing cells.
    plain = longest.take(pa.array([*([0] * rows), None], pa.int64())).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema, options=_PLAIN) as writer:
        writer.write_table(plain)
    size = int(sink.getvalue().size)
    buffers = sum(_BUFFERS[pa.types.is_list(field.type)] for field in plain.schema)
    return size + size // 128 + _BYTES_PER_BUFFER * buffers


def unpack(data: bytes, *, kind: pa.Schema, rows: int) -> pa.Table:
    """The table that ``pack`` wrote.

    Args:
        data: from another party.
        kind: the columns and types that it must have.
        rows: how many rows it must have.

    Raises:
        BadMessage: it is no such table. The reason says nothing about its rows.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        # The original may quote what was sent.
        raise BadMessage(f"its records cannot be read ({type(error).__name__})") from None
    if not table.schema.equals(kind):
        raise BadMessage("its records have other columns or types than the schema declares")
    if table.num_rows != rows:
        raise BadMessage(f"it has {table.num_rows} records for {rows} rows")
    return table
