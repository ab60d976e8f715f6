"""Pipes between the engines of compute parties, which listen on sockets in private directories and on no port.

An engine's connection enters at a socket beside it, goes through TLS to the party that it is meant for, and leaves at
the socket of that party's engine. Who is at the other end is known by all bytes of its certificate, and to a
certificate belongs one rank: nobody speaks as another party. A connection names session and attempt; one of an
attempt that is over gets nowhere.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likeset.errors import LetterRefused
from likeset.split.certificates import RunCertificate
from likeset.split.engine.framing import BadFrame
from likeset.split.tls_stream import TlsStream, tls_client, tls_server

__all__ = ["CONTROL", "LINK", "Greeting", "TunnelPeer", "accept_greeting", "call_peer", "carry", "enter"]

CONTROL, LINK = b"control", b"link"
_PIECE = 1 << 18
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
