"""Where the records of a delimited text begin and end: quoted line ends counted right, broken quotes found.

All of it on whole chunks of bytes at once: a quotation mark opens or closes by the number of marks before it, and a
line end ends a record if it lies outside of quotation marks. That holds for texts as RFC 4180 has them; a mark in the
middle of an unquoted field, which would turn inside into outside for the rest of the file, is an error with its line.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Broken", "Records", "field_counts", "split"]

_QUOTE, _LINE_FEED, _RETURN = (np.uint8(ord(sign)) for sign in '"\n\r')


class Broken(Exception):
    """The text is not what it should be.

    Attributes:
        offset: the byte of the chunk at which it is so.
        reason: what is wrong there and what to do about it.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason


@dataclass(frozen=True, eq=False)
class Records:
    """The complete records of a chunk, which begins where a record begins.

    Attributes:
        starts: the byte at which each record begins; empty lines are no records.
        end: the byte after the last complete record, empty line or line end.
        lines: how many line ends lie before ``end``.
        plain: each record is one line, and there are no empty ones.
        open_quote: the byte of a quotation mark that nothing closes; None if there is none.
    """

    starts: NDArray[np.int64]
    end: int
    lines: int
    plain: bool
    open_quote: int | None


def split(chunk: bytes, *, delimiter: str, last: bool) -> Records:
    """The records of a chunk that begins where a record begins.

    Args:
        chunk: bytes of the file.
        delimiter: the sign between fields.
        last: nothing follows in the file, so that the last record needs no line end.
    """
    signs = np.frombuffer(chunk, dtype=np.uint8)
    line_ends = np.flatnonzero(signs == _LINE_FEED)
    quotes = np.flatnonzero(signs == _QUOTE) if b'"' in chunk else np.empty(0, dtype=np.int64)
    ends = line_ends[np.searchsorted(quotes, line_ends) % 2 == 0] if len(quotes) else line_ends
    unclosed = int(quotes[-1]) if len(quotes) % 2 else None
    end = int(ends[-1]) + 1 if len(ends) else 0
    if last and unclosed is None:
        end = len(chunk)
    if len(quotes):
        _check_quotes(signs, quotes, delimiter=delimiter, end=len(chunk) if last else end)
    if b"\r" in chunk:
        _check_returns(signs[:end], quotes, last=last)
    starts = np.concatenate([[0], ends + 1])
    stops = np.append(ends, len(chunk)) if end == len(chunk) and (not len(ends) or ends[-1] + 1 < end) else ends
    starts = starts[: len(stops)]
    lengths = stops - starts
    empty = (lengths == 0) | ((lengths == 1) & (signs[np.minimum(starts, len(signs) - 1)] == _RETURN))
    lines = int(np.searchsorted(line_ends, end))
    return Records(
        starts=starts[~empty],
        end=end,
        lines=lines,
        plain=not empty.any() and lines in (len(starts), len(starts) - 1),
        open_quote=unclosed,
    )


def _check_quotes(signs: NDArray[np.uint8], quotes: NDArray[np.int64], *, delimiter: str, end: int) -> None:
    """Each opening mark begins a field, each closing one ends it; two together stand for one inside a field."""
    quotes = quotes[: np.searchsorted(quotes, end)]
    opening, closing = quotes[0::2], quotes[1::2]
    edge = np.array([ord(delimiter), _LINE_FEED, _RETURN, _QUOTE], dtype=np.uint8)
    begins = np.isin(signs[opening - 1], edge) | (opening == 0)
    ends = np.isin(signs[np.minimum(closing + 1, len(signs) - 1)], edge)  # the last byte is a mark, thus an edge
    bad, unended = opening[~begins], np.flatnonzero(~ends)
    if len(unended) and (not len(bad) or opening[unended[0]] < bad[0]):
        raise Broken(
            int(opening[unended[0]]),
            "the quotation mark that opens a field here is never closed, or text follows the closing one; "
            "close the field, and write a mark inside of it twice",
        )
    if len(bad):
        raise Broken(
            int(bad[0]),
            "a quotation mark stands in the middle of a field; put the whole field into quotation marks "
            "and write the mark inside of it twice",
        )


def _check_returns(signs: NDArray[np.uint8], quotes: NDArray[np.int64], *, last: bool) -> None:
    """A carriage return outside of quotation marks is followed by a line feed."""
    returns = np.flatnonzero(signs == _RETURN)
    if last and len(returns) and returns[-1] == len(signs) - 1:
        returns = returns[:-1]
    lone = returns[np.append(signs, _LINE_FEED)[returns + 1] != _LINE_FEED]
    lone = lone[np.searchsorted(quotes, lone) % 2 == 0]
    if len(lone):
        raise Broken(
            int(lone[0]), "a carriage return stands alone; save the file with line ends of the kind \\n or \\r\\n"
        )


def field_counts(chunk: bytes, starts: NDArray[np.int64], *, delimiter: str) -> NDArray[np.int64]:
    """How many fields each record has."""
    signs = np.frombuffer(chunk, dtype=np.uint8)
    delimiters = np.flatnonzero(signs == ord(delimiter))
    quotes = np.flatnonzero(signs == _QUOTE)
    delimiters = delimiters[np.searchsorted(quotes, delimiters) % 2 == 0]
    bounds = np.searchsorted(delimiters, np.append(starts, len(chunk)))
    return np.asarray(np.diff(bounds) + 1, dtype=np.int64)
