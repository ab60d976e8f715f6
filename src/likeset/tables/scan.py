"""The owner's two passes over its rows: check and sample all rows, then score them and keep the best.

Rows come in blocks, from files, databases or memory, and are never all held at once. A draw follows from the rows and
its key alone: the sizes of blocks, the number of threads and the order in which blocks are finished change nothing.
"""

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.errors import BadTable, InvalidArgument
from likeset.geometry import offers
from likeset.geometry.features import TILE_ROWS
from likeset.geometry.offers import Drawing
from likeset.privacy.kept_rows import KeptRows, digests_of_ids
from likeset.tables.cells import MissingWords, ValueCounts, is_text, plain_array
from likeset.tables.columns import BooleanColumn, CategoryColumn, DateColumn, OrdinalColumn
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import FetchedRows, Schema
from likeset.tables.sources import BLOCK_ROWS, Block, Part, Source, checked_columns

_SLACK = 1e-9  # of a sum of a weight and a perturbation, far beyond its rounding
_NONE = np.empty(0, dtype=np.int64)

RowNumbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows that were drawn, best first, or that may be among the best of a draw, with their perturbed scores."""

    row_numbers: RowNumbers
    records: FetchedRows
    scores: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.row_numbers)

    def with_table(self, change: Callable[[pa.Table], pa.Table]) -> Self:
        return replace(self, records=self.records.with_table(change))

    def plain(self) -> Self:
        """The same rows without dictionaries, which may hold far more words than are kept."""
        return self.with_table(without_dictionaries)


class Keeper:
    """The best rows of one draw so far, from blocks in any order; holds at most about three times as many rows.

    ``least`` is a perturbed score that as many rows as are drawn are known to reach; rows below it are out for good.
    """

    def __init__(self, drawing: Drawing, *, least: float = -np.inf) -> None:
        self.drawing, self.least = drawing, least
        self._kept: list[DrawnRows] = []
        self._held = 0

    def choose(self, block: FetchedRows, first_row: int) -> DrawnRows:
        """The rows of a block that may be among the best. Changes nothing, so several threads may do it at once."""
        drawing, least, rows = self.drawing, self.least, len(block.rows)
        weights = None if drawing.score is None else drawing.score(block, first_row)
        most = 0.0 if weights is None or not rows else float(weights.max())
        places, scores = offers.large_perturbations(first_row, rows, key=drawing.key, least=least - most - _SLACK)
        if weights is not None:
            scores = scores + weights[places]
        good = np.flatnonzero(scores >= least)
        places, scores = places[good], scores[good]
        if len(places) > drawing.count:
            best = offers.largest(places, scores, drawing.count)
            order = np.argsort(best.row_numbers)
            places, scores = best.row_numbers[order], best.perturbed[order]
        return DrawnRows(first_row + places, block.take(places), scores)

    def add(self, kept: DrawnRows) -> None:
        """Rows chosen from a block, or kept by another keeper of the same draw from other rows."""
        self._kept.append(kept)
        self._held += len(kept)
        if self._held > 2 * self.drawing.count + TILE_ROWS:
            self._prune()

    def best_rows(self) -> DrawnRows | None:
        if self._kept:
            self._prune()
        return self._kept[0] if self._kept else None

    def result(self) -> DrawnRows:
        best = self.best_rows()
        if best is None:
            raise InvalidArgument("rows", "none", "there must be at least one row to draw from")
        return best

    def _prune(self) -> None:
        numbers = np.concatenate([kept.row_numbers for kept in self._kept])
        scores = np.concatenate([kept.scores for kept in self._kept])
        best = offers.largest(numbers, scores, self.drawing.count)
        order = np.argsort(numbers, kind="stable")
        places = order[np.searchsorted(numbers, best.row_numbers, sorter=order)]
        records = FetchedRows.concatenate([kept.records for kept in self._kept]).take(places)
        self._kept = [DrawnRows(best.row_numbers, records, best.perturbed)]
        self._held = len(best)
        if self._held == self.drawing.count and self._held:
            self.least = max(self.least, float(best.perturbed[-1]))


def _draw_from(blocks: Iterable[tuple[int, FetchedRows]], drawings: Sequence[Drawing]) -> list[DrawnRows]:
    keepers = [Keeper(drawing) for drawing in drawings]
    for first, block in blocks:
        for keeper in keepers:
            keeper.add(keeper.choose(block, first))
    return [keeper.result() for keeper in keepers]


class MemoryScan:
    def __init__(self, rows: ArrayLike, labels: ArrayLike | None = None, table: pa.Table | None = None) -> None:
        self._all = FetchedRows(
            arguments.matrix("rows", rows), np.empty(0) if labels is None else np.asarray(labels), table
        )

    @property
    def row_count(self) -> int:
        return len(self._all.rows)

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        return _draw_from(self.blocks(), drawings)

    def fetch(self, row_numbers: RowNumbers) -> FetchedRows:
        return self._all.take(row_numbers)

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        everything = self._all
        for first in range(0, len(everything.rows), BLOCK_ROWS):
            part = slice(first, first + BLOCK_ROWS)
            table = None if everything.table is None else everything.table.slice(first, BLOCK_ROWS)
            yield first, FetchedRows(everything.rows[part], everything.labels[part], table)


@dataclass(frozen=True)
class Passed:
    """How far a pass over a table is; the total is None in a first pass, which finds out."""

    table: str
    rows: int
    total: int | None


class Fold(Protocol):
    """Looks at all rows, block by block, in these columns at least; text may come as dictionaries."""

    @property
    def columns(self) -> Sequence[str]: ...

    def add(self, block: Block) -> None: ...


Sample = tuple[Drawing, DrawnRows]


@dataclass(frozen=True, eq=False)
class FirstPass:
    """Statistics of one pass over the rows.

    ``too_long`` numbers the rows with a cell that is longer than declared, ``kept`` those of which the schema keeps
    some for each id; None if it keeps all. ``ids`` counts the rows of each; None if the schema declares no ids,
    or lets them have any number. ``fault`` is the first row that cannot be used; the caller may have to say something
    first.
    """

    row_count: int
    too_long: RowNumbers
    kept: RowNumbers | None
    ids: "IdCount | None"
    fault: BadTable | None
    sample: Sample | None

    @property
    def most_rows(self) -> int:
        return 1 if self.ids is None else self.ids.most_rows()

    def rows_taking_part(self) -> int:
        """How many rows are neither too long nor left out of those kept."""
        if self.kept is None:
            return self.row_count - len(self.too_long)
        return len(np.setdiff1d(self.kept, self.too_long, assume_unique=True))


@dataclass(frozen=True, eq=False)
class Work:
    table: str
    schema: Schema
    labelled: bool
    block_rows: int = BLOCK_ROWS

    @property
    def columns(self) -> list[str]:
        return list(self.schema.record_columns if self.labelled else self.schema.columns)

    @property
    def words(self) -> list[str]:
        kinds = (BooleanColumn, CategoryColumn, DateColumn, OrdinalColumn)
        few = [name for name, declared in self.schema.declared.items() if isinstance(declared, kinds)]
        label = self.schema.declaration.label
        return [*few, label.column] if label is not None and label.kind == "category" else few

    def map_rows(self, table: pa.Table, locate: Callable[[int], str]) -> FetchedRows:
        mapped = self.schema.map(table, table=self.table, locate=locate, labels=self.labelled, by_columns=True)
        return replace(mapped, table=table)

    def choose(self, keepers: Sequence[Keeper], block: Block) -> list[DrawnRows]:
        rows = self.map_rows(block.table, block.locate)
        return [keeper.choose(rows, block.first_row).plain() for keeper in keepers]


class SourceScan:
    """Rows of a source, mapped by a schema.

    Holds a few blocks and the drawn rows only. Every pass maps and checks every cell: an invalid row ends the pass
    before anything is drawn.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        *,
        labelled: bool = True,
        workers: int = 1,
        progress: Callable[[Passed], None] | None = None,
        block_rows: int = BLOCK_ROWS,
        passing: Callable[..., None] | None = None,
    ) -> None:
        self._source = source
        self._passing = passing or pass_over
        self._workers = arguments.count("workers", workers)
        self._progress = progress
        self._work = Work(source.name, schema, labelled, arguments.count("block_rows", block_rows))
        self.records = DeclaredRecords(schema)

    @property
    def row_count(self) -> int:
        return self._source.row_count

    def first_pass(
        self,
        *folds: Fold,
        sample: Drawing | None = None,
        without_too_long: bool = False,
        keep_key: int | None = None,
    ) -> FirstPass:
        """Everything that takes all rows to know, by one reading: ``folds`` look at the same blocks.

        Rows that are too long are left out of the unweighted draw ``sample``, and have no number in it, if
        ``without_too_long`` says so. Where the schema keeps a few rows of each id, the secret ``keep_key`` decides
        which; then no sample is drawn, since only the end shows which they are.
        """
        source, work, records = self._source, self._work, self.records
        ids, kept = IdCount.of(source, work.schema), KeptRowsOfIds.of(source, work.schema, key=keep_key)
        keeper = None if sample is None or kept is not None else Keeper(sample)
        all_folds: list[Fold] = [*folds, *(fold for fold in (ids, kept) if fold is not None)]
        columns = dict.fromkeys([*work.columns, *(column for fold in all_folds for column in fold.columns)])
        advance = self._counter(source.row_count if source.unread() is None else None)
        count, left_out, too_long, fault = 0, 0, [_NONE], None
        for block in source.blocks(list(columns), rows=work.block_rows, words=work.words):
            for fold in all_folds:
                fold.add(block)
            table = block.table.select(work.columns)
            longer = np.flatnonzero(records.too_long(table)) if records.open_columns else _NONE
            too_long.append(block.first_row + longer)
            count += len(block)
            try:
                rows = None if fault is not None else work.map_rows(table, block.locate)
                if rows is not None and keeper is not None:
                    if without_too_long and len(longer):
                        rows = rows.take(np.delete(np.arange(len(block)), longer))
                    keeper.add(keeper.choose(rows, block.first_row - left_out).plain())
                    left_out += len(block) - len(rows.rows)
            except BadTable as error:
                fault = error
            advance(len(block))
        drawn = None
        if keeper is not None and fault is None and count > left_out:
            drawn = keeper.drawing, keeper.result().with_table(records.of)
        return FirstPass(
            row_count=count,
            too_long=np.concatenate(too_long),
            kept=None if kept is None else kept.row_numbers(),
            ids=ids,
            fault=fault,
            sample=drawn,
        )

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """All draws in one pass; each the same for the same key."""
        schema = self._work.schema
        if schema.keep is not None:
            raise InvalidArgument("keep", schema.keep, "allows no draw from all rows; draw from those kept")
        checked_columns(self._work.columns, self._source.schema, table=self._source.name)
        keepers, advance = [Keeper(drawing) for drawing in drawings], self._counter(self._source.row_count)
        self._passing(self._source.parts, self._work, keepers, workers=self._workers, advance=advance)
        return [keeper.result().with_table(self.records.of) for keeper in keepers]

    def fetch(self, row_numbers: RowNumbers) -> FetchedRows:
        table = self._source.fetch(row_numbers, self._work.columns)
        mapped = self._work.map_rows(table, lambda offset: self._source.place(int(row_numbers[offset])))
        return mapped.with_table(self.records.of)

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        advance = self._counter(self._source.row_count)
        for block in self._source.blocks(self._work.columns, rows=self._work.block_rows):
            yield block.first_row, self._work.map_rows(block.table, block.locate)
            advance(len(block))

    def _counter(self, total: int | None) -> Callable[[int], None]:
        rows = 0

        def add(count: int) -> None:
            nonlocal rows
            rows += count
            if self._progress is not None:
                self._progress(Passed(self._source.name, rows, total))

        return add


