"""Pinned cards: a name means one card, and what was replaced or revoked never comes back."""

import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import IO, Any

import pytest
from trust_world import ALICE, BOB, MALLORY, party

from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.cards import CardSecret, Pin, Pins

Attempt = Callable[[], object]
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
NEW_BOB = party("bob", edition=2)


@pytest.fixture
def pins(tmp_path: Path) -> Pins:
    return Pins(tmp_path / "home" / "cards")


def files(pins: Pins) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in pins.folder.iterdir()} if pins.folder.exists() else {}


def test_a_pinned_card_is_there_for_the_next_process(pins: Pins) -> None:
    pinned = pins.pin(BOB.card, "owner", fingerprint=BOB.card.fingerprint.lower(), now=NOW)
    assert pinned == Pin(BOB.card, "owner", "2026-11-16T12:00:00+00:00")
    again = Pins(pins.folder)
    assert again.get("bob") == again.by_fingerprint(BOB.card.fingerprint) == pinned
    assert again.by_fingerprint(BOB.card.fingerprint.replace("-", "").lower()) == pinned
    assert again.all() == (pinned,)
    (path,) = pins.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nobody_is_pinned_in_a_new_home(pins: Pins) -> None:
    assert pins.get("bob") is None
    assert pins.by_fingerprint(BOB.card.fingerprint) is None
    assert pins.all() == ()
    assert not pins.folder.exists()


def test_times_are_kept_in_one_zone(pins: Pins) -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5)))
    assert pins.pin(BOB.card, "owner", fingerprint=None, now=there).at == "2026-11-16T12:00:00+00:00"


def test_a_wrong_fingerprint_pins_nothing(pins: Pins) -> None:
    letters = BOB.card.fingerprint
    wrong = letters[:6] + ("A" if letters[6] != "A" else "B") + letters[7:]
    with pytest.raises(InvalidArgument, match="letter 1 of group 2 differs"):
        pins.pin(BOB.card, "owner", fingerprint=wrong)
    pins.pin(BOB.card, "owner", fingerprint=None)
    before = files(pins)
    with pytest.raises(InvalidArgument, match="another card"):
        pins.replace(NEW_BOB.card, fingerprint=BOB.card.fingerprint)
    assert files(pins) == before


def test_an_unknown_role_pins_nothing(pins: Pins) -> None:
    with pytest.raises(InvalidArgument, match="role"):
        pins.pin(BOB.card, "banker", fingerprint=None)  # type: ignore[arg-type]
    assert files(pins) == {}


def test_the_same_pin_again_changes_nothing(pins: Pins) -> None:
    first = pins.pin(BOB.card, "owner", fingerprint=None, now=NOW)
    before = files(pins)
    assert pins.pin(BOB.card, "owner", fingerprint=None, now=NOW + timedelta(days=1)) == first
    assert files(pins) == before


def test_a_card_has_one_role(pins: Pins) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None)
    with pytest.raises(InvalidArgument, match="is pinned as owner"):
        pins.pin(BOB.card, "curator", fingerprint=None)


@pytest.mark.parametrize("role", ["owner", "consumer"])
def test_a_name_means_one_card_whatever_its_role(pins: Pins, role: str) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None)
    before = files(pins)
    with pytest.raises(InvalidArgument, match=f"{BOB.card.fingerprint}.*replace it"):
        pins.pin(NEW_BOB.card, role, fingerprint=None)  # type: ignore[arg-type]
    assert files(pins) == before


def test_a_replaced_card_stays_and_never_comes_back(pins: Pins) -> None:
    pins.pin(BOB.card, "curator", fingerprint=None, now=NOW)
    later = NOW + timedelta(days=1)
    new = pins.replace(NEW_BOB.card, fingerprint=NEW_BOB.card.fingerprint, now=later)
    assert new == Pin(NEW_BOB.card, "curator", "2026-11-17T12:00:00+00:00")
    assert pins.get("bob") == new
    old = pins.by_fingerprint(BOB.card.fingerprint)
    assert old == Pin(BOB.card, "curator", new.at, "replaced", by=NEW_BOB.card.fingerprint)
    tries: list[Attempt] = [lambda: pins.pin(BOB.card, "curator", fingerprint=None), lambda: pins.replace(BOB.card)]
    for again in tries:
        with pytest.raises(
            InvalidArgument, match=rf"was replaced by {NEW_BOB.card.fingerprint}.*ask bob for its new card"
        ):
            again()
    assert pins.replace(NEW_BOB.card) == new


def test_a_revoked_card_never_comes_back_but_its_party_may(pins: Pins) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None, now=NOW)
    revoked = pins.revoke("bob", "the laptop was stolen", now=NOW)
    assert (revoked.state, revoked.reason) == ("revoked", "the laptop was stolen")
    assert pins.get("bob") is None
    tries: list[Attempt] = [lambda: pins.pin(BOB.card, "owner", fingerprint=None), lambda: pins.replace(BOB.card)]
    for again in tries:
        with pytest.raises(InvalidArgument, match=r"was revoked .*ask bob to make a new card"):
            again()
    with pytest.raises(InvalidArgument, match="no card of that name is pinned; pin this one"):
        pins.replace(NEW_BOB.card)
    assert pins.pin(NEW_BOB.card, "owner", fingerprint=None, now=NOW).state == "pinned"
    assert {pin.state for pin in pins.all()} == {"revoked", "pinned"}


def test_a_card_can_be_revoked_by_its_fingerprint_after_it_was_replaced(pins: Pins) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None)
    pins.replace(NEW_BOB.card)
    assert pins.revoke(BOB.card.fingerprint.lower(), "the key leaked").state == "revoked"
    assert pins.get("bob") == pins.by_fingerprint(NEW_BOB.card.fingerprint)


