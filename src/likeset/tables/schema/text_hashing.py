"""Text as counts of its pieces, each in the place that its hash gives: the same on every machine."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["count_pieces"]

_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_INVERSE = pow(_BASE, -1, 2**64)
_BLANK = 32


def count_pieces(texts: Any, *, width: int, letters: bool, length: int) -> NDArray[np.int64]:
    """How often each place of ``width`` is hit by a text's pieces; one row for each text, null counts as empty.

    A piece is ``length`` bytes of UTF-8 in a row, or ``length`` words in a row. Upper and lower case, composed and
    decomposed letters, one blank and many are the same. A text has a blank on both sides, so that its first and its
    last letters make pieces of their own.
    """
    folded = pc.utf8_normalize(pc.utf8_lower(pc.fill_null(pc.cast(texts, pa.large_string()), "")), form="NFC")
    squeezed = pc.replace_substring_regex(folded, pattern=r"\s+", replacement=" ")
    blank = pa.scalar(" ", pa.large_string())
    padded = pc.binary_join_element_wise(blank, pc.utf8_trim_whitespace(squeezed), blank, pa.scalar("", blank.type))
    signs, edges = _bytes_and_edges(padded)
    starts, ends, rows = _letters(edges, length) if letters else _words(signs, edges, length)
    places = _places(_hashes(signs, starts, ends), width)
    counts = np.bincount(rows * width + places, minlength=len(padded) * width)
    return counts.reshape(len(padded), width)


def _bytes_and_edges(texts: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All texts in one run of bytes, and where each begins; the last entry is the end."""
    joined = pa.concat_arrays([texts])  # a slice would share its parent's bytes
    _, offsets, content = joined.buffers()
    edges = np.frombuffer(offsets, dtype=np.int64)[joined.offset : joined.offset + len(joined) + 1]
    signs = np.frombuffer(content, dtype=np.uint8) if content is not None and content.size else np.empty(0, np.uint8)
    return signs[edges[0] : edges[-1]], edges - edges[0]


def _letters(edges: NDArray[np.int64], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    sizes = np.diff(edges)
    rows = np.repeat(np.arange(len(sizes)), np.maximum(sizes - length + 1, 0))
    # Positions 0, 1, 2, ... within each text: a count over all minus where the text's own count begins.
    firsts = np.concatenate([[0], np.cumsum(np.maximum(sizes - length + 1, 0))])[:-1]
    starts = np.arange(len(rows)) - firsts[rows] + edges[:-1][rows]
    return starts, starts + length, rows


def _words(
    signs: NDArray[np.uint8], edges: NDArray[np.int64], length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """A word begins after a blank, and ends before one; every text begins and ends with a blank."""
    blanks = np.flatnonzero(signs == _BLANK)
    rows = np.searchsorted(edges, blanks, side="right") - 1
    count = max(len(blanks) - length, 0)
    # From a blank to the length-th blank after it, if both are of one text and there is a word between them.
    kept = (rows[:count] == rows[length:]) & (blanks[length:] - blanks[:count] > 1)
    return blanks[:count][kept] + 1, blanks[length:][kept], rows[:count][kept]


def _hashes(signs: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A polynomial in the bytes of each piece, modulo 2^64: differences of one running sum, moved to the same power."""
    powers = np.concatenate([np.ones(1, np.uint64), np.cumprod(np.full(len(signs), _BASE, dtype=np.uint64))])
    inverses = np.concatenate([np.ones(1, np.uint64), np.cumprod(np.full(len(signs), _INVERSE, dtype=np.uint64))])
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum((signs.astype(np.uint64) + 1) * powers[:-1])])
    hashes: NDArray[np.uint64] = (sums[ends] - sums[starts]) * inverses[starts]
    return hashes


def _places(hashes: NDArray[np.uint64], width: int) -> NDArray[np.int64]:
    """Mix the bits (the finaliser of splitmix64), then scale the upper ones to the width."""
    mixed = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return (((mixed >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32)).astype(np.int64)