class OfferedScan:
    """The rows of a scan that a run may see; a sample, and the rows that were drawn last, are not read again.

    ``excluded`` numbers the others, rising, each once. If ``renumbered``, rows that stay are numbered anew, in their
    order: as long as the data and what is left out stay, so do the numbers, and with them every draw. Not for
    protocols that release something about selected rows: there a row that goes must leave its number empty
    (docs/proofs/summary-stream.md).
    """

    def __init__(
        self,
        scan: SourceScan,
        *,
        excluded: RowNumbers = _NONE,
        renumbered: bool = True,
        sample: Sample | None = None,
    ) -> None:
        self._scan, self._excluded = scan, excluded
        # A scan without any row that is left out is the scan itself, which draws nothing where a schema has ``keep``.
        self._renumbered = renumbered and (len(excluded) > 0 or scan.records.schema.keep is not None)
        self._sample = sample
        self._drawn: Sequence[DrawnRows] = ()

    @classmethod
    def after(cls, seen: FirstPass, scan: SourceScan, *, withhold: bool, rare: RowNumbers = _NONE) -> Self:
        """The rows that a run may see, after a first pass; ``rare`` rows are never offered.

        With ``withhold``, rows that are too long are left out, and others numbered anew; if not, rows keep their
        numbers, and the bidder leaves out rows that are too long.
        """
        excluded = np.union1d(rare, seen.too_long) if withhold else rare
        if seen.kept is not None:
            excluded = np.union1d(excluded, np.delete(np.arange(seen.row_count), seen.kept))
        # Rare rows are known at the end only: the numbers of the others, and with them the sample, change.
        sample = None if len(rare) else seen.sample
        return cls(scan, excluded=excluded, renumbered=withhold or seen.kept is None, sample=sample)

    @property
    def row_count(self) -> int:
        return self._scan.row_count - (len(self._excluded) if self._renumbered else 0)

    @property
    def absent_rows(self) -> RowNumbers:
        return _NONE if self._renumbered else self._excluded

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """All draws in one pass, or in none if the sample is asked for; the same for the same key."""
        if self._sample is not None and drawings == self._sample[:1]:
            return [self._sample[1]]
        if len(self.absent_rows):
            raise InvalidArgument("drawings", len(drawings), "must be none where some numbers are not rows")
        if self._renumbered:
            records = self._scan.records
            drawn = [one.with_table(records.of) for one in _draw_from(self.blocks(), drawings)]
        else:
            drawn = self._scan.draw(*drawings)
        self._drawn = drawn
        return drawn

    def fetch(self, row_numbers: RowNumbers) -> FetchedRows:
        numbers = np.concatenate([_NONE, *(drawn.row_numbers for drawn in self._drawn)])
        held, first = np.unique(numbers, return_index=True)
        if not len(row_numbers) or not np.isin(row_numbers, held).all():
            return self._scan.fetch(self.numbers_in_source(row_numbers))
        places = first[np.searchsorted(held, row_numbers)]
        return FetchedRows.concatenate([drawn.records for drawn in self._drawn]).take(places)

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]:
        """All rows, block by block, with the number of each block's first row; also those under absent numbers."""
        for first, block in self._scan.blocks():
            if not self._renumbered:
                yield first, block
                continue
            before, end = map(int, np.searchsorted(self._excluded, [first, first + len(block.rows)]))
            if end - before < len(block.rows):
                stay = np.delete(np.arange(len(block.rows)), self._excluded[before:end] - first)
                yield first - before, block.take(stay) if end > before else block

    def numbers_in_source(self, row_numbers: RowNumbers) -> RowNumbers:
        if not self._renumbered:
            return row_numbers
        # How many rows stay before each that is left out: a row's new number is below it, or it comes later.
        stay_before = self._excluded - np.arange(len(self._excluded))
        return np.asarray(row_numbers + np.searchsorted(stay_before, row_numbers, side="right"), dtype=np.int64)


