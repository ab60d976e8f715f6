"""Labels: numbers or text, and the same whether a file holds them typed or as text."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.tables.schema import cell_values
from likeset.tables.schema.cell_faults import Trouble
from likeset.tables.schema.cell_values import Mask, MissingWords
from likeset.tables.schema.columns import CategoryColumn
from likeset.tables.schema.declared_values import DeclaredValues

__all__ = ["MOST_LETTERS", "fault_of", "label_values", "narrow", "read_labels", "unusable_texts"]

MOST_LETTERS = 1000
"""Of a label that is text. Arrays of texts take as much room for each as for the longest."""

_HALVES = (0xD800, 0xDFFF)  # code units that are no letters

Bad = list[tuple[Trouble, str, Mask]]

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MISSING = (
    "has no label; leave such rows out, such as by "
    "\"sql:SELECT * FROM read_csv('FILE', all_varchar=true) WHERE LABEL IS NOT NULL\" in place of the file"
)
_TOO_LONG = f"is a label of more than {MOST_LETTERS} letters; shorten it"


def read_labels(
    column: Any, *, kind: str, values: Sequence[Any] | None, missing: MissingWords
) -> tuple[NDArray[Any], Bad]:
    """One label for each row, and which rows have none that can be used, with what to say about them.

    Numbers are float64, or int64 if they are whole as declared; categories whose values are not declared are text, in
    which a whole number has no decimals.
    """
    if kind == "number":
        numbers, wrong = cell_values.numbers(column, missing)
        gone = np.isnan(numbers) if wrong is None else np.isnan(numbers) & ~wrong
        return numbers, _bad_rows(gone, wrong, "is not a finite number")
    if values is not None:
        return _read_declared(column, values, missing)
    if kind == "category":
        column = _canonical(column)
    texts, absent, wrong = cell_values.text(column, missing)
    filled = pc.fill_null(texts, "")
    letters = pc.utf8_length(filled)
    longest = max(1, pc.max(letters).as_py() or 1)
    bad = _bad_rows(absent, wrong, "is not text")
    if longest > MOST_LETTERS:
        bad.append((Trouble.WRONG, _TOO_LONG, pc.greater(letters, MOST_LETTERS).to_numpy(zero_copy_only=False)))
        longest = MOST_LETTERS
    # Through distinct texts: each becomes a Python string once.
    encoded = filled.dictionary_encode()
    distinct = np.array([*encoded.dictionary.to_pylist(), ""], dtype=f"<U{longest}")
    labels = distinct[encoded.indices.to_numpy(zero_copy_only=False)]
    return labels, bad


def fault_of(labels: NDArray[Any], *, kind: str, values: Sequence[Any] | None) -> str | None:
    """What is wrong with labels that came from elsewhere, in words that quote none of them; None if nothing is.

    Whatever ``read_labels`` gives is right.
    """
    if kind == "number" or (values is not None and not isinstance(values[0], str)):
        if labels.dtype.kind not in "if":
            return "labels that are not numbers, as the schema declares them"
        if values is None:
            return None if np.isfinite(labels).all() else "labels that are not finite numbers"
    elif labels.dtype.kind != "U":
        return "labels that are not text, as the schema declares them"
    if values is None:
        return None
    return None if np.isin(labels, label_values(values)).all() else "labels that are none of the declared values"


def unusable_texts(labels: NDArray[Any]) -> Mask:
    """Which labels are texts that no message takes: too long, or with half of a pair of code units."""
    if labels.dtype.kind != "U" or not len(labels):
        return np.zeros(len(labels), dtype=np.bool_)
    codes = np.frombuffer(np.ascontiguousarray(labels).tobytes(), dtype=np.uint32).reshape(len(labels), -1)
    halves = ((codes >= _HALVES[0]) & (codes <= _HALVES[1])).any(axis=1)
    return np.asarray(halves | (np.strings.str_len(labels) > MOST_LETTERS))


def narrow(labels: NDArray[Any]) -> NDArray[Any]:
    """The same labels; texts in an array that has room for the longest of them, and not of others."""
    if labels.dtype.kind != "U":
        return labels
    return labels.astype(f"<U{max(1, int(np.strings.str_len(labels).max(initial=0)))}")


def label_values(values: Sequence[Any]) -> NDArray[Any]:
    """Declared values, as labels have them."""
    known = np.array(values)
    return known.astype(np.int64) if known.dtype.kind == "f" and (known == np.rint(known)).all() else known


def _read_declared(column: Any, values: Sequence[Any], missing: MissingWords) -> tuple[NDArray[Any], Bad]:
    places, troubles = _declared_values(tuple(values), missing).find(column)
    known = label_values(values)
    words = {
        Trouble.MISSING: _MISSING,
        Trouble.UNKNOWN: "is none of the declared values of the label",
        Trouble.WRONG: "is of another type than the declared values of the label; convert the column or the values",
    }
    return known[places], [(trouble, words[trouble], mask) for trouble, mask in troubles.items()]


@lru_cache(maxsize=64)
def _declared_values(values: tuple[Any, ...], missing: MissingWords) -> DeclaredValues:
    """The same for every block of a pass."""
    return DeclaredValues(CategoryColumn(kind="category", values=values), missing)


def _canonical(column: Any) -> Any:
    """Whole numbers without decimals, as text; only distinct cells are looked at."""
    if not cell_values.is_text(column.type) and not pa.types.is_dictionary(column.type):
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        elif pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.uint8())
        try:
            column = pc.cast(column, pa.string())
        except pa.ArrowNotImplementedError:
            return column
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    try:
        texts = pc.cast(encoded.dictionary, pa.string()).to_pylist()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return column
    words = [None if text is None else _whole(text.strip()) for text in texts]
    return pa.array(words, pa.string()).take(encoded.indices)


def _whole(text: str) -> str:
    if _NUMBER.fullmatch(text) is None:
        return text
    number = float(text)
    return str(int(number)) if abs(number) < 2**53 and number == int(number) else repr(number)


def _bad_rows(absent: Mask | None, wrong: Mask | None, complaint: str) -> Bad:
    spoken = ((Trouble.MISSING, _MISSING, absent), (Trouble.WRONG, complaint, wrong))
    return [(trouble, text, mask) for trouble, text, mask in spoken if mask is not None and mask.any()]
