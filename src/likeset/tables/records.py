"""Records: rows in the columns that were declared, as bytes that may leave an owner.

The bytes are an Arrow stream with one compressed batch. Whoever reads it checks that it holds exactly the columns
and types that the schema declares, as many rows as came beside it, and nothing else; and before anything is expanded,
that no column will take more memory than so many of its declared cells can need.
"""

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from likeset.errors import BadMessage
from likeset.tables.record_headers import BatchHeader

__all__ = ["RecordForm", "most_bytes", "pack", "unpack"]

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_FEW_ROWS = 64
_STEP = 64  # rows: their marks, numbers and lengths fill words of 8 bytes, at which Arrow aligns them
_BUFFERS = {False: 3, True: 5}  # of a column, and of one with lists, at most
_BYTES_PER_BUFFER = 144  # its length, rounding up, and what compression adds where nothing can be compressed
_MOST_EXPANDED = 1 << 30  # bytes: no message is larger
_ROUNDING = 64  # Arrow may fill up a buffer to a multiple of this


@dataclass(frozen=True)
class RecordForm:
    """What is declared about records.

    Attributes:
        schema: their columns and types.
        widths: of each column of lists, how many numbers a list has.
        text_bytes: of each column of texts, how long the longest may be.
    """

    schema: pa.Schema
    widths: Mapping[str, int]
    text_bytes: Mapping[str, int]

    def most_expanded(self, rows: int) -> tuple[int, ...]:
        """How many bytes each buffer of a batch of so many rows takes at most, in the order of Arrow's format."""
        return tuple(-(-size // _ROUNDING) * _ROUNDING for field in self.schema for size in self._buffers(field, rows))

    def _buffers(self, field: pa.Field, rows: int) -> Iterator[int]:
        yield _bits(rows)  # which cells are missing
        if pa.types.is_list(field.type):
            numbers = rows * self.widths[field.name]
            yield from (_offsets(rows), _bits(numbers), numbers * field.type.value_type.bit_width // 8)
        elif pa.types.is_string(field.type):
            yield from (_offsets(rows), rows * self.text_bytes[field.name])
        else:
            yield _bits(rows * field.type.bit_width)


def _bits(count: int) -> int:
    return -(-count // 8)


def _offsets(rows: int) -> int:
    return 4 * (rows + 1)


def pack(table: pa.Table) -> bytes:
    """The bytes of a table: the same for the same columns and rows, whatever pieces it consists of."""
    plain = table.replace_schema_metadata(None).unify_dictionaries().combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema, options=_OPTIONS) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())


def most_bytes(longest: pa.Table, rows: int) -> int:
    """How long ``pack`` of so many rows is at most, given one row with the longest cells."""
    if rows > _STEP:
        # Every further step of rows takes as much as another.
        first, second = _plain_bytes(longest, _STEP), _plain_bytes(longest, 2 * _STEP)
        size = first + -(-(rows - _STEP) // _STEP) * (second - first)
    else:
        size = _plain_bytes(longest, rows)
    buffers = sum(_BUFFERS[pa.types.is_list(field.type)] for field in longest.schema)
    return size + size // 128 + _BYTES_PER_BUFFER * buffers


def _plain_bytes(longest: pa.Table, rows: int) -> int:
    """Of so many such rows and, to make room for the marks of missing cells, a row of nulls."""
    plain = longest.take(pa.array([*([0] * rows), None], pa.int64())).combine_chunks()
    sink = pa.MockOutputStream()
    with pa.ipc.new_stream(sink, plain.schema, options=_PLAIN) as writer:
        writer.write_table(plain)
    return int(sink.size())


def unpack(data: bytes, *, form: RecordForm, rows: int) -> pa.Table:
    """The table that ``pack`` wrote.

    Args:
        data: from another party.
        form: what was declared about it.
        rows: how many rows it must have.

    Raises:
        BadMessage: it is no such table. The reason says nothing about its rows.
    """
    try:
        # Threads wait for one another longer than a few rows take.
        options = pa.ipc.IpcReadOptions(use_threads=rows > _FEW_ROWS)
        with pa.ipc.open_stream(pa.py_buffer(data), options=options) as reader:
            if not reader.schema.equals(form.schema):
                raise BadMessage("its records have other columns or types than the schema declares")
            _check_size(data, form=form, rows=rows)
            table = reader.read_all()
        table.validate(full=True)
    except BadMessage:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        # The original may quote what was sent.
        raise BadMessage(f"its records cannot be read ({type(error).__name__})") from None
    if table.num_rows != rows:
        raise BadMessage(f"it has {table.num_rows} records for {rows} rows")
    return table


def _check_size(data: bytes, *, form: RecordForm, rows: int) -> None:
    """Raise unless there is one batch, of so many rows, whose columns take no more memory than they can need."""
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    reader.read_next_message()  # the schema, which was looked at
    for number, message in enumerate(reader):
        if message.type != "record batch" or number > 0:
            raise BadMessage("its records are more than one batch")
        header = BatchHeader.of(message)
        if header.rows != rows:
            raise BadMessage(f"it has {header.rows} records for {rows} rows")
        most = form.most_expanded(rows)
        if len(header.expanded) != len(most):
            raise BadMessage("the columns of its records consist of other parts than declared ones do")
        size = sum(header.expanded)
        if size > _MOST_EXPANDED or any(map(operator.gt, header.expanded, most)):
            raise BadMessage(f"its {rows} records would take {size} bytes; more than they can need")