def pass_over(
    parts: Sequence[Part],
    work: Work,
    keepers: Sequence[Keeper],
    *,
    workers: int = 1,
    advance: Callable[[int], None] | None = None,
) -> None:
    """Read, map, check and score the rows of these parts, and keep the best.

    ``workers`` threads map and score blocks while this one reads the next. ``advance`` is called with the number of
    rows of every block that is done. The first block, in the order of rows, that cannot be read or mapped raises
    ``BadTable``.
    """
    cut = (part.with_words(work.words).cut(work.columns, work.block_rows) for part in parts)
    running = deque[tuple[int, Future[list[DrawnRows]]]]()

    def take() -> None:
        rows, chosen = running[0]  # a fault stays the first one
        for keeper, kept in zip(keepers, chosen.result(), strict=True):
            keeper.add(kept)
        running.popleft()
        if advance is not None:
            advance(rows)

    with ThreadPoolExecutor(workers, thread_name_prefix="likeset-pass") as pool:
        try:
            for block in itertools.chain.from_iterable(cut):
                running.append((len(block), pool.submit(work.choose, keepers, block)))
                if len(running) == workers:
                    take()
        except BadTable:
            while running:  # what is wrong in an earlier block is said first
                take()
            raise
        while running:
            take()


def without_dictionaries(table: pa.Table) -> pa.Table:
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in table.schema.types]
    if kinds == table.schema.types:
        return table
    return table.cast(pa.schema(list(zip(table.schema.names, kinds, strict=True))))


