"""The console's server: loopback by default, few connections, and no patience with slow ones."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from likeset.errors import InvalidArgument

__all__ = ["Console", "bound_socket", "running"]

_MOST_CONNECTIONS = 100
_REQUEST_SECONDS = 20.0
_REPLY_SECONDS = 30.0
_STOP_SECONDS = 3
_LARGEST_HEAD = 32 << 10


class ImpatientProtocol(H11Protocol):
    """HTTP with a deadline for each request and each reply, and room for whoever comes last.

    Where there are too many connections, the one goes that has waited longest without a whole request: so somebody who
    opens hundreds and says nothing keeps nobody out.
    """

    waiting: "dict[ImpatientProtocol, None]"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there; a whole request is due in time."""
        self._deadline: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._wait_for_request()
        if len(self.connections) > _MOST_CONNECTIONS:
            longest = next(iter(self.waiting))  # this one at the latest
            del self.waiting[longest]  # its end is told later: in a burst the next one must not find it again
            longest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body:
            self.waiting.pop(self, None)
            self._disarm()

    def on_response_complete(self) -> None:
        """The next request is due, or the end."""
        super().on_response_complete()
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self.waiting.pop(self, None)
        self._disarm()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """They do not read what they asked for."""
        super().pause_writing()
        self._arm(_REPLY_SECONDS)

    def resume_writing(self) -> None:
        """They do again."""
        super().resume_writing()
        self._disarm()

    def _wait_for_request(self) -> None:
        self.waiting[self] = None
        self._arm(_REQUEST_SECONDS)

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Console:
    """A console that listens.

    Args:
        address: under which it is reached.
        server: that serves it.
        thread: in which it does.
    """

    def __init__(self, address: str, server: uvicorn.Server, thread: threading.Thread) -> None:
        self.address = address
        self._server = server
        self._thread = thread

    @property
    def is_running(self) -> bool:
        """Whether it still serves."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End it; what is being decided is decided first."""
        self._server.should_exit = True
        self._thread.join()


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens, at a port that was free if 0 is asked for.

    Raises:
        InvalidArgument: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgument("--port", f"{host}:{port}", f"cannot be listened at: {reason}") from error
    return listener


@contextmanager
def running(listener: socket.socket, app: ASGIApp, address: str) -> Iterator[Console]:
    """Serve an application at a socket in a thread of its own, until the block ends."""
    protocol: Any = type("Protocol", (ImpatientProtocol,), {"waiting": {}})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=_STOP_SECONDS,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
    )
    server = uvicorn.Server(config)
    started = threading.Event()
    thread = threading.Thread(target=_serve, args=(server, listener, started.set), name="console", daemon=True)
    thread.start()
    started.wait()
    console = Console(address, server, thread)
    try:
        yield console
    finally:
        console.stop()
        with contextlib.suppress(OSError):
            listener.close()


def _serve(server: uvicorn.Server, listener: socket.socket, tell: Callable[[], None]) -> None:
    async def serve() -> None:
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        tell()
        await task

    try:
        asyncio.run(serve())
    finally:
        tell()
