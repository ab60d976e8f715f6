"""Profiles of tables: what rows show of each column, and what follows from it.

One pass makes one record for each column (``ColumnProfile``). From it follow the columns that may identify people, the
columns that use next to nothing of their bounds, whether a table fits a schema (``Inspection``), and a first schema
(``draft``). Profiles stay with the holder of the rows. A schema is public, so a draft marks values that came from data.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from textwrap import indent
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset import documents
from likeset.errors import BadTable
from likeset.tables import cells, columns
from likeset.tables.cells import Mask, MissingWords
from likeset.tables.columns import CategoryColumn, DateColumn, ImageColumn, NumericColumn, OrdinalColumn, Trouble
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import IdCount
from likeset.tables.schema import MISSING_WORDS, Schema
from likeset.tables.sources import Source
from likeset.text import near_miss

_MOST_ROWS = 200_000  # of a table that are profiled to find identifiers
_MOST_VALUES = 1000
_LEAST_COUNTED = 20_000
_DAY_SHAPES = {
    "iso": cells.DAY,
    "%d.%m.%Y": r"^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}$",
    "%Y/%m/%d": "^[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}$",
    "%d/%m/%Y": "^[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}$",
    "%m/%d/%Y": "^[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}$",
}
_AMBIGUOUS = ("%d/%m/%Y", "%m/%d/%Y")
_NUMBER_OR_DAY = re.compile("|".join([cells.NUMBER, cells.COMMA_FORM, *_DAY_SHAPES.values()]))
_FEW_WORDS, _MOST_WORDS = 5, 30
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)


# --- What one pass shows of a column


class ColumnProfile:
    """What the rows of a table show of one column.

    ``numbers`` and ``whole`` hold for every value so far, and every value is a day in each of the ``day_formats``;
    ``low`` and ``high`` are numbers, or days since 1970.
    Of more than 1,000 different values only those of the first rows are ``counted``.
    """

    def __init__(self, missing: MissingWords) -> None:
        self._missing = missing
        self.rows = self.missing = self.counted = 0
        self.numbers = self.whole = self._comma_form = True
        self.day_formats = tuple(_DAY_SHAPES)
        self.low, self.high = math.inf, -math.inf
        self.width: int | None = None  # of lists
        self._counts = [cells.ValueCounts()]

    @classmethod
    def union(cls, parts: Sequence["ColumnProfile"]) -> "ColumnProfile":
        """One profile of the same column in several tables, which may have different types."""
        whole = cls(parts[0]._missing)
        for part in parts:
            whole.rows, whole.missing = whole.rows + part.rows, whole.missing + part.missing
            whole.numbers, whole.whole = whole.numbers and part.numbers, whole.whole and part.whole
            whole.day_formats = tuple(form for form in whole.day_formats if form in part.day_formats)
            whole._comma_form &= part._comma_form
            whole.low, whole.high = min(whole.low, part.low), max(whole.high, part.high)
            whole.width = whole.width or part.width
            whole._counts += part._counts
        return whole

    @property
    def filled(self) -> bool:
        return self.rows > self.missing

    @property
    def days(self) -> bool:
        return bool(self.day_formats) and not self.ambiguous_days

    @property
    def ambiguous_days(self) -> bool:
        return self.day_formats == _AMBIGUOUS

    @property
    def decimal_commas(self) -> bool:
        return self.filled and self._comma_form and not self.numbers

    @property
    def mixed(self) -> bool:
        """Whether values are numbers and days that are not all written alike, or stand among a few words."""
        if self.width is not None or self.numbers or self.day_formats or self.decimal_commas:
            return False
        values = {str(value) for counts in self._counts for value, _ in counts.items()}
        words = sum(not _NUMBER_OR_DAY.search(value) for value in values)
        return bool(values) and words <= (_FEW_WORDS if len(values) > _MOST_WORDS else 0)

    @property
    def distinct(self) -> int:
        return sum(len(counts.rows()) for counts in self._counts)

    def add(self, column: Any) -> None:
        column = cells.plain_array(column)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        text, number = cells.is_text(kind), any(holds(kind) for holds in _NUMBERS)
        if text:
            present = cells.text(column, self._missing)[0].drop_null()
        elif number:
            values = cells.numbers(column, self._missing)[0]
            present = pa.array(values[~np.isnan(values)])
        else:
            present = column.drop_null()
        self.rows += len(column)
        self.missing += len(column) - len(present)
        if text or number or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            self._count(present)
        if self._comma_form and not number:
            self._comma_form = text and _all_match(present, cells.COMMA_FORM)
        if self.numbers:
            self._add_numbers(present)
        if not self.numbers and self.day_formats:
            self._add_days(present)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            lengths = pc.list_value_length(present)
            self.width = self.width or (lengths[0].as_py() if len(lengths) else None)
            self._take(cells.numbers(present.flatten(), self._missing)[0])

    def _add_numbers(self, present: Any) -> None:
        values, wrong = cells.numbers(present, self._missing)
        if wrong.any():
            self.numbers = False
            self.low, self.high = math.inf, -math.inf
        elif len(values := values[~np.isnan(values)]):
            self.day_formats = ()
            self.whole &= bool((values == np.rint(values)).all())
            self._take(values)

    def _add_days(self, present: Any) -> None:
        text, fitting = cells.is_text(present.type), []
        for form in self.day_formats:
            if not text or _all_match(present, _DAY_SHAPES[form]):
                days, wrong = cells.days(present, form, self._missing)
                if not wrong.any():
                    fitting.append(form)
                    self._take(days)
        self.day_formats = tuple(fitting)

    def _take(self, values: NDArray[np.float64]) -> None:
        self.low = min(self.low, float(np.nanmin(values, initial=math.inf)))
        self.high = max(self.high, float(np.nanmax(values, initial=-math.inf)))

    def _count(self, present: Any) -> None:
        """Values with their rows, until they are too many to list and enough to tell whether rows share them."""
        if len(present) and (self.counted < _LEAST_COUNTED or self.distinct <= _MOST_VALUES):
            self._counts[0].add(present)
            self.counted += len(present)

    def values(self) -> list[Any] | None:
        """The different values in order, numbers if all are; None if there are more than 1,000."""
        if any(len(counts.rows()) > _MOST_VALUES for counts in self._counts):
            return None
        items = [value for counts in self._counts for value, _ in counts.items()]
        found = sorted({float(value) if self.numbers else str(value) for value in items})
        return found if len(found) <= _MOST_VALUES else None


def _all_match(texts: Any, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(pc.unique(texts), pattern), min_count=0).as_py())


class TableProfile:
    def __init__(
        self, names: Iterable[str], missing_words: Sequence[str] = MISSING_WORDS, *, most_rows: int | None = _MOST_ROWS
    ) -> None:
        missing = MissingWords.of(missing_words)
        self.columns = {name: ColumnProfile(missing) for name in names}
        self._left = most_rows

    @classmethod
    def declared(cls, schema: Schema, *, labelled: bool = True) -> Self:
        """Of the columns that leave with a record, by the first rows; a target may have no label."""
        profile, missing = cls([]), MissingWords.of(schema.declaration.missing_words)
        for name in schema.record_columns:
            if labelled or name != schema.label_column:
                own = getattr(schema.declared.get(name), "missing_values", ())
                profile.columns[name] = ColumnProfile(missing.also(own))
        return profile

    @property
    def full(self) -> bool:
        return self._left == 0

    def add(self, table: pa.Table) -> None:
        if self._left is not None:
            table = table.slice(0, self._left)
            self._left -= table.num_rows
        if table.num_rows:
            for name, profile in self.columns.items():
                profile.add(table.column(name))


# --- Columns that may identify people

_PEOPLE = "patient|person|customer|client|member|subject|participant|user|employee|student|account|policy|encounter"
_NUMBER = "ids?|no|nr|nbr|number"
_PERSON = re.compile(
    r"\b(?:identifier|uuid|guid|uid|pid|ssn|mrn|nhs|npi|passport|iban|vin|imei|ip|url|surname|forename|login|e?mail|"
    r"phone|telephone|tel|fax|mobile|address|addr|street|plate|"
    r"dob|birth ?da(?:te|y)|date of birth|zip|zipcode|postcode|postal|lat|lon|latitude|longitude|gps|"
    rf"(?:{_PEOPLE}) ?(?:{_NUMBER}|names?)|(?:first|last|full|given|family) ?names?)\b|^names?\b|"
    rf"^(?:ids?|{_PEOPLE}|unnamed|index|index level|row ?(?:{_NUMBER}|names?))$"
)
_CODE = re.compile(rf"\b(?:\w+ (?:{_NUMBER})|ids?|names?)\b")  # may also be a code that many rows share
_HARMLESS = re.compile(r"^(?:is|has|num|number|n|count)\b.* | (?:counts?|calls|length|size|age|type)$")


def _hint(name: str) -> tuple[str, str]:
    """Whether a name leads to a ``person``, or may be a ``code`` that many rows share, and the words that say so."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    words = " ".join(re.findall(r"(?:no|nr)\d+|[^\W\d_]+", apart.casefold()))  # NO2 is a gas
    if not _HARMLESS.search(words):
        for hint, pattern in (("person", _PERSON), ("code", _CODE)):
            if found := pattern.search(words):
                return hint, found.group()
    return "", ""