@contextmanager
def scan_factory(
    text: str = "local", *, workers: int | None = None, progress: Callable[[Passed], None] | None = None
) -> Iterator[Callable[[Source, Schema], SourceScan]]:
    """How scans are opened, from what a user wrote; a connection for them ends with the block.

    ``local`` is this machine, ``ray:ADDRESS`` a Ray cluster that runs, and ``ray`` the one that ``RAY_ADDRESS`` names.
    ``workers`` are threads on this machine; on a cluster, the size of a unit of work follows from their number.
    As many as there are cores if None.
    """
    count = arguments.count("workers", workers) if workers is not None else _cores()
    kind, _, address = text.partition(":")
    opened = partial(SourceScan, workers=count, progress=progress)
    if kind == "local" and not address:
        yield opened
    elif kind == "ray" and (address or ":" not in text):
        from likeset.tables.ray_scan import ray_cluster, ray_pass

        with ray_cluster(address or None) as ray:
            yield partial(opened, passing=partial(ray_pass, ray))
    else:
        raise InvalidArgument("scan", text, "must be local, ray or ray:ADDRESS")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# The unit of privacy: how many rows one id has at most, and which rows of each id take part.
# Blanks around an id do not count. Rows without an id are taken for one person's: they could be.


def check_ids(source: Source, schema: Schema) -> None:
    """Read all ids once, and refuse a table in which an id has more rows than declared."""
    ids = IdCount.of(source, schema)
    if ids is not None:
        for block in source.blocks(ids.columns):
            ids.add(block)
        check_most_rows(ids.most_rows(), source, schema)


