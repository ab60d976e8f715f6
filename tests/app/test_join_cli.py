"""``likeset invite`` and ``likeset join`` as people type them."""

import shlex
from pathlib import Path

import pytest
from home_world import signed_terms, terms
from typed import document as run
from typed import mistake
from typer.testing import CliRunner

from likeset.app.cli import app
from likeset.homes.home import Home
from likeset.homes.policy import Policy
from screens import Screens

SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 120]}
label: {column: sick, kind: category, values: ["no", "yes"]}
"""
RULES = """\
likeset: owner
version: 1
consumers: [clinic]
purposes: [care]
columns: [age, sick]
per_run: {rows: 20}
total: {rows: 50}
"""


@pytest.fixture
def clinic(folder: Path) -> str:
    Path("mailbox").mkdir()
    Path("schema.yaml").write_text(SCHEMA)
    Path("rules.yaml").write_text(RULES)
    mailbox = f"file://{folder}/mailbox"
    roles = ("--role", "consumer", "--role", "curator")
    run("init", "clinic", "--name", "clinic", *roles, "--schema", "schema.yaml", "--mailbox", mailbox)
    return mailbox


def test_an_organisation_joins_with_one_file_and_one_call(clinic: str) -> None:
    invited = run("invite", "st-mary", "--rules", "rules.yaml", "--home", "clinic")
    assert invited["file"] == "st-mary.invite"
    assert run("invite", "st-mary", "--home", "clinic")["invitation"] == invited["invitation"]  # continues
    waiting = run("join", "st-mary.invite", "--mailbox", clinic, code=1)
    assert waiting["state"] == "waiting for words"
    assert waiting["reply"] == "sent by mailbox"
    (listed,) = run("invite", "--home", "clinic")["invitations"]
    assert listed["state"] == "replied"
    (words,) = listed["words"]
    joined = run("join", "st-mary.invite", "--mailbox", clinic, "--words", words)
    assert [(pin["name"], pin["role"]) for pin in joined["pinned"]] == [
        ("clinic", "consumer"),
        ("clinic-curator", "curator"),
    ]
    run("invite", "st-mary", "--words", words, "--home", "clinic")
    assert run("invite", "--home", "clinic")["invitations"][0]["state"] == "joined"
    assert run("join", "st-mary.invite")["state"] == "joined"  # again: nothing to do
    with Home(Path("st-mary")) as home:
        assert home.settings.mailboxes == (clinic,)
        policy = Policy.load(home.policy_file)
        assert (policy.per_run.rows, policy.manual_approval) == (20, True)
        assert (home.folder / "schema.yaml").read_text() == SCHEMA


def test_screens(clinic: str, screens: Screens, monkeypatch: pytest.MonkeyPatch) -> None:
    words, home = "abandon ability able about above absent absorb abstract", Path("clinic")
    monkeypatch.setattr("likeset.homes.joining.Invitation.words", lambda *_: tuple(words.split()))
    screens.show("invite", "invite", "st-mary", "--rules", "rules.yaml", home=home)
    screens.show("join without a mailbox", "join", "st-mary.invite", code=1)
    run("join", "st-mary.invite", "--mailbox", clinic, code=1)
    screens.show("invitations", "invite", home=home)
    confirm, wrong = "invite st-mary --words", " ".join(["zoo"] * 8)
    commands = [f"{confirm} '{wrong}'", f"{confirm} '{'yess ' * 8}'", f"join st-mary.invite --words '{wrong}'"]
    commands += ["invite nobody --words x", "invite --as owner a/b", "join rules.yaml", "join gone.invite"]
    screens.mistakes("mistakes", *commands, home=home)
    screens.show("joined", "join", "st-mary.invite", "--mailbox", clinic, "--words", words)


def test_every_proposed_rule_is_shown_to_its_end(clinic: str) -> None:
    assert clinic
    columns = ", ".join([*(f"value-{number}" for number in range(300)), "surname"])
    Path("rules.yaml").write_text(RULES.replace("[age, sick]", f"[{columns}]"))
    run("invite", "st-mary", "--rules", "rules.yaml", "--home", "clinic")
    result = CliRunner().invoke(app, ["join", "st-mary.invite"])
    assert "surname" in "".join(letter for letter in result.output if letter.isalpha())


def test_a_witness_sees_what_it_promises_before_it_joins(clinic: str) -> None:
    run("init", "trial", "--name", "trial", "--role", "consumer", "--mailbox", clinic)
    run("init", "hub", "--name", "hub", "--role", "curator", "--schema", "schema.yaml")
    with Home(Path("trial")) as home, Home(Path("hub")) as hub:
        home.pins.pin(hub.card, "curator")
    run("invite", "university", "--as", "witness", "--schema", "schema.yaml", "--home", "trial")
    run("invite", "st-mary", "--home", "clinic")
    asked = [run("join", f"{name}.invite", "--mailbox", clinic, code=1) for name in ("university", "st-mary")]
    assert [len(document["promises"]) for document in asked] == [4, 0]


def test_an_introduced_card_is_confirmed_by_the_printed_command(clinic: str) -> None:
    run("init", "trial", "--name", "trial", "--role", "consumer", "--mailbox", clinic)
    run("init", "hub", "--name", "hub", "--role", "curator", "--schema", "schema.yaml")
    with Home(Path("trial")) as home, Home(Path("hub")) as hub:
        home.pins.pin(hub.card, "curator")
        read_out = hub.card.fingerprint
    run("invite", "st-mary", "--schema", "schema.yaml", "--home", "trial")
    run("join", "st-mary.invite", "--mailbox", clinic, code=1)
    (words,) = run("invite", "--home", "trial")["invitations"][0]["words"]
    shown = CliRunner().invoke(app, ["join", "st-mary.invite", "--mailbox", clinic, "--words", words]).output
    assert shown.count("likeset card pin") == 1
    command = " ".join(shown.partition("call it, too, then: likeset ")[2].partition("Next:")[0].split())
    with Home(Path("st-mary")) as home:
        assert home.pins.pinned("curator")[0].introduced_by == "trial"
        run(*shlex.split(command), "--fingerprint", read_out)
        assert not home.pins.pinned("curator")[0].introduced_by


def test_without_an_approved_mailbox_nothing_is_contacted_and_the_reply_is_a_file(clinic: str) -> None:
    assert clinic
    run("invite", "st-mary", "--rules", "rules.yaml", "--home", "clinic")
    run("join", "st-mary.invite", code=1)
    assert not any(Path("mailbox").iterdir())
    assert Path("st-mary/st-mary.reply").stat().st_mode & 0o077 == 0
    wrong = " ".join(["abandon"] * 8)
    confirm = ["invite", "st-mary", "--reply", "st-mary/st-mary.reply", "--home", "clinic"]
    for command in (["join", "st-mary.invite"], confirm):
        assert "nothing was pinned" in mistake(*command, "--words", wrong)
    with Home(Path("st-mary")) as home:
        assert not home.pins.all()


def test_a_reply_travels_as_a_file_from_a_folder_that_is_not_ones_own(clinic: str) -> None:
    assert clinic
    run("invite", "st-mary", "--rules", "rules.yaml", "--home", "clinic")
    Path("share/st-mary.reply").mkdir(parents=True)  # nothing can be written there, not even by root
    Path("st-mary.invite").rename("share/st-mary.invite")
    reply = run("join", "share/st-mary.invite", code=1)["reply"].split()[1]
    answer = ["invite", "st-mary", "--reply", reply, "--home", "clinic"]
    (words,) = run(*answer, code=1)["words"]
    assert run(*answer, "--words", words)["state"] == "joined"
    assert run("join", "share/st-mary.invite", "--words", words)["state"] == "joined"
    with Home(Path("st-mary")) as home:
        assert not home.settings.mailboxes  # nobody approved one


@pytest.mark.parametrize("address", ["s3://bucket/market", "sftp://anna@example.org/market"])
def test_a_store_that_wants_keys_is_not_contacted_before_the_words(
    clinic: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clinic
    monkeypatch.delenv("LIKESET_SFTP_KEY", raising=False)
    run("invite", "st-mary", "--rules", "rules.yaml", "--home", "clinic")
    shown = CliRunner().invoke(app, ["join", "st-mary.invite", "--mailbox", address]).output
    assert "st-mary.reply" in "".join(shown.split())
    assert ("LIKESET_SFTP_KEY" in shown, "AWS" in shown) == (address.startswith("sftp"), address.startswith("s3"))
    with Home(Path("st-mary")) as home:
        assert home.settings.mailboxes == (address,)


def test_the_mailbox_as_the_joiner_reaches_it_stays(clinic: str) -> None:
    own = clinic.replace("/mailbox", "/own-way")
    Path("own-way").symlink_to("mailbox")
    run("invite", "st-mary", "--rules", "rules.yaml", "--home", "clinic")
    run("join", "st-mary.invite", "--mailbox", own, code=1)
    (words,) = run("invite", "--home", "clinic")["invitations"][0]["words"]
    run("join", "st-mary.invite", "--words", words)
    with Home(Path("st-mary")) as home:
        assert home.settings.mailboxes == (own,)


def test_an_open_home_keeps_its_policy_and_mailboxes(clinic: str) -> None:
    run("init", "st-mary", "--name", "st-mary", "--role", "owner", "--mailbox", "file:///elsewhere")
    Path("own.yaml").write_text(RULES.replace("clinic", "other"))
    run("owner", "policy", "put", "own.yaml", "--home", "st-mary")
    Path("st-mary/schema.yaml").write_text(own := SCHEMA.replace("120", "99"))
    run("invite", "st-mary", "--rules", "rules.yaml", "--home", "clinic")
    run("join", "st-mary.invite", "--mailbox", clinic, code=1)
    (words,) = run("invite", "--home", "clinic")["invitations"][0]["words"]
    run("join", "st-mary.invite", "--mailbox", clinic, "--words", words)
    with Home(Path("st-mary")) as home:
        assert home.settings.mailboxes == ("file:///elsewhere",)
        assert Policy.load(home.policy_file).consumers == ("other",)
    assert Path("st-mary/schema.yaml").read_text() == own
    assert Path("st-mary/schema-clinic.yaml").read_text() == SCHEMA


def test_a_file_that_is_no_invitation_is_refused(clinic: str) -> None:
    assert clinic
    Path("x.invite").write_bytes(b"something")
    mistake("join", "x.invite")
    Path("run-1.invitation").write_bytes(signed_terms(terms()))
    assert "terms of a run" in mistake("join", "run-1.invitation")
    Path("st-mary.invite").write_bytes(b"mine")
    mistake("invite", "st-mary", "--rules", "rules.yaml", "--home", "clinic")
    assert Path("st-mary.invite").read_bytes() == b"mine"
