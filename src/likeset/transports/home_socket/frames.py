"""Frames on a Unix socket: a length, and parts after it. Bounded, with an end to every wait, and nothing is unpickled.

A frame is its length (4 bytes, the most significant one first) and the parts of ``trust.encoding.fields``; the first
part says what it is.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from likeset.errors import BadDocument, BadMessage, NoAnswer
from likeset.trust.cards import fields, read_fields

SLACK = 1 << 20
"""Bytes of a frame around what it carries."""

_LENGTH_BYTES = 4
_CHUNK = 1 << 20
_MOST_SECONDS_OF_A_FRAME = 60.0  # from its first byte to its last, either way


class SocketLine:
    """One connection, of whatever side.

    Args:
        connection: a connected socket.
        seconds_of_a_frame: how long a frame may take from its first byte to its last.
    """

    def __init__(self, connection: socket.socket, *, seconds_of_a_frame: float = _MOST_SECONDS_OF_A_FRAME) -> None:
        self.connection = connection
        self._seconds = seconds_of_a_frame

    def send(self, *parts: bytes) -> None:
        """One frame.

        Raises:
            NoAnswer: the other side is gone, or takes nothing.
        """
        data = fields(*parts)
        try:
            self.connection.settimeout(self._seconds)
            self.connection.sendall(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
        except OSError as error:
            raise NoAnswer(f"nobody takes what is sent over the socket ({type(error).__name__})") from error

    def receive(self, *, most_bytes: int, seconds: float) -> tuple[bytes, ...] | None:
        """The parts of the next frame; None if the other side hung up before it.

        Args:
            most_bytes: no frame may be larger; nothing of a larger one is read.
            seconds: how long to wait for its first byte.

        Raises:
            BadMessage: it is no frame, or too large.
            NoAnswer: it does not come, or not as a whole.
        """
        first = self._some(1, time.monotonic() + seconds)
        if not first:
            return None
        end = time.monotonic() + self._seconds
        length = int.from_bytes(first + self._all(_LENGTH_BYTES - 1, end), "big")
        if length > most_bytes:
            raise BadMessage(f"a frame of {length} bytes; at most {most_bytes} may come")
        data = self._all(length, end)
        try:
            parts = read_fields(data, None, what="frame")
        except BadDocument as error:
            raise BadMessage(str(error)) from error
        if not parts:
            raise BadMessage("an empty frame")
        return parts

    def close(self) -> None:
        self.connection.close()

    def _all(self, count: int, end: float) -> bytes:
        # Grows with what came, not with what was announced.
        data = bytearray()
        while len(data) < count:
            piece = self._some(min(_CHUNK, count - len(data)), end)
            if not piece:
                raise NoAnswer("the other side of the socket hung up in the midst of a frame")
            data += piece
        return bytes(data)

    def _some(self, count: int, end: float) -> bytes:
        left = end - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self.connection.settimeout(left)
            return self.connection.recv(count)
        except TimeoutError:
            raise NoAnswer("the other side of the socket says nothing, or too slowly") from None
        except OSError as error:
            raise NoAnswer(f"the socket broke ({type(error).__name__})") from error


@contextmanager
def address_in(path: Path) -> Iterator[str]:
    """The address of a socket, for ``bind`` and ``connect``, however long the path is: an address has 107 bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
