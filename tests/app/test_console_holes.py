"""Holes that a reviewer looked for: cookies from beside, pages that embed, bursts, races, downloads, odd headers."""

import asyncio
import io
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from card_world import introduce, signed_terms
from console_world import ADDRESS, Browser, opened_console, signed_in
from node_world import held, logged, make_node, terms

from likeset.app.console import live
from likeset.app.console.drawings import over_time
from likeset.app.console.guard import PROXY_HEADER, Doors
from likeset.app.console.links import Links
from likeset.app.console.owner_app import owner_app
from likeset.app.console.owner_desk import OwnerDesk
from likeset.app.console.visits import download
from likeset.homes.owner_node import OwnerNode

FAR: dict[str, Any] = {"expires": "2099-01-01"}
RUN = terms(**FAR)
TLS = Doors.of(ADDRESS, "https://console.example.org")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OwnerDesk]:
    folder = make_node(tmp_path)
    introduce(folder, RUN)
    with opened_console(folder) as opened:
        opened.node.take_invitation(signed_terms(RUN))
        yield opened


def test_behind_tls_a_cookie_that_a_host_beside_may_set_does_not_count(desk: OwnerDesk) -> None:
    """A page of another host of the same domain can set likeset_console_8000 for all of them, and not __Host-..."""
    app = owner_app(desk, doors=TLS, person="Ada")
    answer = Browser(app).get(f"/enter?token={Links(desk.node.home.folder).make()}")
    name, _, rest = answer.header("set-cookie").partition("=")
    assert name == "__Host-likeset_console_8000"
    assert "Secure" in rest
    assert "Path=/" in rest
    assert "Domain" not in rest
    secret = rest.partition(";")[0]
    assert Browser(app).get("/", cookie=f"__Host-likeset_console_8000={secret}").status == 200
    assert Browser(app).get("/", cookie=f"likeset_console_8000={secret}").status == 401


def test_who_signs_in_anew_leaves_no_open_session_behind(desk: OwnerDesk) -> None:
    ada = signed_in(desk)
    before = ada.cookie
    assert ada.get(f"/enter?token={Links(desk.node.home.folder).make()}").status == 303
    assert ada.cookie != before
    assert Browser(ada.app, cookie=before).get("/").status == 401
    assert ada.get("/").status == 200


