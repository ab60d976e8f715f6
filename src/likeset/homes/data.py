"""An owner's data sets: registered, mapped to a schema, checked for small groups and identifying columns."""

import hashlib
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from likeset import documents
from likeset.arguments import checked_name
from likeset.documents import Document
from likeset.errors import BadTable, InvalidArgument
from likeset.files import make_private_folder
from likeset.privacy.events import PrivacyUnit
from likeset.privacy.kept_rows import keep_key
from likeset.protocol.sealed import Admission, foreseen_sample
from likeset.protocol.terms import Terms
from likeset.tables.cells import MissingWords, plain_array
from likeset.tables.columns import BooleanColumn, CategoryColumn, OrdinalColumn
from likeset.tables.profile import ColumnWarning, TableProfile, dead_columns, identifying_columns
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import OfferedScan, SourceScan, check_ids, check_most_rows, without_dictionaries
from likeset.tables.schema import Declaration, Schema
from likeset.tables.sources import BLOCK_ROWS, Block, Source, is_path, open_source
from likeset.text import near_miss


@dataclass(frozen=True, slots=True)
class SmallGroup:
    column: str  # in which
    value: str  # as it is declared; for this home alone
    rows: int  # how many


class SmallGroups:
    """Finds the rows with some category value that fewer than ``smallest`` rows have, in one pass.

    Groups are values of category, ordinal and yes-or-no columns, and of a label that is a category; missing is none. A
    value is the same however a file writes it. Stores the row numbers of each value that fewer rows had so far.
    """

    def __init__(self, schema: Schema, *, smallest: int, labelled: bool) -> None:
        declaration, kinds = schema.declaration, (CategoryColumn, OrdinalColumn, BooleanColumn)
        declared: dict[str, Any] = {
            name: column for name, column in declaration.columns.items() if isinstance(column, kinds)
        }
        self._schema, self._smallest = schema, smallest
        self._missing = MissingWords.of(declaration.missing_words)
        label = declaration.label
        self._label = label if labelled and label is not None and label.kind == "category" else None
        self._records = None
        if declared:
            part = Declaration(likeset="schema", version=1, columns=declared, missing_words=declaration.missing_words)
            self._records = DeclaredRecords(Schema(part))
        names = (*declared, *([self._label.column] if self._label else []))
        self.columns: tuple[str, ...] = names if smallest > 1 else ()
        self._counts: dict[str, Counter[Any]] = {name: Counter() for name in self.columns}
        self._rows: dict[str, dict[Any, list[int]]] = {name: {} for name in self.columns}

    def add(self, block: Block, kept: NDArray[np.int64] | None = None) -> None:
        """Add rows; with ``kept`` only those with these numbers count, because the others are never offered."""
        if not self.columns:
            return
        for name, every in self._values(without_dictionaries(block.table.select(self.columns))):
            values = every
            if kept is not None:
                counts = np.isin(np.arange(block.first_row, block.first_row + len(block)), kept, assume_unique=True)
                values = pc.if_else(pa.array(counts), every, pa.scalar(None, every.type))
            seen, rows = self._counts[name], self._rows[name]
            counted = pc.value_counts(values.drop_null())
            here = counted.field(0).to_pylist()
            seen.update(dict(zip(here, counted.field(1).to_pylist(), strict=True)))
            few = [value for value in here if seen[value] < self._smallest]
            for value in set(here).difference(few):
                rows.pop(value, None)
            if few:
                rare = pc.is_in(values, value_set=pa.array(few, values.type))
                places = np.flatnonzero(rare.to_numpy(zero_copy_only=False))
                for place, value in zip(places, values.take(pa.array(places)).to_pylist(), strict=True):
                    rows.setdefault(value, []).append(block.first_row + int(place))

    def _values(self, table: pa.Table) -> Iterator[tuple[str, Any]]:
        """Each column of a table with its values in declared types; null where one is missing."""
        if self._records is not None:
            records = self._records.of(table)
            for name in records.column_names:
                column = plain_array(records.column(name))
                if pa.types.is_string(column.type):
                    missing = pc.is_in(column, value_set=self._missing.words)
                    column = pc.if_else(missing, pa.scalar(None, column.type), column)
                yield name, column
        if self._label is not None:
            values, bad = self._schema.labels(table, table="rows")
            unusable = np.zeros(len(values), dtype=np.bool_)
            for _, _, mask in bad:
                unusable |= mask
            yield self._label.column, pa.array(values, mask=unusable)

    def groups(self) -> tuple[SmallGroup, ...]:
        groups = [
            SmallGroup(column, str(value), len(numbers))
            for column, by_value in self._rows.items()
            for value, numbers in by_value.items()
        ]
        return tuple(sorted(groups, key=lambda group: (group.rows, group.column, group.value)))

    def rows(self) -> NDArray[np.int64]:
        rare = (numbers for rows in self._rows.values() for numbers in rows.values())
        return np.unique(np.array([number for numbers in rare for number in numbers], dtype=np.int64))


