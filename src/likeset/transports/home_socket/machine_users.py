"""Users of this machine: who is at the other end of a socket, whose a folder is, and acting for somebody else."""

import grp
import os
import pwd
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from likeset.errors import InvalidArgument

_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class SocketPeer:
    """The process at the other end, as the kernel tells: when it connected, or began to listen.

    Attributes:
        pid: its number.
        uid: its user.
        gid: its group.
    """

    pid: int
    uid: int
    gid: int


ReadPeer = Callable[[socket.socket], SocketPeer]


def peer_of(connection: socket.socket) -> SocketPeer:
    """Who is at the other end of a Unix socket.

    Raises:
        InvalidArgument: this system does not tell.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        raise InvalidArgument("socket", "a Unix socket", "this system does not say who connects; use Linux")
    return SocketPeer(*_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)))


def uid_of(user: str | int) -> int:
    """The number of a user, who is given by name or number.

    Raises:
        InvalidArgument: nobody here has that name.
    """
    if isinstance(user, int) or user.isdecimal():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise InvalidArgument("user", user, "is no user of this machine") from None


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_of(uid: int) -> int:
    """The first group of a user; of one whom nobody entered, the group of the same number."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def groups_of(uid: int) -> list[int]:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return [uid]
    return os.getgrouplist(entry.pw_name, entry.pw_gid)


def name_of_group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def owner_of(folder: Path) -> int:
    for place in (folder.resolve(), *folder.resolve().parents):
        if place.exists():
            return place.stat().st_uid
    return os.geteuid()


@contextmanager
def acting_for_owner_of(folder: Path) -> Iterator[None]:
    """As root: what is written meanwhile belongs to the folder's owner, who can then read it. Else as before."""
    uid = owner_of(folder)
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    gid, groups = os.getegid(), os.getgroups()
    os.setgroups(groups_of(uid))
    os.setegid(group_of(uid))
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)
