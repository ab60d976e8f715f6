"""Read the cells of an Arrow column of any type as numbers, words, days or lists.

A file of text and a file of typed columns must give the same bits. So one correctly rounded parser reads text, and
decimals, which Arrow would round differently, are converted to text first. No function loops over rows.

Numbers with decimal commas are recognised and never read: a comma separates decimals in one country and thousands in
another, and a file does not say which.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
_trim = pc.utf8_trim_whitespace

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
COMMA_FORM = r"^[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?([eE][+-]?[0-9]+)?$"
COMMAS = (
    "decimal commas are not read; write points, or give \"sql:SELECT * FROM read_csv('FILE', all_varchar=true, "
    "types={'COLUMN': 'DOUBLE'}, decimal_separator=',')\" in place of the file (and thousands='.' if it has them)"
)
_INFINITE = "(?i)^[+-]?inf(inity)?$"
_NAN = r"^[+-]?[nN][aA][nN](\(.*\))?$"
DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}($|[T ])"
_MOST_WAITING = 1_000_000
_EPOCH = date(1970, 1, 1).toordinal()
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


@dataclass(frozen=True, eq=False)
class MissingWords:
    """The words that mean missing; those that are numbers also mean missing among numbers."""

    words: Any
    numbers: tuple[float, ...]

    @classmethod
    def of(cls, words: Sequence[str]) -> "MissingWords":
        return _missing_words(tuple(words))

    def also(self, values: Iterable[float | str]) -> "MissingWords":
        return self.of((*self.words.to_pylist(), *map(str, values)))


@functools.lru_cache(maxsize=64)
def _missing_words(words: tuple[str, ...]) -> MissingWords:
    """Every column of most schemas has the same ones, and an expression takes longer to make than to use."""
    stripped = array_of_words(sorted({word.strip() for word in words}))
    are_numbers = pc.match_substring_regex(stripped, NUMBER)
    numbers = pc.cast(stripped.filter(are_numbers), pa.float64()).to_pylist()
    return MissingWords(stripped, tuple(number + 0.0 for number in numbers))


def array_of_words(words: Sequence[str]) -> Any:
    """As ``pa.array(words, pa.string())``, which loads pandas where there is one, to look whether this is of it."""
    letters = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, letters)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(letters), pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(letters)))


def plain_array(column: Any) -> Any:
    """One contiguous array of a table's column; pieces with different dictionaries become one."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            column = column.chunk(0)
        else:
            if pa.types.is_dictionary(column.type):
                column = column.unify_dictionaries()
            column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # more than fits one array, or no piece at all
            column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_string_view(column.type):  # polars has these, and few functions of Arrow do
        return pc.cast(column, pa.large_string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.dictionary.type):
        return pa.DictionaryArray.from_arrays(column.indices, pc.cast(column.dictionary, pa.large_string()))
    return column


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class ValueCounts:
    """Counts equal values, block by block: holds each different value once, and as many that wait, or a million."""

    def __init__(self) -> None:
        self._values: list[Any] = []  # the different ones in one array, and those that wait
        self._rows = np.empty(0, dtype=np.int64)  # of each different value
        self._held = 0

    def add(self, values: Any) -> None:
        self._values.append(values)
        self._held += len(values)
        if self._held > len(self._rows) + max(_MOST_WAITING, len(self._rows)):
            self._merge()

    def rows(self) -> NDArray[np.int64]:
        self._merge()
        return self._rows

    def items(self) -> Iterable[tuple[Any, int]]:
        rows = self.rows().tolist()
        return zip(self._values[0].to_pylist() if self._values else [], rows, strict=True)

    def _merge(self) -> None:
        if self._held == len(self._rows):
            return
        encoded = pa.concat_arrays(self._values).dictionary_encode()
        places, known = encoded.indices.to_numpy(), len(self._rows)
        rows = np.bincount(places[known:], minlength=len(encoded.dictionary))
        # Known values stand first in the dictionary, in their order.
        rows[:known] += self._rows
        self._values, self._held, self._rows = [encoded.dictionary], len(rows), rows


def numbers(cells: Any, missing: MissingWords) -> tuple[NDArray[np.float64], Mask]:
    """Numbers, NaN where there is none; and which cells hold something else. No -0.0 among them."""
    kind = cells.type
    if pa.types.is_dictionary(kind):
        return _values_on_distinct(cells, lambda dictionary: numbers(dictionary, missing))
    wrong = np.zeros(len(cells), dtype=np.bool_)
    if is_text(kind):
        parsed, wrong = _parse_numbers(cells, missing)
    elif pa.types.is_decimal(kind):
        # Arrow's own cast multiplies and rounds twice: 0.3 would become 0.30000000000000004.
        parsed = pc.cast(pc.cast(cells, pa.string()), pa.float64())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        parsed = pc.cast(cells, pa.float64(), safe=False)
    elif pa.types.is_boolean(kind):
        parsed = pc.cast(pc.cast(cells, pa.uint8()), pa.float64())
    else:
        return np.full(len(cells), np.nan), _mask(pc.is_valid(cells))
    values = _with(parsed, np.nan) + 0.0
    for number in missing.numbers:
        values[values == number] = np.nan
    infinite = np.isinf(values)
    values[infinite] = np.nan
    return values, wrong | infinite


