"""What a stranger, another page or another program could send to a console: refused, and the home's log is right."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from card_world import introduce, secret_of, signed_terms
from console_world import ADDRESS, Browser, opened_console, signed_in
from node_world import SCHEMA, make_node, rows_text, terms

from likeset.app.console.guard import MOST_FORM, PROXY_HEADER, Doors
from likeset.app.console.links import Links
from likeset.app.console.owner_app import _DOING, _LOOKING, owner_app
from likeset.app.console.owner_desk import OwnerDesk
from likeset.app.console.sessions import Sessions
from likeset.app.console.starting import ConsoleWishes
from likeset.errors import InvalidArgument

MARKUP = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}\x1b[31m\u202e'
SHOWN = MARKUP.partition("\x1b")[0]
FAR: dict[str, Any] = {"expires": "2099-01-01"}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnerDesk]:
    """One console for all attacks: none of them changes anything."""
    folder = make_node(tmp_path_factory.mktemp("node"))
    introduce(folder, terms())
    with opened_console(folder) as opened:
        signed_in(opened).post("/add", {}, files={"invitation": signed_terms(terms(**FAR))})
        yield opened


@pytest.fixture
def unchanged(desk: OwnerDesk) -> Iterator[None]:
    """Whatever is tried, the log has no new entry."""
    before = desk.version()
    yield
    assert desk.version() == before


@pytest.mark.usefixtures("unchanged")
def test_nothing_is_shown_or_done_without_a_session(desk: OwnerDesk) -> None:
    app = owner_app(desk, doors=Doors.of(ADDRESS), person="Ada")
    for cookie in ("", "guessed", "x" * 5000):
        stranger = Browser(app, cookie=cookie)
        for path in (*_LOOKING, "/run?name=run-1", "/events"):
            answer = stranger.get(path)
            assert (answer.status, b"run-1" in answer.body) == (401, False), path
        for path in _DOING:
            assert stranger.post(path, {"run": "run-1"}, token="guessed").status == 401, path  # noqa: S106


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("path", _DOING)
def test_a_form_without_the_token_of_its_session_does_nothing(desk: OwnerDesk, path: str) -> None:
    ada, eve = signed_in(desk), signed_in(desk, "Eve")
    fields = {"run": "run-1", "choice": "deny", "reason": "x", "by": "Ada", "sure": "yes"}
    for token in (None, "wrong", eve.token()):
        assert ada.post(path, fields, token=token).status == 403


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": None},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:8001"},
        {"origin": "https://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_page_does_nothing(desk: OwnerDesk, headers: dict[str, str | None]) -> None:
    ada = signed_in(desk)
    page = ada.get("/run?name=run-1")
    form = {"run": "run-1", "choice": "deny", "reason": "x", "by": "Ada", "digest": page.field("digest"), "sure": "yes"}
    assert ada.post("/decide", {**form, "seen": page.field("seen")}, headers=headers).status == 403


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:8001", "localhost.evil:8000", "", None])
def test_another_host_is_refused(desk: OwnerDesk, host: str | None) -> None:
    ada = signed_in(desk)
    assert ada.get("/", host=host).status == 421
    assert ada.post("/decide", {"run": "run-1"}, headers={"host": host}).status == 421


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(desk: OwnerDesk, method: str) -> None:
    assert signed_in(desk).request(method, "/decide").status == 405


def test_a_link_counts_once_and_its_cookie_is_out_of_reach_of_scripts_and_other_sites(desk: OwnerDesk) -> None:
    app = owner_app(desk, doors=Doors.of(ADDRESS), person="Ada")
    links = Links(desk.node.home.folder)
    token = links.make()
    first, second = Browser(app), Browser(app)
    answer = first.get(f"/enter?token={token}")
    assert answer.status == 303
    for word in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert word in answer.header("set-cookie")
    assert "Secure" not in answer.header("set-cookie"), "on loopback there is no TLS"
    assert second.get(f"/enter?token={token}").status == 403
    assert second.cookie == ""
    for guess in ("", "../../card.secret", "a" * 43, "\x00", "%2e%2e%2f"):
        assert second.get(f"/enter?token={guess}").status == 403
    kept = "".join(path.name for path in (desk.node.home.folder / "console").iterdir())
    assert token not in kept, "only a hash of it is on the disk"
    behind_tls = Doors.of(ADDRESS, "https://console.example.org")
    third = Browser(owner_app(desk, doors=behind_tls, person="Ada"))
    assert "Secure" in third.get(f"/enter?token={links.make()}").header("set-cookie")


def test_a_session_ends_when_left_alone_when_long_and_when_somebody_signs_out(desk: OwnerDesk) -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    idle, busy = sessions.begin("Ada"), sessions.begin("Bob")
    for _ in range(8):
        now[0] += 3599.0
        assert sessions.find(busy) is not None
    assert sessions.find(idle) is None
    now[0] += 60.0
    assert sessions.find(busy) is None, "after eight hours"
    quiet = sessions.begin("Eve")
    now[0] += 1800.0
    assert sessions.find(quiet, quietly=True) is not None
    now[0] += 1801.0
    assert sessions.find(quiet) is None, "a page that listens for news keeps no session alive"
    ada = signed_in(desk)
    cookie = ada.cookie
    assert ada.post("/leave", {}).status == 303
    assert Browser(ada.app, cookie=cookie).get("/").status == 401


def test_every_answer_forbids_scripts_of_others_frames_and_caches(desk: OwnerDesk) -> None:
    ada = signed_in(desk)
    for path in ("/", "/run?name=run-1", "/nowhere", "/static/console.js", "/enter?token=x"):
        policy = ada.get(path).header("content-security-policy")
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
    assert ada.get("/").header("cache-control") == "no-store"


@pytest.mark.parametrize("path", ["/static/../desk.py", "/static/%2e%2e/desk.py", "/../../../../etc/passwd", "//evil/"])
def test_tricks_with_paths_lead_nowhere(desk: OwnerDesk, path: str) -> None:
    ada = signed_in(desk)
    assert ada.get(path).status == 404
    assert ada.get(f"/run?name={path}").status == 400
    assert ada.get(f"/left?run={path}").status == 400


@pytest.mark.usefixtures("unchanged")
def test_an_upload_never_leaves_its_folder(desk: OwnerDesk, tmp_path: Path) -> None:
    """The test browser calls its file ../../schema; nothing but the name of the data set is wrong."""
    ada = signed_in(desk)
    home = desk.node.home.folder
    (tmp_path / "more.csv").write_text(rows_text(2))
    before = {path for path in home.parent.rglob("*") if "console" not in path.parts}
    for name in ("../out", "/out", "a/b", "..", "a/../../../out", "a/../../b", "x" * 129, "a\\b", "a\x00b"):
        fields = {"name": name, "source": str(tmp_path / "more.csv"), "by": "Ada"}
        answer = ada.post("/data/add", fields, files={"schema": SCHEMA.encode()})
        assert answer.status == 400, name
    assert {path for path in home.parent.rglob("*") if "console" not in path.parts} == before


@pytest.mark.usefixtures("unchanged")
def test_ten_megabytes_of_form_are_refused(desk: OwnerDesk) -> None:
    ada = signed_in(desk)
    answer = ada.post("/rules", {"text": "x" * (10 << 20), "how": "text", "by": "Ada"})
    assert answer.status == 413
    body, kind = b"text=" + b"x" * (10 << 20), "application/x-www-form-urlencoded"
    told = {"content-type": kind, "origin": ADDRESS, "content-length": None, "transfer-encoding": "chunked"}
    assert ada.request("POST", "/rules", body, told).status == 413, "also where nobody says how long it is"
    lying = {**told, "content-length": "10"}
    assert ada.request("POST", "/rules", body, {**lying, "transfer-encoding": None}).status == 413
    assert ada.request("POST", "/rules", body, lying).status == 400, "two lengths: a proxy may believe the other one"
    many = "&".join(f"f{number}=1" for number in range(100_000)).encode()
    assert len(many) < MOST_FORM
    assert ada.request("POST", "/rules", many, {**told, "content-length": str(len(many))}).status in (400, 403)


def test_nothing_of_a_strangers_text_is_markup(tmp_path: Path) -> None:
    """Names, purposes, columns, labels and reasons: all that a stranger, or a colleague, may fill in."""
    folder = make_node(tmp_path)
    hostile = terms(**FAR, purpose=MARKUP, columns=("age", MARKUP, "sex"), run="run-2")
    introduce(folder, hostile)
    with opened_console(folder) as desk:
        ada = signed_in(desk, person=MARKUP)
        ada.post("/add", {}, files={"invitation": signed_terms(hostile)})
        ada.post("/add", {}, files={"invitation": signed_terms(terms(**FAR))})
        page = ada.get("/run?name=run-1")
        form = {"run": "run-1", "choice": "deny", "by": SHOWN, "reason": MARKUP}
        seen = {"digest": page.field("digest"), "seen": page.field("seen")}
        for name in (MARKUP, "a\nb", "a\u202eb", "a\u200bb"):
            assert ada.post("/decide", {**form, **seen, "by": name}).status == 400, "a name is one that can be read"
        pages = [ada.post("/decide", {**form, **seen}), ada.post("/decide", {**form, **seen, "sure": "yes"})]
        card = secret_of("new-clinic").card
        pages.append(ada.post("/cards/revoke", {"fingerprint": card.fingerprint, "reason": MARKUP, "by": SHOWN}))
        pages.append(ada.post("/rules", {"how": "text", "text": f"likeset: owner\n{MARKUP}: 1\n", "by": "Ada"}))
        pages.append(ada.post("/data/add", {"name": MARKUP, "source": MARKUP, "by": "a"}, files={"schema": b"x"}))
        paths = ("/", "/?show=all", "/run?name=run-1", "/run?name=run-2", "/log", "/budgets", "/rules", "/cards")
        pages += [ada.get(path) for path in (*paths, f"/log?about={'<script>'}")]
        shown = 0
        for answer in pages:
            assert "<script>alert" not in answer.text
            assert "<img" not in answer.text
            assert "\x1b" not in answer.text
            assert "\u202e" not in answer.text
            assert "49" not in answer.text.partition("onerror")[2][:40], "it is no template either"
            shown += "&lt;script&gt;alert(1)" in answer.text
        assert shown >= 6, "they are shown, as text"
        assert "1 run waits" in ada.get("/").words


def test_behind_a_proxy_a_name_counts_only_with_the_proxys_secret(desk: OwnerDesk) -> None:
    secret = "a secret of the proxy alone"  # noqa: S105
    doors = Doors.of(ADDRESS, "https://console.example.org", user_header="X-Remote-User", proxy_secret=secret)
    app = owner_app(desk, doors=doors, person="nobody")
    named: dict[str, str | None] = {"x-remote-user": "Ada Lovelace"}
    assert Browser(app, headers=named).get("/").status == 401
    assert Browser(app, headers={**named, PROXY_HEADER: "guessed"}).get("/").status == 401
    assert Browser(app, headers={PROXY_HEADER: secret}).get("/").status == 401
    assert Browser(app, headers={PROXY_HEADER: secret, "x-remote-user": "a\x07b"}).get("/").status == 401
    ada = Browser(app, headers={**named, PROXY_HEADER: secret})
    page = ada.get("/run?name=run-1")
    assert "As Ada Lovelace" in page.words
    assert ada.get(f"/enter?token={Links(desk.node.home.folder).make()}").status == 403
    form = {"run": "run-1", "choice": "deny", "by": "somebody else", "reason": "x", "digest": page.field("digest")}
    look = ada.post("/decide", {**form, "seen": page.field("seen")})
    assert "The log will say: by Ada Lovelace" in look.words


@pytest.mark.parametrize(
    "wishes",
    [
        ConsoleWishes(listen="0.0.0.0"),  # noqa: S104
        ConsoleWishes(listen="0.0.0.0", public="http://console.example.org"),  # noqa: S104
        ConsoleWishes(listen="a name"),
        ConsoleWishes(public="console.example.org/path"),
        ConsoleWishes(user_header="X-User"),
        ConsoleWishes(user_header="X-User", public="https://c.example.org"),
        ConsoleWishes(user_header="X User", public="https://c.example.org", proxy_secret=Path("secret")),
    ],
)
def test_a_console_listens_on_loopback_unless_it_is_told_how_it_is_guarded(wishes: ConsoleWishes) -> None:
    with pytest.raises(InvalidArgument):
        wishes.checked()
