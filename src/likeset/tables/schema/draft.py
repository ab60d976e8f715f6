"""A first schema from a file's types: a form to fill in, since what comes from data tells something about the data."""

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from likeset import documents
from likeset.errors import BadTable
from likeset.tables.schema import cell_values
from likeset.tables.schema.column_looks import TableLook
from likeset.tables.schema.identifiers import Reason, Suspicion, suspicion_of
from likeset.tables.schema.schema import MISSING_WORDS
from likeset.tables.sources.row_blocks import Source

__all__ = ["MARK", "SchemaDraft", "draft"]

MARK = "from data: replace by public knowledge"

_HEAD = """\
# A draft from the types and values of {names}.
# What comes from data tells something about the data: look at every line that says "from data", write down what is
# publicly known instead (a clinical range, the code book's values), and then remove its from_data.
"""
_LEFT_OUT = "# Left out, for they may identify people (likeset schema draft --include COLUMN brings one in):\n"
_FOOT = """\
# What a model is to predict; not used for matching unless match: true.
# label: {column: ..., kind: category, values: [...]}
"""
_FOOT_ID = """\
# Whose rows they are, if one person may have several: privacy then protects all of them.
# id: {column: ..., rows_per_id: 1}
"""
_MOST_CODES = 10  # whole numbers with at most that many values are taken for codes
_MOST_WORDS = 30
_MOST_KEPT = 1000
_TEXT_WIDTH = 64
_MISSING = cell_values.MissingWords.of(MISSING_WORDS)
_TRUTH = {"true", "false", "yes", "no", "t", "f", "y", "n", "0", "1", "0.0", "1.0"}


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    """A schema to fill in.

    Attributes:
        text: of the schema file.
        left_out: columns that may identify people, and were not asked for by name.
        included: such columns that were, the label among them.
    """

    text: str
    left_out: tuple[Suspicion, ...]
    included: tuple[Suspicion, ...]


class _Guess:
    """What has been seen of one column."""

    def __init__(self, kind: Any) -> None:
        self.held = kind.value_type if pa.types.is_dictionary(kind) else kind
        self.rows = self.missing = 0
        self.all_numbers = self.all_days = self.all_whole = True
        self.low, self.high = math.inf, -math.inf
        self.distinct: set[Any] = set()
        self.many = False
        self.width: int | None = None

    def look(self, column: Any) -> None:
        """Take in one block."""
        self.rows += len(column)
        if _is_list(self.held):
            self._look_at_lists(column)
        elif pa.types.is_date(self.held) or pa.types.is_timestamp(self.held):
            days, _ = cell_values.days(column, "iso", _MISSING)
            self.missing += int(np.count_nonzero(np.isnan(days)))
            self._range(days)
        elif cell_values.is_text(self.held):
            self._look_at_text(column)
        else:
            values, wrong = cell_values.numbers(column, _MISSING)
            self.all_numbers &= wrong is None
            self._look_at_numbers(values)

    def _look_at_text(self, column: Any) -> None:
        texts, missing, _ = cell_values.text(column, _MISSING)
        present = texts.drop_null()
        if not self.many:
            self._keep(pc.unique(present).to_pylist())
        if self.all_numbers:
            values, wrong = cell_values.numbers(present, _MISSING)
            self.all_numbers = wrong is None
            if self.all_numbers:
                self._look_at_numbers(values, keep=False)
        if not self.all_numbers and self.all_days:
            days, wrong = cell_values.days(present, "iso", _MISSING)
            self.all_days = wrong is None
            if self.all_days and len(days):
                self._range(days)
        self.missing += 0 if missing is None else int(np.count_nonzero(missing))

    def _look_at_numbers(self, values: Any, *, keep: bool = True) -> None:
        if keep:
            self.missing += int(np.count_nonzero(np.isnan(values)))
        values = values[~np.isnan(values)]
        self.all_whole &= bool((values == np.rint(values)).all())
        if not self.many and keep:
            self._keep(np.unique(values).tolist())
        self._range(values)

    def _look_at_lists(self, column: Any) -> None:
        self.missing += column.null_count
        lengths = pc.list_value_length(column).drop_null()
        if self.width is None and len(lengths):
            self.width = lengths[0].as_py()
        values, _ = cell_values.numbers(column.flatten(), _MISSING)
        self._range(values)

    def _range(self, values: Any) -> None:
        present = values[~np.isnan(values)]
        if len(present):
            self.low, self.high = min(self.low, float(present.min())), max(self.high, float(present.max()))

    def _keep(self, values: list[Any]) -> None:
        self.distinct.update(values)
        if len(self.distinct) > _MOST_KEPT:
            self.many, self.distinct = True, set()

    def declaration(self) -> dict[str, Any]:
        """The fields of the column in the draft."""
        fields = self._fields()
        if self.missing:
            fields["missing"] = "indicator"
        if {"bounds", "values"} & set(fields):
            fields["from_data"] = True
        return fields

    def values(self) -> list[Any]:
        """The different values, if they are few: numbers if all are, words otherwise."""
        return sorted({float(value) if self.all_numbers else str(value) for value in self.distinct})

    def _fields(self) -> dict[str, Any]:
        if _is_list(self.held):
            return {"kind": "vector", "width": self.width or 1, "bounds": _round_outward(self.low, self.high)}
        typed_days = pa.types.is_date(self.held) or pa.types.is_timestamp(self.held)
        seen = self.low <= self.high
        if typed_days or (cell_values.is_text(self.held) and not self.all_numbers and self.all_days and seen):
            return {"kind": "date", "bounds": _years(self.low, self.high)}
        few = not self.many and bool(self.distinct)
        if pa.types.is_boolean(self.held) or (few and {_word(value) for value in self.distinct} <= _TRUTH):
            return {"kind": "boolean"}
        if self.all_numbers and seen:
            if few and self.all_whole and len(self.values()) <= _MOST_CODES:
                return {"kind": "category", "values": self.values()}
            return {"kind": "numeric", "bounds": _round_outward(self.low, self.high)}
        if few and len(self.distinct) <= _MOST_WORDS and not self.all_numbers:
            return {"kind": "category", "values": self.values()}
        return {"kind": "text", "width": _TEXT_WIDTH}


