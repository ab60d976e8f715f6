"""Which public sums of a row's words are looked at, so that no row far out of its ranges counts.

To compare every word of every row with its bounds takes longer than anything else before the first pick. So random
sums of a row's words are compared instead, drawn when inputs are fixed, and then the row's norm.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from .settings import FEWEST_SQUARES, TAYLOR, WORD_BITS, ProgramSettings

__all__ = ["RANGE_TESTS", "range_tests"]

RANGE_TESTS = 64
"""Sums of a row, or of each block of its columns: a row that is far out passes all with probability 2^-64."""
_LARGEST_UNSEEN = 126.0  # of what sums cannot see: its square, with 48 bits behind the point, is below 2^62
_SMALLEST_UNIT = TAYLOR * 2**FEWEST_SQUARES  # of exponents

Words = NDArray[np.int64]


def range_tests(seed: bytes, settings: ProgramSettings) -> Words:
    """For each column and each sum 1 if the word counts in it, 0 if not.

    Sums are of blocks of columns, in which no word can be too large for the norm to be computed. In a block of no more
    columns than there would be sums each word is a sum by itself.
    """
    widths = np.diff(_blocks(settings))
    tests = np.zeros((settings.columns, int(np.minimum(widths, RANGE_TESTS).sum())), dtype=np.int64)
    stream = hashlib.shake_256(b"likeset split ranges" + seed).digest(8 * settings.columns)
    drawn = np.unpackbits(np.frombuffer(stream, dtype=np.uint8)).reshape(settings.columns, RANGE_TESTS)
    column, test = 0, 0
    for width in widths.tolist():
        block = drawn[column : column + width] if width > RANGE_TESTS else np.eye(width, dtype=np.int64)
        tests[column : column + width, test : test + block.shape[1]] = block
        column, test = column + width, test + block.shape[1]
    return tests


def _blocks(settings: ProgramSettings) -> Words:
    """Where each block begins, and the end of the last: as few of them as can be."""
    halves = (np.array(settings.highs) - np.array(settings.lows) + 1) / 2 / (1 << WORD_BITS)
    sums = np.concatenate([[0.0], np.cumsum(halves)])
    count = 1
    while True:
        ends = np.linspace(0, settings.columns, count + 1).astype(np.int64)
        unseen = 2 * np.diff(sums[ends]) * np.sqrt(settings.gamma / _SMALLEST_UNIT)
        if (unseen[np.diff(ends) > RANGE_TESTS] <= _LARGEST_UNSEEN).all():
            return ends
        count += 1
