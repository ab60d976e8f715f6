"""Data frames with columns of all kinds, as a schema declares them: numbers to select by, records that may leave."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadTable, InvalidArgument
from likeset.tables.scan.row_pass import without_dictionaries
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.rows_per_id import check_ids
from likeset.tables.schema.schema import Schema
from likeset.tables.sources.frames import (
    MarketTables,
    checked_owners,
    column_names,
    gather,
    library_of,
    safe_names,
    with_columns,
)
from likeset.tables.sources.source import open_source

__all__ = ["DeclaredFrame", "DeclaredTables"]

_LIBRARIES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True, eq=False)
class DeclaredFrame:
    """One frame, read as a schema says.

    Attributes:
        rows: what the selection sees of them.
        labels: one for each row; empty where none were asked for.
        table: the columns that matching uses, as they are in the frame.
        fingerprint: of all of it.
    """

    rows: Rows
    labels: NDArray[Any]
    table: pa.Table
    fingerprint: str

    @classmethod
    def read(cls, argument: str, frame: Any, schema: Schema, *, labelled: bool, by_id: bool = True) -> "DeclaredFrame":
        """Read a frame.

        Args:
            argument: how errors call it.
            frame: of pandas, polars or pyarrow.
            schema: declares its columns.
            labelled: whether labels are read; a target may have none.
            by_id: whether nobody may have more rows in it than declared.

        Raises:
            BadTable: a row or column that cannot be used.
        """
        if library_of(frame) not in _LIBRARIES:
            reason = (
                "must be a data frame of pandas, polars or pyarrow where a schema is given; of files, likeset.match"
            )
            raise InvalidArgument(argument, type(frame).__name__, reason)
        wanted = schema.record_columns if labelled else schema.columns
        with open_source(frame, name=argument) as source:
            if by_id:
                check_ids(source, schema)
            blocks = [without_dictionaries(block.table) for block in source.blocks(wanted)]
            if not sum(block.num_rows for block in blocks):
                raise BadTable(argument, "has no rows; at least one is needed")
            table = pa.concat_tables(blocks).combine_chunks()
            mapped = schema.map(table, table=argument, locate=lambda row: f"row {row}", labels=labelled)
            return cls(mapped.rows, mapped.labels, table.select(schema.columns), source.fingerprint())

    def part(self, places: NDArray[np.int64]) -> "DeclaredFrame":
        """Some of its rows."""
        labels = self.labels[places] if len(self.labels) else self.labels
        return DeclaredFrame(self.rows[places], labels, self.table.take(pa.array(places)), self.fingerprint)


@dataclass(frozen=True, eq=False)
class DeclaredTables(MarketTables):
    """A target and owners whose frames a schema declares.

    Attributes:
        schema: what is declared.
        target_table: the target in the declared columns.
        records: each owner's rows as they may leave.
        row_numbers: for each owner, which rows of its frame take part: all but those with a text that is too long.
        too_long: how many rows of an owner take no part, where there are any.
        fingerprints: of the frames, by whose they are.
    """

    schema: Schema
    target_table: pa.Table
    records: Mapping[str, pa.Table]
    row_numbers: Mapping[str, NDArray[np.int64]]
    too_long: Mapping[str, int]
    fingerprints: Mapping[str, str]

    def digest(self) -> bytes:
        """Of everything in them: the same frames again have the same digest."""
        lines = [self.schema.digest, *(f"{name!r}: {value}" for name, value in self.fingerprints.items())]
        return hashlib.sha256("\n".join(lines).encode()).digest()

    def row_number(self, owner: str, row: int) -> int:
        """The number in its frame of a row that took part."""
        return int(self.row_numbers[owner][row])

    def selected(self, picks: Sequence[tuple[str, int]], weights: NDArray[np.float64]) -> Any:
        """The selected rows as their owners gave them, in the columns that may leave, with owner and weight."""
        frames = {owner: _without_other_columns(self.tables[owner], self.schema) for owner, _ in picks}
        added = {"owner": [owner for owner, _ in picks], "weight": weights.tolist()}
        return with_columns(gather(frames, picks), added)

    @classmethod
    def read(cls, schema: Schema, target: Any, owners: Any, *, public_rows: Any = None) -> "DeclaredTables":
        """What a caller gave, or an error that says what is wrong with it."""
        given, records = checked_owners(owners), DeclaredRecords(schema)
        wanted = DeclaredFrame.read("target", target, schema, labelled=False)
        frames = {}
        for name, table in given.items():
            argument = f"owners[{name!r}]"
            if library_of(table) != library_of(target):
                reason = f"must be of the same kind as the target, a frame of {library_of(target)}"
                raise InvalidArgument(argument, f"a frame of {library_of(table)}", reason)
            frames[name] = DeclaredFrame.read(argument, table, schema, labelled=True)
        kept = {name: _short_enough(name, frame, records, schema) for name, frame in frames.items()}
        parts = {name: frame.part(kept[name]) for name, frame in frames.items()}
        public = None if public_rows is None else DeclaredFrame.read("public_rows", public_rows, schema, labelled=False)
        return cls(
            target=wanted.rows,
            owners={name: part.rows for name, part in parts.items()},
            tables=given,
            labels={name: part.labels for name, part in parts.items()} if schema.label_column is not None else None,
            public_rows=None if public is None else public.rows,
            safe_names=safe_names(given),
            schema=schema,
            target_table=wanted.table,
            records={name: records.of(part.table) for name, part in parts.items()},
            row_numbers=kept,
            too_long={
                name: len(frame.rows) - len(kept[name])
                for name, frame in frames.items()
                if len(frame.rows) > len(kept[name])
            },
            fingerprints={"": wanted.fingerprint, **{name: frame.fingerprint for name, frame in frames.items()}},
        )


def _short_enough(name: str, frame: DeclaredFrame, records: DeclaredRecords, schema: Schema) -> NDArray[np.int64]:
    """The rows of an owner without a text that is longer than declared: others are no rows of a run."""
    kept = np.flatnonzero(~records.too_long(frame.table))
    if not len(kept):
        most = schema.declaration.text_bytes
        reason = f"every row has a text of more than {most:,} bytes; raise text_bytes in the schema"
        raise BadTable(f"owners[{name!r}]", reason)
    return kept


def _without_other_columns(frame: Any, schema: Schema) -> Any:
    """A frame without its id and whatever else no record has."""
    names = list(column_names(frame) or ())
    if library_of(frame) == "pandas":
        return frame.iloc[:, [names.index(name) for name in schema.record_columns]]
    return frame.select(list(schema.record_columns))