def draft(
    sources: Sequence[Source], *, label: str | None = None, ids: str | None = None, include: Collection[str] = ()
) -> SchemaDraft:
    """A schema that fits all sources; what came from data is marked, and what may identify people is left out.

    Args:
        sources: have the columns that the schema is to declare; those that are not in all of them are left out.
        label: the column of labels.
        ids: the column that says whose row it is.
        include: columns to declare although they may identify people.
    """
    first, *others = sources
    names = [name for name in first.schema.names if all(name in other.schema.names for other in others)]
    for wanted in (label, ids, *include):
        if wanted is not None and wanted not in names:
            near = documents.near_miss(wanted, names)
            raise BadTable(first.name, f"is missing, or not in all files{near}", column=wanted)
    if not names or set(names) <= {label, ids}:
        raise BadTable(first.name, "there is no column that all files have")
    guesses = {name: _Guess(first.schema.field(name).type) for name in names}
    looks = [TableLook(names) for _ in sources]
    for source, look in zip(sources, looks, strict=True):
        for block in source.blocks(names):
            look.add(block.table)
            for name in names:
                guesses[name].look(cell_values.plain_array(block.table.column(name)))
    if not any(guess.rows for guess in guesses.values()):
        raise BadTable(first.name, "there are no rows to draft from")
    seen = [look.summary() for look in looks]
    suspected = [suspicion_of(name, seen=[each[name] for each in seen]) for name in names if name != ids]
    suspicions = [suspicion for suspicion in suspected if suspicion is not None]
    _check_named(first.name, suspicions, (label, *include))
    left_out = tuple(
        suspicion for suspicion in suspicions if suspicion.column != label and suspicion.column not in include
    )
    kept = {name: guess for name, guess in guesses.items() if name not in {suspicion.column for suspicion in left_out}}
    if set(kept) <= {label, ids}:
        listed = ", ".join(repr(suspicion.column) for suspicion in left_out)
        raise BadTable(first.name, f"every column may identify people: {listed}; name those to keep with --include")
    shown = ", ".join(source.name for source in sources)
    text = "".join(_lines(kept, left_out, label=label, ids=ids, shown=shown))
    return SchemaDraft(text, left_out, tuple(suspicion for suspicion in suspicions if suspicion not in left_out))


def _check_named(table: str, suspicions: Sequence[Suspicion], wanted: Collection[str | None]) -> None:
    if any(suspicion.reason is Reason.NAMELESS and suspicion.column in wanted for suspicion in suspicions):
        raise BadTable(table, "a column without a name cannot be a feature or a label; give it a name in the file")


def _lines(
    guesses: dict[str, _Guess], left_out: Sequence[Suspicion], *, label: str | None, ids: str | None, shown: str
) -> Iterable[str]:
    yield _HEAD.format(names=" ".join(shown.split()))
    if left_out:
        yield _LEFT_OUT
        yield from (f"#   {json.dumps(suspicion.column)}: {suspicion.why}\n" for suspicion in left_out)
    yield "likeset: schema\nversion: 1\ncolumns:\n"
    for name, guess in guesses.items():
        if name not in (label, ids):
            yield _with_marks(documents.to_yaml({name: guess.declaration()}), indent="  ")
    if label is None:
        yield _FOOT
    else:
        fields = guesses[label].declaration()
        kind = {"category": "category", "boolean": "category", "numeric": "number"}.get(fields["kind"], "text")
        label_fields: dict[str, Any] = {"column": label, "kind": kind}
        if kind == "category" and guesses[label].distinct:
            label_fields |= {"values": guesses[label].values(), "from_data": True}
        yield _with_marks(documents.to_yaml({"label": label_fields}), indent="")
    declared = documents.to_yaml({"id": {"column": ids, "rows_per_id": 1}})
    yield _FOOT_ID if ids is None else f"# rows_per_id: the most rows that one id may have, by decision\n{declared}"


def _with_marks(text: str, *, indent: str) -> str:
    lines = []
    for line in text.splitlines():
        if line.strip().startswith(("bounds:", "values:")):
            lines.append(f"{indent}  # {MARK}\n")
        lines.append(f"{indent}{line}\n")
    return "".join(lines)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, str) else json.dumps(value)


def _round_outward(low: float, high: float) -> list[float]:
    """Outward to the leading digit of the range: the exact extremes are somebody's."""
    if not low <= high:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(max(high - low, abs(high), 1e-300)) + 1e-9)
    bounds = [math.floor(low / step) * step, math.ceil(high / step) * step]
    if bounds[0] == bounds[1]:
        bounds[1] += step
    return [float(f"{bound:.12g}") for bound in bounds]


def _years(low: float, high: float) -> list[str]:
    if not low <= high:
        return ["1900-01-01", "2100-01-01"]
    days = [date.fromordinal(int(day) + date(1970, 1, 1).toordinal()) for day in (low, high)]
    return [f"{days[0].year:04d}-01-01", f"{days[1].year + 1:04d}-01-01"]
