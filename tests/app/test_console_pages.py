"""The console's pages without a browser: each says what the command line says, and decisions are the owner's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from between_world import Market
from console_world import ADDRESS, Browser, signed_in, signed_in_at
from home_world import CANARY, SCHEMA_OF_ALL, Clock, answer, invite, logged, make_owner, pin, terms
from typed import document

from likeset.app.console import owner
from likeset.app.console.home import console_of
from likeset.app.console.server import LoopState, application
from likeset.homes.home import make_home, utc_now
from likeset.homes.owner import Owner, open_owner
from likeset.protocol.terms import Kernel, SplitTerms
from likeset.transports.sync import Synced
from likeset.trust.cards import Role
from screens import Screens

FAR: dict[str, Any] = {"expires": "2099-01-01"}
RUN = terms(**FAR)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Owner]:
    """A home that knows everybody, with a run in its inbox."""
    with open_owner(make_owner(tmp_path)) as opened:
        invite(opened, RUN)
        yield opened


@pytest.fixture
def ada(node: Owner) -> Browser:
    return signed_in(node)


def answer_elsewhere(node: Owner) -> None:
    """The process at the mailbox answers run-1; the console's process shows it."""
    with open_owner(node.home.folder) as other:
        answer(other, RUN)


def said(node: Owner, *words: str) -> Any:
    return document(*words, home=node.home.folder)


def head(node: Owner) -> int:
    return node.ledger.head().number


@pytest.mark.parametrize(
    ("roles", "title", "menu"),
    [(("consumer", "curator"), "Your runs", ["Runs", "Check"]), (("witness",), "Check everything", ["Check"])],
)
def test_a_home_without_rows_has_the_pages_of_its_roles(
    tmp_path: Path, roles: tuple[Role, ...], title: str, menu: list[str]
) -> None:
    with make_home(tmp_path / "home", name="clinic", roles=roles) as home:
        console = console_of(home)
        browser = signed_in_at(application(console, ADDRESS), console)
        assert title in browser.get("/").words
        assert [words for _, words in console.menu] == menu
        assert browser.post("/check").status == 200


def test_looking_writes_nothing(node: Owner, ada: Browser) -> None:
    before = head(node)
    queries = {"/run": "?name=run-1"}
    for path in (*owner.PAGES, "/?show=all", "/sent?run=run-1"):
        assert ada.get(f"{path}{queries.get(path, '')}").status == 200, path
    assert head(node) == before


def test_a_run_is_approved_after_a_second_look_and_what_left_is_shown(node: Owner, ada: Browser) -> None:
    assert ada.post("/trial", {"run": "run-1", "by": "Ada"}).status == 200
    assert [entry["basis"] for entry in logged(node.home, "rehearsed")] == ["an example"]
    answer = ada.decide("approve")
    assert (answer.status, answer.header("location")) == (303, "/run?name=run-1")
    assert "Run run-1 is approved, by Ada" in ada.get("/run?name=run-1").words
    assert "Run run-1 is approved" not in ada.get("/run?name=run-1").words, "it is told once"
    assert [(entry["by"], entry["data"]) for entry in logged(node.home, "approved")] == [("Ada", "patients")]
    assert [entry["by"] for entry in logged(node.home, "reviewed")] == ["Ada"]
    assert not said(node, "owner", "dry-run", "run-1")["sent"]
    answer_elsewhere(node)
    assert said(node, "owner", "dry-run", "run-1")["sent"]
    assert 'class="notice"' in ada.post("/log").text, "it is verified"
    page = ada.get("/run?name=run-1")
    assert 'value="approve"' not in page.text, "it has begun: nobody can approve or deny it any more"
    assert ada.decide("withdraw").status == 303
    assert node.run("run-1").state == "cancelled"


def test_the_decider_must_be_named_and_is_remembered_in_this_browser(node: Owner, ada: Browser) -> None:
    assert ada.get("/run?name=run-1").field("by") == "", "nobody is decided for by the name of a system account"
    form = ada.form("approve")
    for name in ("", " ", "a\nb", "a\u202eb", "a\u200bb", "x" * 129):
        assert ada.post("/decide", {**form, "by": name, "sure": "yes"}).status == 400, repr(name)
    assert logged(node.home, "approved") == []
    assert ada.post("/decide", {**form, "by": "Ada Lovelace"}).status == 200
    assert ada.get("/run?name=run-1").field("by") == "Ada Lovelace"
    assert signed_in(node).get("/run?name=run-1").field("by") == ""


def test_a_denial_needs_a_reason_which_stays_here(node: Owner, ada: Browser) -> None:
    assert ada.post("/decide", ada.form("deny")).status == 400
    assert ada.decide("deny", reason="no contract yet").status == 303
    (entry,) = logged(node.home, "denied")
    assert (entry["by"], entry["reason"]) == ("Ada", "no contract yet")


def test_of_two_who_decide_one_wins_and_the_other_is_told(node: Owner, ada: Browser) -> None:
    bob = signed_in(node)
    form = bob.form("deny", by="Bob", reason="never")
    assert bob.post("/decide", form).status == 200
    ada.decide("approve")
    told = bob.post("/decide", {**form, "sure": "yes"})
    assert told.status == 409
    assert logged(node.home, "denied") == []
    assert bob.post("/decide", {**form, "choice": "withdraw", "sure": "yes"}).status == 409
    assert node.run("run-1").decided == "approved"


