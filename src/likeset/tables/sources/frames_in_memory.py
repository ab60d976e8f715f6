"""Rows that lie in memory, as pandas, polars or pyarrow frames."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.errors import BadTable
from likeset.tables.sources.row_blocks import Part, Source, check_names
from likeset.tables.sources.table_digests import digest_of

__all__ = ["open_frame"]


@dataclass(frozen=True, eq=False)
class _MemoryPart(Part):
    """All rows of a frame; pickled with them."""

    rows: pa.Table

    def read(self, columns: list[str], rows: int) -> Iterator[pa.Table]:  # noqa: ARG002 (nothing is decoded here)
        yield self.rows.select(columns)

    def pick(self, numbers: NDArray[np.int64], columns: list[str]) -> Iterator[pa.Table]:
        yield self.rows.select(columns).take(pa.array(numbers))

    def place(self, row: int) -> str:
        return f"row {row}"


def open_frame(frame: Any, *, name: str) -> Source:
    """A frame of pandas, polars or pyarrow; neither of the first two is imported for it."""
    table = _arrow(frame, name=name)
    check_names(table.schema.names, table=name)
    part = _MemoryPart(name, None, table.schema, 0, table.num_rows, rows=table)
    return Source(name, table.schema, parts=lambda: (part,), fingerprint=lambda: digest_of(table))


def _arrow(frame: Any, *, name: str) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame.replace_schema_metadata(None)
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame]).replace_schema_metadata(None)
    library = type(frame).__module__.split(".")[0]
    kind = type(frame).__name__
    if library == "pandas" and kind == "DataFrame":
        return _from_pandas(frame, name=name)
    if library == "polars" and kind == "LazyFrame":
        raise BadTable(name, "is a LazyFrame; call .collect() on it first")
    if library == "polars" and kind == "DataFrame":
        return frame.to_arrow().replace_schema_metadata(None)
    raise BadTable(name, f"a table cannot be made from a {kind}; give a path, or a frame of pandas, polars or pyarrow")


def _from_pandas(frame: Any, *, name: str) -> pa.Table:
    """Column by column, so that an error can name the column; the library's own message would show a value."""
    names = [str(column) for column in frame.columns]
    check_names(names, table=name)
    arrays = []
    for position, column in enumerate(names):
        try:
            arrays.append(pa.Array.from_pandas(frame.iloc[:, position]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            reason = "holds values of several kinds, or objects; make it numbers, text or dates throughout"
            raise BadTable(name, reason, column=column) from None
    return pa.table(arrays, names=names)
