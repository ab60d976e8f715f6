"""Profiles of tables: what rows show of each column, and what follows from it.

One pass makes one record for each column (``ColumnProfile``). From it follow the columns that may identify people, the
columns that use next to nothing of their bounds, whether a table fits a schema (``Inspection``), and a first schema
(``draft``). Profiles stay with the holder of the rows. A schema is public, so a draft marks values that came from data.
"""

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset import documents
from likeset.errors import BadTable
from likeset.tables import cells, columns
from likeset.tables.cells import Mask, MissingWords
from likeset.tables.columns import CategoryColumn, ImageColumn, NumericColumn, OrdinalColumn, Trouble
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import IdCount
from likeset.tables.schema import MISSING_WORDS, Schema
from likeset.tables.sources import Source
from likeset.text import near_miss

MARK = "from data: replace by public knowledge"
_MOST_ROWS = 200_000  # of a table that are profiled to find identifiers
_MOST_VALUES = 1000
_LEAST_COUNTED = 20_000
_BARS = 12
_WITH_COMMA = r"^[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?([eE][+-]?[0-9]+)?$"
_WITHOUT_TIME = r"^.{10}([T ]00:00(:00([.,]0+)?)?(Z|[+-]00:?00)?)?$"  # a day, or its midnight


# --- What one pass shows of a column


