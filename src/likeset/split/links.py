"""One TLS link to each of the other compute parties: certificates of one run, pinned by all of their bytes.

Each party calls the next one (by rank) and accepts the one before it: so each pair has one link. It carries the
connections of the engines, by number, and short words between the parties. The curator says when an attempt begins.
"""

import asyncio
import contextlib
import datetime
import secrets
import struct
import tempfile
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from OpenSSL import SSL

from likeset.errors import BadDocument, LetterRefused, NoAnswer
from likeset.split.engine.agreement import PARTIES
from likeset.split.host import LAST_SECONDS, Attempt, WorkerProcess

_KEY_BYTES = 32
_FIRST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)  # it is pinned, and goes with its run


@dataclass(frozen=True)
class RunCertificate:
    certificate: bytes  # DER, for the others
    key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        key = Ed25519PrivateKey.generate()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "likeset split")])
        built = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_FIRST)
            .not_valid_after(_LAST)
            .sign(key, None)
        )
        return cls(built.public_bytes(Encoding.DER), key)

    def to_bytes(self) -> bytes:
        """Secret: for a party's own disk, so that the others know it again after a restart."""
        return self.key.private_bytes_raw() + self.certificate

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(data[_KEY_BYTES:], Ed25519PrivateKey.from_private_bytes(data[:_KEY_BYTES]))


def read_certificate(data: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(data)
    except (ValueError, x509.InvalidVersion):
        raise BadDocument("certificate", "is none") from None


@dataclass(frozen=True)
class TunnelPeer:
    """Another compute party: where it listens, and its certificate for this run, from a letter that it signed."""

    host: str
    port: int
    certificate: bytes


_GROUP = "X25519MLKEM768"
_PIECE = 1 << 18
_RECORD = 1 << 14
_SHAKE_SECONDS = 20.0
Plain = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Result = TypeVar("Result")


class TlsStream:
    """A connection, once ``shake_hands`` returned, whose other end has the expected certificate."""

    def __init__(self, own: RunCertificate, expected: bytes, plain: Plain, *, calls: bool) -> None:
        self._reader, self._writer = plain
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.use_certificate(read_certificate(own.certificate))
        context.use_privatekey(own.key)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)

        def is_expected(_: SSL.Connection, shown: object, *__: int) -> bool:
            # Every other check is of authorities, names and dates: here the whole certificate is known.
            return bool(shown.to_cryptography().public_bytes(Encoding.DER) == expected)  # type: ignore[attr-defined]

        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, is_expected)
        self._connection = SSL.Connection(context, None)
        (self._connection.set_connect_state if calls else self._connection.set_accept_state)()

    async def shake_hands(self) -> None:
        """Raise ``LetterRefused`` if the other end has another certificate, or none, or speaks something else."""
        try:
            async with asyncio.timeout(_SHAKE_SECONDS):
                await self._repeated(self._connection.do_handshake)
            if self._connection.get_group_name() != _GROUP:
                raise LetterRefused("a tunnel's other end has no post-quantum exchange of keys")
        except (SSL.Error, OSError, TimeoutError):
            raise LetterRefused("a tunnel's other end is not the compute party that is meant") from None

    async def read(self) -> bytes:
        try:
            return await self._repeated(lambda: self._connection.recv(_PIECE))
        except (SSL.Error, OSError):
            return b""

    def write(self, data: bytes) -> None:
        """Writes all data without interleaving; await ``drain`` after large writes."""
        view = memoryview(data)
        for first in range(0, len(view), _RECORD):
            self._connection.sendall(view[first : first + _RECORD])
        self._flush()

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    async def _repeated(self, step: Callable[[], Result]) -> Result:
        """A step of OpenSSL, repeated until it has what it needs of the other end.

        It never waits until the other end reads: both ends of a link that is full both ways would wait for ever.
        """
        while True:
            try:
                return step()
            except SSL.WantReadError:
                pass
            finally:
                self._flush()
            data = await self._reader.read(_PIECE)
            if not data:
                raise ConnectionResetError
            self._connection.bio_write(data)

    def _flush(self) -> None:
        with contextlib.suppress(SSL.WantReadError):
            while True:
                self._writer.write(self._connection.bio_read(_PIECE))


_HEAD = struct.Struct(">II")  # the number of a connection, or 0 for words of a party; how many bytes follow
_MOST_WORDS = 4096


