"""TLS 1.3 between two compute parties, each of which knows all bytes of the other's certificate beforehand.

pyOpenSSL brings the OpenSSL of ``cryptography``, which agrees on keys with X25519 and ML-KEM-768 together: what is
recorded today stays shut for a quantum computer. Anything weaker is refused.
"""

import asyncio
from collections.abc import Collection

from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL

from likeset.errors import LetterRefused
from likeset.split.certificates import RunCertificate, read_certificate
from likeset.split.engine.framing import BadFrame, Frame, pack, unpack

__all__ = ["TlsStream", "tls_client", "tls_server"]

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
        """Some bytes; none at the end."""
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
        """All of them."""
        view = memoryview(data)
        for first in range(0, len(view), _RECORD):
            self._connection.sendall(view[first : first + _RECORD])
        await self._flush()

    async def tell(self, kind: str, *parts: bytes) -> None:
        """A small frame."""
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
        """At once."""
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
    """The end that was connected to."""
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
