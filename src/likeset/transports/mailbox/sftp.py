"""A mailbox on an SFTP server, with paramiko: known hosts only, keys only, and a new connection when one broke.

A file is written under another name in the same folder, brought to the disk where the server can, its size is compared,
and it is renamed.
"""

import contextlib
import secrets
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import paramiko
from paramiko.sftp import CMD_EXTENDED

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.transports.mailbox.sftp_connection import SftpConnection, SftpPlace
from likeset.transports.mailbox.stores import (
    PARTIAL_NAME,
    PARTIAL_SECONDS,
    Listing,
    Modes,
    StoredFile,
    bounded_listing,
    check_place,
    is_file_name,
    refuse_larger,
)

__all__ = ["SftpStore"]

_Result = TypeVar("_Result")

_SECONDS = 30.0  # for each answer of the server, and for each step of connecting


class SftpStore:
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

    def list(self, folder: str) -> Listing:
        """See ``Store.list``."""
        check_place(folder)
        return self._do(lambda files: self._list(files, folder))

    def read(self, folder: str, name: str, *, most_bytes: int) -> bytes:
        """See ``Store.read``."""
        check_place(folder, name)
        return self._do(lambda files: self._read(files, self._path(folder, name), most_bytes))

    def write(self, folder: str, name: str, data: bytes) -> None:
        """See ``Store.write``."""
        check_place(folder, name)
        self._do(lambda files: self._write(files, folder, name, data))

    def remove(self, folder: str, name: str) -> None:
        """See ``Store.remove``."""
        check_place(folder, name)
        self._do(lambda files: self._remove(files, self._path(folder, name)))

    def close(self) -> None:
        """Leave the server."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _path(self, folder: str, name: str = "") -> str:
        return "/".join(filter(None, (self._place.path.rstrip("/"), folder, name)))

    def _list(self, files: paramiko.SFTPClient, folder: str) -> Listing:
        try:
            # One request at a time, so that none is under way when a listing without an end is left.
            return bounded_listing(map(_described, files.listdir_iter(self._path(folder), read_aheads=1)))
        except FileNotFoundError:
            if not stat.S_ISDIR(files.stat(self._place.path).st_mode or 0):
                raise MailboxTrouble(self.address, "is a file on the server; give the address of a folder") from None
            return []

    def _read(self, files: paramiko.SFTPClient, path: str, most_bytes: int) -> bytes:
        status = files.lstat(path)
        if not stat.S_ISREG(status.st_mode or 0):
            raise PostTrouble(self.address, "something lies there that is no ordinary file; it was not opened")
        size = status.st_size or 0
        refuse_larger(size, most_bytes, address=self.address)
        with files.open(path, "rb") as file:
            file.prefetch(size)
            data = file.read(size + 1)
        refuse_larger(len(data), most_bytes, address=self.address)
        return data

    def _write(self, files: paramiko.SFTPClient, folder: str, name: str, data: bytes) -> None:
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

    def _tidy(self, files: paramiko.SFTPClient, folder: str) -> None:
        """Once for each folder: remove what a writer that was killed had begun here."""
        if folder in self._tidied:
            return
        oldest = time.time() - PARTIAL_SECONDS
        for entry in files.listdir_attr(self._path(folder)):
            if PARTIAL_NAME.fullmatch(entry.filename) and (entry.st_mtime or 0) < oldest:
                self._remove(files, self._path(folder, entry.filename))
        self._tidied.add(folder)

    def _remove(self, files: paramiko.SFTPClient, path: str) -> None:
        try:
            files.remove(path)
        except FileNotFoundError:
            files.stat(self._place.path)

    def _do(self, action: Callable[[paramiko.SFTPClient], _Result]) -> _Result:
        """Over the connection that is there, once more over a new one if that was lost, and with one-line errors."""
        reused = self._connection is not None
        if self._connection is None:
            self._connection = SftpConnection.to(self._place, seconds=self._seconds)
        try:
            return action(self._connection.files)
        except TimeoutError as error:
            self.close()  # an answer that comes later would be taken for another one's
            raise MailboxTrouble(self.address, "does not answer in time; it is tried again later") from error
        except (OSError, EOFError, paramiko.SSHException) as error:
            if isinstance(error, OSError) and not self._connection.is_lost():
                raise self._refused(error) from error
            self.close()
            if not reused:
                raise MailboxTrouble(self.address, "the connection broke; it is tried again later") from error
        return self._do(action)

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
        except (OSError, EOFError, paramiko.SSHException):
            return False


def _described(entry: paramiko.SFTPAttributes) -> StoredFile | None:
    if not is_file_name(entry.filename) or not stat.S_ISREG(entry.st_mode or 0):
        return None
    return StoredFile(entry.filename, entry.st_size or 0, datetime.fromtimestamp(entry.st_mtime or 0, UTC))


def _bring_to_disk(files: paramiko.SFTPClient, file: paramiko.SFTPFile) -> None:
    # The library has no name for this request; a server that does not know it fails it, and keeps files as it can.
    with contextlib.suppress(OSError):
        files._request(CMD_EXTENDED, "fsync@openssh.com", file.handle)  # type: ignore[attr-defined] # not in its types
