"""Doors of a console: programs beside it on the machine, links before and after their time, pages that look again."""

import asyncio
import contextlib
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from card_world import introduce, signed_terms
from console_world import ADDRESS, Browser, _asked, opened_console, signed_in
from node_world import held, make_node, terms

from likeset.app.cli import consoles
from likeset.app.console import live
from likeset.app.console.guard import REFRESH_HEADER, Doors
from likeset.app.console.links import Links
from likeset.app.console.owner_app import _LOOKING, owner_app
from likeset.app.console.owner_desk import OwnerDesk
from likeset.app.console.sessions import Sessions
from likeset.app.console.starting import ConsoleWishes, StartedConsole, new_link, owner_console
from likeset.errors import InvalidArgument
from likeset.homes.owner_node import OwnerNode

FAR: dict[str, Any] = {"expires": "2099-01-01"}
RUN = terms(**FAR)
COOKIE = "likeset_console_8000"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OwnerDesk]:
    folder = make_node(tmp_path)
    introduce(folder, RUN)
    with opened_console(folder) as opened:
        opened.node.take_invitation(signed_terms(RUN))
        yield opened


def test_consoles_at_other_ports_of_the_machine_have_other_cookies() -> None:
    """Cookies know no ports: with one name, who signs in at one console would be signed out of the other."""
    names = {Doors.of(f"http://127.0.0.1:{port}").cookie for port in (80, 8000, 8001)}
    assert len(names) == 3


def test_cookies_that_a_program_at_another_port_set_keep_nobody_out(desk: OwnerDesk) -> None:
    ada, eve = signed_in(desk), signed_in(desk, "Eve")
    own = f"{COOKIE}={ada.cookie}"
    for cookie in (f"{COOKIE}=tossed; {own}", f"{own}; {COOKIE}=tossed", f"{COOKIE}=; x=1; {own}", f"{COOKIE}; {own}"):
        assert ada.get("/", cookie=cookie).status == 200, cookie
    many = "; ".join(f"{COOKIE}=tossed-{number}" for number in range(500))
    assert ada.get("/", cookie=f"{many}; {own}").status == 200
    both = f"{own}; {COOKIE}={eve.cookie}"
    assert ada.get("/", cookie=both).status == 401, "of two sessions nobody can tell which is meant"
    assert ada.post("/leave", {}, token=ada.token(), headers={"cookie": both}).status == 401


@pytest.mark.parametrize(
    "hosts",
    [
        ["evil.example:8000"],
        ["127.0.0.1:8000.evil.example"],
        ["evil@127.0.0.1:8000"],
        ["127.0.0.1:8000", "evil.example"],
        ["evil.example", "127.0.0.1:8000"],
        ["127.0.0.1:8000, evil.example"],
    ],
)
def test_a_name_that_was_rebound_or_said_twice_is_not_this_consoles(desk: OwnerDesk, hosts: list[str]) -> None:
    """A page whose name now means 127.0.0.1 is of this origin for its browser, but says the name that it had."""
    ada = signed_in(desk)
    headers = [(b"host", host.encode()) for host in hosts] + [(b"cookie", f"{COOKIE}={ada.cookie}".encode())]
    answer = asyncio.run(_asked(ada.app, "GET", "/", headers, b""))
    assert (answer.status, b"run-1" in answer.body) == (421, False)


def test_addresses_are_compared_as_browsers_write_them() -> None:
    doors = Doors.of(ADDRESS, "https://Console.Example.org:443")
    assert "console.example.org" in doors.hosts
    assert "https://console.example.org" in doors.origins
    assert Doors.of("http://127.0.0.1:80").hosts == {"127.0.0.1"}
    assert "c.example:8443" in Doors.of(ADDRESS, "https://c.example:8443").hosts


