"""How compute parties of different organisations meet: through tunnels, with rank 0 saying when an attempt begins.

Rank 0 begins an attempt when everybody is ready, and ends it for all when anybody's worker failed or somebody's
connection broke. Each attempt has a name of its own, so nothing of one gets into another.
"""

import asyncio
import contextlib
import secrets
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from likeset.errors import LetterRefused, NoAnswer
from likeset.split.certificates import RunCertificate
from likeset.split.engine.framing import BadFrame
from likeset.split.party import Attempt
from likeset.split.tls_stream import TlsStream
from likeset.split.tunnels import CONTROL, LINK, Greeting, TunnelPeer, accept_greeting, call_peer, carry, enter
from likeset.split.worker_process import WorkerProcess

__all__ = ["MOST_UNKNOWN", "TunnelMeeting"]

MOST_UNKNOWN = 64
"""Connections at a time whose other end has not yet said who it is, and reasons that are remembered."""

_LEADER = 0
_AGAIN = 0.2  # seconds until the leader is called again
_LAST_SECONDS = 10.0  # that a party waits for the others' last messages
_PIECE = 1 << 18
Result = TypeVar("Result")


class TunnelMeeting:
    """One party's side. Everything runs in a thread of its own within the party's process.

    Args:
        rank: of this party.
        session: 32 bytes, alike at all parties.
        own: this party's certificate for the run.
        host: address to listen on.
        port: 0 for any.

    Attributes:
        port: that it listens on, once it has started.
        refusals: why connections were refused, the last ones, for the log; without any value of a run.
    """

    def __init__(
        self, rank: int, *, session: bytes, own: RunCertificate, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.rank, self._session, self._own = rank, session, own
        self.refusals: deque[str] = deque(maxlen=MOST_UNKNOWN)
        self._unknown: dict[asyncio.StreamWriter, None] = {}  # in the order in which they came
        self._peers: dict[int, TunnelPeer] = {}
        self._worker: WorkerProcess | None = None
        self._attempt: str | None = None
        self._refused: set[str] = set()
        self._folder: Path | None = None
        self._entrances: list[asyncio.Server] = []
        self._controls: dict[int, TlsStream] = {}
        self._ready: set[int] = set()
        self._done: set[int] = set()
        self._all_done = asyncio.Event()
        self._begun: asyncio.Future[Attempt] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(
            asyncio.start_server(lambda *plain: self._spawn(self._serve(*plain), plain[1]), host, port, limit=_PIECE)
        )
        self.port: int = self._server.sockets[0].getsockname()[1]

    def start(self, peers: Mapping[int, TunnelPeer]) -> None:
        """Know the others: for each rank where it listens, and its certificate."""
        self._peers = dict(peers)
        if self.rank != _LEADER:
            self._loop.call_soon_threadsafe(self._spawn, self._follow())

    def join(self, timeout: float, worker: WorkerProcess) -> Attempt:
        """See ``Meeting``."""
        try:
            return self._do(asyncio.wait_for(self._join(worker), timeout))
        except TimeoutError:
            why = f" ({self.refusals[-1]})" if self.refusals else ""
            raise NoAnswer(f"another compute party did not come in time{why}") from None

    def leave(self, attempt: Attempt, *, how: str) -> None:
        """See ``Meeting``."""
        self._do(self._say_done() if how == "done" else self._fail(attempt.name, refused=how == "refused"))

    def was_refused(self, attempt: Attempt) -> bool:
        """See ``Meeting``."""
        return attempt.name in self._refused

    def stop(self) -> None:
        """Close everything."""
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _spawn(self, work: Coroutine[Any, Any, None], connection: asyncio.StreamWriter | None = None) -> None:
        """Run something; its connection is closed when it ends, also if it is cancelled before its first step."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if connection is not None:
            task.add_done_callback(lambda _: connection.close())

    async def _join(self, worker: WorkerProcess) -> Attempt:
        self._worker = worker
        self._begun = asyncio.get_running_loop().create_future()
        if self.rank == _LEADER:
            await self._is_ready(_LEADER)
        elif _LEADER in self._controls:
            await self._tell(_LEADER, "ready")
        return await self._begun

    async def _is_ready(self, rank: int) -> None:
        """At the leader: begin when the last one is."""
        self._ready.add(rank)
        if self._ready == {_LEADER, *self._peers} and self._begun is not None and not self._begun.done():
            self._ready.clear()
            name = secrets.token_hex(16)
            for follower in self._peers:
                await self._tell(follower, "go", name.encode("ascii"))
            await self._begin(name)

    async def _begin(self, name: str) -> None:
        self._end(name="")
        self._folder = Path(tempfile.mkdtemp(prefix="likeset-"))  # mkdtemp makes it for nobody else
        self._attempt = name
        addresses = []
        for rank in range(len(self._peers) + 1):
            path = self._folder / (f"engine-{rank}" if rank == self.rank else f"to-{rank}")
            addresses.append(f"unix:{path}")
            if rank != self.rank:
                self._entrances.append(
                    await enter(path, self._caller(rank, name), refused=self.refusals.append, spawn=self._spawn)
                )
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(Attempt(name, tuple(addresses)))

    def _caller(self, rank: int, name: str) -> Any:
        greeting = Greeting(self._session, self.rank, rank, LINK, name.encode("ascii"))
        return lambda: call_peer(self._own, self._peers[rank], greeting)

    def _end(self, *, name: str) -> None:
        """An attempt is over; the worker that was in it is killed if the attempt has this name."""
        if name and name != self._attempt:
            return
        if name and self._worker is not None and self._begun is not None and self._begun.done():
            self._worker.kill()
        for entrance in self._entrances:
            entrance.close()
        self._entrances.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._attempt = self._folder = None

    async def _fail(self, name: str, *, refused: bool = False) -> None:
        kind = "refused" if refused else "failed"
        if self.rank == _LEADER:
            if name == self._attempt:
                for follower in self._peers:
                    await self._tell(follower, kind, name.encode("ascii"))
        else:
            await self._tell(_LEADER, kind, name.encode("ascii"))
        self._over(name, kind)

    def _over(self, name: str, kind: str) -> None:
        """An attempt ended before it was done; that it was refused is known before its worker is gone."""
        if kind == "refused" and name == self._attempt:
            self._refused.add(name)
        self._end(name=name)

    async def _say_done(self) -> None:
        """Stay until all others are done as well, or for a while: somebody may be reading its last message."""
        await self._is_done(self.rank)
        if self.rank != _LEADER:
            await self._tell(_LEADER, "done")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_done.wait(), _LAST_SECONDS)

    async def _is_done(self, rank: int) -> None:
        self._done.add(rank)
        if self.rank == _LEADER and self._done == {_LEADER, *self._peers}:
            for follower in self._peers:
                await self._tell(follower, "end")
            self._all_done.set()

    async def _tell(self, rank: int, kind: str, *parts: bytes) -> None:
        """To a party that may be gone: then its connection ends, and that is seen where it is read."""
        if rank in self._controls:
            with contextlib.suppress(OSError):
                await self._controls[rank].tell(kind, *parts)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._unknown[writer] = None
        if len(self._unknown) > MOST_UNKNOWN:  # a party of the run needs a moment, whoever waits longest is none
            next(iter(self._unknown)).close()
            del self._unknown[next(iter(self._unknown))]
        try:
            stream, greeting, rest = await accept_greeting(
                self._own, self._peers, session=self._session, rank=self.rank, plain=(reader, writer)
            )
        except LetterRefused as error:
            self.refusals.append(str(error))
            return
        finally:
            self._unknown.pop(writer, None)
        if greeting.purpose == CONTROL and self.rank == _LEADER:
            await self._serve_follower(greeting.sender, stream, rest)
        elif greeting.purpose == LINK and greeting.attempt.decode("ascii", "replace") == self._attempt:
            await self._leave_tunnel(stream, rest)

    async def _leave_tunnel(self, stream: TlsStream, rest: bytes) -> None:
        try:
            plain = await asyncio.open_unix_connection(f"{self._folder}/engine-{self.rank}", limit=_PIECE)
        except OSError:  # the engine does not listen yet, and the other one will try again
            return
        await carry(stream, plain, rest)

    async def _serve_follower(self, rank: int, stream: TlsStream, rest: bytes) -> None:
        self._controls[rank] = stream
        try:
            while True:
                frame, rest = await stream.hear_after(rest)
                if frame.kind == "ready":
                    await self._is_ready(rank)
                elif frame.kind == "done":
                    await self._is_done(rank)
                elif frame.kind in ("failed", "refused") and frame.parts == (str(self._attempt).encode("ascii"),):
                    await self._fail(str(self._attempt), refused=frame.kind == "refused")
        except BadFrame:
            if self._controls.get(rank) is stream:
                del self._controls[rank]
                self._ready.discard(rank)
                if self._attempt is not None:
                    await self._fail(self._attempt)

    async def _follow(self) -> None:
        """Stay connected to the leader."""
        greeting = Greeting(self._session, self.rank, _LEADER, CONTROL)
        while True:
            try:
                with contextlib.closing(await call_peer(self._own, self._peers[_LEADER], greeting)) as stream:
                    self._controls[_LEADER] = stream
                    if self._begun is not None and not self._begun.done():
                        await stream.tell("ready")
                    await self._hear_leader(stream)
            except LetterRefused as error:
                self.refusals.append(str(error))
            except (OSError, BadFrame):
                pass
            self._controls.pop(_LEADER, None)
            if self._attempt is not None:
                self._end(name=self._attempt)
            await asyncio.sleep(_AGAIN)

    async def _hear_leader(self, stream: TlsStream) -> None:
        rest = b""
        while True:
            frame, rest = await stream.hear_after(rest)
            name = b"".join(frame.parts).decode("ascii", "replace")
            if frame.kind == "go":
                await self._begin(name)
            elif frame.kind in ("failed", "refused"):
                self._over(name, frame.kind)
            elif frame.kind == "end":
                self._all_done.set()

    async def _stop(self) -> None:
        # Nobody new comes in. A server that is closed at once forgets connections that it has just taken, and leaves
        # them open: so it is closed last.
        for listening in self._server.sockets:
            self._loop.remove_reader(listening.fileno())
        self._end(name=self._attempt or "")
        for stream in self._controls.values():
            stream.close()
        self._all_done.set()
        if self._begun is not None and not self._begun.done():
            self._begun.set_exception(NoAnswer("this party stopped"))
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._tasks:  # all others are asyncio's own, which end by themselves and close what they took
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.sleep(0.01)  # what was closed, and what came in just now, has callbacks before it
        self._server.close()