class _Link:
    def __init__(self, stream: TlsStream, *, calls: bool) -> None:
        self._stream = stream
        self._number = 1 if calls else 2  # connections that begin at the party that called have odd numbers
        self.plain: dict[int, asyncio.StreamWriter] = {}  # to this party's engine, by the connection's number

    async def frames(self) -> AsyncIterator[tuple[int, bytes]]:
        """Until the link ends, or something else comes."""
        data = bytearray()
        while piece := await self._stream.read():
            data += piece
            while len(data) >= _HEAD.size:
                number, length = _HEAD.unpack_from(data)
                if length > (_PIECE if number else _MOST_WORDS):
                    return
                if len(data) < _HEAD.size + length:
                    break
                yield number, bytes(data[_HEAD.size : _HEAD.size + length])
                del data[: _HEAD.size + length]

    def send(self, number: int, data: bytes) -> None:
        with contextlib.suppress(OSError, SSL.Error):  # to a party that is gone: that is seen where the link is read
            self._stream.write(_HEAD.pack(number, len(data)) + data)

    def tell(self, *words: str) -> None:
        self.send(0, " ".join(words).encode("ascii"))

    def number(self) -> int:
        self._number += 2
        return self._number

    async def carry(self, number: int, plain: Plain) -> None:
        """What this party's engine sends on a connection, until one end closes it."""
        reader, writer = plain
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                self.send(number, data)
                await self._stream.drain()
        if self.plain.pop(number, None) is not None:
            self.send(number, b"")
        writer.close()

    async def deliver(self, number: int, data: bytes) -> None:
        """What came for this party's engine; no bytes say that the connection is closed."""
        writer = self.plain.get(number)
        if writer is not None and data:
            with contextlib.suppress(OSError):
                writer.write(data)
                await writer.drain()
        elif writer is not None:
            del self.plain[number]
            writer.close()

    def close(self) -> None:
        self._stream.close()
        for writer in self.plain.values():
            writer.close()
        self.plain.clear()


MOST_UNKNOWN = 64
"""Connections at a time whose other end has not yet shown its certificate, and reasons that are remembered."""
_LEADER = 0
_AGAIN = 0.2  # seconds until the next party is called again


