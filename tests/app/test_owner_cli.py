"""``likeset owner`` as a steward and as a program would use it, from an empty directory to rows that left."""

import hashlib
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from home_world import (
    CONSUMER,
    SCHEMA,
    Clock,
    Network,
    Outside,
    answer,
    charged,
    give_card,
    introduce,
    invite,
    make_owner,
    rows_text,
    secret_of,
    signed_text,
    terms,
    write_policy,
)
from typed import document, mistake, run
from typer.testing import CliRunner

from likeset.app import cli
from likeset.errors import HomeRestored, IllegalMessage
from likeset.homes.home import RESERVE_BYTES, RESERVE_FILE, Home, utc_now
from likeset.homes.owner import open_owner
from likeset.ledger.ledger import Ledger
from likeset.protocol.terms import Terms
from likeset.trust.cards import read_card

FAR = {"expires": "2099-01-01"}
RUN = terms(**FAR)
CLINIC, CURATOR = (secret_of(name).card.fingerprint for name in ("new-clinic", "curator"))


def ask(folder: Path, asked: Terms = RUN) -> str:
    """Let a pinned consumer ask; the state of the run."""
    with open_owner(folder) as owner:
        return invite(owner, asked).state


def know(folder: Path) -> None:
    with Home(folder) as home:
        introduce(home, RUN)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A home with a policy and rows, made by commands."""
    folder = tmp_path / "a"
    (tmp_path / "rows.csv").write_text(rows_text(1))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    run("init", folder, "--name", "a", "--role", "owner")
    write_policy(folder)
    run("owner", "data", "add", "patients", tmp_path / "rows.csv", "--schema", tmp_path / "schema.yaml", home=folder)
    give_card(folder, "a")
    know(folder)
    return folder


def test_from_an_empty_directory_to_rows_in_letters(node: Path) -> None:
    assert document("check", home=node)["ok"]
    assert ask(node) == "waiting"
    (waiting,) = document("owner", "inbox", home=node)["runs"]
    assert (waiting["run"], waiting["rows"], waiting["status"]) == ("run-1", 12, "waiting")
    reviewed = document("owner", "review", "run-1", home=node)
    assert reviewed["budgets"]["rows"] == {"spent": 0, "run": 12, "after": 12, "limit": 36}
    trial = document("owner", "dry-run", "run-1", "--show", 99, home=node)
    assert (trial["exact"], trial["rows"], len(trial["shown"])) == (False, 12, 12)
    assert document("owner", "approve", "run-1", "--by", "Ada", home=node)["approved"]
    assert document("owner", "inbox", home=node)["runs"] == []
    with open_owner(node) as opened:
        outside, letters = answer(opened, RUN)
    left = document("owner", "outbox", "run-1", "--rows", home=node)
    (letter,) = left["letters"]
    assert (letter["kind"], letter["rows"], letter["state"]) == ("offer", 12, "sent")
    assert (letter["to"], letter["receipt"]) == ("curator", "no")
    assert hashlib.sha256(outside.read(letters[0]).data).hexdigest() == letter["sha256"]
    exact = document("owner", "dry-run", "run-1", "--show", 99, home=node)
    assert exact["exact"]
    assert [{"run": "run-1", **row} for row in exact["shown"]] == left["rows"], "what a dry run shows is what left"
    budget = document("owner", "budget", home=node)
    assert budget["rows"] == {"spent": 12, "limit": 36}
    assert [(one["toward"], one["rows"]) for one in budget["history"]] == [("curator", 12)]
    assert document("owner", "audit", "verify", home=node)["ok"]
    assert document("owner", "withdraw", "run-1", home=node) == {"run": "run-1", "withdrawn": True}
    assert document("owner", "inbox", "--all", home=node)["runs"][0]["status"] == "closed: you withdrew"
    with open_owner(node) as opened, pytest.raises(IllegalMessage):
        opened.mail.hear(Outside(opened, RUN).ask(2))


def test_on_a_full_disk_a_steward_reads_and_denies_and_learns_what_is_full(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has as much room as the reserve takes while it is there."""
    ask(node)
    reserve = node / RESERVE_FILE
    with Home(node) as home:
        home.keep_reserve()
    size, room = reserve.stat().st_size, [RESERVE_BYTES - 1, 4096]
    assert size == RESERVE_BYTES
    usage = shutil.disk_usage(node)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=room[reserve.exists()]))
    for words in (("inbox",), ("review", "run-1"), ("deny", "run-1", "--reason", "no")):
        told = run("owner", *words, home=node)
        assert re.search(rf"the disk of {re.escape(str(node))} is full", " ".join(told.stderr.split()))
        assert reserve.stat().st_size == size - 1, "set aside again, as large as the room"
    assert document("owner", "inbox", "--all", home=node)["runs"][0]["status"] == "denied"


