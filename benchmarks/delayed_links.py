"""A link with delay: what comes to one port leaves for another one a while later, in order, both ways."""

import queue
import socket
import threading
import time

_AT_ONCE = 1 << 16


class DelayedLink:
    """Listens on a port of its own on this machine until it is closed.

    Args:
        port: on this machine, where everything goes.
        seconds: that everything takes on its way, in each direction.
    """

    def __init__(self, port: int, seconds: float) -> None:
        self._to, self._seconds = port, seconds
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """No more connections; those that are there stay."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for one, other in ((near, far), (far, near)):
                waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                threading.Thread(target=self._read, args=(one, waiting), daemon=True).start()
                threading.Thread(target=_write, args=(other, waiting), daemon=True).start()

    def _read(self, end: socket.socket, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        data = b"-"
        while data:
            try:
                data = end.recv(_AT_ONCE)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + self._seconds, data))


def _write(end: socket.socket, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
    """An end without bytes is the end of the stream."""
    while True:
        due, data = waiting.get()
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            if not data:
                end.shutdown(socket.SHUT_WR)
                return
            end.sendall(data)
        except OSError:
            return
