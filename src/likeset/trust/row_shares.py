"""Rows as words, and words as shares: each share alone is uniform, and all of them together add up to the row.

A *slot* of an offer becomes words of 64 bits: the encoded row in fixed point, the label as a one-hot code, a bit that
says whether there is a row at all, and 32 random bytes without which its envelope stays shut. Words are numbers modulo
2^64. All but one party get words from the system's generator, the last gets what is missing to the sum, so whoever
lacks one share knows nothing but sizes (docs/proofs/envelopes.md).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadDocument, InvalidArgument

__all__ = [
    "COMPUTE_ROLES",
    "FRACTION_BITS",
    "LARGEST_ENTRY",
    "RANDOM_BYTES",
    "RANDOM_WORDS",
    "WORD_BYTES",
    "ComputeRole",
    "SlotLayout",
    "Words",
    "are_shareable",
    "checksums",
    "fixed_point",
    "from_fixed_point",
    "joined_shares",
    "secret_order",
    "slot_words",
    "split_words",
    "word_bytes",
    "words_in",
]

ComputeRole = Literal["curator", "consumer", "witness"]
COMPUTE_ROLES: tuple[ComputeRole, ...] = ("curator", "consumer", "witness")
"""The compute parties in the order of their ranks."""

FRACTION_BITS = 16
"""Of an encoded row: an entry x becomes the whole number nearest to x times 2^16."""
LARGEST_ENTRY = 2.0**20
"""No entry of a row may be larger in size: a program that looks for larger ones needs room above what is honest."""
WORD_BYTES = 8
RANDOM_BYTES = 32
RANDOM_WORDS = RANDOM_BYTES // WORD_BYTES

Words = NDArray[np.uint64]
"""One line for each slot; numbers modulo 2^64, negative ones in two's complement."""

_ON_THE_WIRE = np.dtype(">u8")


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """Which word of a slot means what: row, one-hot label, valid, random.

    Attributes:
        columns: how many numbers a row has.
        classes: how many classes a label may be of; 0 where labels are no categories, or none are used.

    Raises:
        InvalidArgument: there is no such layout.
    """

    columns: int
    classes: int

    def __post_init__(self) -> None:
        if self.columns < 1 or self.classes < 0:
            raise InvalidArgument("layout", (self.columns, self.classes), "needs a column, and no fewer than 0 classes")

    @property
    def width(self) -> int:
        """Words of a slot."""
        return self.columns + self.classes + 1 + RANDOM_WORDS

    @property
    def row(self) -> slice:
        """The encoded row."""
        return slice(0, self.columns)

    @property
    def label(self) -> slice:
        """The one-hot label."""
        return slice(self.columns, self.columns + self.classes)

    @property
    def valid(self) -> int:
        """The bit that says whether the slot has a row."""
        return self.columns + self.classes

    @property
    def checked(self) -> slice:
        """What a checksum is over: everything that selection reads, and not the random words."""
        return slice(0, self.width - RANDOM_WORDS)

    @property
    def random(self) -> slice:
        """The words of the 32 random bytes."""
        return slice(self.width - RANDOM_WORDS, self.width)


def fixed_point(rows: Rows) -> Words:
    """Numbers as words: the nearest multiple of 2^-16, ties to even.

    Raises:
        InvalidArgument: a number is larger than any that can be shared, or is none.
    """
    numbers = np.asarray(rows, dtype=np.float64)
    if not _within(numbers).all():
        reason = f"must be finite and at most {LARGEST_ENTRY:.0f} in size to be shared; declare smaller weights"
        raise InvalidArgument("rows", f"array of shape {numbers.shape}", reason)
    return np.rint(numbers * 2.0**FRACTION_BITS).astype(np.int64).view(np.uint64)


def are_shareable(rows: Rows) -> NDArray[np.bool_]:
    """Of each row whether ``fixed_point`` takes all of its numbers."""
    return np.asarray(_within(np.asarray(rows, dtype=np.float64)).all(axis=1))