def test_what_is_not_pinned_cannot_be_revoked_or_replaced(pins: Pins) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None)
    for name in ("bbo", "Bob", MALLORY.card.fingerprint):
        with pytest.raises(InvalidArgument, match="no card of that name or fingerprint is pinned"):
            pins.revoke(name, "why not")
    with pytest.raises(InvalidArgument, match="did you mean bob"):
        pins.revoke("Bob", "why not")
    with pytest.raises(InvalidArgument, match="reason"):
        pins.revoke("bob", " ")
    with pytest.raises(InvalidArgument, match="pin this one as a new one"):
        pins.replace(ALICE.card)


def test_a_replacement_that_was_interrupted_is_carried_to_its_end(pins: Pins, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its two files no card of the name is pinned; the same command again pins the new one."""
    pins.pin(BOB.card, "owner", fingerprint=None, now=NOW)
    write = Pins._write

    def interrupted(self: Pins, pin: Pin) -> Pin:
        if pin.state == "pinned":
            raise KeyboardInterrupt
        return write(self, pin)

    with monkeypatch.context() as patch:
        patch.setattr(Pins, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pins.replace(NEW_BOB.card, now=NOW)
    assert pins.get("bob") is None
    with pytest.raises(InvalidArgument, match="no card of that name is pinned"):
        pins.replace(party("bob", edition=3).card)
    assert pins.replace(NEW_BOB.card, now=NOW) == Pin(NEW_BOB.card, "owner", "2026-11-16T12:00:00+00:00")


def test_what_another_process_changed_is_seen(pins: Pins) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None)
    assert pins.get("bob") is not None
    Pins(pins.folder).revoke("bob", "stolen")
    assert pins.get("bob") is None


def test_a_file_is_opened_when_it_was_written_and_not_at_each_look(pins: Pins, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    really_open = Path.open

    def noted(path: Path, mode: str = "r") -> IO[Any]:
        opened.append(path.name)
        return really_open(path, mode)

    pins.pin(BOB.card, "owner", fingerprint=None)
    pins.pin(ALICE.card, "owner", fingerprint=None)
    here = Pins(pins.folder)
    monkeypatch.setattr(Path, "open", noted)
    for _ in range(3):
        assert here.get("bob") == here.by_fingerprint(BOB.card.fingerprint)
        assert len(here.all()) == 2
    assert sorted(opened) == sorted(f"{party.card.fingerprint}.json" for party in (BOB, ALICE))
    monkeypatch.undo()
    pins.revoke("alice", "stolen")
    monkeypatch.setattr(Path, "open", noted)
    assert [pin.state for pin in here.all()] == ["revoked", "pinned"]
    assert len(opened) == 3


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"owner"', '"banker"', "is damaged"),
        ('"role"', '"rule"', "is damaged"),
        ("{", "", "is damaged"),
        ('"version": 1', '"version": 2', "is damaged"),
        ("name: bob", "name: rob", "name: is not what the card below it says"),
        ("AAAAAAAAAAxs", "AAAAAAAAABxs", "parts|cut off|something else"),
    ],
)
def test_a_damaged_file_is_named(pins: Pins, old: str, new: str, reason: str) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None)
    path = pins.folder / f"{BOB.card.fingerprint}.json"
    text = path.read_text(encoding="ascii")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="ascii")
    looks: list[Attempt] = [lambda: pins.get("bob"), lambda: pins.by_fingerprint(BOB.card.fingerprint)]
    for look in looks:
        with pytest.raises(BadDocument, match=reason) as refused:
            look()
        assert str(path) in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("cards", [(BOB, NEW_BOB), (NEW_BOB, BOB)])
def test_where_an_old_file_was_put_back_the_older_of_two_counts(
    pins: Pins, cards: tuple[CardSecret, CardSecret]
) -> None:
    """Whatever order the files lie in: of the two cases one is in the other order."""
    older, newer = cards
    pins.pin(older.card, "owner", fingerprint=None, now=NOW)
    before = files(pins)
    pins.replace(newer.card, now=NOW + timedelta(hours=1))
    for name, data in before.items():
        (pins.folder / name).write_bytes(data)
    found = pins.get("bob")
    assert found is not None
    assert found.card == older.card


def test_a_link_to_nowhere_is_named(pins: Pins) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None)
    link = pins.folder / f"{NEW_BOB.card.fingerprint}.json"
    link.symlink_to(link.name)
    for look in (pins.all, lambda: pins.by_fingerprint(NEW_BOB.card.fingerprint)):
        with pytest.raises(BadDocument, match=link.name):
            look()


def test_a_file_under_another_name_is_refused(pins: Pins) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None)
    path = pins.folder / f"{BOB.card.fingerprint}.json"
    path.rename(pins.folder / f"{MALLORY.card.fingerprint}.json")
    with pytest.raises(BadDocument, match="another card than its name says"):
        pins.by_fingerprint(MALLORY.card.fingerprint)


def test_what_was_begun_when_a_process_was_killed_is_no_pin(pins: Pins) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None)
    (pins.folder / f".{ALICE.card.fingerprint}.json.0123abcd").write_text("{", encoding="ascii")
    assert [pin.card.name for pin in pins.all()] == ["bob"]


def test_a_pin_is_readable_by_people_and_programs(pins: Pins) -> None:
    pins.pin(BOB.card, "owner", fingerprint=None, now=NOW)
    content = json.loads((pins.folder / f"{BOB.card.fingerprint}.json").read_text(encoding="ascii"))
    assert content["role"] == "owner"
    assert content["card"] == BOB.card.to_text()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "cards").write_text("", encoding="ascii")
    with pytest.raises(BadDocument, match="cannot be made"):
        Pins(tmp_path / "cards").pin(BOB.card, "owner", fingerprint=None)
