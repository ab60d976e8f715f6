"""News for pages that are open: server-sent events, one for each change, until somebody goes."""

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from likeset.app.console.guard import SESSION
from likeset.app.console.sessions import Session, Sessions
from likeset.errors import LikesetError

__all__ = ["events"]

_SECONDS_BETWEEN_LOOKS = 1.0
_LOOKS = 600
_LOOKS_BETWEEN_SIGNS = 15
_MOST_OF_SESSION = 4  # a browser has six connections to one address, and pages need some
_MOST_OF_ALL = 60  # of the connections that the console has


def events(version: Callable[[], str], sessions: Sessions) -> Route:
    """The address that pages listen at.

    Args:
        version: stands for what there is to see; changes with it.
        sessions: who is signed in: news end with a session.
    """

    async def endpoint(request: Request) -> Response:
        session: Session = request.scope[SESSION]
        if session.streams >= _MOST_OF_SESSION or sessions.streams >= _MOST_OF_ALL:
            return PlainTextResponse("Too many pages are listening; load this one again for news.\n", 429)
        return _Stream(_news(version, sessions, session), session)

    return Route("/events", endpoint, methods=["GET"])


class _Stream(StreamingResponse):
    """News for one page; counted from the moment that it is promised, so that a burst of requests is, too."""

    def __init__(self, news: AsyncIterator[str], session: Session) -> None:
        super().__init__(news, media_type="text/event-stream")
        self._session = session
        session.streams += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Until somebody goes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._session.streams -= 1


async def _news(version: Callable[[], str], sessions: Sessions, session: Session) -> AsyncIterator[str]:
    last = await _version(version)
    yield f"retry: 3000\nevent: version\ndata: {last}\n\n"
    for look in range(_LOOKS):
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        if not sessions.is_open(session):
            return
        now = await _version(version)
        if now != last:
            last = now
            yield f"event: version\ndata: {now}\n\n"
        elif look % _LOOKS_BETWEEN_SIGNS == 0:
            yield ": still here\n\n"


async def _version(version: Callable[[], str]) -> str:
    try:
        return await run_in_threadpool(version)
    except LikesetError:
        return "trouble"  # the page itself says which