def check_most_rows(most: int, source: Source, schema: Schema, *, whose: str = "it") -> None:
    """Refuse a table in which an id has more rows than declared: the privacy claim would not hold for it.

    ``most`` is the largest number of rows of one id; ``whose`` names the table's owner in the message.
    """
    allowed = schema.most_rows_per_id
    if schema.id_column is not None and allowed is not None and most > allowed:
        raise BadTable(
            source.name,
            f"{whose} has {most} rows of one id, or without one, where the schema declares at most {allowed}; raise "
            "rows_per_id, or declare keep in its place: then that many rows of each id, drawn in secret, take part",
            column=schema.id_column,
        )


class IdCount:
    """Counts the rows of each id, block by block; ``table`` names them in errors."""

    def __init__(self, column: str, missing: Sequence[str], *, table: str = "") -> None:
        self.columns = (column,)
        self.missing = 0  # rows without an id
        self._table = table
        self._words = MissingWords.of(missing)
        self._counts = ValueCounts()

    @classmethod
    def of(cls, source: Source, schema: Schema) -> Self | None:
        """For the ids that a schema declares; None if it declares none, or lets them have any number of rows."""
        if schema.id_column is None or schema.most_rows_per_id is None:
            return None
        return cls(schema.id_column, schema.declaration.missing_words, table=source.name)

    def add(self, block: Block) -> None:
        self.count(block.table.column(self.columns[0]))

    def count(self, ids: Any, *, table: str = "") -> None:
        for chunk in ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]:
            plain = plain_ids(chunk, self._words, table=table or self._table, column=self.columns[0])
            self.missing += plain.null_count
            self._counts.add(plain.drop_null())

    def histogram(self) -> dict[int, int]:
        """How many ids have how many rows; without rows that have no id."""
        rows, ids = np.unique(self._counts.rows(), return_counts=True)
        return dict(zip(rows.tolist(), ids.tolist(), strict=True))

    def most_rows(self) -> int:
        return max(1, self.missing, *self.histogram())


