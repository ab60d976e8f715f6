"""NVFlare as a courier: it copies the files of mailboxes between sites. Needs the extra ``likeset[nvflare]``.

A site has a folder with two directories, each of which one user writes: ``out/`` the home's, ``in/`` NVFlare's (see
``stores.CourierStore``). The server asks each connected site which files lie in ``out/`` and which folders its home
reads, and copies the files of a folder to the sites that read it. Only two parties can compute the name of a folder.
The server stores nothing: a site or a server that was stopped continues from what lies in the directories.

NVFlare builds both classes from the site's own configuration when it starts (``settle``), so that no job is needed.
"""

import contextlib
import hashlib
import json
import os
import pwd
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.private.defs import new_cell_message

from likeset.errors import BadDocument, InvalidArgument, MailboxTrouble, NoAnswer
from likeset.transports.stores import MOST_LISTED, WANTED, DirectoryStore, is_file_name, is_folder_name

MOST_FILE_BYTES = (1 << 28) + (1 << 20)  # the largest letter with its wrapping
MOST_STORED_BYTES = 1 << 32  # in in/: a hostile server must not fill the disk
SPACE_OF_A_FILE = 1 << 12  # that the smallest one takes
MOST_FOLDERS = 10_000

_CHANNEL = "likeset_courier"
_SERVER = "server"  # NVFlare's name of the server's end of a connection
_SECONDS_PER_CALL = 10.0
_LEAST_RATE = 1 << 18  # bytes per second: large files may take longer
_LARGE = 1 << 20
_MOST_LARGE = 4  # files of more than _LARGE bytes in the server's memory at once
_SECONDS_UNTIL_RETRY = 30.0
_LONGEST_REST = 600.0  # from a site that gave no answer
_MOST_REMEMBERED = 100_000
_SHORTEST, _LONGEST = 0.03, 1.0  # seconds between two updates of a site
_PAUSE_PER_SILENCE = 0.1  # a site that was silent for ten seconds is updated every second

Offers = dict[str, dict[str, int]]
"""Sizes of files by folder and name."""

Call = Callable[[str, str, object, float], object]
"""Asks a site (name, topic, request, seconds) and returns its answer; raises ``NoAnswer``."""


class SiteFiles:
    """A site's side: it lists and reads ``out/``, and writes ``in/``."""

    def __init__(self, folder: Path) -> None:
        self._out, self._in = folder / "out", folder / "in"
        self._outgoing, self._incoming = DirectoryStore(self._out), DirectoryStore(self._in)
        # Listings have an end, so a hostile server could hide files from them.
        self._stored_bytes = sum(_space(path) for path in self._in.rglob("*"))
        self._lock = threading.Lock()

    def answer(self, topic: str, request: object) -> object:
        with self._lock:
            match topic, request:
                case "look", str(known):
                    return self._look(known)
                case "give", [str(folder), str(name)]:
                    return self._give(folder, name)
                case "take", [str(folder), str(name), bytes(data)]:
                    return self._take(folder, name, data)
                case "drop", [str(folder), str(name)]:
                    return self._drop(folder, name)
        raise InvalidArgument("topic", topic, "is not a request to a courier")

    def _look(self, known: str) -> object:
        offered = {folder: _sizes(self._outgoing, folder) for folder in _folders_in(self._out)}
        present = {folder: _sizes(self._incoming, folder) for folder in _folders_in(self._out / WANTED)}
        content = {"offered": offered, "wanted": {folder: sorted(sizes) for folder, sizes in present.items()}}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return None if digest == known else {**content, "digest": digest}

    def _give(self, folder: str, name: str) -> list[bytes]:
        """The file in a list, since NVFlare hands over bare bytes in types of its own; an empty list if it is gone."""
        try:
            return [self._outgoing.read(folder, name, most_bytes=MOST_FILE_BYTES)]
        except MailboxTrouble:
            return []

    def _take(self, folder: str, name: str, data: bytes) -> bool:
        stored = self._stored_bytes - _space(self._in / folder / name) + max(len(data), SPACE_OF_A_FILE)
        if len(data) > MOST_FILE_BYTES or stored > MOST_STORED_BYTES or not self._is_wanted(folder):
            return False
        self._incoming.write(folder, name, data)
        self._stored_bytes = stored
        return True

    def _drop(self, folder: str, name: str) -> bool:
        if not self._is_wanted(folder):
            return False
        space = _space(self._in / folder / name)
        self._incoming.remove(folder, name)
        self._stored_bytes -= space
        return True

    def _is_wanted(self, folder: str) -> bool:
        return is_folder_name(folder) and (self._out / WANTED / folder).exists()


