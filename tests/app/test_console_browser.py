"""A steward's whole story in Chromium: real homes, a folder as the mailbox, every page looked at by axe.

``LIKESET_REWRITE_IMAGES=1`` keeps the screenshots in docs/images.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from console_chromium import CHROMIUM, IMAGES, WIDE, accessible, launched, looked_at
from console_houses import COLUMNS, PATIENCE, Houses, served, waited
from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

from likeset.app import cli
from likeset.app.console.starting import ConsoleWishes, consumer_console
from likeset.homes import review
from likeset.homes.owner_node import OwnerNode, kept_receipt
from likeset.protocol.wire import Offer, decode

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Houses:
    return Houses(tmp_path_factory.mktemp("houses"))


def filled_in_rules(page: Page) -> None:
    page.get_by_role("link", name="Rules", exact=True).first.click()
    page.get_by_label("Who may ask").fill("new-clinic")
    page.get_by_label("What for").fill("research*")
    page.get_by_label("Columns").fill("\n".join(COLUMNS))
    for name, value in (("per_run", "60"), ("total", "200")):
        page.locator(f'[name="{name}.rows"]').fill(value)
    page.get_by_role("button", name="See what would change").first.click()
    expect(page.get_by_role("row", name="total.rows 0 200")).to_be_visible()
    page.get_by_role("button", name="Yes, put them in force").click()
    expect(page.get_by_text("The rules are in force")).to_be_visible()


def added_data(page: Page, houses: Houses) -> None:
    page.get_by_role("link", name="Data sets", exact=True).click()
    page.get_by_label("What you call it").fill("patients")
    page.get_by_label("Where its rows lie").fill(str(houses.place / "st-mary.csv"))
    page.get_by_label("Its schema").set_input_files(houses.place / "schema.yaml")
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("heading", name="patients", exact=True)).to_be_visible()


def pinned_card(page: Page, houses: Houses, party: str, role: str, *, folder: Path) -> None:
    file, fingerprint = houses.card_of(party)
    page.get_by_role("link", name="Cards", exact=True).click()
    page.get_by_label("The party's card").set_input_files(file)
    page.get_by_label("As what").select_option(role)
    page.get_by_role("button", name="Compare it").click()
    looked_at(page, "compare", folder=folder)
    page.get_by_label("What was read out").fill(fingerprint.lower())
    page.get_by_role("button", name=f"Pin it as {role}").click()
    expect(page.get_by_text("is pinned, by")).to_be_visible()


def decided(page: Page, choice: str, *, reason: str = "") -> None:
    if reason:
        page.get_by_label("Why (stays in this house)").fill(reason)
    page.get_by_role("button", name=f"{choice} …").click()
    expect(page.get_by_role("heading", name="A second look")).to_be_visible()


def test_a_stewards_whole_story(chromium: Browser, houses: Houses, tmp_path: Path) -> None:
    folder = IMAGES if os.environ.get("LIKESET_REWRITE_IMAGES") else tmp_path
    words = ("owner", "serve", "--console", "--every", "0.5", "--mailbox", houses.mailbox.as_uri())
    with (
        served(*words, "--node", houses.steward, log=tmp_path / "log") as (_, link),
        houses.others() as others_look,
        chromium.new_context(viewport=WIDE) as context,  # type: ignore[arg-type]
    ):
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        troubles = list[str]()
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        _set_up(page, houses, link, folder=folder)
        _one_is_denied(page, houses, others_look, folder=folder)
        _one_is_approved(page, houses, others_look, folder=folder)
        _records(page, houses, folder=folder)
        _withdrawn(page, folder=folder)
        assert troubles == [], "the content policy forbids nothing that pages need"
        _signed_out(page)
    with OwnerNode(houses.steward) as node:
        assert review.verify(node)[0] == []
        kinds = [entry.kind for entry in node.log.entries() if entry.kind in ("denied", "approved", "withdrawn")]
        assert kinds == ["denied", "approved", "withdrawn"]


def _set_up(page: Page, houses: Houses, link: str, *, folder: Path) -> None:
    page.goto(link)
    expect(page.get_by_role("heading", name="Before anybody can be answered")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    looked_at(page, "first-start", folder=folder)
    filled_in_rules(page)
    looked_at(page, "rules", folder=folder)
    added_data(page, houses)
    page.get_by_role("button", name="Look at the rows of patients").click()
    expect(page.get_by_text("all 400 rows are as the schema declares")).to_be_visible()
    expect(page.get_by_role("region", name="Small groups of patients")).to_be_visible()
    looked_at(page, "data", folder=folder)
    pinned_card(page, houses, "clinic", "consumer", folder=folder)
    pinned_card(page, houses, "curator", "curator", folder=folder)
    looked_at(page, "cards", folder=folder)
    page.get_by_role("link", name="Check", exact=True).click()
    page.get_by_role("button", name="Look now").click()
    expect(page.get_by_role("heading", name="Ready", exact=True)).to_be_visible()
    looked_at(page, "check", folder=folder)
    page.get_by_role("link", name="Inbox").click()
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()


def _one_is_denied(page: Page, houses: Houses, others_look: Any, *, folder: Path) -> None:
    houses.asks("billing-2026-06", "Research on billing")
    others_look()
    # Nobody reloads: the page hears of it.
    page.get_by_role("link", name="billing-2026-06").click()
    decided(page, "Deny", reason="no contract yet")
    looked_at(page, "second-look", folder=folder)
    page.get_by_role("button", name="Yes, deny it").click()
    expect(page.get_by_text("Run billing-2026-06 is denied")).to_be_visible()
    page.get_by_role("link", name="Inbox").click()


def _one_is_approved(page: Page, houses: Houses, others_look: Any, *, folder: Path) -> None:
    run = houses.asks("sepsis-2026-07", "Research on sepsis")
    others_look()
    expect(page.get_by_role("link", name="sepsis-2026-07")).to_be_visible(timeout=PATIENCE * 1000)
    looked_at(page, "inbox", folder=folder)
    page.get_by_role("link", name="sepsis-2026-07").click()
    looked_at(page, "run", folder=folder)
    page.get_by_role("button", name="Show rows as they would leave").click()
    expect(page.get_by_text("Nothing was sent or charged.")).to_be_visible()
    looked_at(page, "trial", folder=folder)
    page.locator("section[aria-labelledby=leaves]").screenshot(path=folder / "console-leaves.png")
    decided(page, "Approve")
    page.get_by_role("button", name="Yes, approve it").click()
    expect(page.get_by_text("Run sepsis-2026-07 is approved")).to_be_visible()

    def receipt_came() -> bool:
        others_look()
        with OwnerNode(houses.steward) as node:
            return houses.is_done(run) and kept_receipt(node, run.name) is not None

    waited(receipt_came)


def _row_found(page: Page, houses: Houses, *, folder: Path) -> None:
    """A buyer asks about a row by its handle, which tells nobody but its owner anything."""
    with OwnerNode(houses.steward) as node:
        (offer,) = (decode(message.data).body for message in review.messages_that_left(node, "sepsis-2026-07"))
    assert isinstance(offer, Offer)
    page.get_by_role("link", name="All that left").click()
    page.get_by_label("Its handle").fill(str(int(offer.handles[0])))
    page.get_by_role("button", name="Find it").click()
    expect(page.get_by_role("heading", name="Where it lies")).to_be_visible()
    looked_at(page, "left-row", folder=folder)


def _records(page: Page, houses: Houses, *, folder: Path) -> None:
    page.get_by_role("link", name="What left", exact=True).click()
    expect(page.get_by_role("row", name="sepsis-2026-07")).to_contain_text("yes")
    looked_at(page, "left-runs", folder=folder)
    page.get_by_role("link", name="sepsis-2026-07").click()
    expect(page.get_by_text("rows left.")).to_be_visible()
    looked_at(page, "left", folder=folder)
    _row_found(page, houses, folder=folder)
    page.get_by_role("link", name="Budgets", exact=True).click()
    expect(page.get_by_role("heading", name="Spent over time")).to_be_visible()
    looked_at(page, "budgets-over-time", folder=folder)
    page.get_by_role("link", name="Log", exact=True).click()
    head = page.get_by_label("Its head now").input_value()
    page.get_by_label("A head that you kept elsewhere").fill(head)
    page.get_by_role("button", name="Check the whole chain").click()
    expect(page.get_by_text("It holds")).to_be_visible()
    looked_at(page, "log", folder=folder)


def _withdrawn(page: Page, *, folder: Path) -> None:
    page.goto(page.url.split("/log")[0] + "/run?name=sepsis-2026-07")
    decided(page, "Withdraw")
    looked_at(page, "withdraw", folder=folder)
    page.get_by_role("button", name="Yes, withdraw").click()
    expect(page.get_by_role("heading", name="Run sepsis-2026-07 withdrawn")).to_be_visible()


def _signed_out(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are not signed in")).to_be_visible()


def test_a_steward_decides_without_javascript(chromium: Browser, tmp_path: Path) -> None:
    from card_world import introduce, signed_terms
    from node_world import make_node, terms

    from likeset.app.console.starting import owner_console

    run = terms(expires="2099-01-01")
    folder = make_node(tmp_path)
    introduce(folder, run)
    with OwnerNode(folder) as node:
        node.take_invitation(signed_terms(run))
    with (
        owner_console(folder, ConsoleWishes()) as started,
        chromium.new_context(java_script_enabled=False) as context,
    ):
        page = context.new_page()
        page.goto(started.link)
        page.get_by_role("link", name="run-1").click()
        decided(page, "Approve")
        page.get_by_role("button", name="Yes, approve it").click()
        expect(page.get_by_text("Run run-1 is approved")).to_be_visible()


def test_a_consumer_follows_its_runs(chromium: Browser, houses: Houses, tmp_path: Path) -> None:
    """After the story above, whose run is done; before it, a run that waits."""
    folder = IMAGES if os.environ.get("LIKESET_REWRITE_IMAGES") else tmp_path
    if not houses.consumer.runs():
        houses.asks("sepsis-2026-07", "Research on sepsis")
    with (
        consumer_console(houses.consumer, ConsoleWishes()) as started,
        chromium.new_context(viewport=WIDE) as context,  # type: ignore[arg-type]
    ):
        page = context.new_page()
        page.goto(started.link)
        looked_at(page, "consumer", folder=folder)
        page.get_by_role("link", name="sepsis-2026-07").click()
        expect(page.get_by_role("heading", name="Who has answered")).to_be_visible()
        if houses.is_done(houses.consumer.known("sepsis-2026-07")):
            page.get_by_role("button", name="Make the report").click()
            expect(page.get_by_role("link", name="The whole report")).to_be_visible()
            _same_as_commands(page, houses)
            _report(page, tmp_path)
        looked_at(page, "consumer-run", folder=folder)


def _same_as_commands(page: Page, houses: Houses) -> None:
    """The plain-text twin of the page has the same parties, states, rows and shares."""
    home = ["--home", str(houses.consumer.folder), "--json"]
    said = {
        command: json.loads(CliRunner().invoke(cli.app, ["run", command, "sepsis-2026-07", *home]).stdout)
        for command in ("watch", "report")
    }
    parties, owners = said["watch"]["parties"], said["report"]["owners"]
    assert (len(parties), len(owners)) == (3, 2)
    known, given = (page.get_by_role("table", name=name) for name in ("As far as is known here", "Who gave what"))
    for name, state in parties.items():
        expect(known.get_by_role("row", name=name)).to_contain_text(state)
    for owner in owners:
        line = f"{owner['name']} {owner['selected']} {100 * owner['share']:.0f}%"
        expect(given.get_by_role("row", name=line, exact=True)).to_be_visible()
    expect(page.get_by_text(f"{said['report']['rows_selected']} rows came.")).to_be_visible()


def _report(page: Page, folder: Path) -> None:
    """It comes without leave to run a script, so axe reads what came from a file."""
    page.get_by_role("link", name="The whole report").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    kept = folder / "report.html"
    kept.write_text(page.content())
    page.go_back()
    alone = page.context.new_page()
    alone.goto(kept.as_uri())
    accessible(alone, "report")
    alone.close()
