"""The steward's console without a browser: each page says what the command line says, and decisions are the node's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from card_world import introduce, secret_of, signed_terms
from console_world import Browser, opened_console, signed_in
from node_world import SCHEMA, held, logged, make_node, rows_text, terms
from typer.testing import CliRunner

from likeset.app import cli
from likeset.app.console.owner_desk import OwnerDesk
from likeset.homes.owner_node import OwnerNode, make_home
from likeset.protocol.terms import Terms
from likeset.trust.cards import Pins

FAR: dict[str, Any] = {"expires": "2099-01-01"}
RUN = terms(**FAR)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OwnerDesk]:
    """A console of a node that knows everybody, with a run in its inbox."""
    folder = make_node(tmp_path)
    introduce(folder, RUN)
    with opened_console(folder) as opened:
        yield opened


@pytest.fixture
def ada(desk: OwnerDesk) -> Browser:
    browser = signed_in(desk)
    browser.post("/add", {}, files={"invitation": signed_terms(RUN)})
    return browser


def said(desk: OwnerDesk, *words: str) -> Any:
    """What the command line says of the same node."""
    arguments = ["owner", *words, "--json", "--node", str(desk.node.home.folder)]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def decided(browser: Browser, choice: str, **more: str) -> Any:
    """Both looks at a decision, as one who reads the page sends them."""
    page = browser.get("/run?name=run-1")
    form = {"run": "run-1", "choice": choice, "by": "Ada", "digest": page.field("digest"), "seen": page.field("seen")}
    look = browser.post("/decide", {**form, **more})
    assert look.status == 200, look.words
    assert "A second look" in look.words
    return browser.post("/decide", {**form, **more, "sure": "yes"})


def test_every_page_has_its_twin_in_the_command_line(desk: OwnerDesk, ada: Browser) -> None:
    review = said(desk, "review", "run-1")
    shown = ada.get("/run?name=run-1").words
    for question, answer in review["answers"].items():
        assert question in shown
        assert " ".join(answer.split()) in shown
    assert "nothing to other owners in this run" in shown
    for party in review["parties"]:
        assert party["fingerprint"].replace("-", " ") in shown
    (run,) = said(desk, "inbox")["runs"]
    inbox = ada.get("/").words
    assert "1 run waits for you" in inbox
    assert run["consumer"] in inbox
    assert run["purpose"] in inbox
    (listed,) = said(desk, "data", "list")["data"]
    data = ada.get("/data").words
    assert listed["source"] in data
    assert all(name in data and kind in data for name, kind in listed["columns"].items())
    log = ada.get("/log")
    assert said(desk, "audit", "verify")["head"] in log.text
    for entry in said(desk, "audit", "list")["entries"]:
        assert entry["kind"] in log.words
    assert said(desk, "policy", "show")["mark"] == ada.get("/rules").field("seen")


def test_looking_writes_nothing(desk: OwnerDesk, ada: Browser) -> None:
    before = desk.version()
    for path in (
        "/",
        "/?show=all",
        "/run?name=run-1",
        "/budgets",
        "/data",
        "/left",
        "/log",
        "/rules",
        "/cards",
        "/check",
    ):
        assert ada.get(path).status == (400 if path == "/run" else 200), path
    assert desk.version() == before


def test_a_run_is_approved_after_a_second_look_and_what_left_is_shown(
    desk: OwnerDesk, ada: Browser, tmp_path: Path
) -> None:
    trial = ada.post("/trial", {"run": "run-1", "by": "Ada"})
    assert "5 rows as an example" in trial.words
    answer = decided(ada, "approve")
    assert (answer.status, answer.header("location")) == (303, "/run?name=run-1")
    assert [(entry["by"], entry["data"]) for entry in logged(desk.node, "approved")] == [("Ada", "patients")]
    assert [entry["by"] for entry in logged(desk.node, "reviewed")] == ["Ada"]
    with OwnerNode(desk.node.home.folder) as other:  # the mailbox's process answers, and this one shows it
        held(RUN, {"a": other}, tmp_path / "curator")
    left = ada.get("/left?run=run-1").words
    assert "12 rows left" in left
    assert "offer" in left
    (told,) = said(desk, "outbox")["runs"]
    times = [told[name][:16].replace("T", " ") for name in ("first", "last")]
    assert f"run-1 new-clinic {times[0]} {times[1]} {told['messages']} 12 no" in ada.get("/left").words
    assert "12 of 36 spent" in ada.get("/budgets").words
    assert "It holds" in ada.post("/log", {}).words
    page = ada.get("/run?name=run-1")
    assert "rows left" in page.words
    assert 'value="approve"' not in page.text, "it has begun: nobody can approve or deny it any more"
    assert decided(ada, "withdraw").status == 303
    assert desk.node.record_of("run-1").withdrawn is not None


def test_a_denial_needs_a_reason_which_stays_here(desk: OwnerDesk, ada: Browser) -> None:
    page = ada.get("/run?name=run-1")
    form = {"run": "run-1", "choice": "deny", "by": "Ada", "digest": page.field("digest"), "seen": page.field("seen")}
    assert ada.post("/decide", form).status == 400
    assert decided(ada, "deny", reason="no contract yet").status == 303
    (entry,) = logged(desk.node, "denied")
    assert (entry["by"], entry["reason"]) == ("Ada", "no contract yet")
    assert "no contract yet" in ada.get("/run?name=run-1").words


def test_of_two_who_decide_at_once_one_wins_and_the_other_is_told(desk: OwnerDesk, ada: Browser) -> None:
    bob = signed_in(desk, "Bob")
    page = bob.get("/run?name=run-1")
    form = {"run": "run-1", "by": "Bob", "digest": page.field("digest"), "seen": page.field("seen")}
    assert bob.post("/decide", {**form, "choice": "deny", "reason": "never"}).status == 200
    decided(ada, "approve")
    told = bob.post("/decide", {**form, "choice": "deny", "reason": "never", "sure": "yes"})
    assert told.status == 409
    assert "approved by Ada" in told.words
    assert logged(desk.node, "denied") == []
    assert bob.post("/decide", {**form, "choice": "withdraw", "sure": "yes"}).status == 409
    assert desk.node.record_of("run-1").withdrawn is None


def test_terms_that_change_while_somebody_reads_are_not_approved(desk: OwnerDesk, ada: Browser) -> None:
    page = ada.get("/run?name=run-1")
    form = {
        "run": "run-1",
        "choice": "approve",
        "by": "Ada",
        "digest": page.field("digest"),
        "seen": page.field("seen"),
    }
    desk.node.take_invitation(signed_terms(terms(**FAR, size=5)))
    assert ada.post("/decide", {**form, "sure": "yes"}).status == 409
    assert ada.post("/decide", form).status == 400
    assert logged(desk.node, "approved") == []


def test_what_the_rules_refuse_is_not_approved(desk: OwnerDesk, ada: Browser) -> None:
    from node_world import write_policy

    write_policy(desk.node.home.folder, "a", purposes=["billing"])
    assert "Your rules refuse it" in ada.get("/run?name=run-1").words
    answer = decided(ada, "approve")
    assert answer.status == 409
    assert "the purpose is not among the purposes" in answer.words
    assert logged(desk.node, "approved") == []


def test_rules_are_checked_shown_and_then_put_in_force(desk: OwnerDesk, ada: Browser) -> None:
    page = ada.get("/rules")
    form = {"how": "form", "by": "Ada", "seen": page.field("seen"), "manual_approval": "yes", "total.rows": "50"}
    look = ada.post("/rules", form)
    assert "total.rows 36 50" in look.words
    assert desk.node.policy.total.rows == 36, "nothing is in force before somebody is sure"
    put = {"how": "text", "by": "Ada", "seen": look.field("seen"), "text": look.field("text"), "sure": "yes"}
    assert ada.post("/rules", put).status == 303
    assert desk.node.policy.total.rows == 50
    assert [entry.get("by") for entry in logged(desk.node, "policy")][-1] == "Ada"
    late = ada.post("/rules", put)
    assert late.status == 409, "another text stood there when this was written"
    wrong = ada.post("/rules", {**form, "total.rows": "many"})
    assert wrong.status == 400
    assert "total.rows" in wrong.words
    other_name = ada.post("/rules", {**put, "text": look.field("text").replace('name: "a"', 'name: "b"')})
    assert other_name.status == 400
    assert "a node keeps its name" in other_name.words


def test_data_sets_are_added_and_removed_unless_a_run_uses_them(desk: OwnerDesk, ada: Browser, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(rows_text(2))
    fields = {"name": "more", "source": str(tmp_path / "more.csv"), "by": "Ada"}
    assert ada.post("/data/add", fields, files={"schema": SCHEMA.encode()}).status == 303
    assert desk.node.registry.names() == ["more", "patients"]
    assert [entry["by"] for entry in logged(desk.node, "data")] == ["Ada"]
    assert ada.post("/data/remove", {"name": "more", "by": "Ada"}).status == 200
    assert desk.node.registry.names() == ["more", "patients"]
    assert ada.post("/data/remove", {"name": "more", "by": "Ada", "sure": "yes"}).status == 303
    assert desk.node.registry.names() == ["patients"]
    decided(ada, "approve")
    refused = ada.post("/data/remove", {"name": "patients", "by": "Ada", "sure": "yes"})
    assert refused.status == 400
    assert "run-1" in refused.words
    assert desk.node.registry.names() == ["patients"]
    wrong = ada.post("/data/add", {**fields, "name": "wrong"}, files={"schema": b"likeset: schema\nversion: 9\n"})
    assert wrong.status == 400
    assert "schema.yaml" in wrong.words
    assert str(desk.node.home.folder) not in wrong.words
    assert not list((desk.node.home.folder / "console").glob("upload-*")), "an upload does not stay"


def test_a_card_is_pinned_only_with_the_fingerprint_that_was_read_out(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    make_home(folder, name="new")
    card = secret_of("new-clinic").card
    with opened_console(folder) as desk:
        ada = signed_in(desk)
        assert "Pin the card of a consumer and of a curator" in ada.get("/").words
        look = ada.post("/cards/compare", {"role": "consumer", "by": "Ada"}, files={"card": card.to_text().encode()})
        assert card.fingerprint.replace("-", " ") in look.words
        form = {"card": look.field("card"), "role": "consumer", "by": "Ada", "follows": "no"}
        other = secret_of("curator").card.fingerprint
        for heard in ("", "yes", other):
            assert ada.post("/cards/pin", {**form, "fingerprint": heard}).status == 400
        assert Pins(folder / "cards").all() == ()
        assert ada.post("/cards/pin", {**form, "fingerprint": card.fingerprint}).status == 303
        assert [entry["by"] for entry in logged(desk.node, "card")] == ["Ada"]
        revoke = {"fingerprint": card.fingerprint, "reason": "stolen", "by": "Ada"}
        assert "It never counts again" in ada.post("/cards/revoke", revoke).words
        assert ada.post("/cards/revoke", {**revoke, "sure": "yes"}).status == 303
        (pin,) = Pins(folder / "cards").all()
        assert (pin.state, pin.reason) == ("revoked", "stolen")


def test_long_lists_come_in_pages(desk: OwnerDesk, ada: Browser) -> None:
    for number in range(20):
        desk.node.add_invitation(_invitation(terms(**FAR, run=f"more-{number:02d}")))
    first, second = ada.get("/"), ada.get("/?page=2")
    assert "21 runs wait for you" in first.words
    assert "Page 1 of 2" in first.words
    assert "more-19" in second.words
    assert "more-19" not in first.words
    assert ada.get("/?page=999").words == second.words
    assert ada.get("/?page=-1").status == 200


def _invitation(run: Terms) -> Any:
    from likeset.homes.mail import Invitation

    return Invitation.read(signed_terms(run))
