"""Arrays and data frames: numbers in, and the selected rows out in the form that they came in."""

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
from likeset.tables.schema import MOST_LETTERS

__all__ = [
    "MarketTables",
    "checked_owners",
    "column_names",
    "gather",
    "in_kind_of",
    "library_of",
    "numbers",
    "safe_names",
]

_UNSAFE = re.compile(r"[^A-Za-z0-9._:/@-]+")
_HOW_TO_GET_A_SCHEMA = (
    'declare its columns: Summarizer(..., schema="schema.yaml"); Schema.draft(frame) drafts such a file, as `likeset '
    "schema draft FILE --out schema.yaml` does"
)


def library_of(table: Any) -> str:
    """Whose kind of table it is: pandas, polars, pyarrow, numpy and so on."""
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
        if names is None or columns is None:
            held = "an array" if names is None else "a data frame"
            raise InvalidArgument(argument, held, "must be of the same kind as the target")
        missing = [name for name in columns if name not in names]
        extra = [name for name in names if name not in columns]
        problem = f"lacks {missing}" if missing else f"also has {extra}" if extra else "has them in another order"
        raise InvalidArgument(argument, f"columns {list(names)}", f"must have the target's columns; it {problem}")
    if names is None:
        return arguments.matrix(argument, table, in_single=True)
    try:
        return arguments.matrix(argument, _cells(table), in_single=True)
    except InvalidArgument as error:
        wordy = [name for name, column in zip(names, _columns(table), strict=True) if column.dtype.kind not in "fiub"]
        if not wordy:
            raise
        held = f"columns {wordy}"
        raise InvalidArgument(argument, held, f"do not hold numbers; {_HOW_TO_GET_A_SCHEMA}") from error


def _columns(table: Any) -> list[NDArray[Any]]:
    """Each column of a data frame as an array."""
    if isinstance(table, pa.Table | pa.RecordBatch):
        return [np.asarray(column.to_numpy(zero_copy_only=False)) for column in pa.table(table).itercolumns()]
    if library_of(table) == "pandas":
        return [np.asarray(table.iloc[:, place]) for place in range(table.shape[1])]
    return [np.asarray(column) for column in table]


def _cells(table: Any) -> NDArray[Any]:
    """All cells of a data frame."""
    if isinstance(table, pa.Table | pa.RecordBatch):
        columns = _columns(table)
        return np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
    return np.asarray(table.to_numpy())


def gather(tables: Mapping[str, Any], picks: Sequence[tuple[str, int]]) -> Any:
    """The picked rows, in order, as the kind of table that they came from: array, pandas, polars or Arrow frame.

    Built from the cells of the columns alone: an index, ``attrs`` or metadata of a frame may hold anything.
    """
    like = next(iter(tables.values()))
    names = column_names(like)
    if names is None:
        arrays = {owner: np.asarray(tables[owner]) for owner, _ in picks}
        return np.stack([arrays[owner][row] for owner, row in picks])
    columns = {owner: _columns(tables[owner]) for owner, _ in picks}
    cells = [np.stack([columns[owner][place][row] for owner, row in picks]) for place in range(len(names))]
    picked = in_kind_of(like, pa.table([pa.array(column) for column in cells], names=list(names)))
    if library_of(like) == "pandas":
        picked.columns = list(like.columns)  # which need not be text
    return picked


def in_kind_of(like: Any, table: pa.Table) -> Any:
    """A table as a frame of the library of another."""
    if library_of(like) == "pandas":
        return table.to_pandas()
    if library_of(like) == "polars":
        import polars  # type: ignore[import-not-found,unused-ignore]  # whoever passes its frames has it

        return polars.from_arrow(table)
    return table


