"""The unit of privacy: how many rows one id has, at most."""

import tempfile

import duckdb
import pyarrow as pa

from likeset.tables.sources import Source

__all__ = ["most_rows_per_id"]


def most_rows_per_id(source: Source, column: str) -> int:
    """The largest number of rows that share an id, without holding all ids in memory; missing ids count alone."""
    kind = pa.schema([source.schema.field(column)])
    batches = (batch for block in source.blocks([column]) for batch in block.table.to_batches())
    reader = pa.RecordBatchReader.from_batches(kind, batches)
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": "512MB", "temp_directory": folder}
        with duckdb.connect(":memory:", config=settings) as connection:
            connection.register("ids", reader)
            name = column.replace('"', '""')
            query = f'SELECT max(n) FROM (SELECT count(*) AS n FROM ids WHERE "{name}" IS NOT NULL GROUP BY "{name}")'  # noqa: S608 - quoted
            found = connection.execute(query).fetchone()
    return int(found[0]) if found and found[0] is not None else 1
