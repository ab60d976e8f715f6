"""Where a mailbox can be: list, read, write and remove small files; and a mailbox in a directory."""

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from likeset.errors import InvalidArgument, MailboxTrouble, PostTrouble, missing_extra

MOST_LISTED = 100_000
"""The largest number of files in a listing: the first names, so that everybody sees the same ones."""

MOST_LOOKED_AT = 2 * MOST_LISTED  # entries of one listing, whatever they are
MOST_SECONDS = 60.0  # for one listing or one file, and longer for large files:
_LEAST_RATE = 1 << 16  # bytes per second
_Item = TypeVar("_Item")
_FOLDER = re.compile(r"[a-z2-7]{32}")
_NAME = re.compile(r"[0-9a-f]{64}")
_PARTIAL_NAME = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{8}")
PARTIAL_SECONDS = 3600.0
"""After this time the writer of an unfinished file counts as killed, and the next writer removes the file."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a mailbox, as the place describes it; the place may lie."""

    name: str
    size: int
    modified: datetime  # by the clock of the place


class Listing(list[StoredFile]):
    """Files by name. In one that is not whole, a file that is not listed may be there all the same."""

    is_whole = True


GONE = "a file is gone; it was read or removed by somebody else"
NO_FILE = "something lies there that is not an ordinary file; it was not opened"


def modes_under(mailbox_mode: int) -> tuple[int, int]:
    """Permissions of a folder and of a file that a writer makes in a mailbox, whatever its umask says.

    Only the writer changes anything in its folder. A user who can enter the mailbox can read it: so its keeper decides
    who the others are, and names that nobody can guess say who reads what.
    """
    enter = mailbox_mode & 0o011
    return 0o700 | (mailbox_mode & stat.S_ISGID) | enter | enter << 2, 0o600 | enter << 2


