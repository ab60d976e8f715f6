"""Pages for what the command line does besides: a look at rows, trying rules, mailboxes, releases, cards, who reads."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_world import cards_of, introduce, secret_of, signed_terms
from console_world import Browser, opened_console, signed_in
from node_world import CANARY, SCHEMA_OF_ALL, logged, make_node, terms, write_policy
from typer.testing import CliRunner

from likeset.app import cli
from likeset.app.console.owner_desk import OwnerDesk
from likeset.homes.review import review
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Kernel, SplitTerms, Terms
from likeset.trust.cards import Pins, card_in

FAR: dict[str, Any] = {"expires": "2099-01-01"}
RUN = terms(**FAR)


def split_terms() -> Terms:
    """The same run with a split curator."""
    names = ("new-clinic", CURATOR, "a", "b", "witness")
    kernel = Kernel(columns=SCHEMA_OF_ALL.width, dimension=16, gamma=0.4, seed=7, largest=10.0)
    split = SplitTerms("ab" * 32, 6, gamma=0.3)
    return terms(**FAR, run="split-1", split=split, kernel=kernel, cards=cards_of(*names))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OwnerDesk]:
    folder = make_node(tmp_path, rare=3, smallest_group=4, witnesses=["*"])
    introduce(folder, RUN)
    Pins(folder / "cards").pin(secret_of("witness").card, "witness", fingerprint=None)
    with opened_console(folder) as opened:
        yield opened


@pytest.fixture
def ada(desk: OwnerDesk) -> Browser:
    return signed_in(desk)


def command(desk: OwnerDesk, *words: str) -> str:
    """What a command of the same node prints, on one line."""
    result = CliRunner().invoke(cli.app, ["owner", *words, "--node", str(desk.node.home.folder)])
    return " ".join(result.output.split())


def test_a_data_set_is_looked_at_with_its_small_groups(desk: OwnerDesk, ada: Browser) -> None:
    assert "Rows in groups of fewer than 4 are never offered." in ada.get("/data").words
    before = desk.version()
    page = ada.post("/data/look", {"name": "patients"})
    assert "3 rows are in groups of fewer than 4 and are never offered" in page.words
    assert f"sex {CANARY} 3" in page.words
    assert desk.version() == before, "to look writes nothing into the log, least of all a value"
    told = command(desk, "data", "check", "patients")
    assert "3 rows are in groups of fewer than 4 and are never offered" in told
    assert CANARY in told
    assert ada.post("/data/look", {"name": "nosuch"}).status == 400


def test_rules_are_tried_on_an_invitation_and_nothing_is_written(desk: OwnerDesk, ada: Browser) -> None:
    before = desk.version()
    allowed = ada.post("/rules/try", {}, files={"invitation": signed_terms(RUN)})
    assert "Yes : the rules allow it" in allowed.words
    assert "rows that leave: 0 spent, 12 by this run, 36 in all" in allowed.words
    write_policy(desk.node.home.folder, "a", purposes=["billing"])
    refused = ada.post("/rules/try", {}, files={"invitation": signed_terms(RUN)})
    assert "the purpose is not among the purposes" in refused.words
    other = ada.post("/rules/try", {}, files={"invitation": signed_terms(terms(**FAR, owners=("b", "c")))})
    assert "is not among the owners that the terms invite" in other.words
    for content in (b"x", b"\x00" * 5000, signed_terms(RUN)[:-3]):
        assert ada.post("/rules/try", {}, files={"invitation": content}).status == 400
    assert ada.post("/rules/try", {}).status == 400
    assert desk.version() == before
    assert desk.node.runs.by_name == {}


def test_the_form_of_rules_has_every_rule(desk: OwnerDesk, ada: Browser) -> None:
    """A limit of readable rows is set, and taken away by leaving its field empty; only the name has no field."""
    page = ada.get("/rules")
    fields = {field for field in desk.node.policy.model_dump() if f'name="{field}' in page.text}
    assert set(desk.node.policy.model_dump()) - fields == {"likeset", "version", "name"}
    form = {"how": "form", "by": "Ada", "manual_approval": "yes"}
    for words, most in (("5", 5), ("", None)):
        look = ada.post("/rules", {**form, "seen": ada.get("/rules").field("seen"), "total.readable": words})
        put = {"how": "text", "by": "Ada", "seen": look.field("seen"), "text": look.field("text"), "sure": "yes"}
        assert ada.post("/rules", put).status == 303
        assert desk.node.policy.total.readable == most
    assert ada.post("/rules", {**form, "seen": "x", "total.readable": "many"}).status == 400


def test_mailboxes_are_looked_into_by_a_button(desk: OwnerDesk, ada: Browser, tmp_path: Path) -> None:
    assert ada.post("/mail", {}).status == 400, "the rules name none"
    assert "Look into the mailboxes" not in ada.get("/").words
    (tmp_path / "box").mkdir()
    write_policy(desk.node.home.folder, "a", mailboxes=[(tmp_path / "box").as_uri(), (tmp_path / "none").as_uri()])
    assert "Look into the mailboxes" in ada.get("/").words
    assert ada.post("/mail", {}).status == 303
    told = ada.get("/").words
    assert "Looked into the mailboxes: nothing new." in told
    assert "Trouble:" in told


def test_a_trial_with_the_release_shows_the_rows_that_would_leave(desk: OwnerDesk, ada: Browser) -> None:
    ada.post("/add", {}, files={"invitation": signed_terms(RUN)})
    release, saved = np.linspace(-0.1, 0.1, RUN.kernel.dimension), io.BytesIO()
    np.save(saved, release)
    text = "\n".join(map(repr, release.tolist())).encode()
    shown = []
    for content in (saved.getvalue(), text):
        page = ada.post("/trial", {"run": "run-1", "by": "Ada"}, files={"release": content})
        assert "Exactly these rows would leave, for the release in the file" in page.words
        shown.append(page.words.partition("Columns that leave")[2].partition("Exactly")[0])
    assert shown[0] == shown[1]
    claims = saved.getvalue().replace(
        b"(16,)", b"(99999999999,)".ljust(5)
    )  # a header that claims far more than is there
    for content in (b"words", b"1\n2\n", claims, b"\x93NUMPY", b"\x93NUMPY\x01\x00"):
        answer = ada.post("/trial", {"run": "run-1", "by": "Ada"}, files={"release": content})
        assert answer.status == 400, content[:20]
        assert str(desk.node.home.folder) not in answer.words
    assert [entry["basis"] for entry in logged(desk.node, "rehearsed")] == ["the release in the file"] * 2


def test_the_own_card_can_be_kept_and_has_no_secret(desk: OwnerDesk, ada: Browser) -> None:
    answer = ada.get("/cards/own")
    assert answer.header("content-disposition") == 'attachment; filename="a.card"'
    assert card_in("the download", answer.text) == desk.node.home.card()
    assert (desk.node.home.folder / "card.secret").read_text().split()[-1] not in answer.text


def test_a_split_run_says_who_may_read_what_and_what_a_trusted_curator_would(desk: OwnerDesk, ada: Browser) -> None:
    """Twelve rows are offered in shares; the consumer may read the six that it can buy; the witness's card is shown."""
    run = split_terms()
    desk.node.take_invitation(signed_terms(run))
    page = ada.get(f"/run?name={run.run}").words
    assert "12 of your rows are offered, at most in shares, which tell nothing alone" in page
    assert "6 of these may be read by one party the consumer, those that it buys" in page
    assert "consumer 6 those that it buys" in page
    assert "curator 0 none: shares, which tell nothing alone" in page
    assert "witness 0 none: shares" in page
    assert secret_of("witness").card.fingerprint.replace("-", " ") in page
    assert "if all parties follow the protocol" in page
    assert "What if the curator were trusted? The curator alone would read all 12 rows" in page
    assert "one party reads 6 at most" in ada.get("/").words
    looked = review(desk.node, run.run)
    assert {reader.role: reader.rows for reader in looked.readers}["consumer"] == looked.accounts.read_of_run == 6
    told = command(desk, "review", run.run)
    assert "What if the curator were trusted?" in told
    assert "if all parties follow the protocol" in " ".join(told.split())


def test_a_trusted_run_says_what_a_split_curator_would_change(desk: OwnerDesk, ada: Browser) -> None:
    desk.node.take_invitation(signed_terms(RUN))
    page = ada.get("/run?name=run-1").words
    assert "The curator may read all of them." in page
    assert "curator 12 every row that you offer" in page
    assert "consumer 6 those that it buys" in page
    assert "What if the curator were split? Then nobody but the consumer would read a row" in page
    assert "the curator reads all" in ada.get("/").words
