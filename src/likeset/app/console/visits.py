"""A visit to a page: who is there, what was asked for or filled in; and how pages become answers."""

import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from likeset.app.console.guard import MOST_FORM, REFRESH_HEADER, SESSION
from likeset.app.console.sessions import Session
from likeset.errors import DecidedMeanwhile, InvalidArgument, LikesetError

__all__ = ["Form", "Visit", "doing", "download", "looking", "see_other"]

_MOST_FIELDS, _MOST_FILES = 100, 4
_TOKEN = "form_token"  # noqa: S105 - the field's name
_MOST_NAME = 128

Desk = TypeVar("Desk")


@dataclass(frozen=True, slots=True)
class Form:
    """What was filled in.

    Attributes:
        fields: words by field; of a field that came twice, the last.
        files: content of files that were chosen; their names are nobody's business here.
    """

    fields: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)

    def text(self, name: str, *, most: int = 1000) -> str:
        """The words in a field, without blanks around them.

        Raises:
            InvalidArgument: they are too long.
        """
        words = self.fields.get(name, "").strip()
        if len(words) > most:
            raise InvalidArgument(name, f"{len(words)} characters", f"must have at most {most}")
        return words


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody looks at a page, or sends a form.

    Attributes:
        desk: whose console it is.
        session: of the person.
        query: what the address asks for.
        form: what was sent; empty where a page is only looked at.
        path: of the page.
        is_refresh: whether the page looks again by itself, and no person asked.
    """

    desk: Any
    session: Session
    query: Mapping[str, str]
    form: Form
    path: str
    is_refresh: bool = False

    @property
    def by(self) -> str:
        """Who decides: the name in the form, unless a proxy has proven another.

        Raises:
            InvalidArgument: nobody is named.
        """
        if self.session.proven:
            return self.session.person
        name = self.form.text("by", most=_MOST_NAME)
        if not name:
            raise InvalidArgument("Your name", "nothing", "must stand in the form: the log says who decided")
        if not name.isprintable():
            raise InvalidArgument("Your name", "this one", "has letters that cannot be shown, or several lines")
        self.session.person = name  # whoever typed it once need not do so in the next form
        return name

    def number(self, name: str, usual: int) -> int:
        """A number in the address; the usual one if there is none that can be used."""
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 12 else usual


Page = Callable[[Visit], Response]


def looking(path: str, page: Page, desk: Any) -> Route:
    """A page that is only looked at: it writes nothing."""

    async def endpoint(request: Request) -> Response:
        query = dict(request.query_params)
        by_itself = REFRESH_HEADER in request.headers
        visit = Visit(desk, request.scope[SESSION], query, Form({}), request.url.path, is_refresh=by_itself)
        return await run_in_threadpool(_answered, page, visit)

    return Route(path, endpoint, methods=["GET"], name=path)


def doing(path: str, page: Page, desk: Any) -> Route:
    """A page that does something: for a form with the token of its session."""

    async def endpoint(request: Request) -> Response:
        session: Session = request.scope[SESSION]
        try:
            form = await _form(request)
        except (MultiPartException, ValueError):
            return PlainTextResponse("The form cannot be read.\n", 400)
        if not hmac.compare_digest(form.fields.get(_TOKEN, "").encode(), session.form_token.encode()):
            return PlainTextResponse("This form is not from your session; load the page again.\n", 403)
        visit = Visit(desk, session, dict(request.query_params), form, request.url.path)
        return await run_in_threadpool(_answered, page, visit)

    return Route(path, endpoint, methods=["POST"], name=f"do {path}")


async def _form(request: Request) -> Form:
    fields, files = dict[str, str](), dict[str, bytes]()
    async with request.form(max_files=_MOST_FILES, max_fields=_MOST_FIELDS, max_part_size=MOST_FORM) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                files[name] = await value.read()
            else:
                fields[name] = value.replace("\r\n", "\n")
    return Form(fields, {name: data for name, data in files.items() if data})


def _answered(page: Page, visit: Visit) -> Response:
    """What a page says; a user's mistake is a page, too."""
    try:
        return page(visit)
    except DecidedMeanwhile as error:
        return _trouble(visit, error, 409)
    except LikesetError as error:
        return _trouble(visit, error, 400)


def _trouble(visit: Visit, error: LikesetError, status: int) -> Response:
    words = "; ".join([str(error), *getattr(error, "__notes__", ())])
    back = f"/{visit.path.split('/')[1]}" if visit.path.count("/") > 1 else "/"
    answer: Response = visit.desk.render(visit, "trouble.html", status=status, words=words, back=back)
    return answer


def download(content: bytes, name: str, *, kind: str) -> Response:
    """A file to keep; its name may come of a stranger's words, of which only plain letters stay."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[-100:]
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{plain}"'})


def see_other(visit: Visit, address: str, notice: str = "") -> Response:
    """Go on to another page, which says what was done."""
    if notice:
        visit.session.notices.append(notice)
    return RedirectResponse(address, 303)
