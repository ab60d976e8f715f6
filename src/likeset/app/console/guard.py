"""What stands before every page: who may ask, from where, and how much.

The rules do not depend on what is asked for, so a page that is added is guarded as the others are: the host must be
this console's, whatever is sent must come from its own pages, a form must be small, and nothing but the sign-in and
the stylesheet is shown to somebody without a session.
"""

import asyncio
import hmac
import traceback
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from likeset.app.console.sessions import Session, Sessions
from likeset.display.screen import complain

__all__ = ["MOST_FORM", "PROXY_HEADER", "REFRESH_HEADER", "SESSION", "Doors", "Guard"]

_COOKIE = "likeset_console"
_OVER_TLS = "__Host-"  # browsers take such a cookie from this very host alone, not from one beside it
SESSION = "likeset.session"
"""Where in the scope of a request its session is."""

PROXY_HEADER = "x-likeset-proxy"
"""The header in which a proxy proves that it is the one that was told the secret."""

REFRESH_HEADER = "x-likeset-refresh"
"""The header with which a page says that it looks again by itself: no person is there."""

MOST_FORM = 2 << 20
"""Bytes of a form, with its files."""

_FORM_SECONDS = 30.0
_CLOSE = {"connection": "close"}
_MOST_USER = 128
_OPEN = ("/enter", "/static/console.css", "/static/console.js", "/static/icon.svg")
_QUIET = ("/events",)
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Doors:
    """From where a console is reached.

    Attributes:
        hosts: what may stand in the Host header.
        origins: of pages that may send something here.
        cookie: the name of the session's cookie. Cookies know no ports, so the port is in it: consoles beside each
            other on one machine keep apart.
        secure: whether cookies go over TLS only.
        user_header: in which a proxy says who somebody is; empty if there is none.
        proxy_secret: what that proxy says with it.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    cookie: str
    secure: bool = False
    user_header: str = ""
    proxy_secret: str = ""

    @classmethod
    def of(cls, address: str, *others: str, user_header: str = "", proxy_secret: str = "") -> "Doors":
        """Those of addresses such as ``http://127.0.0.1:8000``; the last is the one that people use."""
        addresses = tuple(map(_as_browsers_write_it, (address, *others)))
        secure = addresses[-1].startswith("https://")
        return cls(
            hosts=frozenset(name.partition("://")[2] for name in addresses),
            origins=frozenset(addresses),
            cookie=f"{_OVER_TLS if secure else ''}{_COOKIE}_{address.rpartition(':')[2]}",
            secure=secure,
            user_header=user_header.lower(),
            proxy_secret=proxy_secret,
        )


class Guard:
    """Lets a request through to the pages, or refuses it.

    Args:
        app: the pages.
        doors: from where they are reached.
        sessions: who is signed in.
    """

    def __init__(self, app: ASGIApp, *, doors: Doors, sessions: Sessions) -> None:
        self._app = app
        self._doors = doors
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # nothing else is spoken here
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        scope[SESSION] = self._session(scope, headers)
        if scope[SESSION] is None and scope["path"] not in _OPEN:
            await _NOT_SIGNED_IN(scope, receive, _with_headers(send))
            return
        try:
            await self._app(scope, _bounded(receive), _with_headers(send))
        except Exception as error:
            # Its text may quote rows: the place tells whoever mends it, and the page tells nothing.
            place = traceback.extract_tb(error.__traceback__)[-1]
            complain(f"console: {type(error).__name__} at {place.filename}, line {place.lineno}")

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if headers.getlist("host") not in [[host] for host in self._doors.hosts]:
            return _refused(421, "This console has another name; use the address that it was started with.")
        if scope["method"] in ("GET", "HEAD"):
            return _refused(403, "Another page asked for this.") if _is_part_of_another_page(headers) else None
        if scope["method"] != "POST":
            return _refused(405, "Only GET and POST are used here.")
        if headers.getlist("origin") not in [[origin] for origin in self._doors.origins]:
            return _refused(403, "This was not sent from a page of this console.")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _refused(403, "This was not sent from a page of this console.")
        if "transfer-encoding" in headers and "content-length" in headers:  # a proxy may believe the other one
            return _refused(400, "It cannot be told where this form ends.")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 12 or int(length) > MOST_FORM:
            return _TOO_LARGE
        return None

    def _session(self, scope: Scope, headers: Headers) -> Session | None:
        quietly = scope["path"] in _QUIET or REFRESH_HEADER in headers
        if self._doors.user_header:
            return self._by_proxy(headers, quietly=quietly)
        # A program at another port may have set cookies of this name, for other paths: they must keep nobody out,
        # and of two sessions that both count it cannot be told whose this is.
        found = {self._sessions.find(secret, quietly=quietly) for secret in _cookies(headers, self._doors.cookie)}
        alive = found - {None}
        return alive.pop() if len(alive) == 1 else None

    def _by_proxy(self, headers: Headers, *, quietly: bool) -> Session | None:
        said, names = headers.get(PROXY_HEADER, ""), headers.getlist(self._doors.user_header)
        if not hmac.compare_digest(said.encode(), self._doors.proxy_secret.encode()) or len(names) != 1:
            return None
        name = names[0].strip()
        if not name or len(name) > _MOST_USER or not name.isprintable():
            return None
        return self._sessions.of_user(name, quietly=quietly)


def _refused(status: int, words: str) -> Response:
    return PlainTextResponse(words + "\n", status, headers=_CLOSE)


_SIZE = f"A form may have {MOST_FORM >> 20} MB at most, with its files."
_TOO_LARGE = _refused(413, _SIZE)
_NOT_SIGNED_IN = PlainTextResponse(
    "You are not signed in, or your session has ended.\n"
    "Ask for a new link at the machine where this console runs: add --link to the command that started it.\n",
    401,
)


def _cookies(headers: Headers, name: str) -> set[str]:
    """All values that a request has for a cookie."""
    pairs = (pair.partition("=") for line in headers.getlist("cookie") for pair in line.split(";"))
    return {value.strip() for key, _, value in pairs if key.strip() == name}


def _as_browsers_write_it(address: str) -> str:
    """In small letters, without a port that goes without saying."""
    small = address.lower()
    usual = {"http": ":80", "https": ":443"}[small.partition("://")[0]]
    return small.removesuffix(usual)


def _is_part_of_another_page(headers: Headers) -> bool:
    """Whether a page of another site wants to show, run or listen to this; it may only lead here."""
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
    leads_here = mode == "navigate" and headers.get("sec-fetch-dest", "document") == "document"
    return site in ("cross-site", "same-site") and not leads_here


def _bounded(receive: Receive) -> Receive:
    """No more bytes than a form may have, and not for ever."""
    size = 0
    first_wait: list[float] = []

    async def read() -> Message:
        nonlocal size
        loop = asyncio.get_running_loop()
        if not first_wait:
            first_wait.append(loop.time() + _FORM_SECONDS)
        if size < 0:  # the form is here; what is waited for now is the end of the connection
            return await receive()
        try:
            async with asyncio.timeout_at(first_wait[0]):
                message = await receive()
        except TimeoutError as error:
            raise HTTPException(408, "The form did not come in time.", _CLOSE) from error
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > MOST_FORM:
                raise HTTPException(413, _SIZE, _CLOSE)
            if not message.get("more_body", False):
                size = -1
        return message

    return read


def _with_headers(send: Send) -> Send:
    async def write(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                if name not in headers:
                    headers[name] = value
        await send(message)

    return write
