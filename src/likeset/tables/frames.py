"""Arrays and data frames: numbers in, and the selected rows out in the form that they came in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument

__all__ = ["MarketTables", "column_names", "gather", "numbers"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._:/@-]+")


def column_names(table: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns; None for an array."""
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
    return arguments.matrix(argument, table if names is None else table.to_numpy())


def gather(tables: Mapping[str, Any], picks: Sequence[tuple[str, int]]) -> Any:
    """The picked rows, in order, as the kind of table that they came from: array, pandas or polars frame."""
    rows: dict[str, list[int]] = {owner: [] for owner, _ in picks}
    for owner, row in picks:
        rows[owner].append(row)
    starts = dict(zip(rows, np.cumsum([0, *(len(found) for found in rows.values())]), strict=False))
    places = []  # where each pick lies when all rows of the first owner come first, then those of the second, ...
    taken = dict.fromkeys(rows, 0)
    for owner, _ in picks:
        places.append(int(starts[owner]) + taken[owner])
        taken[owner] += 1
    module = type(next(iter(tables.values()))).__module__.split(".")[0]
    if module == "pandas":
        import pandas  # type: ignore[import-untyped,unused-ignore]  # whoever passes its frames has it

        return pandas.concat([tables[owner].iloc[found] for owner, found in rows.items()]).iloc[places]
    if module == "polars":
        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.concat([tables[owner][found] for owner, found in rows.items()])[places]
    return np.concatenate([np.asarray(tables[owner])[found] for owner, found in rows.items()])[places]


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
        if not isinstance(owners, Mapping) or not owners:
            raise InvalidArgument("owners", type(owners).__name__, "must map at least one owner's name to its rows")
        found = {str(name): numbers(f"owners[{name!r}]", table, columns=columns) for name, table in owners.items()}
        for name, table in found.items():
            arguments.same_columns("target", rows, f"owners[{name!r}]", table)
        if labels is not None and set(labels) != set(owners):
            odd = sorted(str(name) for name in set(labels) ^ set(owners))
            raise InvalidArgument("labels", f"names {odd}", "must have labels for exactly the owners")
        own_labels = None if labels is None else {str(name): np.asarray(values) for name, values in labels.items()}
        public = None if public_rows is None else arguments.matrix("public_rows", public_rows)
        if public is not None:
            arguments.same_columns("target", rows, "public_rows", public)
        safe = {name: _safe_name(name, place) for place, name in enumerate(found)}
        if len(set(safe.values())) != len(safe):
            raise InvalidArgument("owners", list(safe), "need names that differ by letters and digits")
        return cls(rows, found, {str(name): table for name, table in owners.items()}, own_labels, public, safe)


def _safe_name(name: str, place: int) -> str:
    """A name without blanks and odd signs, which starts with a letter or digit."""
    cleaned = re.sub(r"^[^A-Za-z0-9]+", "", _UNSAFE.sub("_", name))
    return cleaned[:128] or f"owner-{place}"
