"""One pass over parts of a source: read, map, check, score and keep the best, in several threads.

Whoever has nothing to do reads the next block, one thread at a time, and then maps and scores it while another reads:
so reading and computing overlap without a thread too many. What is kept does not depend on who did what.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.geometry.offers import Drawing
from likeset.tables.columns import BooleanColumn, CategoryColumn, DateColumn, OrdinalColumn
from likeset.tables.scan.memory_scan import BLOCK_ROWS, FetchedRows, Keeper, Kept
from likeset.tables.schema import Schema
from likeset.tables.sources.row_blocks import Block, Part

__all__ = ["Unit", "Work", "chosen_unweighted", "pass_over", "units_of", "without_dictionaries"]

UNIT_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class Unit:
    """Parts that follow each other: what one worker does at a time, and what is done again after an interruption."""

    number: int
    parts: tuple[Part, ...]

    @property
    def row_count(self) -> int:
        """How many rows it has."""
        return sum(part.row_count for part in self.parts)


def units_of(parts: Sequence[Part], *, rows: int = UNIT_ROWS) -> list[Unit]:
    """Parts in units of at least so many rows; a larger part is a unit of its own."""
    units: list[Unit] = []
    held: list[Part] = []
    for part in parts:
        if held and sum(held_part.row_count for held_part in held) + part.row_count > rows:
            units.append(Unit(len(units), tuple(held)))
            held = []
        held.append(part)
    return [*units, Unit(len(units), tuple(held))] if held else units


@dataclass(frozen=True, eq=False)
class Work:
    """What a pass does with every block; can be pickled.

    Attributes:
        table: the source's name, for messages.
        schema: maps and checks the rows.
        labelled: whether the label is read as well.
        drawings: what is wanted.
        leasts: for each drawing a perturbed score below which rows are out.
        block_rows: how many rows are read at a time.
    """

    table: str
    schema: Schema
    labelled: bool
    drawings: tuple[Drawing, ...]
    leasts: tuple[float, ...]
    block_rows: int = BLOCK_ROWS

    @property
    def columns(self) -> list[str]:
        """What is read."""
        return list(self.schema.record_columns if self.labelled else self.schema.columns)

    @property
    def words(self) -> list[str]:
        """What is read as few words that come again and again."""
        kinds = (BooleanColumn, CategoryColumn, DateColumn, OrdinalColumn)
        few = [name for name, declared in self.schema.declared.items() if isinstance(declared, kinds)]
        label = self.schema.declaration.label
        return [*few, label.column] if label is not None and label.kind == "category" else few

    def map_rows(self, table: pa.Table, locate: Callable[[int], str]) -> FetchedRows:
        """Rows as numbers, every cell checked."""
        mapped = self.schema.map(table, table=self.table, locate=locate, labels=self.labelled, by_columns=True)
        return FetchedRows(mapped.rows, mapped.labels, table)


def pass_over(
    parts: Sequence[Part], work: Work, *, workers: int = 1, went_by: Callable[[int], None] | None = None
) -> list[Kept | None]:
    """What each drawing keeps of the rows of these parts.

    Args:
        parts: to pass over.
        work: what to do.
        workers: how many threads.
        went_by: called with the number of rows of every block that is done, by one thread at a time.

    Raises:
        BadTable: for the first block, in the order of rows, that cannot be read or mapped.
    """
    crew = _Crew(parts, work, went_by)
    helpers = [threading.Thread(target=crew.work, name="likeset-pass", daemon=True) for _ in range(workers - 1)]
    for helper in helpers:
        helper.start()
    try:
        crew.work()
    finally:
        crew.stop()
        for helper in helpers:
            helper.join()
    crew.raise_first()
    return [keeper.best_rows() for keeper in crew.keepers]


class _Crew:
    """Threads that share the blocks of one pass."""

    def __init__(self, parts: Sequence[Part], work: Work, went_by: Callable[[int], None] | None) -> None:
        pairs = zip(work.drawings, work.leasts, strict=True)
        self.keepers = [Keeper(drawing, least=least) for drawing, least in pairs]
        self._work = work
        self._went_by = went_by
        self._blocks = self._cut(parts)
        self._taken = 0
        self._failed: list[tuple[int, BaseException]] = []
        self._stopped = False
        self._reading = threading.Lock()
        self._keeping = threading.Lock()

    def work(self) -> None:
        """Do block after block until there are none left or something fails."""
        position = -1
        try:
            while True:
                with self._reading:
                    if self._stopped:
                        return
                    position = self._taken
                    self._taken += 1
                    block = next(self._blocks, None)
                if block is None:
                    return
                self._do(block)
        except BaseException as error:  # raised by the thread that waits for all
            self._failed.append((position, error))
            self.stop()

    def stop(self) -> None:
        """Read no further block; those that were read are finished."""
        self._stopped = True

    def raise_first(self) -> None:
        """The failure of the earliest block: every earlier block was read before it, and so was finished."""
        if self._failed:
            raise min(self._failed, key=lambda failed: failed[0])[1]

    def _do(self, block: Block) -> None:
        chosen = self._chosen(block)
        with self._keeping:
            for keeper, kept in zip(self.keepers, chosen, strict=True):
                keeper.add(kept)
            if self._went_by is not None:
                self._went_by(len(block))

    def _chosen(self, block: Block) -> list[Kept]:
        """What each drawing may keep of a block, every cell of which was checked."""
        work = self._work
        weighted = any(drawing.score is not None for drawing in work.drawings)
        if weighted or not work.schema.sound(block.table, table=work.table, labels=work.labelled):
            rows = work.map_rows(block.table, block.locate)
            return [_plain(keeper.choose(rows, block.first_row)) for keeper in self.keepers]
        return [chosen_unweighted(keeper, work, block.table, block.first_row) for keeper in self.keepers]

    def _cut(self, parts: Sequence[Part]) -> Iterator[Block]:
        columns, words = self._work.columns, self._work.words
        for part in parts:
            yield from part.with_words(words).cut(columns, self._work.block_rows)


def chosen_unweighted(
    keeper: Keeper, work: Work, table: pa.Table, first_row: int, stay: NDArray[np.int64] | None = None
) -> Kept:
    """The rows of a block that an unweighted draw may keep; only they are mapped.

    Args:
        keeper: of the draw.
        work: maps them.
        table: the block, of which every cell was checked.
        first_row: the number of its first row.
        stay: places of the rows that have a number; all if None.
    """
    places, scores = keeper.best_places(first_row, table.num_rows if stay is None else len(stay))
    rows = table.take(pa.array(places if stay is None else stay[places]))
    return _plain(Kept(first_row + places, scores, work.map_rows(rows, str)))


def _plain(kept: Kept) -> Kept:
    """The same rows without dictionaries, which may hold far more words than are kept."""
    table = kept.records.table
    assert table is not None  # noqa: S101 - rows of a source have records
    return replace(kept, records=replace(kept.records, table=without_dictionaries(table)))


def without_dictionaries(table: pa.Table) -> pa.Table:
    """The same cells, each with its own words."""
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in table.schema.types]
    if kinds == table.schema.types:
        return table
    return table.cast(pa.schema(list(zip(table.schema.names, kinds, strict=True))))