def test_a_page_that_looks_again_by_itself_keeps_no_session_alive_and_takes_no_notice(desk: OwnerDesk) -> None:
    now = [0.0]
    desk.sessions = Sessions(lambda: now[0])
    ada = signed_in(desk)
    page = ada.get("/run?name=run-1")
    form = {"run": "run-1", "choice": "deny", "by": "Ada", "reason": "no", "sure": "yes"}
    seen = {"digest": page.field("digest"), "seen": page.field("seen")}
    assert ada.post("/decide", {**form, **seen}).status == 303
    assert "Run run-1 is denied" not in ada.get("/run?name=run-1", **{REFRESH_HEADER: "1"}).words
    assert "Run run-1 is denied" in ada.get("/run?name=run-1").words, "the person is told"
    for _ in range(3):
        now[0] += 1500.0
        status = ada.get("/", **{REFRESH_HEADER: "1"}).status
    assert status == 401, "an hour alone, whatever happened at the node"


def test_who_typed_a_name_once_finds_it_in_the_next_form(desk: OwnerDesk) -> None:
    ada = signed_in(desk, "root")
    assert ada.post("/trial", {"run": "run-1", "by": "Ada Lovelace"}).status == 200
    assert 'value="Ada Lovelace"' in ada.get("/run?name=run-1").text
    assert 'value="root"' in signed_in(desk, "root").get("/run?name=run-1").text, "at this browser alone"


def test_who_only_looks_ahead_does_not_use_a_link_up(desk: OwnerDesk) -> None:
    browser = Browser(owner_app(desk, doors=Doors.of(ADDRESS), person="Ada"))
    link = f"/enter?token={Links(desk.node.home.folder).make()}"
    assert browser.request("HEAD", link).status == 403
    for purpose in ("prefetch", "prefetch;prerender"):
        assert browser.get(link, **{"sec-purpose": purpose}).status == 403
    assert browser.cookie == ""
    assert browser.get(link).status == 303