def rare_among(groups: SmallGroups, source: Source, kept: NDArray[np.int64] | None) -> NDArray[np.int64]:
    if kept is not None and groups.columns:
        for block in source.blocks(groups.columns):
            groups.add(block, kept)
    return groups.rows()


_SOURCE, _SCHEMA = "source.yaml", "schema.yaml"


class _Place(Document):
    likeset: Literal["data"]
    version: Literal[1]
    source: Annotated[str, Field(repr=False)]


@dataclass(frozen=True, eq=False)
class OpenedData:
    scan: OfferedScan  # the rows that may be offered
    row_count: int  # how many rows there are in all
    withheld: int  # how many of them are not offered, because of small groups
    too_long: int  # how many have a cell that is longer than the schema declares: rows of no run
    fingerprint: str  # stays the same as long as the data, the schema and the group size do


@dataclass(frozen=True, eq=False)
class DataSet:
    name: str  # the owner's name for it
    source: str = field(repr=False)  # an address may hold a password; where its rows lie
    schema: Schema  # what is declared
    # about columns that may identify people or hardly count, by its first rows; known right after it was added only
    warnings: tuple[ColumnWarning, ...] = ()

    def keep_key(self, key: int) -> int:
        """The secret that decides which rows of an id take part: the same in every run with this data set."""
        return keep_key(key, f"data/{self.name}")

    def guarded(self, source: Source, terms: Terms, *, smallest_group: int, key: int, run_key: int) -> OpenedData:
        """The rows of its source as a run may see them: without small groups, and in ``sealed`` without too long rows.

        All rows are read once; twice where the schema keeps a few rows of each id and small groups are left out, since
        only what is kept counts in a group. So a row that cannot be used shows here, before anything is charged.
        The rows that are kept follow from ``key`` in all runs; what is drawn in this one follows from ``run_key``.
        """
        labelled, sealed = self.schema.label_column in terms.columns, terms.protocol == "sealed"
        every = SourceScan(source, self.schema, labelled=labelled)
        groups = SmallGroups(self.schema, smallest=smallest_group, labelled=labelled)
        drawing = foreseen_sample(terms.run, run_key) if sealed else None
        seen = every.first_pass(
            *([groups] if self.schema.keep is None else []),
            sample=drawing,
            without_too_long=sealed,
            keep_key=None if self.schema.keep is None else self.keep_key(key),
        )
        check_most_rows(seen.most_rows, source, self.schema)
        rare = rare_among(groups, source, seen.kept)
        # An owner of interactive leaves rows that are too long out by itself, so that its others keep their numbers.
        scan = OfferedScan.after(seen, every, withhold=sealed, rare=rare)
        if scan.row_count == len(scan.absent_rows):
            raise BadTable(source.name, "has no row that may be offered")
        if seen.fault is not None:
            raise seen.fault
        fingerprint = _digest(source.fingerprint(), self.schema.digest, str(smallest_group))
        return OpenedData(
            scan=scan,
            row_count=seen.row_count,
            withheld=len(rare),
            too_long=len(seen.too_long),
            fingerprint=fingerprint,
        )

    @cached_property
    def declared(self) -> DeclaredRecords:
        return DeclaredRecords(self.schema)

    def misfits(self, terms: Terms) -> list[str]:
        schema, misfits = self.schema, []
        if not set(schema.columns) <= set(terms.columns) <= set(schema.record_columns):
            misfits.append(f"the terms name other columns than leave with a row of data set {self.name}")
        if terms.kernel.columns != schema.width:
            misfits.append(f"the terms count {terms.kernel.columns} features in a row, the schema {schema.width}")
        try:
            Admission(terms, self.declared)
        except InvalidArgument as error:
            misfits.append(f"in the terms {error.argument} {error.reason}")
        # Otherwise a consumer could fix the unit of this owner's account to one that no honest run has.
        mine = PrivacyUnit(schema.rows_per_unit, schema.id_column or "")
        if str(terms.unit) != str(mine) or terms.rows_per_unit < schema.rows_per_unit:
            rows = f"with up to {terms.rows_per_unit} rows, the schema one {mine} with up to {schema.rows_per_unit}"
            misfits.append(f"the terms protect one {terms.unit} {rows}")
        return misfits


