"""``likeset card`` as two people use it who compare fingerprints by telephone, and its complaints."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typed
from typer.testing import Result

from likeset.app.cli import card as card_commands
from likeset.homes.home import Home, make_home
from likeset.trust.cards import SECRET_FILE


@dataclass(frozen=True)
class World:
    place: Path
    node: Home
    clinic: Home
    hub: Home

    def run(self, *words: object, code: int = 0, answers: str | None = None) -> Result:
        return typed.run("card", *words, code=code, answers=answers)

    def document(self, *words: object) -> Any:
        return typed.document("card", *words)

    def pin(self, party: Home, role: str, *, at: Home) -> None:
        self.run("pin", party.card_file, "--as", role, "--home", at.folder, "--fingerprint", party.card.fingerprint)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(
        tmp_path,
        make_home(tmp_path / "st-mary", name="st-mary", roles=("owner",)),
        make_home(tmp_path / "clinic", name="clinic", roles=("consumer",)),
        make_home(tmp_path / "hub", name="hub", roles=("curator",)),
    )


@pytest.fixture
def complaint(world: World) -> Any:
    """What is said about a mistake: one line, and nothing in any home is touched."""

    def said(*words: object) -> str:
        before = files(world.place)
        line = typed.mistake("card", *words)
        assert line.isprintable(), ascii(line)
        assert files(world.place) == before
        return line

    return said


def files(place: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def groups_shown(text: str) -> str:
    """The fingerprint as it stands on a screen, with the numbers of its groups."""
    found = re.findall(r"\b([1-8]) ([A-Z2-7]{5})\b", text)
    assert [number for number, _ in found] == list("12345678")
    return "-".join(group for _, group in found)


def test_a_card_is_exported_pinned_listed_and_shown(world: World) -> None:
    sent, own = world.place / "clinic.card", world.clinic.card
    world.run("show", "--home", world.clinic.folder, "--export", sent)
    assert sent.read_text(encoding="ascii") == own.to_text()
    heard = own.fingerprint.replace("-", " ").lower()
    at_node = ("--home", world.node.folder)
    pinned = world.document("pin", sent, "--as", "consumer", "--fingerprint", heard, *at_node)
    assert (pinned["name"], pinned["role"], pinned["state"]) == ("clinic", "consumer", "pinned")
    assert world.document("show", sent, *at_node)["role"] == "consumer"
    assert own.fingerprint in world.run("list", *at_node).stdout
    (listed,) = world.document("list", *at_node)["cards"]
    assert listed == {key: pinned[key] for key in listed}
    assert world.document("pin", sent, "--as", "consumer", *at_node) == pinned, "nobody has to be called twice"
    assert world.document("list", "--home", world.hub.folder)["cards"] == []


def test_a_new_card_is_pinned_after_the_old_one_was_revoked(world: World, complaint: Any) -> None:
    at_node = ("--home", world.node.folder)
    world.pin(world.clinic, "consumer", at=world.node)
    old = world.place / "old.card"
    world.run("show", "--home", world.clinic.folder, "--export", old)
    assert len(world.document("make", "--new", "--home", world.clinic.folder)["notes"]) == 3
    new = world.clinic.card_file
    given = ("--fingerprint", world.clinic.card.fingerprint, *at_node)
    complaint("pin", new, "--as", "consumer", *given)
    world.run("revoke", "clinic", "--reason", "keys \x1b[31mstolen[/]", *at_node)
    world.run("pin", new, "--as", "consumer", *given)
    states = {entry["fingerprint"]: entry["state"] for entry in world.document("list", *at_node)["cards"]}
    assert sorted(states.values()) == ["pinned", "revoked"]
    assert r"keys \x1b[31mstolen[/]" in world.run("list", *at_node).stdout
    complaint("pin", old, "--as", "consumer", *at_node)


def test_the_curator_of_a_revoked_consumer_is_revoked_by_the_printed_command(world: World) -> None:
    world.pin(world.clinic, "consumer", at=world.node)
    world.node.pins.pin(world.hub.card, "curator", belongs_to="clinic")
    shown = world.run("revoke", "clinic", "--reason", "keys stolen", "--home", world.node.folder).stdout
    typed.run(*shlex.split(shown.partition("belongs to it: likeset ")[2]))
    assert {entry["state"] for entry in world.document("list", "--home", world.node.folder)["cards"]} == {"revoked"}


def test_a_person_at_a_terminal_compares(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_commands, "at_terminal", lambda: True)
    at_node = ("--home", world.node.folder)
    own = world.clinic.card.fingerprint
    words = ("pin", world.clinic.card_file, "--as", "consumer", *at_node)
    for answer in ("\n", "no\n"):
        said = world.run(*words, code=1, answers=answer).stdout
        assert groups_shown(said) == own
    world.run(*words, code=1, answers="")  # Ctrl-D
    assert world.node.pins.all() == ()
    wrong = ("B" if own[0] == "A" else "A") + own[1:]
    said = world.run(*words, answers=f"{wrong}\n{own.lower()}\n").output
    assert "groups differ: 1" in said
    assert [pin.card for pin in world.node.pins.all()] == [world.clinic.card]
    world.run("pin", world.hub.card_file, "--as", "curator", *at_node, answers="YES\n")
    assert world.hub.card in [pin.card for pin in world.node.pins.all()]


def test_what_cannot_be_pinned_is_said_before_anybody_telephones(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_commands, "at_terminal", lambda: True)
    world.pin(world.clinic, "consumer", at=world.node)
    for words in (
        ["pin", world.clinic.card_file, "--as", "curator"],
        ["pin", world.hub.card_file, "--as", "boss"],
        ["pin", world.node.card_file, "--as", "owner"],
    ):
        result = world.run(*words, "--home", world.node.folder, code=1, answers="yes\n")
        assert isinstance(result.exception, ValueError), result.output
        assert "fingerprint" not in result.stdout


def test_somebody_who_sent_their_keys_is_to_be_told(world: World, complaint: Any) -> None:
    secret = world.clinic.folder / SECRET_FILE
    said = complaint("pin", secret, "--as", "consumer", "--home", world.node.folder)
    assert not any(line in said for line in secret.read_text().splitlines()[1:])