def plain_numbers(cells: Any) -> NDArray[Any] | None:
    """The numbers of a column in their own type, without a copy; None if the column may hold anything else."""
    kind = cells.type
    if cells.null_count or not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        return None
    return np.asarray(cells.to_numpy())


def _parse_numbers(cells: Any, missing: MissingWords) -> tuple[Any, Mask]:
    """First as they are, then without the words for missing, then without blanks: most columns need one step."""
    with contextlib.suppress(pa.ArrowInvalid):
        return pc.cast(cells, pa.float64()), np.zeros(len(cells), dtype=np.bool_)
    with contextlib.suppress(pa.ArrowInvalid):
        return pc.cast(_without_missing(cells, missing), pa.float64()), np.zeros(len(cells), dtype=np.bool_)
    cells = _without_missing(_trim(cells), missing)
    good = pc.match_substring_regex(cells, NUMBER)
    parsed = pc.cast(pc.if_else(good, cells, pa.scalar(None, cells.type)), pa.float64())
    # Arrow reads nan as a number that is none, and a block must not be read otherwise for another cell in it.
    nan = pc.match_substring_regex(cells, _NAN)
    return parsed, _mask(pc.and_(pc.invert(good), pc.invert(nan)))


def why_no_numbers(cells: Any) -> str:
    """What is the matter with cells that are no numbers, and the remedy, without a value; empty if that is not seen."""
    if pa.types.is_dictionary(cells.type):
        cells = pc.cast(cells, cells.type.value_type)
    if not is_text(cells.type):
        return ""
    texts = _trim(cells)
    commas = pc.match_substring_regex(texts, COMMA_FORM)
    others = pc.invert(pc.or_(commas, pc.match_substring_regex(texts, _INFINITE)))
    reasons = [f"; {COMMAS}"] if pc.any(commas).as_py() else []
    if pc.any(others).as_py():
        reasons.append("; has letters or other signs: remove units, and list words that mean missing as missing_words")
    return "".join(reasons)


def words(cells: Any, known: Any, missing: MissingWords) -> tuple[NDArray[np.int64], Mask, Mask]:
    """The place of each word among those known, -1 if it is none of them; which are missing; which are no words.

    A known word is that word, also where it is on the list of words that mean missing.
    """
    encoded = cells.dictionary_encode() if is_text(cells.type) else cells
    if not pa.types.is_dictionary(encoded.type):
        return np.full(len(cells), -1), _mask(pc.is_null(cells)), _mask(pc.is_valid(cells))
    # What is found for the distinct cells is spread over the rows; one more place at the end stands for null.
    distinct, rows = encoded.dictionary, _rows_of(encoded)
    if not is_text(distinct.type):
        valid = np.append(_mask(pc.is_valid(distinct)), False)[rows]
        return np.full(len(cells), -1), ~valid, valid
    trimmed = pc.cast(_trim(distinct), pa.string())
    positions = _with(pc.index_in(trimmed, value_set=known), -1).astype(np.int64)
    absent = (positions < 0) & _mask(pc.or_kleene(pc.is_null(trimmed), pc.is_in(trimmed, value_set=missing.words)))
    return np.append(positions, -1)[rows], np.append(absent, True)[rows], np.zeros(len(cells), dtype=np.bool_)


def text(cells: Any, missing: MissingWords) -> tuple[Any, Mask, Mask]:
    kind = cells.type
    if pa.types.is_dictionary(kind):
        cells, kind = pc.cast(cells, kind.value_type), kind.value_type
    if not is_text(kind):
        return pa.nulls(len(cells), pa.string()), _mask(pc.is_null(cells)), _mask(pc.is_valid(cells))
    trimmed = _without_missing(_trim(cells), missing)
    return pc.cast(trimmed, pa.large_string()), _mask(pc.is_null(trimmed)), np.zeros(len(cells), dtype=np.bool_)


