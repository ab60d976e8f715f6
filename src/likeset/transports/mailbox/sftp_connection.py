"""A connection to an SFTP server whose host key is known, and what is said when there is none.

The server's key has to stand in ``~/.ssh/known_hosts`` (or the file that ``LIKESET_KNOWN_HOSTS`` names). The user's key
comes from the agent or ``~/.ssh``, or is the one that ``LIKESET_SFTP_KEY`` names, and no other then. Nothing is asked
at the terminal.
"""

import getpass
import logging
import os
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import paramiko
from paramiko.hostkeys import InvalidHostKey
from paramiko.sftp import CMD_CLOSE, CMD_DATA, CMD_OPENDIR, CMD_READDIR, SFTPError

from likeset.errors import MailboxTrouble

__all__ = ["SftpConnection", "SftpFiles", "SftpPlace"]

# Without a handler, the library's complaints would go to the terminal; each of them is a MailboxTrouble here.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_AROUND_DATA = 8  # the number of the request, and the length


@dataclass(frozen=True, slots=True)
class SftpPlace:
    """Where it is.

    Attributes:
        host: a name or an address.
        port: usually 22.
        user: whose keys are tried.
        path: the mailbox's folder, absolute.
    """

    host: str
    port: int
    user: str
    path: str

    @classmethod
    def of(cls, host: str, path: str, *, port: int | None, user: str | None) -> "SftpPlace":
        """With the usual port and this machine's user where an address has none."""
        return cls(host, port or 22, user or getpass.getuser(), path.rstrip("/") or "/")

    @property
    def address(self) -> str:
        """As it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"sftp://{self.user}@{host}:{self.port}{self.path}"


class _UnknownHostKey(paramiko.SSHException):
    """The server's key stands in no file; its fingerprint is the text."""


class _RefuseUnknown(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> NoReturn:  # noqa: ARG002 - the library's signature
        raise _UnknownHostKey(f"{key.get_name()} {key.fingerprint}")


class SftpFiles(paramiko.SFTPClient):
    """The library's client, for a server that is not trusted."""

    def entries(self, path: str) -> Generator[paramiko.SFTPAttributes]:
        """The entries of a folder; the library's own listing fails at a name that is not UTF-8.

        One request at a time, so that none is under way when a listing without an end is left.
        """
        _, answer = self._request(CMD_OPENDIR, path)  # type: ignore[attr-defined] # not in its types
        handle = answer.get_string()
        try:
            while True:
                _, answer = self._request(CMD_READDIR, handle)  # type: ignore[attr-defined] # not in its types
                for _ in range(answer.get_int()):
                    name, _long_name = answer.get_string(), answer.get_string()
                    yield paramiko.SFTPAttributes._from_msg(answer, name.decode(errors="replace"))  # type: ignore[attr-defined] # not in its types
        except (EOFError, GeneratorExit):  # its end, or enough was read; a server has only so many handles
            self._request(CMD_CLOSE, handle)  # type: ignore[attr-defined] # not in its types

    def _read_packet(self) -> tuple[int, bytes]:
        """The library keeps in memory whatever the server sends, however little was asked for."""
        kind, data = super()._read_packet()  # type: ignore[misc] # not in its types
        if kind == CMD_DATA and len(data) > _AROUND_DATA + paramiko.SFTPFile.MAX_REQUEST_SIZE:
            raise SFTPError("more bytes than were asked for")
        return kind, data


@dataclass(frozen=True, slots=True)
class SftpConnection:
    """A session on the server.

    Attributes:
        files: what can be done there.
    """

    files: SftpFiles
    _client: paramiko.SSHClient

    @classmethod
    def to(cls, place: SftpPlace, *, seconds: float) -> "SftpConnection":
        """Connect; each step, and each answer later, may take so many seconds.

        Raises:
            MailboxTrouble: the server is not reached, is not the one that is known, or does not let this user in.
        """
        client = paramiko.SSHClient()
        try:
            _load_known_hosts(client, place)
            client.set_missing_host_key_policy(_RefuseUnknown())
            key = os.environ.get("LIKESET_SFTP_KEY")
            client.connect(
                place.host,
                place.port,
                place.user,
                key_filename=key,
                allow_agent=key is None,
                look_for_keys=key is None,
                timeout=seconds,
                banner_timeout=seconds,
                auth_timeout=seconds,
                channel_timeout=seconds,
            )
            transport = client.get_transport()
            assert transport is not None  # noqa: S101 - it is connected
            channel = transport.open_session(timeout=seconds)
            channel.settimeout(seconds)
            ends_waiting = threading.Timer(seconds, client.close)  # the library waits for this answer without an end
            ends_waiting.start()
            try:
                channel.invoke_subsystem("sftp")
            finally:
                ends_waiting.cancel()
            files = SftpFiles(channel)
        except BaseException as error:
            client.close()
            if isinstance(error, MailboxTrouble) or not isinstance(error, Exception):
                raise
            raise MailboxTrouble(place.address, _not_connected(error, place)) from error
        return cls(files, client)

    def is_lost(self) -> bool:
        """Whether the other side is gone."""
        transport, channel = self._client.get_transport(), self.files.get_channel()
        return transport is None or not transport.is_active() or channel is None or channel.closed

    def close(self) -> None:
        """Leave."""
        self._client.close()


def _known_hosts() -> Path:
    return Path(os.environ.get("LIKESET_KNOWN_HOSTS", "~/.ssh/known_hosts")).expanduser()


def _load_known_hosts(client: paramiko.SSHClient, place: SftpPlace) -> None:
    path = _known_hosts()
    try:
        client.load_system_host_keys(str(path))
    except FileNotFoundError:
        return  # every key is unknown then
    except (OSError, InvalidHostKey) as error:
        raise MailboxTrouble(place.address, f"{path} cannot be read; repair it") from error


def _not_connected(error: Exception, place: SftpPlace) -> str:
    """What is wrong and what to do; nothing that the server says is repeated."""
    scan = f"ssh-keyscan -p {place.port} {place.host} >> {_known_hosts()}"
    match error:
        case _UnknownHostKey():
            return f"its host key {error} is not known; compare it with what its keeper tells you, then: {scan}"
        case paramiko.BadHostKeyException():
            return (
                f"its host key is not the known one but {error.key.get_name()} {error.key.fingerprint}; this is "
                f"another server, unless its keeper says that the key changed: remove the old line then, and {scan}"
            )
        case paramiko.PasswordRequiredException():
            return "the key needs a pass phrase; ssh-add it, or name another one in LIKESET_SFTP_KEY"
        case paramiko.AuthenticationException():
            return (
                f"takes none of your keys for the login {place.user}; give its keeper the public one "
                "(LIKESET_SFTP_KEY, if set, names the only one that is tried)"
            )
        case TimeoutError():
            return "does not answer in time; see whether its server runs and the network lets you through"
        case FileNotFoundError():
            return "LIKESET_SFTP_KEY names a file that is not there"
        case OSError():
            return "its server is not reached; see whether host and port are right and the network lets you through"
        case _:
            return "its server broke off while connecting; see whether it is an SFTP server that accepts key logins"
