"""Arrays and data frames: numbers and records in, the selected rows out in the form that they came in."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import blocks
from likeset.tables.scan import without_dictionaries
from likeset.tables.schema import MOST_LETTERS, narrow
from likeset.tables.sources import arrow_table

MANY_CLASSES = 100  # more whole numbers than that are more often measurements
_LARGEST_CLASS = 2.0**53  # a larger double need not be the number that was meant
_GONE = {"None", "nan", "NaT", "<NA>"}  # how Python and pandas show a missing value among others
_LIBRARIES = ("pandas", "polars", "pyarrow")
_UNSAFE = re.compile(r"[^A-Za-z0-9._:/@-]+")
_HOW_TO_GET_A_SCHEMA = (
    'declare its columns: Summarizer(..., schema="schema.yaml"); Schema.draft(frame) drafts such a file, as `likeset '
    "schema draft FILE --out schema.yaml` does"
)


def library_of(table: Any) -> str:
    return type(table).__module__.split(".")[0]


def column_names(table: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns; None for an array."""
    if isinstance(table, pa.Table | pa.RecordBatch):
        return tuple(table.schema.names)
    names = getattr(table, "columns", None)
    return None if names is None else tuple(str(name) for name in names)


def numbers(argument: str, table: Any, *, columns: tuple[str, ...] | None) -> Rows:
    """A table as an array of numbers, its columns checked against those that are expected (None: an array)."""
    names = column_names(table)
    if names != columns:
        held = "an array" if names is None else f"columns {list(names)}"
        wanted = "an array" if columns is None else f"a data frame with the columns {list(columns)}, in their order"
        raise InvalidArgument(argument, held, f"must be as the target, {wanted}")
    if names is None:
        return arguments.matrix(argument, table, in_single=True)
    held = arrow_table(table, name=argument)
    cells = [np.asarray(column.to_numpy(zero_copy_only=False)) for column in held.itercolumns()]
    wordy = [name for name, column in zip(names, cells, strict=True) if column.dtype.kind not in "fiub"]
    if wordy:
        raise InvalidArgument(argument, f"columns {wordy}", f"do not hold numbers; {_HOW_TO_GET_A_SCHEMA}")
    return arguments.matrix(argument, np.column_stack(cells), in_single=True)


def gather(tables: Mapping[str, Any], picks: Sequence[tuple[str, int]]) -> Any:
    """The picked rows, in order, as the kind of table that they came from: array, pandas, polars or Arrow frame.

    Built from the cells of the columns alone: an index, ``attrs`` or metadata of a frame may hold anything.
    """
    like = next(iter(tables.values()))
    if column_names(like) is None:
        arrays = {owner: np.asarray(tables[owner]) for owner, _ in picks}
        return np.stack([arrays[owner][row] for owner, row in picks])
    frames = {owner: arrow_table(tables[owner], name=owner) for owner, _ in picks}
    slices = [without_dictionaries(frames[owner].slice(row, 1)) for owner, row in picks]
    rows = pa.concat_tables(slices, promote_options="permissive")
    picked = in_kind_of(like, rows.take(pa.array(range(len(picks)))))  # a copy: a slice holds the other rows too
    if library_of(like) == "pandas":
        picked.columns = list(like.columns)  # which need not be text
    return picked


def in_kind_of(like: Any, table: pa.Table) -> Any:
    if library_of(like) == "pandas":
        return table.to_pandas()
    if library_of(like) == "polars":
        import polars  # type: ignore[import-not-found,unused-ignore]  # a caller with polars frames has it

        return polars.from_arrow(table)
    return table


@dataclass(frozen=True, eq=False)
class MarketArrays:
    """The rows of a target and of owners as arrays of numbers, checked; ``columns`` of data frames have names."""

    target: Rows
    owners: dict[str, Rows]
    labels: dict[str, NDArray[Any]] | None
    public_rows: Rows | None
    columns: tuple[str, ...] | None

    @property
    def largest_squared_norm(self) -> float:
        tables = (self.target, *self.owners.values())
        return max(float(np.einsum("ij,ij->i", table, table).max()) for table in tables)

    @property
    def largest_squared_distance(self) -> float:
        middle, largest = self.target.mean(axis=0, dtype=np.float64), 0.0
        for table in (self.target, *self.owners.values()):
            for part in blocks(len(table), width=table.shape[1]):
                moved = table[part] - middle
                largest = max(largest, float(np.einsum("ij,ij->i", moved, moved).max()))
        return largest

    def digest(self) -> bytes:
        digest = hashlib.sha256()
        for name, table in (("", self.target), *self.owners.items()):
            digest.update(f"{name!r}/{table.dtype.str}/{table.shape}/".encode())
            digest.update(np.ascontiguousarray(table).data)
        for name, labels in (self.labels or {}).items():
            digest.update(f"{name!r}/{labels.dtype.str}/".encode() + labels.tobytes())
        return digest.digest()

    @classmethod
    def checked(
        cls,
        target: Any,
        owners: Mapping[str, Any],
        labels: Mapping[str, ArrayLike] | None,
        public_rows: ArrayLike | None,
    ) -> Self:
        columns = column_names(target)
        rows = numbers("target", target, columns=columns)
        owner_rows = {name: numbers(f"owners[{name!r}]", table, columns=columns) for name, table in owners.items()}
        for name, table in owner_rows.items():
            arguments.same_columns("target", rows, f"owners[{name!r}]", table)
        own_labels = None if labels is None else _checked_labels(labels, owner_rows)
        public = None
        if public_rows is not None:
            public = numbers("public_rows", public_rows, columns=columns if column_names(public_rows) else None)
            arguments.same_columns("target", rows, "public_rows", public)
        return cls(rows, owner_rows, own_labels, public, columns)


