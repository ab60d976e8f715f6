"""A mailbox on an SFTP server, with paramiko: known hosts only, keys only."""

import contextlib
import getpass
import logging
import os
import stat
import threading
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NoReturn

import paramiko
from paramiko.hostkeys import InvalidHostKey
from paramiko.sftp import CMD_EXTENDED

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.transports.stores import (
    GONE,
    MOST_LOOKED_AT,
    MOST_SECONDS,
    NO_FILE,
    Listing,
    Store,
    StoredFile,
    bounded_bytes,
    bounded_listing,
    is_file_name,
    is_left_behind,
    modes_under,
    partial_name,
)

# Without a handler, the library's complaints would go to the terminal; each of them is a MailboxTrouble here.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class _RefuseUnknown(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> NoReturn:  # noqa: ARG002 - the library's signature
        raise paramiko.BadHostKeyException(hostname, key, key)


def _known_hosts() -> Path:
    return Path(os.environ.get("LIKESET_KNOWN_HOSTS", "~/.ssh/known_hosts")).expanduser()


def _not_connected(error: Exception, *, host: str, port: int, user: str) -> str:
    """The error and its remedy; the server's text is not repeated."""
    match error:
        case paramiko.BadHostKeyException():
            known = _known_hosts()
            return (
                f"its host key {error.key.get_name()} {error.key.fingerprint} is not the one in {known}; compare it "
                "with what its keeper tells you, remove an old line of this host, then: "
                f"ssh-keyscan -p {port} {host} >> {known}"
            )
        case paramiko.AuthenticationException() | FileNotFoundError():
            return (
                f"takes none of your keys for the login {user}; give its keeper the public one, and ssh-add one with a "
                "pass phrase (LIKESET_SFTP_KEY, if set, names the only one that is tried)"
            )
        case _:
            return "its server is not reached; see whether it is an SFTP server, its port is right and it may be called"


_PIECE = 1 << 20
_SECONDS = 30.0  # for each answer of the server, and for each step of connecting


