"""One-time links into a console: a token that somebody in this house got, worth one visit.

Of each token only its hash lies in the home, in a file that using it removes: so a link works once, whoever is faster,
and ``likeset owner console --link`` can make one for a console that runs in another process.
"""

import contextlib
import hashlib
import secrets
import time
from pathlib import Path

from likeset.errors import InvalidArgument
from likeset.private_files import keep_private_bytes, make_private_folder

__all__ = ["Links"]

_FOLDER, _ADDRESS = "console", "address"
_ENDING = ".link"
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
        self._forget_old()
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

    def tell_address(self, address: str) -> None:
        """Note where the console of this home listens."""
        make_private_folder(self._folder)
        keep_private_bytes(self._folder / _ADDRESS, address.encode())

    def forget_address(self) -> None:
        """It listens no more."""
        with contextlib.suppress(OSError):
            (self._folder / _ADDRESS).unlink()

    def address(self) -> str:
        """Where the console of this home listens.

        Raises:
            InvalidArgument: none does.
        """
        try:
            return (self._folder / _ADDRESS).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument("--link", "none", "no console of this home is running; start one first") from error

    def _path(self, token: str) -> Path:
        return self._folder / f"{hashlib.sha256(token.encode('utf-8', 'replace')).hexdigest()}{_ENDING}"

    def _forget_old(self) -> None:
        for path in self._folder.glob(f"*{_ENDING}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _SECONDS:
                    path.unlink()