class TunnelMeeting:
    """One party's links. Everything runs in a thread of its own within the party's process."""

    def __init__(self, rank: int, *, own: RunCertificate, host: str = "127.0.0.1", port: int = 0) -> None:
        self.rank, self._own = rank, own
        self._next, self._before = (rank + 1) % PARTIES, (rank - 1) % PARTIES
        self.refusals: deque[str] = deque(maxlen=MOST_UNKNOWN)  # for the log; without any value of a run
        self._unknown: dict[asyncio.StreamWriter, None] = {}  # in the order in which they came
        self._peers: dict[int, TunnelPeer] = {}
        self._links: dict[int, _Link] = {}
        self._ready: set[int] = set()  # followers that wait for the leader
        self._worker: WorkerProcess | None = None
        self._begun: asyncio.Future[Attempt] | None = None
        self._attempt = ""  # its name; empty when none goes on
        self._ended = ""  # how the attempt ended for the others, if they said so first
        self._done: set[int] = set()  # others that are done with the attempt
        self._all_done = asyncio.Event()
        self._sockets = contextlib.ExitStack()  # of the attempt, in a directory that goes with them
        self._own_socket = ""  # where this party's engine listens
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(
            asyncio.start_server(lambda *plain: self._spawn(self._accept(plain), plain[1]), host, port, limit=_PIECE)
        )
        self.port: int = self._server.sockets[0].getsockname()[1]

    def start(self, peers: Mapping[int, TunnelPeer]) -> None:
        self._peers = dict(peers)
        self._loop.call_soon_threadsafe(self._spawn, self._call())

    def join(self, timeout: float, worker: WorkerProcess) -> Attempt:
        try:
            return self._do(asyncio.wait_for(self._join(worker), timeout))
        except TimeoutError:
            why = f" ({self.refusals[-1]})" if self.refusals else ""
            raise NoAnswer(f"another compute party did not come in time{why}") from None

    def leave(self, how: str) -> str:
        return self._do(self._leave(how))

    def stop(self) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # another thread stopped the meeting, and its loop is closed
            work.close()
            raise NoAnswer("this party stopped") from None
        return future.result()

    def _spawn(self, work: Coroutine[Any, Any, None], connection: asyncio.StreamWriter | None = None) -> None:
        """Run something; its connection is closed when it ends, also if it is cancelled before its first step."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if connection is not None:
            task.add_done_callback(lambda _: connection.close())

    # Links.

    async def _call(self) -> None:
        peer = self._peers[self._next]
        while True:
            with contextlib.suppress(OSError):
                plain = await asyncio.open_connection(peer.host, peer.port, limit=_PIECE)
                try:
                    await self._serve(self._next, plain, calls=True)
                finally:
                    plain[1].close()
            await asyncio.sleep(_AGAIN)

    async def _accept(self, plain: Plain) -> None:
        writer = plain[1]
        self._unknown[writer] = None
        if len(self._unknown) > MOST_UNKNOWN:  # a party of the run needs a moment, and who waits longest is none
            oldest = next(iter(self._unknown))
            oldest.close()
            del self._unknown[oldest]
        try:
            await self._serve(self._before, plain, calls=False)
        finally:
            self._unknown.pop(writer, None)

    async def _serve(self, rank: int, plain: Plain, *, calls: bool) -> None:
        try:
            expected = self._peers[rank].certificate if rank in self._peers else b""
            stream = TlsStream(self._own, expected, plain, calls=calls)
            await stream.shake_hands()
        except LetterRefused as error:
            self.refusals.append(str(error))
            return
        self._unknown.pop(plain[1], None)
        if rank in self._links:  # the party was started again
            self._drop(rank, self._links[rank])
        link = self._links[rank] = _Link(stream, calls=calls)
        try:
            await self._announce()
            async for number, data in link.frames():
                if number:
                    await link.deliver(number, data)
                else:
                    await self._hear(rank, link, data.decode("ascii", "replace").split())
        finally:
            self._drop(rank, link)

    def _drop(self, rank: int, link: _Link) -> None:
        link.close()
        if self._links.get(rank) is link:
            del self._links[rank]
            self._ready.discard(rank)
            if rank not in self._done:
                self._over(self._attempt, "failed")

    async def _hear(self, rank: int, link: _Link, words: list[str]) -> None:
        match words:
            case ["ready"]:
                self._ready.add(rank)
                await self._announce()
            case ["go", name] if rank == _LEADER:
                if self._is_waiting:
                    await self._begin(name)
                else:
                    link.tell("failed", name)
            case ["open", number, name] if number.isdecimal():
                await self._connect(link, int(number), name)
            case ["failed" | "refused" as how, name]:
                self._over(name, how)
            case ["done", name] if name == self._attempt:
                self._done.add(rank)
                if self._done == set(self._peers):
                    self._all_done.set()

    def _tell_all(self, *words: str) -> None:
        for link in self._links.values():
            link.tell(*words)

    # Attempts.

    @property
    def _is_waiting(self) -> bool:
        return self._begun is not None and not self._begun.done()

    async def _join(self, worker: WorkerProcess) -> Attempt:
        self._worker, self._begun = worker, asyncio.get_running_loop().create_future()
        await self._announce()
        return await self._begun

    async def _announce(self) -> None:
        """A follower that waits, with both of its links, is ready; when all are, the leader says go."""
        if not self._is_waiting or len(self._links) < PARTIES - 1:
            return
        if self.rank != _LEADER:
            self._links[_LEADER].tell("ready")
        elif self._ready == set(self._peers):
            self._ready.clear()
            name = secrets.token_hex(16)
            self._tell_all("go", name)
            await self._begin(name)

    async def _begin(self, name: str) -> None:
        self._end()
        self._attempt, self._ended = name, ""
        self._done.clear()
        self._all_done.clear()
        folder = tempfile.TemporaryDirectory(prefix="likeset-", ignore_cleanup_errors=True)  # for nobody else
        paths = [f"{self._sockets.enter_context(folder)}/rank-{rank}" for rank in range(PARTIES)]
        self._own_socket = paths[self.rank]
        for rank in self._peers:
            entrance = await asyncio.start_unix_server(
                lambda *plain, rank=rank: self._spawn(self._enter(rank, name, plain), plain[1]),
                path=paths[rank],
                limit=_PIECE,
            )
            self._sockets.callback(entrance.close)
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(Attempt(name, tuple(f"unix:{path}" for path in paths)))
        else:  # it waited no longer
            await self._leave("failed")

    async def _enter(self, rank: int, name: str, plain: Plain) -> None:
        """This party's engine connected to another one; without a link it is closed, and the engine tries again."""
        link = self._links.get(rank)
        if link is not None:
            number = link.number()
            link.plain[number] = plain[1]
            link.tell("open", str(number), name)
            await link.carry(number, plain)

    async def _connect(self, link: _Link, number: int, name: str) -> None:
        """Another party's engine connects to this one, which may not listen yet: then it will try again."""
        try:
            if name != self._attempt or number in link.plain:
                raise ConnectionRefusedError
            plain = await asyncio.open_unix_connection(self._own_socket, limit=_PIECE)
        except OSError:
            link.send(number, b"")
            return
        link.plain[number] = plain[1]
        self._spawn(link.carry(number, plain), plain[1])

    def _over(self, name: str, how: str) -> None:
        """Another party ended the attempt before it was done, or is gone."""
        if name and name == self._attempt and not self._ended:
            self._ended = how
            self._all_done.set()
            if self._worker is not None:
                self._worker.kill()

    async def _leave(self, how: str) -> str:
        self._tell_all(how if how == "done" else self._ended or how, self._attempt)
        if how == "done":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_done.wait(), LAST_SECONDS)
        how = self._ended or how
        self._end()
        return how

    def _end(self) -> None:
        self._sockets.close()
        self._attempt = ""

    async def _stop(self) -> None:
        # Nobody new comes in. A server that is closed at once forgets connections that it has just taken, and leaves
        # them open: so it is closed last.
        for listening in self._server.sockets:
            self._loop.remove_reader(listening.fileno())
        self._over(self._attempt, "failed")
        self._end()
        if self._begun is not None and not self._begun.done():
            self._begun.set_exception(NoAnswer("this party stopped"))
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._tasks:  # all others are asyncio's own, which end by themselves and close what they took
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.sleep(0.01)  # what was closed, and what came in just now, has callbacks before it
        self._server.close()