def test_of_many_who_use_a_link_at_once_one_gets_in(desk: OwnerDesk) -> None:
    app, links = owner_app(desk, doors=Doors.of(ADDRESS), person="Ada"), Links(desk.node.home.folder)
    for _ in range(10):
        link, ready, statuses = f"/enter?token={links.make()}", threading.Barrier(6), list[int]()

        def enter(link: str = link, ready: threading.Barrier = ready, statuses: list[int] = statuses) -> None:
            ready.wait()
            statuses.append(Browser(app).get(link).status)

        threads = [threading.Thread(target=enter) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [303, 403, 403, 403, 403, 403]


def test_no_address_leads_to_another(desk: OwnerDesk) -> None:
    """A redirect would be made of what the address says."""
    ada = signed_in(desk)
    for path in ("/run/", "/run//", "//evil.example/", "/log/?about=x", "/enter/"):
        answer = ada.get(path)
        assert (answer.status, answer.header("location")) == (404, ""), path
    assert ada.post("/decide/", {"run": "run-1"}).status == 404


def test_a_link_is_made_only_for_a_console_that_runs(tmp_path: Path) -> None:
    """One that was killed leaves its address behind: whoever listens there now must not be handed a link."""
    folder = make_node(tmp_path)
    with owner_console(folder, ConsoleWishes()) as started:
        assert new_link(folder).startswith(started.address)
        left_behind = (folder / "console" / "address").read_bytes()
    (folder / "console" / "address").write_bytes(left_behind)
    with pytest.raises(InvalidArgument, match="no console of this home is running"):
        new_link(folder)


def test_links_of_a_console_before_count_no_more_and_those_of_one_beside_do(tmp_path: Path) -> None:
    folder = make_node(tmp_path)
    links = Links(folder)
    old = links.make()
    with owner_console(folder, ConsoleWishes()) as first:
        assert not links.use(old)
        with owner_console(folder, ConsoleWishes()):
            assert links.use(first.link.partition("token=")[2])


def test_what_was_uploaded_to_a_console_that_was_killed_does_not_stay(tmp_path: Path) -> None:
    folder = make_node(tmp_path)
    for name in ("upload-1", "upload-2"):
        (folder / "console" / name).mkdir(parents=True)
        (folder / "console" / name / "mapping.yaml").write_text("x")
    with owner_console(folder, ConsoleWishes()):
        assert not list((folder / "console").glob("upload-*"))
        (folder / "console" / "upload-3").mkdir()  # of the console that runs
        with owner_console(folder, ConsoleWishes()):
            assert (folder / "console" / "upload-3").exists()


def test_a_proxys_secret_that_others_can_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("a secret of the proxy alone\n")
    wishes = ConsoleWishes(user_header="X-User", public="https://c.example.org", proxy_secret=path).checked()
    path.chmod(0o640)
    assert wishes.secret() == "a secret of the proxy alone"
    for mode in (0o644, 0o604, 0o602):
        path.chmod(mode)
        with pytest.raises(InvalidArgument, match="can be read by others"):
            wishes.secret()
    with pytest.raises(InvalidArgument, match="cannot be read"):
        ConsoleWishes(proxy_secret=tmp_path / "none").secret()


def test_a_browser_is_started_with_a_page_that_only_this_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a program is started with, every user of the machine can read."""
    opened = list[tuple[str, str, int]]()

    def note(address: str) -> None:
        path = Path(address.removeprefix("file://"))
        opened.append((address, path.read_text(), stat.S_IMODE(path.stat().st_mode)))

    class Ended:
        is_running = False

    @contextlib.contextmanager
    def ended(folder: Path) -> Iterator[StartedConsole]:
        with owner_console(folder, ConsoleWishes()) as started:
            links.append(started.link)
            yield StartedConsole(started.address, started.link, Ended(), started.links)  # type: ignore[arg-type]

    monkeypatch.setattr("webbrowser.open", note)
    links = list[str]()
    folder = make_node(tmp_path)
    consoles._run(ended(folder), open_it=True, as_json=True)
    ((address, page, mode),) = opened
    assert "token" not in address
    assert f"url={links[0]}" in page
    assert mode == 0o600
    assert not (folder / "console" / "open.html").exists(), "it goes with the console"


def test_pages_with_rows_are_kept_by_no_browser_and_shown_in_no_frame(desk: OwnerDesk, tmp_path: Path) -> None:
    ada = signed_in(desk)
    desk.node.approve("run-1", RUN.digest, by="Ada")
    with OwnerNode(desk.node.home.folder) as other:
        held(RUN, {"a": other}, tmp_path / "curator")
    run = {"/run": "?name=run-1", "/left": "?run=run-1", "/left/bytes": "?run=run-1"}
    answers = [ada.get(f"{path}{run.get(path, '')}") for path in _LOOKING]
    answers += [ada.post("/trial", {"run": "run-1", "by": "Ada"}), ada.post("/data/look", {"name": "patients"})]
    for answer in answers:
        assert answer.status == 200
        assert answer.header("cache-control") == "no-store"
        assert answer.header("x-frame-options") == "DENY"
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("referrer-policy") == "same-origin"
        assert "frame-ancestors 'none'" in answer.header("content-security-policy")


def test_listeners_of_all_sessions_leave_connections_for_pages(desk: OwnerDesk) -> None:
    people = [signed_in(desk) for _ in range(3)]
    for session, streams in zip(desk.sessions._by_key.values(), (live._MOST_OF_ALL - 1, 0, 0), strict=True):
        session.streams = streams
    assert desk.sessions.streams == live._MOST_OF_ALL - 1
    list(desk.sessions._by_key.values())[1].streams = 1
    assert people[2].get("/events").status == 429


def test_a_form_of_rules_that_is_wrong_keeps_what_was_filled_in(desk: OwnerDesk) -> None:
    ada = signed_in(desk)
    form = {"how": "form", "by": "Ada", "seen": "x", "purposes": "a purpose\nanother one", "total.rows": "many"}
    answer = ada.post("/rules", form)
    assert answer.status == 400
    assert "a purpose\nanother one</textarea>" in answer.text
    assert 'name="total.rows" type="number" min="0" step="1" value="many"' in answer.text
    assert desk.node.policy.manual_approval
    assert "checked" not in answer.text, "the box was left empty"
