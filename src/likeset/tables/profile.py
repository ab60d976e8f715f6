"""Profiles of tables: what rows show of each column, and what follows from it.

One pass makes one record for each column (``ColumnProfile``). From it follow the columns that may identify people, the
columns that use next to nothing of their bounds, whether a table fits a schema (``Inspection``), and a first schema
(``draft``). Profiles stay with whoever holds the rows. A schema is public, so a draft marks what it took from data.
"""

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import Enum, StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset import documents
from likeset.errors import BadTable
from likeset.tables import cells
from likeset.tables.cells import WITH_COMMA, Mask, MissingWords, as_points, comma_remedy
from likeset.tables.columns import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    ImageColumn,
    NumericColumn,
    OrdinalColumn,
    TextColumn,
    Trouble,
    VectorColumn,
)
from likeset.tables.records import DeclaredRecords
from likeset.tables.rows_per_id import IdCount, written_ids
from likeset.tables.schema import MISSING_WORDS, Schema
from likeset.tables.sources import Source
from likeset.text import near_miss

MARK = "from data: replace by public knowledge"
_MOST_ROWS = 200_000  # of a table that are profiled to find identifiers
_MOST_VALUES = 1000
_LEAST_COUNTED = 20_000
_PENDING_VALUES = 1_000_000
_BARS = 12


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- What one pass shows of a column


class _ValueCounts:
    """Different values with their rows."""

    def __init__(self) -> None:
        self.rows = self._pending = 0
        self._parts: list[pa.Table] = []

    def add(self, present: Any) -> None:
        counted = pc.value_counts(present)
        self._parts.append(pa.table({"value": counted.field(0), "rows": counted.field(1)}))
        self.rows += len(present)
        self._pending += len(counted)
        if self._pending > _PENDING_VALUES:
            self.table()

    def table(self) -> pa.Table | None:
        if len(self._parts) > 1:
            joined = pa.concat_tables(self._parts, promote_options="permissive")
            merged = joined.group_by("value").aggregate([("rows", "sum")])
            self._parts = [merged.rename_columns(["value", "rows"])]
        self._pending = 0
        return self._parts[0] if self._parts else None

    @property
    def distinct(self) -> int:
        table = self.table()
        return 0 if table is None else table.num_rows

    def row_counts(self) -> NDArray[np.int64]:
        table = self.table()
        return np.empty(0, dtype=np.int64) if table is None else table["rows"].to_numpy()