class Store(ABC):
    """A place with files. One thread at a time.

    Every method checks names, and raises ``MailboxTrouble`` if the place cannot be used now, or ``PostTrouble``, which
    is one of these, if it is only this file or this folder. A failure that a store does not know is ``PostTrouble``: it
    may be the fault of the writer of this folder, and must not keep this home from reading the others.
    """

    @property
    @abstractmethod
    def address(self) -> str:
        """Where it is, in one form, without secrets: the same place has the same address."""

    def why_unreadable(self) -> str:
        """Why other parties cannot read what this one writes, with the remedy; empty if nothing is known against it."""
        return ""

    def list(self, folder: str) -> Listing:
        """The files of a folder by name, at most ``MOST_LISTED``; a folder that is not there has none."""
        with self._checked(folder):
            return self._list(folder)

    def read(self, folder: str, name: str, *, most_bytes: int) -> bytes:
        """A whole file; ``PostTrouble`` if it is gone, has more than ``most_bytes``, or is no file that may be read."""
        with self._checked(folder, name):
            return self._read(folder, name, most_bytes)

    def write(self, folder: str, name: str, data: bytes) -> None:
        """Write a file atomically; replaces one of that name."""
        with self._checked(folder, name):
            self._write(folder, name, data)

    def remove(self, folder: str, name: str) -> None:
        """Remove a file; does nothing if it does not exist."""
        with self._checked(folder, name):
            self._remove(folder, name)

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Close connections; the next call opens them again."""

    @abstractmethod
    def _list(self, folder: str) -> Listing: ...

    @abstractmethod
    def _read(self, folder: str, name: str, most_bytes: int) -> bytes: ...

    @abstractmethod
    def _write(self, folder: str, name: str, data: bytes) -> None: ...

    @abstractmethod
    def _remove(self, folder: str, name: str) -> None: ...

    @abstractmethod
    def _known_trouble(self, error: Exception) -> MailboxTrouble | None: ...

    @contextlib.contextmanager
    def _checked(self, folder: str, name: str | None = None) -> Iterator[None]:
        if not is_folder_name(folder):
            raise InvalidArgument("folder", folder, "the name of a pair's folder has 32 letters of base32")
        if name is not None and not is_file_name(name):
            raise InvalidArgument("name", name, "the name of a file is a digest of 64 hexadecimal digits")
        try:
            yield
        except MailboxTrouble:
            raise
        except _OutOfBounds as error:
            raise PostTrouble(self.address, str(error)) from None
        except Exception as error:
            unknown = f"its answer cannot be used ({type(error).__name__}); ask its keeper to look at this folder"
            raise self._known_trouble(error) or PostTrouble(self.address, unknown) from error


class _OutOfBounds(Exception):
    """A store gave more than was asked for, or took too long."""


def is_file_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def partial_name(name: str) -> str:
    """The name of a file while it is written: never listed; of one writer, since two processes may post a letter."""
    return f".{name}.{secrets.token_hex(4)}"


def is_left_behind(name: str, written: float | None) -> bool:
    """Whether a file is unfinished and its writer was killed: names are never used again."""
    return _PARTIAL_NAME.fullmatch(name) is not None and (written or 0.0) < time.time() - PARTIAL_SECONDS


def is_folder_name(name: str) -> bool:
    return _FOLDER.fullmatch(name) is not None


def bounded_listing(entries: Iterable[StoredFile | None]) -> Listing:
    """A listing in order, with an end even if the place has none; None is an entry that is no file of a mailbox."""
    looked = list(islice(_in_time(entries), MOST_LOOKED_AT + 1))
    files = sorted((entry for entry in looked if entry is not None), key=lambda file: file.name)
    listing = Listing(files[:MOST_LISTED])
    listing.is_whole = len(looked) <= MOST_LOOKED_AT and len(files) <= MOST_LISTED
    return listing


def bounded_bytes(pieces: Iterable[bytes], most_bytes: int) -> bytes:
    """The pieces of a file joined; a place may send more than it announces."""
    data = bytearray()
    for piece in _in_time(pieces, most_bytes):
        data += piece
        if len(data) > most_bytes:
            raise _OutOfBounds(f"a file has more than the {most_bytes} bytes that are read; it was left alone")
    return bytes(data)


def _in_time(items: Iterable[_Item], most_bytes: int = 0) -> Iterator[_Item]:
    """A place that answers a little at a time would keep a home from its other mailboxes and deadlines."""
    end = time.monotonic() + MOST_SECONDS + most_bytes / _LEAST_RATE
    for item in items:
        if time.monotonic() > end:
            raise _OutOfBounds("an answer takes too long; it is tried again later")
        yield item


def open_store(url: str, *, ambient: bool = True) -> Store:
    """The store at an address; nothing is opened or connected before its first use.

    Args:
        url: a folder's path or ``file:///folder``, ``sftp://user@host:port/folder``, ``s3://bucket/prefix`` or
            ``courier:///folder``.
        ambient: whether keys may be used that this machine's user has for anything (an agent, ~/.ssh, AWS settings);
            otherwise the key that LIKESET_SFTP_KEY names, and no S3.
    """
    if url and "://" not in url:
        return DirectoryStore(_absolute(Path(url).expanduser()))
    wrong = InvalidArgument(
        "mailbox",
        url,
        "is not an address of a mailbox; write a folder's path, sftp://user@host:port/folder, s3://bucket/prefix or "
        "courier:///folder (settings come from the environment, and shares of other machines must be mounted)",
    )
    try:
        parts = urlsplit(url)
        port, path = parts.port, unquote(parts.path)
    except ValueError:
        raise wrong from None
    if parts.password is not None:
        raise InvalidArgument(
            "mailbox", url, "has a password in it, and addresses are shown and logged; take it out and use a key"
        )
    if parts.query or parts.fragment:
        raise wrong
    if parts.scheme in ("file", "courier") and parts.hostname in (None, "localhost"):
        return (CourierStore if parts.scheme == "courier" else DirectoryStore)(_absolute(Path(path)))
    is_bucket = parts.scheme == "s3" and parts.username is None and port is None
    if not (is_bucket or parts.scheme == "sftp") or not parts.hostname:
        raise wrong
    if not ambient and not (parts.scheme == "sftp" and os.environ.get("LIKESET_SFTP_KEY")):
        reason = "is not contacted before words were compared, since your AWS settings may allow much more than this"
        if parts.scheme == "sftp":
            reason = "is contacted before words were compared only with a key for it, named in LIKESET_SFTP_KEY"
        raise InvalidArgument("mailbox", url, reason)
    try:
        if is_bucket:
            from likeset.transports.s3 import S3Store

            return S3Store(parts.netloc, path.strip("/"))
        from likeset.transports.sftp import SftpStore

        return SftpStore(parts.hostname, path, port=port, user=unquote(parts.username) if parts.username else None)
    except ModuleNotFoundError:
        raise InvalidArgument("mailbox", url, missing_extra(parts.scheme)) from None


def _absolute(folder: Path) -> Path:
    return Path(os.path.normpath(folder.absolute()))


_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO that took a file's place does not wait
_PIECE = 1 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_WHOLE_MAILBOX = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE),
    *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN),
)


class DirectoryStore(Store):
    """A folder as a mailbox; it has to be there already, since its keeper says who may enter it."""

    def __init__(self, mailbox: Path) -> None:
        self._mailbox = mailbox
        self._tidied: set[str] = set()

    @property
    def address(self) -> str:
        return self._mailbox.as_uri()

    def why_unreadable(self) -> str:
        mailbox = self._mailbox.stat()
        if mailbox.st_mode & 0o011 != 0o010:
            return ""  # others than its group may enter, or only its owner
        groups = set() if mailbox.st_mode & stat.S_ISGID else {os.getegid()}  # those of folders to come
        with os.scandir(self._mailbox) as entries:
            found = [entry.stat(follow_symlinks=False) for entry in entries]
        groups |= {status.st_gid for status in found if status.st_uid == os.geteuid()}
        if groups <= {mailbox.st_gid}:
            return ""
        remedy = f"chmod 2770 {self._mailbox}; chgrp -R {mailbox.st_gid} {self._mailbox}"
        return f"folders of this user have another group than the mailbox, so nobody else can read them: {remedy}"

    def _list(self, folder: str) -> Listing:
        with self._opened(folder) as directory:
            if directory is None:
                return Listing()
            with os.scandir(directory) as entries:
                return bounded_listing(map(_described, entries))

    def _read(self, folder: str, name: str, most_bytes: int) -> bytes:
        with self._opened(folder) as directory:
            if directory is None:
                raise PostTrouble(self.address, GONE)
            if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                raise PostTrouble(self.address, NO_FILE)
            with os.fdopen(os.open(name, _READ, dir_fd=directory), "rb") as file:
                return bounded_bytes(iter(lambda: file.read(_PIECE), b""), most_bytes)

    def _write(self, folder: str, name: str, data: bytes) -> None:
        folder_mode, file_mode = modes_under(self._mailbox.stat().st_mode)
        (self._mailbox / folder).mkdir(mode=0o700, exist_ok=True)
        with self._opened(folder) as directory:
            if directory is None:
                raise PostTrouble(self.address, GONE)
            _set_mode(directory, folder_mode)
            if folder not in self._tidied:
                with os.scandir(directory) as entries, contextlib.suppress(FileNotFoundError):
                    for entry in entries:
                        if is_left_behind(entry.name, entry.stat(follow_symlinks=False).st_mtime):
                            os.unlink(entry.name, dir_fd=directory)
                self._tidied.add(folder)
            _write_whole(directory, name, data, mode=file_mode)

    def _remove(self, folder: str, name: str) -> None:
        with self._opened(folder) as directory:
            if directory is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)

    @contextlib.contextmanager
    def _opened(self, folder: str) -> Iterator[int | None]:
        try:
            directory = os.open(self._mailbox / folder, _OPEN_DIRECTORY)
        except FileNotFoundError:
            self._mailbox.stat()
            yield None
            return
        try:
            yield directory
        finally:
            os.close(directory)

    def _known_trouble(self, error: Exception) -> MailboxTrouble | None:
        if not isinstance(error, OSError):
            return None
        try:
            is_usable = self._mailbox.is_dir() and os.access(self._mailbox, os.X_OK)
        except OSError:
            is_usable = False
        if not is_usable:
            reason = "there is no such folder, or this user may not enter it; see whether the share is mounted"
            return MailboxTrouble(self.address, reason)
        if isinstance(error, FileNotFoundError):
            return PostTrouble(self.address, GONE)
        reason = error.strerror or type(error).__name__
        if error.errno in _WHOLE_MAILBOX:
            return MailboxTrouble(self.address, f"{reason}; ask its keeper")
        # The writer of this folder may have caused it, for example by a lease on a file, and the others are heard.
        return PostTrouble(self.address, f"one of its folders or files: {reason}; ask its writer or its keeper")


WANTED = "wanted"
"""In ``out/`` of a courier's folder: an empty file for each folder that the home reads, by its name."""