def checked_owners(owners: Any) -> dict[str, Any]:
    if not isinstance(owners, Mapping) or not owners:
        raise InvalidArgument(
            "owners",
            type(owners).__name__,
            "must map at least one owner's name to its rows",
        )
    named = {str(name): table for name, table in owners.items()}
    if len(named) != len(owners):
        raise InvalidArgument("owners", [str(name) for name in owners], "need names that differ as text")
    return named


def safe_names(owners: Iterable[str]) -> dict[str, str]:
    """For each owner a name that may stand in records and messages: without blanks and odd signs at its beginning."""
    cleaned = {name: re.sub(r"^[^A-Za-z0-9]+", "", _UNSAFE.sub("_", name))[:128] for name in owners}
    safe = {name: short or f"owner-{number}" for number, (name, short) in enumerate(cleaned.items())}
    if len(set(safe.values())) != len(safe):
        raise InvalidArgument("owners", list(safe), "need names that differ by letters and digits")
    return safe


def _checked_labels(labels: Any, owners: Mapping[str, Rows]) -> dict[str, NDArray[Any]]:
    if not isinstance(labels, Mapping):
        raise InvalidArgument("labels", type(labels).__name__, "must map each owner's name to the labels of its rows")
    named = {str(name): values for name, values in labels.items()}
    if set(named) != set(owners):
        odd = sorted(set(named) ^ set(owners))
        raise InvalidArgument("labels", f"names {odd}", "must have labels for exactly the owners")
    checked = {name: label_array(f"labels[{name!r}]", named[name], length=len(owners[name])) for name in owners}
    first, *others = checked
    for name in others:
        if (checked[name].dtype.kind == "U") != (checked[first].dtype.kind == "U"):
            kinds = ["text" if checked[owner].dtype.kind == "U" else "numbers" for owner in (name, first)]
            raise InvalidArgument(f"labels[{name!r}]", kinds[0], f"must be {kinds[1]}, as those of {first!r}")
    return dict(zip(checked, whole_as_classes(*checked.values()), strict=True))


def whole_as_classes(*labels: NDArray[Any]) -> list[NDArray[Any]]:
    """The same labels; floating-point numbers as integers if all of them are whole and few: 0.0 and 1.0 are classes."""
    floats = [values for values in labels if values.dtype.kind == "f"]
    known = np.unique(np.concatenate(floats)) if floats else np.empty(0)
    if len(known) > MANY_CLASSES or (known != np.rint(known)).any() or (np.abs(known) > _LARGEST_CLASS).any():
        return [*labels]
    return [values.astype(np.int64) if values.dtype.kind == "f" else values for values in labels]


def label_array(argument: str, values: Any, *, length: int) -> NDArray[Any]:
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            # Data frames keep text as objects; what is text or numbers throughout becomes that.
            array = np.asarray(array.tolist())
    except ValueError as error:
        raise InvalidArgument(argument, type(values).__name__, "must be one label for each row") from error
    if array.shape != (length,):
        raise InvalidArgument(argument, f"array of shape {array.shape}", f"must be one label for each of {length} rows")
    gone = ~np.isfinite(array) if array.dtype.kind == "f" else [str(value) in _GONE for value in array.flat]
    if array.dtype.kind in "fO" and (missing := np.count_nonzero(gone)):
        reason = "are missing or not finite; leave such rows out"
        raise InvalidArgument(argument, f"{missing:,} of {length:,} labels", reason)
    if array.dtype.kind not in "biufU" or (array.dtype.kind == "U" and not _is_text(values)):
        raise InvalidArgument(argument, f"array of {array.dtype}", "must hold numbers throughout or text throughout")
    if array.dtype.kind == "U":
        longest = int(np.strings.str_len(array).max(initial=1))
        if longest > MOST_LETTERS:
            raise InvalidArgument(argument, f"a text of {longest} letters", f"must have at most {MOST_LETTERS}")
        array = narrow(array)
    return array


def _is_text(values: Any) -> bool:
    """Whether an array of text came from text alone: numbers among words would have become words too."""
    return all(isinstance(value, str) for value in np.asarray(values, dtype=object).tolist())


def check_frame(argument: str, frame: Any) -> None:
    """Refuse what is not a data frame where a schema is given."""
    if library_of(frame) not in _LIBRARIES:
        reason = "must be a data frame of pandas, polars or pyarrow where a schema is given; of files, likeset.match"
        raise InvalidArgument(argument, type(frame).__name__, reason)
