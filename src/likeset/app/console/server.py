"""The console's server: one-time sign-in links, sessions, protection against other sites, forms, pages and uvicorn."""

import contextlib
import fcntl
import hashlib
import ipaddress
import re
import secrets
import socket
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import uvicorn
from jinja2 import Environment
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from likeset.display import complain
from likeset.errors import DecidedMeanwhile, InvalidArgument, LikesetError
from likeset.files import keep_private_bytes, make_private_folder
from likeset.homes.home import CONSOLE_FOLDER
from likeset.run import words as wording
from likeset.text import harmless
from likeset.transports.sync import Synced

LONGEST_SESSION = 8 * 3600
IDLE_SECONDS = 3600
LINK_SECONDS = 15 * 60
MOST_FORM = 2 << 20  # bytes
MOST_CONNECTIONS = 100
_MOST_FIELDS, _MOST_NAME, _MOST_SHOWN = 100, 128, 2000
_PAGE_LENGTH = 15
_LONGEST_CHECK = 900.0  # seconds
_FILES = {"console.css": "text/css", "icon.svg": "image/svg+xml"}
OPEN_PATHS = ("/healthz", "/metrics")
_WITHOUT_SESSION = ("/enter", *OPEN_PATHS, *(f"/static/{name}" for name in _FILES))
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_NOT_SIGNED_IN = (
    "You are not signed in, or your session has ended.\n"
    "Ask for a new link at the machine where this console runs: add --link to the command that started it.\n"
)
_CLOSE = {"connection": "close"}  # the rest of a refused form is not read

Item = TypeVar("Item")


# ---- templates


@cache
def environment() -> Environment:
    made = wording.environment("likeset.app.console", most=_MOST_SHOWN)
    made.filters.update(
        lines=_lines,
        brief=lambda text: re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b", r"\1…", text),
        when=lambda moment: moment[:16].replace("T", " "),
        clock=lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}",
        groups=lambda fingerprint: fingerprint.split("-"),
        count=lambda number: f"{number:,}" if isinstance(number, int) else f"{number:,.4g}",
    )
    made.globals["link"] = link
    return made


def _lines(text: str) -> Markup:
    return Markup("\n").join(escape(harmless(line)) for line in text.splitlines())


def link(path: str, **words: object) -> str:
    query = urlencode({name: value for name, value in words.items() if value not in ("", None)})
    return f"{path}?{query}" if query else path


