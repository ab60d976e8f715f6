"""The console's server with real connections: slow ones, many of them, and what is left of a process that is killed."""

import html
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from urllib.parse import urlencode

import pytest
from card_world import introduce, signed_terms
from console_houses import PATIENCE, served
from node_world import logged, make_node, terms

from likeset.app.console import guard, listening
from likeset.app.console.starting import ConsoleWishes, StartedConsole, new_link, owner_console
from likeset.errors import InvalidArgument
from likeset.homes import review
from likeset.homes.owner_node import OwnerNode

RUN = terms(expires="2099-01-01")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = make_node(tmp_path)
    introduce(made, RUN)
    with OwnerNode(made) as node:
        node.take_invitation(signed_terms(RUN))
    return made


@pytest.fixture
def console(folder: Path) -> Iterator[StartedConsole]:
    with owner_console(folder, ConsoleWishes()) as started:
        yield started


def connected(console: StartedConsole) -> socket.socket:
    host, _, port = console.address.partition("://")[2].partition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Message
    text: str


class Visitor:
    """Somebody with a cookie who speaks HTTP."""

    def __init__(self, link: str) -> None:
        self.origin, _, path = link.partition("/enter")
        self.host = self.origin.partition("://")[2]
        self.cookie = ""
        answer = self.ask("GET", f"/enter{path}")
        self.cookie = str(answer.headers["set-cookie"]).partition(";")[0]

    def ask(self, method: str, path: str, **fields: str) -> Answer:
        """One request on a connection of its own."""
        with closing(self.connection(method, path, **fields)) as connection:
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())

    def connection(self, method: str, path: str, **fields: str) -> http.client.HTTPConnection:
        """One over which something was asked."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        headers = {"cookie": self.cookie, "origin": self.origin, "content-type": "application/x-www-form-urlencoded"}
        connection.request(method, path, urlencode(fields) if fields else None, headers)
        return connection

    def hidden(self, path: str) -> dict[str, str]:
        """The hidden fields of the last form of a page."""
        fields = re.findall(r'name="(\w+)" value="([^"]*)"', self.ask("GET", path).text)
        return {name: html.unescape(value) for name, value in fields}


def test_it_listens_on_loopback_alone_and_forgets_its_address_at_the_end(folder: Path) -> None:
    with owner_console(folder, ConsoleWishes()) as started:
        assert started.address.startswith("http://127.0.0.1:")
        assert Visitor(new_link(folder)).ask("GET", "/").status == 200
        with pytest.raises(InvalidArgument, match="cannot be listened at"):
            listening.bound_socket("127.0.0.1", int(started.address.rpartition(":")[2]))
    with pytest.raises(InvalidArgument, match="no console of this home is running"):
        new_link(folder)


def test_two_hundred_connections_keep_nobody_out(console: StartedConsole) -> None:
    visitor = Visitor(console.link)
    silent = [connected(console) for _ in range(200)]
    for connection in silent[::2]:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert visitor.ask("GET", "/").status == 200
    assert sum(map(_is_open, silent)) <= listening._MOST_CONNECTIONS, "of too many, those go that say nothing"
    for connection in silent:
        connection.close()


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_a_slow_client_is_cut_off(console: StartedConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(guard, "_FORM_SECONDS", 0.2)
    visitor = Visitor(console.link)
    with connected(console) as head, connected(console) as body:
        head.sendall(b"GET / HTTP/1.1\r\n")
        request = (
            f"POST /rules HTTP/1.1\r\nHost: {visitor.host}\r\nOrigin: {visitor.origin}\r\nCookie: {visitor.cookie}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nby="
        )
        body.sendall(request.encode())
        assert head.recv(1) == b""
        told = b""
        while part := _received(body):
            told += part
        assert told[:12] in (b"", b"HTTP/1.1 408")
    assert visitor.ask("GET", "/").status == 200


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 4\r\nContent-Length: 400\r\n",
        "Content-Length: 4, 400\r\n",
        "Content-Length: +4\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Host : evil.example\r\nContent-Length: 4\r\n",
        "X: y\nHost: evil.example\r\nContent-Length: 400\r\n",
    ],
)
def test_what_a_proxy_could_read_as_two_requests_is_answered_as_one_refusal(
    console: StartedConsole, folder: Path, head: str
) -> None:
    """A second request is hidden behind the first, where one who reads lengths otherwise would find it."""
    visitor = Visitor(console.link)
    token = visitor.hidden("/run?name=run-1")["form_token"]
    body = urlencode({"form_token": token, "run": "run-1"})
    common = f"Host: {visitor.host}\r\nOrigin: {visitor.origin}\r\nCookie: {visitor.cookie}\r\n"
    hidden = f"POST /leave HTTP/1.1\r\n{common}Content-Type: application/x-www-form-urlencoded\r\n"
    hidden += f"Content-Length: {len(body)}\r\n\r\n{body}"
    with connected(console) as connection:
        request = f"POST /mail HTTP/1.1\r\n{common}{head}\r\n0\r\n\r\n{hidden}"
        connection.sendall(request.encode())
        told = b""
        while part := _received(connection):
            told += part
    assert told.count(b"HTTP/1.1 ") <= 1, told
    assert told[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 413", b"HTTP/1.1 421", b"HTTP/1.1 501"), told
    assert visitor.ask("GET", "/").status == 200, "the hidden request signed nobody out"
    with OwnerNode(folder) as node:
        assert logged(node, "denied") == []


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(4096)
    except ConnectionResetError:
        return b""


def test_news_come_to_those_who_listen_and_end_with_their_session(console: StartedConsole, folder: Path) -> None:
    visitor = Visitor(console.link)
    with closing(visitor.connection("GET", "/events")) as connection, connection.getresponse() as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        first = [stream.readline() for _ in range(4)]
        with OwnerNode(folder) as node:
            node.deny("run-1", by="Bob", reason="x")
            head = node.ledger.head().number
        line = b""
        while not line.startswith(b"data:"):
            line = stream.readline()
        assert f"data: {head - 1}".encode() in first[2]
        assert line.strip() == f"data: {head}".encode()
        visitor.ask("POST", "/leave", form_token=visitor.hidden("/check")["form_token"])
        while stream.readline():
            pass  # it ends


def _decide(visitor: Visitor, fields: dict[str, str], answers: list[int]) -> None:
    """Approve with one form; what came back, if anything did."""
    with suppress(OSError, http.client.HTTPException):
        answers.append(visitor.ask("POST", "/decide", **fields).status)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.02, PATIENCE])
def test_killing_it_loses_no_decision_and_makes_none(tmp_path: Path, seconds: float) -> None:
    """Killed before, while and after a decision is made: what was answered is in the log, and the log holds."""
    folder = make_node(tmp_path)
    introduce(folder, RUN)
    with OwnerNode(folder) as node:
        node.take_invitation(signed_terms(RUN))
    answers: list[int] = []
    with served("owner", "console", "--node", folder, log=tmp_path / "log") as (process, link):
        visitor = Visitor(link)
        fields = visitor.hidden("/run?name=run-1") | {"choice": "approve", "by": "Ada", "sure": "yes"}
        thread = threading.Thread(target=_decide, args=(visitor, fields, answers))
        if seconds:
            thread.start()
            thread.join(seconds)  # until it is answered, with the last
        process.kill()
        process.wait(PATIENCE)
        if seconds:
            thread.join(PATIENCE)
    with OwnerNode(folder) as node:
        approved = logged(node, "approved")
        assert len(approved) <= 1
        assert answers != [303] or len(approved) == 1, "what was answered is in the log"
        assert seconds or not approved, "nobody decided"
        assert seconds < PATIENCE or len(approved) == 1, "what was waited for is decided"
        assert review.verify(node)[0] == []
        if not approved:  # and somebody can decide now
            assert node.approve("run-1", RUN.digest, by="Ada").accepted


@pytest.mark.slow
def test_killed_at_every_step_of_a_decision_it_loses_none_and_makes_none(tmp_path: Path) -> None:
    """Before the step that makes it durable there is no decision, from then on there is one, answered or not."""
    program = [sys.executable, str(Path(__file__).with_name("console_deaths.py")), str(tmp_path)]
    told = subprocess.run(program, check=True, capture_output=True, text=True, timeout=10 * PATIENCE)  # noqa: S603
    lives = [json.loads(line) for line in told.stdout.splitlines()]
    for choice in ("approve", "deny"):
        each = [life for life in lives if life["choice"] == choice]
        deaths = [life for life in each if life["killed"]]
        assert len(deaths) >= 10, "it died many times"
        assert all(life["holds"] and not life["others"] and life["can_decide"] for life in each)
        made = [life["decided"] for life in deaths]
        assert made == sorted(made), "not there before some step, there after it"
        assert (made[0], made[-1]) == (0, 1), "deaths came on both sides of it"
        for life in each:
            assert life["killed"] == (life["answer"] == "")
            assert life["killed"] or (life["answer"], life["decided"]) == ("303", 1)


@pytest.mark.slow
def test_signals_end_it_with_exit_code_0_and_json_tells_the_link(folder: Path, tmp_path: Path) -> None:
    with served("owner", "console", "--json", "--node", folder, log=tmp_path / "log") as (process, link):
        assert Visitor(link).ask("GET", "/").status == 200
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert isinstance(process, subprocess.Popen)
