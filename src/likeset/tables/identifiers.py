"""Does a column lead to a person? Decided here for drafts, checks, plans and owners alike, by its name and its values.

A name is enough to suspect a column, unless few values show that many rows share each of them: ``admission_type_id``
with eight values is a code. Values are enough where nearly every row has one of its own that looks given out: texts,
moments, numbers of rows, and whole numbers of which chance would have repeated some. A measure is nearly unique as
well, so numbers with decimals, lists and days are never suspected for it.

What is known of values comes from ``column_looks``: of the first rows alone, while they go by for another reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from likeset.tables.column_looks import Kind, Seen
from likeset.tables.columns import (
    BooleanColumn,
    CategoryColumn,
    ImageColumn,
    NumericColumn,
    OrdinalColumn,
    VectorColumn,
)
from likeset.tables.identifier_names import NameHint, Strength, name_hint
from likeset.tables.schema import Schema

__all__ = [
    "Reason",
    "Suspicion",
    "id_that_repeats",
    "names_person",
    "suspicion_documents",
    "suspicion_of",
    "suspicions_in",
]

_FEW = {Strength.PERSON: (5, 10), Strength.PLACE: (10, 10), Strength.CODE: (30, 3)}
"""Values at most, and rows for each of them at least, that make codes of what a name calls an identifier."""
_SHARED_CODE = 20  # rows for each value, on average: so many share a code, however many codes there are
_NARROW = {Strength.PERSON: 5.0, Strength.PLACE: 0.0, Strength.CODE: 1000.0}  # between declared bounds
_NEARLY_ALL = 0.9
_LEAST_TEXTS, _LEAST_NUMBERS, _LEAST_ROW_NUMBERS, _LEAST_RISING = 30, 50, 20, 100
_EXPECTED_REPEATS, _REPEATS_LEFT = 10.0, 0.05  # so many chance would have made; this share of them is left
_FEW_REPEATS = 0.01  # of all rows
_CODE_DIGITS, _OF_ONE_LENGTH = 7, 0.95


class Reason(StrEnum):
    """Why a column is suspected."""

    NAMELESS = "nameless"
    NAME = "name"
    ROW_NUMBER = "row-number"
    NUMBERED = "numbered"
    OWN_TEXT = "own-text"
    OWN_MOMENT = "own-moment"


_IN_WORDS = {
    Reason.NAMELESS: "it has no name, and a column without a name cannot be a feature: most likely it numbers the rows",
    Reason.ROW_NUMBER: "it numbers the rows",
    Reason.NUMBERED: "nearly every row has a number of its own, as numbers are that somebody gave out",
    Reason.OWN_TEXT: "nearly every row has a text of its own",
    Reason.OWN_MOMENT: "nearly every row has a moment of its own",
}


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A column that may say whose row it is.

    Attributes:
        column: its name.
        reason: why.
        word: the part of its name that says so; empty where the values do.
    """

    column: str
    reason: Reason
    word: str = ""

    @property
    def why(self) -> str:
        """The reason in words; says nothing about any row."""
        return f"its name says so ({self.word})" if self.reason is Reason.NAME else _IN_WORDS[self.reason]

    @property
    def warning(self) -> str:
        """What to tell whoever lets it leave."""
        return f"column {self.column!r} may identify people, and leaves with every record: {self.why}"

    def document(self) -> dict[str, str]:
        """For machines."""
        told = {"column": self.column, "reason": str(self.reason), "word": self.word}
        return {**told, "why": self.why, "warning": self.warning}


def suspicion_documents(suspicions: Iterable[Suspicion]) -> list[dict[str, str]]:
    """As they stand behind ``--json``."""
    return [suspicion.document() for suspicion in suspicions]


def suspicion_of(name: str, *, declared: Any = None, seen: Iterable[Seen | None] = ()) -> Suspicion | None:
    """Whether a column may identify people; None if nothing speaks for it.

    Args:
        name: of the column.
        declared: what a schema says of it, if there is one.
        seen: what was seen of it in each table; None where it had no value.
    """
    looks = [look for look in seen if look is not None]
    hint = name_hint(name)
    if hint is not None and hint.strength is Strength.NAMELESS:
        return Suspicion(name, Reason.NAMELESS)
    if hint is not None and hint.strength is Strength.ROW:
        return Suspicion(name, Reason.ROW_NUMBER)
    if hint is not None and not _is_excused(hint, declared, looks):
        return Suspicion(name, Reason.NAME, hint.word)
    if isinstance(declared, CategoryColumn | OrdinalColumn) and getattr(declared, "unknown", "refuse") == "refuse":
        return None  # no value leaves that does not stand in the schema
    reason = next((reason for look in looks if (reason := _given_out(look)) is not None), None)
    return None if reason is None else Suspicion(name, reason)