def test_a_link_in_a_mail_leads_to_a_page_that_leads_on(desk: OwnerDesk) -> None:
    """A browser that another site led here does not send the strict cookie to where it is sent on at once."""
    browser = Browser(owner_app(desk, doors=Doors.of(ADDRESS), person="Ada"))
    led = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    answer = browser.get(f"/enter?token={Links(desk.node.home.folder).make()}", **led)
    assert answer.status == 200
    assert 'content="0; url=/"' in answer.text
    assert browser.get("/").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_may_lead_here_and_not_embed_run_or_listen(desk: OwnerDesk, site: str) -> None:
    ada = signed_in(desk)
    for path in ("/", "/run?name=run-1", "/static/console.js", "/left/bytes?run=run-1", "/events"):
        for mode, dest in (("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
            sent = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
            assert ada.get(path, **sent).status == 403, (path, dest)
    led = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert ada.get("/", **led).status == 200
    own = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}
    assert ada.get("/static/console.js", **own).status == 200


def test_a_burst_of_listeners_is_counted_before_the_first_is_served(desk: OwnerDesk) -> None:
    ada = signed_in(desk)
    statuses = asyncio.run(_listeners(ada, 30))
    assert statuses.count(200) == live._MOST_OF_SESSION
    assert statuses.count(429) == 30 - live._MOST_OF_SESSION
    assert [session.streams for session in desk.sessions._by_key.values()] == [0], "and forgotten when they go"


async def _listeners(browser: Browser, count: int) -> list[int]:
    """All ask at once, and go when they have their first news."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/events",
        "query_string": b"",
        "headers": [
            (b"host", ADDRESS.partition("://")[2].encode()),
            (b"cookie", f"likeset_console_8000={browser.cookie}".encode()),
        ],
    }
    statuses: list[int] = []

    async def one() -> None:
        gone = asyncio.Event()
        first = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> dict[str, Any]:
            if first:
                return first.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            else:
                gone.set()

        await browser.app({**scope}, receive, send)

    await asyncio.gather(*(one() for _ in range(count)))
    return statuses


def test_of_many_who_decide_in_the_same_moment_exactly_one_wins(desk: OwnerDesk) -> None:
    """Four threads, each with both looks behind it: one is answered 303, the others are told, the log has one word."""
    people = [signed_in(desk, name) for name in ("Ada", "Bob", "Cid", "Dot")]
    for number in range(4):
        run = terms(**FAR, run=f"race-{number}")
        desk.node.take_invitation(signed_terms(run))
        page = people[0].get(f"/run?name={run.run}")
        form = {"run": run.run, "digest": page.field("digest"), "seen": page.field("seen"), "sure": "yes"}
        assert sorted(_all_at_once(people, form)) == [303, 409, 409, 409]
        decided = [entry.kind for entry in desk.node.log.entries() if entry.key == run.run and entry.kind != "invited"]
        assert len(decided) == 1


def _all_at_once(people: list[Browser], form: dict[str, str]) -> list[int]:
    """Every other one approves, the rest deny; what each is answered."""
    tokens = [person.token() for person in people]
    ready, answers = threading.Barrier(len(people)), list[int]()

    def decide(place: int) -> None:
        choice = {"choice": "approve"} if place % 2 else {"choice": "deny", "reason": "no"}
        ready.wait()
        words = {**form, **choice, "by": f"person {place}"}
        answers.append(people[place].post("/decide", words, token=tokens[place]).status)

    threads = [threading.Thread(target=decide, args=(place,)) for place in range(len(people))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_odd_headers_of_a_proxy_name_nobody(desk: OwnerDesk) -> None:
    secret = "a secret of the proxy alone"  # noqa: S105
    doors = Doors.of(ADDRESS, "https://console.example.org", user_header="X-Remote-User", proxy_secret=secret)
    app = owner_app(desk, doors=doors, person="nobody")
    for name in ("", " ", "a\nb", "a\u202eb", "a\xa0b", "x" * 129, "\x00"):
        assert Browser(app, headers={PROXY_HEADER: secret, "x-remote-user": name}).get("/").status == 401, repr(name)
    ada = Browser(app, headers={PROXY_HEADER: secret, "x-remote-user": "Ada"})
    scope_headers = [
        (b"host", b"127.0.0.1:8000"),
        (PROXY_HEADER.encode(), secret.encode()),
        (b"x-remote-user", b"Ada"),
        (b"x-remote-user", b"Eve"),
    ]
    from console_world import _asked

    assert asyncio.run(_asked(ada.app, "GET", "/", scope_headers, b"")).status == 401, "two names are none"
    own = Browser(app, cookie=signed_in(desk).cookie)
    assert own.get("/").status == 401, "a link's cookie counts for nothing behind a proxy"


def test_what_left_can_be_kept_byte_by_byte_under_plain_names(desk: OwnerDesk, tmp_path: Path) -> None:
    ada = signed_in(desk)
    page = ada.get("/run?name=run-1")
    form = {
        "run": "run-1",
        "choice": "approve",
        "by": "Ada",
        "digest": page.field("digest"),
        "seen": page.field("seen"),
    }
    assert ada.post("/decide", {**form, "sure": "yes"}).status == 303
    with OwnerNode(desk.node.home.folder) as other:
        held(RUN, {"a": other}, tmp_path / "curator")
    answer = ada.get("/left/bytes?run=run-1")
    assert answer.header("content-disposition") == 'attachment; filename="run-1.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        kept = {name: archive.read(name) for name in archive.namelist()}
    from likeset.homes import review

    assert kept == {message.file_name: message.data for message in review.messages_that_left(desk.node, "run-1")}
    assert all("/" not in name and ".." not in name for name in kept)
    for name in ("../x", "", "none", "run-1/../../x"):
        assert ada.get(f"/left/bytes?run={name}").status == 400
    assert logged(desk.node, "sent")


@pytest.mark.parametrize("name", ['a"; filename="b', "a\r\nset-cookie: x=1", "../../etc/passwd", "ä" * 300])
def test_a_name_of_a_file_adds_nothing_to_the_answer(name: str) -> None:
    headers = download(b"", name, kind="text/plain").headers
    assert headers["content-disposition"].count('"') == 2
    assert set(headers["content-disposition"]) <= set(
        'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"=; '
    )
    assert "set-cookie" not in headers


def test_nothing_in_a_drawing_is_markup_of_others() -> None:
    """Its words come of names of budgets, numbers and times; a time that is none is refused, not drawn."""
    hostile = '"><script>alert(1)</script>'
    drawn = over_time(hostile, [("2026-01-01T00:00:00+00:00", 1.0)], 2.0)
    assert drawn is not None
    assert "<script>" not in drawn
    with pytest.raises(ValueError, match="isoformat"):
        over_time("rows", [(hostile, 1.0)], 2.0)
