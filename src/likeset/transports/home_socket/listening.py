"""The process of a home that listens for NVFlare's: who may connect, how many at once, and a process for each."""

import contextlib
import fcntl
import os
import select
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from likeset.errors import InvalidArgument
from likeset.transports.home_socket.frames import address_in
from likeset.transports.home_socket.home_settings import HomeSettings
from likeset.transports.home_socket.machine_users import ReadPeer, group_of, name_of, name_of_group, owner_of, peer_of
from likeset.transports.sites import SiteParties

MOST_CONNECTIONS = 32
"""At once, each of which is a job; others are hung up on, and come again."""

_LOCK_FILE = "nvflare_site.lock"
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_END = 20.0
_PENDING = 16
_OWN_FOLDER, _GROUP_FOLDER = 0o700, 0o710
_OWN_SOCKET, _GROUP_SOCKET = 0o600, 0o660
_WRITABLE_BY_OTHERS = 0o022


@dataclass
class HomeListener:
    """Listens at a home's socket.

    Args:
        home: whose.
        read_peer: tells who connects.
        most_connections: at once.
    """

    home: HomeSettings
    read_peer: ReadPeer = peer_of
    most_connections: int = MOST_CONNECTIONS
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False)
    _strangers: set[int] = field(default_factory=set, init=False)

    def serve(self, stop: threading.Event, ready: threading.Event | None = None) -> None:
        """Listen until ``stop`` is set; what is being answered then is answered.

        Args:
            stop: looked at twice a second.
            ready: set as soon as somebody can connect.

        Raises:
            InvalidArgument: another process serves this home, or the socket cannot be where it should.
        """
        with self._alone(), self._listening() as listener:
            if ready is not None:
                ready.set()
            try:
                while not stop.is_set():
                    coming, _, _ = select.select([listener], [], [], _SECONDS_BETWEEN_LOOKS)
                    self._let_go_of_ended()
                    if coming:
                        with contextlib.suppress(OSError):  # it went away before it was looked at
                            self._take(listener.accept()[0])
            finally:
                self._end_workers()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else serves this home: only then may an old socket be removed."""
        descriptor = os.open(self.home.folder / _LOCK_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _OWN_SOCKET)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise InvalidArgument("HOME", self.home.folder, "another process serves this home already") from None
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())  # for whoever wants to stop it
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _listening(self) -> Iterator[socket.socket]:
        path = self.home.socket
        _prepare_folder(path.parent, self.home)
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise InvalidArgument("socket", path, "is something else than a socket; remove it, or name another")
            path.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            os.fchmod(listener.fileno(), _OWN_SOCKET)  # as it is made, whatever the umask is
            with address_in(path) as address:
                listener.bind(address)
            if self.home.is_cage:
                _give_to_group(path, self.home, mode=_GROUP_SOCKET)
            listener.listen(_PENDING)
            listener.setblocking(False)
            try:
                yield listener
            finally:
                path.unlink(missing_ok=True)

    def _take(self, connection: socket.socket) -> None:
        with connection:
            connection.setblocking(True)
            uid = self.read_peer(connection).uid
            if uid != self.home.nvflare_uid:
                self._note_stranger(uid)
                return
            if len(self._workers) >= self.most_connections:
                return
            command = [sys.executable, "-m", "likeset.transports.home_socket.worker"]
            descriptor = connection.fileno()
            self._workers.append(
                subprocess.Popen(  # noqa: S603 - our own program
                    [*command, str(self.home.folder.resolve()), str(descriptor)],
                    stdin=subprocess.PIPE,  # closed when this process ends, however
                    pass_fds=(descriptor,),
                )
            )

    def _note_stranger(self, uid: int) -> None:
        """Once for each user: a flood of connections must not fill the audit log."""
        if uid in self._strangers:
            return
        self._strangers.add(uid)
        expected = name_of(self.home.nvflare_uid)
        reason = f"user {name_of(uid)} connected to this home's socket, which is for {expected} alone"
        SiteParties(self.home.party, {}, self.home.site_settings()).refuse(reason)

    def _let_go_of_ended(self) -> None:
        for worker in [worker for worker in self._workers if worker.poll() is not None]:
            _hang_up(worker)
            self._workers.remove(worker)

    def _end_workers(self) -> None:
        for worker in self._workers:
            _hang_up(worker)
        for worker in self._workers:
            try:
                worker.wait(timeout=_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                worker.kill()  # what it was about to say is said again when it is asked again
                worker.wait()


def _hang_up(worker: subprocess.Popen[bytes]) -> None:
    if worker.stdin is not None:
        worker.stdin.close()


def _prepare_folder(folder: Path, home: HomeSettings) -> None:
    """One into which only this user writes, and NVFlare's comes.

    Raises:
        InvalidArgument: it is not, and cannot be made so.
    """
    try:
        folder.mkdir(mode=_OWN_FOLDER, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise InvalidArgument(
            "socket", folder, f"cannot be made ({error.strerror}); {_remedy(folder, home)}"
        ) from error
    if status.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(status.st_mode) & _WRITABLE_BY_OTHERS:
        reason = f"somebody else could put another socket there; {_remedy(folder, home)}"
        raise InvalidArgument("socket", folder, reason)
    inside = folder.resolve().is_relative_to(home.folder.resolve())
    if home.is_cage and inside:
        raise InvalidArgument(
            "socket", folder, "is in the home, where NVFlare's user must not come; name another place"
        )
    if home.is_cage and status.st_gid != group_of(home.nvflare_uid):
        _give_to_group(folder, home, mode=_GROUP_FOLDER)


def _give_to_group(path: Path, home: HomeSettings, *, mode: int) -> None:
    group = group_of(home.nvflare_uid)
    try:
        if path.stat().st_gid != group:
            os.chown(path, -1, group)
        path.chmod(mode)
    except OSError as error:
        folder = path if path.is_dir() else path.parent
        raise InvalidArgument("socket", path, f"cannot be given to NVFlare's user; {_remedy(folder, home)}") from error


def _remedy(folder: Path, home: HomeSettings) -> str:
    user, group = name_of(owner_of(home.folder)), name_of_group(group_of(home.nvflare_uid))
    return f"as root: install -d -m 2710 -o {user} -g {group} {folder}"
