"""Pages that the steward's story does not come by, in Chromium: axe, keys alone, long words, and pages of others."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from card_world import introduce, signed_terms
from console_chromium import CHROMIUM, LOOKS, NARROW, WIDE, fits, launched, looked_at
from node_world import logged, make_node, terms, write_policy
from playwright.sync_api import Browser, Page, expect

from likeset.app.console.starting import ConsoleWishes, StartedConsole, new_link, owner_console
from likeset.homes.mail import Invitation
from likeset.homes.owner_node import OwnerNode

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium here (Debian: apt-get install chromium)"
)
RUN = terms(expires="2099-01-01")
LONG = "x" * 128


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = make_node(tmp_path)
    introduce(made, RUN)
    with OwnerNode(made) as node:
        node.take_invitation(signed_terms(RUN))
    return made


@contextmanager
def visited(chromium: Browser, folder: Path, **how: Any) -> Iterator[tuple[Page, StartedConsole]]:
    """Somebody who is signed in, at the inbox."""
    with owner_console(folder, ConsoleWishes()) as started, chromium.new_context(**how) as context:
        page = context.new_page()
        page.goto(started.link)
        yield page, started


def test_every_template_of_a_page_is_looked_at() -> None:
    names = {file.name for file in resources.files("likeset.app.console").joinpath("templates").iterdir()}
    assert names - {"base.html", "parts.html"} == set(LOOKS)
    texts = [Path(__file__), Path(__file__).with_name("test_console_browser.py")]
    looked = set(re.findall(r'looked_at\(page, "([\w-]+)"', "".join(path.read_text() for path in texts)))
    assert looked == {name for looks in LOOKS.values() for name in looks}


@pytest.mark.slow
@needs_chromium
def test_pages_beside_the_story_are_accessible(chromium: Browser, folder: Path, tmp_path: Path) -> None:
    invitation = tmp_path / "invitation"
    invitation.write_bytes(signed_terms(RUN))
    with visited(chromium, folder) as (page, started):
        page.goto(f"{started.address}/?show=all")
        looked_at(page, "all-runs", folder=tmp_path)
        page.goto(f"{started.address}/budgets")
        looked_at(page, "budgets", folder=tmp_path)
        page.goto(f"{started.address}/left")
        looked_at(page, "nothing-left", folder=tmp_path)
        page.goto(f"{started.address}/log?about=run-1")
        looked_at(page, "log-of-a-run", folder=tmp_path)
        page.goto(f"{started.address}/run?name=none")
        looked_at(page, "trouble", folder=tmp_path)
        _changed_rules(page, started, invitation, folder=tmp_path)
        _removed_things(page, started, folder=tmp_path)
        write_policy(folder, "a", purposes=["billing"])
        _tried(page, started, invitation)
        looked_at(page, "rules-refuse", folder=tmp_path)
        page.goto(f"{started.address}/run?name=run-1")
        page.get_by_role("button", name="Approve …").click()
        page.get_by_role("button", name="Yes, approve it").click()
        expect(page.get_by_role("heading", name="Run run-1 was not approved")).to_be_visible()
        looked_at(page, "refused", folder=tmp_path)
        page.goto(started.link)
        looked_at(page, "used", folder=tmp_path)
        page.goto("about:blank")
        page.route(f"{started.address}/", lambda route: route.fulfill(status=204))  # the page leads on at once
        page.set_content(f'<a href="{new_link(folder)}">in</a>')
        page.get_by_role("link", name="in").click()
        expect(page.get_by_role("heading", name="You are signed in")).to_be_visible()
        looked_at(page, "entered", folder=tmp_path)


def _changed_rules(page: Page, started: StartedConsole, invitation: Path, *, folder: Path) -> None:
    page.goto(f"{started.address}/rules")
    page.locator('[name="total.rows"]').fill("50")
    page.get_by_role("button", name="See what would change").first.click()
    looked_at(page, "rules-change", folder=folder)
    page.goto(f"{started.address}/rules")
    page.get_by_label("owner.yaml").fill("likeset: owner\nversion: 9\n")
    page.get_by_role("button", name="See what would change").last.click()
    expect(page.get_by_role("alert")).to_contain_text("owner.yaml, line 1")
    looked_at(page, "wrong-rules", folder=folder)
    _tried(page, started, invitation)
    looked_at(page, "rules-allow", folder=folder)


def _tried(page: Page, started: StartedConsole, invitation: Path) -> None:
    page.goto(f"{started.address}/rules")
    page.get_by_label("A signed invitation").set_input_files(invitation)
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("heading", name="Would run run-1 be allowed?")).to_be_visible()


def _removed_things(page: Page, started: StartedConsole, *, folder: Path) -> None:
    page.goto(f"{started.address}/data")
    page.get_by_role("button", name="Remove patients …").click()
    expect(page.get_by_role("heading", name="A second look")).to_be_visible()
    looked_at(page, "remove-data", folder=folder)
    page.goto(f"{started.address}/cards")
    page.get_by_text("It does not count any more").first.click()
    page.get_by_label("Why").first.fill("stolen")
    page.get_by_role("button", name="Revoke …").first.click()
    expect(page.get_by_text("It never counts again")).to_be_visible()
    looked_at(page, "revoke", folder=folder)


@pytest.mark.slow
@needs_chromium
def test_a_run_is_denied_by_keys_alone(chromium: Browser, folder: Path) -> None:
    """Focus comes by everything in the order of the page, is seen, and is caught nowhere."""
    with visited(chromium, folder, viewport=WIDE) as (page, _):
        _tabbed_to(page, "a", "run-1")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Run run-1")).to_be_visible()
        _tabbed_to(page, "a", "To the decision")
        page.keyboard.press("Enter")
        _tabbed_to(page, "textarea", "")
        page.keyboard.type("no contract yet")
        _tabbed_to(page, "button", "Deny …")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="A second look")).to_be_visible()
        _tabbed_to(page, "button", "Yes, deny it")
        page.keyboard.press("Space")
        expect(page.get_by_text("Run run-1 is denied")).to_be_visible()
    with OwnerNode(folder) as node:
        assert [entry["reason"] for entry in logged(node, "denied")] == ["no contract yet"]


_FOCUSED = """() => {
  const at = document.activeElement, all = [...document.querySelectorAll("*")];
  const style = getComputedStyle(at);
  return [at.tagName.toLowerCase(), at.textContent.trim(), all.indexOf(at), style.outlineStyle + style.outlineWidth];
}"""


def _tabbed_to(page: Page, tag: str, words: str) -> None:
    """Press the key until something has the focus; on the way it only goes forward, and is always seen."""
    last = -1
    for _ in range(60):
        page.keyboard.press("Tab")
        name, text, place, outline = page.evaluate(_FOCUSED)
        assert place > last, "it goes on down the page"
        assert outline not in ("none0px", "none3px"), (name, text)
        last = place
        if name == tag and (not words or text == words):
            return
    raise AssertionError(f"no key leads to {words or tag}")


@pytest.mark.slow
@needs_chromium
def test_long_words_of_strangers_break_no_page(chromium: Browser, tmp_path: Path) -> None:
    """Names as long as names may be, and purposes, columns and reasons without a blank, on a telephone."""
    words, name = "w" * 500, f"c{LONG[1:]}"
    run = terms(expires="2099-01-01", run=LONG, consumer=name, purpose=words, columns=("age", "y" * 300, "sex"))
    folder = make_node(tmp_path, consumers=["*"], purposes=["*"])
    piled = terms(expires="2099-01-01", run=f"d{LONG[1:]}", purpose="\u0336" * 500)
    introduce(folder, run)
    introduce(folder, piled)
    with OwnerNode(folder) as node:
        for asked in (run, piled):
            node.add_invitation(Invitation.read(signed_terms(asked)))
        node.deny(f"d{LONG[1:]}", by="z" * 128, reason="r" * 1000)
    paths = ("/", "/?show=all", f"/run?name={LONG}", f"/run?name=d{LONG[1:]}", "/log", f"/log?about={LONG}", "/cards")
    with visited(chromium, folder, viewport=NARROW) as (page, started):
        for path in (*paths, "/rules", "/data", "/budgets", "/check", f"/run?name={'n' * 3000}"):
            page.goto(started.address + path)
            fits(page, path, NARROW["width"])
        page.goto(f"{started.address}/run?name={LONG}")
        page.get_by_label("Why (stays in this house)").fill("q" * 1000)
        page.get_by_role("button", name="Deny …").click()
        expect(page.get_by_role("heading", name="A second look")).to_be_visible()
        fits(page, "second look", NARROW["width"])


_HOSTILE = """<!DOCTYPE html><title>another page</title>
<iframe id="frame" src="CONSOLE/"></iframe>
<form id="form" method="post" action="CONSOLE/decide" target="posted"><input name="run" value="run-1">
<input name="choice" value="deny"><input name="by" value="Eve"><input name="reason" value="x">
<input name="sure" value="yes"><input name="form_token" value="guessed"></form>
<iframe name="posted"></iframe>
<script>
window.got = [];
const got = (what) => window.got.push(what);
async function attack() {
  for (const how of [{}, { mode: "no-cors" }, { method: "POST", mode: "no-cors", body: "run=run-1" }]) {
    try {
      const answer = await fetch("CONSOLE/", { credentials: "include", ...how });
      if (answer.type !== "opaque") got("a page: " + (await answer.text()));
    } catch (error) {}
  }
  await new Promise((next) => {
    const news = new EventSource("CONSOLE/events", { withCredentials: true });
    news.onopen = () => { got("news"); next(); };
    news.onerror = () => { news.close(); next(); };
  });
  await new Promise((next) => {
    const script = document.createElement("script");
    script.src = "CONSOLE/static/console.js";
    script.onload = () => { got("a script"); next(); };
    script.onerror = next;
    document.head.append(script);
  });
  try { if (document.getElementById("frame").contentDocument) got("a frame"); } catch (error) {}
  document.getElementById("form").submit();
}
attack().then(() => setTimeout(() => { window.done = true; }, 1000));
</script>"""


@contextmanager
def _hostile_server(console: str) -> Iterator[int]:
    """Another program on this machine; notes every cookie that a browser hands it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = _HOSTILE.replace("CONSOLE", console).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("set-cookie", "likeset_console=tossed; Path=/")
            self.send_header("set-cookie", f"likeset_console_{console.rpartition(':')[2]}=tossed; Path=/run")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_program_gets_nothing_and_decides_nothing(chromium: Browser, folder: Path, host: str) -> None:
    """At 127.0.0.1 its requests carry the session's cookie: to a browser, all ports of a host are one site."""
    with visited(chromium, folder) as (page, started), _hostile_server(started.address) as port:
        statuses = list[tuple[str, int]]()
        hostile = page.context.new_page()
        hostile.on("response", lambda answer: statuses.append((answer.url, answer.status)))
        hostile.goto(f"http://{host}:{port}/")
        hostile.wait_for_function("window.done")
        assert hostile.evaluate("window.got") == []
        answered = [status for url, status in statuses if url.startswith(started.address)]
        assert answered, "the console was asked"
        assert set(answered) <= {403}, statuses
        page.goto(f"{started.address}/run?name=run-1")
        expect(page.get_by_role("heading", name="Run run-1")).to_be_visible()
    with OwnerNode(folder) as node:
        assert [logged(node, kind) for kind in ("approved", "denied", "withdrawn")] == [[], [], []]
