"""Where a mailbox can be, and what all such places do: list, read, write and remove small files.

A mailbox has one folder for each direction of each pair, whose name only the two know, and in it files that are named
by their digest and never change. ``directory.py`` is a folder on this machine or on a mounted share, ``sftp.py`` an
SFTP server and ``s3.py`` a bucket. The first needs nothing but the system's calls: fsspec's files follow links, wait
for a FIFO and keep no modes. The second uses paramiko: fsspec's SFTP believes any host key and stages elsewhere. The
third uses fsspec's s3fs.

A place is a stranger: names that likeset does not write are not listed, a file is never read beyond the bound that the
caller names, and a listing has an end.
"""

import heapq
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from likeset.errors import InvalidArgument, PostTrouble

__all__ = [
    "MOST_LISTED",
    "PARTIAL_NAME",
    "PARTIAL_SECONDS",
    "Listing",
    "Modes",
    "Store",
    "StoredFile",
    "bounded_listing",
    "check_place",
    "is_file_name",
    "open_store",
    "refuse_larger",
    "time_of",
]

MOST_LISTED = 10_000
"""Files that a listing names at most: those whose names come first, so that everybody sees the same ones."""

PARTIAL_NAME = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{8}")
"""What a file is called while it is written. It is never listed."""

PARTIAL_SECONDS = 3600.0
"""After so long nobody writes it any more: its writer was killed, and the next one removes it."""

_MOST_LOOKED_AT = 1_000_000
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_FOLDER = re.compile(r"[a-z2-7]{32}")
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a mailbox, as the place describes it; the place may lie.

    Attributes:
        name: 64 hexadecimal digits.
        size: in bytes.
        modified: when it was written, by the clock of the place.
    """

    name: str
    size: int
    modified: datetime


Listing = list[StoredFile]
"""By name. (Stores have a method called ``list``, beside which the type cannot be written.)"""


class Store(Protocol):
    """A place with files. One thread at a time.

    Every method raises ``MailboxTrouble`` if the place cannot be used now, and ``PostTrouble``, which is one of
    these, if it is only this file or this folder: others may be fine.
    """

    @property
    def address(self) -> str:
        """Where it is, in one form, without secrets: the same place has the same address."""

    def list(self, folder: str) -> Listing:
        """The files of a folder by name, at most ``MOST_LISTED``; a folder that is not there has none."""

    def read(self, folder: str, name: str, *, most_bytes: int) -> bytes:
        """A whole file.

        Raises:
            PostTrouble: it is gone, has more than ``most_bytes``, or is no file that may be read.
        """

    def write(self, folder: str, name: str, data: bytes) -> None:
        """Put a file there, whole or not at all; one of that name is replaced."""

    def remove(self, folder: str, name: str) -> None:
        """Take a file away; one that is gone already is fine."""

    def close(self) -> None:
        """Let go of connections; the next call opens them again."""


@dataclass(frozen=True, slots=True)
class Modes:
    """Permissions of what a writer makes in a mailbox, whatever its umask says.

    Only the writer changes anything in its folder. Whoever may enter the mailbox may read: that is how its keeper says
    who the others are, and names that nobody can guess say who reads what.
    """

    folder: int
    file: int

    @classmethod
    def under(cls, mailbox_mode: int) -> "Modes":
        """Those that follow from the mode of the mailbox's own folder."""
        enter = mailbox_mode & 0o011
        inherit_group = mailbox_mode & stat.S_ISGID
        return cls(folder=0o700 | inherit_group | enter | enter << 2, file=0o600 | enter << 2)


def is_file_name(name: str) -> bool:
    """Whether likeset would give a file that name."""
    return _NAME.fullmatch(name) is not None


