"""Every home has a card from the start; which cards it pins and revokes, in one transaction with its log."""

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from home_world import NOON, Clock, logged, make_owner, opened, secret_of

from likeset.errors import BadDocument, InvalidArgument
from likeset.homes import checkup
from likeset.homes.home import Home, Pins, make_home, make_party
from likeset.trust.cards import CARD_FILE, SECRET_FILE, Card, CardSecret, Pin, Role

THEN = datetime(2026, 7, 1, 12, tzinfo=UTC)
ROLES: tuple[Role, ...] = ("owner", "consumer", "curator", "witness")


def made(folder: Path, role: Role = "owner", *, name: str = "party-1", **options: Any) -> Home:
    return make_home(folder, name=name, roles=(role,), **options)


def card_of(name: str) -> Card:
    return CardSecret.generate(name).card


def files(folder: Path) -> dict[str, bytes]:
    """All but the files of the database."""
    paths = (path for path in folder.rglob("*") if path.is_file() and "sqlite" not in path.name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    with made(tmp_path / "home") as home:
        before = files(home.folder)
        with pytest.raises(InvalidArgument, match=r"^card"):
            home.make_card(by="Ada")
        (home.folder / CARD_FILE).unlink()
        with pytest.raises(InvalidArgument, match=r"^card"):
            home.make_card(by="Ada")
        with pytest.raises(BadDocument):
            _ = home.card
        assert files(home.folder) == {path: data for path, data in before.items() if path != CARD_FILE}


def test_a_new_card_after_a_theft_keeps_the_old_one_beside_it(tmp_path: Path) -> None:
    made(tmp_path / "home", name="a").close()
    with Home(tmp_path / "home", clock=lambda: THEN) as home:
        old, keys = home.card, (home.folder / SECRET_FILE).read_bytes()
        (home.folder / SECRET_FILE).chmod(0o644)  # how it was stolen; that must not prevent a new one
        card, before = home.make_card(by="Ada", new=True)
        assert home.card == card
        assert (card.name, card.fingerprint != old.fingerprint) == ("a", True)
        assert {path.name: path.read_bytes() for path in before} == {
            "card.secret.until-20260701T120000Z": keys,
            "card.until-20260701T120000Z": old.to_text().encode("ascii"),
        }
        entry = logged(home, "card")[-1]
        assert (entry["state"], entry["fingerprint"], entry["by"]) == ("own", card.fingerprint, "Ada")
        with pytest.raises(InvalidArgument, match=r"^card"):
            home.make_card(by="Ada", new=True)
        assert home.card == card


def test_consumer_and_own_curator_pin_each_others_new_cards(tmp_path: Path) -> None:
    with (
        make_party(tmp_path / "clinic", name="clinic", roles=["consumer", "curator"]) as outer,
        Home(tmp_path / "clinic" / "curator") as inner,
    ):
        outer.make_card(by="Ada", new=True)
        inner.make_card(by="Ada", new=True)
        assert [pin.card for pin in inner.pins.pinned("consumer")] == [outer.card]
        assert [pin.card for pin in outer.pins.pinned("curator")] == [inner.card]


def test_a_new_card_under_another_name_leaves_no_old_one_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_party(tmp_path / "clinic", name="clinic", roles=["consumer", "curator"]).close()
    monkeypatch.setattr(Home, "name", "hospital")  # as home.yaml says now
    with Home(tmp_path / "clinic") as outer, Home(tmp_path / "clinic" / "curator") as inner:
        outer.make_card(by="Ada", new=True)
        assert [pin.card for pin in inner.pins.pinned("consumer")] == [outer.card]


def test_a_name_that_no_card_may_have_is_found_in_the_settings(tmp_path: Path) -> None:
    made(tmp_path / "home", name="clinic").close()
    file = tmp_path / "home" / "home.yaml"
    file.write_text(file.read_text().replace("name: clinic", "name: the clinic"))
    with Home(tmp_path / "home") as home, pytest.raises(BadDocument, match="line 3: name"):
        _ = home.settings


@pytest.mark.parametrize("lost", [CARD_FILE, SECRET_FILE])
def test_a_new_card_where_half_of_the_old_one_is_left(tmp_path: Path, lost: str) -> None:
    with made(tmp_path / "home", "consumer") as home:
        (home.folder / lost).unlink()
        card, before = home.make_card(by="Ada", new=True)
        assert (home.card, len(before)) == (card, 1)


def test_pinning_and_revoking_are_in_the_log(tmp_path: Path) -> None:
    old, new = card_of("clinic"), card_of("clinic")
    with made(tmp_path / "home", name="a") as home:
        home.pins.pin(old, "consumer", fingerprint=old.fingerprint, by="Ada")
        home.pins.pin(old, "consumer", by="Ada")  # no change, and no entry
        home.pins.revoke("clinic", "keys stolen", by="Ada")
        home.pins.pin(new, "consumer", by="Ada")
        home.pins.revoke("clinic", "moved away", by="Ada")
        told = ("state", "name", "role", "fingerprint", "by", "reason")
        first, second = old.fingerprint, new.fingerprint
        assert [tuple(entry.get(word, "") for word in told) for entry in logged(home, "card")[1:]] == [
            ("pinned", "clinic", "consumer", first, "Ada", ""),
            ("revoked", "clinic", "consumer", first, "Ada", "keys stolen"),
            ("pinned", "clinic", "consumer", second, "Ada", ""),
            ("revoked", "clinic", "consumer", second, "Ada", "moved away"),
        ]
        assert home.pins.get("clinic") is None


def test_a_pin_that_the_log_does_not_take_is_not_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the second statement is written: neither the entry nor the pin is there."""
    with made(tmp_path / "home") as home:
        before, write = (home.pins.all(), home.database.head()), home.pins._write

        def full(*words: Any) -> Any:
            write(*words)
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(home.pins, "_write", full)
        with pytest.raises(OSError, match="No space left"):
            home.pins.pin(card_of("clinic"), "consumer")
        assert (home.pins.all(), home.database.head()) == before


def test_a_home_does_not_pin_its_own_card_or_name(tmp_path: Path) -> None:
    with made(tmp_path / "home", "consumer", name="clinic") as home:
        for card in (home.card, card_of("clinic")):
            with pytest.raises(InvalidArgument, match=r"^card"):
                home.pins.pin(card, "owner")
        home.pins.pin(card_of("st-mary"), "owner")


# The check of a home.


def check_of(home: Home, name: str) -> tuple[bool, str]:
    (check,) = (check for check in checkup.checkup(home) if check.check == name)
    return check.ok, check.detail


def test_the_check_sees_a_wrong_clock_a_full_disk_and_an_open_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_owner(tmp_path)
    with opened(folder, clock=lambda: datetime(2029, 1, 1, tzinfo=UTC)) as owner:
        owner.home.note("data", "")
    with opened(folder, clock=lambda: THEN) as owner:
        assert check_of(owner.home, "clock")[0] is False
        assert check_of(owner.home, "directory") == (True, "private")
        folder.chmod(0o755)
        assert check_of(owner.home, "directory")[0] is False
        free = type("Usage", (), {"free": 1000})
        monkeypatch.setattr("shutil.disk_usage", lambda _: free)
        assert check_of(owner.home, "disk (home)")[0] is False


def test_the_check_of_a_witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "worker_python", lambda folder: folder)
    monkeypatch.setattr(checkup, "try_worker", lambda _: {"spu": "0.9", "python": "3.11"})
    with made(tmp_path / "home", "witness", listen="127.0.0.1:0") as home:
        faults = {check.check for check in checkup.checkup(home) if not check.ok}
        assert faults == {"pinned cards", "mailboxes"}
        for name, role in (("clinic", "consumer"), ("hub", "curator")):
            home.pins.pin(card_of(name), role)  # type: ignore[arg-type]
        assert check_of(home, "pinned cards")[0]
        assert check_of(home, "workers") == (True, check_of(home, "workers")[1])
        assert check_of(home, "tunnels")[0]
        with socket.create_server(("127.0.0.1", 0)) as taken:
            settings = home.folder / "home.yaml"
            text = settings.read_text().replace("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}")
            settings.write_text(text)
            assert check_of(home, "tunnels")[0] is False


BOB, MALLORY = (secret_of(name).card for name in ("bob", "mallory"))
NEW_BOB = CardSecret.generate("bob").card
AT = f"{NOON:%Y-%m-%d}T12:00:00+00:00"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    make_home(tmp_path / "home", name="clinic", roles=("consumer",)).close()
    with Home(tmp_path / "home", clock=Clock()) as found:
        yield found


@pytest.fixture
def pins(home: Home) -> Pins:
    return home.pins


def refuses(pins: Pins, reason: str, *attempts: Callable[[], object]) -> None:
    """Each attempt fails for this reason, and changes nothing."""
    before = pins.all()
    for attempt in attempts:
        with pytest.raises(InvalidArgument, match=reason):
            attempt()
    assert pins.all() == before


def test_a_pinned_card_is_there_for_the_next_process(home: Home, pins: Pins) -> None:
    assert (pins.get("bob"), pins.by_fingerprint(BOB.fingerprint), pins.all()) == (None, None, ())
    pinned = pins.pin(BOB, "owner", fingerprint=BOB.fingerprint.lower())
    assert pinned == Pin(BOB, "owner", AT)
    with Home(home.folder) as again:
        assert again.pins.get("bob") == again.pins.by_fingerprint(BOB.fingerprint) == pinned
        assert again.pins.by_fingerprint(BOB.fingerprint.replace("-", "").lower()) == pinned
        assert again.pins.all() == (pinned,)
        again.pins.revoke("bob", "stolen")
    assert pins.get("bob") is None, "what another process changed is seen"


def test_a_wrong_fingerprint_or_role_pins_nothing(pins: Pins) -> None:
    letters = BOB.fingerprint
    wrong = letters[:6] + ("A" if letters[6] != "A" else "B") + letters[7:]
    refuses(pins, "groups differ: 2", lambda: pins.pin(BOB, "owner", fingerprint=wrong))
    refuses(pins, "role", lambda: pins.pin(BOB, "banker"))  # type: ignore[arg-type]
    refuses(pins, "groups differ", lambda: pins.pin(NEW_BOB, "owner", fingerprint=BOB.fingerprint))


def test_a_name_means_one_card_and_a_card_has_one_role(pins: Pins) -> None:
    first = pins.pin(BOB, "owner")
    assert pins.pin(BOB, "owner") == first, "the same pin again changes nothing"
    refuses(pins, "is pinned as owner; a card has one role here", lambda: pins.pin(BOB, "curator"))
    assert "with the role owner" in pins.fault("curator", BOB.fingerprint)
    named = f"{BOB.fingerprint}.*revoke that one first"
    refuses(pins, named, lambda: pins.pin(NEW_BOB, "owner"), lambda: pins.pin(NEW_BOB, "consumer"))


def test_a_new_card_of_an_own_curator_belongs_to_the_same_consumer(pins: Pins) -> None:
    pins.pin(BOB, "curator", belongs_to="alice")
    pins.revoke("bob", "a new card")
    assert pins.pin(NEW_BOB, "curator").belongs_to == "alice"


def test_a_revoked_card_never_comes_back_but_its_party_may(pins: Pins) -> None:
    pins.pin(BOB, "owner")
    revoked = pins.revoke("bob", "the laptop was stolen")
    assert (revoked.state, revoked.reason, pins.get("bob")) == ("revoked", "the laptop was stolen", None)
    assert pins.is_given_up(BOB.fingerprint)
    assert "was revoked here" in pins.fault("owner", BOB.fingerprint)
    reason = "was revoked .*ask bob for a new card"
    refuses(pins, reason, lambda: pins.pin(BOB, "owner"))
    assert pins.pin(NEW_BOB, "owner").state == "pinned"
    assert {pin.state for pin in pins.all()} == {"revoked", "pinned"}


def test_what_is_not_pinned_cannot_be_revoked(pins: Pins) -> None:
    pins.pin(BOB, "owner")
    for name in ("bbo", "Bob", MALLORY.fingerprint):
        refuses(pins, "no card of that name is pinned", lambda name=name: pins.revoke(name, "why not"))  # type: ignore[misc]
    refuses(pins, "did you mean bob", lambda: pins.revoke("Bob", "why not"))
    refuses(pins, "reason", lambda: pins.revoke("bob", " "))
