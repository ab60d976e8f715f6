"""What a compute party keeps of a split run while it lasts: its certificate, its port, and what it opened.

One private directory for each run, ``split/DIGEST`` in the home. A party that was killed is known to the others by the
same certificate and listens at the same port. When the run is over, all of it goes.
"""

import contextlib
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from likeset.errors import BadDocument, NoAnswer
from likeset.files import keep_private_bytes, make_private_folder, remove_unfinished
from likeset.homes.tunnel_address import TunnelPlace
from likeset.split.certificates import RunCertificate, read_certificate
from likeset.split.opening import Opening
from likeset.split.tunnels import TunnelPeer

__all__ = ["ComputeFolder", "Reach"]

_FOLDER, _TUNNEL, _LOCK = "split", "tunnel.json", ".lock"
_MOST_HOST = 255
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a compute party is reached in a run, and by which certificate it is known: what a roster vote carries.

    Attributes:
        host: that others call.
        port: likewise.
        certificate: all of its bytes.
    """

    host: str
    port: int
    certificate: bytes

    def to_bytes(self) -> bytes:
        """As it travels."""
        words = {"certificate": self.certificate.hex(), "host": self.host, "port": self.port}
        return json.dumps(words, sort_keys=True, separators=(",", ":")).encode("ascii")

    @classmethod
    def read(cls, data: bytes) -> Self:
        """What another party said.

        Raises:
            BadDocument: it is something else.
        """
        words = _document(data)
        host, port, text = words.get("host"), words.get("port"), words.get("certificate")
        is_host = isinstance(host, str) and 0 < len(host) <= _MOST_HOST and host.isascii() and host.isprintable()
        if not is_host or not isinstance(port, int) or not 0 < port <= _MOST_PORT or not isinstance(text, str):
            raise BadDocument("reach", "does not say where a compute party listens")
        try:
            certificate = bytes.fromhex(text)
        except ValueError:
            raise BadDocument("reach", "has no certificate") from None
        read_certificate(certificate)
        return cls(str(host), port, certificate)

    @property
    def peer(self) -> TunnelPeer:
        """As tunnels know it."""
        return TunnelPeer(self.host, self.port, self.certificate)


@dataclass(frozen=True, slots=True)
class _Tunnel:
    """This party's own end."""

    certificate: RunCertificate
    port: int


@dataclass(frozen=True)
class ComputeFolder:
    """The directory of one run at a compute party.

    Args:
        home: the party's.
        run: the digest of the terms, in hexadecimal digits.
    """

    home: Path
    run: str

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.home / _FOLDER / self.run

    @property
    def exists(self) -> bool:
        """Whether anything of the run is kept."""
        return self.folder.exists()

    @property
    def opening(self) -> Opening:
        """Of the picks."""
        return Opening(self.folder)

    def certificate(self, place: TunnelPlace) -> RunCertificate:
        """By which this party is known in the run; made once, and raises as ``reach``."""
        return self._tunnel(place).certificate

    def port(self, place: TunnelPlace) -> int:
        """Where its tunnels listen; chosen once, and raises as ``reach``."""
        return self._tunnel(place).port

    def reach(self, place: TunnelPlace) -> Reach:
        """What the others are told, the same ever after.

        Raises:
            NoAnswer: every port is taken, by other runs or other programs.
        """
        tunnel = self._tunnel(place)
        return Reach(*place.told(tunnel.port), tunnel.certificate.certificate)

    def _tunnel(self, place: TunnelPlace) -> _Tunnel:
        path = self.folder / _TUNNEL
        if not path.exists():
            made = _Tunnel(RunCertificate.generate(), _free_port(place, taken=_ports_of(self.home)))
            make_private_folder(self.folder)
            remove_unfinished(self.folder)
            words = {"port": made.port, "secret": made.certificate.to_bytes().hex()}
            keep_private_bytes(path, json.dumps(words).encode("ascii"))
            return made
        kept = _document(path.read_bytes())
        return _Tunnel(RunCertificate.from_bytes(bytes.fromhex(kept["secret"])), int(kept["port"]))

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether this process is the only one that computes in the run, for as long as it does."""
        make_private_folder(self.folder)
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    def rest(self) -> None:
        """Remove everything but the record of an opening, so that a run that is brought back is not opened again."""
        if not self.opening.began:
            self.remove()
            return
        self.opening.forget_share()
        for path in self.folder.iterdir():
            if path != self.opening.record:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove everything, when the run is over."""
        if self.exists:
            shutil.rmtree(self.folder)


def _ports_of(home: Path) -> set[int]:
    """Ports that other runs of this home have told others."""
    files = (home / _FOLDER).glob(f"*/{_TUNNEL}")
    return {int(_document(path.read_bytes()).get("port", 0)) for path in files}


def _free_port(place: TunnelPlace, *, taken: set[int]) -> int:
    host = place.listen.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in place.listen.ports:
        if port in taken:
            continue
        with contextlib.suppress(OSError), socket.create_server((host, port), family=family) as server:
            return int(server.getsockname()[1])
    raise NoAnswer(
        f"no port is free at {host}, {place.listen.first} to {place.listen.last}: each run that is computed at the "
        "same time needs one; give listen: and reach_at: more"
    )


def _document(data: bytes) -> dict[str, Any]:
    try:
        words = json.loads(data)
    except (ValueError, RecursionError):
        words = None
    return words if isinstance(words, dict) else {}