class Reason(StrEnum):
    """Why a column is warned of: it may identify people, or it hardly counts."""

    NAME = "name"
    OWN_VALUES = "own-values"
    DEAD = "dead"


_DEAD = 0.02


@dataclass(frozen=True, slots=True)
class ColumnWarning:
    """A column that people should look at."""

    column: str
    reason: Reason
    why: str

    @property
    def warning(self) -> str:
        if self.reason is Reason.DEAD:
            remedy = "check the unit, declare narrower ones, or leave it out"
            return f"column {self.column!r} hardly counts: {self.why}; {remedy}"
        return f"column {self.column!r} may identify people, and leaves with every record: {self.why}"

    def document(self) -> dict[str, str]:
        return {"column": self.column, "reason": str(self.reason), "why": self.why, "warning": self.warning}


def identifying_column(name: str, *, declared: Any = None, seen: ColumnProfile | None = None) -> ColumnWarning | None:
    """Whether a column may identify people, by its name, its declaration and its profile in a table."""
    seen = seen if seen is not None and seen.filled else None
    hint, word = _hint(name)
    if hint and not _declared_as_code(hint, declared) and not (seen is not None and _shared(hint, seen)):
        return ColumnWarning(name, Reason.NAME, f"its name says so ({word})")
    if isinstance(declared, CategoryColumn | OrdinalColumn) and getattr(declared, "unknown", "refuse") == "refuse":
        return None  # no value leaves that does not stand in the schema
    if seen is None or not _own_values(seen, declared):
        return None
    return ColumnWarning(name, Reason.OWN_VALUES, "nearly every row has its own value")


