"""What a home's own process knows of NVFlare's: where it listens, and to whom. ``nvflare_site.json`` in the home."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likeset.errors import BadDocument
from likeset.files import keep_private_bytes
from likeset.transports.home_socket.machine_users import name_of, owner_of, uid_of
from likeset.transports.sites import SiteSettings, site_functions

HOME_FILE = "nvflare_site.json"
SOCKET_NAME = "home.sock"
_FIELDS = ("factory", "party", "socket", "nvflare_user", "most_bytes")


@dataclass(frozen=True)
class HomeSettings:
    """Of a home that answers NVFlare.

    Attributes:
        folder: the home.
        factory: makes its side of a run, as ``package.module:function``.
        party: its name in the terms.
        socket: where it listens.
        nvflare_user: the only user whom it hears, by name or number.
        most_bytes: no letter to it may be larger.
    """

    folder: Path
    factory: str
    party: str
    socket: Path
    nvflare_user: str | int
    most_bytes: int = SiteSettings.most_bytes

    @property
    def nvflare_uid(self) -> int:
        return uid_of(self.nvflare_user)

    @property
    def is_cage(self) -> bool:
        return self.nvflare_uid != owner_of(self.folder)

    def write(self) -> None:
        document = {name: getattr(self, name) for name in _FIELDS} | {"socket": str(self.socket)}
        text = json.dumps(document, indent=2, sort_keys=True)
        keep_private_bytes(self.folder / HOME_FILE, text.encode())

    @classmethod
    def read(cls, folder: Path) -> "HomeSettings":
        """What ``write`` wrote.

        Raises:
            BadDocument: there is nothing, or something else.
        """
        path = folder / HOME_FILE
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            reason = "cannot be read; `likeset site owner`, `consumer` or `curator` writes it"
            raise BadDocument(str(path), reason) from error
        except ValueError as error:
            raise BadDocument(str(path), "is not JSON") from error
        if not isinstance(document, dict) or set(document) != set(_FIELDS):
            raise BadDocument(str(path), f"must have the fields {', '.join(_FIELDS)}, and no others")
        for name in ("factory", "party", "socket"):
            _check(path, name, isinstance(document[name], str))
        _check(path, "nvflare_user", isinstance(document["nvflare_user"], str | int))
        _check(path, "most_bytes", isinstance(document["most_bytes"], int) and document["most_bytes"] > 0)
        return cls(folder, **{**document, "socket": Path(document["socket"])})

    def site_settings(self) -> SiteSettings:
        factory, refused = site_functions(self.folder / HOME_FILE, self.factory)
        return SiteSettings(factory, self.folder, refused, most_bytes=self.most_bytes)

    def document(self) -> dict[str, Any]:
        return {
            "party": self.party,
            "socket": str(self.socket),
            "home_user": name_of(os.geteuid()),
            "nvflare_user": name_of(self.nvflare_uid),
        }


def _check(path: Path, name: str, holds: bool) -> None:
    if not holds:
        raise BadDocument(str(path), "is of another kind than it should be; call `likeset site` again", field=name)


def usual_socket(home: Path, kit: Path) -> Path:
    """Where a home listens if nobody says otherwise: in itself for its own user, else where others can come to."""
    if owner_of(home) == owner_of(kit):
        return home.resolve() / SOCKET_NAME
    return Path("/run") / f"likeset-{home.resolve().name}" / SOCKET_NAME