def days(cells: Any, form: str, missing: MissingWords) -> tuple[NDArray[np.float64], Mask]:
    """Days since 1970, NaN where there is none; and which cells hold something else. The time of day is dropped."""
    kind = cells.type
    if pa.types.is_dictionary(kind):
        return _values_on_distinct(cells, lambda dictionary: days(dictionary, form, missing))
    if is_text(kind):
        return _values_on_distinct(cells.dictionary_encode(), lambda distinct: _parse_days(distinct, form, missing))
    nothing = np.zeros(len(cells), dtype=np.bool_)
    if pa.types.is_date(kind):
        return _day_numbers(cells), nothing
    if pa.types.is_timestamp(kind):
        # Times with a zone are held in UTC, and so is their day.
        moments = _with(pc.cast(pc.cast(cells, pa.int64()), pa.float64(), safe=False), np.nan)
        return np.floor(moments / _PER_DAY[kind.unit]), nothing
    return np.full(len(cells), np.nan), _mask(pc.is_valid(cells))


def _parse_days(cells: Any, form: str, missing: MissingWords) -> tuple[NDArray[np.float64], Mask]:
    cells = _without_missing(pc.cast(_trim(cells), pa.string()), missing)
    if form == "iso":
        looks_right = pc.match_substring_regex(cells, DAY)
        cut = pc.if_else(looks_right, pc.utf8_slice_codeunits(cells, 0, 10), pa.scalar(None, pa.string()))
        try:
            values = _day_numbers(cut)
        except pa.ArrowInvalid:  # a day that no calendar has
            values = np.array([_day(text, "%Y-%m-%d") for text in cut.to_pylist()], dtype=np.float64)
    else:
        # One call for each distinct day of the block, and days are few.
        values = np.array([_day(text, form) for text in cells.to_pylist()], dtype=np.float64)
    return values, _mask(pc.is_valid(cells)) & np.isnan(values)


@functools.lru_cache(maxsize=65536)
def _day(written: str | None, form: str) -> float:
    try:
        return math.nan if written is None else datetime.strptime(written, form).date().toordinal() - _EPOCH
    except ValueError:
        return math.nan


def lists(cells: Any, width: int) -> tuple[Any, Mask, Mask]:
    """The entries of all lists that have the right width, one after another; which are missing; which are wrong.

    A list in text is its numbers between commas, semicolons or blanks, in brackets or without.
    """
    kind = cells.type
    if pa.types.is_dictionary(kind):
        cells, kind = pc.cast(cells, kind.value_type), kind.value_type
    if is_text(kind):
        trimmed = pc.utf8_trim(cells, characters="[]() \t\r\n")
        emptied = pc.if_else(pc.equal(pc.binary_length(trimmed), 0), pa.scalar(None, kind), trimmed)
        cells = pc.split_pattern_regex(emptied, pattern=r"[,;\s]+")
        kind = cells.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return pa.array([], pa.float64()), _mask(pc.is_null(cells)), _mask(pc.is_valid(cells))
    missing = _mask(pc.is_null(cells))
    fits = pc.fill_null(pc.equal(pc.list_value_length(cells), width), fill_value=False)
    kept = cells if pc.all(fits).as_py() else cells.filter(fits)
    return kept.flatten(), missing, ~_mask(fits) & ~missing


def _values_on_distinct(
    cells: Any, look_up: Callable[[Any], tuple[NDArray[np.float64], Mask]]
) -> tuple[NDArray[np.float64], Mask]:
    values, wrong = look_up(cells.dictionary)
    rows = _rows_of(cells)
    return np.append(values, np.nan)[rows], np.append(wrong, False)[rows]


def _rows_of(cells: Any) -> NDArray[np.int64]:
    """The place of each row's cell in the dictionary; the one after the last stands for null."""
    return _with(pc.cast(cells.indices, pa.int64()), len(cells.dictionary))


def _without_missing(cells: Any, missing: MissingWords) -> Any:
    """Null in place of the words that mean missing; shares the text, and so copies none."""
    if not len(cells):
        return cells
    absent = pc.is_in(cells, value_set=pc.cast(missing.words, cells.type))
    valid = pc.and_(pc.is_valid(cells), pc.invert(absent))
    _, offsets, content = cells.buffers()
    size = 8 if pa.types.is_large_string(cells.type) else 4
    buffers = [pa.concat_arrays([valid]).buffers()[1], offsets.slice(cells.offset * size), content]
    return pa.Array.from_buffers(cells.type, len(cells), buffers)


def _with(cells: Any, value: Any) -> NDArray[Any]:
    filled = pc.fill_null(cells, value) if cells.null_count else cells
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _day_numbers(cells: Any) -> NDArray[np.float64]:
    return _with(pc.cast(pc.cast(pc.cast(cells, pa.date32()), pa.int32()), pa.float64()), np.nan)


def _mask(cells: Any) -> Mask:
    """Null marks nothing."""
    return _with(cells, False)