class CourierStore(Store):
    """The home's side of a courier (``transports.nvflare``): two directories, each of which one user writes.

    A folder that this home writes lies in ``out/``. All others are looked for in ``in/``, and asked for once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._out, self._in = DirectoryStore(folder / "out"), DirectoryStore(folder / "in")
        self._wanted: set[str] = set()

    @property
    def address(self) -> str:
        return self._folder.as_uri().replace("file:", "courier:", 1)

    def _list(self, folder: str) -> Listing:
        return self._place_of(folder).list(folder)

    def _read(self, folder: str, name: str, most_bytes: int) -> bytes:
        return self._place_of(folder).read(folder, name, most_bytes=most_bytes)

    def _write(self, folder: str, name: str, data: bytes) -> None:
        self._out.write(folder, name, data)

    def _remove(self, folder: str, name: str) -> None:
        self._out.remove(folder, name)

    def _place_of(self, folder: str) -> DirectoryStore:
        if (self._folder / "out" / folder).is_dir():
            return self._out
        if folder not in self._wanted:
            place = self._folder / "out" / WANTED
            if not place.is_dir():
                place.mkdir(exist_ok=True)
                place.chmod(modes_under((self._folder / "out").stat().st_mode)[0])
            (place / folder).touch()
            self._wanted.add(folder)
        return self._in

    def _known_trouble(self, error: Exception) -> MailboxTrouble | None:
        return self._out._known_trouble(error)


def _described(entry: os.DirEntry[str]) -> StoredFile | None:
    if not is_file_name(entry.name):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None  # removed in this moment
    if not stat.S_ISREG(status.st_mode):
        return None
    return StoredFile(entry.name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _set_mode(descriptor: int, mode: int) -> None:
    status = os.fstat(descriptor)
    if stat.S_IMODE(status.st_mode) != mode and status.st_uid == os.geteuid():
        # A share that keeps no modes refuses this, and its server says who may read.
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, mode)


def _write_whole(directory: int, name: str, data: bytes, *, mode: int) -> None:
    partial = partial_name(name)
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