def _within(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # what is no number is not below any
        return np.asarray(np.abs(numbers) <= LARGEST_ENTRY)


def from_fixed_point(words: Words) -> NDArray[np.float64]:
    """The numbers that words stand for."""
    return np.ascontiguousarray(words).view(np.int64).astype(np.float64) * 2.0**-FRACTION_BITS


def slot_words(layout: SlotLayout, rows: Rows, classes: NDArray[np.int64], *, slots: int) -> Words:
    """Rows and labels as words, with the random words still zero; slots after the last row are empty, all of them 0.

    Args:
        layout: of a slot.
        rows: encoded, one line each.
        classes: the class of each row's label, from 0; empty where the layout has no classes.
        slots: how many slots there are.

    Raises:
        InvalidArgument: there are more rows than slots, or they do not fit the layout.
    """
    numbers = np.asarray(rows)
    if numbers.ndim != 2 or numbers.shape[1] != layout.columns or len(numbers) > slots:
        reason = f"must have {layout.columns} columns and at most {slots} rows"
        raise InvalidArgument("rows", f"array of shape {numbers.shape}", reason)
    if len(classes) != (len(numbers) if layout.classes else 0):
        raise InvalidArgument("classes", f"array of {len(classes)}", "there must be one for each row, or no classes")
    if len(classes) and not (classes.min() >= 0 and classes.max() < layout.classes):
        raise InvalidArgument("classes", f"array of {len(classes)}", f"must lie in 0 to {layout.classes - 1}")
    words = np.zeros((slots, layout.width), dtype=np.uint64)
    words[: len(numbers), layout.row] = fixed_point(numbers)
    if layout.classes:
        words[np.arange(len(numbers)), layout.columns + np.asarray(classes, dtype=np.int64)] = 1
    words[: len(numbers), layout.valid] = 1
    return words


def split_words(words: Words) -> tuple[Words, ...]:
    """Additive shares modulo 2^64, one for each compute party; all but the last are from ``os.urandom``."""
    drawn = [
        np.frombuffer(os.urandom(words.nbytes), dtype=np.uint64).reshape(words.shape)  # never a seed, never numpy's
        for _ in COMPUTE_ROLES[1:]
    ]
    last = np.array(words, dtype=np.uint64)
    for share in drawn:
        last -= share
    return (*drawn, last)


def joined_shares(shares: Sequence[Words]) -> Words:
    """What shares add up to."""
    total = np.array(shares[0], dtype=np.uint64)
    for share in shares[1:]:
        total += share
    return total


def secret_order(count: int) -> NDArray[np.int64]:
    """A permutation that nobody can guess: the order of random words of 64 bits."""
    return np.argsort(np.frombuffer(os.urandom(WORD_BYTES * count), dtype=np.uint64), kind="stable").astype(np.int64)


def checksums(layout: SlotLayout, words: Words, coefficients: Words) -> Words:
    """For each slot one linear combination, modulo 2^64, of all words but the random ones.

    Two rows that differ have the same one with probability 2^(t - 64) over uniform coefficients, where 2^t is the
    largest power of two that divides every difference; no row with large words counts in the program, so t is small.

    Args:
        layout: of a slot.
        words: of the slots.
        coefficients: one for each word that is checked, drawn jointly after inputs were fixed.

    Raises:
        InvalidArgument: there are more or fewer coefficients.
    """
    checked = words[:, layout.checked]
    if coefficients.shape != (checked.shape[1],) or coefficients.dtype != np.uint64:
        raise InvalidArgument("coefficients", f"array of shape {coefficients.shape}", "need one word for each checked")
    return np.asarray(checked @ coefficients, dtype=np.uint64)


def word_bytes(words: Words) -> bytes:
    """Words as they travel and are committed to: slot after slot, the most significant byte of a word first."""
    return words.astype(_ON_THE_WIRE).tobytes()


def words_in(data: bytes | memoryview, *, width: int) -> Words:
    """The words that ``word_bytes`` wrote: so many in a line.

    Raises:
        BadDocument: they do not fill lines of that width.
    """
    if len(data) % (WORD_BYTES * width):
        raise BadDocument("shares", f"do not consist of lines of {width} words")
    words: NDArray[Any] = np.frombuffer(data, dtype=_ON_THE_WIRE)
    return words.astype(np.uint64).reshape(-1, width)
