"""A mailbox on an SFTP server, with paramiko: known hosts only, keys only, and a new connection when one broke.

A file is written under another name in the same folder, brought to the disk where the server can, its size is compared,
and it is renamed.
"""

import contextlib
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar

import paramiko
from paramiko.sftp import CMD_EXTENDED

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.transports.mailbox.sftp_connection import SftpConnection, SftpFiles, SftpPlace
from likeset.transports.mailbox.stores import (
    MOST_LISTED,
    PARTIAL_NAME,
    PARTIAL_SECONDS,
    CheckedStore,
    Listing,
    Modes,
    StoredFile,
    bounded_bytes,
    bounded_listing,
    is_file_name,
)

__all__ = ["SftpStore"]

_Result = TypeVar("_Result")

_PIECE = 1 << 20
_SECONDS = 30.0  # for each answer of the server, and for each step of connecting


class SftpStore(CheckedStore):
    """A folder on an SFTP server as a mailbox; it has to be there already.

    Args:
        place: where.
        seconds: how long to wait for each answer.
    """

    def __init__(self, place: SftpPlace, *, seconds: float = _SECONDS) -> None:
        self._place = place
        self._seconds = seconds
        self._connection: SftpConnection | None = None
        self._tidied: set[str] = set()

    @property
    def address(self) -> str:
        """``sftp://``, with user and port."""
        return self._place.address

    def _list(self, folder: str) -> Listing:
        return self._do(lambda files: self._listed(files, folder))

    def _read(self, folder: str, name: str, most_bytes: int) -> bytes:
        return self._do(lambda files: self._content(files, self._path(folder, name), most_bytes))

    def _write(self, folder: str, name: str, data: bytes) -> None:
        self._do(lambda files: self._put(files, folder, name, data))

    def _remove(self, folder: str, name: str) -> None:
        self._do(lambda files: self._unlink(files, self._path(folder, name)))

    def close(self) -> None:
        """Leave the server."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _path(self, folder: str, name: str = "") -> str:
        return "/".join(filter(None, (self._place.path.rstrip("/"), folder, name)))

    def _listed(self, files: SftpFiles, folder: str) -> Listing:
        try:
            with contextlib.closing(files.entries(self._path(folder))) as entries:
                return bounded_listing(map(_described, entries))
        except FileNotFoundError:
            if not stat.S_ISDIR(files.stat(self._place.path).st_mode or 0):
                raise MailboxTrouble(self.address, "is a file on the server; give the address of a folder") from None
            return []

    def _content(self, files: SftpFiles, path: str, most_bytes: int) -> bytes:
        status = files.lstat(path)
        if not stat.S_ISREG(status.st_mode or 0):
            raise PostTrouble(self.address, "something lies there that is no ordinary file; it was not opened")
        size = status.st_size or 0
        with files.open(path, "rb") as file:

            def pieces() -> Iterator[bytes]:
                file.prefetch(size)
                yield from iter(lambda: file.read(_PIECE), b"")

            return bounded_bytes(pieces(), most_bytes, announced=size)

    def _put(self, files: SftpFiles, folder: str, name: str, data: bytes) -> None:
        mailbox_mode = files.stat(self._place.path).st_mode or 0
        modes = Modes.under(mailbox_mode)
        self._make(files, self._path(folder), modes.folder)
        self._tidy(files, folder)
        partial = self._path(folder, f".{name}.{secrets.token_hex(4)}")
        try:
            with files.open(partial, "wx") as file:
                file.set_pipelined(True)
                file.write(data)
                file.flush()
                _bring_to_disk(files, file)
            files.chmod(partial, modes.file)
            if files.stat(partial).st_size != len(data):
                raise MailboxTrouble(self.address, "kept a part of a file only; it is full or over its quota")
            files.posix_rename(partial, self._path(folder, name))
        except (OSError, MailboxTrouble):
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                files.remove(partial)
            raise

    def _make(self, files: SftpFiles, path: str, mode: int) -> None:
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

    def _tidy(self, files: SftpFiles, folder: str) -> None:
        """Once for each folder: remove what a writer that was killed had begun here."""
        if folder in self._tidied:
            return
        oldest = time.time() - PARTIAL_SECONDS
        with contextlib.closing(files.entries(self._path(folder))) as entries:
            for entry in islice(entries, MOST_LISTED):
                if PARTIAL_NAME.fullmatch(entry.filename) and (entry.st_mtime or 0) < oldest:
                    self._unlink(files, self._path(folder, entry.filename))
        self._tidied.add(folder)

    def _unlink(self, files: SftpFiles, path: str) -> None:
        try:
            files.remove(path)
        except FileNotFoundError:
            files.stat(self._place.path)

    def _do(self, action: Callable[[SftpFiles], _Result]) -> _Result:
        """Over the connection that is there, and once more over a new one if that was lost."""
        reused = self._connection is not None
        if self._connection is None:
            self._connection = SftpConnection.to(self._place, seconds=self._seconds)
        try:
            return action(self._connection.files)
        except (OSError, EOFError, paramiko.SSHException) as error:
            if not reused or (isinstance(error, OSError) and not self._connection.is_lost()):
                raise
        self.close()
        return self._do(action)

    def _known_trouble(self, error: Exception) -> MailboxTrouble | None:
        is_lost = self._connection is None or self._connection.is_lost()
        if isinstance(error, OSError) and not isinstance(error, TimeoutError) and not is_lost:
            return self._refused(error)
        self.close()  # an answer that comes later would be taken for another one's
        if isinstance(error, TimeoutError):
            return MailboxTrouble(self.address, "does not answer in time; it is tried again later")
        if isinstance(error, OSError | EOFError | paramiko.SSHException):
            return MailboxTrouble(self.address, "the connection broke; it is tried again later")
        return None

    def _refused(self, error: OSError) -> MailboxTrouble:
        """What the server's short answer comes to, in words; the text of the answer is not repeated."""
        if isinstance(error, FileNotFoundError) and not self._is_there():
            return MailboxTrouble(self.address, "there is no such folder on the server; ask its keeper to make it")
        if isinstance(error, FileNotFoundError):
            return PostTrouble(self.address, "a file is gone; it was read or removed by somebody else")
        if isinstance(error, PermissionError):
            return PostTrouble(self.address, "no permission for a folder or file there; ask its keeper to give it")
        return MailboxTrouble(
            self.address, "its server failed; it may be full, over its quota or read-only: ask its keeper"
        )

    def _is_there(self) -> bool:
        try:
            return self._connection is not None and stat.S_ISDIR(
                self._connection.files.stat(self._place.path).st_mode or 0
            )
        except Exception:  # what the server says when it is asked why it failed
            return False


def _described(entry: paramiko.SFTPAttributes) -> StoredFile | None:
    if not is_file_name(entry.filename) or not stat.S_ISREG(entry.st_mode or 0):
        return None
    return StoredFile(entry.filename, entry.st_size or 0, datetime.fromtimestamp(entry.st_mtime or 0, UTC))


def _bring_to_disk(files: SftpFiles, file: paramiko.SFTPFile) -> None:
    # The library has no name for this request; a server that does not know it fails it, and keeps files as it can.
    with contextlib.suppress(OSError):
        files._request(CMD_EXTENDED, "fsync@openssh.com", file.handle)  # type: ignore[attr-defined] # not in its types
