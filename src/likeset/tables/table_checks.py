"""Does a table fit a schema? Counts per column of what is missing, out of range, unknown or of the wrong type."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from likeset.errors import BadTable
from likeset.tables import cells
from likeset.tables.cells import CommaWatch, remedy
from likeset.tables.column_looks import TableLook
from likeset.tables.columns import CategoryColumn, NumericColumn, TextColumn, Trouble
from likeset.tables.dead_columns import BoundsUse, DeadColumn
from likeset.tables.identifiers import Suspicion, suspicions_in
from likeset.tables.records import DeclaredRecords

if TYPE_CHECKING:
    from likeset.tables.schema import Schema

__all__ = ["ColumnCount", "IdCount", "Inspection"]

_SHOWN = 3
_PENDING_ROWS = 1_000_000


@dataclass
class ColumnCount:
    """What was seen of one column.

    Attributes:
        name: of the column.
        kind: as declared; ``label`` for one that is not matched.
        counts: how many cells have each trouble, allowed or not.
        first: the places of the first of them.
        complaints: for each trouble that the schema does not allow, what to do about it.
    """

    name: str
    kind: str
    counts: dict[Trouble, int] = field(default_factory=lambda: dict.fromkeys(Trouble, 0))
    first: dict[Trouble, list[str]] = field(default_factory=lambda: {trouble: [] for trouble in Trouble})
    complaints: dict[Trouble, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every cell can be used."""
        return not self.complaints

    def note(self, trouble: Trouble, mask: cells.Mask, complaint: str | None, locate: Callable[[int], str]) -> None:
        """Count the marked cells of one block."""
        self.counts[trouble] += int(np.count_nonzero(mask))
        room = _SHOWN - len(self.first[trouble])
        self.first[trouble] += [locate(int(row)) for row in np.flatnonzero(mask)[:room]]
        if complaint is not None:
            self.complaints[trouble] = complaint


@dataclass(frozen=True)
class IdCount:
    """How rows share ids.

    Attributes:
        ids: how many different ones there are.
        most_rows: of one id.
        over: how many ids have more rows than declared.
        missing: rows without an id.
    """

    ids: int
    most_rows: int
    over: int
    missing: int