def test_runs_that_cannot_be_read_are_listed_as_such(node: Path) -> None:
    text = terms(**FAR, run="old").to_json().replace('"size":6', '"size":12000')
    text = text.replace('"protocol":"sealed"', '"protocol":"interactive"')
    with open_owner(node) as opened:
        known = invite(opened, terms(**FAR, run="old"))
        with opened.home.deciding() as t:  # as terms of an older likeset, which this version refuses
            t.connection.execute("UPDATE runs SET signed = ? WHERE digest = ?", (signed_text(text), known.digest))
    ask(node)
    for every in ([], ["--all"]):
        listed = document("owner", "inbox", *every, home=node)["runs"]
        assert {one["run"]: one["status"] for one in listed} == {"run-1": "waiting", "old": "cannot be read here"}
    mistake("owner", "review", "old", home=node)
    assert document("owner", "audit", "verify", home=node)["ok"]


def test_terms_must_be_looked_at_before_they_are_approved_and_do_not_change(node: Path) -> None:
    ask(node)
    assert "nobody has reviewed it" in mistake("owner", "approve", "run-1", home=node)
    run("owner", "review", "run-1", home=node)
    assert document("owner", "approve", "run-1", home=node)["digest"] == terms(**FAR).digest


def test_what_the_policy_refuses_cannot_be_approved_and_exit_codes_say_so(node: Path) -> None:
    asked = terms(consumer="stranger", purpose="fun \x1b[31m[red]x[/]", **FAR)
    assert ask(node, asked) == "invited"
    (listed,) = document("owner", "inbox", home=node)["runs"]
    assert (listed["status"], len(listed["reasons"])) == ("your rules refuse it", 2)
    shown = run("owner", "review", "run-1", home=node).stdout
    assert "\x1b[31m" not in shown, "a stranger's words do nothing to the screen"
    assert r"fun \x1b[31m[red]x[/]" in shown
    assert len(document("owner", "approve", "run-1", home=node, code=1)["reasons"]) == 2
    assert document("owner", "deny", "run-1", "--reason", "who?", "--by", "Ada", home=node)["denied"]
    assert document("owner", "inbox", "--all", home=node)["runs"][0]["status"] == "denied"


def test_whoever_only_looks_changes_neither_log_nor_ledger(node: Path) -> None:
    """Also where owner.yaml was changed since something was last decided by it: that is not in the log yet."""

    def head() -> str:
        with Ledger(node / "home.sqlite", read_only=True) as ledger:
            return str(ledger.head())

    ask(node)
    run("owner", "review", "run-1", home=node)
    run("owner", "approve", "run-1", home=node)
    with open_owner(node) as opened:
        answer(opened, RUN)
    write_policy(node, total={"epsilon": 1, "delta": 1e-6, "rows": 100, "relation": "replace-one"})
    before = head()
    looks = [
        ("owner", "inbox", "--all"),
        ("owner", "outbox", "run-1", "--rows"),
        ("owner", "audit", "verify"),
        ("check",),
    ]
    for words in looks:
        run(*words, home=node)
        assert head() == before, words
    budget = document("owner", "budget", home=node)
    assert (budget["rows"], budget["delta"]) == ({"spent": 12, "limit": 100}, 1e-6), "it is read as it is"
    ask(node)
    assert head() == before, "known terms of a run that began are decided by nothing new"


