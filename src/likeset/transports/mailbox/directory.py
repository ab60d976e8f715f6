"""A mailbox in a folder: on this machine, or on a share that is mounted here.

A file is written under another name in the same folder, brought to the disk, and renamed. No link is followed inside
the mailbox, and what is not an ordinary file (a FIFO, a folder, a device) is not listed and not opened.
"""

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.transports.mailbox.stores import (
    PARTIAL_NAME,
    PARTIAL_SECONDS,
    CheckedStore,
    Listing,
    Modes,
    StoredFile,
    bounded_bytes,
    bounded_listing,
    is_file_name,
    time_of,
)

__all__ = ["DirectoryStore"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO that took a file's place does not wait
_PIECE = 1 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_FULL = "is full; nothing was written: ask its keeper to make room"
_NO_ANSWER = "does not answer; see whether the share is mounted and its server runs"
_WHOLE_MAILBOX = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EROFS: "is read-only; ask its keeper to let this user write there",
    errno.EIO: _NO_ANSWER,
    errno.ESTALE: _NO_ANSWER,
    errno.ETIMEDOUT: _NO_ANSWER,
    errno.ENOTCONN: _NO_ANSWER,
    errno.EHOSTDOWN: _NO_ANSWER,
    errno.EMFILE: "cannot be used: this process has too many open files",
}
_DENIED = "no permission to use it; ask its keeper to let this user in"
_ONE_PLACE = {
    errno.EACCES: "no permission for one of its folders or files; its writer or its keeper has to give it",
    errno.EPERM: "no permission for one of its folders or files; its writer or its keeper has to give it",
    errno.ENOENT: "a file is gone; it was read or removed by somebody else",
    errno.ELOOP: "a link lies where a folder or file should be; it was not followed",
    errno.ENOTDIR: "something else lies where a folder should be; ask its keeper to remove it",
    errno.EISDIR: "a folder lies where a file should be; ask its keeper to remove it",
}


class DirectoryStore(CheckedStore):
    """A folder as a mailbox; it has to be there already, since its keeper says who may enter it.

    Args:
        mailbox: the folder, as an absolute path.
    """

    def __init__(self, mailbox: Path) -> None:
        self._mailbox = mailbox
        self._tidied: set[str] = set()

    @property
    def address(self) -> str:
        """``file://`` and the path."""
        return self._mailbox.as_uri()

    def _list(self, folder: str) -> Listing:
        with self._opened(folder) as directory:
            if directory is None:
                return []
            with os.scandir(directory) as entries:
                return bounded_listing(map(_described, entries))

    def _read(self, folder: str, name: str, most_bytes: int) -> bytes:
        with self._opened(folder) as directory:
            if directory is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._check_ordinary(os.stat(name, dir_fd=directory, follow_symlinks=False))
            with os.fdopen(os.open(name, _READ, dir_fd=directory), "rb") as file:
                status = os.fstat(file.fileno())
                self._check_ordinary(status)
                return bounded_bytes(iter(lambda: file.read(_PIECE), b""), most_bytes, announced=status.st_size)

    def _write(self, folder: str, name: str, data: bytes) -> None:
        modes = Modes.under(self._mailbox.stat().st_mode)
        self._make(folder)
        with self._opened(folder) as directory:
            if directory is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            _set_mode(directory, modes.folder)
            self._tidy(folder, directory)
            _write_whole(directory, name, data, mode=modes.file)

    def _remove(self, folder: str, name: str) -> None:
        with self._opened(folder) as directory:
            if directory is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)

    def close(self) -> None:
        """There is nothing to let go of."""

    @contextlib.contextmanager
    def _opened(self, folder: str) -> Iterator[int | None]:
        """A pair's folder; None if it is not there, though the mailbox is."""
        try:
            directory = os.open(self._mailbox / folder, _FOLDER)
        except FileNotFoundError:
            self._mailbox.stat()
            yield None
            return
        try:
            yield directory
        finally:
            os.close(directory)

    def _make(self, folder: str) -> None:
        with contextlib.suppress(FileExistsError):
            try:
                (self._mailbox / folder).mkdir(mode=0o700)
            except PermissionError as error:
                raise MailboxTrouble(self.address, _DENIED) from error

    def _tidy(self, folder: str, directory: int) -> None:
        """Once for each folder: remove what a writer that was killed had begun here."""
        if folder in self._tidied:
            return
        with os.scandir(directory) as entries:
            begun = [entry for entry in entries if PARTIAL_NAME.fullmatch(entry.name)]
        for entry in begun:
            with contextlib.suppress(FileNotFoundError):
                written = os.stat(entry.name, dir_fd=directory, follow_symlinks=False).st_mtime
                if written < time.time() - PARTIAL_SECONDS:
                    os.unlink(entry.name, dir_fd=directory)
        self._tidied.add(folder)

    def _check_ordinary(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise PostTrouble(self.address, "something lies there that is no ordinary file; it was not opened")

    def _known_trouble(self, error: Exception) -> MailboxTrouble | None:
        if not isinstance(error, OSError):
            return None
        number = error.errno or errno.EIO
        if number in _WHOLE_MAILBOX:
            return MailboxTrouble(self.address, _WHOLE_MAILBOX[number])
        try:
            if not self._mailbox.is_dir():
                return MailboxTrouble(
                    self.address, "there is no such folder; see whether the share is mounted, or make the folder"
                )
            if not os.access(self._mailbox, os.X_OK):
                return MailboxTrouble(self.address, _DENIED)
        except OSError:
            return MailboxTrouble(self.address, _DENIED if isinstance(error, PermissionError) else _NO_ANSWER)
        # Whoever writes to this folder may have caused it, for example by a lease on a file, and the others are heard.
        return PostTrouble(self.address, _ONE_PLACE.get(number, f"a folder or file there: {os.strerror(number)}"))


def _described(entry: os.DirEntry[str]) -> StoredFile | None:
    if not is_file_name(entry.name):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None  # removed in this moment
    if not stat.S_ISREG(status.st_mode):
        return None
    return StoredFile(entry.name, status.st_size, time_of(status.st_mtime))


def _set_mode(descriptor: int, mode: int) -> None:
    status = os.fstat(descriptor)
    if stat.S_IMODE(status.st_mode) != mode and status.st_uid == os.geteuid():
        # A share that keeps no modes refuses this, and its server says who may read.
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, mode)


def _write_whole(directory: int, name: str, data: bytes, *, mode: int) -> None:
    partial = f".{name}.{secrets.token_hex(4)}"
    try:
        with os.fdopen(os.open(partial, _CREATE, 0o600, dir_fd=directory), "wb") as file:
            _set_mode(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial, dir_fd=directory)
        raise
    os.fsync(directory)
