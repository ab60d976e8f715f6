"""Cells of an Arrow column as numbers, words, days or lists, whatever type the file gave them.

A file of text and a file of typed columns must give the same bits, so text is read by one correctly rounded parser, and
whatever Arrow would round otherwise (decimals) goes through text. Nothing here loops over rows.

Numbers with decimal commas are recognised and never read: a comma separates decimals in one country and thousands in
another, and a file does not say which.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NAN = r"^[+-]?[nN][aA][nN](\(.*\))?$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}($|[T ])"
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
    """Whether Arrow holds cells of this type as text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def numbers(cells: Any, missing: MissingWords) -> tuple[NDArray[np.float64], Mask | None]:
    """Numbers, NaN where there is none; and which cells hold something else. No -0.0 among them."""
    kind = cells.type
    if pa.types.is_dictionary(kind):
        return _values_on_distinct(cells, lambda dictionary: numbers(dictionary, missing))
    if is_text(kind):
        parsed, wrong = _parse_numbers(cells, missing)
    elif pa.types.is_decimal(kind):
        # Arrow's own cast multiplies and rounds twice: 0.3 would become 0.30000000000000004.
        parsed, wrong = pc.cast(pc.cast(cells, pa.string()), pa.float64()), None
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        parsed, wrong = pc.cast(cells, pa.float64(), safe=False), None
    elif pa.types.is_boolean(kind):
        parsed, wrong = pc.cast(pc.cast(cells, pa.uint8()), pa.float64()), None
    else:
        return np.full(len(cells), np.nan), _not_null(cells)
    values = _with_nan(parsed) + 0.0
    for number in missing.numbers:
        values[values == number] = np.nan
    infinite = np.isinf(values)
    if infinite.any():
        values[infinite] = np.nan
        wrong = infinite if wrong is None else wrong | infinite
    return values, wrong


def plain_numbers(cells: Any) -> NDArray[Any] | None:
    """Numbers as they lie in memory, not copied, in a type of their own; None if there may be anything else."""
    kind = cells.type
    if cells.null_count or not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        return None
    return np.asarray(cells.to_numpy())


def _parse_numbers(cells: Any, missing: MissingWords) -> tuple[Any, Mask | None]:
    """First as they are, then without the words for missing, then without blanks: most columns need one step."""
    with contextlib.suppress(pa.ArrowInvalid):
        return pc.cast(cells, pa.float64()), None
    with contextlib.suppress(pa.ArrowInvalid):
        return pc.cast(_without_missing(cells, missing), pa.float64()), None
    cells = _without_missing(_trim(cells), missing)
    good = pc.match_substring_regex(cells, NUMBER)
    parsed = pc.cast(pc.if_else(good, cells, pa.scalar(None, cells.type)), pa.float64())
    # Arrow reads nan as a number that is none, and a block must not be read otherwise for another cell in it.
    nan = pc.match_substring_regex(cells, _NAN)
    return parsed, _mask(pc.and_(pc.invert(good), pc.invert(nan)))


def words(cells: Any, known: Any, missing: MissingWords) -> tuple[NDArray[np.int64], Mask | None, Mask | None]:
    """The place of each word among those known, -1 if it is none of them; which are missing; which are no words.

    A known word is that word, also where it is on the list of words that mean missing.
    """
    encoded = cells.dictionary_encode() if is_text(cells.type) else cells
    if pa.types.is_dictionary(encoded.type):
        return on_distinct(encoded, lambda distinct: _look_up(distinct, known, missing))
    return np.full(len(cells), -1), _mask(pc.is_null(cells)), _not_null(cells)


def _look_up(cells: Any, known: Any, missing: MissingWords) -> tuple[NDArray[np.int64], Mask | None, Mask | None]:
    if not is_text(cells.type):
        return np.full(len(cells), -1), _mask(pc.is_null(cells)), _not_null(cells)
    trimmed = pc.cast(_trim(cells), pa.string())
    positions = pc.index_in(trimmed, value_set=known)
    absent = pc.and_(
        pc.is_null(positions), pc.or_kleene(pc.is_null(trimmed), pc.is_in(trimmed, value_set=missing.words))
    )
    return pc.fill_null(positions, -1).to_numpy(zero_copy_only=False).astype(np.int64), _mask(absent), None


def text(cells: Any, missing: MissingWords) -> tuple[Any, Mask | None, Mask | None]:
    kind = cells.type
    if pa.types.is_dictionary(kind):
        cells, kind = pc.cast(cells, kind.value_type), kind.value_type
    if not is_text(kind):
        return pa.nulls(len(cells), pa.string()), _mask(pc.is_null(cells)), _not_null(cells)
    trimmed = _without_missing(_trim(cells), missing)
    return pc.cast(trimmed, pa.large_string()), _mask(pc.is_null(trimmed)), None


def days(cells: Any, form: str, missing: MissingWords) -> tuple[NDArray[np.float64], Mask | None]:
    """Days since 1970, NaN where there is none; and which cells hold something else. The time of day is dropped."""
    kind = cells.type
    if pa.types.is_dictionary(kind):
        return _values_on_distinct(cells, lambda dictionary: days(dictionary, form, missing))
    if is_text(kind):
        return _values_on_distinct(cells.dictionary_encode(), lambda distinct: _parse_days(distinct, form, missing))
    if pa.types.is_date(kind):
        return _with_nan(pc.cast(pc.cast(pc.cast(cells, pa.date32()), pa.int32()), pa.float64())), None
    if pa.types.is_timestamp(kind):
        # Times with a zone are held in UTC, and so is their day.
        return np.floor(
            _with_nan(pc.cast(pc.cast(cells, pa.int64()), pa.float64(), safe=False)) / _PER_DAY[kind.unit]
        ), None
    return np.full(len(cells), np.nan), _not_null(cells)


