"""What NVFlare's user could read on this machine, of what it should not: the home, its data, other kits.

As root it is tried, in a process of that user. Otherwise it is reckoned from owners, groups and modes, which know
nothing of access lists.
"""

import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from likeset.errors import BadDocument, LikesetError
from likeset.homes.data import Registry
from likeset.homes.owner_node import Home
from likeset.transports.home_socket.machine_users import group_of, groups_of, name_of, owner_of, uid_of
from likeset.transports.sites import SocketSettings, load_settings

_MOST_NAMED = 3
_KEYS = ("card.secret", "key")


@dataclass(frozen=True, slots=True)
class Exposure:
    """One thing that was looked at.

    Attributes:
        what: was looked at.
        ok: whether it is as it should be.
        words: what NVFlare's user can do there, and what to do about it.
    """

    what: str
    ok: bool
    words: str

    def document(self) -> dict[str, Any]:
        return asdict(self)


def exposures(kit: Path, home: Path) -> list[Exposure]:
    """Look at everything.

    Args:
        kit: the site's start-up kit, whose owner is NVFlare's user.
        home: the home that answers behind it.

    Raises:
        BadDocument: the kit does not name a socket.
    """
    settings = load_settings(kit / "local", kit.name)
    if not isinstance(settings, SocketSettings):
        raise BadDocument(str(kit / "local"), "names no socket; call `likeset site` for this kit again")
    uid = owner_of(kit)
    secret = {
        "home": [home, *sorted(home.rglob("*"))],
        "data": list(_data_files(home)),
        "other kits": list(_keys_of_other_kits(kit)),
    }
    can = _readable(uid, [path for paths in secret.values() for path in paths])
    secrets = [_secret(what, paths, can) for what, paths in secret.items()]
    return [_users(uid, settings, home), *secrets, *_socket(uid, settings.socket), _how(uid)]


def _users(uid: int, settings: SocketSettings, home: Path) -> Exposure:
    owner, nvflare = owner_of(home), name_of(uid)
    if uid == 0:
        return Exposure("users", ok=False, words="NVFlare runs as root, who reads everything; give the kit to a user")
    if uid == owner:
        words = f"{nvflare} has both the kit and the home: no cage; give the kit to a user of its own"
        return Exposure("users", ok=False, words=words)
    if uid_of(settings.home_user) != owner:
        words = f"the kit expects {settings.home_user} behind the socket, but the home is {name_of(owner)}'s"
        return Exposure("users", ok=False, words=f"{words}; call `likeset site` again")
    return Exposure("users", ok=True, words=f"NVFlare is {nvflare}, the home is {name_of(owner)}'s")


def _secret(what: str, paths: list[Path], can: set[Path]) -> Exposure:
    readable = [path for path in paths if path in can]
    if not readable:
        return Exposure(what, ok=True, words=f"none of {len(paths)} can be read" if paths else "there are none")
    keys = sorted(readable, key=lambda path: path.name not in _KEYS)
    named = ", ".join(str(path) for path in keys[:_MOST_NAMED])
    more = f" and {len(readable) - _MOST_NAMED} more" if len(readable) > _MOST_NAMED else ""
    return Exposure(what, ok=False, words=f"can read {named}{more}; take the right away with chmod go=")


def _data_files(home: Path) -> Iterator[Path]:
    """Files of rows that are registered at an owner's node; a database is not looked at."""
    try:
        registry = Registry(Home(home).data)
        places = [registry.get(name).source for name in registry.names()]
    except (LikesetError, OSError):
        return
    for place in places:
        path = Path(place)
        if path.is_dir():
            yield from sorted(path.rglob("*"))
        if path.exists():
            yield path


def _keys_of_other_kits(kit: Path) -> Iterator[Path]:
    """Of those beside it, and the authority's, which `nvflare provision` leaves two folders above."""
    for other in sorted(kit.resolve().parent.iterdir()):
        if other != kit.resolve() and (other / "startup").is_dir():
            yield from sorted((other / "startup").glob("*.key"))
    authority = kit.resolve().parent.parent / "state" / "cert.json"
    if authority.exists():
        yield authority


def _socket(uid: int, path: Path) -> Iterator[Exposure]:
    if not path.exists():
        yield Exposure("socket", ok=False, words=f"nobody listens at {path}; start `likeset site serve`")
        return
    if path in _allowed(uid, [path], os.W_OK):
        yield Exposure("socket", ok=True, words=f"can connect to {path}")
    else:
        yield Exposure(
            "socket", ok=False, words=f"cannot connect to {path}; `likeset site serve` says how to make it so"
        )
    if path.parent in _allowed(uid, [path.parent], os.W_OK):
        words = f"can put another socket into {path.parent}; take the right away with chmod go-w"
        yield Exposure("socket's folder", ok=False, words=words)


def _how(uid: int) -> Exposure:
    tried = f"tried as {name_of(uid)}" if os.geteuid() == 0 else "reckoned from modes; as root it would be tried"
    return Exposure("how", ok=True, words=tried)


def _readable(uid: int, paths: Iterable[Path]) -> set[Path]:
    return _allowed(uid, list(paths), os.R_OK)


def _allowed(uid: int, paths: list[Path], right: int) -> set[Path]:
    absolute = {str(path.absolute()): path for path in paths}
    if os.geteuid() == 0:
        return {absolute[name] for name in _tried(uid, list(absolute), right)}
    return {path for name, path in absolute.items() if _by_modes(uid, Path(name), right)}


def _tried(uid: int, names: list[str], right: int) -> list[str]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            os.setgroups(groups_of(uid))
            os.setgid(group_of(uid))
            os.setuid(uid)
            allowed = [name for name in names if os.access(name, right)]
            with os.fdopen(writing, "w", encoding="utf-8", errors="surrogateescape") as pipe:
                json.dump(allowed, pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="surrogateescape") as pipe:
        text = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise LikesetError(f"could not try anything as user {name_of(uid)}; is this process allowed to change users?")
    allowed_names: list[str] = json.loads(text)
    return allowed_names


def _by_modes(uid: int, path: Path, right: int) -> bool:
    if uid == 0:
        return True
    return all(_bit(uid, parent, os.X_OK) for parent in path.parents) and _bit(uid, path, right)


def _bit(uid: int, path: Path, right: int) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == uid:
        mode >>= 6
    elif status.st_gid in groups_of(uid):
        mode >>= 3
    return bool(mode & right)
