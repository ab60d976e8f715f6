"""TLS links between compute parties: certificates of one run, pinned by all of their bytes."""

import asyncio
import contextlib
import datetime
import secrets
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from OpenSSL import SSL

from likeset.errors import BadDocument, LetterRefused, NoAnswer
from likeset.split.engine.agreement import BadFrame, Frame, pack, unpack
from likeset.split.host import Attempt, WorkerProcess

_KEY_BYTES = 32
_FIRST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)  # it is pinned, and goes with its run


@dataclass(frozen=True)
class RunCertificate:
    """A party's certificate with its key.

    Attributes:
        certificate: all bytes of it (DER), for the others.
        key: for nobody else.
    """

    certificate: bytes
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
        """Secret: for a party's own disk, so that it is known again after it was killed."""
        return self.key.private_bytes_raw() + self.certificate

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What ``to_bytes`` wrote.

        Raises:
            BadDocument: it is something else.
        """
        secret, certificate = data[:_KEY_BYTES], data[_KEY_BYTES:]
        try:
            key = Ed25519PrivateKey.from_private_bytes(secret)
        except ValueError:
            raise BadDocument("certificate", "is none") from None
        if read_certificate(certificate).public_key() != key.public_key():
            raise BadDocument("certificate", "does not belong to its key")
        return cls(certificate, key)


def read_certificate(data: bytes) -> x509.Certificate:
    """A certificate from its bytes.

    Raises:
        BadDocument: they are none.
    """
    try:
        return x509.load_der_x509_certificate(data)
    except (ValueError, x509.InvalidVersion):
        raise BadDocument("certificate", "is none") from None


_DER = Encoding.DER
_GROUP = "X25519MLKEM768"
_PIECE = 1 << 18
_RECORD = 1 << 14
_MOST_TOLD = 4096
_SHAKE_SECONDS = 20.0


class TlsStream:
    """A connection whose other end is known.

    Attributes:
        certificate: the other end's, all bytes of it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: SSL.Connection) -> None:
        self._reader, self._writer, self._connection = reader, writer, connection
        self.certificate = b""

    async def shake_hands(self) -> None:
        """Agree on keys with somebody whose certificate is expected.

        Raises:
            LetterRefused: the other end has another certificate, or none, or speaks something else.
        """
        try:
            async with asyncio.timeout(_SHAKE_SECONDS):
                await self._shake_hands()
        except (SSL.Error, OSError, TimeoutError):
            self.close()
            raise LetterRefused("a tunnel's other end is none of the run's compute parties") from None
        certificate = self._connection.get_peer_certificate(as_cryptography=True)
        if certificate is None or self._connection.get_group_name() != _GROUP:
            self.close()
            raise LetterRefused("a tunnel's other end has no certificate, or no post-quantum exchange of keys")
        self.certificate = certificate.public_bytes(_DER)

    async def _shake_hands(self) -> None:
        while True:
            try:
                self._connection.do_handshake()
            except SSL.WantReadError:
                await self._flush()
                await self._more()
            else:
                await self._flush()
                return
            finally:
                await self._flush()

    async def read(self) -> bytes:
        while True:
            try:
                return self._connection.recv(_PIECE)
            except SSL.WantReadError:
                await self._flush()
                try:
                    await self._more()
                except OSError:
                    return b""
            except SSL.Error:
                return b""

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        for first in range(0, len(view), _RECORD):
            self._connection.sendall(view[first : first + _RECORD])
        await self._flush()

    async def tell(self, kind: str, *parts: bytes) -> None:
        frame = pack(kind, *parts)
        await self.write(len(frame).to_bytes(4, "big") + frame)

    async def hear(self) -> tuple[Frame, bytes]:
        """The next small frame, and bytes that came after it."""
        return await self.hear_after(b"")

    async def hear_after(self, begun: bytes) -> tuple[Frame, bytes]:
        """The same, where some bytes of it came already.

        Raises:
            BadFrame: something else comes, or nothing.
        """
        data = begun
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            if len(data) >= 4 and int.from_bytes(data[:4], "big") > _MOST_TOLD:
                raise BadFrame("a tunnel says more than it may")
            piece = await self.read()
            if not piece:
                raise BadFrame("a tunnel ended")
            data += piece
        end = 4 + int.from_bytes(data[:4], "big")
        return unpack(data[4:end], most=_MOST_TOLD), data[end:]

    def close(self) -> None:
        self._writer.close()

    async def _more(self) -> None:
        data = await self._reader.read(_PIECE)
        if not data:
            raise ConnectionResetError
        self._connection.bio_write(data)

    async def _flush(self) -> None:
        while True:
            try:
                self._writer.write(self._connection.bio_read(_PIECE))
            except SSL.WantReadError:
                break
        await self._writer.drain()