@dataclass(frozen=True, eq=False)
class MarketTables:
    """The tables of a target and of owners in one process, checked.

    Attributes:
        target: its rows as numbers.
        owners: each owner's rows as numbers.
        tables: each owner's table as it was given.
        labels: each owner's labels, or None.
        public_rows: rows that anybody may see, or None.
        safe_names: for each owner a name that may stand in records and messages.
    """

    target: Rows
    owners: dict[str, Rows]
    tables: Mapping[str, Any]
    labels: dict[str, NDArray[Any]] | None
    public_rows: Rows | None
    safe_names: dict[str, str]

    @property
    def largest_squared_norm(self) -> float:
        """Of all rows of the target and the owners."""
        tables = (self.target, *self.owners.values())
        return max(float(np.einsum("ij,ij->i", table, table).max()) for table in tables)

    @property
    def largest_squared_distance(self) -> float:
        """Of a row of the target or an owner from the target's middle."""
        middle = self.target.mean(axis=0, dtype=np.float64)
        moved = (table - middle for table in (self.target, *self.owners.values()))
        return max(float(np.einsum("ij,ij->i", table, table).max()) for table in moved)

    def digest(self) -> bytes:
        """Of everything in them: the same tables again have the same digest."""
        digest = hashlib.sha256()
        for name, table in (("", self.target), *self.owners.items()):
            digest.update(f"{name!r}/{table.dtype.str}/{table.shape}/".encode())
            digest.update(np.ascontiguousarray(table).data)
        for name, labels in (self.labels or {}).items():
            digest.update(f"{name!r}/{labels.dtype.str}/".encode() + labels.tobytes())
        return digest.digest()

    def row_number(self, owner: str, row: int) -> int:  # noqa: ARG002 (every row of a table takes part here)
        """The number in its owner's table of a row that took part."""
        return row

    @classmethod
    def checked(
        cls,
        target: Any,
        owners: Mapping[str, Any],
        labels: Mapping[str, ArrayLike] | None,
        public_rows: ArrayLike | None,
    ) -> Self:
        """What a caller gave, or an error that says what is wrong with it."""
        columns = column_names(target)
        rows = numbers("target", target, columns=columns)
        given = checked_owners(owners)
        owner_rows = {name: numbers(f"owners[{name!r}]", table, columns=columns) for name, table in given.items()}
        for name, table in owner_rows.items():
            arguments.same_columns("target", rows, f"owners[{name!r}]", table)
        own_labels = None if labels is None else _checked_labels(labels, owner_rows)
        public = None
        if public_rows is not None:
            public = numbers("public_rows", public_rows, columns=columns if column_names(public_rows) else None)
            arguments.same_columns("target", rows, "public_rows", public)
        return cls(rows, owner_rows, given, own_labels, public, safe_names(given))


def checked_owners(owners: Any) -> dict[str, Any]:
    """Each owner's table by its name."""
    if not isinstance(owners, Mapping) or not owners:
        raise InvalidArgument("owners", type(owners).__name__, "must map at least one owner's name to its rows")
    named = {str(name): table for name, table in owners.items()}
    if len(named) != len(owners):
        raise InvalidArgument("owners", [str(name) for name in owners], "need names that differ as text")
    return named


def safe_names(owners: Iterable[str]) -> dict[str, str]:
    """For each owner a name that may stand in records and messages."""
    safe = {name: _safe_name(name, number) for number, name in enumerate(owners)}
    if len(set(safe.values())) != len(safe):
        raise InvalidArgument("owners", list(safe), "need names that differ by letters and digits")
    return safe


def _checked_labels(labels: Any, owners: Mapping[str, Rows]) -> dict[str, NDArray[Any]]:
    """Labels of each owner, in its order: numbers for all owners, or text for all."""
    if not isinstance(labels, Mapping):
        raise InvalidArgument("labels", type(labels).__name__, "must map each owner's name to the labels of its rows")
    named = {str(name): values for name, values in labels.items()}
    if set(named) != set(owners):
        odd = sorted(set(named) ^ set(owners))
        raise InvalidArgument("labels", f"names {odd}", "must have labels for exactly the owners")
    checked = {name: _label_array(f"labels[{name!r}]", named[name], length=len(owners[name])) for name in owners}
    first, *others = checked
    for name in others:
        if (checked[name].dtype.kind == "U") != (checked[first].dtype.kind == "U"):
            kinds = ["text" if checked[owner].dtype.kind == "U" else "numbers" for owner in (name, first)]
            raise InvalidArgument(f"labels[{name!r}]", kinds[0], f"must be {kinds[1]}, as those of {first!r}")
    return checked


def _label_array(argument: str, values: Any, *, length: int) -> NDArray[Any]:
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            # Data frames keep text as objects; what is text or numbers throughout becomes that.
            array = np.asarray(array.tolist())
    except ValueError as error:
        raise InvalidArgument(argument, type(values).__name__, "must be one label for each row") from error
    if array.shape != (length,):
        raise InvalidArgument(argument, f"array of shape {array.shape}", f"must be one label for each of {length} rows")
    if array.dtype.kind not in "biufU" or (array.dtype.kind == "U" and not _is_text(values)):
        raise InvalidArgument(argument, f"array of {array.dtype}", "must hold numbers throughout or text throughout")
    if array.dtype.kind == "U":
        longest = int(np.strings.str_len(array).max(initial=1))
        if longest > MOST_LETTERS:
            raise InvalidArgument(argument, f"a text of {longest} letters", f"must have at most {MOST_LETTERS}")
        array = array.astype(f"<U{longest}")  # without room that nothing needs
    return array


def _is_text(values: Any) -> bool:
    """Whether an array of text came from text alone: numbers among words would have become words too."""
    return all(isinstance(value, str) for value in np.asarray(values, dtype=object).tolist())


def _safe_name(name: str, number: int) -> str:
    """A name without blanks and odd signs, which starts with a letter or digit."""
    cleaned = re.sub(r"^[^A-Za-z0-9]+", "", _UNSAFE.sub("_", name))
    return cleaned[:128] or f"owner-{number}"