class ColumnProfile:
    """What the rows of a table show of one column.

    ``numbers``, ``whole``, ``days`` and ``rising`` hold for every value so far; ``timed`` where some day has a time.
    ``low`` and ``high`` are numbers, or days since 1970. Of more than 1,000 different values only those of the first
    rows are ``counted``.
    """

    def __init__(self, missing: MissingWords) -> None:
        self._missing = missing
        self.rows = self.missing = 0
        self.numbers = self.whole = self.days = self.rising = True
        self.timed = self.truth = self.lists = self.other = False
        # Whether every text is a number that may have a decimal comma; whether some have one, or a point.
        self._comma_form, self._commas, self._points = True, False, False
        self.low, self.high, self._last = math.inf, -math.inf, -math.inf
        self.width: int | None = None
        self.sample: list[NDArray[np.float64]] = []
        self._counts = _ValueCounts()
        self._parts: Sequence[ColumnProfile] = (self,)

    @classmethod
    def union(cls, parts: Sequence["ColumnProfile"]) -> "ColumnProfile":
        whole, filled = cls(parts[0]._missing), [part for part in parts if part.rows > part.missing] or parts[:1]
        whole._parts = filled
        whole.rows, whole.missing = sum(part.rows for part in parts), sum(part.missing for part in parts)
        for name in ("numbers", "whole", "days", "truth", "_comma_form"):
            setattr(whole, name, all(getattr(part, name) for part in filled))
        for name in ("timed", "lists", "other", "_commas", "_points"):
            setattr(whole, name, any(getattr(part, name) for part in filled))
        whole.low, whole.high = min(part.low for part in filled), max(part.high for part in filled)
        whole.width = filled[0].width
        whole.sample = [piece for part in filled for piece in part.sample]
        return whole

    @property
    def filled(self) -> bool:
        return self.rows > self.missing

    @property
    def ranged(self) -> bool:
        return (self.lists or self.numbers or self.days) and self.low <= self.high

    @property
    def has_commas(self) -> bool:
        return self._comma_form and self._commas

    @property
    def has_thousands(self) -> bool:
        return self.has_commas and self._points

    @property
    def counted(self) -> int:
        return self._counts.rows

    @property
    def distinct(self) -> int:
        return self._counts.distinct

    @property
    def is_text(self) -> bool:
        return not (self.numbers or self.days or self.lists or self.other)

    def add(self, column: Any) -> None:
        column = cells.plain_array(column)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        self.rows += len(column)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            self._add_lists(column)
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            self.numbers = False
            self._add_days(column)
            self._count(column.drop_null())
            self.timed |= pa.types.is_timestamp(kind) and bool(pc.any(pc.not_equal(column, _midnight(column))).as_py())
        elif cells.is_text(kind):
            self._add_text(column)
        elif pa.types.is_boolean(kind) or pa.types.is_null(kind) or _is_number(kind):
            self.truth = pa.types.is_boolean(kind)
            values, wrong = cells.numbers(column, self._missing)
            self.numbers &= wrong is None
            self.missing += int(np.count_nonzero(np.isnan(values)))
            present = self._add_numbers(values)
            self._count(pa.array(present))
        else:
            self.other, self.numbers, self.days = True, False, False
            self.missing += column.null_count

    def _add_text(self, column: Any) -> None:
        texts, missing, _ = cells.text(column, self._missing)
        present = texts.drop_null()
        self.missing += 0 if missing is None else int(np.count_nonzero(missing))
        self._count(present)
        if self.numbers and len(present):
            if self._comma_form:
                different = pc.unique(present)
                self._comma_form = bool(pc.all(pc.match_substring_regex(different, WITH_COMMA)).as_py())
                self._commas |= bool(pc.any(pc.match_substring(different, ",")).as_py())
                self._points |= bool(pc.any(pc.match_substring(different, ".")).as_py())
            values, wrong = cells.numbers(as_points(present) if self.has_commas else present, self._missing)
            if wrong is None:
                self._add_numbers(values)
            else:
                self.numbers = False
                self.low, self.high, self.sample = math.inf, -math.inf, []
        if not self.numbers and self.days:
            self.timed |= not pc.all(pc.match_substring_regex(present, _WITHOUT_TIME), min_count=0).as_py()
            self._add_days(present)

    def _add_days(self, column: Any) -> None:
        days, wrong = cells.days(column, "iso", self._missing)
        self.days &= wrong is None
        if not cells.is_text(column.type):
            self.missing += int(np.count_nonzero(np.isnan(days)))
        self._take(days[~np.isnan(days)])

    def _add_lists(self, column: Any) -> None:
        self.lists, self.numbers, self.days = True, False, False
        self.missing += column.null_count
        lengths = pc.list_value_length(column).drop_null()
        if self.width is None and len(lengths):
            self.width = lengths[0].as_py()
        values, _ = cells.numbers(column.flatten(), self._missing)
        self._take(values[~np.isnan(values)])

    def _add_numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        present = values[~np.isnan(values)]
        if len(present):
            self.days = False
            self.whole &= bool((present == np.rint(present)).all())
            self.rising &= bool(present[0] > self._last and (present[1:] > present[:-1]).all())
            self._last = float(present[-1])
            self._take(present)
        return present

    def _take(self, present: NDArray[np.float64]) -> None:
        if len(present):
            self.low, self.high = min(self.low, float(present.min())), max(self.high, float(present.max()))
            self.sample.append(present[:: max(1, len(present) // 1000)].copy())

    def _count(self, present: Any) -> None:
        """Values with their rows, until they are too many to list and enough to tell whether rows share them."""
        enough = self.counted >= _LEAST_COUNTED or (self.numbers and not self.whole)
        if len(present) and not (enough and self.distinct > _MOST_VALUES):
            self._counts.add(present)

    def values(self) -> dict[Any, int] | None:
        """The different values with their rows, numbers if all are; None if there are more than 1,000."""
        merged: Counter[Any] = Counter()
        for part in self._parts:
            if part.distinct > _MOST_VALUES:
                return None
            for value, rows in part.listed():
                if self.numbers:
                    value = float(
                        as_points(pa.scalar(value)).as_py() if self.has_commas and isinstance(value, str) else value
                    )
                merged[float(value) if self.numbers else str(value)] += rows
        return dict(merged) if len(merged) <= _MOST_VALUES else None

    def listed(self) -> Iterator[tuple[Any, int]]:
        table = self._counts.table()
        return zip(*(column.to_pylist() for column in table.columns), strict=True) if table is not None else iter(())

    def bars(self) -> tuple[int, ...]:
        """Rows in equal parts of the range, or of each value, the most frequent first; of a sample if rows are many."""
        values = self.values()
        if values and len(values) <= _BARS and (not self.ranged or (self.numbers and self.whole)):
            ordered = sorted(values) if self.numbers else sorted(values, key=lambda value: -values[value])
            return tuple(values[value] for value in ordered)
        if self.ranged and self.sample:
            halves = (self.low / 2, self.high / 2)  # the widest range of all would overflow
            return tuple(np.histogram(np.concatenate(self.sample) / 2, bins=_BARS, range=halves)[0].tolist())
        return tuple(rows for _, rows in Counter(values or {}).most_common(_BARS))


_WITHOUT_TIME = r"^.{10}([T ]00:00(:00([.,]0+)?)?(Z|[+-]00:?00)?)?$"  # a day, or its midnight


def _midnight(times: Any) -> Any:
    return pc.floor_temporal(times.cast(pa.timestamp(times.type.unit)), unit="day").cast(times.type)


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


class TableProfile:
    """Profiles of some columns of one table, by its first ``most_rows`` rows or by all."""

    def __init__(
        self, names: Iterable[str], missing_words: Sequence[str] = MISSING_WORDS, *, most_rows: int | None = _MOST_ROWS
    ) -> None:
        missing = MissingWords.of(missing_words)
        self.columns = {name: ColumnProfile(missing) for name in names}
        self._left = most_rows

    def add(self, table: pa.Table) -> None:
        if self._left is not None:
            table = table.slice(0, self._left)
            self._left -= table.num_rows
        if table.num_rows:
            for name, profile in self.columns.items():
                profile.add(table.column(name))


# --- Columns that may identify people


class _Hint(Enum):
    """What a name says of an identifier, and so what it takes to excuse it."""

    NAMELESS = "there is no name"
    ROW = "it numbers rows"
    PERSON = "it leads to a person"
    CODE = "it may lead to a person, or be a code that many rows share"


_IDENTIFIERS = _word_set(
    """
    identifier uuid guid uid pid ssn mrn nhs npi passport iban vin imei ip url
    surname forename firstname lastname fullname username login email mail phone telephone tel fax mobile
    address addr street dob birthdate birthday zip zipcode postcode postal lat lon latitude longitude gps
    """
)
_OWNERS_OF_NUMBERS = _word_set(
    """
    patient person customer client member subject participant user employee student account policy insurance passport
    phone card encounter case record visit admission medical social national tax security device serial license licence
    """
)
"""What stands before id, number or name where these are somebody's own."""
_PEOPLE = _word_set("patient person customer client member subject participant user employee student")
_NUMBERS = _word_set("id ids no nr nbr number")
_PARTS_OF_NAMES = _word_set("first last full middle maiden given family user host")
_COUNTED = _word_set("is has had num number n no count total days avg mean max min sum")
"""First words that make a count, or yes or no, of whatever comes after them."""
_MEASURES = _word_set(
    """
    count counts length size age type kind flag score rate ratio sum total mean amount duration days months years year
    date time calls status change level balance limit weight country
    """
)
"""Last words that make a measure, or a kind, of whatever comes before them."""
_ROW_NAMES = re.compile(r"unnamed: ?\d+(_level_\d+)?|__index_level_\d+__|row[ _.]?names?|level_0")
_ROW_WORDS = _word_set("index idx row rownum rowno rownumber rowid")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a column's name in small letters: ``PatientID`` and ``patient_id`` are two words each."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", plain)
    # A digit right behind no or nr belongs to it: NO2 is a gas.
    return tuple(re.findall(r"(?:no|nr)\d+|[^\W\d_]+", apart.casefold()))


def _hint(name: str) -> tuple[_Hint, str] | None:
    """What a name says about identifiers, by whole words, and the word that says it; None if it says nothing."""
    words = words_of(name)
    if not name.strip():
        return _Hint.NAMELESS, ""
    if _ROW_NAMES.fullmatch(name.strip().casefold()):
        return _Hint.ROW, name.strip()
    if "".join(words) in _ROW_WORDS:
        return _Hint.CODE, name.strip()
    for pair in (("birth", "date"), ("birth", "day"), ("plate", "license"), ("plate", "licence"), ("ip", "address")):
        if set(pair) <= set(words):
            return _Hint.PERSON, " ".join(word for word in words if word in pair)
    if len(words) > 1 and (words[0] in _COUNTED or words[-1] in _MEASURES):
        return None
    if (found := next((word for word in words if word in _IDENTIFIERS), None)) is not None:
        return _Hint.PERSON, found
    if len(words) == 1 and words[0] in _PEOPLE:
        return _Hint.PERSON, words[0]
    for before, word in zip(("", *words), words, strict=False):
        if word in ("name", "names"):
            return _Hint.PERSON if before in _OWNERS_OF_NUMBERS | _PARTS_OF_NAMES | {""} else _Hint.CODE, word
        if word in _NUMBERS and (before or word in ("id", "ids")):
            own = before in _OWNERS_OF_NUMBERS or len(words) == 1 or (not before and words[1] in ("card", *_NUMBERS))
            return _Hint.PERSON if own else _Hint.CODE, word
        for suffix in _NUMBERS:
            if word.endswith(suffix) and word.removesuffix(suffix) in _OWNERS_OF_NUMBERS:
                return _Hint.PERSON, word
    return None


def names_person(name: str) -> bool:
    hint = _hint(name)
    return hint is not None and hint[0] is _Hint.PERSON


class Reason(StrEnum):
    """Why a column may identify people."""

    NAMELESS = "nameless"
    NAME = "name"
    ROW_NUMBER = "row-number"
    NUMBERED = "numbered"
    OWN_TEXT = "own-text"
    OWN_MOMENT = "own-moment"


_REASONS = {
    Reason.NAMELESS: "it has no name, and a column without a name cannot be a feature: most likely it numbers the rows",
    Reason.ROW_NUMBER: "it numbers the rows",
    Reason.NUMBERED: "nearly every row has a different number, like numbers that were assigned",
    Reason.OWN_TEXT: "nearly every row has a different text",
    Reason.OWN_MOMENT: "nearly every row has a different time",
}


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A column that may identify people; ``word`` is the part of its name that says so, empty where values do."""

    column: str
    reason: Reason
    word: str = ""

    @property
    def why(self) -> str:
        return f"its name says so ({self.word})" if self.reason is Reason.NAME else _REASONS[self.reason]

    @property
    def warning(self) -> str:
        return f"column {self.column!r} may identify people, and leaves with every record: {self.why}"

    def document(self) -> dict[str, str]:
        told = {"column": self.column, "reason": str(self.reason), "word": self.word}
        return {**told, "why": self.why, "warning": self.warning}


def suspicion_of(name: str, *, declared: Any = None, seen: Iterable[ColumnProfile] = ()) -> Suspicion | None:
    """Whether a column may identify people, by its name, its declaration and its profile in each table."""
    profiles = [profile for profile in seen if profile.filled]
    hint, word = _hint(name) or (None, "")
    if hint is _Hint.NAMELESS:
        return Suspicion(name, Reason.NAMELESS)
    if hint is _Hint.ROW:
        return Suspicion(name, Reason.ROW_NUMBER)
    excused = _declared_as_code(hint, declared) or (profiles and all(_shared(hint, profile) for profile in profiles))
    if hint is not None and not excused:
        return Suspicion(name, Reason.NAME, word)
    if isinstance(declared, CategoryColumn | OrdinalColumn) and getattr(declared, "unknown", "refuse") == "refuse":
        return None  # no value leaves that does not stand in the schema
    reason = next((reason for profile in profiles if (reason := _own_values(profile)) is not None), None)
    return None if reason is None else Suspicion(name, reason)


def suspicions_in(schema: Schema, seen: Mapping[str, ColumnProfile] | None = None) -> tuple[Suspicion, ...]:
    """The columns that leave with a record, label included, and may identify people; by names alone without rows."""
    label, declared = schema.declaration.label, dict(schema.declared)
    if label is not None and label.column not in declared and label.values is not None:
        declared[label.column] = CategoryColumn(kind="category", values=label.values)
    answers = (
        suspicion_of(name, declared=declared.get(name), seen=[seen[name]] if seen and name in seen else [])
        for name in schema.record_columns
    )
    return tuple(answer for answer in answers if answer is not None)


def _declared_as_code(hint: _Hint | None, declared: Any) -> bool:
    if isinstance(declared, CategoryColumn | OrdinalColumn):
        return hint is _Hint.CODE or len(declared.values) <= 5
    if isinstance(declared, NumericColumn):
        return declared.bounds[1] - declared.bounds[0] <= (1000 if hint is _Hint.CODE else 1)
    return isinstance(declared, BooleanColumn | VectorColumn | ImageColumn)


def _shared(hint: _Hint | None, profile: ColumnProfile) -> bool:
    """Whether so many rows share each value that it is a code, or yes or no, whatever the name says."""
    if hint is _Hint.CODE and (profile.lists or profile.other or (profile.numbers and not profile.whole)):
        return True
    most, each = (30, 3) if hint is _Hint.CODE else (5, 10)
    few = profile.distinct <= most and profile.counted >= each * profile.distinct
    return few or (hint is _Hint.CODE and profile.counted >= 20 * profile.distinct)


def _own_values(profile: ColumnProfile) -> Reason | None:
    """Whether nearly every row has a value of its own; measures have that too, so numbers must look assigned."""
    rows, repeats = profile.counted, profile.counted - profile.distinct
    if rows < 20 or repeats > 0.1 * rows or profile.has_commas or profile.lists or profile.other:
        return None
    if not profile.numbers:
        if rows < 30 or (profile.days and not profile.timed):
            return None
        return Reason.OWN_MOMENT if profile.days else Reason.OWN_TEXT
    span = profile.high - profile.low + 1.0
    if not profile.whole or repeats:
        return None
    if span == rows:
        return Reason.ROW_NUMBER
    # Of n even draws among R numbers, about n²/2R pairs are equal. Here none is, where ten should be.
    crowded = rows >= 50 and rows**2 >= 20.0 * span
    long = min(abs(profile.low), abs(profile.high)) >= 1e6 and len(f"{profile.low:.0f}") == len(f"{profile.high:.0f}")
    return Reason.NUMBERED if crowded or (rows >= 100 and (profile.rising or long)) else None


def id_that_repeats(tables: Iterable[Mapping[str, ColumnProfile]]) -> str:
    """The first column that leads to a person by its name, and whose values several rows share; empty if none does."""
    tables = list(tables)
    for name in dict.fromkeys(name for table in tables for name in table if names_person(name)):
        seen = [table[name] for table in tables if name in table and table[name].filled]
        suspicion = suspicion_of(name, seen=seen)
        shared = any((each.is_text or (each.numbers and each.whole)) and each.distinct < each.counted for each in seen)
        if suspicion is not None and suspicion.reason is Reason.NAME and shared:
            return name
    return ""


def undeclared_id(source: Source, schema: Schema) -> str:
    """The column that says whose row it is, where the schema declares no id and somebody has several rows.

    By its name and its first rows; empty if there is none.
    """
    names = [name for name in source.schema.names if name not in schema.record_columns and names_person(name)]
    if schema.id_column is not None or not names:
        return ""
    profile = TableProfile(names, schema.declaration.missing_words)
    for block in source.blocks(names):
        profile.add(block.table)
    return id_that_repeats([profile.columns])


# --- Columns that use next to nothing of their bounds

_DEAD = 0.02
_LEAST_ROWS = 10


@dataclass(frozen=True, slots=True)
class DeadColumn:
    """A column whose values use less than 2% of its bounds: one wrong zero among the bounds is enough."""

    column: str

    @property
    def warning(self) -> str:
        return (
            f"column {self.column!r} hardly counts: its values use less than {_DEAD:.0%} of the declared bounds; "
            "declare narrower ones, or leave it out"
        )

    def document(self) -> dict[str, str]:
        return {"column": self.column, "warning": self.warning}


class BoundsUse:
    """How much of its bounds each column uses, over mapped rows."""

    def __init__(self, schema: Schema) -> None:
        self._columns: list[_Bounded] = []
        first = 0
        for described, declared in zip(schema.describe(), schema.declared.values(), strict=True):
            after = first + described.features
            wide = isinstance(declared, ImageColumn) or getattr(declared, "norm", 1.0) is None
            if wide or isinstance(declared, NumericColumn | DateColumn):
                marked = declared.missing == "indicator"
                last = after - 1 if marked else after
                unit = declared.weight / math.sqrt(last - first)
                self._columns.append(_Bounded(described.name, slice(first, last), last if marked else None, unit))
            first = after

    def add(self, rows: NDArray[np.float32], *, skip: Mapping[str, Mask] | None = None) -> None:
        """The next rows as the schema maps them; ``skip`` marks the rows of a column that mean nothing."""
        for column in self._columns:
            means = np.ones(len(rows), dtype=np.bool_) if column.mark is None else rows[:, column.mark] == 0.0
            if skip is not None and column.name in skip:
                means &= ~skip[column.name]
            entries = rows[means, column.entries]
            if entries.size:
                column.rows += len(entries)
                column.least = min(column.least, float(entries.min()))
                column.most = max(column.most, float(entries.max()))

    def dead_columns(self) -> tuple[DeadColumn, ...]:
        """Those that use less than 2%; none is named for fewer than ten rows."""
        return tuple(
            DeadColumn(column.name)
            for column in self._columns
            if column.rows >= _LEAST_ROWS and column.most - column.least < _DEAD * column.unit
        )


@dataclass
class _Bounded:
    """A column with bounds: its entries of a mapped row, the one that marks it missing, and a unit of an entry."""

    name: str
    entries: slice
    mark: int | None
    unit: float
    rows: int = 0
    least: float = math.inf
    most: float = -math.inf


def dead_columns_of(schema: Schema, table: pa.Table, *, table_name: str) -> tuple[DeadColumn, ...]:
    """Of a table in memory; cells that cannot be used do not count."""
    use, rows = BoundsUse(schema), np.zeros((table.num_rows, schema.width), dtype=np.float32)
    encoded = schema.encode_columns(table, rows, table=table_name)
    use.add(rows, skip={one.name: np.logical_or.reduce(list(bad.values())) for one, bad in encoded if bad})
    return use.dead_columns()


def documents_of(found: Iterable[Suspicion | DeadColumn]) -> list[dict[str, str]]:
    return [one.document() for one in found]


# --- Does a table fit a schema?

_WIDE = 100
_SHOWN = 3


def wide_note(numeric: int) -> str:
    """What to do with a table of very many numeric columns; empty if they are fewer than a hundred."""
    if numeric < _WIDE:
        return ""
    query = "sql:SELECT LABEL, [*COLUMNS('pixel.*')] AS pixels FROM 'FILE'"
    return (
        f"{numeric} columns are single numbers; if they belong together (pixels, an embedding), make one list of them, "
        f'such as by "{query}" in place of the file, and declare it as kind: vector with one pair of bounds'
    )


@dataclass
class ColumnCount:
    """What was seen of one column; ``kind`` is ``label`` for a label that is not matched.

    How many cells have each trouble, allowed or not, where the first of them are, and what to do about those that the
    schema does not allow.
    """

    name: str
    kind: str
    counts: dict[Trouble, int] = field(default_factory=lambda: dict.fromkeys(Trouble, 0))
    first: dict[Trouble, list[str]] = field(default_factory=lambda: {trouble: [] for trouble in Trouble})
    complaints: dict[Trouble, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.complaints

    def note(self, trouble: Trouble, mask: Mask, complaint: str | None, locate: Callable[[int], str]) -> None:
        self.counts[trouble] += int(np.count_nonzero(mask))
        room = _SHOWN - len(self.first[trouble])
        self.first[trouble] += [locate(int(row)) for row in np.flatnonzero(mask)[:room]]
        if complaint is not None:
            self.complaints[trouble] = complaint


@dataclass(frozen=True)
class IdSummary:
    """How rows share ids: different ids, most rows of one, ids with more rows than declared, rows without an id."""

    ids: int
    most_rows: int
    over: int
    missing: int


class Inspection:
    """Counts over all blocks of a table of what is missing, out of range, unknown or of the wrong type.

    A target may have no column of labels. Rows that are ``too_long`` have a text that is longer than declared: as an
    owner's they are no rows of any run.
    """

    def __init__(self, schema: Schema, *, labelled: bool = True) -> None:
        self.schema = schema
        self.rows = self.too_long = 0
        self._records = DeclaredRecords(schema)
        self.columns = [ColumnCount(column.name, column.kind) for column in schema.describe()]
        label = schema.declaration.label
        if label is not None and not label.match and labelled:
            self.columns.append(ColumnCount(label.column, "label"))
        held = [name for name in schema.record_columns if labelled or name != schema.label_column]
        self._profile = TableProfile(held, schema.declaration.missing_words)
        self._missing = MissingWords.of(schema.declaration.missing_words)
        self._bounds_use = BoundsUse(schema)
        self._ids, self._ids_missing = _ValueCounts(), 0

    @property
    def ok(self) -> bool:
        ids = self.id_summary()
        sound = all(column.ok for column in self.columns) and not self.numbers_as_words()
        return sound and (ids is None or not (ids.over or ids.missing))

    def add(self, block: Any, *, table: str, locate: Callable[[int], str]) -> None:
        """Take in one block; ``BadTable`` if a declared column is not there."""
        schema = self.schema
        scratch = np.zeros((block.num_rows, schema.width), dtype=np.float32)
        unusable: dict[str, Mask] = {}
        encoded = schema.encode_columns(block, scratch, table=table)
        for count, (encoder, troubles) in zip(self.columns, encoded, strict=False):
            for trouble, mask in troubles.items():
                count.note(trouble, mask, encoder.complaint(trouble), locate)
                unusable[encoder.name] = mask | unusable.get(encoder.name, np.False_)
        self._bounds_use.add(scratch, skip=unusable)
        if self.columns and self.columns[-1].kind == "label":
            for trouble, complaint, mask in schema.label_troubles(block, table=table):
                self.columns[-1].note(trouble, mask, complaint, locate)
        if schema.id_column is not None:
            column = pa.chunked_array([schema.column_of(block, schema.id_column, table=table)])
            ids = written_ids(column, self._missing, table=table, column=schema.id_column)
            self._ids_missing += ids.null_count
            self._ids.add(ids.drop_null())
        self._profile.add(block)
        self.too_long += int(np.count_nonzero(self._records.too_long(block)))
        self.rows += block.num_rows

    def suspicions(self) -> tuple[Suspicion, ...]:
        """Columns that may identify people, by their names and by the first rows."""
        return suspicions_in(self.schema, self._profile.columns)

    def dead_columns(self) -> tuple[DeadColumn, ...]:
        return self._bounds_use.dead_columns()

    def _commas(self, *kinds: type) -> dict[str, bool]:
        """Columns of these kinds with decimal commas, and whether they have points between thousands, too."""
        return {
            name: seen.has_thousands
            for name, seen in self._profile.columns.items()
            if seen.has_commas and isinstance(self.schema.declared.get(name), kinds)
        }

    def numbers_as_words(self) -> dict[str, str]:
        """Columns declared as words of which every value is a number with a decimal comma, and what to do about it."""
        words = "has numbers with decimal commas, and is declared as words; declare kind: numeric, and"
        found = self._commas(CategoryColumn, TextColumn)
        return {name: f"{words} {comma_remedy({name: thousands})}" for name, thousands in found.items()}

    def comma_remedy(self) -> str:
        """What to do about decimal commas in columns that are declared as numbers; empty if there are none."""
        columns = self._commas(NumericColumn)
        return f"decimal commas are not read: {comma_remedy(columns)}" if columns else ""

    def id_summary(self) -> IdSummary | None:
        """How rows share ids; None if the schema declares none."""
        if self.schema.id_column is None:
            return None
        counts = self._ids.row_counts()
        allowed = self.schema.most_rows_per_id
        over = 0 if allowed is None else int(np.count_nonzero(counts > allowed))
        return IdSummary(len(counts), int(counts.max(initial=0)), over, self._ids_missing)

    def taking_part(self) -> int | None:
        """How many rows take part where the schema keeps a few of each id; None where it keeps all."""
        keep = self.schema.keep
        return None if keep is None else int(np.minimum(self._ids.row_counts(), keep).sum())


# --- A first schema from files

_HEAD = """\
# A draft from the types and values of {names}.
# A schema is public. What comes from data tells something about the data: look at every line that says "from data",
# write down what is publicly known instead (a clinical range, the code book's values), and then remove its from_data.
"""
_LEFT_OUT = "# Left out, because they may identify people (likeset schema draft --include COLUMN declares one):\n"
_ABSENT = "# Left out, because not all files have them: {names}\n"
_FOOT = """\
# What a model is to predict; not used for matching unless match: true.
# label: {column: ..., kind: category, values: [...]}
"""
_FOOT_ID = """\
# Whose rows they are, if one person may have several: privacy then protects all of them.
# id: {column: ..., rows_per_id: 1}
"""
_ABOUT_IDS = """\
# Privacy protects all rows of an id at once, so noise grows with rows_per_id: the most rows that one id may have.
"""
_KEEP_FEW = """\
# Fewer rows of each id give less noise: with keep: 1 in place of rows_per_id, one row of each, drawn in secret, counts.
"""
_MOST_CODES, _MOST_NAMED_CODES, _MOST_WORDS, _TEXT_WIDTH = 10, 100, 30, 64
_TRUTH = _word_set("true false yes no t f y n 0 1 0.0 1.0")
_CODES = _word_set(
    """
    id code type kind category class group status region site district area state ward department ethnicity race sex
    gender religion occupation species country
    """
)
_COUNTS = _word_set(
    """
    num number n count counts visits times years year days day hours minutes months age children rooms persons size
    total quantity procedures events income salary price cost amount population weight height length distance
    """
)


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """What was seen of one column, and what it would be as ``column``, ``label``, ``id`` or ``left out``."""

    name: str
    role: str
    kind: str
    why: str
    caution: str
    rows: int
    missing: int
    different: int | None
    low: float | None
    high: float | None
    bars: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "bars": list(self.bars)}


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    """A schema to fill in, and what was seen of every column that all files have.

    ``left_out`` may identify people; so may ``included``, which were asked for by name, or are the label. ``id_hint``
    was left out and looks like an id that repeats. ``absent`` names a file that lacks the column.
    """

    text: str
    profile: tuple[DraftColumn, ...]
    left_out: tuple[Suspicion, ...]
    included: tuple[Suspicion, ...]
    id_hint: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    comma_remedy: str = ""
    wide_note: str = ""


@dataclass(frozen=True, slots=True)
class _Proposal:
    fields: dict[str, Any]
    why: str
    caution: str = ""


def draft(
    sources: Sequence[Source], *, label: str | None = None, ids: str | None = None, include: Collection[str] = ()
) -> SchemaDraft:
    """A schema that fits all sources; what came from data is marked, and what may identify people is left out.

    Columns that are not in all sources are left out; a target may have no label. ``ids`` says whose row it is, and
    ``include`` names columns to declare although they may identify people.
    """
    first, names, absent = sources[0], *_common_columns(sources, label)
    _check_there(sources, names, (label, ids, *include))
    if not names or set(names) <= {label, ids}:
        raise BadTable(first.name, "there is no column that all files have")
    tables, most_rows = _read(sources, names, ids)
    profiles = {name: ColumnProfile.union([table[name] for table in tables if name in table]) for name in names}
    if not any(profile.rows for profile in profiles.values()):
        raise BadTable(first.name, "there are no rows to draft from")
    suspected = (
        suspicion_of(name, seen=[table[name] for table in tables if name in table]) for name in names if name != ids
    )
    suspicions = {suspicion.column: suspicion for suspicion in suspected if suspicion is not None}
    if any(name in suspicions and suspicions[name].reason is Reason.NAMELESS for name in (label, *include)):
        raise BadTable(first.name, "a column without a name cannot be a feature or a label; give it a name in the file")
    left_out = {name: one for name, one in suspicions.items() if name != label and name not in include}
    if set(names) - set(left_out) <= {label, ids}:
        listed = ", ".join(map(repr, left_out))
        raise BadTable(first.name, f"every column may identify people: {listed}; name those to keep with --include")
    proposals = {name: _proposal(name, seen) for name, seen in profiles.items() if name not in left_out}
    columns = {name: made for name, made in proposals.items() if name not in (label, ids)}
    label_fields = {} if label is None else _label_fields(proposals[label], profiles[label])
    commas = {name: seen.has_thousands for name, seen in profiles.items() if seen.has_commas}
    commas = {name: thousands for name, thousands in commas.items() if name in proposals}
    text = "".join(
        [
            *_opening(left_out.values(), absent, ", ".join(source.name for source in sources)),
            *_column_lines(columns),
            _FOOT if label is None else _marked({"label": {"column": label, **label_fields}}, indent=""),
            _id_lines(ids, most_rows),
        ]
    )
    drafted = []
    for name, seen in profiles.items():
        if name in left_out:
            role, kind, why, caution = "left out", "", f"may identify people: {left_out[name].why}", ""
        elif name == ids:
            role, kind, why, caution = "id", "", f"says whose row it is: at most {most_rows:,} rows of one id", ""
        elif name == label:
            lost = "an owner's row without a label cannot be used: leave such rows out" if seen.missing else ""
            made = proposals[name]
            role, kind, why, caution = "label", label_fields["kind"], made.why, lost or made.caution
        else:
            made = proposals[name]
            role, kind, why, caution = "column", made.fields["kind"], made.why, made.caution
        drafted.append(_drafted(name, seen, role, kind=kind, why=why, caution=caution))
    return SchemaDraft(
        text,
        tuple(drafted),
        left_out=tuple(left_out.values()),
        included=tuple(one for name, one in suspicions.items() if name not in left_out),
        id_hint="" if ids is not None else id_that_repeats({n: t[n] for n in left_out if n in t} for t in tables),
        absent=absent,
        comma_remedy=f"decimal commas are not read: {comma_remedy(commas)}" if commas else "",
        wide_note=wide_note(sum(made.fields["kind"] == "numeric" for made in columns.values())),
    )


def _common_columns(sources: Sequence[Source], label: str | None) -> tuple[list[str], dict[str, str]]:
    names, absent = [], {}
    for name in dict.fromkeys(name for source in sources for name in source.schema.names):
        lacking = next((source.name for source in sources if name not in source.schema.names), None)
        if lacking is None or name == label:
            names.append(name)
        else:
            absent[name] = lacking
    return names, absent


def _check_there(sources: Sequence[Source], names: Sequence[str], wanted: Iterable[str | None]) -> None:
    for name in wanted:
        if name is not None and name not in names:
            lacking = next(source for source in sources if name not in source.schema.names)
            near = near_miss(name, names)
            if near or len(sources) == 1:
                raise BadTable(lacking.name, f"is missing{near}", column=name)
            raise BadTable(lacking.name, "is missing; draft from files that have it", column=name)


def _read(
    sources: Sequence[Source], names: Sequence[str], ids: str | None
) -> tuple[list[dict[str, ColumnProfile]], int]:
    """The profiles of each file, and the most rows of one id."""
    tables, most_rows = [], 1
    for source in sources:
        there = [name for name in names if name in source.schema.names]
        profile = TableProfile(there, most_rows=None)
        with ExitStack() as stack:
            counted = None if ids is None else stack.enter_context(IdCount(source, ids, missing=MISSING_WORDS))
            for block in source.blocks(there):
                profile.add(block.table)
                if counted is not None:
                    counted.add(block)
            most_rows = most_rows if counted is None else max(most_rows, counted.most_rows())
        tables.append(profile.columns)
    return tables, most_rows


def _drafted(name: str, seen: ColumnProfile, role: str, *, kind: str, why: str, caution: str) -> DraftColumn:
    """Of an identifier, neither the range nor the histogram is shown."""
    shown, values = role in ("column", "label"), seen.values()
    ranged = shown and seen.ranged and kind != "date"
    return DraftColumn(
        name,
        role,
        kind,
        why,
        caution,
        rows=seen.rows,
        missing=seen.missing,
        different=None if values is None else len(values),
        low=seen.low if ranged else None,
        high=seen.high if ranged else None,
        bars=seen.bars() if shown else (),
    )


def _proposal(name: str, seen: ColumnProfile) -> _Proposal:
    made = _kind(name, seen)
    fields, caution = dict(made.fields), made.caution
    if seen.missing:
        fields["missing"] = "indicator"
    if {"bounds", "values"} & set(fields):
        fields["from_data"] = True
    if not caution and ((seen.ranged and seen.low == seen.high) or len(fields.get("values", "..")) == 1):
        caution = "every row has the same value: leave it out"
    if not caution and fields["kind"] == "numeric":
        low, high = np.percentile(np.concatenate(seen.sample), (1, 99)).tolist()
        if high - low < _DEAD * (fields["bounds"][1] - fields["bounds"][0]):
            caution = "a few far values stretch the bounds: declare narrower ones with outside: clip, or scale: log"
    return _Proposal(fields, made.why, caution)


def _kind(name: str, seen: ColumnProfile) -> _Proposal:
    values, words = seen.values(), words_of(name) or ("",)
    count = "more than 1,000" if values is None else f"{len(values):,}"
    different = f"{count} different value{'' if count == '1' else 's'}"
    if not seen.filled:
        return _Proposal({"kind": "text", "width": _TEXT_WIDTH}, "no value in any row", "leave it out: it is empty")
    if seen.lists:
        fields = {"kind": "vector", "width": seen.width or 1, "bounds": rounded_outward(seen.low, seen.high)}
        return _Proposal(fields, f"lists of {seen.width or 1} numbers")
    if not seen.numbers and seen.days and seen.ranged:
        return _Proposal({"kind": "date", "bounds": _years(seen.low, seen.high)}, "days")
    # One word in all rows is more often the only code of many, such as N for north.
    truth = values and {str(value).lower() for value in values} <= _TRUTH and (seen.numbers or len(values) > 1)
    if seen.truth or (truth and not seen.has_commas):
        return _Proposal({"kind": "boolean"}, "truth values, such as 0 and 1")
    category = {"kind": "category", "values": sorted(values or ())}
    if seen.numbers:
        numeric = {"kind": "numeric", "bounds": rounded_outward(seen.low, seen.high)}
        if seen.has_commas:
            return _Proposal(numeric, "numbers with decimal commas", "not read as they are")
        if not seen.whole:
            return _Proposal(numeric, "numbers with decimals")
        is_code = words[-1] in _CODES or words[-1].endswith("code")
        if is_code and values and len(values) <= _MOST_NAMED_CODES:
            return _Proposal(category, f"a code: its name says {words[-1]}, and it has {different}")
        if is_code:
            caution = "if these are codes, numbers that are near mean nothing: group them, or leave them out"
            return _Proposal(numeric, f"whole numbers, too many for a category: its name says {words[-1]}", caution)
        if counted := {words[0], words[-1]} & _COUNTS:
            return _Proposal(numeric, f"a count or measure: its name says {min(counted)}")
        if values and len(values) <= _MOST_CODES:
            return _Proposal(category, f"codes: {different}, and a name that does not say count")
        return _Proposal(numeric, f"whole numbers: {different}")
    if values and len(values) <= _MOST_WORDS:
        return _Proposal(category, f"words: {different}")
    return _Proposal({"kind": "text", "width": _TEXT_WIDTH}, f"texts: {different}, compared by pieces of three letters")


def _label_fields(made: _Proposal, seen: ColumnProfile) -> dict[str, Any]:
    """A label with few values is a class, also where a column of its kind would be a count."""
    kind, values = made.fields["kind"], seen.values()
    classes = kind in ("category", "boolean")
    if values and (classes or (seen.numbers and seen.whole and len(values) <= _MOST_CODES)):
        return {"kind": "category", "values": sorted(values), "from_data": True}
    return {"kind": "category" if classes else "number" if kind == "numeric" else "text"}


def rounded_outward(low: float, high: float) -> list[float]:
    """Outward to the leading digit of the range: the exact extremes are somebody's, and zero need not be a bound."""
    if not low <= high:
        return [0.0, 1.0]
    least, most = Decimal(repr(low)), Decimal(repr(high))
    span = (most - least) or abs(most) or Decimal(1)
    step = Decimal(1).scaleb(span.adjusted())
    bounds = [
        (least / step).to_integral_value(ROUND_FLOOR) * step,
        (most / step).to_integral_value(ROUND_CEILING) * step,
    ]
    if bounds[0] == bounds[1]:
        bounds[1] += step
    return [float(bound) + 0.0 for bound in bounds]


def _years(low: float, high: float) -> list[str]:
    first, last = (date.fromordinal(int(day) + date(1970, 1, 1).toordinal()).year for day in (low, high))
    return [f"{first:04d}-01-01", f"{last + 1:04d}-01-01"]


def _opening(left_out: Collection[Suspicion], absent: Collection[str], shown: str) -> Iterator[str]:
    yield _HEAD.format(names=" ".join(shown.split()))
    if left_out:
        yield _LEFT_OUT
        yield from (f"#   {json.dumps(suspicion.column)}: {suspicion.why}\n" for suspicion in left_out)
    if absent:
        yield _ABSENT.format(names=", ".join(map(json.dumps, absent)))
    yield "likeset: schema\nversion: 1\ncolumns:\n"


def _column_lines(proposals: Mapping[str, _Proposal]) -> Iterator[str]:
    for name, proposed in proposals.items():
        if proposed.caution:
            yield f"  # {proposed.caution}\n"
        yield _marked({name: proposed.fields}, indent="  ")


def _id_lines(ids: str | None, most_rows: int) -> str:
    if ids is None:
        return _FOOT_ID
    declared = _marked({"id": {"column": ids, "rows_per_id": most_rows, "from_data": True}}, indent="")
    return _ABOUT_IDS + (_KEEP_FEW if most_rows > 1 else "") + declared


def _marked(content: Mapping[str, Any], *, indent: str) -> str:
    """As YAML, with a comment before every line that came from data."""
    lines = []
    for line in documents.to_yaml(content).splitlines():
        if line.strip().startswith(("bounds:", "values:", "rows_per_id:")):
            lines.append(f"{indent}  # {MARK}\n")
        lines.append(f"{indent}{line}\n")
    return "".join(lines)
