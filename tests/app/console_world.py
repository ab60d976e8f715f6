"""A browser that sends requests to a console's application without a socket."""

import asyncio
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.types import ASGIApp

from likeset.app.console.home import console_of
from likeset.app.console.server import Console, Links, application
from likeset.homes.owner import Owner

ADDRESS = "http://127.0.0.1:8000"
COOKIE = "likeset_console_8000"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def words(self) -> str:
        return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", self.text)))

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    def field(self, name: str) -> str:
        """The value of a hidden field, the last of that name."""
        return html.unescape(re.findall(rf'name="{re.escape(name)}" value="([^"]*)"', self.text)[-1])


@dataclass
class Browser:
    """Sends requests as a browser at a page of the console; a header that is None is left out."""

    app: ASGIApp
    cookie: str = ""

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.request("GET", path, headers=headers)

    def post(
        self, path: str, fields: Mapping[str, str] | None = None, *, headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        body, kind = urlencode(fields or {}).encode(), "application/x-www-form-urlencoded"
        return self.request("POST", path, body, {"origin": ADDRESS, "content-type": kind, **(headers or {})})

    def form(self, choice: str, **more: str) -> dict[str, str]:
        """The fields of a decision about run-1, as somebody who reads the page sends them."""
        page = self.get("/run?name=run-1")
        hidden = {name: page.field(name) for name in ("digest", "seen")}
        return {"run": "run-1", "choice": choice, "by": "Ada", **hidden, **more}

    def decide(self, choice: str, **more: str) -> Answer:
        form = self.form(choice, **more)
        look = self.post("/decide", form)
        assert (look.status, look.field("sure")) == (200, "yes"), look.words
        return self.post("/decide", {**form, "sure": "yes"})

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        usual = {"host": ADDRESS.partition("://")[2], "content-length": str(len(body))}
        usual |= {"cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {}
        lines = [
            (name.encode(), value.encode()) for name, value in {**usual, **(headers or {})}.items() if value is not None
        ]
        answer = asyncio.run(_asked(self.app, method, path, lines, body))
        for name, value in answer.headers:
            if name == "set-cookie" and value.startswith(f"{COOKIE}="):
                self.cookie = value.partition("=")[2].partition(";")[0]
        return answer


async def _asked(app: ASGIApp, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer:
    bare, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": bare,
        "raw_path": bare.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    sent: list[Any] = []
    parts = [body[start : start + 65536] for start in range(0, len(body), 65536)] or [b""]

    async def receive() -> dict[str, Any]:
        if not parts:
            return {"type": "http.disconnect"}
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    told = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
    return Answer(sent[0]["status"], told, b"".join(message.get("body", b"") for message in sent[1:]))


def signed_in_at(app: ASGIApp, console: Console) -> Browser:
    browser = Browser(app)
    assert browser.get(f"/enter?token={Links(console.folder).make()}").status == 303
    return browser


def signed_in(owner: Owner) -> Browser:
    """Somebody who used a link into a console of their own; sessions are per console."""
    console = console_of(owner.home)
    return signed_in_at(application(console, ADDRESS), console)