def identifying_columns(schema: Schema, seen: Mapping[str, ColumnProfile] | None = None) -> tuple[ColumnWarning, ...]:
    """The columns that leave with a record, label included, and may identify people; by names alone without rows."""
    label, declared = schema.declaration.label, dict(schema.declared)
    if label is not None and label.column not in declared and label.values is not None:
        declared[label.column] = CategoryColumn(kind="category", values=label.values)
    seen = seen or {}
    answers = (
        identifying_column(name, declared=declared.get(name), seen=seen.get(name)) for name in schema.record_columns
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
    if profile.numbers and not profile.whole:
        return True
    return profile.counted >= (3 if profile.distinct <= 30 else 20) * profile.distinct


def _own_values(profile: ColumnProfile, declared: Any) -> bool:
    """Whether nearly every row has a text, or every row a whole number, of its own; of a date only the day leaves."""
    rows, repeats = profile.counted, profile.counted - profile.distinct
    if isinstance(declared, DateColumn) or (declared is None and profile.day_formats):
        return False
    if profile.numbers:
        return profile.whole and rows >= 100 and not repeats
    if profile.decimal_commas:
        return False
    return rows >= 30 and repeats <= 0.1 * rows


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
        if profile.full:
            break
    for name, seen in profile.columns.items():
        repeats = seen.distinct < seen.counted and seen.whole and not seen.day_formats
        if repeats and identifying_column(name, seen=seen) is not None:
            return name
    return ""


# --- Columns that use next to nothing of their bounds

_LEAST_ROWS = 10


def dead_columns(schema: Schema, seen: Mapping[str, ColumnProfile]) -> tuple[ColumnWarning, ...]:
    return tuple(
        ColumnWarning(name, Reason.DEAD, f"its values use less than {_DEAD:.0%} of the declared bounds")
        for name, declared in schema.declared.items()
        if name in seen and seen[name].rows - seen[name].missing >= _LEAST_ROWS and _used(declared, seen[name]) < _DEAD
    )


def _used(declared: Any, profile: ColumnProfile) -> float:
    """The part of the declared bounds that values span; 1 for a column without bounds."""
    bounds = getattr(declared, "bounds", None)
    if bounds is None or not (profile.width is not None or profile.numbers or profile.days):
        return 1.0
    ends = [*map(columns.day_number, bounds)] if isinstance(declared, columns.DateColumn) else bounds
    values = np.clip([profile.low, profile.high, *ends], *ends)
    low, high, least, most = np.log(values) if getattr(declared, "scale", "") == "log" else values
    return float((high - low) / (most - least))


def documents_of(found: Iterable[ColumnWarning]) -> list[dict[str, str]]:
    return [one.document() for one in found]


# --- Does a table fit a schema?

_SHOWN = 3


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
            self.complaints.setdefault(trouble, complaint)


@dataclass(frozen=True)
class IdSummary:
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
        for count, (encoder, column, troubles) in zip(self.columns, encoded, strict=False):
            for trouble, mask in troubles.items():
                count.note(trouble, mask, encoder.complaint(trouble, column, mask), locate)
        if self.columns and self.columns[-1].kind == "label":
            for trouble, complaint, mask in schema.labels(block, table=table)[1]:
                self.columns[-1].note(trouble, mask, complaint, locate)
        if self._ids is not None:
            self._ids.count(schema.column_of(block, self._ids.columns[0], table=table), table=table)
        self._profile.add(block)
        self.too_long += int(np.count_nonzero(self._records.too_long(block)))
        self.rows += block.num_rows

    def identifying_columns(self) -> tuple[ColumnWarning, ...]:
        return identifying_columns(self.schema, self._profile.columns)

    def dead_columns(self) -> tuple[ColumnWarning, ...]:
        return dead_columns(self.schema, self._profile.columns)

    def label_classes(self) -> int:
        """How many whole numbers are classes that the label does not declare; 0 where the label is no such number."""
        label = self.schema.declaration.label
        if label is None or label.kind != "category" or label.values is not None:
            return 0
        seen = self._profile.columns.get(label.column)
        return seen.distinct if seen is not None and seen.filled and seen.numbers and seen.whole else 0

    def id_summary(self) -> IdSummary | None:
        if self._ids is None:
            return None
        ids, allowed = self._ids.histogram(), self.schema.most_rows_per_id
        over = 0 if allowed is None else sum(count for rows, count in ids.items() if rows > allowed)
        return IdSummary(sum(ids.values()), max(ids, default=0), over, self._ids.missing)

    def taking_part(self) -> int | None:
        """How many rows take part where the schema keeps a few of each id; None if it keeps all."""
        keep = self.schema.keep
        if self._ids is None or keep is None:
            return None
        return sum(min(rows, keep) * count for rows, count in self._ids.histogram().items())


# --- A first schema from files

_HEAD = """\
# A draft from the types and values of {names}.
# A schema is public, and values that come from data reveal something about the data. Where from_data stands, replace
# bounds, values and rows_per_id by public knowledge (a clinical range, the code book's values), and remove from_data.
"""
_LEFT_OUT = "# Left out, because they may identify people (likeset schema draft --include COLUMN declares one):\n"
_UNUSABLE = "# Left out, because they cannot be used:\n"
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
# Fewer rows of each id give less noise: with keep: 1 in place of rows_per_id, one row of each, drawn in secret, counts.
"""
_AMBIGUOUS_DAYS = (
    f"days that fit {_AMBIGUOUS[0]} and {_AMBIGUOUS[1]}: declare kind: date with the format that they are written in"
)
_MOST_CODES, _MOST_NAMED_CODES, _TEXT_WIDTH = 10, 100, 64
_TRUTH = {"true", "false", "yes", "no", "t", "f", "y", "n", "0", "1", "0.0", "1.0"}
_CODE_NAME = re.compile(r"(?:id|code|type)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    """A schema to fill in, and a ``profile`` of every column: what it ``becomes``, and why.

    ``left_out`` may identify people; so may ``included``, which were asked for by name, or are the label. ``unusable``
    says why a column cannot be declared.
    """

    text: str
    profile: tuple[dict[str, Any], ...]
    left_out: tuple[ColumnWarning, ...]
    included: tuple[ColumnWarning, ...]
    unusable: Mapping[str, str]


def draft(
    sources: Sequence[Source], *, label: str | None = None, ids: str | None = None, include: Collection[str] = ()
) -> SchemaDraft:
    """A schema that fits all sources; what came from data is marked, and what may identify people is left out.

    Columns that are not in all sources are left out; a target may have no label. ``ids`` says whose row it is, and
    ``include`` names columns to declare although they may identify people.
    """
    first, names, unusable = sources[0], list[str](), dict[str, str]()
    for name in dict.fromkeys(name for source in sources for name in source.schema.names):
        lacking = [source.name for source in sources if name not in source.schema.names]
        if lacking and name != label:
            unusable[name] = f"not in {lacking[0]}"
        else:
            names.append(name)
    for name in (label, ids, *include):
        if name is not None and name not in names:
            without = next(source for source in sources if name not in source.schema.names)
            remedy = "; add a file that has it, or declare the label in the draft by hand" if name == label else ""
            raise BadTable(without.name, f"is missing{near_miss(name, names) or remedy}", column=name)
    if set(names) <= {label, ids}:
        raise BadTable(first.name, "there is no column that all files have")
    tables, most_rows = _read(sources, names, ids)
    profiles = {name: ColumnProfile.union([table[name] for table in tables if name in table]) for name in names}
    if not any(profile.rows for profile in profiles.values()):
        raise BadTable(first.name, "there are no rows to draft from")
    unusable |= {name: "no value in any row" for name, seen in profiles.items() if not seen.filled and name != ids}
    unusable |= {name: _AMBIGUOUS_DAYS for name, seen in profiles.items() if seen.filled and seen.ambiguous_days}
    unusable |= {name: cells.COMMAS for name, seen in profiles.items() if seen.decimal_commas and name != ids}
    unusable |= {
        name: _mixed({source.name: table[name] for source, table in zip(sources, tables, strict=True) if name in table})
        for name, seen in profiles.items()
        if seen.mixed and name != ids
    }
    unusable |= {name: "a column without a name; give it one in the file" for name in names if not name.strip()}
    if label in unusable:
        raise BadTable(first.name, unusable[label], column=label)
    judged = [name for name in names if name != ids and name not in unusable]
    # Each file is judged by itself: two files may number their rows alike.
    suspected = (
        identifying_column(n, seen=table[n]) for n in judged for table in tables if n in table and table[n].filled
    )
    identifying = {warning.column: warning for warning in suspected if warning is not None}
    left_out = {name: one for name, one in identifying.items() if name != label and name not in include}
    if set(judged) - set(left_out) <= {label}:
        listed = "; ".join(
            [*(f"{name!r} may identify people" for name in left_out), *(f"{n!r}: {why}" for n, why in unusable.items())]
        )
        raise BadTable(first.name, f"no column is left: {listed}; name those to keep with --include")
    profile_lines, lines, foot = list[dict[str, Any]](), list[str](), _FOOT
    for name, seen in profiles.items():
        becomes, why = "left out", unusable.get(name, "")
        if name == ids:
            becomes, why = "id", f"says whose row it is: at most {most_rows:,} rows of one id"
        elif name in left_out:
            why = f"may identify people: {left_out[name].why}"
        elif name not in unusable:
            fields, why = _kind(name, seen)
            fields |= {"missing": "indicator"} if seen.missing else {}
            fields |= {"outside": "clip"} if "bounds" in fields else {}  # later rows go further than those here
            fields |= {"from_data": True} if {"bounds", "values"} & set(fields) else {}
            becomes = fields["kind"]
            if name == label:
                if fields["kind"] in ("category", "boolean"):
                    fields = {"kind": "category", "values": seen.values(), "from_data": True}
                else:
                    fields = {"kind": "number" if fields["kind"] == "numeric" else "text"}
                becomes, foot = f"label: {fields['kind']}", documents.to_yaml({"label": {"column": label, **fields}})
            else:
                lines.append(indent(documents.to_yaml({name: fields}), "  "))
        profile_lines.append({"column": name, "becomes": becomes, "missing": seen.missing, "why": why})
    shown = " ".join(", ".join(source.name for source in sources).split())
    return SchemaDraft(
        "".join(
            [
                _HEAD.format(names=shown),
                _listed(_LEFT_OUT, {name: one.why for name, one in left_out.items()}),
                _listed(_UNUSABLE, unusable),
                "likeset: schema\nversion: 1\ncolumns:\n",
                *lines,
                foot,
                _FOOT_ID if ids is None else _ABOUT_IDS,
                ""
                if ids is None
                else documents.to_yaml({"id": {"column": ids, "rows_per_id": most_rows, "from_data": True}}),
            ]
        ),
        tuple(profile_lines),
        left_out=tuple(left_out.values()),
        included=tuple(one for name, one in identifying.items() if name not in left_out),
        unusable=unusable,
    )


def _read(
    sources: Sequence[Source], names: Sequence[str], ids: str | None
) -> tuple[list[dict[str, ColumnProfile]], int]:
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


def _mixed(files: Mapping[str, ColumnProfile]) -> str:
    written = ", ".join(f"{file} has {_form(seen)}" for file, seen in files.items() if seen.filled)
    return f"values are not all written alike: {written}; docs/schema.md shows a query that converts them"


def _form(seen: ColumnProfile) -> str:
    if seen.numbers:
        return "numbers"
    if seen.day_formats:
        return f"days as {seen.day_formats[0]}"
    return "decimal commas" if seen.decimal_commas else "mixed values, such as numbers and a word for missing"


def _kind(name: str, seen: ColumnProfile) -> tuple[dict[str, Any], str]:
    """The declaration of a column, and why it is so: the first rule that applies."""
    values = seen.values() or []
    if seen.width is not None:
        bounds = rounded_outward(seen.low, seen.high)
        return {"kind": "vector", "width": seen.width, "bounds": bounds}, f"lists of {seen.width} numbers"
    if seen.days:
        form = seen.day_formats[0]
        fields, written = ({}, "") if form == "iso" else ({"format": form}, f", written as {form}")
        return {"kind": "date", **fields, "bounds": _years(seen.low, seen.high)}, f"days{written}"
    # One word in all rows is more often the only code of many, such as N for north.
    if {str(value).lower() for value in values} <= _TRUTH and len(values) > (0 if seen.numbers else 1):
        return {"kind": "boolean"} | ({"from_data": True} if len(values) == 1 else {}), "truth values, such as 0 and 1"
    if values and not seen.numbers and len(values) <= _MOST_WORDS:
        return {"kind": "category", "values": values}, f"words: {len(values)} different values"
    if not seen.numbers:
        return {"kind": "text", "width": _TEXT_WIDTH}, "texts, compared by pieces of three letters"
    if values and seen.whole and len(values) <= (_MOST_NAMED_CODES if _CODE_NAME.search(name) else _MOST_CODES):
        return {"kind": "category", "values": values}, f"codes: {len(values)} whole numbers"
    return {"kind": "numeric", "bounds": rounded_outward(seen.low, seen.high)}, "numbers"


def _listed(head: str, reasons: Mapping[str, str]) -> str:
    lines = (f"#   {json.dumps(name)}: {' '.join(why.split())}\n" for name, why in reasons.items())
    return "".join([head, *lines]) if reasons else ""


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