def check_place(folder: str, name: str | None = None) -> None:
    """Refuse names that could lead elsewhere.

    Raises:
        InvalidArgument: not a folder's name, or not a file's.
    """
    if _FOLDER.fullmatch(folder) is None:
        raise InvalidArgument("folder", folder, "the name of a pair's folder has 32 letters of base32")
    if name is not None and not is_file_name(name):
        raise InvalidArgument("name", name, "the name of a file is a digest of 64 hexadecimal digits")


def bounded_listing(entries: Iterable[StoredFile | None]) -> Listing:
    """A listing in order, with an end even if the place has none.

    Args:
        entries: what the place lists, one at a time; None for what is no file of a mailbox.
    """
    files = (entry for entry in islice(entries, _MOST_LOOKED_AT) if entry is not None)
    return heapq.nsmallest(MOST_LISTED, files, key=lambda file: file.name)


def time_of(stamp: float) -> datetime:
    """A file's time as the place tells it; one that no calendar has counts as the nearest that there is."""
    return datetime.fromtimestamp(min(max(stamp, 0.0), _LATEST), UTC)


def refuse_larger(size: int, most_bytes: int, *, address: str) -> None:
    """Refuse a file that has more bytes than its reader takes.

    Raises:
        PostTrouble: it has.
    """
    if size > most_bytes:
        raise PostTrouble(address, f"a file has more than the {most_bytes} bytes that are read; it was left alone")


def open_store(url: str) -> Store:
    """The store at an address; nothing is opened or connected before its first use.

    Args:
        url: a folder's path or ``file:///folder``, ``sftp://user@host:port/folder`` or ``s3://bucket/prefix``.

    Raises:
        InvalidArgument: it is none of these, has a password in it, or needs a part that is not installed.
    """
    if "://" not in url:
        return _directory(url, Path(url).expanduser())
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is none
    except ValueError:
        raise InvalidArgument("mailbox", url, "is no address; write sftp://user@host:port/folder") from None
    if parts.password is not None:
        raise InvalidArgument(
            "mailbox", url, "has a password in it, and addresses are shown and logged; take it out and use a key"
        )
    if parts.query or parts.fragment:
        raise InvalidArgument("mailbox", url, "may have no ? or # in it; settings come from the environment")
    if parts.scheme == "file":
        if parts.hostname not in (None, "localhost"):
            raise InvalidArgument("mailbox", url, "names a machine; mount its share, and write file:///folder")
        return _directory(url, Path(unquote(parts.path)))
    return _distant_store(url, parts)


def _directory(url: str, folder: Path) -> Store:
    from likeset.transports.mailbox.directory import DirectoryStore

    if "\0" in url or not url:
        raise InvalidArgument("mailbox", url, "is no folder; write its path")
    return DirectoryStore(Path(os.path.normpath(folder.absolute())))


def _distant_store(url: str, parts: SplitResult) -> Store:
    if parts.scheme not in ("sftp", "s3"):
        reason = f"{parts.scheme}:// is not known; use a folder's path, file://, sftp:// or s3://"
        raise InvalidArgument("mailbox", url, reason)
    if not parts.hostname:
        raise InvalidArgument("mailbox", url, "names no host or bucket; write sftp://user@host/folder or s3://bucket")
    path = unquote(parts.path)
    try:
        if parts.scheme == "sftp":
            from likeset.transports.mailbox.sftp import SftpStore
            from likeset.transports.mailbox.sftp_connection import SftpPlace

            user = unquote(parts.username) if parts.username else None
            return SftpStore(SftpPlace.of(parts.hostname, path, port=parts.port, user=user))
        from likeset.transports.mailbox.s3 import S3Store

        if parts.username is not None or parts.port is not None:
            raise InvalidArgument(
                "mailbox", url, "names more than a bucket; keys and endpoint come from AWS_ variables"
            )
        return S3Store(parts.netloc, path.strip("/"))
    except ModuleNotFoundError:
        reason = f"needs a part that is not installed: pip install 'likeset[{parts.scheme}]'"
        raise InvalidArgument("mailbox", url, reason) from None