def test_a_steward_can_follow_the_page_word_by_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "for-data-stewards.md").read_text(encoding="utf-8")
    (policy,) = re.findall(r"^```yaml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    typed = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patients.csv").write_text(rows_text(1))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    for file, name in (("clinic.card", "new-clinic"), ("curator.card", "curator")):
        (tmp_path / file).write_text(secret_of(name).card.to_text())
    node, asked = tmp_path / "st-mary", terms(run="sepsis-2026", owners=("st-mary", "b"), **FAR)
    done = []
    for line in typed:
        program, *words = shlex.split(line)
        if program == "export":
            continue
        assert program == "likeset"
        if words[0] == "card":
            told = read_card(tmp_path / words[2]).fingerprint  # by telephone
            words += ["--fingerprint", told]
        result = CliRunner().invoke(cli.app, words, env={"LIKESET_HOME": str(node)})
        assert result.exit_code == 0, (line, result.output, result.exception)
        command = words[1] if words[0] == "owner" else words[0]
        done.append(command)
        if command == "init":
            give_card(node, "st-mary")
            (node / "owner.yaml").write_text(policy)
        with open_owner(node) as opened:
            if command == "check":
                for coming in (asked, replace(asked, run="billing-2026")):
                    assert invite(opened, coming).state == "waiting"
            if command == "approve":
                answer(opened, asked)
    assert {"review", "dry-run", "approve", "deny", "outbox", "budget", "audit", "withdraw"} <= set(done)


# Who asks: cards in the inbox and in a review, invitations in files, and a restored home.


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    return make_owner(tmp_path)


@pytest.mark.parametrize("fault", ["open", "lost"])
def test_nothing_is_approved_under_keys_that_cannot_sign(alone: Path, fault: str) -> None:
    know(alone)
    ask(alone)
    secret = alone / "card.secret"
    if fault == "open":
        secret.chmod(0o644)
    else:
        secret.unlink()
    (reason,) = document("owner", "review", RUN.run, home=alone)["reasons"]
    assert reason.startswith(str(secret))
    assert not document("owner", "approve", RUN.run, code=1, home=alone)["approved"]
    assert document("owner", "inbox", home=alone)["runs"], "it still waits"


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """A home that was restored from a backup, and then found a letter in its mailbox that it wrote since."""
    folder, clock = tmp_path / "a", Clock(utc_now())
    with Network(tmp_path, clock=clock) as network:
        network.ask(RUN)
        network.turn(CONSUMER, "a")
        network.owner().approve(RUN.run, RUN.digest, by="Ada")
    shutil.copytree(folder, tmp_path / "backup")
    with Network(tmp_path, made=True, clock=clock) as network:
        network.turn("a")  # posts what it signs
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    with Network(tmp_path, made=True, clock=clock) as network, pytest.raises(HomeRestored):
        network.turn("a")
    return folder


def test_a_home_that_was_restored_says_so_wherever_somebody_would_act(restored: Path) -> None:
    with open_owner(restored) as opened:
        before = charged(opened)
    checks = {check["check"]: check for check in document("check", code=1, home=restored)["checks"]}
    assert not checks["home"]["ok"]
    stopped = document("owner", "inbox", code=1, home=restored)["stopped"]
    assert stopped
    assert stopped in " ".join(run("owner", "inbox", code=1, home=restored).stderr.split())
    assert document("owner", "review", RUN.run, home=restored)["stopped"] == stopped
    for command in (
        ("approve", RUN.run),
        ("deny", RUN.run, "--reason", "no"),
        ("withdraw", RUN.run),
    ):
        assert stopped in mistake("owner", *command, home=restored)
    with open_owner(restored) as opened:
        assert charged(opened) == before


def test_a_revocation_names_the_runs_that_it_ended(alone: Path) -> None:
    know(alone)
    ask(alone)
    revoked = document("card", "revoke", CONSUMER, "--reason", "stolen", home=alone)
    assert (revoked["state"], revoked["ended_runs"]) == ("revoked", [RUN.run])
