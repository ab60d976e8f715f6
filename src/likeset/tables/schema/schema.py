"""The declared columns: what a public ``schema.yaml`` says, and the fixed map from rows to numbers that it makes.

Nothing here is fitted: bounds and values are public knowledge that everybody wrote down beforehand.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from likeset import documents
from likeset.documents import near_miss
from likeset.errors import BadTable
from likeset.tables.schema.cell_faults import Encoder, Trouble, Troubles
from likeset.tables.schema.cell_values import Mask, MissingWords, plain_array
from likeset.tables.schema.column_maps import encoder_for
from likeset.tables.schema.columns import CategoryColumn, NumericColumn
from likeset.tables.schema.declaration import Declaration, LabelDeclaration
from likeset.tables.schema.labels import read_labels

if TYPE_CHECKING:
    import pyarrow as pa

    from likeset.tables.schema.table_checks import Inspection
    from likeset.tables.schema.transformer import DeclaredColumns

__all__ = ["Declaration", "Described", "Mapped", "Schema"]


@dataclass(frozen=True, eq=False)
class Mapped:
    """Rows as numbers, and their labels.

    Attributes:
        rows: one line for each row, in 32 bits.
        labels: one for each row: numbers or text; empty if there are none.
    """

    rows: NDArray[np.float32]
    labels: NDArray[Any]


@dataclass(frozen=True)
class Described:
    """One column, for people.

    Attributes:
        name: of the column.
        kind: of the column; labels that are matched have theirs.
        unit: what one unit of distance means.
        features: how many numbers it becomes.
        weight: how much a unit of it counts.
        from_data: whether its bounds or values came from data.
    """

    name: str
    kind: str
    unit: str
    features: int
    weight: float
    from_data: bool


class Schema:
    """Declared columns.

    Args:
        declaration: what a schema file says, checked.
    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self._missing = MissingWords.of(declaration.missing_words)
        declared: dict[str, Any] = dict(declaration.columns)
        label = declaration.label
        if label is not None and label.match:
            declared[label.column] = _matched_label(label)
        self._declared = declared
        self._encoders: list[Encoder] = [encoder_for(name, column, self._missing) for name, column in declared.items()]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The schema in a file.

        Raises:
            BadDocument: with file, line, field and reason.
        """
        return cls(documents.read(path, Declaration))

    @classmethod
    def from_text(cls, text: str, *, name: str = "schema") -> Self:
        """The schema in a text; ``name`` stands for the file in errors."""
        return cls(documents.read_text(text, Declaration, name=name))

    @staticmethod
    def draft(*frames: Any, label: str | None = None, id: str | None = None) -> str:  # noqa: A002 - as in the file
        """The text of a schema file to look at and complete, from data frames; as ``likeset schema draft`` of files.

        Args:
            frames: of pandas, polars or pyarrow.
            label: the column that a model is to predict.
            id: the column that says whose row it is.

        Example:
            >>> import pyarrow as pa
            >>> text = Schema.draft(pa.table({"age": [31, 42.5, 78], "sex": ["f", "m", "f"]}), label="sex")
            >>> Schema.from_text(text).from_data  # replace these by public knowledge
            ('age', 'sex')
        """
        from likeset.tables.schema.draft import draft
        from likeset.tables.sources.source import open_source

        sources = [open_source(frame, name=f"frame {number + 1}") for number, frame in enumerate(frames)]
        return draft(sources, label=label, ids=id).text

    def to_yaml(self) -> str:
        """The text of a schema file; comments are not kept."""
        content = self.declaration.model_dump(mode="json", exclude_defaults=True)
        for column in content["columns"].values():
            for last in ("weight", "from_data"):  # what a column is comes first
                if last in column:
                    column[last] = column.pop(last)
        return documents.to_yaml(content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Schema({len(self.columns)} columns, {self.width} features, digest {self.digest[:12]})"

    def __getstate__(self) -> dict[str, Any]:
        return {"text": self.declaration.model_dump_json()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Schema.__init__(self, Declaration.model_validate_json(state["text"]))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what is declared: of the order of columns too, but not of comments or of the order of fields."""
        content = self.declaration.model_dump(mode="json")
        content["columns"] = list(content["columns"].items())
        if self.declaration.id is not None:
            # Schemas that do not use what came later keep the digest that they had.
            content["id"] = {"column": self.declaration.id.column, "rows_per_id": self.declaration.id.most_rows}
            content["id"] |= {"keep": self.keep} if self.keep is not None else {}
            content["id"] |= {"from_data": True} if self.declaration.id.from_data else {}
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """What each number of a mapped row is."""
        return tuple(name for encoder in self._encoders for name in encoder.features)

    @property
    def width(self) -> int:
        """How many numbers a row becomes."""
        return len(self.feature_names)

    @cached_property
    def largest_entry(self) -> float:
        """No number of a mapped row is larger in size: every map ends in [-1, 1], times its column's weight."""
        return float(np.float32(max(declared.weight for declared in self._declared.values())))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that matching uses, in their declared order."""
        return tuple(self._declared)

    @property
    def declared(self) -> Mapping[str, Any]:
        """What is declared of each column that matching uses."""
        return self._declared

    @property
    def label_column(self) -> str | None:
        """The column of labels."""
        return None if self.declaration.label is None else self.declaration.label.column

    @property
    def id_column(self) -> str | None:
        """The column that says whose row it is."""
        return None if self.declaration.id is None else self.declaration.id.column

    @property
    def rows_per_unit(self) -> int:
        """How many rows of one unit of privacy take part, at most: 1 without ids."""
        return 1 if self.declaration.id is None else self.declaration.id.rows_per_unit

    @property
    def most_rows_per_id(self) -> int | None:
        """How many rows of one id a table may have; None for any number, and without ids."""
        return None if self.declaration.id is None else self.declaration.id.most_rows

    @property
    def keep(self) -> int | None:
        """How many rows of each id take part, drawn in secret; None for all of them."""
        return None if self.declaration.id is None else self.declaration.id.keep

    @property
    def record_columns(self) -> tuple[str, ...]:
        """What may leave an owner: the columns and the label, never the id."""
        return tuple(dict.fromkeys([*self.columns, *([self.label_column] if self.label_column else [])]))

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """What an owner must read: what may leave, and the id."""
        return (*self.record_columns, *([self.id_column] if self.id_column else []))

    @property
    def from_data(self) -> tuple[str, ...]:
        """Columns whose bounds, values or rows of an id came from data: they tell something about that data."""
        label = self.declaration.label
        marked = [name for name, column in self.declaration.columns.items() if column.from_data]
        ids = self.declaration.id
        return (*marked, *(each.column for each in (label, ids) if each is not None and each.from_data))

    def describe(self) -> tuple[Described, ...]:
        """Every column that matching uses: kind, what a unit is, how many features."""
        return tuple(
            Described(encoder.name, column.kind, encoder.unit(), len(encoder.features), column.weight, column.from_data)
            for encoder, column in zip(self._encoders, self._declared.values(), strict=True)
        )

    def map(
        self,
        block: "pa.Table | pa.RecordBatch",
        *,
        table: str,
        locate: Callable[[int], str],
        labels: bool = True,
        by_columns: bool = False,
    ) -> Mapped:
        """Rows as numbers: the same numbers for the same cells, whatever else is in the table.

        Args:
            block: has at least the declared columns; others are ignored.
            table: names it in errors.
            locate: the place of a row of the block, in words, for errors.
            labels: whether to read the labels; a target may have none.
            by_columns: whether the numbers lie column after column in memory: written, and read by tiles, in less time.

        Raises:
            BadTable: for the first row that cannot be used, by its place and column.
        """
        out = np.zeros((block.num_rows, self.width), dtype=np.float32, order="F" if by_columns else "C")
        problems: list[tuple[int, int, str, str]] = []
        for position, (encoder, troubles) in enumerate(self.encode_columns(block, out, table=table)):
            for trouble, mask in troubles.items():
                complaint = encoder.complaint(trouble)
                if complaint is not None:
                    problems.append((int(mask.argmax()), position, encoder.name, complaint))
        read: NDArray[Any] = np.empty(0)
        if labels and self.label_column is not None:
            read, bad = self._labels(block, table=table)
            last, name = len(self._encoders), self.label_column
            problems += [(int(mask.argmax()), last, name, complaint) for _, complaint, mask in bad]
        if problems:
            offset, _, column, complaint = min(problems)
            raise BadTable(table, complaint, place=locate(offset), column=column)
        return Mapped(out, read)

    def sound(self, block: "pa.Table | pa.RecordBatch", *, table: str, labels: bool = True) -> bool:
        """Whether ``map`` surely has nothing to complain about; False if it takes the map itself to know."""
        columns = ((encoder, self.column_of(block, encoder.name, table=table)) for encoder in self._encoders)
        if not all(encoder.sound(column) for encoder, column in columns):
            return False
        return not labels or not self._labels(block, table=table)[1]

    def encode_columns(
        self, block: "pa.Table | pa.RecordBatch", out: NDArray[np.float32], *, table: str
    ) -> Iterator[tuple[Encoder, Troubles]]:
        """Write column by column into ``out``, and yield what is wrong with each."""
        columns = [self.column_of(block, encoder.name, table=table) for encoder in self._encoders]
        first = 0
        for encoder, column in zip(self._encoders, columns, strict=True):
            last = first + len(encoder.features)
            yield encoder, encoder.encode(column, out[:, first:last])
            first = last

    def label_troubles(self, block: "pa.Table | pa.RecordBatch", *, table: str) -> list[tuple[Trouble, str, Mask]]:
        """Which labels cannot be used, why, and what to do about it."""
        return self._labels(block, table=table)[1]

    def _labels(
        self, block: "pa.Table | pa.RecordBatch", *, table: str
    ) -> tuple[NDArray[Any], list[tuple[Trouble, str, Mask]]]:
        label = self.declaration.label
        if label is None:
            return np.empty(0), []
        column = self.column_of(block, label.column, table=table)
        return read_labels(column, kind=label.kind, values=label.values, missing=self._missing)

    def column_of(self, block: Any, name: str, *, table: str) -> Any:
        """A column of a table by its name, in one piece; or an error that says which name is near."""
        places = block.schema.get_all_field_indices(name)
        if len(places) == 1:
            return plain_array(block.column(places[0]))
        if places:
            raise BadTable(table, "is there more than once; rename all but one", column=name)
        raise BadTable(table, f"is missing{near_miss(name, block.schema.names)}", column=name)

    def inspection(self, *, labelled: bool = True) -> "Inspection":
        """Counts of what is missing or wrong, column by column; give it blocks, then look at it.

        Args:
            labelled: whether the table has the column of labels; a target may have none.
        """
        from likeset.tables.schema.table_checks import Inspection

        return Inspection(self, labelled=labelled)

    def transformer(self) -> "DeclaredColumns":
        """The same map as a scikit-learn transformer, for pipelines."""
        from likeset.tables.schema.transformer import DeclaredColumns

        return DeclaredColumns(self)


def _matched_label(label: LabelDeclaration) -> CategoryColumn | NumericColumn:
    if label.values is not None:
        return CategoryColumn(kind="category", values=label.values, weight=label.weight, from_data=label.from_data)
    bounds = label.bounds or (0.0, 1.0)  # one of them is there, as the declaration checks
    return NumericColumn(kind="numeric", bounds=bounds, weight=label.weight, from_data=label.from_data)