class KeptRowsOfIds:
    def __init__(self, source: Source, schema: Schema, *, keep: int, key: int) -> None:
        self.columns = (schema.id_column or "",)
        self._table = source.name
        self._key = key
        self._missing = MissingWords.of(schema.declaration.missing_words)
        self._kept = KeptRows(keep)

    @classmethod
    def of(cls, source: Source, schema: Schema, *, key: int | None) -> Self | None:
        if schema.keep is None:
            return None
        if key is None:
            raise InvalidArgument("keep_key", "none", "must be given where the schema keeps some rows of each id only")
        return cls(source, schema, keep=schema.keep, key=key)

    def add(self, block: Block) -> None:
        (column,) = self.columns
        encoded = written_ids(block.table.column(column), self._missing, table=self._table, column=column)
        encoded = plain_array(encoded.dictionary_encode())
        digests = digests_of_ids((name.encode() for name in encoded.dictionary.to_pylist()), key=self._key)
        places = pc.fill_null(encoded.indices, len(digests)).to_numpy(zero_copy_only=False)
        self._kept.add(np.concatenate([digests, digests_of_ids([None], key=self._key)])[places], block.first_row)

    def row_numbers(self) -> NDArray[np.int64]:
        return self._kept.row_numbers()


def written_ids(ids: pa.ChunkedArray, missing: MissingWords, *, table: str, column: str) -> pa.ChunkedArray:
    written = [plain_ids(chunk, missing, table=table, column=column).cast(pa.string()) for chunk in ids.chunks]
    return pa.chunked_array(written, pa.string())


def plain_ids(ids: Any, missing: MissingWords, *, table: str, column: str) -> Any:
    """Text without blanks around it, and null where it says that there is none; numbers and days as they are."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if pa.types.is_string_view(ids.type):
        ids = ids.cast(pa.string())
    if pa.types.is_nested(ids.type) or pa.types.is_binary(ids.type):
        raise BadTable(table, "ids must be text or numbers", column=column)
    if not is_text(ids.type):
        return ids
    trimmed = pc.utf8_trim_whitespace(ids)
    return pc.if_else(pc.is_in(trimmed, value_set=missing.words.cast(ids.type)), pa.scalar(None, ids.type), trimmed)
