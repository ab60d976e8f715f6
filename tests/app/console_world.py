"""A console in this process and a browser that is none: requests go to the application, without a socket."""

import asyncio
import html
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.types import ASGIApp

from likeset.app.console.guard import Doors
from likeset.app.console.links import Links
from likeset.app.console.owner_app import owner_app
from likeset.app.console.owner_desk import OwnerDesk

__all__ = ["ADDRESS", "Answer", "Browser", "opened_console", "signed_in"]

ADDRESS = "http://127.0.0.1:8000"
BOUNDARY = "a-boundary-of-a-test"


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def words(self) -> str:
        """What a person reads: without tags."""
        return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", self.text)))

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    def field(self, name: str) -> str:
        """The value of a hidden field, the last of that name."""
        return html.unescape(re.findall(rf'name="{re.escape(name)}" value="([^"]*)"', self.text)[-1])


@dataclass
class Browser:
    """Sends requests as a browser does that is at a page of the console.

    Attributes:
        app: the console.
        cookie: of its session.
        headers: that it sends with every request; None leaves a usual one out.
    """

    app: ASGIApp
    cookie: str = ""
    headers: dict[str, str | None] = field(default_factory=dict)

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.request("GET", path, headers=headers)

    def post(
        self,
        path: str,
        fields: Mapping[str, str],
        *,
        files: Mapping[str, bytes] | None = None,
        token: str | None = "",
        headers: Mapping[str, str | None] | None = None,
    ) -> Answer:
        """Send a form; with the token of the session unless another, or none, is given."""
        words = dict(fields)
        if token is not None:
            words["form_token"] = token or self.token()
        body, kind = (
            (_multipart(words, files), f"multipart/form-data; boundary={BOUNDARY}")
            if files
            else (urlencode(words).encode(), "application/x-www-form-urlencoded")
        )
        return self.request("POST", path, body, {"origin": ADDRESS, "content-type": kind, **(headers or {})})

    def token(self) -> str:
        """The token that every form of this session carries."""
        return self.get("/check").field("form_token")

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        usual: dict[str, str | None] = {"host": ADDRESS.partition("://")[2], "content-length": str(len(body))}
        usual |= {"cookie": f"likeset_console_8000={self.cookie}"} if self.cookie else {}
        sent = {**usual, **self.headers, **(headers or {})}
        lines = [(name.encode(), value.encode()) for name, value in sent.items() if value is not None]
        answer = asyncio.run(_asked(self.app, method, path, lines, body))
        for name, value in answer.headers:
            if name == "set-cookie" and value.startswith("likeset_console_8000="):
                self.cookie = value.partition("=")[2].partition(";")[0].strip('"')
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
    first = sent[0]
    told = [(name.decode(), value.decode()) for name, value in first["headers"]]
    return Answer(first["status"], told, b"".join(message.get("body", b"") for message in sent[1:]))


def _multipart(fields: Mapping[str, str], files: Mapping[str, bytes] | None) -> bytes:
    parts = [
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, content in (files or {}).items():
        head = f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"; filename="../../{name}"\r\n\r\n'
        parts.append(head.encode() + content + b"\r\n")
    return b"".join([*parts, f"--{BOUNDARY}--\r\n".encode()])


@contextmanager
def opened_console(folder: Path) -> Iterator[OwnerDesk]:
    """A steward's console of a node."""
    desk = OwnerDesk(folder)
    try:
        yield desk
    finally:
        desk.close()


def signed_in(desk: OwnerDesk, person: str = "Ada") -> Browser:
    """Somebody who used a link."""
    app = owner_app(desk, doors=Doors.of(ADDRESS), person=person)
    browser = Browser(app)
    token = Links(desk.node.home.folder).make()
    assert browser.get(f"/enter?token={token}").status == 303
    return browser