class Registry:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[tuple[bytes | None, ...], DataSet]] = {}

    def names(self) -> list[str]:
        return sorted(path.parent.name for path in self._folder.glob(f"*/{_SOURCE}"))

    def get(self, name: str) -> DataSet:
        known = self.names()
        if name not in known:
            hint = near_miss(name, known) or "; add it with `likeset owner data add`"
            raise InvalidArgument("data set", name, f"is not registered{hint}")
        place = self._folder / name
        texts = tuple(_text_of(place / file) for file in (_SOURCE, _SCHEMA))
        if name not in self._read or self._read[name][0] != texts:
            data = DataSet(name, documents.read(place / _SOURCE, _Place).source, Schema.load(place / _SCHEMA))
            self._read[name] = texts, data  # parsed once while it is the same: lists judge many runs
        return self._read[name][1]

    def add(self, name: str, source: str, *, schema: Path) -> DataSet:
        """Register a data set; its rows stay where they are."""
        if "/" in checked_name("data set", name):
            raise InvalidArgument("data set", name, "must not contain /")
        if name in self.names():
            home = shlex.quote(str(self._folder.parent))
            reason = f"take another name, or first: likeset owner data remove {name} --home {home}"
            raise InvalidArgument("data set", name, f"is registered already; {reason}")
        lasting = str(Path(source).absolute()) if is_path(source) else source
        data = DataSet(name, lasting, Schema.load(schema))
        with open_source(data.source) as opened:
            there = set(opened.schema.names)
            for column in data.schema.needed_columns:
                if column not in there:
                    data.schema.column_of(opened, column, table=opened.name)
            check_ids(opened, data.schema)
            if opened.row_count == 0:
                raise BadTable(opened.name, "has no rows")
            rows = opened.fetch(np.arange(min(opened.row_count, BLOCK_ROWS)), data.schema.record_columns)
        profile = TableProfile.declared(data.schema)
        profile.add(rows)
        identifying = identifying_columns(data.schema, profile.columns)
        place = self._folder / name
        make_private_folder(place)  # an address may hold a password
        documents.write_text(place / _SCHEMA, data.schema.to_yaml())
        # Last, since a folder without it is no data set.
        documents.write(place / _SOURCE, {"likeset": "data", "version": 1, "source": lasting})
        return replace(data, warnings=(*identifying, *dead_columns(data.schema, profile.columns)))

    def remove(self, name: str) -> None:
        place = self._folder / self.get(name).name
        (place / _SOURCE).unlink()  # a folder without it is no data set, if this is interrupted
        shutil.rmtree(place)

    def for_terms(self, terms: Terms) -> list[DataSet]:
        return [data for name in self.names() if (data := self.get(name)).schema.digest == terms.schema_digest]


def _text_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None  # reading the rows later says why


def _digest(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()
