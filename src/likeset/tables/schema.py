"""The declared columns: what a public ``schema.yaml`` says, and the fixed map from rows to numbers that it makes.

Nothing here is fitted: bounds and values are public knowledge that everybody wrote down beforehand.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from likeset import documents
from likeset.arguments import Rows
from likeset.documents import Document
from likeset.errors import BadTable
from likeset.tables import cells
from likeset.tables.cells import Mask, MissingWords, plain_array
from likeset.tables.columns import (
    Bounds,
    CategoryColumn,
    Column,
    DeclaredValues,
    Encoder,
    NumericColumn,
    Trouble,
    Troubles,
    Values,
    Weight,
    encoder_for,
)
from likeset.text import near_miss

if TYPE_CHECKING:
    from sklearn.preprocessing import FunctionTransformer

MOST_LETTERS = 1000
"""Of a label that is text. Arrays of texts take as much room for each as for the longest."""
MOST_TEXT_BYTES = 1 << 20
_MOST_NAMED = 10
MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")


class LabelDeclaration(Document):
    """The column that a model is to predict; not used for matching unless ``match`` says so."""

    column: str
    kind: Literal["category", "number", "text"] = "category"
    values: Values | None = None
    bounds: Bounds | None = None
    match: bool = False
    weight: Weight = 1.0
    from_data: bool = False

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.values is not None and self.kind != "category":
            raise ValueError("values belong to kind: category")
        if self.bounds is not None and self.kind != "number":
            raise ValueError("bounds belong to kind: number")
        if self.match and self.values is None and self.bounds is None:
            raise ValueError("match: true needs the values of a category, or the bounds of a number")
        if any(isinstance(value, str) and len(value) > MOST_LETTERS for value in self.values or ()):
            raise ValueError(f"a value of the label has more than {MOST_LETTERS} letters; shorten it")
        return self


class IdDeclaration(Document):
    """The column that says whose row it is: privacy then protects all rows of an id. It never leaves an owner.

    ``rows_per_id`` is how many rows of one id there may be: more are an error. ``keep`` is how many of them take part,
    drawn in secret: then there may be as many as there are, unless ``rows_per_id`` says otherwise as well.
    """

    column: str
    rows_per_id: Annotated[int, Field(ge=1)] | None = None
    keep: Annotated[int, Field(ge=1)] | None = None
    from_data: bool = False

    @property
    def most_rows(self) -> int | None:
        return 1 if self.rows_per_id is None and self.keep is None else self.rows_per_id

    @property
    def rows_per_unit(self) -> int:
        return min(rows for rows in (self.most_rows, self.keep) if rows is not None)


class Declaration(Document):
    """What stands in ``schema.yaml``.

    ``text_bytes`` limits cells whose words are not declared: free text, and categories with ``unknown``
    words. Rows with longer cells are no rows of a run.
    """

    likeset: Literal["schema"]
    version: Literal[1]
    columns: Annotated[dict[str, Column], Field(min_length=1)]
    label: LabelDeclaration | None = None
    id: IdDeclaration | None = None
    missing_words: tuple[str, ...] = MISSING_WORDS
    text_bytes: Annotated[int, Field(ge=1, le=MOST_TEXT_BYTES)] = 4096

    @model_validator(mode="after")
    def _possible(self) -> Self:
        named = (*self.columns, *(declared.column for declared in (self.label, self.id) if declared is not None))
        if not all(name.strip() for name in named):
            raise ValueError("a column without a name cannot be a feature, label or id; give it a name in the file")
        if self.label is not None and self.label.column in self.columns:
            raise ValueError(f"label: {self.label.column!r} is among the columns too; use match: true in the label")
        taken = {*self.columns, *([self.label.column] if self.label else [])}
        if self.id is not None and self.id.column in taken:
            raise ValueError(f"id: {self.id.column!r} is used as a column or label too; an id never leaves an owner")
        return self


@dataclass(frozen=True, eq=False)
class FetchedRows:
    """Rows as the selection sees them, one label each or none at all, and their cells; no cells for bare arrays."""

    rows: Rows
    labels: NDArray[Any]
    table: pa.Table | None = None

    def take(self, places: NDArray[np.int64]) -> Self:
        labels = self.labels[places] if len(self.labels) else self.labels
        table = None if self.table is None else self.table.take(pa.array(places))
        # Always in the same layout: products of matrices may round differently with the layout.
        return type(self)(np.ascontiguousarray(self.rows[places]), labels, table)

    def with_table(self, change: Callable[[pa.Table], pa.Table]) -> Self:
        return self if self.table is None else replace(self, table=change(self.table))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        tables = [part.table for part in parts if part.table is not None]
        return cls(
            rows=np.concatenate([part.rows for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            table=pa.concat_tables(tables).unify_dictionaries() if tables else None,
        )


@dataclass(frozen=True)
class Described:
    """One column, for people: ``unit`` is what one unit of distance means; matched labels are among them."""

    name: str
    kind: str
    unit: str
    features: int
    weight: float
    from_data: bool


class Schema:
    """Declared columns.

    ``rows_per_unit`` is how many rows of one unit of privacy take part, at most: 1 without ids. ``keep`` is how many
    rows of each id take part, drawn in secret; None for all of them.

    Args:
        declaration: what a schema file says, checked.
        text: of the file, with its comments; written anew if it is not given.
    """

    def __init__(self, declaration: Declaration, *, text: str = "") -> None:
        self.declaration = declaration
        self._text = text
        self._missing = MissingWords.of(declaration.missing_words)
        self.declared: dict[str, Any] = dict(declaration.columns)
        label, ids = declaration.label, declaration.id
        if label is not None and label.match:
            self.declared[label.column] = _matched_label(label)
        known = None if label is None else label.values
        self._label_values = None if known is None else DeclaredValues(known, self._missing)
        self._encoders = [encoder_for(name, column, self._missing) for name, column in self.declared.items()]
        self.columns = tuple(self.declared)
        self.feature_names = tuple(name for encoder in self._encoders for name in encoder.features)
        self.width = len(self.feature_names)
        # No number of a mapped row is larger in size: every map ends in [-1, 1], times its column's weight.
        self.largest_entry = float(np.float32(max(column.weight for column in self.declared.values())))
        self.label_column = None if label is None else label.column
        self.id_column = None if ids is None else ids.column
        self.record_columns = tuple(dict.fromkeys([*self.columns, *([label.column] if label is not None else [])]))
        self.needed_columns = (*self.record_columns, *([ids.column] if ids is not None else []))
        self.rows_per_unit = 1 if ids is None else ids.rows_per_unit
        self.most_rows_per_id = None if ids is None else ids.most_rows
        self.keep = None if ids is None else ids.keep

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The schema in a file.

        Raises:
            BadDocument: with file, line, field and reason.
        """
        return cls(documents.read(path, Declaration))

    @classmethod
    def from_text(cls, text: str, *, name: str = "schema") -> Self:
        return cls(documents.read_text(text, Declaration, name=name), text=text)

    @classmethod
    def draft(cls, *frames: Any, label: str | None = None, id: str | None = None) -> Self:  # noqa: A002 - as in the file
        """A schema to look at and complete, from data frames; as ``likeset schema draft`` of files.

        ``from_data`` names the columns whose bounds or values to replace by public knowledge. ``text`` is the file to
        edit: its comments say what to look at, and which columns were left out because they may identify people.

        Args:
            frames: of pandas, polars or pyarrow.
            label: the column that a model is to predict.
            id: the column that says whose row it is.

        Example:
            >>> import pyarrow as pa
            >>> drafted = Schema.draft(pa.table({"age": [31, 42.5, 78], "sex": ["f", "m", "f"]}), label="sex")
            >>> drafted.from_data  # replace these by public knowledge, in drafted.text
            ('age', 'sex')
        """
        from likeset.tables.profile import draft  # late: a profile is made by a schema
        from likeset.tables.sources import open_source

        sources = [open_source(frame, name=f"frame {number + 1}") for number, frame in enumerate(frames)]
        return cls.from_text(draft(sources, label=label, ids=id).text, name="draft")

    @property
    def text(self) -> str:
        return self._text or self.to_yaml()

    def to_yaml(self) -> str:
        """The text of a schema file; comments are not kept."""
        content = self.declaration.model_dump(mode="json", exclude_defaults=True)
        for name, column in content["columns"].items():
            fields = sorted(column.items(), key=lambda item: (item[0] != "kind", item[0] in ("weight", "from_data")))
            content["columns"][name] = dict(fields)  # what a column is comes first
        return documents.to_yaml(content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Schema({len(self.columns)} columns, {self.width} features, digest {self.digest[:12]})"

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

    @property
    def from_data(self) -> tuple[str, ...]:
        """Columns whose bounds, values or rows of an id came from data: they reveal something about that data."""
        label = self.declaration.label
        marked = [name for name, column in self.declaration.columns.items() if column.from_data]
        ids = self.declaration.id
        return (*marked, *(each.column for each in (label, ids) if each is not None and each.from_data))

    def describe(self) -> tuple[Described, ...]:
        return tuple(
            Described(encoder.name, column.kind, encoder.unit, len(encoder.features), column.weight, column.from_data)
            for encoder, column in zip(self._encoders, self.declared.values(), strict=True)
        )

    def map(
        self,
        block: pa.Table | pa.RecordBatch,
        *,
        table: str,
        locate: Callable[[int], str],
        labels: bool = True,
        by_columns: bool = False,
    ) -> FetchedRows:
        """Rows as numbers: the same numbers for the same cells, independent of the other rows.

        ``table`` names the block in errors, and ``locate`` tells the place of a row of it, in words. Without ``labels``
        none are read, as of a target. With ``by_columns`` the numbers lie column after column in memory: written, and
        read by tiles, in less time. The first row that cannot be used raises ``BadTable``, by its place and column.
        """
        out = np.zeros((block.num_rows, self.width), dtype=np.float32, order="F" if by_columns else "C")
        problems: list[tuple[int, int, str, str]] = []
        for position, (encoder, column, troubles) in enumerate(self.encode_columns(block, out, table=table)):
            for trouble, mask in troubles.items():
                complaint = encoder.complaint(trouble, column, mask)
                if complaint is not None:
                    problems.append((int(mask.argmax()), position, encoder.name, complaint))
        read: NDArray[Any] = np.empty(0)
        if labels and self.label_column is not None:
            read, bad = self.labels(block, table=table)
            last, name = len(self._encoders), self.label_column
            problems += [(int(mask.argmax()), last, name, complaint) for _, complaint, mask in bad]
        if problems:
            offset, _, column, complaint = min(problems)
            others = dict.fromkeys(name for _, _, name, _ in problems if name != column)
            raise BadTable(table, complaint + _also(list(others)), place=locate(offset), column=column)
        return FetchedRows(out, read)

    def encode_columns(
        self, block: pa.Table | pa.RecordBatch, out: NDArray[np.float32], *, table: str
    ) -> Iterator[tuple[Encoder, Any, Troubles]]:
        """Each column with its map and what is wrong in it; its features are then in ``out``."""
        columns = [self.column_of(block, encoder.name, table=table) for encoder in self._encoders]
        first = 0
        for encoder, column in zip(self._encoders, columns, strict=True):
            last = first + len(encoder.features)
            yield encoder, column, encoder.encode(column, out[:, first:last])
            first = last

    def labels(self, block: pa.Table | pa.RecordBatch, *, table: str) -> tuple[NDArray[Any], "Bad"]:
        """One label for each row; and which cannot be used, why, and what to do about it."""
        label = self.declaration.label
        if label is None:
            return np.empty(0), []
        column = self.column_of(block, label.column, table=table)
        if label.values is not None and self._label_values is not None:
            places, troubles = self._label_values.find(column)
            known = label_values(label.values)
            few = ", ".join(map(str, known[:_FEW].tolist())) + (", ..." if len(known) > _FEW else "")
            return known[places], [(each, _UNUSABLE[each].format(values=few), mask) for each, mask in troubles.items()]
        return _read_labels(column, label.kind, self._missing)

    def column_of(self, block: Any, name: str, *, table: str) -> Any:
        """A column of a table by its name, in one piece; or an error that says which name is near."""
        places = block.schema.get_all_field_indices(name)
        if len(places) == 1:
            return plain_array(block.column(places[0]))
        if places:
            raise BadTable(table, "is there more than once; rename all but one", column=name)
        raise BadTable(
            table, f"is missing, but the schema declares it{near_miss(name, block.schema.names)}", column=name
        )

    def transformer(self) -> "FunctionTransformer":
        """The same map as a scikit-learn transformer, for pipelines: of pandas or polars frames, or Arrow tables."""
        from sklearn.preprocessing import FunctionTransformer  # late: a command line would wait for it

        return FunctionTransformer(self._features, feature_names_out=self._feature_names_out)

    def _features(self, frame: Any) -> NDArray[np.float32]:
        from likeset.tables.sources import arrow_table  # late: it loads readers of files

        if type(frame).__module__.startswith("pandas"):  # columns that are not declared may hold anything
            frame = frame[[name for name in self.columns if name in frame.columns]]
        table = arrow_table(frame, name="X")
        return self.map(table, table="X", locate=lambda offset: f"row {offset}", labels=False).rows

    def _feature_names_out(self, *_: Any) -> NDArray[Any]:
        return np.array(self.feature_names, dtype=object)


def _also(columns: Sequence[str]) -> str:
    """The other columns of the same rows in which something is wrong, at most ten by name."""
    if not columns:
        return ""
    more = f" and {len(columns) - _MOST_NAMED} more" if len(columns) > _MOST_NAMED else ""
    named = ", ".join(map(repr, columns[:_MOST_NAMED]))
    return f"; other columns have values that cannot be used, too: {named}{more}; likeset schema check counts them"


def _matched_label(label: LabelDeclaration) -> CategoryColumn | NumericColumn:
    if label.values is not None:
        return CategoryColumn(kind="category", values=label.values, weight=label.weight, from_data=label.from_data)
    bounds = label.bounds or (0.0, 1.0)  # one of them is there, as the declaration checks
    return NumericColumn(kind="numeric", bounds=bounds, weight=label.weight, from_data=label.from_data)


_HALVES = (0xD800, 0xDFFF)  # code units that are no letters

Bad = list[tuple[Trouble, str, Mask]]

_NUMBER = re.compile(cells.NUMBER)
_MISSING = (
    "has no label; leave such rows out, such as by "
    "\"sql:SELECT * FROM read_csv('FILE', all_varchar=true) WHERE LABEL IS NOT NULL\" in place of the file"
)
_FEW = 10  # values of a label that a message lists
_UNUSABLE = {
    Trouble.MISSING: _MISSING,
    Trouble.UNKNOWN: "is none of the declared values of the label: {values}",
    Trouble.WRONG: "is of another type than the declared values of the label; convert the column or the values",
}
_TOO_LONG = f"is a label of more than {MOST_LETTERS} letters; shorten it"


def _read_labels(column: Any, kind: str, missing: MissingWords) -> tuple[NDArray[Any], Bad]:
    """One label for each row, and which rows have none that can be used, with what to say about them.

    Numbers are float64, or int64 if they are whole as declared; categories whose values are not declared are text, in
    which a whole number has no decimals.
    """
    if kind == "number":
        numbers, wrong = cells.numbers(column, missing)
        why = cells.why_no_numbers(column.filter(pa.array(wrong))) if wrong.any() else ""
        return numbers, _bad_rows(np.isnan(numbers) & ~wrong, wrong, f"is not a finite number{why}")
    if kind == "category":
        column = _canonical(column)
    texts, absent, wrong = cells.text(column, missing)
    filled = pc.fill_null(texts, "")
    letters = pc.utf8_length(filled)
    longest = max(1, pc.max(letters).as_py() or 1)
    bad = _bad_rows(absent, wrong, "is not text")
    if longest > MOST_LETTERS:
        bad.append((Trouble.WRONG, _TOO_LONG, pc.greater(letters, MOST_LETTERS).to_numpy(zero_copy_only=False)))
        longest = MOST_LETTERS
    # Through distinct texts: each becomes a Python string once.
    encoded = filled.dictionary_encode()
    distinct = np.array([*encoded.dictionary.to_pylist(), ""], dtype=f"<U{longest}")
    labels = distinct[encoded.indices.to_numpy(zero_copy_only=False)]
    return labels, bad


def unusable_texts(labels: NDArray[Any]) -> Mask:
    """Which labels are texts that no message takes: too long, or with half of a pair of code units."""
    if labels.dtype.kind != "U" or not len(labels):
        return np.zeros(len(labels), dtype=np.bool_)
    codes = np.frombuffer(np.ascontiguousarray(labels).tobytes(), dtype=np.uint32).reshape(len(labels), -1)
    halves = ((codes >= _HALVES[0]) & (codes <= _HALVES[1])).any(axis=1)
    return np.asarray(halves | (np.strings.str_len(labels) > MOST_LETTERS))


def narrow(labels: NDArray[Any]) -> NDArray[Any]:
    """The same labels; texts in an array that has room for the longest of them, and not of others."""
    if labels.dtype.kind != "U":
        return labels
    return labels.astype(f"<U{max(1, int(np.strings.str_len(labels).max(initial=0)))}")


def label_values(values: Sequence[Any]) -> NDArray[Any]:
    known = np.array(values)
    return known.astype(np.int64) if known.dtype.kind == "f" and (known == np.rint(known)).all() else known


def _canonical(column: Any) -> Any:
    """Whole numbers without decimals, as text; only distinct cells are looked at."""
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    elif pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.uint8())
    try:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        texts = pc.cast(encoded.dictionary, pa.string()).to_pylist()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return column
    words = [None if text is None else _whole(text.strip()) for text in texts]
    return pa.array(words, pa.string()).take(encoded.indices)


def _whole(text: str) -> str:
    if _NUMBER.fullmatch(text) is None:
        return text
    number = float(text)
    return str(int(number)) if abs(number) < 2**53 and number == int(number) else repr(number)


def _bad_rows(absent: Mask, wrong: Mask, complaint: str) -> Bad:
    spoken = ((Trouble.MISSING, _MISSING, absent), (Trouble.WRONG, complaint, wrong))
    return [(trouble, text, mask) for trouble, text, mask in spoken if mask.any()]
