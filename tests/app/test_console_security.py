"""What strangers, other sites and other programs could send to a console: refused, and the home's log is unchanged."""

import fcntl
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from console_homes import PATIENCE
from console_world import ADDRESS, COOKIE, Browser, signed_in, signed_in_at
from home_world import invite, make_owner, terms

from likeset.app.console import owner, server
from likeset.app.console.home import console_of, home_console
from likeset.app.console.server import Links, Listen, application, new_link
from likeset.errors import InvalidArgument
from likeset.files import keep_private_bytes
from likeset.homes.owner import Owner, open_owner

MARKUP = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}\x1b[31m\u202e'
SHOWN = MARKUP.partition("\x1b")[0]
FAR: dict[str, Any] = {"expires": "2099-01-01"}
RUN = terms(**FAR)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    """One home for all attacks: none of them changes anything."""
    with open_owner(make_owner(tmp_path_factory.mktemp("node"))) as opened:
        invite(opened, RUN)
        yield opened


@pytest.fixture
def ada(node: Owner) -> Iterator[Browser]:
    """Somebody signed in; whatever is tried, the log has no new entry."""
    before = node.ledger.head()
    yield signed_in(node)
    assert node.ledger.head() == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home of its own, with a run in its inbox."""
    made = make_owner(tmp_path)
    with open_owner(made) as opened:
        invite(opened, RUN)
    return made


def test_nothing_is_shown_or_done_without_a_session(node: Owner, ada: Browser) -> None:
    for cookie in ("", "guessed", "x" * 5000, ada.cookie[:-1], signed_in(node).cookie):
        stranger = Browser(ada.app, cookie=cookie)
        for path in (*owner.PAGES, "/run?name=run-1", "/nowhere"):
            answer = stranger.get(path)
            assert (answer.status, b"run-1" in answer.body) == (401, False), path
        for path in (*owner.ACTIONS, "/leave"):
            assert stranger.post(path, {"run": "run-1"}).status == 401, path


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": None},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:8001"},
        {"origin": "https://127.0.0.1:8000"},
        {"origin": "http://127.0.0.1:8000.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_a_form_of_another_page_does_nothing(ada: Browser, headers: dict[str, str | None]) -> None:
    """A page at another port of this host is same-site, so its forms carry the cookie: only the origin tells."""
    form = ada.form("deny", reason="x", sure="yes")
    for path in (*owner.ACTIONS, "/leave"):
        assert ada.post(path, form, headers=headers).status == 403, path


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_may_link_here_and_not_embed(ada: Browser, site: str) -> None:
    for path in ("/", "/run?name=run-1", "/static/console.css", "/sent?run=run-1"):
        for mode, dest in (("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
            sent = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
            assert ada.get(path, **sent).status == 403, (path, dest)
    assert (
        ada.get("/", **{"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}).status
        == 200
    )
    own = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "style"}
    assert ada.get("/static/console.css", **own).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil:8000", "127.0.0.1:8000.evil.example",
             "evil@127.0.0.1:8000", "127.0.0.1:8000, evil.example", "www.127.0.0.1:8000", "*", "", None],
)  # fmt: skip
def test_another_host_is_refused(ada: Browser, host: str | None) -> None:
    """A page whose name was rebound to 127.0.0.1 has this origin for its browser, but sends its own name."""
    for answer in (
        ada.get("/", host=host),
        ada.post("/decide", ada.form("deny", reason="x", sure="yes"), headers={"host": host}),
    ):
        assert (answer.status, b"run-1" in answer.body) == (400, False)


def test_addresses_are_compared_as_browsers_write_them(node: Owner) -> None:
    console = console_of(node.home)
    app = application(console, "http://[::1]:8000", "http://localhost:8000", "https://Console.Example.org:443")
    for host in ("[::1]:8000", "localhost:8000", "console.example.org"):
        assert Browser(app).get("/static/icon.svg", host=host).status == 200
    assert Browser(app).get("/static/icon.svg").status == 400
    own = {"host": "console.example.org", "origin": "https://console.example.org"}
    assert Browser(app).post("/leave", headers=own).status == 401
    assert Browser(app).post("/leave", headers={**own, "origin": "http://console.example.org"}).status == 403


def test_a_link_counts_once_and_for_a_quarter_of_an_hour(node: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    app, links = application(console_of(node.home), ADDRESS), Links(node.home.folder)
    token = links.make()
    for ahead in ({"sec-purpose": "prefetch"}, {"sec-purpose": "prefetch;prerender"}):
        assert Browser(app).get(f"/enter?token={token}", **ahead).status == 403, "who only looks ahead uses nothing up"
    assert Browser(app).request("HEAD", f"/enter?token={token}").status == 403
    assert Browser(app).get(f"/enter?token={token}").status == 303
    second = Browser(app)
    for guess in (token, "", "../../card.secret", "a" * 43, "\x00", "%2e%2e%2f"):
        assert second.get(f"/enter?token={guess}").status == 403
    assert second.cookie == ""
    token, now = links.make(), time.time()
    assert token not in "".join(path.name for path in (node.home.folder / "console").iterdir()), "only its hash"
    monkeypatch.setattr(time, "time", lambda: now + 901)
    assert second.get(f"/enter?token={token}").status == 403


def test_the_cookie_is_out_of_reach_of_scripts_other_sites_and_other_consoles(node: Owner) -> None:
    def cookie(*addresses: str, **headers: str) -> tuple[str, str]:
        link = f"/enter?token={Links(node.home.folder).make()}"
        name, _, rest = (
            Browser(application(console_of(node.home), *addresses))
            .get(link, **headers)
            .header("set-cookie")
            .partition("=")
        )
        return name, rest.lower()

    name, rest = cookie(ADDRESS)
    assert name == COOKIE
    assert {"httponly", "samesite=strict", "path=/"} <= {word.strip() for word in rest.split(";")}
    assert "secure" not in rest, "on loopback there is no TLS"
    assert cookie("http://127.0.0.1:8001")[0] != COOKIE, "cookies know no ports"
    name, rest = cookie(ADDRESS, "https://console.example.org", host="console.example.org")
    assert name == f"__Host-{COOKIE}", "no other host of the domain can set it"
    assert {"httponly", "samesite=strict", "path=/", "secure"} <= {word.strip() for word in rest.split(";")}
    assert "domain" not in rest


def test_a_session_ends_for_every_copy_of_its_cookie(node: Owner) -> None:
    console = console_of(node.home)
    app = application(console, ADDRESS)
    ada, bob = signed_in_at(app, console), signed_in_at(app, console)
    copies = [ada.cookie, (ada.get("/"), ada.cookie)[1]]
    assert ada.post("/leave").status == 303
    for copy in copies:
        assert Browser(app, cookie=copy).get("/").status == 401
    assert ada.get("/").status == 401
    copy = bob.cookie
    assert bob.get(f"/enter?token={Links(console.folder).make()}").status == 303
    assert Browser(app, cookie=copy).get("/").status == 401, "who signs in anew leaves no open session behind"
    assert bob.get("/").status == 200
    assert Browser(application(console, ADDRESS), cookie=bob.cookie).get("/").status == 401, "it ends with the process"


def test_a_session_ends_when_left_alone_and_after_eight_hours(ada: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    start, idle = time.time(), Browser(ada.app, cookie=ada.cookie)
    now = [start]
    monkeypatch.setattr(time, "time", lambda: now[0])
    for _ in range(8):
        now[0] += 3590
        assert ada.get("/check").status == 200
    assert idle.get("/check").status == 401, "nobody used this copy of the cookie for an hour"
    now[0] = start + 8 * 3600 + 5
    assert ada.get("/check").status == 401, "although it was used a moment ago"


def test_a_link_in_a_mail_leads_to_a_page_that_leads_on(node: Owner) -> None:
    """After a link on another site, a browser withholds the strict cookie from a redirect."""
    browser = Browser(application(console_of(node.home), ADDRESS))
    led = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    answer = browser.get(f"/enter?token={Links(node.home.folder).make()}", **led)
    assert (answer.status, 'content="0; url=/"' in answer.text) == (200, True)
    assert browser.get("/").status == 200


def test_every_answer_forbids_scripts_frames_and_caches(ada: Browser) -> None:
    for path in (*owner.PAGES, "/run?name=run-1", "/nowhere", "/enter?token=x"):
        answer = ada.get(path)
        policy = dict(part.strip().split(" ", 1) for part in answer.header("content-security-policy").split(";"))
        assert policy["default-src"] == "'none'"
        assert "script-src" not in policy, "pages have no script"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["form-action"] == "'self'"
        assert "unsafe" not in str(policy)
        assert answer.header("cache-control") == "no-store"
        assert answer.header("x-frame-options") == "DENY"
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("referrer-policy") == "same-origin"
        assert answer.header("cross-origin-resource-policy") == "same-origin"
        assert "<script" not in answer.text


def test_ten_megabytes_of_form_are_refused(ada: Browser) -> None:
    assert ada.post("/rules", {"text": "x" * (10 << 20), "how": "text", "by": "Ada"}).status == 413
    parts = b'--x\r\ncontent-disposition: form-data; name="text"; filename="../../text"\r\n\r\nx\r\n--x--\r\n'
    files = {"content-type": "multipart/form-data; boundary=x", "origin": ADDRESS}
    assert ada.request("POST", "/rules", parts, files).status == 400, "no form has files"
    body, kind = b"text=" + b"x" * (10 << 20), "application/x-www-form-urlencoded"
    told = {"content-type": kind, "origin": ADDRESS, "content-length": None, "transfer-encoding": "chunked"}
    assert ada.request("POST", "/rules", body, told).status == 413, "also where nobody says how long it is"
    lying = {**told, "content-length": "10"}
    assert ada.request("POST", "/rules", body, {**lying, "transfer-encoding": None}).status == 413
    assert ada.request("POST", "/rules", body, lying).status == 400, "two lengths: a proxy may believe the other one"
    for length in ("-1", "1e3", "²", "9" * 30):
        assert (
            ada.request("POST", "/rules", b"", {**told, "content-length": length, "transfer-encoding": None}).status
            == 413
        )
    many = "&".join(f"f{number}=1" for number in range(100_000)).encode()
    assert len(many) < server.MOST_FORM
    assert ada.request("POST", "/rules", many, {**told, "content-length": str(len(many))}).status == 400


def test_nothing_of_a_strangers_text_is_markup(tmp_path: Path) -> None:
    """Names, purposes, columns, labels and reasons: all that a stranger, or a colleague, may fill in."""
    hostile = terms(**FAR, purpose=MARKUP, columns=("age", MARKUP, "sex"), run="run-2")
    with open_owner(make_owner(tmp_path)) as node:
        ada = signed_in(node)
        for run in (hostile, RUN):
            invite(node, run)
        form = ada.form("deny", reason="x", sure="yes") | {"by": SHOWN, "reason": MARKUP}
        pages = [ada.post("/decide", {**form, "sure": ""}), ada.post("/decide", form)]
        pages.append(ada.post("/rules", {"how": "text", "text": f"likeset: owner\n{MARKUP}: 1\n", "by": SHOWN}))
        pages.append(ada.post("/data/check", {"name": MARKUP}))
        paths = ("/", "/?show=all", "/run?name=run-1", "/run?name=run-2", "/log", "/budgets", "/rules", "/cards")
        pages += [ada.get(path) for path in (*paths, "/log?about=<script>")]
        for answer in pages:
            assert not [bad for bad in ("<script", "<img", "\x1b", "\u202e") if bad in answer.text]
            assert "49" not in answer.text.partition("onerror")[2][:40], "it is no template either"
        assert sum("&lt;script&gt;alert(1)" in answer.text for answer in pages) >= 6, "they are shown, as text"


def test_an_error_tells_its_place_and_no_value(
    ada: Browser, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a row: 4711")

    monkeypatch.setattr("likeset.homes.checkup.checkup", broken)
    answer = ada.post("/check")
    assert answer.status == 500
    assert "a row: 4711" not in answer.text + "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "listen",
    [
        {"host": "0.0.0.0"},  # noqa: S104
        {"host": "::"},
        {"host": "0.0.0.0", "public": "http://console.example.org"},  # noqa: S104
        {"host": "a name"},
        {"public": "console.example.org/path"},
        {"public": "https://console.example.org/path"},
    ],
)
def test_a_console_listens_on_loopback_unless_a_proxy_with_tls_stands_before_it(listen: dict[str, str]) -> None:
    assert Listen().host == "127.0.0.1"
    with pytest.raises(InvalidArgument):
        Listen(**listen)  # type: ignore[arg-type]


def test_links_belong_to_a_console_that_runs(folder: Path) -> None:
    """A console that was killed leaves its address behind: whoever listens there now must not get a link."""
    links, old = Links(folder), Links(folder).make()
    with home_console(folder, Listen()) as first:
        assert first.address.startswith("http://127.0.0.1:")
        assert not links.use(old), "links of an earlier console do not count"
        assert Visitor(new_link(folder)).ask("GET", "/").status == 200
        with (
            pytest.raises(InvalidArgument, match=r"^--port"),
            home_console(folder, Listen(port=int(first.address.rpartition(":")[2]))),
        ):
            pass
    with pytest.raises(InvalidArgument, match=r"^--link"):
        new_link(folder)


def test_a_console_starts_while_somebody_asks_for_its_address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asking: list[threading.Timer] = []

    def keep(path: Path, data: bytes) -> None:
        keep_private_bytes(path, data)
        asked = path.open("rb")
        fcntl.flock(asked, fcntl.LOCK_SH)
        asking.append(threading.Timer(0.1, asked.close))
        asking[0].start()

    monkeypatch.setattr("likeset.app.console.server.keep_private_bytes", keep)
    with Links(folder).valid_at(ADDRESS):
        asking[0].join()


# ---- with real connections


@dataclass(frozen=True)
class Told:
    status: int
    headers: Message
    text: str


class Visitor:
    def __init__(self, link: str) -> None:
        self.origin, _, path = link.partition("/enter")
        self.host = self.origin.partition("://")[2]
        self.cookie = ""
        self.cookie = str(self.ask("GET", f"/enter{path}").headers["set-cookie"]).partition(";")[0]

    def ask(self, method: str, path: str, **fields: str) -> Told:
        with closing(http.client.HTTPConnection(self.host, timeout=PATIENCE)) as connection:
            headers = {"cookie": self.cookie, "origin": self.origin}
            headers["content-type"] = "application/x-www-form-urlencoded"
            connection.request(method, path, urlencode(fields) if fields else None, headers)
            answer = connection.getresponse()
            return Told(answer.status, answer.headers, answer.read().decode())

    def connected(self) -> socket.socket:
        host, _, port = self.host.partition(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE)


@pytest.fixture
def visitor(folder: Path) -> Iterator[Visitor]:
    with home_console(folder, Listen()) as running:
        yield Visitor(running.link)


def test_connections_are_limited_and_the_console_outlives_too_many(visitor: Visitor) -> None:
    silent = [visitor.connected() for _ in range(server.MOST_CONNECTIONS + 20)]
    for connection in silent:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert visitor.ask("GET", "/").status == 503
    for connection in silent:
        connection.close()
    end = time.monotonic() + PATIENCE
    while visitor.ask("GET", "/").status != 200:
        assert time.monotonic() < end
        time.sleep(0.05)
