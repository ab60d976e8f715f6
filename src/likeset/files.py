"""Directories and files that only their user may read, for any umask: homes, keys, seeds, rows and results.

An existing directory keeps its mode; files written into it are private.
"""

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from likeset.errors import InvalidArgument

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}")


def make_home_folder(folder: Path) -> None:
    """Make a directory for a party's own files; an existing one must be empty."""
    try:
        make_private_folder(folder)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise InvalidArgument("DIR", str(folder), f"cannot be used as a directory: {error.strerror}") from error
    if occupied:
        raise InvalidArgument("DIR", str(folder), "holds something already; nothing is overwritten: name a new one")
    folder.chmod(PRIVATE_FOLDER)


def make_private_folder(folder: Path) -> None:
    """Make a directory and missing directories above it; existing ones keep their modes."""
    for missing in reversed([parent for parent in (folder, *folder.parents) if not parent.exists()]):
        missing.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        with contextlib.suppress(PermissionError):  # to make something there is one right, to open it another
            sync_folder(missing.parent)
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)  # raises where something else is in its place


def make_directory(path: Path) -> None:
    """Make a private directory for output, unless it exists."""
    try:
        make_private_folder(path)
    except OSError as error:
        raise InvalidArgument("--out", path, f"cannot be used as a directory: {error.strerror}") from error


def keep_private(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a private file beside ``path``, then move it there: on disk as a whole, or not at all."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def keep_private_bytes(path: Path, data: bytes) -> None:
    """As ``keep_private``, for given content."""
    keep_private(path, lambda partial: partial.write_bytes(data))


def remove_unfinished(folder: Path) -> None:
    """Remove the unfinished files of ``keep_private`` in a directory after its process was killed.

    For a directory in which nobody else works.
    """
    for path in folder.glob(".*"):
        if UNFINISHED.fullmatch(path.name):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int | None]:
    """A descriptor of a private file that this process alone has locked meanwhile; None if another one has."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
        else:
            try:
                yield descriptor
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # also where a child that was forked meanwhile has it open
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make new names in a directory as durable as their files."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
