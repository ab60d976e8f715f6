"""Frames: how bytes are told apart on a pipe, on a link and in a file. No ``pickle``: reading runs no code.

A frame is ``LSF1``, the length of its kind (1 byte), the number of its parts (4 bytes), the length of each part
(8 bytes each), the kind in ASCII, the parts. Numbers have their most significant byte first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

__all__ = ["BadFrame", "Frame", "pack", "read_frame", "unpack"]

_MAGIC = b"LSF1"
_HEAD_BYTES = len(_MAGIC) + 1 + 4
_MOST_PARTS = 1 << 16
MOST_BYTES = 1 << 33
"""Of a frame from the party's own other process; what comes from elsewhere has a limit of its own."""


class BadFrame(ValueError):
    """Bytes that no writer of frames wrote."""


@dataclass(frozen=True)
class Frame:
    """What one side tells another.

    Attributes:
        kind: what it is.
        parts: what belongs to it.
    """

    kind: str
    parts: tuple[bytes, ...]


def pack(kind: str, *parts: bytes) -> bytes:
    """A frame as bytes."""
    name = kind.encode("ascii")
    if not 0 < len(name) < 256 or len(parts) > _MOST_PARTS:
        raise BadFrame("a kind has 1 to 255 letters, and a frame at most 65536 parts")
    head = _MAGIC + bytes([len(name)]) + len(parts).to_bytes(4, "big")
    return b"".join([head, *(len(part).to_bytes(8, "big") for part in parts), name, *parts])


def read_frame(stream: IO[bytes], *, most: int = MOST_BYTES) -> Frame | None:
    """The next frame of a stream; None at its end.

    Raises:
        BadFrame: what comes is none, is cut off, or has more than ``most`` bytes.
    """
    first = stream.read(1)
    return _read(lambda count: _exactly(stream, count), first, most) if first else None


def unpack(data: bytes, *, most: int = MOST_BYTES) -> Frame:
    """The frame that the bytes are, with nothing after it.

    Raises:
        BadFrame: they are none.
    """
    position = 1

    def take(count: int) -> bytes:
        nonlocal position
        position += count
        if position > len(data):
            raise BadFrame("a frame is cut off")
        return data[position - count : position]

    frame = _read(take, data[:1], most)
    if position != len(data):
        raise BadFrame("there is something after a frame")
    return frame


def _read(take: Callable[[int], bytes], first: bytes, most: int) -> Frame:
    head = first + take(_HEAD_BYTES - 1)
    if head[: len(_MAGIC)] != _MAGIC:
        raise BadFrame("there is something else where a frame should begin")
    count = int.from_bytes(head[-4:], "big")
    if count > _MOST_PARTS or not head[len(_MAGIC)]:
        raise BadFrame("a frame has too many parts, or no kind")
    sizes = take(8 * count)
    lengths = [int.from_bytes(sizes[8 * number : 8 * number + 8], "big") for number in range(count)]
    if sum(lengths) > most:
        raise BadFrame("a frame is larger than it may be")
    try:
        kind = take(head[len(_MAGIC)]).decode("ascii")
    except UnicodeDecodeError:
        raise BadFrame("the kind of a frame is no ASCII") from None
    return Frame(kind, tuple(take(length) for length in lengths))


def _exactly(stream: IO[bytes], count: int) -> bytes:
    pieces = []
    while count:
        piece = stream.read(count)
        if not piece:
            raise BadFrame("a frame is cut off")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
