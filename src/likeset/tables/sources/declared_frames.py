"""Data frames with columns of all kinds, as a schema declares them: numbers to select by, records that may leave."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadTable, InvalidArgument
from likeset.tables.records import DeclaredRecords
from likeset.tables.rows_per_id import KeptRowsOfIds, check_ids, undeclared_id
from likeset.tables.scan import without_dictionaries
from likeset.tables.schema import Schema
from likeset.tables.sources.frames import MarketTables, checked_owners, library_of, safe_names
from likeset.tables.sources.source import Source, open_source

__all__ = ["DeclaredFrame", "DeclaredTables"]

_LIBRARIES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True, eq=False)
class DeclaredFrame:
    """One frame, read as a schema says.

    Attributes:
        rows: what the selection sees of them.
        labels: one for each row; empty where none were asked for.
        table: the columns that matching uses, as they are in the frame.
        numbers: of the rows that take part, in the frame.
        fingerprint: of all of it.
        undeclared_id: the column that says whose row it is, where the schema declares none and it repeats.
    """

    rows: Rows
    labels: NDArray[Any]
    table: pa.Table
    numbers: NDArray[np.int64]
    fingerprint: str
    undeclared_id: str = ""

    @classmethod
    def read(
        cls, argument: str, frame: Any, schema: Schema, *, labelled: bool, keep_key: int | None, by_id: bool = True
    ) -> "DeclaredFrame":
        """Read a frame.

        Args:
            argument: how errors call it.
            frame: of pandas, polars or pyarrow.
            schema: declares its columns.
            labelled: whether labels are read; a target may have none.
            keep_key: the secret that decides which rows of an id take part, where the schema keeps a few; None for
                rows that protect nobody, of which all take part.
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
            numbers = np.arange(table.num_rows)
            shared = "" if labelled or keep_key is None else undeclared_id(source, schema)
            whole = cls(mapped.rows, mapped.labels, table.select(schema.columns), numbers, source.fingerprint(), shared)
            return whole if keep_key is None else whole.part(_kept_rows(source, schema, whole, key=keep_key))

    def part(self, places: NDArray[np.int64]) -> "DeclaredFrame":
        """Some of its rows."""
        labels = self.labels[places] if len(self.labels) else self.labels
        table = self.table.take(pa.array(places))
        return DeclaredFrame(
            self.rows[places], labels, table, self.numbers[places], self.fingerprint, self.undeclared_id
        )


def _kept_rows(source: Source, schema: Schema, whole: DeclaredFrame, *, key: int) -> NDArray[np.int64]:
    """Which rows take part: of each id as many as the schema keeps, all where it says nothing of that."""
    kept = KeptRowsOfIds.of(source, schema, key=key)
    if kept is None:
        return whole.numbers
    for block in source.blocks(kept.columns):
        kept.add(block)
    return kept.row_numbers()


@dataclass(frozen=True, eq=False)
class DeclaredTables(MarketTables):
    """A target and owners whose frames a schema declares.

    Attributes:
        schema: what is declared.
        target_table: the target in the declared columns.
        records: each owner's rows as they may leave.
        row_numbers: for each owner, which rows of its frame take part: of each id as many as the schema keeps, and none
            with a text that is too long.
        too_long: how many rows of an owner take no part, where there are any.
        fingerprints: of the frames, by whose they are.
        undeclared_id: of the target.
    """

    schema: Schema
    target_table: pa.Table
    records: Mapping[str, pa.Table]
    row_numbers: Mapping[str, NDArray[np.int64]]
    too_long: Mapping[str, int]
    fingerprints: Mapping[str, str]
    undeclared_id: str

    def digest(self) -> bytes:
        """Of everything in them: the same frames again have the same digest."""
        lines = [self.schema.digest, *(f"{name!r}: {value}" for name, value in self.fingerprints.items())]
        return hashlib.sha256("\n".join(lines).encode()).digest()

    def row_number(self, owner: str, row: int) -> int:
        """The number in its frame of a row that took part."""
        return int(self.row_numbers[owner][row])

    @classmethod
    def read(
        cls,
        schema: Schema,
        target: Any,
        owners: Any,
        *,
        target_key: int,
        owner_key: Callable[[str], int],
        public_rows: Any = None,
    ) -> "DeclaredTables":
        """What a caller gave, or an error that says what is wrong with it.

        Args:
            schema: declares the columns.
            target: rows to match.
            owners: rows of each.
            target_key: the secret that decides which rows of an id of the target take part.
            owner_key: the same for an owner, by the name that may stand in records.
            public_rows: rows that anybody may see.
        """
        given, records = checked_owners(owners), DeclaredRecords(schema)
        safe = safe_names(given)
        wanted = DeclaredFrame.read("target", target, schema, labelled=False, keep_key=target_key)
        if len(wanted.rows) < 2 and schema.keep is not None:
            reason = "has one row that takes part; at least 2 are needed; rows without an id count as rows of one id"
            raise BadTable("target", reason)
        frames = {
            name: _owners_frame(name, table, schema, like=target, key=owner_key(safe[name]))
            for name, table in given.items()
        }
        kept = {name: _short_enough(name, frame, records, schema) for name, frame in frames.items()}
        parts = {name: frame.part(kept[name]) for name, frame in frames.items()}
        public = None
        if public_rows is not None:
            public = DeclaredFrame.read("public_rows", public_rows, schema, labelled=False, keep_key=None)
        return cls(
            target=wanted.rows,
            owners={name: part.rows for name, part in parts.items()},
            tables=given,
            labels={name: part.labels for name, part in parts.items()} if schema.label_column is not None else None,
            public_rows=None if public is None else public.rows,
            safe_names=safe,
            schema=schema,
            target_table=wanted.table,
            records={name: records.of(part.table) for name, part in parts.items()},
            row_numbers={name: part.numbers for name, part in parts.items()},
            too_long={
                name: len(frame.rows) - len(kept[name])
                for name, frame in frames.items()
                if len(frame.rows) > len(kept[name])
            },
            fingerprints={"": wanted.fingerprint, **{name: frame.fingerprint for name, frame in frames.items()}},
            undeclared_id=wanted.undeclared_id,
        )


def _owners_frame(name: str, table: Any, schema: Schema, *, like: Any, key: int) -> DeclaredFrame:
    argument = f"owners[{name!r}]"
    if library_of(table) != library_of(like):
        reason = f"must be of the same kind as the target, a frame of {library_of(like)}"
        raise InvalidArgument(argument, f"a frame of {library_of(table)}", reason)
    return DeclaredFrame.read(argument, table, schema, labelled=True, keep_key=key)


def _short_enough(name: str, frame: DeclaredFrame, records: DeclaredRecords, schema: Schema) -> NDArray[np.int64]:
    """The rows of an owner without a text that is longer than declared: others are no rows of a run."""
    kept = np.flatnonzero(~records.too_long(frame.table))
    if not len(kept):
        most = schema.declaration.text_bytes
        reason = f"every row has a text of more than {most:,} bytes; raise text_bytes in the schema"
        raise BadTable(f"owners[{name!r}]", reason)
    return kept
