"""What both consoles share: sign-in, sign-out, the stylesheet and the script, and how a template becomes a page."""

import getpass
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from likeset.app.console.guard import SESSION, Doors, Guard
from likeset.app.console.links import Links
from likeset.app.console.live import events
from likeset.app.console.rendering import environment
from likeset.app.console.sessions import Sessions
from likeset.app.console.visits import Visit, doing, see_other

__all__ = ["Desk", "guarded_app", "login", "page_of"]

_FILES = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}


class Desk(Protocol):
    """Whose console it is."""

    sessions: Sessions

    def version(self) -> str:
        """Stands for what there is to see; changes with it."""

    def render(self, visit: Visit, template: str, *, status: int = 200, **words: Any) -> Response:
        """A page."""


def login() -> str:
    """Who started the console, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a list of users
        return "unknown"


def page_of(
    visit: Visit, template: str, *, menu: Sequence[tuple[str, str]], house: str, status: int, **words: Any
) -> HTMLResponse:
    """A template, filled in.

    Args:
        visit: who looks.
        template: its name.
        menu: address and title of the pages at the top.
        house: whose console it is.
        status: of the answer.
        **words: what the template needs.
    """
    shared = {
        "menu": menu,
        "house": house,
        "here": _menu_entry(visit.path, [address for address, _ in menu]),
        "answer": bool(visit.form.fields),
        "session": visit.session,
        "notices": [] if visit.is_refresh else visit.session.take_notices(),
        "form_token": visit.session.form_token,
    }
    return HTMLResponse(environment().get_template(template).render(**shared, **words), status)


def _menu_entry(path: str, addresses: Sequence[str]) -> str:
    """The page at the top that a page belongs to; what belongs to none is about runs, as the first is."""
    return next((address for address in addresses[1:] if f"{path}/".startswith(f"{address}/")), addresses[0])


def guarded_app(desk: Desk, routes: Sequence[Route], *, doors: Doors, links: Links, person: str) -> ASGIApp:
    """All pages of a console, behind its guard."""
    shared = [
        Route("/enter", _entrance(links, desk.sessions, doors, person), methods=["GET"]),
        doing("/leave", _exit(doors), desk),
        events(desk.version, desk.sessions),
        *_static_files(),
    ]
    pages = Starlette(routes=[*routes, *shared])
    pages.router.redirect_slashes = False  # no address leads to another one that a stranger had a hand in
    return Guard(pages, doors=doors, sessions=desk.sessions)


def _entrance(links: Links, sessions: Sessions, doors: Doors, person: str) -> Callable[[Request], Response]:
    def enter(request: Request) -> Response:
        if request.method != "GET" or "sec-purpose" in request.headers:
            # A mail's scanner or a browser that looks ahead: the link stays good for the person.
            return Response(status_code=403)
        if doors.user_header or not links.use(request.query_params.get("token", "")):
            return HTMLResponse(environment().get_template("used.html").render(), 403)
        before = request.scope[SESSION]
        if before is not None:
            sessions.end(before)  # who signs in anew leaves no open session behind
        # A link in a mail: browsers send the new cookie only to pages that this console itself leads to.
        led_here = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
        page = environment().get_template("entered.html")
        answer = HTMLResponse(page.render()) if led_here else RedirectResponse("/", 303)
        secret = sessions.begin(person)
        answer.set_cookie(doors.cookie, secret, httponly=True, samesite="strict", secure=doors.secure, path="/")
        return answer

    return enter


def _exit(doors: Doors) -> Callable[[Visit], Response]:
    def leave(visit: Visit) -> Response:
        visit.desk.sessions.end(visit.session)
        answer = see_other(visit, "/")
        answer.delete_cookie(doors.cookie, path="/", httponly=True, samesite="strict", secure=doors.secure)
        return answer

    return leave


def _static_files() -> Iterator[Route]:
    for name, kind in _FILES.items():
        content = resources.files(__package__).joinpath("static", name).read_bytes()
        yield Route(f"/static/{name}", _file(content, kind), methods=["GET"])


def _file(content: bytes, kind: str) -> Callable[[Request], Response]:
    return lambda _: Response(content, media_type=kind, headers={"cache-control": "private, max-age=300"})