def suspicions_in(schema: Schema, seen: Mapping[str, Seen | None] | None = None) -> tuple[Suspicion, ...]:
    """All columns that may identify people among those that leave with a record, the label among them.

    Args:
        schema: what is declared.
        seen: of the columns of one table (``TableLook.summary``); without it, names and declarations alone decide.
    """
    label = schema.declaration.label
    declared = dict(schema.declared)
    if label is not None and label.column not in declared and label.values is not None:
        declared[label.column] = CategoryColumn(kind="category", values=label.values)
    answers = (
        suspicion_of(name, declared=declared.get(name), seen=[(seen or {}).get(name)]) for name in schema.record_columns
    )
    return tuple(answer for answer in answers if answer is not None)


def names_person(name: str) -> bool:
    """Whether a column leads to a person by its name."""
    hint = name_hint(name)
    return hint is not None and hint.strength is Strength.PERSON


def id_that_repeats(seen: Iterable[Mapping[str, Seen | None]]) -> str:
    """The first column that leads to a person by its name, and whose values several rows share; empty if none does."""
    tables = list(seen)
    for name in dict.fromkeys(name for table in tables for name in table if names_person(name)):
        looks = [look for table in tables if (look := table.get(name)) is not None]
        suspicion = suspicion_of(name, seen=looks)
        shared = any(look.kind in (Kind.WHOLE, Kind.TEXT) and look.distinct < look.rows for look in looks)
        if suspicion is not None and suspicion.reason is Reason.NAME and shared:
            return name
    return ""


def _is_excused(hint: NameHint, declared: Any, looks: Sequence[Seen]) -> bool:
    return _declared_as_code(hint.strength, declared) or (bool(looks) and all(_is_code(hint, look) for look in looks))


def _declared_as_code(strength: Strength, declared: Any) -> bool:
    if isinstance(declared, BooleanColumn | VectorColumn | ImageColumn):
        return True
    if isinstance(declared, CategoryColumn | OrdinalColumn):
        return strength is Strength.CODE or len(declared.values) <= _FEW[strength][0]
    return isinstance(declared, NumericColumn) and declared.bounds[1] - declared.bounds[0] <= _NARROW[strength]


def _is_code(hint: NameHint, look: Seen) -> bool:
    if hint.strength is not Strength.PERSON and look.kind is Kind.OTHER:
        return True
    if hint.strength is Strength.CODE and look.kind is Kind.NUMBER:
        return True
    most, each = _FEW[hint.strength]
    if look.distinct <= most and look.rows >= each * look.distinct:
        return True
    return hint.strength is Strength.CODE and look.rows >= _SHARED_CODE * look.distinct


def _given_out(look: Seen) -> Reason | None:
    """Whether values look as if each row got its own."""
    nearly_all = look.distinct >= _NEARLY_ALL * look.rows
    if look.kind in (Kind.TEXT, Kind.MOMENT) and look.rows >= _LEAST_TEXTS and nearly_all:
        return Reason.OWN_TEXT if look.kind is Kind.TEXT else Reason.OWN_MOMENT
    if look.kind is not Kind.WHOLE or not nearly_all:
        return None
    repeats = look.rows - look.distinct
    if look.rows >= _LEAST_ROW_NUMBERS and repeats == 0 and look.high - look.low + 1.0 == look.rows:
        return Reason.ROW_NUMBER
    crowded = look.rows >= _LEAST_NUMBERS and look.expected_repeats >= _EXPECTED_REPEATS
    avoided = crowded and repeats <= _REPEATS_LEFT * look.expected_repeats
    climbs = look.rising and look.rows >= _LEAST_RISING
    long = look.digits >= _CODE_DIGITS and look.one_length >= _OF_ONE_LENGTH and look.rows >= _LEAST_RISING
    return Reason.NUMBERED if avoided or climbs or (long and repeats <= _FEW_REPEATS * look.rows) else None