def _parse_days(cells: Any, form: str, missing: MissingWords) -> tuple[NDArray[np.float64], Mask | None]:
    cells = _without_missing(pc.cast(_trim(cells), pa.string()), missing)
    if form == "iso":
        looks_right = pc.match_substring_regex(cells, _DAY)
        cut = pc.if_else(looks_right, pc.utf8_slice_codeunits(cells, 0, 10), pa.scalar(None, pa.string()))
        try:
            day_numbers = pc.cast(pc.cast(pc.cast(cut, pa.date32()), pa.int32()), pa.float64())
            wrong = _mask(pc.and_(pc.is_null(day_numbers), pc.is_valid(cells)))
            return _with_nan(day_numbers), wrong
        except pa.ArrowInvalid:  # a day that no calendar has
            days_of = [None if text is None else _day(text, "%Y-%m-%d") for text in cut.to_pylist()]
    else:
        # One call for each distinct day of the block, and days are few.
        days_of = [None if text is None else _day(text, form) for text in cells.to_pylist()]
    values = np.array([np.nan if day is None else day for day in days_of], dtype=np.float64)
    return values, _mask(pc.and_(pc.is_valid(cells), pa.array(np.isnan(values))))


@functools.lru_cache(maxsize=65536)
def _day(written: str, form: str) -> int | None:
    try:
        return datetime.strptime(written, form).date().toordinal() - _EPOCH
    except ValueError:
        return None


def lists(cells: Any, width: int) -> tuple[Any, Mask | None, Mask | None]:
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
        return pa.array([], pa.float64()), _mask(pc.is_null(cells)), _not_null(cells)
    missing = _mask(pc.is_null(cells))
    fits = pc.fill_null(pc.equal(pc.list_value_length(cells), width), fill_value=False)
    if pc.all(fits).as_py():
        return cells.flatten(), missing, None
    wrong = _mask(pc.and_(pc.invert(fits), pc.is_valid(cells)))
    return cells.filter(fits).flatten(), missing, wrong


def on_distinct(
    cells: Any, look_up: Callable[[Any], tuple[NDArray[np.int64], Mask | None, Mask | None]]
) -> tuple[NDArray[np.int64], Mask | None, Mask | None]:
    """What is found for the distinct cells of a dictionary, spread over the rows."""
    positions, missing, wrong = look_up(cells.dictionary)
    size, rows = len(cells.dictionary), _rows_of(cells)
    # One more place at the end stands for null.
    places = np.append(positions, -1)[rows]
    absent = _mask_on_rows(missing, rows, size=size, null=cells.null_count > 0)
    return places, absent, _mask_on_rows(wrong, rows, size=size, null=False)


def _values_on_distinct(
    cells: Any, look_up: Callable[[Any], tuple[NDArray[np.float64], Mask | None]]
) -> tuple[NDArray[np.float64], Mask | None]:
    values, wrong = look_up(cells.dictionary)
    rows = _rows_of(cells)
    return np.append(values, np.nan)[rows], _mask_on_rows(wrong, rows, size=len(cells.dictionary), null=False)


def _rows_of(cells: Any) -> NDArray[np.int64]:
    last = len(cells.dictionary)
    indices = pc.fill_null(pc.cast(cells.indices, pa.int64()), last)
    return np.asarray(indices.to_numpy(zero_copy_only=False))


def _mask_on_rows(mask: Mask | None, rows: NDArray[np.int64], *, size: int, null: bool) -> Mask | None:
    """A mask over distinct cells, spread over the rows; None if it would mark nothing."""
    if mask is None and not null:
        return None
    spread = np.append(np.zeros(size, dtype=np.bool_) if mask is None else mask, null)[rows]
    return spread if spread.any() else None


def _trim(cells: Any) -> Any:
    return pc.utf8_trim_whitespace(cells)


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


def _with_nan(cells: Any) -> NDArray[np.float64]:
    filled = pc.fill_null(cells, np.nan) if cells.null_count else cells
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _mask(cells: Any) -> Mask | None:
    """A mask, or None if nothing is marked; null marks nothing."""
    filled = pc.fill_null(cells, fill_value=False)
    if not pc.any(filled, min_count=0).as_py():
        return None
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _not_null(cells: Any) -> Mask | None:
    return _mask(pc.is_valid(cells))


WITH_COMMA = r"^[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?([eE][+-]?[0-9]+)?$"


def comma_remedy(columns: Mapping[str, bool]) -> str:
    """What whoever holds a file can do about its columns with decimal commas, in one query for all of them.

    ``columns`` says for each whether a point stands between thousands.
    """
    rows = "FROM read_csv('FILE', all_varchar=true)"
    if any(columns.values()):
        parts = ", ".join(_with_points(name, thousands=thousands) for name, thousands in columns.items())
        return f"write decimal points, or give sql:SELECT * REPLACE ({parts}) {rows} in place of the file"
    query = f"\"sql:SELECT replace(COLUMNS(*), ',', '.') {rows}\""
    return f"write decimal points, or give {query} in place of the file (commas in words become points, too)"


def _with_points(column: str, *, thousands: bool) -> str:
    name = '"' + column.replace('"', '""') + '"'
    digits = f"replace({name}, '.', '')" if thousands else name
    return f"replace({digits}, ',', '.') AS {name}"


def as_points(texts: Any) -> Any:
    """The same numbers with a point, and without signs between thousands."""
    return pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")