class Inspection:
    """Counts over all blocks of a table.

    Args:
        schema: what the table should fit.
        labelled: whether the table has the column of labels; a target may have none.

    Attributes:
        rows: how many there are.
        too_long: how many have a text that is longer than declared: as an owner's they are no rows of any run.
        columns: what is missing or wrong, column by column.
    """

    def __init__(self, schema: "Schema", *, labelled: bool = True) -> None:
        self._schema = schema
        self.rows = 0
        self.too_long = 0
        self._records = DeclaredRecords(schema)
        self.columns = [ColumnCount(column.name, column.kind) for column in schema.describe()]
        label = schema.declaration.label
        if label is not None and not label.match and labelled:
            self.columns.append(ColumnCount(label.column, "label"))
        held = [name for name in schema.record_columns if labelled or name != schema.label_column]
        self._looks = TableLook(held, schema.declaration.missing_words)
        self._missing = cells.MissingWords.of(schema.declaration.missing_words)
        self._bounds_use = BoundsUse(schema)
        watched = (CategoryColumn, NumericColumn, TextColumn)
        self._commas = {name: CommaWatch() for name, kind in schema.declared.items() if isinstance(kind, watched)}
        self._ids: Any = None
        self._pending: list[Any] = []
        self._ids_missing = 0

    @property
    def id_column(self) -> str | None:
        """The column of ids, if the schema declares one."""
        return self._schema.id_column

    @property
    def ok(self) -> bool:
        """Whether every row can be used, and every column is what it is declared as."""
        ids = self.id_count()
        sound = all(column.ok for column in self.columns) and not self.numbers_as_words()
        return sound and (ids is None or not (ids.over or ids.missing))

    def add(self, block: Any, *, table: str, locate: Callable[[int], str]) -> None:
        """Look at one block.

        Raises:
            BadTable: if a declared column is not there.
        """
        schema = self._schema
        scratch = np.zeros((block.num_rows, schema.width), dtype=np.float32)
        unusable: dict[str, cells.Mask] = {}
        for count, (encoder, troubles) in zip(
            self.columns, schema.encode_columns(block, scratch, table=table), strict=False
        ):
            for trouble, mask in troubles.items():
                count.note(trouble, mask, encoder.complaint(trouble), locate)
                unusable[encoder.name] = mask | unusable.get(encoder.name, np.False_)
        self._bounds_use.add(scratch, skip=unusable)
        for name, watch in self._commas.items():
            if name in unusable or not isinstance(schema.declared[name], NumericColumn):
                watch.add(cells.text(schema.column_of(block, name, table=table), self._missing)[0])
        if self.columns and self.columns[-1].kind == "label":
            for trouble, complaint, mask in schema.label_troubles(block, table=table):
                self.columns[-1].note(trouble, mask, complaint, locate)
        if schema.id_column is not None:
            self._count_ids(schema.column_of(block, schema.id_column, table=table), table)
        self._looks.add(block)
        self.too_long += int(np.count_nonzero(self._records.too_long(block)))
        self.rows += block.num_rows

    def suspicions(self) -> tuple[Suspicion, ...]:
        """Columns that may identify people, by their names and by what was seen of the first rows."""
        return suspicions_in(self._schema, self._looks.summary())

    def dead_columns(self) -> tuple[DeadColumn, ...]:
        """Columns that use next to nothing of their bounds."""
        return self._bounds_use.dead_columns()

    def numbers_as_words(self) -> dict[str, str]:
        """Columns declared as words of which every value is a number with a decimal comma, and what to do about it."""
        words = "has numbers with decimal commas, and is declared as words; declare kind: numeric, and"
        return {
            name: f"{words} {remedy({name: watch.has_thousands})}"
            for name, watch in self._commas.items()
            if watch.has_commas and not isinstance(self._schema.declared[name], NumericColumn)
        }

    def comma_remedy(self) -> str:
        """What to do about decimal commas in columns that are declared as numbers; empty if there are none."""
        columns = {
            name: watch.has_thousands
            for name, watch in self._commas.items()
            if watch.has_commas and isinstance(self._schema.declared[name], NumericColumn)
        }
        return f"decimal commas are not read: {remedy(columns)}" if columns else ""

    def id_count(self) -> IdCount | None:
        """How rows share ids; None if the schema declares none."""
        if self._schema.id_column is None:
            return None
        self._merge()
        counts = np.empty(0) if self._ids is None else self._ids["rows"].to_numpy()
        allowed = self._schema.most_rows_per_id
        over = 0 if allowed is None else int(np.count_nonzero(counts > allowed))
        return IdCount(len(counts), int(counts.max(initial=0)), over, self._ids_missing)

    def _count_ids(self, column: Any, table: str) -> None:
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        try:
            texts = pc.cast(column, pa.large_string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise BadTable(table, "ids must be text or numbers", column=self._schema.id_column or "") from error
        texts, missing, _ = cells.text(texts, self._missing)
        self._ids_missing += 0 if missing is None else int(np.count_nonzero(missing))
        counted = pc.value_counts(texts.drop_null())
        self._pending.append(pa.table({"id": counted.field(0), "rows": counted.field(1)}))
        if sum(len(counts) for counts in self._pending) > _PENDING_ROWS:
            self._merge()

    def _merge(self) -> None:
        if self._pending:
            parts = pa.concat_tables([*([] if self._ids is None else [self._ids]), *self._pending])
            merged = parts.group_by("id").aggregate([("rows", "sum")])
            self._ids = pa.table({"id": merged["id"], "rows": merged["rows_sum"]})
            self._pending = []