def tls_client(
    own: RunCertificate, expected: Collection[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> TlsStream:
    """The end that connected; shakes hands with one of the expected certificates only."""
    connection = SSL.Connection(_context(own, frozenset(expected)), None)
    connection.set_connect_state()
    return TlsStream(reader, writer, connection)


def tls_server(
    own: RunCertificate, expected: Collection[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> TlsStream:
    connection = SSL.Connection(_context(own, frozenset(expected)), None)
    connection.set_accept_state()
    return TlsStream(reader, writer, connection)


def _context(own: RunCertificate, expected: frozenset[bytes]) -> SSL.Context:
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.use_certificate(read_certificate(own.certificate))
    context.use_privatekey(own.key)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)

    def known(_: SSL.Connection, shown: object, *__: int) -> bool:
        # Every other check is of authorities, names and dates: here the whole certificate is known.
        return shown.to_cryptography().public_bytes(_DER) in expected  # type: ignore[attr-defined]

    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, known)
    return context


CONTROL, LINK = b"control", b"link"
Plain = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class TunnelPeer:
    """Another compute party.

    Attributes:
        host: where its tunnels listen.
        port: likewise.
        certificate: for this run, from a letter that it signed.
    """

    host: str
    port: int
    certificate: bytes


@dataclass(frozen=True)
class Greeting:
    """What a connection is for.

    Attributes:
        session: of all parties; nobody else's connections are taken.
        sender: rank of the party that connects.
        reader: rank of the party that it means to reach.
        purpose: ``control`` or ``link``.
        attempt: that a link belongs to.
    """

    session: bytes
    sender: int
    reader: int
    purpose: bytes
    attempt: bytes = b""


async def call_peer(own: RunCertificate, peer: TunnelPeer, greeting: Greeting) -> TlsStream:
    """Connect to a party and say what for.

    Raises:
        LetterRefused: somebody else is there.
        OSError: nobody is.
    """
    reader, writer = await asyncio.open_connection(peer.host, peer.port, limit=_PIECE)
    stream = tls_client(own, [peer.certificate], reader, writer)
    try:
        await stream.shake_hands()
        ranks = bytes([greeting.sender, greeting.reader])
        await stream.tell("greeting", greeting.session, ranks, greeting.purpose, greeting.attempt)
    except BaseException:
        stream.close()
        raise
    return stream


async def accept_greeting(
    own: RunCertificate, peers: Mapping[int, TunnelPeer], *, session: bytes, rank: int, plain: Plain
) -> tuple[TlsStream, Greeting, bytes]:
    """Somebody connected: who, what for, and the bytes that came after that.

    Raises:
        LetterRefused: it is no party of this session, speaks as another one, or means to reach another one.
    """
    stream = tls_server(own, {peer.certificate for peer in peers.values()}, *plain)
    await stream.shake_hands()
    try:
        frame, rest = await stream.hear()
        told_session, ranks, purpose, attempt = frame.parts
        sender, reader = ranks
    except (BadFrame, ValueError):
        stream.close()
        raise LetterRefused("a tunnel's other end does not say what it wants") from None
    if sender not in peers or peers[sender].certificate != stream.certificate:
        stream.close()
        raise LetterRefused("a compute party spoke as another one: its certificate belongs to another rank")
    if frame.kind != "greeting" or told_session != session or reader != rank or purpose not in (CONTROL, LINK):
        stream.close()
        raise LetterRefused("a compute party means another session, or another party")
    return stream, Greeting(session, sender, reader, purpose, attempt), rest


async def carry(stream: TlsStream, plain: Plain, rest: bytes = b"") -> None:
    """Bytes in both directions until one end closes.

    Args:
        stream: through the tunnel.
        plain: to or from an engine.
        rest: bytes that came through the tunnel already.
    """
    reader, writer = plain

    async def outward() -> None:
        while data := await reader.read(_PIECE):
            await stream.write(data)

    async def inward() -> None:
        data = rest or await stream.read()
        while data:
            writer.write(data)
            await writer.drain()
            data = await stream.read()

    tasks = [asyncio.create_task(outward()), asyncio.create_task(inward())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await task
        stream.close()
        writer.close()


async def enter(
    socket: Path,
    call: Callable[[], Awaitable[TlsStream]],
    *,
    refused: Callable[[str], None],
    spawn: Callable[[Coroutine[Any, Any, None], asyncio.StreamWriter], None],
) -> asyncio.Server:
    """Listen on a socket beside an engine; every connection goes through a tunnel of its own.

    Args:
        socket: where the engine connects to.
        call: connects to the party that is meant.
        refused: told why a tunnel could not be had.
        spawn: runs what a connection needs, and closes the connection afterwards.
    """

    async def entered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await carry(await call(), (reader, writer))
        except (LetterRefused, OSError) as error:
            refused(str(error))

    return await asyncio.start_unix_server(
        lambda *plain: spawn(entered(*plain), plain[1]), path=str(socket), limit=_PIECE
    )


MOST_UNKNOWN = 64
"""Connections at a time whose other end has not yet said who it is, and reasons that are remembered."""

_LEADER = 0
_AGAIN = 0.2  # seconds until the leader is called again
_LAST_SECONDS = 10.0  # that a party waits for the others' last messages
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
        try:
            return self._do(asyncio.wait_for(self._join(worker), timeout))
        except TimeoutError:
            why = f" ({self.refusals[-1]})" if self.refusals else ""
            raise NoAnswer(f"another compute party did not come in time{why}") from None

    def leave(self, attempt: Attempt, *, how: str) -> None:
        self._do(self._say_done() if how == "done" else self._fail(attempt.name, refused=how == "refused"))

    def was_refused(self, attempt: Attempt) -> bool:
        return attempt.name in self._refused

    def stop(self) -> None:
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