class ColumnProfile:
    """What the rows of a table show of one column.

    ``numbers``, ``whole``, ``days`` and ``rising`` hold for every value so far; ``timed`` where some day has a time.
    ``low`` and ``high`` are numbers, or days since 1970. Of more than 1,000 different values only those of the first
    rows are ``counted``.
    """

    def __init__(self, missing: MissingWords) -> None:
        self._missing = missing
        self.rows = self.missing = self.counted = 0
        self.numbers = self.whole = self.days = self.rising = True
        self.timed = self.truth = self.lists = self.other = False
        self._comma_form, self._commas = True, False  # every text may be a number with a comma; some have one
        self.low, self.high, self._last = math.inf, -math.inf, -math.inf
        self.width: int | None = None
        self.sample: list[NDArray[np.float64]] = []
        self._counts = cells.ValueCounts()
        self._parts: Sequence[ColumnProfile] = (self,)

    @classmethod
    def union(cls, parts: Sequence["ColumnProfile"]) -> "ColumnProfile":
        whole, filled = cls(parts[0]._missing), [part for part in parts if part.filled] or parts[:1]
        whole._parts = filled
        whole.rows, whole.missing = sum(part.rows for part in parts), sum(part.missing for part in parts)
        for name in ("numbers", "whole", "days", "truth", "_comma_form"):
            setattr(whole, name, all(getattr(part, name) for part in filled))
        for name in ("timed", "lists", "other", "_commas"):
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
    def distinct(self) -> int:
        return len(self._counts.rows())

    def add(self, column: Any) -> None:
        column = cells.plain_array(column)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        self.rows += len(column)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            self.lists, self.numbers, self.days = True, False, False
            self.missing += column.null_count
            lengths = pc.list_value_length(column).drop_null()
            if self.width is None and len(lengths):
                self.width = lengths[0].as_py()
            self._take(cells.numbers(column.flatten(), self._missing)[0])
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            self.numbers = False
            self.missing += column.null_count
            self._add_days(column)
            self._count(column.drop_null())
            self.timed |= pa.types.is_timestamp(kind) and bool(pc.any(pc.not_equal(column, _midnight(column))).as_py())
        elif cells.is_text(kind):
            self._add_text(column)
        elif cells.is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
            self.truth = pa.types.is_boolean(kind)
            values, wrong = cells.numbers(column, self._missing)
            self.numbers &= not wrong.any()
            self.missing += int(np.count_nonzero(np.isnan(values)))
            self._count(pa.array(self._add_numbers(values)))
        else:
            self.other, self.numbers, self.days = True, False, False
            self.missing += column.null_count

    def _add_text(self, column: Any) -> None:
        present = cells.text(column, self._missing)[0].drop_null()
        self.missing += len(column) - len(present)
        self._count(present)
        if self.numbers and len(present):
            if self._comma_form:
                different = pc.unique(present)
                self._comma_form = bool(pc.all(pc.match_substring_regex(different, _WITH_COMMA)).as_py())
                self._commas |= bool(pc.any(pc.match_substring(different, ",")).as_py())
            values, wrong = cells.numbers(_with_points(present) if self.has_commas else present, self._missing)
            if not wrong.any():
                self._add_numbers(values)
            else:
                self.numbers = False
                self.low, self.high, self.sample = math.inf, -math.inf, []
        if not self.numbers and self.days:
            self.timed |= not pc.all(pc.match_substring_regex(present, _WITHOUT_TIME), min_count=0).as_py()
            self._add_days(present)

    def _add_days(self, column: Any) -> None:
        days, wrong = cells.days(column, "iso", self._missing)
        self.days &= not wrong.any()
        self._take(days)

    def _add_numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        present = self._take(values)
        if len(present):
            self.days = False
            self.whole &= bool((present == np.rint(present)).all())
            self.rising &= bool(present[0] > self._last and (present[1:] > present[:-1]).all())
            self._last = float(present[-1])
        return present

    def _take(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        present = values[~np.isnan(values)]
        if len(present):
            self.low, self.high = min(self.low, float(present.min())), max(self.high, float(present.max()))
            self.sample.append(present[:: max(1, len(present) // 1000)].copy())
        return present

    def _count(self, present: Any) -> None:
        """Values with their rows, until they are too many to list and enough to tell whether rows share them."""
        enough = self.counted >= _LEAST_COUNTED or (self.numbers and not self.whole)
        if not len(present) or (enough and self.distinct > _MOST_VALUES):
            return
        self._counts.add(present)
        self.counted += len(present)

    def values(self) -> dict[Any, int] | None:
        """The different values with their rows, numbers if all are; None if there are more than 1,000."""
        merged: Counter[Any] = Counter()
        for part in self._parts:
            if part.distinct > _MOST_VALUES:
                return None
            for value, rows in part._counts.items():
                text = _with_points(pa.scalar(value)).as_py() if self.has_commas and isinstance(value, str) else value
                merged[float(text) if self.numbers else str(value)] += rows
        return dict(merged) if len(merged) <= _MOST_VALUES else None

    def bars(self) -> list[int]:
        """Rows in equal parts of the range, or of each value, the most frequent first; of a sample if rows are many."""
        values = self.values()
        if self.ranged and not (values and len(values) <= _BARS and self.numbers and self.whole):
            halves = (self.low / 2, self.high / 2)  # the widest range of all would overflow
            bars: list[int] = np.histogram(np.concatenate(self.sample) / 2, bins=_BARS, range=halves)[0].tolist()
            return bars
        counted = sorted((values or {}).items()) if self.numbers else Counter(values or {}).most_common(_BARS)
        return [rows for _, rows in counted]


def _midnight(times: Any) -> Any:
    return pc.floor_temporal(times.cast(pa.timestamp(times.type.unit)), unit="day").cast(times.type)


def _with_points(texts: Any) -> Any:
    """Numbers with decimal commas as numbers with a point, without points between thousands."""
    return pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")


def comma_remedy(names: Iterable[str]) -> str:
    """The remedy for columns with decimal commas: one query for all of them; empty if there are none."""
    quoted = ['"' + column.replace('"', '""') + '"' for column in names]
    parts = ", ".join(f"replace(replace({name}, '.', ''), ',', '.') AS {name}" for name in quoted)
    query = f"sql:SELECT * REPLACE ({parts}) FROM read_csv('FILE', all_varchar=true)"  # noqa: S608 (words for people)
    return f"decimal commas are not read: write decimal points, or give {query} in place of the file" if parts else ""


class TableProfile:
    """Profiles of some columns of one table, by its first ``most_rows`` rows or by all."""

    def __init__(
        self, names: Iterable[str], missing_words: Sequence[str] = MISSING_WORDS, *, most_rows: int | None = _MOST_ROWS
    ) -> None:
        missing = MissingWords.of(missing_words)
        self.columns = {name: ColumnProfile(missing) for name in names}
        self._left = most_rows

    @classmethod
    def declared(cls, schema: Schema, *, labelled: bool = True) -> Self:
        """Of the columns that leave with a record, by the first rows; a target may have no label."""
        words = schema.declaration.missing_words
        profile = cls([name for name in schema.record_columns if labelled or name != schema.label_column], words)
        for name, column in schema.declared.items():
            if name in profile.columns:
                profile.columns[name] = ColumnProfile(
                    MissingWords.of(words).also(getattr(column, "missing_values", ()))
                )
        return profile

    def add(self, table: pa.Table) -> None:
        if self._left is not None:
            table = table.slice(0, self._left)
            self._left -= table.num_rows
        if table.num_rows:
            for name, profile in self.columns.items():
                profile.add(table.column(name))


# --- Columns that may identify people

_PEOPLE = "patient|person|customer|client|member|subject|participant|user|employee|student"
_THEIRS = (  # things with numbers that belong to one person
    "account|policy|insurance|phone|card|encounter|case|record|visit|admission|medical|social|national|tax|security|"
    "device|serial|licen[cs]e"
)
_NUMBER = "ids?|no|nr|nbr|number"
_BIRTH = re.compile(r"\bbirth ?da(?:te|y)\b|\bda(?:te|y) of birth\b")
_PERSON = re.compile(
    r"\b(?:identifier|uuid|guid|uid|pid|ssn|mrn|nhs|npi|passport|iban|vin|imei|ip|url|surname|forename|login|e?mail|"
    r"phone|telephone|tel|fax|mobile|address|addr|street|dob|zip|zipcode|postcode|postal|lat|lon|latitude|longitude|gps|"
    rf"licen[cs]e plate|id (?:card|{_NUMBER})|(?:{_PEOPLE}|{_THEIRS}) ?(?:{_NUMBER}|names?)|"
    rf"(?:first|last|full|middle|maiden|given|family|host) ?names?)\b|^names?\b|^(?:ids?|{_PEOPLE})$"
)
_CODE = re.compile(rf"\b(?:\w+ (?:{_NUMBER})|ids?|names?)\b|^(?:index|idx|row|row ?(?:num|{_NUMBER}))$")
# First words that make a count, or yes or no, of the others; last words that make a measure, or a kind, of the others.
_HARMLESS = re.compile(
    r"^(?:is|has|had|num|number|n|no|count|total|days|avg|mean|max|min|sum)\b.* |"
    r" (?:counts?|length|size|age|type|kind|flag|score|rate|ratio|sum|total|mean|amount|duration|days|months|years?|"
    r"date|time|calls|status|change|level|balance|limit|weight|country)$"
)
_ROW_NAME = re.compile(r"unnamed: ?\d+(_level_\d+)?|__index_level_\d+__|row[ _.]?names?|level_0")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a column's name in small letters: ``PatientID`` and ``patient_id`` are two words each."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", plain)
    # A digit right behind no or nr belongs to it: NO2 is a gas.
    return tuple(re.findall(r"(?:no|nr)\d+|[^\W\d_]+", apart.casefold()))


def _hint(name: str) -> tuple[str, str]:
    """Whether a name leads to a ``person``, or may be a ``code`` that many rows share, and the words that say so."""
    words = " ".join(words_of(name))
    found = _BIRTH.search(words)
    if found is None and not _HARMLESS.search(words):
        found = _PERSON.search(words)
    if found is not None:
        return "person", found.group()
    code = None if _HARMLESS.search(words) else _CODE.search(words)
    return ("", "") if code is None else ("code", code.group())


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
    if not name.strip():
        return Suspicion(name, Reason.NAMELESS)
    if _ROW_NAME.fullmatch(name.strip().casefold()):
        return Suspicion(name, Reason.ROW_NUMBER)
    hint, word = _hint(name)
    excused = _declared_as_code(hint, declared) or (profiles and all(_shared(hint, profile) for profile in profiles))
    if hint and not excused:
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


def _declared_as_code(hint: str, declared: Any) -> bool:
    if isinstance(declared, CategoryColumn | OrdinalColumn):
        return hint == "code" or len(declared.values) <= 5
    if isinstance(declared, NumericColumn):
        return declared.bounds[1] - declared.bounds[0] <= (1000 if hint == "code" else 1)
    return isinstance(declared, columns.BooleanColumn | columns.VectorColumn | ImageColumn)


def _shared(hint: str, profile: ColumnProfile) -> bool:
    """Whether many rows share each value: then the column is a code, or yes or no, despite its name."""
    if hint == "person":
        return profile.distinct <= 5 and profile.counted >= 10 * profile.distinct
    if profile.lists or profile.other or (profile.numbers and not profile.whole):
        return True
    return profile.counted >= (3 if profile.distinct <= 30 else 20) * profile.distinct


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
    # Of n uniform draws among R numbers, about n²/2R pairs are equal: here no pair, where ten were expected.
    crowded = rows >= 50 and rows**2 >= 20.0 * span
    long = min(abs(profile.low), abs(profile.high)) >= 1e6 and len(f"{profile.low:.0f}") == len(f"{profile.high:.0f}")
    return Reason.NUMBERED if crowded or (rows >= 100 and (profile.rising or long)) else None


def id_that_repeats(tables: Sequence[Mapping[str, ColumnProfile]]) -> str:
    """The first column that leads to a person by its name, and whose values several rows share; empty if none does."""
    for name in dict.fromkeys(name for table in tables for name in table if _hint(name)[0] == "person"):
        seen = [table[name] for table in tables if name in table and table[name].filled]
        repeats = any(each.distinct < each.counted for each in seen if each.whole and not each.days)
        suspicion = suspicion_of(name, seen=seen)
        if repeats and suspicion is not None and suspicion.reason is Reason.NAME:
            return name
    return ""


def undeclared_id(source: Source, schema: Schema) -> str:
    """The column that identifies a person with several rows, if the schema declares no id; empty if there is none.

    Its name and its first rows decide.
    """
    names = [name for name in source.schema.names if name not in schema.record_columns and _hint(name)[0] == "person"]
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


def dead_columns_in(schema: Schema, seen: Mapping[str, ColumnProfile]) -> tuple[DeadColumn, ...]:
    """The columns that use less than 2% of their bounds, of at least ten rows."""
    return tuple(
        DeadColumn(name)
        for name, declared in schema.declared.items()
        if name in seen and seen[name].rows - seen[name].missing >= _LEAST_ROWS and _used(declared, seen[name]) < _DEAD
    )


def _used(declared: Any, profile: ColumnProfile) -> float:
    """The part of the declared bounds that values span; 1 for a column without bounds."""
    bounds = getattr(declared, "bounds", None)
    if bounds is None or not profile.ranged:
        return 1.0
    ends = [*map(columns.day_number, bounds)] if isinstance(declared, columns.DateColumn) else bounds
    values = np.clip([profile.low, profile.high, *ends], *ends)
    low, high, least, most = np.log(values) if getattr(declared, "scale", "") == "log" else values
    return float((high - low) / (most - least))


def documents_of(found: Iterable[Suspicion | DeadColumn]) -> list[dict[str, str]]:
    return [one.document() for one in found]


# --- Does a table fit a schema?

_WIDE = 100
_SHOWN = 3


def wide_note(numeric: int) -> str:
    """Advice for a table of at least a hundred numeric columns; empty for fewer."""
    if numeric < _WIDE:
        return ""
    query = "sql:SELECT LABEL, [*COLUMNS('pixel.*')] AS pixels FROM 'FILE'"
    return (
        f"{numeric} columns are single numbers; if they belong together (pixels, an embedding), make one list of them, "
        f'such as by "{query}" in place of the file, and declare it as kind: vector with one pair of bounds'
    )


@dataclass
class ColumnCount:
    """How many cells of a column have each trouble, where the first are, and what to do about those not allowed.

    ``kind`` is ``label`` for a label that is not matched.
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
        self._profile = TableProfile.declared(schema, labelled=labelled)
        words = schema.declaration.missing_words
        self._ids = None if schema.id_column is None else IdCount(schema.id_column, words)

    @property
    def ok(self) -> bool:
        ids = self.id_summary()
        return all(column.ok for column in self.columns) and (ids is None or not (ids.over or ids.missing))

    def add(self, block: Any, *, table: str, locate: Callable[[int], str]) -> None:
        """Take in one block; ``BadTable`` if a declared column is not there."""
        schema = self.schema
        scratch = np.zeros((block.num_rows, schema.width), dtype=np.float32)
        encoded = schema.encode_columns(block, scratch, table=table)
        for count, (encoder, troubles) in zip(self.columns, encoded, strict=False):
            for trouble, mask in troubles.items():
                count.note(trouble, mask, encoder.complaint(trouble), locate)
        if self.columns and self.columns[-1].kind == "label":
            for trouble, complaint, mask in schema.labels(block, table=table)[1]:
                self.columns[-1].note(trouble, mask, complaint, locate)
        if self._ids is not None:
            self._ids.count(schema.column_of(block, self._ids.columns[0], table=table))
        self._profile.add(block)
        self.too_long += int(np.count_nonzero(self._records.too_long(block)))
        self.rows += block.num_rows

    def suspicions(self) -> tuple[Suspicion, ...]:
        """Columns that may identify people, by their names and by the first rows."""
        return suspicions_in(self.schema, self._profile.columns)

    def dead_columns(self) -> tuple[DeadColumn, ...]:
        return dead_columns_in(self.schema, self._profile.columns)

    def comma_remedy(self) -> str:
        """The remedy for decimal commas in columns that are declared as numbers; empty if there are none."""
        declared, seen = self.schema.declared, self._profile.columns
        return comma_remedy(
            name for name, each in seen.items() if each.has_commas and isinstance(declared.get(name), NumericColumn)
        )

    def id_summary(self) -> IdSummary | None:
        """How rows share ids; None if the schema declares none."""
        if self._ids is None:
            return None
        ids, allowed = self._ids.histogram(), self.schema.most_rows_per_id
        over = 0 if allowed is None else sum(count for rows, count in ids.items() if rows > allowed)
        return IdSummary(sum(ids.values()), max(ids, default=0), over, self._ids.missing)

    def taking_part(self) -> int | None:
        """How many rows take part where the schema keeps a few of each id; None where it keeps all."""
        keep = self.schema.keep
        if self._ids is None or keep is None:
            return None
        return sum(min(rows, keep) * count for rows, count in self._ids.histogram().items())


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
_TRUTH = {"true", "false", "yes", "no", "t", "f", "y", "n", "0", "1", "0.0", "1.0"}
_CODE_WORD = re.compile(
    r"\b(?:id|\w*code|type|kind|category|class|group|status|region|site|district|area|state|ward|department|ethnicity|"
    r"race|sex|gender|religion|occupation|species|country)$"
)
_COUNT_WORDS = (
    "num|number|n|counts?|visits|times|years?|days?|hours|minutes|months|age|children|rooms|persons|size|total|quantity|"
    "procedures|events|income|salary|price|cost|amount|population|weight|height|length|distance"
)
_COUNT_WORD = re.compile(rf"^(?:{_COUNT_WORDS})\b|\b(?:{_COUNT_WORDS})$")


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    """A schema to fill in, and a ``profile`` of every column that all files have.

    A profile says what the column would be (its ``role``: ``column``, ``label``, ``id`` or ``left out``, and its
    ``kind``), ``why``, with what ``caution``, and shows its rows; of an identifier, neither range nor histogram.
    ``left_out`` may identify people; so may ``included``, which were asked for by name, or are the label. ``id_hint``
    was left out and looks like an id that repeats. ``absent`` names a file that lacks the column.
    """

    text: str
    profile: tuple[dict[str, Any], ...]
    left_out: tuple[Suspicion, ...]
    included: tuple[Suspicion, ...]
    id_hint: str
    absent: Mapping[str, str]
    comma_remedy: str
    wide_note: str


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
    suspected = (suspicion_of(n, seen=[table[n] for table in tables if n in table]) for n in names if n != ids)
    suspicions = {suspicion.column: suspicion for suspicion in suspected if suspicion is not None}
    if any(name in suspicions and suspicions[name].reason is Reason.NAMELESS for name in (label, *include)):
        raise BadTable(first.name, "a column without a name cannot be a feature or a label; give it a name in the file")
    left_out = {name: one for name, one in suspicions.items() if name != label and name not in include}
    if set(names) - set(left_out) <= {label, ids}:
        listed = ", ".join(map(repr, left_out))
        raise BadTable(first.name, f"every column may identify people: {listed}; name those to keep with --include")
    drafted, lines, foot, numeric = list[dict[str, Any]](), list[str](), _FOOT, 0
    for name, seen in profiles.items():
        fields: dict[str, Any] = {}
        if name in left_out:
            role, why, caution = "left out", f"may identify people: {left_out[name].why}", ""
        elif name == ids:
            role, why, caution = "id", f"says whose row it is: at most {most_rows:,} rows of one id", ""
        else:
            role, (fields, why, caution) = "column", _proposal(name, seen)
            if name == label:
                role, fields = "label", _label_fields(fields["kind"], seen)
                foot = _marked({"label": {"column": label, **fields}}, indent="")
                if seen.missing:
                    caution = "an owner's row without a label cannot be used: leave such rows out"
                elif fields["kind"] == "number" and seen.whole:
                    caution = "too many whole numbers for classes: if they are codes, declare kind: category"
            else:
                lines += [f"  # {caution}\n"] if caution else []
                lines.append(_marked({name: fields}, indent="  "))
                numeric += fields["kind"] == "numeric"
        told = {"name": name, "role": role, "kind": fields.get("kind", ""), "why": why, "caution": caution}
        drafted.append({**told, **_shown(seen, role, told["kind"])})
    shown = " ".join(", ".join(source.name for source in sources).split())
    head = [_HEAD.format(names=shown), *([_LEFT_OUT] if left_out else [])]
    head += [f"#   {json.dumps(suspicion.column)}: {suspicion.why}\n" for suspicion in left_out.values()]
    head += [_ABSENT.format(names=", ".join(map(json.dumps, absent)))] if absent else []
    return SchemaDraft(
        "".join([*head, "likeset: schema\nversion: 1\ncolumns:\n", *lines, foot, _id_lines(ids, most_rows)]),
        tuple(drafted),
        left_out=tuple(left_out.values()),
        included=tuple(one for name, one in suspicions.items() if name not in left_out),
        id_hint="" if ids is not None else id_that_repeats([{n: t[n] for n in left_out if n in t} for t in tables]),
        absent=absent,
        comma_remedy=comma_remedy(name for name, seen in profiles.items() if seen.has_commas and name not in left_out),
        wide_note=wide_note(numeric),
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
            near = near_miss(name, names) or ("" if len(sources) == 1 else "; draft from files that have it")
            raise BadTable(lacking.name, f"is missing{near}", column=name)


def _read(
    sources: Sequence[Source], names: Sequence[str], ids: str | None
) -> tuple[list[dict[str, ColumnProfile]], int]:
    """The profiles of each file, and the most rows of one id."""
    tables, most_rows = [], 1
    for source in sources:
        there = [name for name in names if name in source.schema.names]
        profile, counted = TableProfile(there, most_rows=None), IdCount(ids or "", MISSING_WORDS, table=source.name)
        for block in source.blocks(there):
            profile.add(block.table)
            if ids is not None:
                counted.add(block)
        most_rows = max(most_rows, counted.most_rows())
        tables.append(profile.columns)
    return tables, most_rows


def _shown(seen: ColumnProfile, role: str, kind: str) -> dict[str, Any]:
    shown, values = role in ("column", "label"), seen.values()
    ranged = shown and seen.ranged and kind != "date"
    return {
        "rows": seen.rows,
        "missing": seen.missing,
        "different": None if values is None else len(values),
        "low": seen.low if ranged else None,
        "high": seen.high if ranged else None,
        "bars": seen.bars() if shown else [],
    }


def _proposal(name: str, seen: ColumnProfile) -> tuple[dict[str, Any], str, str]:
    """The declaration of a column, why it is so, and what to look at."""
    fields, why, caution = _kind(name, seen)
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
    return fields, why, caution


def _kind(name: str, seen: ColumnProfile) -> tuple[dict[str, Any], str, str]:
    values, words = seen.values(), " ".join(words_of(name))
    count = "more than 1,000" if values is None else f"{len(values):,}"
    different = f"{count} different value{'' if count == '1' else 's'}"
    text = {"kind": "text", "width": _TEXT_WIDTH}
    if not seen.filled:
        return text, "no value in any row", "leave it out: it is empty"
    if seen.lists:
        width = seen.width or 1
        vector = {"kind": "vector", "width": width, "bounds": rounded_outward(seen.low, seen.high)}
        return vector, f"lists of {width} numbers", ""
    if not seen.numbers and seen.days and seen.ranged:
        return {"kind": "date", "bounds": _years(seen.low, seen.high)}, "days", ""
    # One word in all rows is more often the only code of many, such as N for north.
    truth = values and {str(value).lower() for value in values} <= _TRUTH and (seen.numbers or len(values) > 1)
    if seen.truth or (truth and not seen.has_commas):
        return {"kind": "boolean"}, "truth values, such as 0 and 1", ""
    category = {"kind": "category", "values": sorted(values or ())}
    if not seen.numbers:
        if values and len(values) <= _MOST_WORDS:
            return category, f"words: {different}", ""
        return text, f"texts: {different}, compared by pieces of three letters", ""
    numeric = {"kind": "numeric", "bounds": rounded_outward(seen.low, seen.high)}
    if seen.has_commas:
        return numeric, "numbers with decimal commas", "not read as they are"
    if not seen.whole:
        return numeric, "numbers with decimals", ""
    if code := _CODE_WORD.search(words):
        if values and len(values) <= _MOST_NAMED_CODES:
            return category, f"a code: its name says {code.group()}, and it has {different}", ""
        caution = "if these are codes, numbers that are near mean nothing: group them, or leave them out"
        return numeric, f"whole numbers, too many for a category: its name says {code.group()}", caution
    if counted := _COUNT_WORD.search(words):
        return numeric, f"a count or measure: its name says {counted.group()}", ""
    if values and len(values) <= _MOST_CODES:
        return category, f"codes: {different}, and a name that does not say count", ""
    return numeric, f"whole numbers: {different}", ""


def _label_fields(kind: str, seen: ColumnProfile) -> dict[str, Any]:
    """A label with few values is a class, also where a column of its kind would be a count."""
    values, classes = seen.values(), kind in ("category", "boolean")
    if values and (classes or (seen.numbers and seen.whole and len(values) <= _MOST_CODES)):
        return {"kind": "category", "values": sorted(values), "from_data": True}
    return {"kind": "category" if classes else "number" if kind == "numeric" else "text"}


def rounded_outward(low: float, high: float) -> list[float]:
    """Rounded outward to the leading digit of the range: the exact extremes belong to single rows."""
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
