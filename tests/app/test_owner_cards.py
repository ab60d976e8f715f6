"""Who asks, as a steward sees it: cards in the inbox and in a review, invitations in files, and a restored home."""

import shutil
from pathlib import Path

import pytest
from home_world import CONSUMER, Clock, Network, charged, introduce, make_owner, secret_of, signed_terms, terms
from typed import document, mistake, run

from likeset.errors import HomeRestored
from likeset.homes.home import Home, utc_now
from likeset.homes.owner import open_owner
from likeset.protocol.terms import Terms

RUN = terms(expires="2099-01-01")
CLINIC, CURATOR = (secret_of(name).card.fingerprint for name in ("new-clinic", "curator"))


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return make_owner(tmp_path)


def know(node: Path) -> None:
    """Pin everybody of the run."""
    with Home(node) as home:
        introduce(home, RUN)


def invitation(tmp_path: Path, asked: Terms = RUN) -> Path:
    path = tmp_path / f"{asked.run}.invitation"
    path.write_bytes(signed_terms(asked))
    return path


def test_who_is_not_pinned_is_shown_with_what_to_do_and_cannot_be_approved(node: Path, tmp_path: Path) -> None:
    assert document("owner", "inbox", "--add", invitation(tmp_path), home=node)["added"] == "invited"
    (listed,) = document("owner", "inbox", home=node)["runs"]
    assert listed["status"] == "the consumer's card is not pinned"
    assert [(party["role"], party["name"], party["fingerprint"], party["state"]) for party in listed["parties"]] == [
        ("consumer", "new-clinic", CLINIC, "not pinned"),
        ("curator", "", CURATOR, "not pinned"),
    ]
    assert "new-clinic (not pinned)" in run("owner", "inbox", home=node).stdout
    shown = run("owner", "review", RUN.run, home=node).stdout.replace("\n", " ")
    assert f"Who asks? new-clinic, card {CLINIC}, NOT PINNED: the card of the consumer is not pinned here" in shown
    assert f"Who curates? Somebody, card {CURATOR}, NOT PINNED" in shown
    assert "compare the fingerprint with them by telephone, then pin it with `likeset card pin`" in shown
    refused = document("owner", "approve", RUN.run, code=1, home=node)
    assert [reason.partition(" is not")[0] for reason in refused["reasons"]] == [
        "the card of the consumer",
        "the card of the curator",
    ]
    know(node)
    assert document("owner", "approve", RUN.run, home=node)["approved"]


@pytest.mark.parametrize("name", ["terms.json", "terms.yaml", "terms.invitation"])
def test_terms_that_nobody_signed_are_not_added_and_it_says_what_to_ask_for(
    node: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text(RUN.to_json())
    said = mistake("owner", "inbox", "--add", tmp_path / name, home=node)
    assert name in said
    assert "nothing proves who asks; ask the consumer for the file RUN.invitation" in said
    assert "there is no such file" in mistake("owner", "inbox", "--add", tmp_path / "gone", home=node)
    assert document("owner", "inbox", "--all", home=node)["runs"] == []


@pytest.mark.parametrize("fault", ["open", "lost"])
def test_nothing_is_approved_under_keys_that_cannot_sign(node: Path, tmp_path: Path, fault: str) -> None:
    know(node)
    run("owner", "inbox", "--add", invitation(tmp_path), home=node)
    secret = node / "card.secret"
    if fault == "open":
        secret.chmod(0o644)
    else:
        secret.unlink()
    (reason,) = document("owner", "review", RUN.run, home=node)["reasons"]
    assert "card.secret: " in reason
    assert ("chmod 600 it" if fault == "open" else "restore them from a copy") in reason
    assert not document("owner", "approve", RUN.run, code=1, home=node)["approved"]
    assert document("owner", "inbox", home=node)["runs"], "it still waits"


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


def test_a_home_that_was_restored_says_so_wherever_somebody_would_act(restored: Path, tmp_path: Path) -> None:
    with open_owner(restored) as opened:
        before = charged(opened)
    words = "this home was restored from an old backup"
    checks = {check["check"]: check for check in document("check", code=1, home=restored)["checks"]}
    assert (checks["home"]["ok"], words in checks["home"]["detail"]) == (False, True)
    assert words in document("owner", "inbox", code=1, home=restored)["stopped"]
    assert words in run("owner", "inbox", code=1, home=restored).stderr
    assert words in document("owner", "review", RUN.run, home=restored)["stopped"]
    other = invitation(tmp_path, terms(run="run-2", expires="2099-01-01"))
    assert words in document("owner", "inbox", "--add", other, code=1, home=restored)["reason"]
    for command in (
        ("approve", RUN.run, "--terms", RUN.digest),
        ("deny", RUN.run, "--reason", "no"),
        ("withdraw", RUN.run),
    ):
        assert words in mistake("owner", *command, home=restored)
    with open_owner(restored) as opened:
        assert charged(opened) == before


def test_a_revocation_names_the_runs_that_it_ended(node: Path, tmp_path: Path) -> None:
    know(node)
    document("owner", "inbox", "--add", invitation(tmp_path), home=node)
    revoked = document("card", "revoke", CONSUMER, "--reason", "stolen", home=node)
    assert (revoked["state"], revoked["ended_runs"]) == ("revoked", [RUN.run])
