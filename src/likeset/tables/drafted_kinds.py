"""What a drafted column would be, and why: by its name and by what was seen of its values. All are rules of thumb.

Whole numbers are the hard case: codes are categories, counts and measures are numbers, grades have an order. A name
decides if it says so; otherwise few values decide that rise and fall like counts do.
"""

import json
import math
import re
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import pairwise
from typing import Any

import numpy as np

from likeset.tables.column_evidence import ColumnEvidence
from likeset.tables.identifier_names import words_of

__all__ = ["Proposal", "proposal", "rounded_outward"]

_MOST_CODES, _MOST_NAMED_CODES, _MOST_WORDS = 10, 100, 30
_LEAST_COUNTS = 4
_LEAST_IN_A_ROW = 6
_LEAST_RUNS, _SEVERAL = 20, 2
_LONG = 10_000.0  # a whole number of five digits
_TEXT_WIDTH = 64
_TRUTH = {"true", "false", "yes", "no", "t", "f", "y", "n", "0", "1", "0.0", "1.0"}
_MIDDLE, _NARROW = (1.0, 99.0), 0.02  # percent of rows; of the bounds


def _words_in(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CODES = _words_in(
    """
    id code codes type kind category class group status region site district area sector zone state ward
    department dept ethnicity race sex gender religion marital occupation industry species cluster stratum arm
    cohort country county province birthplace nationality
    """
)
_COUNTS = _words_in(
    """
    num number n count counts visits times years year days day hours minutes months age children kids siblings
    parity pregnancies rooms bedrooms bathrooms doors cylinders persons people members size total quantity qty
    freq frequency procedures medications diagnoses episodes events deaths births admissions
    income salary wage wages earnings price cost amount population weight height length distance
    experience exper schooling tenure
    """
)
_GRADES = _words_in(
    """
    quality score rating grade stage level rank severity satisfaction likert education educ step degree tier
    """
)
_SCALES = tuple(
    tuple(words.split("/"))
    for words in (
        "very low/low/medium/moderate/high/very high",
        "none/minimal/mild/moderate/severe/critical",
        "tiny/small/medium/large/huge",
        "xs/s/m/l/xl/xxl",
        "never/rarely/sometimes/often/always",
        "very poor/poor/fair/average/good/very good/excellent",
        "fair/good/very good/premium/ideal",
        "first/second/third/fourth/fifth",
        "strongly disagree/disagree/neutral/agree/strongly agree",
    )
)

_FIGURE = r"\s*(-?\d+(?:\.\d+)?)\s*"
_BETWEEN = re.compile(rf"[\[(]?{_FIGURE}(?:-|\u2013|\u2014|to|bis|,|\.\.)\s*(-?\d+(?:\.\d+)?)\s*[\])]?", re.IGNORECASE)
_BELOW = re.compile(rf"(?:<=?|≤|under|below|less than|up to){_FIGURE}", re.IGNORECASE)
_ABOVE = re.compile(
    rf"(?:>=?|≥|over|above|more than){_FIGURE}|{_FIGURE}(?:\+|and (?:over|older|above)|or (?:more|older))",
    re.IGNORECASE,
)
_ALONE = re.compile(_FIGURE)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a column would be.

    Attributes:
        fields: of its declaration.
        why: in words.
        caution: what to look at before it is used; empty if nothing.
    """

    fields: dict[str, Any]
    why: str
    caution: str = ""


def proposal(name: str, seen: ColumnEvidence) -> Proposal:
    """What a column of this name would be."""
    proposed = _proposal(name, seen)
    fields = dict(proposed.fields)
    if seen.missing:
        fields["missing"] = "indicator"
    if {"bounds", "values"} & set(fields):
        fields["from_data"] = True
    caution = proposed.caution or _caution(seen, fields)
    return Proposal(fields, proposed.why, caution)


def _proposal(name: str, seen: ColumnEvidence) -> Proposal:
    if seen.has_lists:
        fields = {"kind": "vector", "width": seen.width or 1, "bounds": rounded_outward(seen.low, seen.high)}
        return Proposal(fields, f"lists of {seen.width or 1} numbers")
    if seen.is_typed_days or (seen.is_text and not seen.all_numbers and seen.all_days and seen.has_range):
        return Proposal({"kind": "date", "bounds": _years(seen.low, seen.high)}, "days")
    counts = {} if seen.many else seen.counts
    words = {_word(value) for value in counts}
    if seen.is_truth or (words and words <= _TRUTH and not seen.commas and not _lone_letter(words)):
        return Proposal({"kind": "boolean"}, "true or false" if len(counts) != 1 else "true or false, one of them only")
    if seen.all_numbers and seen.has_range:
        return _of_numbers(name, seen, counts)
    if not seen.rows or seen.rows == seen.missing:
        return Proposal({"kind": "text", "width": _TEXT_WIDTH}, "no value in any row", "leave it out: it is empty")
    return _of_words(counts)


def _lone_letter(words: set[str]) -> bool:
    """One letter in all rows is more often the only code of many, such as N for north, than a truth value."""
    return len(words) == 1 and all(word.isalpha() and len(word) == 1 for word in words)


def _of_numbers(name: str, seen: ColumnEvidence, counts: dict[Any, int]) -> Proposal:
    numeric = {"kind": "numeric", "bounds": rounded_outward(seen.low, seen.high)}
    if seen.commas:
        return Proposal(numeric, "numbers with decimal commas", "not read as they are")
    if not seen.all_whole:
        return Proposal(numeric, "numbers with decimals")
    values = sorted(counts)
    category = {"kind": "category", "values": values}
    words = words_of(name)
    counted = next((word for word in (*words[:1], *words[-1:]) if word in _COUNTS), "")
    is_code = bool(words) and (words[-1] in _CODES or words[-1].endswith("code"))
    if is_code and values and len(values) <= _MOST_NAMED_CODES:
        return Proposal(category, f"a code: its name says {words[-1]}, and it has {_different(values)}")
    if counted:
        return Proposal(numeric, f"a count or measure: its name says {counted}")
    if words and words[-1] in _GRADES and 2 <= len(values) <= _MOST_CODES:
        return Proposal({"kind": "ordinal", "values": values}, f"a grade: its name says {words[-1]}")
    if is_code:
        caution = "if these are codes, numbers that are near mean nothing: group them, or leave them out"
        return Proposal(numeric, f"whole numbers, too many for a category: its name says {words[-1]}", caution)
    if not values or len(values) > _MOST_CODES:
        return Proposal(numeric, "whole numbers, more than a few", _numbers_of_somebody(name, seen))
    if _falls_like_counts(values, counts):
        return Proposal(numeric, f"counts: {_different(values)}, the larger the rarer")
    if len(values) >= _LEAST_IN_A_ROW and values[0] > 1.0 and values[-1] - values[0] == len(values) - 1:
        return Proposal(numeric, f"{_different(values)} in a row from {values[0]:.0f} on: codes begin at 0 or 1")
    return Proposal(category, f"codes: {_different(values)}, and nothing that says count")


def _numbers_of_somebody(name: str, seen: ColumnEvidence) -> str:
    """Very many long whole numbers: measures have fewer, or others are shorter. Or rows stand sorted by them."""
    several = seen.rows >= _SEVERAL * seen.runs and seen.high - seen.low >= _SEVERAL * seen.runs
    in_turn = seen.sorted and seen.runs >= _LEAST_RUNS and several
    if not (in_turn or (seen.many and seen.low >= _LONG)):
        return ""
    return f"if these are numbers of people or cases, leave it out, or say --id {name} if they say whose row it is"


def _of_words(counts: dict[Any, int]) -> Proposal:
    words = [str(word) for word in counts]
    in_order = _ranges_in_order(words)
    if in_order:
        return Proposal({"kind": "ordinal", "values": in_order}, f"ranges, {len(in_order)} in order")
    in_order = _scale_in_order(words)
    if in_order:
        return Proposal({"kind": "ordinal", "values": in_order}, "words of a scale, in order")
    if words and len(words) <= _MOST_WORDS:
        return Proposal({"kind": "category", "values": sorted(words)}, f"words: {_different(words)}")
    number = f"{len(words):,}" if words else "more than 1,000"
    return Proposal(
        {"kind": "text", "width": _TEXT_WIDTH}, f"{number} different texts, compared by pieces of three letters"
    )


def _falls_like_counts(values: list[float], counts: dict[Any, int]) -> bool:
    """Whole numbers from 0 or 1 on, the first four without a gap, that grow rarer from the first or second on.

    By chance a larger number may be more frequent: by two standard deviations of what a smaller one has.
    """
    if len(values) < _LEAST_COUNTS or values[0] not in (0.0, 1.0) or values[_LEAST_COUNTS - 1] - values[0] != 3.0:
        return False
    rows = [counts[value] for value in values]
    falling = rows[1:] if rows[0] < rows[1] else rows
    return 2 * falling[-1] < falling[0] and all(
        later <= earlier + 2.0 * math.sqrt(earlier) for earlier, later in pairwise(falling)
    )


def _ranges_in_order(words: list[str]) -> list[str]:
    """Ranges such as [0-10), 18 to 24, <30 and 65+, by where they begin; none if a word is no range, or two overlap."""
    ranges = {word: _range(word) for word in words}
    ends = sorted((between, word) for word, between in ranges.items() if between is not None)
    real = sum(low < high for (low, high), _ in ends)
    apart = all(first[1] <= second[0] for (first, _), (second, _) in pairwise(ends))
    return [word for _, word in ends] if len(ends) == len(words) >= 2 and real >= 2 and apart else []


def _range(word: str) -> tuple[float, float] | None:
    between, below, above, alone = (form.fullmatch(word.strip()) for form in (_BETWEEN, _BELOW, _ABOVE, _ALONE))
    if alone:
        return float(alone[1]), float(alone[1])
    if below:
        return -math.inf, float(below[1])
    if above:
        return float(above[1] or above[2]), math.inf
    if between and float(between[1]) < float(between[2]):
        return float(between[1]), float(between[2])
    return None


def _scale_in_order(words: list[str]) -> list[str]:
    plain = {" ".join(word.casefold().replace("_", " ").replace("-", " ").split()): word for word in words}
    for scale in _SCALES:
        if len(plain) == len(words) >= 3 and set(plain) <= set(scale):
            return [plain[step] for step in scale if step in plain]
    return []


def _caution(seen: ColumnEvidence, fields: dict[str, Any]) -> str:
    """What histograms show at a glance, in words."""
    if seen.low == seen.high or len(fields.get("values", "..")) == 1:
        return "every row has the same value: it tells rows apart in no way"
    if fields["kind"] == "numeric" and len(seen.sample):
        low, high = np.percentile(seen.sample, _MIDDLE).tolist()  # plain numbers may overflow without a warning
        if high - low < _NARROW * (fields["bounds"][1] - fields["bounds"][0]):
            return "a few far values stretch the bounds: declare narrower ones with outside: clip, or scale: log"
    return ""


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
    if not low <= high:
        return ["1900-01-01", "2100-01-01"]
    days = [date.fromordinal(int(day) + date(1970, 1, 1).toordinal()) for day in (low, high)]
    return [f"{days[0].year:04d}-01-01", f"{days[1].year + 1:04d}-01-01"]


def _different(values: list[Any]) -> str:
    return f"{len(values)} different value{'' if len(values) == 1 else 's'}"


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, str) else json.dumps(value)
