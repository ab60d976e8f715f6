"""Laws that hold for every source of rows, and a table to try them on."""

import pickle

import numpy as np
import pyarrow as pa

from likeset.tables.sources import Source


def whole(source: Source, *, rows: int, columns: list[str]) -> pa.Table:
    """All blocks one after the other, after a check that they follow each other."""
    tables, next_row = [pa.schema([source.schema.field(name) for name in columns]).empty_table()], 0
    for block in source.blocks(columns, rows=rows):
        assert block.first_row == next_row
        assert 0 < len(block) <= rows
        assert block.table.schema.names == columns
        next_row += len(block)
        tables.append(block.table)
    assert next_row == source.row_count
    return pa.concat_tables(tables)


def check_laws(source: Source, expected: pa.Table, *, rows: int, numbers: list[int]) -> None:
    """Blocks == the table; parts == blocks, also after a journey; fetch == take."""
    columns = list(expected.schema.names)[::-1]  # another order than the file's
    expected = expected.select(columns)
    assert source.row_count == expected.num_rows
    assert whole(source, rows=rows, columns=columns).to_pydict() == expected.to_pydict()
    parts = pickle.loads(pickle.dumps(source.parts))  # noqa: S301 (our own bytes)
    tables = [block.table for part in parts for block in part.cut(columns, rows)]
    firsts = np.cumsum([0, *(part.row_count for part in parts)])
    assert [part.first_row for part in parts] == firsts[:-1].tolist()
    assert [row for table in tables for row in table.to_pylist()] == expected.to_pylist()
    wanted = np.array([number % expected.num_rows for number in numbers if expected.num_rows], dtype=np.int64)
    fetched = source.fetch(wanted, columns)
    assert fetched.to_pydict() == expected.take(pa.array(wanted)).to_pydict()
    assert fetched.schema.names == columns


def frame(rows: int) -> pa.Table:
    return pa.table(
        {
            "number": pa.array([None if row % 7 == 3 else row * 1.5 for row in range(rows)], pa.float64()),
            "word": pa.array([f"w{row % 5}" for row in range(rows)]),
            "vector": pa.array([[float(row), -1.0] for row in range(rows)], pa.list_(pa.float32())),
            "kind": pa.array([f"k{row % 3}" for row in range(rows)]).dictionary_encode(),
        }
    )
