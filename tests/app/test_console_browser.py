"""The console in Chromium: a steward's whole story with real homes, axe on every page.

``LIKESET_REWRITE_IMAGES=1`` makes the pictures in docs/images anew.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from console_homes import COLUMNS, PATIENCE, Homes, served, waited
from home_world import CONSUMER, invite, make_owner, terms, write_policy
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from typer.testing import CliRunner

from likeset.app import cli
from likeset.app.console.home import home_console
from likeset.app.console.server import Listen, RunningConsole, new_link
from likeset.homes import review
from likeset.homes.owner import open_owner
from likeset.homes.runs import Run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDE, NARROW = {"width": 1200, "height": 900}, {"width": 400, "height": 860}
RUN = terms(expires="2099-01-01")
UNFOLD = "document.querySelectorAll('details').forEach((details) => { details.open = true; })"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    quiet = ("--no-sandbox", "--disable-sync", "--disable-gpu", "--no-first-run", "--disable-background-networking")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=quiet)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Homes]:
    with Homes(tmp_path_factory.mktemp("homes")) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = make_owner(tmp_path)
    with open_owner(made) as node:
        invite(node, RUN)
    return made


@contextmanager
def visited(chromium: Browser, folder: Path, **how: Any) -> Iterator[tuple[Page, RunningConsole]]:
    with home_console(folder, Listen()) as running, chromium.new_context(**how) as context:
        page = context.new_page()
        page.goto(running.link)
        yield page, running


def looked_at(page: Page, name: str) -> None:
    """A page is accessible, light and dark, folded open, and fits a telephone; with pictures where they are wanted."""
    if os.environ.get("LIKESET_REWRITE_IMAGES") and name in ("inbox", "run"):
        page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        page.evaluate("scrollTo(0, 0)")
        path = IMAGES / f"console-{name}-1200.png"
        page.screenshot(path=path)
        with Image.open(path) as picture:
            fewer = picture.quantize(64)
        fewer.save(path, optimize=True)
    page.evaluate(UNFOLD)
    for size in (NARROW, WIDE):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page)
            assert found.violations_count == 0, (name, scheme, size, found.generate_report())
        fits(page, name, size["width"])


def fits(page: Page, name: str, width: int) -> None:
    page.wait_for_load_state()  # before it, the stylesheet may be missing
    assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)


def decided(page: Page, choice: str, *, reason: str = "") -> None:
    page.get_by_label("Your name").first.fill("Ada Lovelace")
    if reason:
        page.get_by_label("Reason, if you deny it").fill(reason)
    page.get_by_role("button", name=f"{choice} …").click()
    expect(page.get_by_role("heading", name="Confirm", exact=True)).to_be_visible()


def test_a_stewards_whole_story(chromium: Browser, homes: Homes, tmp_path: Path) -> None:
    words = ("up", homes.steward, "--every", "0.5", "--mailbox", homes.mailbox.as_uri())
    with (
        served(*words, log=tmp_path / "log") as (_, link),
        chromium.new_context(viewport=WIDE) as context,  # type: ignore[arg-type]
    ):
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        troubles = list[str]()
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(link)
        looked_at(page, "first-start")
        _set_up(page, homes)
        _one_is_denied(page, homes)
        _one_is_approved(page, homes)
        _records(page)
        _approved(page, homes, "stroke-2026-08")
        decided(page, "Withdraw")
        looked_at(page, "withdraw")
        page.get_by_role("button", name="Yes, withdraw").click()
        expect(page.get_by_role("heading", name="Run stroke-2026-08 closed: you withdrew")).to_be_visible()
        looked_at(page, "withdrawn")
        page.get_by_role("link", name="Inbox").click()
        page.get_by_role("link", name="All runs").click()
        expect(page.get_by_text("closed: you withdrew")).to_be_visible()
        looked_at(page, "all-runs")
        shutil.move(homes.mailbox, homes.place / "away")
        expect(_reloaded(page).get_by_text("mailbox unreachable")).to_be_visible()
        looked_at(page, "unreachable")
        shutil.move(homes.place / "away", homes.mailbox)
        assert troubles == [], "the content policy forbids nothing that pages need"
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_text("You are not signed in")).to_be_visible()
    with open_owner(homes.steward) as node:
        assert review.verify(node)[0] == []
        kinds = [entry.kind for entry in node.ledger.entries() if entry.kind in ("denied", "approved", "withdrawn")]
        assert kinds == ["denied", "approved", "approved", "withdrawn"]


def _set_up(page: Page, homes: Homes) -> None:
    page.get_by_role("link", name="Rules", exact=True).first.click()
    rules = {"consumers": ["new-clinic"], "purposes": ["research*"], "columns": list(COLUMNS)}
    text = "\n".join(f"{name}: {json.dumps(words)}" for name, words in rules.items())
    limits = "per_run: {rows: 60}\ntotal: {rows: 200}\n"
    page.get_by_label("owner.yaml").fill(f"likeset: owner\nversion: 1\n{text}\n{limits}")
    page.get_by_label("Your name").fill("Ada Lovelace")
    page.get_by_role("button", name="Show the changes").click()
    expect(page.get_by_role("row", name="total.rows 0 200")).to_be_visible()
    page.get_by_role("button", name="Yes, apply them").click()
    expect(page.get_by_text("The rules are in force")).to_be_visible()
    looked_at(page, "rules")
    page.get_by_role("link", name="Data sets", exact=True).click()
    told = ["owner", "data", "add", "patients", str(homes.place / "st-mary.csv")]
    told += ["--schema", str(homes.place / "schema.yaml"), "--home", str(homes.steward)]
    assert CliRunner().invoke(cli.app, told).exit_code == 0
    page.reload()
    page.get_by_role("button", name="Check the rows of patients").click()
    expect(page.get_by_text("all 400 rows are as the schema declares")).to_be_visible()
    expect(page.get_by_role("region", name="Small groups of patients")).to_be_visible()
    looked_at(page, "data")
    for party, role in ((CONSUMER, "consumer"), ("curator", "curator")):
        file, fingerprint = homes.card_of(party)
        told = ["card", "pin", str(file), "--as", role, "--fingerprint", fingerprint, "--home", str(homes.steward)]
        assert CliRunner().invoke(cli.app, told).exit_code == 0
    page.get_by_role("link", name="Cards", exact=True).click()
    looked_at(page, "cards")
    page.get_by_role("link", name="Check", exact=True).click()
    page.get_by_role("button", name="Check now").click()
    expect(page.get_by_role("heading", name="Ready", exact=True)).to_be_visible()
    looked_at(page, "check")
    page.get_by_role("link", name="Inbox").click()
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()


def _arrived(page: Page, run: str) -> None:
    def is_there() -> bool:
        page.get_by_role("link", name="Reload").click()
        return page.get_by_role("link", name=run).count() == 1

    waited(is_there)


def _reloaded(page: Page) -> Page:
    def is_told() -> bool:
        page.get_by_role("link", name="Reload").click()
        return page.get_by_role("alert").count() > 0

    waited(is_told)
    return page


def _one_is_denied(page: Page, homes: Homes) -> None:
    homes.asks("billing-2026-06", "Research on billing")
    homes.others_look()
    _arrived(page, "billing-2026-06")
    page.get_by_role("link", name="billing-2026-06").click()
    decided(page, "Deny", reason="no contract yet")
    looked_at(page, "second-look")
    page.get_by_role("button", name="Yes, deny it").click()
    expect(page.get_by_text("Run billing-2026-06 is denied")).to_be_visible()
    page.get_by_role("link", name="Inbox").click()


def _one_is_approved(page: Page, homes: Homes) -> None:
    run = _approved(page, homes, "sepsis-2026-07")

    def receipt_came() -> bool:
        homes.others_look()
        with open_owner(homes.steward) as node:
            return homes.is_done(run) and node.mail.receipt(node.run(run.name)) is not None

    waited(receipt_came)


def _approved(page: Page, homes: Homes, name: str) -> Run:
    run = homes.asks(name, "Research on sepsis")
    homes.others_look()
    page.get_by_role("link", name="Inbox").click()
    _arrived(page, name)
    looked_at(page, "inbox")
    page.get_by_role("link", name=name).click()
    looked_at(page, "run")
    page.get_by_role("button", name="Show rows as they would leave").click()
    expect(page.get_by_text("sent and charged nothing.")).to_be_visible()
    looked_at(page, "trial")
    decided(page, "Approve")
    page.get_by_role("button", name="Yes, approve it").click()
    expect(page.get_by_text(f"Run {name} is approved, by Ada Lovelace")).to_be_visible()
    return run


def _records(page: Page) -> None:
    page.get_by_role("link", name="What was sent", exact=True).click()
    expect(page.get_by_role("row", name="sepsis-2026-07")).to_contain_text("yes")
    looked_at(page, "left-runs")
    page.get_by_role("link", name="sepsis-2026-07").click()
    expect(page.get_by_text("rows sent.")).to_be_visible()
    looked_at(page, "left")
    page.get_by_role("link", name="Budgets", exact=True).click()
    expect(page.get_by_role("heading", name="Charges")).to_be_visible()
    looked_at(page, "budgets")
    page.get_by_role("link", name="Log", exact=True).click()
    page.get_by_text("Verify the log").click()
    head = page.get_by_label("Current head").input_value()
    page.get_by_label("A head that you saved earlier").fill(head)
    page.get_by_role("button", name="Verify", exact=True).click()
    expect(page.get_by_text("the hash chain is intact")).to_be_visible()
    looked_at(page, "log")


def test_a_consumer_follows_its_runs(chromium: Browser, homes: Homes) -> None:
    """After the story above, whose run is done; before it, a run that waits."""
    runs = homes.consumer.runs()
    run = runs[1] if runs else homes.asks("sepsis-2026-07", "Research on sepsis")
    with (
        home_console(homes.place / CONSUMER, Listen()) as running,
        chromium.new_context(viewport=WIDE) as context,  # type: ignore[arg-type]
    ):
        page = context.new_page()
        page.goto(running.link)
        looked_at(page, "consumer")
        page.get_by_role("link", name="sepsis-2026-07").click()
        expect(page.get_by_role("heading", name="Replies")).to_be_visible()
        if homes.is_done(run):
            told = ["run", "report", "sepsis-2026-07", "--home", str(homes.place / CONSUMER)]
            assert CliRunner().invoke(cli.app, told).exit_code == 0
            page.reload()
            page.get_by_role("link", name="Open the report").click()
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            page.go_back()
        looked_at(page, "consumer-run")


def test_pages_beside_the_story_are_accessible(chromium: Browser, folder: Path) -> None:
    with visited(chromium, folder) as (page, running):
        for path in ("/?show=all", "/budgets", "/sent", "/log?about=run-1", "/run?name=none"):
            page.goto(f"{running.address}{path}")
            looked_at(page, "new-" + re.sub(r"\W+", "-", path))
        page.goto(f"{running.address}/rules")
        page.get_by_label("Your name").fill("Ada")
        page.get_by_label("owner.yaml").fill("likeset: owner\nversion: 9\n")
        page.get_by_role("button", name="Show the changes").click()
        expect(page.get_by_role("alert")).to_contain_text("owner.yaml, line 2")
        looked_at(page, "rules-wrong")
        page.goto(f"{running.address}/data")
        page.goto(f"{running.address}/run?name=run-1")
        decided(page, "Approve")
        write_policy(folder, purposes=["billing"])
        page.get_by_role("button", name="Yes, approve it").click()
        expect(page.get_by_role("alert")).to_contain_text("run-1")
        looked_at(page, "refused")
        page.goto(running.link)
        expect(page.get_by_role("heading", name="This link is not valid")).to_be_visible()
        looked_at(page, "used")
        page.goto("about:blank")
        page.set_content(f'<a href="{new_link(folder)}">in</a>')
        page.get_by_role("link", name="in").click()
        expect(page.get_by_role("heading", name="1 run waits for you")).to_be_visible()