class SftpStore(Store):
    """A folder on an SFTP server as a mailbox; it has to be there already."""

    def __init__(self, host: str, path: str, *, port: int | None = None, user: str | None = None) -> None:
        self._host, self._port, self._user = host, port or 22, user or getpass.getuser()
        self._mailbox = path.rstrip("/") or "/"
        self._client: paramiko.SSHClient | None = None
        self._files: paramiko.SFTPClient | None = None
        self._tidied: set[str] = set()

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"sftp://{self._user}@{host}:{self._port}{self._mailbox}"

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = self._files = None

    def _connected(self) -> paramiko.SFTPClient:
        """A session on the server; each step of connecting, and each answer later, has its time."""
        client, seconds = paramiko.SSHClient(), _SECONDS
        try:
            with contextlib.suppress(FileNotFoundError):  # every key is unknown then
                client.load_system_host_keys(str(_known_hosts()))
        except (OSError, InvalidHostKey) as error:
            raise MailboxTrouble(self.address, f"{_known_hosts()} cannot be read; repair it") from error
        try:
            client.set_missing_host_key_policy(_RefuseUnknown())
            key = os.environ.get("LIKESET_SFTP_KEY")
            client.connect(
                self._host,
                self._port,
                self._user,
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
            with _closed_after(seconds, client):
                channel.invoke_subsystem("sftp")
            self._client, files = client, paramiko.SFTPClient(channel)
        except BaseException as error:
            client.close()
            if not isinstance(error, Exception):
                raise
            reason = _not_connected(error, host=self._host, port=self._port, user=self._user)
            raise MailboxTrouble(self.address, reason) from error
        return files

    def _is_lost(self) -> bool:
        transport = None if self._client is None else self._client.get_transport()
        channel = None if self._files is None else self._files.get_channel()
        return transport is None or not transport.is_active() or channel is None or channel.closed

    def _path(self, folder: str, name: str = "") -> str:
        return "/".join(filter(None, (self._mailbox.rstrip("/"), folder, name)))

    def _list(self, folder: str) -> Listing:
        try:
            with contextlib.closing(self._entries(folder)) as entries:
                return bounded_listing(map(_described, entries))
        except FileNotFoundError:
            files = self._session()
            if not stat.S_ISDIR(files.stat(self._mailbox).st_mode or 0):
                raise MailboxTrouble(self.address, "is a file on the server; give the address of a folder") from None
            return Listing()

    def _entries(self, folder: str) -> Generator[paramiko.SFTPAttributes, None, None]:
        files = self._session()
        assert self._client is not None  # noqa: S101 - of the session
        # Later than the end of ``bounded_listing``: a folder with many entries is trouble with that folder only.
        with _closed_after(2 * MOST_SECONDS, self._client):
            entries = files.listdir_iter(self._path(folder), read_aheads=1)
            try:
                yield from islice(entries, MOST_LOOKED_AT + 1)
            finally:
                if next(entries, None) is not None:
                    self.close()  # a listing that is left early keeps one of the server's few handles

    def _read(self, folder: str, name: str, most_bytes: int) -> bytes:
        files, path = self._session(), self._path(folder, name)
        status = files.lstat(path)
        if not stat.S_ISREG(status.st_mode or 0):
            raise PostTrouble(self.address, NO_FILE)
        with files.open(path, "rb") as file:
            file.prefetch(min(status.st_size or 0, most_bytes))
            return bounded_bytes(iter(lambda: file.read(_PIECE), b""), most_bytes)

    def _write(self, folder: str, name: str, data: bytes) -> None:
        files = self._session()
        folder_mode, file_mode = modes_under(files.stat(self._mailbox).st_mode or 0)
        self._make(files, self._path(folder), folder_mode)
        if folder not in self._tidied:
            for entry in list(self._entries(folder)):
                if is_left_behind(entry.filename, entry.st_mtime):
                    self._remove(folder, entry.filename)
            self._tidied.add(folder)
        partial = self._path(folder, partial_name(name))
        try:
            with files.open(partial, "wx") as file:
                file.set_pipelined(True)
                file.write(data)
                file.flush()
                _bring_to_disk(files, file)
            files.chmod(partial, file_mode)
            if files.stat(partial).st_size != len(data):
                raise MailboxTrouble(self.address, "kept a part of a file only; it is full or over its quota")
            files.posix_rename(partial, self._path(folder, name))
        except (OSError, MailboxTrouble):
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                files.remove(partial)
            raise

    def _make(self, files: paramiko.SFTPClient, path: str, mode: int) -> None:
        try:
            status = files.lstat(path)
        except FileNotFoundError:
            files.mkdir(path, 0o700)
            status = files.lstat(path)
        if not stat.S_ISDIR(status.st_mode or 0):
            raise PostTrouble(self.address, "something else lies where a folder should be; ask its keeper to remove it")
        if stat.S_IMODE(status.st_mode or 0) != mode:
            with contextlib.suppress(PermissionError):  # another user's, or a server that keeps no modes
                files.chmod(path, mode)

    def _remove(self, folder: str, name: str) -> None:
        files = self._session()
        try:
            files.remove(self._path(folder, name))
        except FileNotFoundError:
            files.stat(self._mailbox)

    def _session(self) -> paramiko.SFTPClient:
        if self._files is None or self._is_lost():
            self.close()
            self._files = self._connected()
        return self._files

    def _known_trouble(self, error: Exception) -> MailboxTrouble | None:
        """The meaning of the server's status code; the server's text is not repeated."""
        if not isinstance(error, OSError) or isinstance(error, TimeoutError) or self._is_lost():
            self.close()  # an answer that comes later would be taken for another one's
            is_known = isinstance(error, OSError | EOFError | paramiko.SSHException)
            reason = "does not answer in time, or the connection broke; it is tried again later"
            return MailboxTrouble(self.address, reason) if is_known else None
        try:
            is_there = self._files is not None and stat.S_ISDIR(self._files.stat(self._mailbox).st_mode or 0)
        except Exception:  # what the server says when it is asked why it failed
            is_there = False
        if not is_there:
            return MailboxTrouble(self.address, "there is no such folder on the server; ask its keeper to make it")
        if isinstance(error, FileNotFoundError):
            return PostTrouble(self.address, GONE)
        if isinstance(error, PermissionError):
            return PostTrouble(self.address, "no permission for a folder or file there; ask its keeper to give it")
        return PostTrouble(  # of one folder: its other writer may have put a directory in the place of a file
            self.address, "its server failed; it may be full, over its quota or read-only: ask its keeper"
        )


@contextlib.contextmanager
def _closed_after(seconds: float, client: paramiko.SSHClient) -> Iterator[None]:
    """The library waits without an end while a server answers with nothing, or with entries that it skips."""
    ends_waiting = threading.Timer(seconds, client.close)
    ends_waiting.start()
    try:
        yield
    finally:
        ends_waiting.cancel()


def _described(entry: paramiko.SFTPAttributes) -> StoredFile | None:
    if not is_file_name(entry.filename) or not stat.S_ISREG(entry.st_mode or 0):
        return None
    return StoredFile(entry.filename, entry.st_size or 0, datetime.fromtimestamp(entry.st_mtime or 0, UTC))


def _bring_to_disk(files: paramiko.SFTPClient, file: paramiko.SFTPFile) -> None:
    # The library has no name for this request; a server that does not know it fails it, and keeps files as it can.
    with contextlib.suppress(OSError):
        files._request(CMD_EXTENDED, "fsync@openssh.com", file.handle)  # type: ignore[attr-defined] # not in its types
