"""Starting a console: its address, its doors, its first link; and letting go of it."""

import contextlib
import ipaddress
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from likeset.app.console.consumer_app import ConsumerDesk, consumer_app
from likeset.app.console.desk import login
from likeset.app.console.guard import Doors
from likeset.app.console.links import Links
from likeset.app.console.listening import Console, bound_socket, running
from likeset.app.console.owner_app import owner_app
from likeset.app.console.owner_desk import OwnerDesk
from likeset.errors import InvalidArgument
from likeset.homes.consumer_home import ConsumerHome

__all__ = ["ConsoleWishes", "StartedConsole", "consumer_console", "new_link", "owner_console"]

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")
_LEAST_SECRET = 16
_OTHERS = 0o007


@dataclass(frozen=True, slots=True)
class ConsoleWishes:
    """Where a console listens, and by whom it is reached.

    Attributes:
        listen: the address of this machine; loopback unless somebody says otherwise.
        port: 0 takes one that is free.
        public: the address that people type where a proxy stands before the console; empty if none does.
        user_header: in which that proxy says who somebody is; empty if it does not.
        proxy_secret: file of what it says with that; needed with a user header.
    """

    listen: str = "127.0.0.1"
    port: int = 0
    public: str = ""
    user_header: str = ""
    proxy_secret: Path | None = None

    def checked(self) -> "ConsoleWishes":
        """The same, if they go together.

        Raises:
            InvalidArgument: they do not.
        """
        try:
            loopback = ipaddress.ip_address(self.listen).is_loopback
        except ValueError as error:
            raise InvalidArgument("--listen", self.listen, "must be an address of this machine, in numbers") from error
        if self.public and re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?", self.public) is None:
            raise InvalidArgument("--public", self.public, "must be like https://console.example.org, without a path")
        if not loopback and not self.public.startswith("https://"):
            reason = "others could read along: put a proxy with TLS before it, and name it with --public https://..."
            raise InvalidArgument("--listen", self.listen, reason)
        if self.user_header and _HEADER.fullmatch(self.user_header) is None:
            raise InvalidArgument("--user-header", self.user_header, "is no name of a header")
        if bool(self.user_header) != (self.proxy_secret is not None):
            raise InvalidArgument("--user-header", self.user_header or "none", "goes with --proxy-secret: give both")
        if self.user_header and not self.public:
            raise InvalidArgument("--user-header", self.user_header, "goes with --public, the address of the proxy")
        return self

    def secret(self) -> str:
        """What the proxy proves itself with."""
        if self.proxy_secret is None:
            return ""
        try:
            if self.proxy_secret.stat().st_mode & _OTHERS:
                raise InvalidArgument("--proxy-secret", self.proxy_secret, "can be read by others; chmod o-rwx it")
            text = self.proxy_secret.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument("--proxy-secret", self.proxy_secret, "cannot be read") from error
        if len(text) < _LEAST_SECRET:
            raise InvalidArgument("--proxy-secret", self.proxy_secret, f"must hold {_LEAST_SECRET} characters at least")
        return text


@dataclass(frozen=True, slots=True)
class StartedConsole:
    """A console that people can reach.

    Attributes:
        address: under which they do.
        link: signs the first of them in; empty where a proxy does.
        console: what serves it.
        links: that lead into it.
    """

    address: str
    link: str
    console: Console
    links: Links

    def page_to_open(self) -> str:
        """The address of a page on the disk that leads to the link."""
        return self.links.page_for(self.link).resolve().as_uri()


@contextmanager
def owner_console(folder: Path, wishes: ConsoleWishes) -> Iterator[StartedConsole]:
    """An owner's console, until the block ends."""
    wishes = wishes.checked()
    desk = OwnerDesk(folder)

    def make(doors: Doors) -> ASGIApp:
        return owner_app(desk, doors=doors, person=login())

    with contextlib.closing(desk), _warming(desk), _started(folder, wishes, make) as started:
        yield started


@contextmanager
def _warming(desk: OwnerDesk) -> Iterator[None]:
    """Prepare the first pages while the link is already shown: nobody types it as fast."""
    thread = threading.Thread(target=desk.warm, name="warming", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()  # before the node is let go


@contextmanager
def consumer_console(home: ConsumerHome, wishes: ConsoleWishes) -> Iterator[StartedConsole]:
    """A consumer's console, until the block ends."""
    desk = ConsumerDesk(home)

    def make(doors: Doors) -> ASGIApp:
        return consumer_app(desk, doors=doors, person=login())

    with _started(home.folder, wishes.checked(), make) as started:
        yield started


def new_link(folder: Path) -> str:
    """A link into the console of a home that runs already.

    Raises:
        InvalidArgument: none does.
    """
    links = Links(folder)
    return _link(links.address(), links.make())


@contextmanager
def _started(folder: Path, wishes: ConsoleWishes, make: Callable[[Doors], ASGIApp]) -> Iterator[StartedConsole]:
    links = Links(folder)
    listener = bound_socket(wishes.listen, wishes.port)
    port: int = listener.getsockname()[1]
    host = f"[{wishes.listen}]" if ":" in wishes.listen else wishes.listen
    addresses = [f"http://{host}:{port}", f"http://localhost:{port}", *([wishes.public] if wishes.public else [])]
    proxy: dict[str, Any] = {"user_header": wishes.user_header, "proxy_secret": wishes.secret() or secrets.token_hex()}
    address = wishes.public or addresses[0]
    with running(listener, make(Doors.of(*addresses, **proxy)), address) as console, links.listening_at(address):
        link = "" if wishes.user_header else _link(address, links.make())
        yield StartedConsole(address, link, console, links)


def _link(address: str, token: str) -> str:
    return f"{address}/enter?token={token}"
