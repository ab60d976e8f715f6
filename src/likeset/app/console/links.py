"""One-time links into a console: a token that somebody in this house got, worth one visit.

Of each token only its hash lies in the home, in a file that using it removes: so a link works once, whoever is faster,
and ``likeset owner console --link`` can make one for a console that runs in another process.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from likeset.errors import InvalidArgument
from likeset.files import keep_private_bytes, make_private_folder

__all__ = ["UPLOAD", "Links"]

_FOLDER, _ADDRESS, _RUNNING, _PAGE = "console", "address", "running", "open.html"
_ENDING = ".link"
UPLOAD = "upload-"
"""How names of folders begin in which uploaded files lie while they are read."""

_SECONDS = 15 * 60.0
_MOST = 64


class Links:
    """The links of one home.

    Args:
        home: its directory.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / _FOLDER

    def make(self) -> str:
        """A new token; it counts once, for a quarter of an hour."""
        make_private_folder(self._folder)
        self._forget(older_than=_SECONDS)
        if len(list(self._folder.glob(f"*{_ENDING}"))) >= _MOST:
            raise InvalidArgument("--link", _MOST, "links wait to be used; wait a quarter of an hour")
        token = secrets.token_urlsafe(32)
        keep_private_bytes(self._path(token), b"")
        return token

    def use(self, token: str) -> bool:
        """Whether a token counts; from now on it does not."""
        path = self._path(token)
        try:
            made = path.stat().st_mtime
            path.unlink()  # only one of two who are at it at once gets here
        except OSError:
            return False
        return 0.0 <= time.time() - made <= _SECONDS

    @contextmanager
    def listening_at(self, address: str) -> Iterator[None]:
        """Note where the console of this home listens, for as long as the block lasts.

        Links that were made before count no more, unless a console of this home runs already: they may have led to
        whoever listens now where a console once did.
        """
        make_private_folder(self._folder)
        with self._running_file() as running:
            if _locked(running, fcntl.LOCK_EX):
                self._forget(older_than=0.0)
                for left_behind in self._folder.glob(f"{UPLOAD}*"):  # by a console that was killed
                    shutil.rmtree(left_behind, ignore_errors=True)
            fcntl.flock(running, fcntl.LOCK_SH)
            keep_private_bytes(self._folder / _ADDRESS, address.encode())
            try:
                yield
            finally:
                for name in (_ADDRESS, _PAGE):
                    (self._folder / name).unlink(missing_ok=True)

    def page_for(self, link: str) -> Path:
        """A page that leads to a link, for this user alone: what a program is started with, others can read."""
        path = self._folder / _PAGE
        head = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={quote(link, safe=":/?=&%[]")}">'
        keep_private_bytes(path, f'<!DOCTYPE html>\n<html lang="en">{head}<title>likeset</title></html>\n'.encode())
        return path

    def address(self) -> str:
        """Where the console of this home listens.

        Raises:
            InvalidArgument: none does.
        """
        try:
            with self._running_file() as running:
                if not _locked(running, fcntl.LOCK_EX):  # one that was killed holds it no more
                    return (self._folder / _ADDRESS).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            pass
        raise InvalidArgument("--link", "none", "no console of this home is running; start one first")

    def _path(self, token: str) -> Path:
        return self._folder / f"{hashlib.sha256(token.encode('utf-8', 'replace')).hexdigest()}{_ENDING}"

    def _forget(self, *, older_than: float) -> None:
        for path in self._folder.glob(f"*{_ENDING}"):
            with contextlib.suppress(OSError):
                if not older_than or time.time() - path.stat().st_mtime > older_than:
                    path.unlink()

    @contextmanager
    def _running_file(self) -> Iterator[int]:
        """The file that every console of this home holds while it runs."""
        descriptor = os.open(self._folder / _RUNNING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _locked(descriptor: int, how: int) -> bool:
    """Whether nobody else holds the file."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