def _space(path: Path) -> int:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0
    return max(status.st_size, SPACE_OF_A_FILE) if stat.S_ISREG(status.st_mode) else 0


def _folders_in(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if is_folder_name(entry.name)]
    except FileNotFoundError:
        return []
    return sorted(names)[:MOST_FOLDERS]


def _sizes(store: DirectoryStore, folder: str) -> dict[str, int]:
    try:
        return {file.name: file.size for file in store.list(folder)}
    except MailboxTrouble:
        return {}


@dataclass(frozen=True)
class _View:
    """A site at its last update: what it offers, and which files it has of each folder that its home reads."""

    digest: str = ""
    offered: Offers = field(default_factory=dict)
    wanted: dict[str, set[str]] = field(default_factory=dict)


class Router:
    """The server's side: copies files between sites; updates of different sites may run at the same time.

    ``wake`` is called with the name of a site for which files may have come.
    """

    def __init__(self, call: Call, wake: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._call, self._wake, self._clock = call, wake, clock
        self._views: dict[str, _View] = {}
        self._sources: dict[str, list[str]] = {}  # sites by the folders that they offer
        self._retry_at: dict[tuple[str, str, str], float] = {}
        self._lock = threading.Lock()
        self._large = threading.BoundedSemaphore(_MOST_LARGE)

    def update(self, site: str) -> bool:
        """List the files of a site, copy those that its home reads to it, and remove those that their writer removed.

        Returns whether anything changed: then more may follow soon.
        """
        before = self._views.get(site, _View())
        view = _checked_view(self._call(site, "look", before.digest, _SECONDS_PER_CALL), before)
        if view is not before:
            self._keep(site, view)
        moved = False
        for folder, present in view.wanted.items():
            offered = self._offered(folder, reader=site)
            if offered is None:
                continue  # its writer is not connected: what came before stays
            for name in sorted(offered.keys() - present):
                moved |= self._carry(*offered[name], site, folder, name)
            for name in sorted(present - offered.keys()):
                moved |= self._call(site, "drop", [folder, name], _SECONDS_PER_CALL) is True
        return moved or view is not before

    def forget(self, site: str) -> None:
        self._keep(site, _View())

    def _keep(self, site: str, view: _View) -> None:
        with self._lock:
            before = self._views.pop(site, _View())
            if view.digest:
                self._views[site] = view
            self._sources = {}
            for source, each in sorted(self._views.items()):
                for folder in each.offered:
                    self._sources.setdefault(folder, []).append(source)
            changed = {folder for folder, sizes in view.offered.items() if before.offered.get(folder) != sizes}
            woken = [reader for reader, each in self._views.items() if reader != site and changed & each.wanted.keys()]
        for reader in woken:
            self._wake(reader)

    def _offered(self, folder: str, *, reader: str) -> dict[str, tuple[str, int]] | None:
        with self._lock:
            sources = [site for site in self._sources.get(folder, []) if site != reader]
            files = {
                name: (source, size) for source in sources for name, size in self._views[source].offered[folder].items()
            }
        return files if sources else None

    def _carry(self, source: str, size: int, site: str, folder: str, name: str) -> bool:
        retry_at = max(self._retry_at.get((site, folder, each), 0.0) for each in (name, ""))
        if size > MOST_FILE_BYTES or self._clock() < retry_at:
            return False
        seconds = _SECONDS_PER_CALL + size / _LEAST_RATE
        with self._large if size > _LARGE else contextlib.nullcontext():
            began = self._clock()
            try:
                given = self._call(source, "give", [folder, name], seconds)
            except NoAnswer:
                self.forget(source)
                # Others have their turn, also if it is silent for each of its files.
                silence = self._clock() - began
                self._retry_at[site, folder, ""] = self._clock() + min(9 * silence, _LONGEST_REST)
                return False
            match given:
                case [bytes(data)] if len(data) == size:
                    if self._call(site, "take", [folder, name, data], seconds) is True:
                        return True
        # The file is gone or changed, or the site has no room for it.
        if len(self._retry_at) > _MOST_REMEMBERED:
            self._retry_at.clear()
        self._retry_at[site, folder, name] = self._clock() + _SECONDS_UNTIL_RETRY
        return False


def _checked_view(answer: object, before: _View) -> _View:
    match answer:
        case None if before.digest:
            return before
        case {"digest": str(digest), "offered": dict(offered), "wanted": dict(wanted)}:
            wanted = {folder: dict.fromkeys(names, 0) for folder, names in wanted.items()}
            if digest and _are_listings(offered) and _are_listings(wanted):
                return _View(digest, offered, {folder: set(names) for folder, names in wanted.items()})
    raise NoAnswer("a site listed its files in another form than it should")


def _are_listings(folders: dict[Any, Any]) -> bool:
    return len(folders) <= MOST_FOLDERS and all(
        is_folder_name(folder)
        and len(files) <= MOST_LISTED
        and all(is_file_name(name) and isinstance(size, int) and size >= 0 for name, size in files.items())
        for folder, files in folders.items()
    )


class CourierSite(FLComponent):  # type: ignore[misc]
    def __init__(self, folder: str) -> None:
        super().__init__()
        self._files = SiteFiles(Path(folder))

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.SYSTEM_START:
            fl_ctx.get_engine().get_cell().register_request_cb(channel=_CHANNEL, topic="*", cb=self._answer)

    def _answer(self, message: Any) -> Any:
        if message.get_header(MessageHeaderKey.ORIGIN) != _SERVER:
            return make_reply(ReturnCode.INVALID_REQUEST)
        try:
            body = self._files.answer(str(message.get_header(MessageHeaderKey.TOPIC)), message.payload)
        except Exception as error:  # a text or traceback would travel to the server
            self.logger.warning("a request of the server failed: %s", type(error).__name__)
            return make_reply(ReturnCode.PROCESS_EXCEPTION)
        return make_reply(ReturnCode.OK, body=body)


class CourierServer(FLComponent):  # type: ignore[misc]
    """In the process of the server: updates every connected site, each in a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._addresses: dict[str, str] = {}  # NVFlare's, of connected sites by name
        self._events: dict[str, threading.Event] = {}
        self._cell: Any = None
        self._router = Router(self._call, self._wake)

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.SYSTEM_START:
            engine = fl_ctx.get_engine()
            self._cell = engine.get_cell()
            self.logger.info("the courier starts")
            threading.Thread(target=self._follow, args=(engine,), name="likeset-courier", daemon=True).start()

    def _follow(self, engine: Any) -> None:
        """Start a thread for each site that connects; the thread of a site that is gone ends."""
        while True:
            try:
                self._addresses = {client.name: client.get_fqcn() or client.name for client in engine.get_clients()}
            except Exception as error:
                self.logger.warning("the connected sites are unknown: %s", type(error).__name__)
            for site in self._addresses.keys() - self._events.keys():
                self._events[site] = threading.Event()
                threading.Thread(target=self._attend, args=(site,), name=f"likeset-{site}", daemon=True).start()
            time.sleep(_LONGEST)

    def _attend(self, site: str) -> None:
        event, last, trouble = self._events[site], time.monotonic(), ""
        while site in self._addresses:
            try:
                if self._router.update(site):
                    last = time.monotonic()
                trouble = ""
            except Exception as error:  # one bad site never ends the courier
                self._router.forget(site)
                if trouble != (trouble := f"{type(error).__name__}: {error}"):
                    self.logger.warning("site %s: %s", site, trouble)
            silence = time.monotonic() - last
            event.wait(min(max(_SHORTEST, silence * _PAUSE_PER_SILENCE), _LONGEST))
            event.clear()
        self._router.forget(site)
        del self._events[site]

    def _wake(self, site: str) -> None:
        event = self._events.get(site)
        if event is not None:
            event.set()

    def _call(self, site: str, topic: str, request: object, seconds: float) -> object:
        reply = self._cell.send_request(
            channel=_CHANNEL,
            topic=topic,
            target=self._addresses.get(site, site),
            request=new_cell_message({}, request),
            timeout=seconds,
            optional=True,
        )
        if (code := reply.get_header(MessageHeaderKey.RETURN_CODE)) != ReturnCode.OK:
            raise NoAnswer(f"no answer to {topic} ({code})")
        return reply.payload


CLASSES = tuple(f"{each.__module__}.{each.__qualname__}" for each in (CourierServer, CourierSite))
_COMPONENT_ID = "likeset_courier"
_LOG_SENDERS = ("log_streamer", "log_sender")
_COMMUNICATION = "comm_config.json"
_ENVELOPE = 1 << 20  # bytes that NVFlare puts around a message, and room to spare
_SHARED_STORAGE = "/tmp/nvflare"  # noqa: S108 (NVFlare's default)


def is_server_kit(kit: Path) -> bool:
    if not (kit / "startup").is_dir() or not (kit / "local").is_dir():
        raise InvalidArgument("KIT", kit, "is not a start-up kit: it must have the folders startup and local")
    return (kit / "startup" / "fed_server.json").exists()


def folder_in(kit: Path) -> Path:
    """The folder of a site that was settled."""
    for component in _resources(kit / "local").get("components", []):
        if isinstance(component, dict) and component.get("id") == _COMPONENT_ID and component.get("args"):
            return Path(component["args"]["folder"])
    raise BadDocument(str(kit), "is not settled; call `likeset courier settle`")


def make_folder(folder: Path, *, home_uid: int, nvflare_uid: int) -> None:
    """``out/``, which the home's user writes and NVFlare's reads, and ``in/``, the other way round.

    For two users this process must be root's.
    """
    # As root: where another user can put links into it, or instead of it, they would lead anywhere.
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise InvalidArgument("--folder", folder, f"cannot be used: {error.strerror}") from error
    try:
        status = os.fstat(opened)
        if home_uid != nvflare_uid and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
            raise InvalidArgument(
                "--folder", folder, "other users can change it; name a directory that is root's alone"
            )
        for name, writer, reader in (("out", home_uid, nvflare_uid), ("in", nvflare_uid, home_uid)):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, mode=0o700, dir_fd=opened)
            if writer != reader:
                os.chown(name, writer, group_of(reader), dir_fd=opened, follow_symlinks=False)
            os.chmod(name, 0o700 if writer == reader else 0o2750, dir_fd=opened)
    finally:
        os.close(opened)


def group_of(uid: int) -> int:
    """The first group of a user; of one whom nobody entered, the group of the same number."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def rights_of(uid: int, path: Path) -> int:
    """The permissions of a user for a file or directory: the sum of 4 (read), 2 (write) and 1 (enter)."""
    if uid == 0:
        return 0o7
    status = path.stat()
    if status.st_uid == uid:
        return status.st_mode >> 6 & 0o7
    try:
        user = pwd.getpwuid(uid)
        groups = os.getgrouplist(user.pw_name, user.pw_gid)
    except KeyError:
        groups = [uid]
    return status.st_mode >> (3 if status.st_gid in groups else 0) & 0o7


def settle(kit: Path, folder: Path | None = None) -> None:
    """Make a site of NVFlare a courier and nothing else. A settled kit can be settled again.

    Jobs may name no other classes and bring no code, nobody may submit one or give commands, logs are not streamed, and
    the size of messages is bounded. A site has a folder, the server none.
    """
    local, is_server = kit / "local", is_server_kit(kit)
    resources = _resources(local)
    resources["class_allow_list"] = list(CLASSES)
    resources["class_list_enforcement_mode"] = "enforce"
    resources["allow_log_streaming"] = False
    path, arguments = (CLASSES[0], {}) if is_server else (CLASSES[1], {"folder": str(folder)})
    others = [component for component in resources.get("components", []) if not _is_replaced(component)]
    resources["components"] = [{"id": _COMPONENT_ID, "path": path, "args": arguments}, *others]
    # NVFlare keeps jobs in a folder that all users of the machine share, unless it is told otherwise.
    text = json.dumps(resources, indent=2, sort_keys=True)
    text = text.replace(_SHARED_STORAGE, str((kit / "storage").resolve()))
    (local / "resources.json").write_text(text, encoding="utf-8")
    _write(local / "authorization.json", _permissions(is_server=is_server))
    # In the kit itself: NVFlare takes the first file of that name that it finds below, and unpacks jobs there, too.
    bound = {"streaming_max_blob_size": MOST_FILE_BYTES + _ENVELOPE}
    _write(kit / _COMMUNICATION, {**(_json_in(local / _COMMUNICATION) or {}), **bound})


def _resources(local: Path) -> dict[str, Any]:
    for name in ("resources.json", "resources.json.default"):
        document = _json_in(local / name)
        if document is not None:
            return document
    raise BadDocument(str(local), "is not the local folder of a start-up kit: it has no resources.json.default")


def _json_in(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadDocument(str(path), "is not JSON") from error
    return document if isinstance(document, dict) else None


def _is_replaced(component: Any) -> bool:
    """Whether a component sends logs, or is the courier of a kit that was settled before."""
    if not isinstance(component, dict):
        return False
    words = f"{component.get('id', '')} {component.get('path', '')}".lower()
    return component.get("id") == _COMPONENT_ID or any(word in words for word in _LOG_SENDERS)


def _permissions(*, is_server: bool) -> dict[str, Any]:
    rights = ("submit_job", "clone_job", "manage_job", "download_job", "app_command", "byoc", "shell_commands")
    nothing = dict.fromkeys((*rights, "server-predeployed-flwr", "view", "operate"), "none")
    admin = {**nothing, "view": "any", "operate": "any"} if is_server else nothing
    roles = {"project_admin": admin, "org_admin": nothing, "lead": nothing, "member": nothing}
    return {"format_version": "1.0", "permissions": roles}


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2, sort_keys=True), encoding="utf-8")