def test_other_terms_than_those_that_came_are_not_approved(node: Owner, ada: Browser) -> None:
    form = {**ada.form("approve"), "digest": terms(**FAR, size=5).digest}
    assert ada.post("/decide", {**form, "sure": "yes"}).status == 400
    assert logged(node.home, "approved") == []


def test_rules_are_checked_shown_and_then_put_in_force(node: Owner, ada: Browser) -> None:
    text = (node.home.folder / "owner.yaml").read_text()
    form = {"by": "Ada", "seen": ada.get("/rules").field("seen"), "text": text.replace("rows: 36", "rows: 50")}
    wrong = ada.post("/rules", {**form, "text": text.replace("rows: 36", "rows: many")})
    assert wrong.status == 400
    assert "rows: many" in wrong.text, "what was written stays"
    look = ada.post("/rules", form)
    assert node.policy.total.rows == 36, "nothing is in force before somebody is sure"
    put = {"by": "Ada", "seen": look.field("seen"), "text": look.field("text"), "sure": "yes"}
    assert ada.post("/rules", put).status == 303
    assert node.policy.total.rows == 50
    assert [entry.get("by") for entry in logged(node.home, "policy")][-1] == "Ada"
    assert ada.post("/rules", put).status == 409, "another text stood there when this was written"


# What a monitor reads.


def test_a_monitor_reads_counts_without_signing_in_and_no_names(node: Owner) -> None:
    loop = LoopState(mailboxes=1)
    loop.add(Synced(taken=2, sent=1, troubles={"file:///away": "is away"}))
    browser = Browser(application(console_of(node.home, loop), ADDRESS))
    health, metrics = browser.get("/healthz"), browser.get("/metrics")
    assert (health.status, json.loads(health.body)["unreachable_mailboxes"]) == (200, 1)
    assert metrics.status == 200
    assert 'likeset_letters_total{way="in"} 2.0' in metrics.text
    assert 'likeset_runs{state="waiting"} 1.0' in metrics.text
    for secret in ("run-1", RUN.consumer, CANARY, "away"):
        assert secret not in metrics.text + health.text
    loop.last_check = 0.0
    assert browser.get("/healthz").status == 503
    assert browser.get("/").status == 401


def test_the_public_address_shows_a_monitor_nothing(node: Owner) -> None:
    app = application(console_of(node.home), ADDRESS, "https://console.example.org")
    for path in ("/healthz", "/metrics"):
        assert Browser(app).get(path, host="console.example.org").status == 404
        assert Browser(app).get(path).status == 200


# What the pages say: one snapshot for each.


def test_pages_of_an_owner(screens: Screens) -> None:
    run = terms(**FAR, offers="uniform")
    home = make_owner(screens.folder, rare=3, smallest_group=4)
    (home / "key").write_text("ab" * 32)  # which rows are offered depends on it
    with open_owner(home) as node:
        console = console_of(node.home, loop := LoopState(mailboxes=1))
        ada = signed_in_at(application(console, ADDRESS), console)
        invite(node, run)
        loop.add(Synced(troubles={"file:///shared": "is away"}))
        screens.page("inbox", ada.get("/"))
        loop.add(Synced())
        first = screens.page("run", ada.get("/run?name=run-1"))
        for choice in ("approve", "deny"):
            screens.page(choice, ada.post("/decide", ada.form(choice, reason="no contract yet")))
        screens.page("dry run", ada.post("/trial", {"run": "run-1", "by": "Ada"}), beside=first)
        pin(node.home, "witness", "witness")
        kernel = Kernel(columns=SCHEMA_OF_ALL.width, dimension=16, gamma=0.4, seed=7, largest=10.0)
        invite(node, terms(**FAR, run="split-1", split=SplitTerms("ab" * 32, 6, gamma=0.3), kernel=kernel))
        screens.page("split run", ada.get("/run?name=split-1"), beside=first)
        screens.page("inbox with a split run", ada.get("/"))
        bob = signed_in(node)
        form = bob.form("deny", by="Bob", reason="never")
        ada.decide("approve")
        screens.page("somebody else decided", bob.post("/decide", {**form, "sure": "yes"}), status=409)
        with open_owner(node.home.folder) as other:
            answer(other, run)
        loop.last_check = 0.0
        screens.page("run that began", ada.get("/run?name=run-1"), beside=first)
        loop.add(Synced())
        for page in ("budgets", "log", "rules", "cards"):
            screens.page(page, ada.get(f"/{page}"))
        screens.page("rows sent", ada.get("/sent?run=run-1"))
        screens.page("data check", ada.post("/data/check", {"name": "patients"}))
        screens.page("check", ada.post("/check"))
        text = (node.home.folder / "owner.yaml").read_text()
        form = {"by": "Ada", "seen": ada.get("/rules").field("seen"), "text": text.replace("rows: 36", "rows: 50")}
        screens.page("rules changed", ada.post("/rules", form))
        screens.page("rules wrong", ada.post("/rules", {**form, "text": "rows: many"}), status=400)
        screens.page("no such run", ada.get("/run?name=nosuch"), status=400)
        screens.page("not signed in", Browser(ada.app).get("/"), status=401)


@pytest.mark.usefixtures("without_figures")
def test_pages_of_a_consumer(screens: Screens) -> None:
    with Market(screens.folder, clock=Clock(utc_now())) as market:
        run = market.invite(price_per_row=2.5, currency="EUR")
        console = console_of(market.consumer.home, LoopState(mailboxes=1))
        ada = signed_in_at(application(console, ADDRESS), console)
        screens.page("runs", ada.get("/"))
        market.hold(run)
        screens.page("run", ada.get("/runs/run?name=run-1"))
