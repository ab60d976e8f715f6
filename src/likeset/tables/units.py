"""The unit of privacy: how many rows one id has, at most."""

import tempfile

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from likeset.tables.blocks import checked_columns
from likeset.tables.sources import Source

__all__ = ["most_rows_per_id"]

_FEW_ROWS = 1_000_000


def most_rows_per_id(source: Source, column: str) -> int:
    """The largest number of rows that share an id, without holding all ids in memory; missing ids count alone."""
    checked_columns([column], source.schema, table=source.name)
    if source.row_count <= _FEW_ROWS:
        found = _most_of_few(source, column)
        if found is not None:
            return found
    kind = pa.schema([source.schema.field(column)])
    batches = (batch for block in source.blocks([column]) for batch in block.table.to_batches())
    reader = pa.RecordBatchReader.from_batches(kind, batches)
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": "512MB", "temp_directory": folder}
        with duckdb.connect(":memory:", config=settings) as connection:
            connection.register("ids", reader)
            name = column.replace('"', '""')
            query = f'SELECT max(n) FROM (SELECT count(*) AS n FROM ids WHERE "{name}" IS NOT NULL GROUP BY "{name}")'  # noqa: S608 - quoted
            most = connection.execute(query).fetchone()
    return int(most[0]) if most and most[0] is not None else 1


def _most_of_few(source: Source, column: str) -> int | None:
    """The same, in memory; None for ids of a type that Arrow cannot count."""
    pieces = [chunk for block in source.blocks([column]) for chunk in block.table.column(0).chunks]
    ids = pa.chunked_array(pieces, source.schema.field(column).type).unify_dictionaries()
    try:
        counts = pc.value_counts(ids.drop_null())
    except pa.ArrowNotImplementedError:
        return None
    return int(pc.max(counts.field("counts")).as_py() or 1)