@dataclass(frozen=True, slots=True)
class Pages:
    """Which page of a long list is shown: its number from 1, the last number, and the length of the list."""

    number: int
    last: int
    items: int

    @classmethod
    def of(cls, items: int, number: int) -> "Pages":
        last = max(1, -(-items // _PAGE_LENGTH))
        return cls(min(max(1, number), last), last, items)

    def part(self, items: Sequence[Item]) -> Sequence[Item]:
        first = (self.number - 1) * _PAGE_LENGTH
        return items[first : first + _PAGE_LENGTH]


# ---- sessions, requests and the pages of a console


@dataclass(eq=False)
class Session:
    """One signed-in browser: when it signed in, the name that was typed last, and messages for the next page."""

    began: float
    person: str = ""
    notices: list[str] = field(default_factory=list)


class Sessions:
    """Sessions by the random id in their signed cookie; signing out deletes the id here, so a copied cookie ends too.

    The middleware refuses a cookie that was not used for ``IDLE_SECONDS``. Only the event loop's thread calls this.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}

    def begin(self, cookie: dict[str, Any]) -> None:
        self.end(cookie)
        self._by_id = {name: one for name, one in self._by_id.items() if not _is_over(one)}
        cookie["id"] = secrets.token_urlsafe(32)
        self._by_id[cookie["id"]] = Session(time.time())

    def find(self, cookie: dict[str, Any]) -> Session | None:
        session = self._by_id.get(cookie.get("id", ""))
        if session is None or _is_over(session):
            return None
        cookie["used"] = int(time.time())  # a changed cookie is signed anew
        return session

    def end(self, cookie: dict[str, Any]) -> None:
        self._by_id.pop(cookie.get("id", ""), None)
        cookie.clear()


def _is_over(session: Session) -> bool:
    return time.time() - session.began > LONGEST_SESSION


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request of a signed-in person: the query of the address, or the fields of a form."""

    console: "Console"
    session: Session
    path: str
    query: Mapping[str, str]
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def by(self) -> str:
        """The name of the person who decides, from the form; the next form of this browser contains it."""
        name = self.text("by", most=_MOST_NAME)
        if not name:
            raise InvalidArgument("Your name", "nothing", "is required: the log records who decided")
        if not name.isprintable():
            raise InvalidArgument("Your name", "this one", "contains line breaks or characters that cannot be shown")
        self.session.person = name
        return name

    def text(self, name: str, *, most: int = 1000) -> str:
        words = self.fields.get(name, "").strip()
        if len(words) > most:
            raise InvalidArgument(name, f"{len(words)} characters", f"must have at most {most}")
        return words

    def number(self, name: str, usual: int) -> int:
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else usual

    def render(self, template: str, *, status: int = 200, **words: Any) -> Response:
        addresses = [address for address, _ in self.console.menu]
        below = (address for address in addresses[1:] if f"{self.path}/".startswith(f"{address}/"))
        notices, self.session.notices = self.session.notices, []
        shared = {
            "menu": self.console.menu,
            "here": next(below, addresses[0]),
            "party": self.console.name,
            "stopped": self.console.stopped(),
            "loop_state": self.console.loop,
            "is_form": bool(self.fields),
            "person": self.session.person,
            "notices": notices,
        }
        return HTMLResponse(environment().get_template(template).render(**shared, **words), status)

    def redirect(self, address: str, *notices: str) -> Response:
        self.session.notices.extend(notices)
        return RedirectResponse(address, 303)


Page = Callable[[PageRequest], Response]


@dataclass
class LoopState:
    """What the loop of ``likeset up`` did so far; the console's thread reads it."""

    mailboxes: int = 0  # how many it checks
    pause: float = 0.0  # the longest pause between two checks, in seconds
    checks: int = 0
    letters: Counter[str] = field(default_factory=Counter)  # how many came ("in"), went ("out") or were refused
    troubles: Mapping[str, str] = field(default_factory=dict)  # of the last check, by address of the mailbox
    last_check: float = field(default_factory=time.time)  # when it ended; before the first one, when the loop began

    def add(self, done: Synced) -> None:
        self.letters.update({"in": done.taken, "out": done.sent, "refused": done.refused})
        self.checks, self.troubles, self.last_check = self.checks + 1, done.troubles, time.time()

    @property
    def is_running(self) -> bool:
        """Whether the last check is recent; one may read many rows, so a quarter of an hour is."""
        return time.time() - self.last_check <= self.pause + _LONGEST_CHECK


@dataclass(frozen=True)
class Console:
    folder: Path  # the home
    name: str  # of its party
    menu: Sequence[tuple[str, str]]  # addresses and titles; other addresses belong to the first
    pages: Mapping[str, Page]  # answer GET, by path, and write nothing
    actions: Mapping[str, Page]  # answer POST, by path
    stopped: Callable[[], str] = lambda: ""  # why the home answers nobody any more
    # answer GET without sign-in, by path of ``OPEN_PATHS``, except under the public address
    open_pages: Mapping[str, Callable[[], Response]] = field(default_factory=dict)
    loop: LoopState = field(default_factory=LoopState)  # what checks the mailboxes


def application(console: Console, *addresses: str) -> ASGIApp:
    """All pages of a console behind its checks, for the addresses at which it is reached; people use the last one."""
    sessions, links = Sessions(), Links(console.folder)

    def show(page: Page) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            fields = dict[str, str]()
            try:
                async with request.form(max_files=0, max_fields=_MOST_FIELDS, max_part_size=MOST_FORM) as form:
                    for name, value in form.multi_items():
                        fields[name] = str(value).replace("\r\n", "\n")
            except (MultiPartException, ValueError):
                return PlainTextResponse("The form cannot be read.\n", 400)
            asked = PageRequest(console, request.state.visitor, request.url.path, dict(request.query_params), fields)
            return await run_in_threadpool(_answer, page, asked)

        return endpoint

    async def enter(request: Request) -> Response:
        if request.method != "GET" or "sec-purpose" in request.headers:
            return Response(status_code=403)  # a mail scanner or a prefetch: the link stays valid for the person
        if not links.use(request.query_params.get("token", "")):
            return HTMLResponse(environment().get_template("used.html").render(), 403)
        sessions.begin(request.session)
        # After a link on another site, browsers withhold the new strict cookie from a redirect, but not from a refresh.
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return HTMLResponse(environment().get_template("entered.html").render())
        return RedirectResponse("/", 303)

    public = urlsplit(addresses[-1]).hostname if addresses[-1].startswith("https://") else None

    def monitor(page: Callable[[], Response]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            return Response(status_code=404) if request.url.hostname == public else await run_in_threadpool(page)

        return endpoint

    async def leave(request: Request) -> Response:
        sessions.end(request.session)
        return RedirectResponse("/", 303)

    routes = [
        *(Route(path, show(page), methods=["GET"]) for path, page in console.pages.items()),
        *(Route(path, show(page), methods=["POST"]) for path, page in console.actions.items()),
        *(Route(path, monitor(page), methods=["GET"]) for path, page in console.open_pages.items()),
        Route("/enter", enter, methods=["GET"]),
        Route("/leave", leave, methods=["POST"]),
        *(Route(f"/static/{name}", _static(name, kind), methods=["GET"]) for name, kind in _FILES.items()),
    ]
    pages = Starlette(routes=routes)
    pages.router.redirect_slashes = False  # such a redirect would repeat a stranger's address
    is_secure = addresses[-1].startswith("https://")
    # Cookies ignore ports, so the name contains the port. Browsers accept a __Host- cookie from this host only.
    cookie = f"{'__Host-' if is_secure else ''}likeset_console_{addresses[0].rpartition(':')[2]}"
    origins = frozenset(map(_origin, addresses))
    with_sessions = SessionMiddleware(
        Guard(pages, origins=origins, sessions=sessions),
        secrets.token_hex(32),
        session_cookie=cookie,
        max_age=IDLE_SECONDS,
        same_site="strict",
        https_only=is_secure,
    )
    hosts = [re.sub(r":\d+$", "", origin.partition("://")[2]) for origin in origins]
    return TrustedHostMiddleware(with_sessions, hosts, www_redirect=False)


def _static(name: str, kind: str) -> Callable[[Request], Response]:
    content = resources.files(__package__).joinpath("static", name).read_bytes()
    # Browsers may cache these: a page that waits for its stylesheet is laid out twice.
    return lambda _: Response(content, media_type=kind, headers={"cache-control": "private, max-age=300"})


def _origin(address: str) -> str:
    """An address as browsers write it: lower case, without the default port."""
    small = address.lower()
    return small.removesuffix(":443" if small.startswith("https:") else ":80")


def _answer(page: Page, request: PageRequest) -> Response:
    try:
        return page(request)
    except LikesetError as error:
        words = "; ".join([str(error), *getattr(error, "__notes__", ())])
        back = f"/{request.path.split('/')[1]}" if request.path.count("/") > 1 else "/"
        status = 409 if isinstance(error, DecidedMeanwhile) else 400
        return request.render("trouble.html", status=status, words=words, back=back)


class Guard:
    """Checks every request before any page sees it: origin, size and session; and adds the security headers."""

    def __init__(self, app: ASGIApp, *, origins: frozenset[str], sessions: Sessions) -> None:
        self._app = app
        self._origins = origins
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        app = self._refusal(scope, Headers(scope=scope)) or self._app
        try:
            await app(scope, _bounded(receive), send_with_headers)
        except Exception as error:
            # The text of an error may quote rows: name only the place. Starlette has answered with status 500.
            place = traceback.extract_tb(error.__traceback__)[-1]
            complain(f"console: {type(error).__name__} at {place.filename}, line {place.lineno}")

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused(405, "Only GET and POST are used here.")
        if not self._is_own(scope["method"], headers):
            return _refused(403, "This was not sent from a page of this console.")
        if "transfer-encoding" in headers and "content-length" in headers:  # a proxy may read the other one
            return _refused(400, "The length of this form is ambiguous.")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 12 or int(length) > MOST_FORM:
            return _refused(413, _TOO_LARGE)
        session = self._sessions.find(scope["session"])
        if session is None and scope["path"] not in _WITHOUT_SESSION:
            return PlainTextResponse(_NOT_SIGNED_IN, 401)
        scope.setdefault("state", {})["visitor"] = session
        return None

    def _is_own(self, method: str, headers: Headers) -> bool:
        """Whether a page of this console asks. Other sites may only link here.

        Browsers always send Origin with POST, and no page can forge it. SameSite cookies alone do not suffice: to a
        browser, other ports of this host are the same site.
        """
        site = headers.get("sec-fetch-site", "same-origin")
        if method == "POST":
            return headers.get("origin") in self._origins and site == "same-origin"
        is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return site in ("same-origin", "none") or is_link


_TOO_LARGE = f"A form may have at most {MOST_FORM >> 20} MB."


def _refused(status: int, words: str) -> Response:
    return PlainTextResponse(words + "\n", status, headers=_CLOSE)


def _bounded(receive: Receive) -> Receive:
    """Refuse a form that turns out larger than its header said."""
    size = 0

    async def read() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_FORM:
            raise HTTPException(413, _TOO_LARGE, _CLOSE)
        return message

    return read


# ---- links


class Links:
    """One-time sign-in links of a home.

    The home contains the hash of each token as the name of a file, and using a token removes that file. So a link works
    once, and another process can make one for a running console.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / CONSOLE_FOLDER

    def make(self) -> str:
        make_private_folder(self._folder)
        token = secrets.token_urlsafe(32)
        keep_private_bytes(self._path(token), b"")
        return token

    def use(self, token: str) -> bool:
        path = self._path(token)
        try:
            made = path.stat().st_mtime
            path.unlink()  # of two simultaneous requests only one gets here
        except OSError:
            return False
        return 0.0 <= time.time() - made <= LINK_SECONDS

    @contextmanager
    def valid_at(self, address: str) -> Iterator[None]:
        """Record where the console listens, in a file that is locked while the block runs.

        Links that an earlier console left are removed.
        """
        make_private_folder(self._folder)
        for left in self._folder.glob("*.link"):
            left.unlink(missing_ok=True)
        keep_private_bytes(self._running, address.encode("ascii"))
        with self._running.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # `likeset up` runs once for each home; who reads it holds it for a moment
            yield

    def address(self) -> str:
        """Where the home's console listens. The port of a console that was killed may belong to another program now."""
        with contextlib.suppress(OSError), self._running.open(encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read()
        raise InvalidArgument("--link", "none", "no console of this home is running; start one first")

    @property
    def _running(self) -> Path:
        return self._folder / "running"

    def _path(self, token: str) -> Path:
        return self._folder / f"{hashlib.sha256(token.encode('utf-8', 'replace')).hexdigest()}.link"


def new_link(home: Path) -> str:
    links = Links(home)
    return f"{links.address()}/enter?token={links.make()}"


# ---- the server


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a console listens; raises ``InvalidArgument`` if others could read what is sent."""

    host: str = "127.0.0.1"
    port: int = 0  # 0 takes a free one
    public: str = ""  # the address that people type if a proxy with TLS stands before the console

    def __post_init__(self) -> None:
        try:
            is_loopback = ipaddress.ip_address(self.host).is_loopback
        except ValueError as error:
            raise InvalidArgument("--listen", self.host, "must be an address of this machine, in numbers") from error
        if self.public and re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?", self.public) is None:
            raise InvalidArgument("--public", self.public, "must be like https://console.example.org, without a path")
        if not is_loopback and not self.public.startswith("https://"):
            reason = "anyone on the network could read it: put a proxy with TLS before it, and name it with --public https://..."
            raise InvalidArgument("--listen", self.host, reason)


@dataclass(frozen=True, slots=True)
class RunningConsole:
    address: str
    link: str


@contextmanager
def serving(console: Console, listen: Listen) -> Iterator[RunningConsole]:
    """Serve a console in a thread until the block ends; decisions under way are finished first."""
    with _bound_socket(listen.host, listen.port) as listener:
        port: int = listener.getsockname()[1]
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        own = (f"http://{host}:{port}", f"http://localhost:{port}")
        config = uvicorn.Config(
            application(console, *own, *([listen.public] if listen.public else [])),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # tracebacks may quote rows
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=3,
            h11_max_incomplete_event_size=32 << 10,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="console", daemon=True)
        thread.start()
        address, links = listen.public or own[0], Links(console.folder)
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            with links.valid_at(address):
                yield RunningConsole(address, f"{address}/enter?token={links.make()}")
        finally:
            server.should_exit = True
            thread.join()


def _bound_socket(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgument("--port", f"{host}:{port}", f"cannot be listened at: {reason}") from error
    return listener
