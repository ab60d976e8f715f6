"""The unit of privacy: how many rows one id has, at most."""

import tempfile
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from likeset.errors import BadTable
from likeset.tables.schema.cell_values import MissingWords, is_text
from likeset.tables.schema.schema import Schema
from likeset.tables.sources.row_blocks import checked_columns
from likeset.tables.sources.source import Source

__all__ = ["check_ids", "most_rows_per_id"]

_FEW_ROWS = 1_000_000


def check_ids(source: Source, schema: Schema, *, whose: str = "it", counted: int | None = None) -> None:
    """What is promised to a person with several rows holds only if nobody has more of them than declared.

    Args:
        source: the rows.
        schema: what it declares of ids; nothing is looked at where it declares none.
        whose: rows these are, in words.
        counted: the largest number of rows of one id, where it is known already.

    Raises:
        BadTable: somebody has more rows.
    """
    if schema.id_column is None:
        return
    most = counted or most_rows_per_id(source, schema.id_column, missing=schema.declaration.missing_words)
    if most > schema.rows_per_unit:
        raise BadTable(
            source.name,
            f"{whose} has {most} rows of one id, or without one, where the schema declares at most "
            f"{schema.rows_per_unit}; raise rows_per_id, or keep fewer rows of each id",
            column=schema.id_column,
        )


def most_rows_per_id(source: Source, column: str, *, missing: Sequence[str]) -> int:
    """The largest number of rows that share an id, without holding all ids in memory.

    Blanks around an id do not count. Rows without an id are taken for one person's: they could be.

    Args:
        source: the rows.
        column: the ids.
        missing: words that mean that there is none.
    """
    checked_columns([column], source.schema, table=source.name)
    absent = MissingWords.of(missing)
    pieces = (
        _plain(chunk, absent.words) for block in source.blocks([column]) for chunk in block.table.column(0).chunks
    )
    kind = _plain(pa.array([], source.schema.field(column).type), absent.words).type
    if source.row_count <= _FEW_ROWS:
        ids = pa.chunked_array(list(pieces), kind)
        try:
            return int(pc.max(pc.value_counts(ids).field("counts")).as_py() or 1)
        except pa.ArrowNotImplementedError:
            pieces = iter(ids.chunks)
    batches = (pa.record_batch([piece], names=["id"]) for piece in pieces)
    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", kind)]), batches)
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": "512MB", "temp_directory": folder}
        with duckdb.connect(":memory:", config=settings) as connection:
            connection.register("ids", reader)
            query = "SELECT max(n) FROM (SELECT count(*) AS n FROM ids GROUP BY id)"
            most = connection.execute(query).fetchone()
    return int(most[0]) if most and most[0] is not None else 1


def _plain(ids: Any, missing: Any) -> Any:
    """Text without blanks around it, and null where it says that there is none; anything else as it is."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if pa.types.is_string_view(ids.type):
        ids = ids.cast(pa.string())
    if not is_text(ids.type):
        return ids
    trimmed = pc.utf8_trim_whitespace(ids)
    return pc.if_else(pc.is_in(trimmed, value_set=missing.cast(ids.type)), pa.scalar(None, ids.type), trimmed)
